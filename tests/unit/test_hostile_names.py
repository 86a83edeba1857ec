"""A stranger's file may call anything anything: no error of any reader hands a terminal what it would obey.

Each text of a good file is replaced by one, in turn. tests/unit/onnx has the same for models of ONNX.
"""

import re
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.unit.popart.session import models
from tilestep import popart
from tilestep.train.schedules import from_table, standard

EVIL = "\x1b[31m\x9b2J\n\u202eevil"
RAW = re.compile("[\x1b\x9b\u202e]|\n(?=\\\\u202e)")


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
