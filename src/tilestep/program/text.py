"""Brackets, quotes and escapes in XLA's text form."""

import re
from functools import cache

from tilestep.errors import HloError

_CLOSER = {"(": ")", "{": "}", "[": "]", '"': '"'}


@cache
def _stops(opener: str) -> re.Pattern[str]:
    """Matches a bracket, its end, and strings, inside which brackets mean nothing. One without an end is the rest of the text."""
    return re.compile(rf'[{re.escape(opener + _CLOSER[opener])}]|"(?:[^"\\]|\\.)*+"?', re.S)


_STRING_END = re.compile(r'(?:[^"\\]|\\.)*"', re.S)
_PIECE = re.compile(r'[(){}\[\],]|"(?:[^"\\]|\\.)*+"?', re.S)
_ESCAPE = re.compile(rb"\\([0-7]{1,3}|.)", re.S)
_NAMED = {b"n": b"\n", b"r": b"\r", b"t": b"\t"}


def closing(text: str, position: int, opener: str) -> int:
    """Index of the bracket that closes `opener`, which stands before `position`.

    Args: opener: '(', '{', '[' or '"'.
    Raises: HloError if it is never closed.
    """
    if opener == '"':
        end = _STRING_END.match(text, position)
        if end is None:
            raise HloError(f"a string has no end: {text[position - 1 : position + 60]!r}")
        return end.end() - 1
    depth = 1
    closer = _CLOSER[opener]
    for found in _stops(opener).finditer(text, position):
        token = found.group()
        if token == opener:
            depth += 1
        elif token == closer:
            depth -= 1
            if depth == 0:
                return found.start()
    raise HloError(f"{opener!r} is never closed: {text[max(position - 1, 0) : position + 60]!r}")


def split_top_level(text: str) -> list[str]:
    """Parts of `text` between commas that stand in no bracket and no string; [] for blank text."""
    parts: list[str] = []
    depth = start = 0
    for found in _PIECE.finditer(text):
        token = found.group()
        if token in "({[":
            depth += 1
        elif token in ")}]":
            depth -= 1
        elif token == "," and depth == 0:
            parts.append(text[start : found.start()].strip())
            start = found.end()
    last = text[start:].strip()
    return [*parts, last] if last else parts


def unescape(text: str) -> str:
    """Undoes C escapes; text outside ASCII is printed as octal UTF-8 bytes."""
    if "\\" not in text:
        return text
    return _ESCAPE.sub(_unescaped, text.encode("utf-8", "replace")).decode("utf-8", "replace")


def _unescaped(found: re.Match[bytes]) -> bytes:
    code = found[1]
    return bytes([int(code, 8) & 0xFF]) if code.isdigit() and code < b"8" else _NAMED.get(code, code)
