"""A program with options of an emulated machine's planner, which no other platform's compiler takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, final

import jax
from jax.interpreters import partial_eval

from tilestep.train.offload import is_tracing, platform_of
from tilestep.train.plan_options import PLATFORM, CompilerOptions
from tilestep.train.untyped import Pytree
from tilestep.train.untyped import jax as _jax


def planned(jit: Callable[[dict[str, Any] | None], Any], options: CompilerOptions) -> Any:
    """A jitted program that is compiled with these options wherever it runs on emulated IPUs.

    Args: jit: jits it with what `jax.jit` takes as `compiler_options`.
    """
    return Planned(jit, options) if options else jit(None)


@final
class Planned:
    """A program that is jitted in two ways: with options for emulated IPUs, and without them for other platforms and other programs."""

    def __init__(self, jit: Callable[[dict[str, Any] | None], Any], options: CompilerOptions) -> None:
        self._jit: Final = jit
        self._options: Final = options
        self._plain: Final = jit(None)
        self._programs: Final[dict[str, Any]] = {}  # by the platform of their arguments

    def __call__(self, *args: Pytree) -> Any:
        return self._program(args)(*args)

    def trace(self, *args: Pytree) -> Any:
        """The result of `jax.jit`'s `trace`."""
        return self._program(args).trace(*args)

    def lower(self, *args: Pytree) -> Any:
        """The result of `jax.jit`'s `lower`."""
        return self._program(args).lower(*args)

    def _program(self, args: tuple[Pytree, ...]) -> Any:
        leaves = _jax.tree.leaves(args)
        if is_tracing(leaves):  # it becomes a part of another program, whose options count
            return self._plain
        platform = _platform_of_program(leaves)
        program = self._programs.get(platform)
        if program is None:
            program = self._jit(dict(self._options)) if platform == PLATFORM and self._stays(args) else self._plain
            self._programs[platform] = program
        return program

    def _stays(self, args: tuple[Pytree, ...]) -> bool:
        """Whether it runs where its arguments are. JAX drops those that it does not read; without any it is on the default device."""
        if platform_of(()) == PLATFORM:
            return True
        jaxpr = self._plain.trace(*args).jaxpr.jaxpr
        return any(partial_eval.dce_jaxpr(jaxpr, [True] * len(jaxpr.outvars))[1])


def _platform_of_program(leaves: Sequence[Any]) -> str:
    """The platform on which JAX runs a program: that of arguments that are committed to a device, else the default device's."""
    for leaf in leaves:
        sharding = getattr(leaf, "sharding", None)  # NumPy's arrays have none
        if sharding is not None and (leaf.committed if isinstance(leaf, jax.Array) else True):
            return str(next(iter(sharding.device_set)).platform)
    return platform_of(())
