"""Messages between processes: JSON of a bounded length. A tuple arrives as a list. The reader makes data, and calls nothing else."""

import json
from typing import Any, Final

from tilestep.messages import shown

LONGEST_BYTES: Final = 1 << 24  # the longest message of one process: a tree of some 100,000 arrays has room


def encode(value: Any, *, longest_bytes: int = LONGEST_BYTES) -> bytes:
    """The message that carries a value.

    Raises: TypeError for a value that JSON has no type for. ValueError for one that contains itself, or whose message is longer than
        `longest_bytes`.
    """
    message = json.dumps(value, separators=(",", ":")).encode()
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
        return json.loads(message.decode("ascii"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"no message: {shown(str(error))}") from None
