"""Lines of source files that the text of a module names, each with the line that called it.

XLA prints four tables below a module's first line. Every operation's metadata may have the number of a row of the last one.

    FileNames            1 "/home/me/train.py"
    FunctionNames        1 "loss"
    FileLocations        1 {file_name_id=1 function_name_id=1 line=14 end_line=14 column=9 end_column=43}
    StackFrames          1 {file_location_id=1 parent_frame_id=0}

Columns count from 0 there, and an `end_column` of 0 says that they are not known.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from tilestep.program.text import unescape

_TITLE = re.compile(r"\n*(FileNames|FunctionNames|FileLocations|StackFrames)\n")
_NAME = re.compile(r'(\d{1,9}) "((?:[^"\\]|\\.)*)"\n', re.S)  # with the line breaks that a name has
_ROW = re.compile(r"(\d{1,9}) \{([\w= ]*)\}\n")
_FIELD = re.compile(r"(\w+)=(\d{1,9})\b")


@dataclass(frozen=True, kw_only=True)
class Frame:
    """A line of a source file, and the line that called it."""

    file: str  # path of the file; '' if unknown
    function: str  # name of the function; '' if unknown
    line: int  # in the file, from 1; 0 if unknown
    column: int  # in the line, from 1; 0 if unknown
    parent: int  # number of the caller's frame, from 1; 0 if there is none


def parse_frames(text: str, position: int) -> tuple[Mapping[int, Frame], int]:
    """Reads the tables of frames.

    Args: position: in the text, at the end of the module's first line.
    Returns: the frames by their numbers, and the position behind the tables. Rows that refer to no row have unknown parts.
    """
    names: dict[str, dict[int, str]] = {"FileNames": {}, "FunctionNames": {}}
    rows: dict[str, dict[int, dict[str, int]]] = {"FileLocations": {}, "StackFrames": {}}
    while title := _TITLE.match(text, position):
        position = title.end()
        if title[1] in names:
            while row := _NAME.match(text, position):
                names[title[1]][int(row[1])] = unescape(row[2])
                position = row.end()
        else:
            while row := _ROW.match(text, position):
                rows[title[1]][int(row[1])] = {key: int(value) for key, value in _FIELD.findall(row[2])}
                position = row.end()
    frames = rows["StackFrames"]
    # jaxlib 0.10 prints one more than the number of the parent, other versions the number: some frame has no parent
    none = min((row.get("parent_frame_id", 0) for row in frames.values()), default=0)
    found: dict[int, Frame] = {}
    for number, row in frames.items():
        place = rows["FileLocations"].get(row.get("file_location_id", 0), {})
        found[number] = Frame(
            file=names["FileNames"].get(place.get("file_name_id", 0), ""),
            function=names["FunctionNames"].get(place.get("function_name_id", 0), ""),
            line=place.get("line", 0),
            column=place.get("column", 0) + 1 if place.get("end_column", 0) else 0,
            parent=row.get("parent_frame_id", 0) - none,
        )
    return MappingProxyType(found), position


def without_frames(text: str) -> str:
    """The text of a module without the tables, so that it names no line and no file."""
    start = text.find("\n")
    if start < 0:
        return text
    _, end = parse_frames(text, start)
    return text[:start] + text[end:]
