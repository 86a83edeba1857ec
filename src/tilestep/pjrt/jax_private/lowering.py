"""JAX's rules of lowering for a platform whose programs XLA:CPU compiles (CPU's, but for a few), and programs that JAX has lowered."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from jax._src import compiler, dispatch
from jax._src.export import _export
from jax._src.interpreters import mlir
from jax._src.lax import control_flow

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


class _LikeCpu(dict[Any, Any]):
    """Lowering rules that fall back on CPU's, also on rules that are registered later."""

    def _cpu(self) -> dict[Any, Any]:
        return mlir._platform_specific_lowerings["cpu"]

    def __contains__(self, primitive: object) -> bool:
        return super().__contains__(primitive) or primitive in self._cpu()

    def __missing__(self, primitive: Any) -> Any:
        return self._cpu()[primitive]

    def get(self, primitive: Any, default: Any = None) -> Any:
        return self[primitive] if primitive in self else default  # noqa: SIM401  # dict.get would not ask __missing__


def lower_like_cpu(name: str) -> None:
    """Lets platform `name` donate, and lower every primitive as CPU does, except `device_put`, which is lowered as on TPU.

    TPU's rule keeps the memory kind that the author wants, which the plan needs. CPU's rule drops it. XLA:CPU removes it by itself.
    """
    rules = dict(mlir._platform_specific_lowerings.get(name, {}))
    rules[dispatch.device_put_p] = mlir._platform_specific_lowerings["tpu"][dispatch.device_put_p]
    mlir._platform_specific_lowerings[name] = _LikeCpu(rules)
    if name not in mlir._platforms_with_donation:
        mlir._platforms_with_donation.append(name)


def choose_like_cpu(name: str) -> None:
    """Lets platform `name` take branches of `lax.platform_dependent` and exported programs that are for `cpu` alone.

    A branch for `name` or a default goes first. So does a program that was exported for `name`.
    """

    def wrap(primitive: Any, parameter: str, change: Callable[[Any, Any], Any]) -> None:
        entry = mlir._lowerings[primitive]

        @functools.wraps(entry.rule)
        def lower(ctx: Any, *args: Any, **params: Any) -> Any:
            if params.get(parameter) is not None:
                params[parameter] = change(ctx, params[parameter])
            return entry.rule(ctx, *args, **params)

        mlir._lowerings[primitive] = dataclasses.replace(entry, rule=lower)

    def exported_for(ctx: Any, exported: Any) -> Any:
        if name not in ctx.module_context.platforms or "cpu" in ctx.module_context.platforms or name in exported.platforms:
            return exported
        return dataclasses.replace(exported, platforms=tuple(name if platform == "cpu" else platform for platform in exported.platforms))

    wrap(control_flow.platform_index_p, "platforms", lambda _, branches: _with_platform(name, branches))
    wrap(control_flow.cond_p, "branches_platforms", lambda _, branches: _with_platform(name, branches))
    wrap(_export.call_exported_p, "exported", exported_for)


def _with_platform(name: str, branches: tuple[tuple[str, ...] | None, ...]) -> tuple[tuple[str, ...] | None, ...]:
    """The platforms of each branch (None: all others) with `name` beside `cpu`, if no branch is for `name` yet."""
    if any(platforms is None or name in platforms for platforms in branches):
        return branches
    return tuple((*platforms, name) if platforms is not None and "cpu" in platforms else platforms for platforms in branches)
