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

import jax.numpy as jnp
import pytest

from tests.golden.texts import hlo_text
from tests.unit.figures.reader.recorded import liveness, report_of, two_stages
from tests.unit.popart.session import models
from tests.unit.recording.recordings import members_of, zipped
from tilestep import popart, train
from tilestep.cli import main
from tilestep.engine_options import read_engine_options
from tilestep.errors import CheckpointError
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


def test_files_of_machines(tmp_path: Path) -> None:
    file, quoted = tmp_path / "machine.toml", json.dumps(EVIL)
    good = {"inherits": '"bow-2000"', "num_ipus": "4", "ipu.clock_hz": "1.5e9", "ipu.tile.sram_bytes": "1_277_952", "name": '"mine"'}

    def reads() -> Iterator[tuple[str, Callable[[], Any]]]:
        for key in good:
            for name, value in ((quoted, good[key]), (key, quoted), (f"{key}.{quoted}", "1"), (EVIL, "1"), (key, EVIL)):
                text = "\n".join(
                    f"{each} = {given}" for each, given in {**{k: v for k, v in good.items() if k != key}, name: value}.items()
                )
                yield text, lambda text=text: (file.write_text(text), load_machine(str(file)))
        yield "path", lambda: load_machine(str(tmp_path / EVIL / "m.toml"))

    require_plain(reads(), least=25)


def test_engine_options() -> None:
    good = {"autoReport.directory": "x", "debug.allowOutOfMemory": "true", "autoReport.executionProfileProgramRunCount": "2"}
    texts = [*map(json.dumps, documents(good)), json.dumps([EVIL]), json.dumps(EVIL), EVIL, json.dumps({"target.syncMethod": [EVIL]})]
    require_plain(((text, lambda text=text: read_engine_options(text)) for text in texts), least=8)


def test_checkpoints(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def feeds() -> dict[str, Any]:
        return {"feeds": {"in": train.InfeedQueue([1.0, 2.0])}, "outfeeds": {"out": train.OutfeedQueue()}}

    given, state = feeds(), {"w": jnp.arange(3.0)}
    outfeed = given["outfeeds"]["out"]
    train.repeat(2, lambda c, x: (outfeed.enqueue({"loss": x}), c)[1], jnp.zeros(()), given["feeds"]["in"], outfeed)
    with train.Checkpoints(tmp_path) as checkpoints:
        checkpoints.save(1, state, **given)
    file = tmp_path / "process-0" / "1" / "metadata.json"
    whole = json.loads(file.read_text())
    nested = [whole["record"].index(text) for text in whole["record"] if isinstance(text, str) and text.startswith("{")]

    def changed() -> Iterator[Any]:
        yield from documents(whole)
        for place in nested:
            for inner in documents(json.loads(whole["record"][place])):
                yield {**whole, "record": [*whole["record"][:place], json.dumps(inner), *whole["record"][place + 1 :]]}

    def restore(other: Any) -> None:
        file.write_text(json.dumps(other))
        for command in (["checkpoints", str(tmp_path)], ["checkpoints", str(tmp_path), "--verify"]):
            main(command)
        printed = capsys.readouterr()
        assert not RAW.search(printed.out + printed.err), printed
        train.Checkpoints(tmp_path).restore(like=state, **feeds(), step=1)

    require_plain(((repr(other), lambda other=other: restore(other)) for other in changed()), least=20)
    file.write_text(json.dumps(whole))
    require_plain(iter([("like", lambda: train.Checkpoints(tmp_path).restore(like={EVIL: 0}, **feeds()))]), least=1)
    with pytest.raises(CheckpointError):
        restore({})


def test_executables(tmp_path: Path) -> None:
    model, path, evil = models.squares(), tmp_path / "model.popef", tmp_path / f"{EVIL}.popef"
    session = models.inference(model.proto, {model.y: "All"}, device=models.ipu(), prepare=False)
    session.compileAndExport(str(path))
    members = members_of(path.read_bytes())
    (manifest,) = (name for name, data in members.items() if data.startswith(b"{"))

    def load(content: bytes) -> None:
        evil.write_bytes(content)
        session.loadExecutable(str(evil))

    def reads() -> Iterator[tuple[str, Callable[[], Any]]]:
        yield "missing", lambda: session.loadExecutable(str(tmp_path / EVIL))
        yield "no archive", lambda: load(EVIL.encode())
        for other in documents(json.loads(members[manifest])):
            yield repr(other), lambda other=other: load(zipped({**members, manifest: json.dumps(other).encode()}))
        for name in members:
            yield name, lambda name=name: load(zipped({EVIL if own == name else own: data for own, data in members.items()}))
            yield name, lambda name=name: load(zipped({**members, name: EVIL.encode()}))

    require_plain(reads(), least=10)


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
