"""A stranger's file may call anything anything: no error of any reader hands a terminal what it would obey.

Each text of a good file is replaced by one, in turn. tests/unit/onnx has the same for models of ONNX.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.golden.texts import hlo_text
from tests.unit.figures.reader.recorded import liveness, report_of, two_stages
from tests.unit.popart.session import models
from tests.unit.recording.recordings import members_of, zipped
from tilestep import popart
from tilestep.cli import main
from tilestep.figures.reader import Report
from tilestep.machine import load_machine
from tilestep.plan import lower
from tilestep.program import parse_hlo
from tilestep.recording.container import read_recording, recording_bytes
from tilestep.train.schedules import from_table, standard

EVIL = "\x1b[31m\x9b2J\n\u202eevil"
RAW = re.compile("[\x1b\x9b\u202e]|\n(?=\\\\u202e)")


def documents(value: Any, path: tuple[Any, ...] = ()) -> Iterator[Any]:
    """JSON values, each with another one of its texts, or names of a member, replaced."""
    if isinstance(value, str):
        yield EVIL
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield {EVIL if name == key else name: item for name, item in value.items()}
            for other in documents(inner):
                yield {**value, key: other}
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            for other in documents(inner):
                yield [*value[:number], other, *value[number + 1 :]]


def told(read: Callable[[], Any]) -> str:
    """All that a reader says of a file: its error with its notes and causes that are shown, and warnings."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            read()
        except Exception as error:
            said = [str(error), *getattr(error, "__notes__", ())]
        else:
            said = []
    return "\0".join(said + [str(each.message) for each in warned])


def require_plain(reads: Iterator[tuple[str, Callable[[], Any]]], *, least: int) -> None:
    """At least so many of the reads say something, and none a character that a terminal would obey."""
    said = [(what, told(read)) for what, read in reads]
    assert [(what, text) for what, text in said if RAW.search(text)] == []
    assert sum(bool(text) for _, text in said) >= least, said


def test_texts_of_programs() -> None:
    text, machine = hlo_text("mlp_train_step"), load_machine("bow-2000")
    words = [found.span() for found in re.finditer(r"(?<![\w.])[A-Za-z][\w.-]*", text)]

    def reads() -> Iterator[tuple[str, Callable[[], Any]]]:
        for begin, end in words:
            for evil in (EVIL, EVIL.replace("\n", "")):
                other = text[:begin] + evil + text[end:]
                yield text[begin:end], lambda other=other: parse_hlo(other)
        for name in ("op_name", "source_file"):
            other = re.sub(rf'{name}="[^"]*"', lambda _, name=name: f"{name}={json.dumps(EVIL)}", text)
            yield name, lambda other=other: lower(parse_hlo(other), machine, name=EVIL, num_ipus=9)

    require_plain(reads(), least=400)


def test_schedules() -> None:
    table = standard.grouped(stages=2, microbatches=4).table()

    def reads() -> Iterator[tuple[str, Callable[[], Any]]]:
        for device, row in enumerate(table):
            for place, task in enumerate(row):
                for evil in (EVIL, f"{task}{EVIL}", f"{EVIL}{task}"):
                    other = [*table[:device], [*row[:place], evil, *row[place + 1 :]], *table[device + 1 :]]
                    yield task, lambda other=other: from_table(other)
        yield "name", lambda: from_table([table[0][1:], table[1]], name=EVIL)

    require_plain(reads(), least=50)


def test_recordings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = report_of(two_stages(), runs=2, detail=liveness())
    members, file = members_of(recording_bytes(report.tables)), tmp_path / "run.tilestep"

    def read(content: bytes) -> None:
        file.write_bytes(content)
        main(["report", "show", str(file)])
        printed = capsys.readouterr()
        assert not RAW.search(printed.out + printed.err), printed
        found = Report(read_recording(file))
        for program in found.compilation.programs:
            assert program.nodes
            program.memory.by_category()
        assert found.execution.runs[0].ipus

    def reads() -> Iterator[tuple[str, Callable[[], Any]]]:
        for name, data in members.items():
            if name.endswith(".json"):
                others = [*documents(json.loads(data))]
                for other in others[:: 1 + len(others) // 6]:
                    yield f"{name} {other!r}", lambda name=name, other=other: read(zipped({**members, name: json.dumps(other).encode()}))
            yield name, lambda name=name: read(zipped({EVIL if own == name else own: data for own, data in members.items()}))
            yield name, lambda name=name: read(zipped({**members, name: EVIL.encode()}))

    require_plain(reads(), least=30)


def test_files_for_builders(tmp_path: Path) -> None:
    good = models.squares().proto

    def reads() -> Iterator[tuple[str, Callable[[], Any]]]:
        for content in (
            EVIL.encode(),
            good[: len(good) // 2],
            good.replace(b"MatMul", b"\x1b[31m\n"),
            good.replace(b"MatMul", b"\xc2\x9b31m\n"),
        ):
            path = tmp_path / EVIL
            path.write_bytes(content)
            yield repr(content), lambda path=path: popart.Builder(str(path))
            yield repr(content), lambda content=content: models.inference(content, {"y": "All"}, device=models.ipu(), prepare=False)
        yield "missing", lambda: popart.Builder(str(tmp_path / f"no{EVIL}"))

    require_plain(reads(), least=6)
