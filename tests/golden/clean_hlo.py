"""The HLO that the cost model reads, from any JAX function: per device, XLA:CPU's own rewrites left out.

The compile is given up before code is generated: a transform hook takes the module and raises.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import numpy as np
from jax._src import compiler
from jaxlib import _jax, _xla, xla_client
from jaxlib.mlir import ir

# With 'fusion-wrapper' off too, XLA:CPU loses transposes.
DISABLED_PASSES = (
    "fusion,cpu-instruction-fusion,tree_reduction_rewriter,library-rewriter,ynnpack-library-rewriter,dot-library-rewriter,"
    "select_and_scatter_expander,rng-expander,rng-bit-generator-expander,topk-decomposer"
)
SITE = "tilestep.site"

_LOCATIONS = re.compile(r"\n(?:FileNames|FunctionNames|FileLocations|StackFrames)\n(?:\d+ .*\n)*")
_FRAME = re.compile(r" stack_frame_id=\d+")
_taken: list[bytes] = []
_wanted = False


class _Enough(Exception):
    """Ends a compile whose HLO has been taken."""


def _take(module: bytes) -> None:
    if _wanted:
        _taken.append(module)
        raise _Enough


_xla.register_xla_transform("tilestep-tests-clean-hlo", 0, _take)


@cache
def _client(num_devices: int) -> Any:
    """An XLA:CPU client apart from JAX's own."""
    return xla_client.make_cpu_client(num_devices=num_devices)


def clean_hlo(lowered: Any, *, num_devices: int = 1, with_lines: bool = False) -> str:
    """Text of a lowered JAX function (`jax.jit(f).lower(...)`).

    Args: with_lines: with source locations, which differ between machines.

    Loops and branches get the numbers by which their runs are counted, in the order of the module.
    """
    global _wanted
    module = lowered.compiler_ir()
    _number_sites(module)
    client = _client(num_devices)
    options = compiler.get_compile_options(1, num_devices, device_assignment=np.arange(num_devices).reshape(1, num_devices))
    options.executable_build_options.use_spmd_partitioning = num_devices > 1
    options.executable_build_options.debug_options.xla_disable_hlo_passes = DISABLED_PASSES
    _taken.clear()
    _wanted = True
    try:
        client.compile_and_load(module, _jax.DeviceList(tuple(client.devices())), options)
    except Exception:
        if not _taken:
            raise
    finally:
        _wanted = False
    text = xla_client.hlo.HloModule.from_serialized_hlo_module_proto(_taken[0]).to_string()
    if with_lines:
        return text
    return _FRAME.sub("", _LOCATIONS.sub("\n", text)).strip() + "\n"


def _number_sites(module: Any) -> None:
    """Puts `tilestep.site` on every while, case and if of a StableHLO module."""
    numbered = 0

    def visit(operation: Any) -> None:
        nonlocal numbered
        if operation.name in ("stablehlo.while", "stablehlo.case", "stablehlo.if"):
            with operation.context:
                operation.attributes["mhlo.frontend_attributes"] = ir.DictAttr.get({SITE: ir.StringAttr.get(str(numbered))})
            numbered += 1
        for region in operation.regions:
            for block in region:
                for inner in block:
                    visit(inner.operation)

    visit(module.operation)
