"""What JAX has lowered (`jax.stages.Lowered`), for a plan that no client of JAX asks for."""

from __future__ import annotations

from typing import Any

import numpy as np
from jax._src import compiler

from tilestep.pjrt.jax_private.mlir import bytecode


def code_of(lowered: Any) -> bytes:
    """The program as MLIR's bytecode of StableHLO, with lines of the user's source."""
    return bytecode(lowered.compiler_ir("stablehlo"))


def host_options(num_replicas: int, num_partitions: int) -> Any:
    """Options with which XLA:CPU compiles a program for its first devices. XLA may choose shardings that the program leaves open."""
    assignment = np.arange(num_replicas * num_partitions).reshape(num_replicas, num_partitions)
    options = compiler.get_compile_options(num_replicas=num_replicas, num_partitions=num_partitions, device_assignment=assignment)
    options.executable_build_options.allow_spmd_sharding_propagation_to_output = [True]
    return options
