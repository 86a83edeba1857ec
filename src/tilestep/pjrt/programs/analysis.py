"""XLA's HLO of a program as one device runs it, taken before CPU-specific rewrites."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from tilestep.errors import HloError
from tilestep.pjrt import _native
from tilestep.pjrt.jax_private import compat
from tilestep.pjrt.jax_private.mlir import module_name, retarget, set_module_name

_PLACEMENT = "annotate_device_placement"
_TAG = "tilestep_analysis_"
_ASKING_FAILED = "<exception str() failed>"  # XLA's words where a signal's handler raised while it read our own, which is lost then
_numbers = itertools.count()
_seen: dict[str, bytes] = {}
_lock = threading.Lock()
_hooked = False


def _move(marks: Mapping[str, str]) -> str:
    """What XLA itself calls a placement further on. What JAX calls it is replicated by the partitioner, these are not."""
    return "MoveToDevice" if marks.get("_xla_buffer_placement") == '"device"' else "MoveToHost"


def partitioned_hlo(client: compat.HostClient, module: Any, devices: Sequence[Any], options: bytes, callbacks: Sequence[Any]) -> bytes:
    """Serialised HLO of a program as one device runs it: partitioned, simplified, not yet made CPU code.

    Raises: whatever XLA raises for a program that it cannot compile.
    """
    global _hooked
    with _lock:
        if not _hooked:
            compat.on_every_compile("tilestep", _native.hlo_taker(_TAG.encode(), _seen))
            _hooked = True
    name = f"{_TAG}{next(_numbers)}"
    own_name = module_name(module)
    parsed = compat.parse_options(options)
    parsed.executable_build_options.debug_options.xla_disable_hlo_passes = compat.ANALYSIS_PASSES_OFF
    set_module_name(module, name)
    restore = retarget(module, _PLACEMENT, _move)
    try:
        compat.compile_module(client, module, devices, parsed, callbacks)
    except Exception as error:
        if name not in _seen:
            raise
        if _ASKING_FAILED in str(error):
            raise KeyboardInterrupt from error
    finally:
        restore()
        set_module_name(module, own_name)
        found = _seen.pop(name, None)
    if found is None:
        raise HloError(f"XLA compiled {own_name} without showing its HLO")
    return found
