"""JSON from anywhere, read within bounds."""

import json
from typing import Any, Final, NoReturn

import numpy as np
from numpy.typing import NDArray

from tilestep.errors import RecordingError
from tilestep.messages import no_json

MOST_TEXT_BYTES: Final = 64 * 2**20
MOST_JSON_DEPTH: Final = 200
MOST_JSON_VALUES: Final = 4_000_000
_STEPS: Final = np.zeros(256, np.int8)
_STEPS[[ord("["), ord("{")]] = 1
_STEPS[[ord("]"), ord("}")]] = -1


def from_json(text: str | bytes, *, what: str) -> Any:
    """The value that a JSON text holds.

    Args: what: the text's name in messages.
    Raises: RecordingError if it is no JSON, or passes a bound: bytes, nested lists and objects, number of values, digits of a number.
    """
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    if len(data) > MOST_TEXT_BYTES:
        raise RecordingError(f"{what} has {len(data):,} B: at most {MOST_TEXT_BYTES:,} B are read")
    bare = _without_strings(data)
    steps = _STEPS[bare]
    values = int(np.count_nonzero(bare == ord(",")) + np.count_nonzero(steps == 1))
    if values > MOST_JSON_VALUES:
        raise RecordingError(f"{what} has {values:,} values: at most {MOST_JSON_VALUES:,} are read")
    depth = int(np.cumsum(steps[steps != 0], dtype=np.int32).max(initial=0))
    if depth > MOST_JSON_DEPTH:
        raise RecordingError(f"{what} has lists or objects nested {depth:,} deep: at most {MOST_JSON_DEPTH} are read")
    try:
        return json.loads(data, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise RecordingError(f"{what} is no JSON: {no_json(error)}") from None


def _without_strings(data: bytes) -> NDArray[np.uint8]:
    """The bytes of a JSON text outside of its strings, in a few times the text's memory."""
    characters = np.frombuffer(data.replace(b"\\\\", b"").replace(b'\\"', b""), np.uint8)
    quotes = np.cumsum(characters == ord('"'), dtype=np.uint8)  # it wraps, and stays odd within a string
    return characters[quotes & 1 == 0]


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")
