"""XLA's HLO of a program as one device runs it, taken before CPU-specific rewrites."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Sequence
from typing import Any

from tilestep.errors import HloError
from tilestep.pjrt import compat
from tilestep.pjrt.mlir import module_name, set_module_name

_TAG = "tilestep_analysis_"
_numbers = itertools.count()
_seen: dict[str, bytes] = {}
_lock = threading.Lock()
_hooked = False


class _Enough(Exception):
    """Ends a compilation whose HLO is all that was wanted."""


def _hook(proto: bytes) -> None:
    start = bytes(proto[:64]).find(_TAG.encode())
    if start < 0:
        return  # somebody else's program
    size = proto[1]  # the module's name is field 1 and shorter than 128 bytes
    _seen[bytes(proto[2 : 2 + size]).decode()] = bytes(proto)
    raise _Enough


def partitioned_hlo(client: compat.HostClient, module: Any, devices: Sequence[Any], options: bytes, callbacks: Sequence[Any]) -> bytes:
    """Serialised HLO of a program as one device runs it: partitioned, simplified, not yet made CPU code.

    Raises: whatever XLA raises for a program that it cannot compile.
    """
    global _hooked
    with _lock:
        if not _hooked:
            compat.on_every_compile("tilestep", _hook)
            _hooked = True
    name = f"{_TAG}{next(_numbers)}"
    own_name = module_name(module)
    parsed = compat.parse_options(options)
    parsed.executable_build_options.debug_options.xla_disable_hlo_passes = compat.ANALYSIS_PASSES_OFF
    set_module_name(module, name)
    try:
        compat.compile_module(client, module, devices, parsed, callbacks)
    except Exception:
        if name not in _seen:
            raise
    finally:
        set_module_name(module, own_name)
    if name not in _seen:
        raise HloError(f"XLA compiled {own_name} without showing its HLO")
    return _seen.pop(name)
