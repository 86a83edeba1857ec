"""Lines of the user's program, with the calls that led to them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from tilestep.errors import RecordingError
from tilestep.plan.frames import user_frames
from tilestep.plan.steps import Frame
from tilestep.recording.tables import Tables


@dataclass(frozen=True, kw_only=True, eq=False)
class SourceLine:
    """One line of a program.

    Attributes:
        file: path of the source file; '' if unknown.
        function: its name.
        line: in the file, from 1; 0: unknown.
        column: in the line, from 1; 0: unknown.
        caller: the line that called the function; None: there is none, or it is unknown.
    """

    file: str
    function: str
    line: int
    column: int
    caller: SourceLine | None = field(default=None, repr=False)

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"

    @property
    def stack(self) -> Iterator[SourceLine]:
        """This line, its caller, and so on outwards."""
        line: SourceLine | None = self
        while line is not None:
            yield line
            line = line.caller


def lines_of_frames(frames: Sequence[Frame]) -> tuple[SourceLine | None, ...]:
    """For each number of a frame the line that the user wrote: itself, or the innermost caller outside of installed packages.

    Args: frames: frame number n is `frames[n - 1]`; callers come before whom they call.
    """
    lines: list[SourceLine | None] = [None]
    for frame in frames:
        lines.append(SourceLine(file=frame.file, function=frame.function, line=frame.line, column=frame.column, caller=lines[frame.parent]))
    return tuple(lines[number] for number in user_frames(frames))


def lines_of_table(tables: Tables) -> tuple[SourceLine | None, ...]:
    """The same for the rows of table `frames`; row 0 is None. Raises: RecordingError if one calls itself."""
    strings = (*tables.strings, "")  # -1 is none
    names = ("file", "function", "line", "column", "parent")
    rows: list[list[int]] = np.stack([tables.column("frames", name) for name in names], axis=1).tolist()
    frames: list[Frame] = []
    for row, (file, function, line, column, parent) in enumerate(rows):
        if parent >= max(row, 1):
            raise RecordingError(f"column 'frames/parent' has {parent} in row {row}: callers come before whom they call")
        if row:
            frames.append(Frame(file=strings[file], function=strings[function], line=line, column=column, parent=max(parent, 0)))
    return lines_of_frames(frames)
