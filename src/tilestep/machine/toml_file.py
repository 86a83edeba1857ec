"""A TOML file as tables, read within bounds: whoever gets a machine's file from somebody else may open it."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any, Final

from tilestep.errors import SpecError
from tilestep.files import read_file
from tilestep.messages import plain

_MOST_BYTES: Final = 2**20  # of a file: some hundred times the size of a file with every field
_MOST_BARE: Final = 2**16  # characters of it beside strings, comments and blanks; one with every field has 2,000
_MOST_PARTS: Final = 32  # of a dotted key; tomllib takes a time that grows with the square of their number
_MOST_CHARACTERS: Final = 1000  # of a number or bare key; Python refuses to read numbers of more than 4,300 digits
_STRING_OR_COMMENT: Final = re.compile(  # one that does not end goes to the end of the line, or of the text
    r"""
      \"{3} (?: [^"\\] | \\. | "{1,2}(?!") )*+ (?: "{3,5} | \Z )
    | '{3} (?: [^'] | '{1,2}(?!') )*+ (?: '{3,5} | \Z )
    | " (?: [^"\\\n] | \\[^\n] )*+ "?
    | ' [^'\n]*+ '?
    | \# [^\n]*+
    """,
    re.VERBOSE | re.DOTALL,
)
_DOTTED: Final = re.compile(r"[\w \t.-]+")
_WORD: Final = re.compile(r"\w+")


def read_toml(path: Path) -> dict[str, Any]:
    """The tables of a TOML file.

    Raises: SpecError naming the file, and the line where there is one, if it cannot be read, is too large or is no TOML.
    """
    file = plain(path)
    try:
        text = read_file(path, most_bytes=_MOST_BYTES).decode("utf-8-sig")  # some editors begin a file with a byte-order mark
    except OSError as error:
        raise SpecError(f"{file}: the machine's description cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise SpecError(f"{file}: this is no TOML: {error}") from error
    _require_bounded(file, text)
    try:
        return tomllib.loads(text)
    except RecursionError:  # without its thousand frames
        raise SpecError(f"{file}: arrays or tables are nested too deep; the deepest table of a machine is [ipu.tile]") from None
    except ValueError as error:  # TOMLDecodeError is one
        raise SpecError(f"{file}: this is no TOML: {plain(error)}") from error


def _require_bounded(file: str, text: str) -> None:
    """Raises: SpecError for keys and numbers that tomllib or Python would take too long for."""
    bare = _STRING_OR_COMMENT.sub(lambda found: "\n" * found[0].count("\n"), text)
    for number, line in enumerate(bare.split("\n"), 1):
        where = f"{file}: line {number}"
        if line.count(".") >= _MOST_PARTS and max(key.count(".") for key in _DOTTED.findall(line)) >= _MOST_PARTS:
            raise SpecError(f"{where}: a key has more than {_MOST_PARTS} parts, where a field of a machine has three at most")
        if len(line) > _MOST_CHARACTERS and max(map(len, _WORD.findall(line)), default=0) > _MOST_CHARACTERS:
            key = plain(line.partition("=")[0].strip()[:100])
            raise SpecError(f"{where}: {key} has more than {_MOST_CHARACTERS:,} digits or letters in a row, which no machine needs")
    size = len("".join(bare.split()))
    if size > _MOST_BARE:
        raise SpecError(f"{file}: keys and values have {size:,} characters beside strings: a machine needs no more than {_MOST_BARE:,}")
