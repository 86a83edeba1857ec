"""Waits for arrays that JAX does not notice.

JAX remembers that it has waited for an array. It would not report the user's own later wait, which emulated time needs.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from tilestep.pjrt.platform import PLATFORM

_is_under_way: ContextVar[bool] = ContextVar("tilestep_unseen_wait", default=False)
is_under_way: Callable[[], bool] = _is_under_way.get  # whether JAX asks for a value's address only because of `wait_unseen`


def wait_unseen(array: Any) -> bool:
    """Waits for an array of the platform without telling JAX.

    Returns: False if the array is of another platform or has no value; then JAX's own wait says why.
    """
    if any(device.platform != PLATFORM for device in array.devices()):
        return False
    token = _is_under_way.set(True)
    try:
        for shard in array.addressable_shards:
            shard.data.unsafe_buffer_pointer()
    except RuntimeError:
        return False
    finally:
        _is_under_way.reset(token)
    return True
