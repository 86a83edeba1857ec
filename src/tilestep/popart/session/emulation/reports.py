"""Reports of a session: recordings, files, and what each IPU does as text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from tilestep.advice.evidence import Evidence
from tilestep.advice.rules import evidence_of
from tilestep.advice.stages import pipelines
from tilestep.errors import RecordingError
from tilestep.figures.file_names import MEMORY_FILE, PAGE_FILE, PROGRAM_FILE
from tilestep.figures.quantities import bytes_text, share_text, time_text
from tilestep.files import filled_directory
from tilestep.pjrt.running.program_source import ProgramSource
from tilestep.popart.session.emulation.notes import Notes
from tilestep.popart.session.emulation.program import EmulatedProgram
from tilestep.profiling.measurement import Measurement
from tilestep.profiling.program_reports import ProgramReports
from tilestep.recording.tables import Tables
from tilestep.sim import TileUse
from tilestep.views.files import tell_unwritten, unwritten, write_report

_WORK: Final = ("compute", "exchange", "sync", "collective")
_BESIDE: Final = ("io-in", "io-out")  # over I/O tiles, while the others compute
_HEAD: Final = ("IPU", "stages", "works", "host", "waits", "fullest tile")


def told(measurement: Measurement, uses: Sequence[TileUse], program: EmulatedProgram) -> str:
    """The summary of a session, with a table of its stages behind the first lines if it has any. Args: uses: of the tiles, by IPU."""
    text = measurement.profile.summary()
    if program.num_ipus == 1:
        return text
    head, gap, rest = text.partition("\n\n")
    return f"{head}\n\n{stages_text(measurement, uses, program)}{gap}{rest}"


def stages_text(measurement: Measurement, uses: Sequence[TileUse], program: EmulatedProgram) -> str:
    """Of each IPU its stages, the shares of emulated time in which it works, and waits for the host and for others, and its memory."""
    whole, spent = measurement.profile.emulated_cycles, measurement.profile.cycles_by_ipu
    rows: list[tuple[str, ...]] = [_HEAD]
    for ipu, stages in _stages(program).items():
        kinds = spent.get(ipu, {})
        works = sum(cycles for kind, cycles in kinds.items() if kind in _WORK)
        host = sum(cycles for kind, cycles in kinds.items() if kind not in (*_WORK, *_BESIDE))
        shares = [share_text(cycles, whole) for cycles in (works, host, max(whole - works - host, 0))]
        rows.append((str(ipu), ", ".join(map(str, stages)), *shares, bytes_text(uses[ipu].peak_bytes)))
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    lines = ["  " + "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    return "\n".join(["Stages, and what their IPUs do", *lines, *_slowest(measurement)])


def _stages(program: EmulatedProgram) -> dict[int, list[int]]:
    """IPU -> its stages, of all replicas."""
    found: dict[int, list[int]] = {}
    for replica in range(program.replicas):
        for stage, device in enumerate(program.schedule.device_mapping):
            found.setdefault(replica * program.num_ipus + program.ipus[device], []).append(stage)
    return dict(sorted(found.items()))


def _slowest(measurement: Measurement) -> list[str]:
    """Which stage is the slowest, if several ran."""
    evidence: Evidence | None = evidence_of(measurement.profile)
    lines: list[str] = []
    for pipeline in () if evidence is None else pipelines(measurement.profile, evidence):
        assert evidence is not None  # else there would be no pipeline
        slowest = max(range(len(pipeline.busy)), key=lambda stage: pipeline.busy[stage])
        times = ", ".join(f"{time_text(evidence.seconds(cycles))} for stage {stage}" for stage, cycles in enumerate(pipeline.busy[:16]))
        more = f" and {len(pipeline.busy) - 16} more" if len(pipeline.busy) > 16 else ""
        lines.append(
            f"  Stage {slowest} is the slowest. Supersteps, streams and exchanges between IPUs of a microbatch take {times}{more}."
        )
    return lines


def tables_of(measurement: Measurement) -> Tables:
    """The recording of a measurement, with what its options ask for, and at least all that a reader needs."""
    return measurement.recording(lines=True, hlo=measurement.engine.serialized_graph)


def write_programs(notes: Notes, sources: Mapping[int, ProgramSource]) -> None:
    """Writes the folders of programs if the options ask for them. Args: sources: what they were planned from, by key."""
    reports = ProgramReports(notes.engine)
    for key, source in sources.items():
        reports.compiled(source, key)


def write_unfit(notes: Notes, key: int, source: ProgramSource) -> str:
    """Writes the folder of a program that does not fit, if there is a place for reports.

    Returns: the path of its recording; '' if there is no place, or none can be written.
    """
    path = ProgramReports(notes.engine).does_not_fit(source, key)
    return path.removesuffix(MEMORY_FILE) + PROGRAM_FILE if path.endswith(MEMORY_FILE) else ""


def write(notes: Notes, measured: Callable[[], Measurement]) -> None:
    """Writes the recording, the profile and its summary if the options ask for them. A file that cannot be written is a line on stderr.

    Args: measured: what the session did; asked only if something is written.
    """
    engine = notes.engine
    if engine.directory is None or not engine.execution_profile:
        return
    measurement = measured()
    try:
        recording = measurement.recording(lines=engine.debug_info, hlo=engine.serialized_graph, memory=engine.graph_profile)
        with filled_directory(engine.directory) as directory:
            without_page = write_report(measurement.profile, directory, recording=recording, lines=not engine.hides_lines)
        tell_unwritten(without_page)
        notes.page = None if without_page else engine.directory / PAGE_FILE
    except (OSError, RecordingError) as error:
        tell_unwritten(unwritten(error))
