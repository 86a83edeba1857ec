"""Messages between processes: JSON that carries data and nothing else.

None, a bool, an int, a float and a str are what they are in JSON. Of the rest each is a list that begins with its type:

    ["t", ...]  ["l", ...]     a tuple, a list: the values in it
    ["d", key, value, ...]     a dict: its keys, each with its value
    ["b", text]                bytes: a character for each

The reader makes values of these types, and calls nothing else. So a bad message has one effect: an error.
"""

from __future__ import annotations

import json
from typing import Any, Final

from tilestep.messages import shown

LONGEST_BYTES: Final = 1 << 24  # the longest message of one process: a tree of some 100,000 arrays has room
DEEPEST: Final = 100  # values in values


def encode(value: Any, *, longest_bytes: int = LONGEST_BYTES) -> bytes:
    """The message that carries a value.

    Raises: TypeError for a value of another type, a subclass too, because it would arrive as something else. ValueError for a value that
        is too deep, or whose message is longer than `longest_bytes`.
    """
    message = json.dumps(_written(value, 0), separators=(",", ":")).encode()
    if len(message) > longest_bytes:
        raise ValueError(
            f"a message to the other processes has {len(message):,} bytes: at most {longest_bytes:,} can be sent at once; send fewer or "
            "smaller values"
        )
    return message


def decode(message: bytes) -> Any:
    """The value of a message.

    Raises: ValueError for bytes that are no message. Its text is bounded, because another process has sent the bytes.
    """
    try:
        return _read(json.loads(message.decode("ascii")), 0)
    except (ValueError, TypeError, RecursionError) as error:  # TypeError: a key is a list or a dict, perhaps in a tuple
        raise ValueError(f"no message: {shown(str(error))}") from None


def _written(value: Any, depth: int) -> Any:
    if depth > DEEPEST:
        raise ValueError(
            f"a message to the other processes is more than {DEEPEST} values deep: put fewer tuples, lists or dicts in each other"
        )
    kind = type(value)
    if value is None or kind in (bool, int, float, str):
        return value
    if kind is bytes:
        return ["b", value.decode("latin-1")]
    if kind is dict:
        return ["d", *(_written(each, depth + 1) for item in value.items() for each in item)]
    if kind in (tuple, list):
        return [kind.__name__[0], *(_written(each, depth + 1) for each in value)]
    raise TypeError(
        f"{shown(value)} of type {kind.__module__}.{kind.__qualname__} cannot be sent to the other processes: only None, bool, int, "
        "float, str, bytes, and tuples, lists and dicts of these can"
    )


def _read(value: Any, depth: int) -> Any:
    """The value that is written so. Raises: ValueError, TypeError if none is."""
    if depth > DEEPEST:
        raise ValueError(f"more than {DEEPEST} values deep")
    match value:
        case None | bool() | int() | float() | str():
            return value
        case ["b", str(text)]:
            return text.encode("latin-1")
        case ["t", *items]:
            return tuple(_read(item, depth + 1) for item in items)
        case ["l", *items]:
            return [_read(item, depth + 1) for item in items]
        case ["d", *items] if len(items) % 2 == 0:
            pairs = [_read(item, depth + 1) for item in items]
            entries = dict(zip(pairs[::2], pairs[1::2], strict=True))
            if 2 * len(entries) < len(items):
                raise ValueError("a dict has a key twice")
            return entries
        case _:
            raise ValueError(f"{shown(value)} is no value")
