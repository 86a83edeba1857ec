"""The HLO that the cost model reads, from any JAX function: per device, XLA:CPU's own rewrites left out."""

import re
from functools import cache
from typing import Any

import numpy as np
from jax._src import compiler
from jaxlib.mlir import ir

from tilestep.pjrt.jax_private import compat, mlir
from tilestep.pjrt.programs.analysis import partitioned_hlo

SITE = "tilestep.site"

_LOCATIONS = re.compile(r"\n(?:FileNames|FunctionNames|FileLocations|StackFrames)\n(?:\d+ .*\n)*")
_NAME = re.compile(r"HloModule \S+(?=,)")
_FRAME = re.compile(r" stack_frame_id=\d+")


@cache
def _client(num_devices: int) -> Any:
    """An XLA:CPU client apart from JAX's own."""
    return compat.make_host_client(num_devices)


def clean_hlo(lowered: Any, *, num_devices: int = 1, with_lines: bool = False) -> str:
    """Text of a lowered JAX function (`jax.jit(f).lower(...)`).

    Args: with_lines: with source locations, which differ between machines.

    Loops and branches get the numbers by which their runs are counted, in the order of the module.
    """
    module = lowered.compiler_ir()
    _number_sites(module)
    client = _client(num_devices)
    options = compiler.get_compile_options(1, num_devices, device_assignment=np.arange(num_devices).reshape(1, num_devices))
    options.executable_build_options.use_spmd_partitioning = num_devices > 1
    with module.context:
        hlo = partitioned_hlo(client, module, client.devices(), options.SerializeAsString(), ())
    text = _NAME.sub(f"HloModule {mlir.module_name(module)}", compat.hlo_text(hlo), count=1)
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
