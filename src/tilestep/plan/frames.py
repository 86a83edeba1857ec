"""The lines of a program's source: those that its steps and values come from, and the one among their callers that the user wrote."""

import contextlib
import functools
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import Final

from tilestep.files import read_file
from tilestep.program.frames import Frame

# JAX and this package where they are installed and where their sources are checked out; Python's modules without a file.
_NEVER = re.compile(
    r"(?:^|/)(?:(?:site|dist)-packages/(?:jax|jaxlib|tilestep)/|jax/(?:_src|experimental|interpreters)/"
    r"|src/tilestep/(?:(?:cli|legacy|onnx|pjrt|popart|tensorflow|train)/|(?:hints|profiling|__init__|__main__)\.py$))|^<frozen |^$"
)
_INSTALLED = re.compile(r"(?:^|/)(?:site|dist)-packages/|/lib/python\d[\d.]*/")  # and Python's own modules
OF_USER: Final = 2  # the rank of a file
_MOST_RECORD_BYTES: Final = 1 << 24


class Frames:
    """Numbers the frames that a program uses, in the order of their first use, callers before what they call.

    Attributes:
        kept: those frames; frame number n is `kept[n - 1]`.
    """

    def __init__(self, table: Mapping[int, Frame]) -> None:
        self.kept: list[Frame] = []
        self._table = table
        self._numbers: dict[int, int] = {0: 0}

    def number(self, frame: int) -> int:
        """The number of a frame in `kept`; 0 if the module's table has no such frame."""
        number = self._numbers.get(frame)
        return self._add(frame) if number is None else number

    def _add(self, frame: int) -> int:
        """Keeps a frame and its callers. A frame that is its own caller ends there."""
        chain: dict[int, Frame] = {}
        while frame not in self._numbers and frame not in chain and (found := self._table.get(frame)) is not None:
            chain[frame] = found
            frame = found.parent
        number = self._numbers.get(frame, 0)
        for each, found in reversed(chain.items()):
            self.kept.append(replace(found, parent=number))
            number = self._numbers[each] = len(self.kept)
        return number


def user_frame(frames: Sequence[Frame], frame: int) -> int:
    """The number of the line that the user wrote: the innermost one outside of installed packages.

    If all lines are in installed packages, the innermost one outside of JAX and of this package.

    Args:
        frames: of a program; frame number n is `frames[n - 1]`.
        frame: number of the line that made a step or a value; 0 if unknown.

    Returns:
        A number; 0 if there is no such line.
    """
    beside = 0
    for number in stack(frames, frame):
        rank = rank_of_file(frames[number - 1].file)
        if rank == OF_USER:
            return number
        beside = beside or (number if rank else 0)
    return beside


def user_frames(frames: Sequence[Frame]) -> list[int]:
    """For each number of a frame, from 0, that of the line that the user wrote, as `user_frame` gives it, in one pass.

    Args: frames: of a program, callers before whom they call. A caller that is not is none.
    """
    of_user, beside = [0], [0]
    for number, frame in enumerate(frames, 1):
        rank, caller = rank_of_file(frame.file), frame.parent if 0 < frame.parent < number else 0
        of_user.append(number if rank == OF_USER else of_user[caller])
        beside.append(number if rank else beside[caller])
    return [own or other for own, other in zip(of_user, beside, strict=True)]


def own_frames(frames: Sequence[Frame]) -> list[int]:
    """The numbers of the frames that are lines which the user wrote, in their order."""
    return [number for number, own in enumerate(user_frames(frames)) if number and number == own]


@functools.lru_cache(maxsize=4096)
def rank_of_file(file: str) -> int:
    """Who wrote a file: 2 for the user, 1 for whoever wrote an installed package or Python's own modules, 0 for JAX and this package."""
    place = file if _INSTALLED.search(file) else _as_installed(file)
    return 0 if _NEVER.search(place) else 1 if _INSTALLED.search(place) else 2


def _as_installed(file: str) -> str:
    """A file that `pip install --target FOLDER` has put into a folder of any name, as if that were site-packages; others as they are."""
    path = PurePath(file)
    for folder in path.parents if path.is_absolute() else ():
        if (place := path.relative_to(folder).as_posix()) in _installed_in(str(folder)):
            return f"site-packages/{place}"
    return file


@functools.lru_cache(maxsize=1024)
def _installed_in(folder: str) -> frozenset[str]:
    """Files that the packages in a folder list as theirs; none if the folder is not there, or holds no packages."""
    found: set[str] = set()
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            if name.endswith(".dist-info"):
                with contextlib.suppress(OSError):
                    record = read_file(os.path.join(folder, name, "RECORD"), most_bytes=_MOST_RECORD_BYTES)
                    found.update(row.rsplit(",", 2)[0].strip('"') for row in record.decode(errors="replace").splitlines())
    return frozenset(found)


def stack(frames: Sequence[Frame], frame: int) -> list[int]:
    """Numbers of a frame and of its callers, innermost first. It ends at a number that is no frame's, or for the second time."""
    found: dict[int, None] = {}
    while 0 < frame <= len(frames) and frame not in found:
        found[frame] = None
        frame = frames[frame - 1].parent
    return list(found)
