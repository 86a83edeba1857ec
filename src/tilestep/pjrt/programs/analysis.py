"""XLA's HLO of a program as one device runs it, taken before XLA:CPU's own rewrites."""

import itertools
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from tilestep.errors import HloError
from tilestep.pjrt import _native
from tilestep.pjrt.jax_private import compat
from tilestep.pjrt.jax_private.mlir import has_operation, module_name, retarget, set_module_name

_PLACEMENT = "annotate_device_placement"
_TAG = "tilestep_analysis_"
_ASKING_FAILED = "<exception str() failed>"  # XLA's text if a signal's handler raised while XLA read our exception, whose text is lost then
_numbers = itertools.count()
_seen: dict[str, bytes] = {}
_lock = threading.Lock()
_hooked = False


def _move(marks: Mapping[str, str]) -> str:
    """XLA's later name for a placement. The partitioner replicates an operation with JAX's name, but none with these."""
    return "MoveToDevice" if marks.get("_xla_buffer_placement") == '"device"' else "MoveToHost"


def partitioned_hlo(client: compat.HostClient, module: Any, devices: Sequence[Any], options: bytes, callbacks: Sequence[Any]) -> bytes:
    """Serialised HLO of a program as one device runs it: partitioned, simplified, not yet made CPU code.

    Raises: XLA's exception for a program that XLA cannot compile.
    """
    global _hooked
    with _lock:
        if not _hooked:
            compat.on_every_compile("tilestep", _native.hlo_taker(_TAG.encode(), _seen))
            _hooked = True
    name = f"{_TAG}{next(_numbers)}"
    program_name = module_name(module)
    parsed = compat.parse_options(options)
    off = compat.ANALYSIS_PASSES_OFF + (compat.PASSES_OFF_WITH_DRAWS if has_operation(module, "stablehlo.rng") else "")
    off += compat.PASSES_OFF_WITH_REVERSALS if has_operation(module, "stablehlo.reverse") else ""
    parsed.executable_build_options.debug_options.xla_disable_hlo_passes = off
    parsed.env_option_overrides = [*parsed.env_option_overrides, *compat.ANALYSIS_OPTIONS]
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
        set_module_name(module, program_name)
        hlo = _seen.pop(name, None)
    if hlo is None:
        raise HloError(f"XLA compiled {program_name} without showing its HLO")
    return hlo
