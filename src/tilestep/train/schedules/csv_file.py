"""Schedules as comma-separated values: what a schedule is beside its tasks in lines of comment, then a row of tasks for each device.

# tilestep schedule 1
# name: "grouped"
# levels: [[0], [1]]
# device_mapping: [0, 1]
# devices: 2
# microbatches: 1
# weights: "same"
# serial: false
0F0,0B0,0U
1F0,1B0,1U

Each value is JSON. Rows without these lines are what PyTorch's `torch.distributed.pipelining` reads and writes (`_load_csv`, `_dump_csv`).
"""

from __future__ import annotations

import csv
import io
import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, cast

from tilestep.messages import plain, shortened, shown
from tilestep.train.schedules.tasks import WEIGHTS, Task

_TITLE: Final = "# tilestep schedule "
_VERSION: Final = "1"


@dataclass(frozen=True, kw_only=True)
class Header:
    """What a schedule is beside its tasks; the names are those of Schedule's attributes.

    Attributes: devices: how many rows of tasks follow.
    """

    name: str
    levels: tuple[tuple[int, ...], ...]
    device_mapping: tuple[int, ...]
    devices: int
    microbatches: int
    weights: str
    serial: bool


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _are_numbers(value: object) -> bool:
    return isinstance(value, list) and all(map(_is_number, cast("list[object]", value)))


class _Value(NamedTuple):
    """What a value must be: in code, and in words."""

    can_be: Callable[[Any], bool]
    must: str


_VALUES: Final[Mapping[str, _Value]] = {
    "name": _Value(lambda value: isinstance(value, str), 'text in quotation marks, such as "grouped"'),
    "levels": _Value(
        lambda value: isinstance(value, list) and all(map(_are_numbers, cast("list[object]", value))),
        "a list of lists of stages, such as [[0], [1, 2], [3]], where 1 and 2 are concurrent",
    ),
    "device_mapping": _Value(_are_numbers, "a list with each stage's device, such as [0, 1, 2]"),
    "devices": _Value(_is_number, "a whole number, such as 3"),
    "microbatches": _Value(_is_number, "a whole number, such as 6"),
    "weights": _Value(lambda value: value in WEIGHTS, " or ".join(map(json.dumps, WEIGHTS))),
    "serial": _Value(lambda value: isinstance(value, bool), "true or false"),
}


def written(header: Header | None, rows: Iterable[Iterable[str]]) -> str:
    """The text. Args: header: None: rows alone."""
    text = io.StringIO()
    if header is not None:
        text.write(f"{_TITLE}{_VERSION}\n")
        for key in _VALUES:
            text.write(f"# {key}: {json.dumps(getattr(header, key))}\n")
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def read(text: str) -> tuple[Header | None, tuple[tuple[Task, ...], ...], int]:
    """(None if there are rows alone, the tasks of each device, the line of the first row).

    Raises: TypeError for what is no text, ValueError that names line and value for text that is no schedule.
    """
    if not isinstance(text, str):
        raise TypeError(f"text is a {type(text).__name__}: it must be a CSV file's text, such as Path(...).read_text()")
    lines = io.StringIO(text.removeprefix("\N{ZERO WIDTH NO-BREAK SPACE}"), newline=None).readlines()  # any kind of line ends
    if not lines:
        raise ValueError("line 1: the text is empty: it must have a row of tasks for each device")
    if not lines[0].startswith("#"):
        try:
            return None, tuple(_tasks(lines, 1)), 1
        except ValueError as error:
            if len(lines) > 1 or "," in text:
                raise
            raise ValueError(f"{error}; if it is a file's name, give the file's text: Path(...).read_text()") from None
    header, count = _header([line.rstrip("\n") for line in lines])
    rows = tuple(_tasks(lines[count:], count + 1))
    if len(rows) != header.devices:
        raise ValueError(
            f"line {len(lines)}: the text ends after {len(rows)} rows of tasks, but devices is {header.devices}: there must be a row for "
            "each, an empty line for a device without tasks"
        )
    return header, rows, count + 1


def _header(lines: Sequence[str]) -> tuple[Header, int]:
    """What the lines at the begin say, and how many they are."""
    version = lines[0].removeprefix(_TITLE)
    if version == lines[0]:
        raise ValueError(
            f"line 1 is {shown(lines[0])}: it must be '{_TITLE}{_VERSION}', or a device's tasks, such as 0F0,0B0 (rows without "
            "any lines of comment)"
        )
    if version.strip() != _VERSION:
        raise ValueError(
            f"line 1 is {shown(lines[0])}: this tilestep reads version {_VERSION} of the form; let the tilestep that has written "
            "it write rows alone, to_csv(tasks_only=True), or use that one"
        )
    values: dict[str, Any] = {}
    for number, line in enumerate(itertools.takewhile(lambda line: line.startswith("#"), lines[1:]), start=2):
        key, value = _entry(line, number)
        if key in values:
            raise ValueError(f"line {number} is {shown(line)}: {key} stands in a line before, and each is given once")
        values[key] = value
    count = 1 + len(values)
    missing = [key for key in _VALUES if key not in values]
    if missing:
        raise ValueError(f"line {count + 1}: the comment ends without '# {missing[0]}: ...', which must be {_VALUES[missing[0]].must}")
    return Header(**values), count


def _entry(line: str, number: int) -> tuple[str, Any]:
    key, _, text = line.removeprefix("#").partition(":")
    key = key.strip()
    if key not in _VALUES:
        raise ValueError(f"line {number} is {shown(line)}: it must be '# key: value', with one of the keys {', '.join(_VALUES)}")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):  # no JSON, a number of thousands of digits, or lists within lists without end
        value = ...
    if not _VALUES[key].can_be(value):
        raise ValueError(f"line {number}: {key} is {plain(shortened(text.strip()))}: it must be {_VALUES[key].must}")
    return key, _as_tuples(value)


def _as_tuples(value: object) -> Any:
    return tuple(map(_as_tuples, cast("list[Any]", value))) if isinstance(value, list) else value


def _tasks(lines: Sequence[str], first: int) -> Iterator[tuple[Task, ...]]:
    """Each row's tasks. Args: first: the number of the first line."""
    rows = csv.reader(lines, strict=True)
    try:
        for row in rows:
            yield tuple(Task.parse(cell) for cell in row if cell.strip())
    except (csv.Error, ValueError) as error:
        raise ValueError(f"line {first + max(rows.line_num, 1) - 1}: {error}") from None
