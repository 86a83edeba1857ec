"""Reads models that may be hostile, in a process of its own: `python -m tests.unit.onnx.hostile FOLDER SEED COUNT FILE...`.

It prints a line of JSON of the files, and one of so many damaged models: what went wrong, which error each ended in, and how many in which.
FOLDER has the files; nothing outside of it may be opened.
"""

import collections
import faulthandler
import json
import os
import re
import resource
import sys
import time
import traceback
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np

from tests.unit.onnx.mutants import mutants
from tilestep.onnx import OnnxError, OnnxModel, import_onnx
from tilestep.onnx.reading.load import checked_by_onnx

MOST_CPU_S: Final = 10.0
HUNG_WALL_S: Final = 300.0
MOST_BYTES: Final = 2 << 30
_MOST_INPUTS: Final = 10_000  # elements of inputs of a model that is also run
_CHECKED: Final = 20  # one of so many sound ones is shown to ONNX's checker
_LIBRARIES: Final = tuple({os.path.realpath(path) for path in (sys.prefix, sys.base_prefix, "src", "tests")})
_SYSTEM: Final = re.compile(r"/proc/.*|/dev/null|/sys/.*|pipe:.*")


class Opened:
    """What this process opens beside `folder` and the libraries that Python loads."""

    def __init__(self, folder: Path) -> None:
        self._folder = os.path.realpath(folder)
        self.outside: list[str] = []
        sys.addaudithook(self._heard)

    def _heard(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event != "open" or not isinstance(arguments[0], str | bytes | os.PathLike):
            return
        path = os.fsdecode(arguments[0])
        inside = "/" not in path and path not in (".", "..")  # a name, opened relative to a descriptor of the folder
        real = os.path.realpath(path)
        if not (inside or real.startswith((self._folder, *_LIBRARIES)) or _SYSTEM.fullmatch(path)):
            self.outside.append(path)


def _inputs(model: OnnxModel) -> list[Any] | None:
    """Ones for each input, 2 for a size that is free; None for a model that is too large to run here."""
    given: list[Any] = []
    total = 0
    for spec in model.inputs:
        shape = [size if isinstance(size, int) else 2 for size in spec.shape or ()]
        total += int(np.prod(shape, dtype=np.float64)) if shape else 1
        if total > _MOST_INPUTS:
            return None
        array = np.ones(shape, np.float32 if spec.dtype is None else spec.dtype)
        given.append([array, array] if spec.kind == "sequence" else array)
    return given


def tried(path: Path, *, check: bool) -> str:
    """The error that a model ends in, or "sound"."""
    try:
        model = import_onnx(path)
        model.summary()
        if check:
            checked_by_onnx(model.loaded)
        given = _inputs(model)
        if given is not None:
            model(*given)
    except (OnnxError, OSError) as error:
        require_plain(str(error))
        return type(error).__name__
    return "sound"


def require_plain(message: str) -> None:
    """Raises: AssertionError for a message that says nothing, or pages."""
    assert 10 < len(message) < 11_000, message[:200]


def wrong(files: Iterable[tuple[str, Path]], ends: dict[str, str], opened: Opened) -> Iterator[str]:
    """What is not as it should be. Args: files: (name, path). ends: gets the error that each ends in."""
    for number, (name, path) in enumerate(files):
        faulthandler.dump_traceback_later(HUNG_WALL_S, exit=True)
        start, before = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        try:
            ends[name] = tried(path, check=number % _CHECKED == 0)
        except BaseException as error:
            yield f"{name}: {type(error).__name__}: {traceback.format_exc()[-1500:]}"
        took, grown = time.process_time() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        if took > MOST_CPU_S:
            yield f"{name}: took {took:.1f} s of a CPU"
        if grown << 10 > MOST_BYTES:
            yield f"{name}: took {grown >> 10:,} MiB"
        if opened.outside:
            yield f"{name}: opened {opened.outside}"
            opened.outside.clear()
    faulthandler.cancel_dump_traceback_later()


def written(folder: Path, seed: int, count: int) -> Iterator[tuple[str, Path]]:
    """Mutants, one after the other in the same file."""
    path = folder / "model.onnx"
    for number, content in enumerate(mutants(seed, count)):
        path.write_bytes(content)
        yield f"mutant {number} of seed {seed}", path


def main(folder: str, seed: str, count: str, *names: str) -> None:
    """See the module."""
    here, opened = Path(folder), Opened(Path(folder))
    for files in ([(name, here / name) for name in names], written(here, int(seed), int(count))):
        ends: dict[str, str] = {}
        found = list(wrong(files, ends, opened))
        print(json.dumps({"wrong": found, "ends": ends, "counts": collections.Counter(ends.values())}))


if __name__ == "__main__":
    main(*sys.argv[1:])
