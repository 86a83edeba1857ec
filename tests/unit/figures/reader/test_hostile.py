"""Recordings whose numbers make no sense: a named error, or an answer, and each in under a second."""

import io
import json
import random
from functools import lru_cache
from typing import Any

import numpy as np
import pytest

from tests.bounded import ends_soon
from tests.processes import run_python
from tests.unit.figures.reader.recorded import everything, liveness, recorded, run_of, two_stages
from tests.unit.figures.reader.test_system import traced
from tests.unit.recording.recordings import members_of, zipped
from tilestep import RecordingError
from tilestep.figures.comparison import compare
from tilestep.figures.reader import Report
from tilestep.figures.rows import program_row, step_rows
from tilestep.plan.steps import Counts
from tilestep.recording.storage.container import parse_recording, recording_bytes
from tilestep.views.export.chrome import chrome_trace
from tilestep.views.export.timeline import timeline

NUMBERS = (-2, -1, 0, 1, 2, 3, 7, 100, 255, 2**31 - 1, -(2**31), 2**40, 2**62, -(2**62), 2**63 - 1)
OTHERS = (None, "x", [], {}, True, 1.5, 1e300, 2**200)
WHOLE = ("|u1", "|i1", "<u2", "<i2", "<u4", "<i4", "<i8")


@lru_cache
def recordings() -> tuple[bytes, ...]:
    """One with everything that a program can have, one with memory, one of the host."""
    called, counts = everything()
    counted = two_stages(trips=None, site=4)
    detailed = recorded(run_of(counted, runs=3, counts=[Counts(times={(4, 0): 3})]), [counted], {counted.name: liveness()})
    return tuple(map(recording_bytes, (recorded(run_of(called, runs=2, counts=counts), [called]), detailed, traced().tables())))


def changed_column(data: bytes, source: random.Random) -> bytes:
    """A column with some of its elements changed."""
    values = np.load(io.BytesIO(data))
    if values.dtype.kind == "f":
        values[source.randrange(len(values))] = source.choice((float("nan"), float("inf"), -1e308, 0.0))
    else:
        values = values.astype(np.int64)
        for _ in range(source.randint(1, 3)):
            values[source.randrange(len(values))] = source.choice(NUMBERS)
        low, high = int(values.min()), int(values.max())
        values = values.astype(next(each for each in WHOLE if np.iinfo(each).min <= low and high <= np.iinfo(each).max))
    file = io.BytesIO()
    np.lib.format.write_array(file, values, version=(1, 0))
    return file.getvalue()


def changed_text(data: bytes, source: random.Random) -> bytes:
    """A text with one of its values changed."""
    whole: Any = json.loads(data)
    value: Any = whole
    while isinstance(value, list | dict) and value:
        key = source.choice(list(value)) if isinstance(value, dict) else source.randrange(len(value))
        inner = value[key]
        if not (isinstance(inner, list | dict) and inner) or source.random() < 0.15:
            value[key] = source.choice((*NUMBERS, *OTHERS))
            break
        value = inner
    return json.dumps(whole).encode()


def use(report: Report, other: Report) -> None:
    """Asks for everything that is made of a recording."""
    _ = step_rows(report), list(map(program_row, report.programs))
    if "compilation" in report.parts:
        compare(other, report)
        for program in report.compilation.programs:
            if program.detailed:
                memory = program.memory
                _ = memory.peak, list(memory.tiles), list(memory.variables), [step.variables for step in memory.liveness]
    if "execution" in report.parts:
        execution = report.execution
        _ = execution.critical_path(), list(execution.steps), list(execution.blocks(programs=""))
        for lane in execution.lanes:
            list(execution.waits(lane))
        for on_ipu in (on_ipu for run in execution.runs for on_ipu in run.ipus):
            assert sum(span.cycles for span in on_ipu.spans()) == on_ipu.cycles
            assert sum(span.cycles for span in on_ipu.spans(unrolled=True)) == on_ipu.cycles
        traces(report, "emulated")
    if "system" in report.parts:
        system = report.system
        _ = system.series, system.heat_maps
        traces(report, "wall")


def traces(report: Report, clock: Any) -> None:
    found = timeline(report, clock=clock, source=True)
    json.loads(chrome_trace(found))


@pytest.mark.parametrize("seed", range(8))
def test_numbers_that_make_no_sense_give_nothing_but_named_errors(seed: int) -> None:
    source, other = random.Random(seed), Report(parse_recording(recordings()[0]))
    for _ in range(12):
        members = members_of(source.choice(recordings()))
        name = source.choice([name for name in members if name != "manifest.json"])
        change = changed_column if name.endswith(".npy") else changed_text
        data = zipped({**members, name: change(members[name], source)})
        with ends_soon():
            try:
                use(Report(parse_recording(data)), other)
            except RecordingError as error:
                assert len(str(error)) < 4000  # noqa: PT017


@pytest.mark.process
def test_a_program_that_reads_no_recording_does_not_import_the_reader() -> None:
    done = run_python(
        "-c",
        "import sys, tilestep\nread = lambda: 'tilestep.figures.reader' in sys.modules\nprint(read())\ntilestep.open_report\nprint(read())",
    )
    assert done.stdout.split() == ["False", "True"]
