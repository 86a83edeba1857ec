"""Dry runs: programs are planned and timed, but no value is computed and no memory taken for one."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from tilestep.errors import UnsupportedError
from tilestep.pjrt import _native
from tilestep.plan.steps import Branch, Loop, Node, Program
from tilestep.plan.steps import Sequence as Nodes

Values = Literal["error", "zeros"]


@dataclass(frozen=True, kw_only=True)
class DryMode:
    """How a dry run answers what it cannot know."""

    values: Values = "error"  # what reading a value gives
    trip_count: int | None = None  # of a loop whose end depends on data


_mode: DryMode | None = None  # not a context variable: JAX compiles on threads of its own


def current_mode() -> DryMode | None:
    """The dry run that is under way, or None."""
    return _mode


@contextlib.contextmanager
def dry_mode(mode: DryMode) -> Iterator[None]:
    """Makes every program in the block, whatever thread it comes from, run dry."""
    global _mode
    outer, _mode = _mode, mode
    _native.count_dry(1)
    try:
        yield
    finally:
        _mode = outer
        _native.count_dry(-1)


class DryArray:
    """Stands where a one-device array of XLA:CPU would: shape and dtype, always ready, never a value."""

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any], mode: DryMode) -> None:
        self.shape = shape
        self.dtype = dtype
        self.ndim = len(shape)
        self._mode = mode
        self._deleted = False
        self._zeros: np.ndarray[Any, Any] | None = None
        _native.count_dry(1)
        self._is_counted = True

    def __del__(self, count_dry: Callable[[int], None] = _native.count_dry) -> None:
        if getattr(self, "_is_counted", False):  # it may have been interrupted while it was made
            count_dry(-1)

    def is_ready(self) -> bool:
        """Always: emulated time is what tells when it would have been."""
        return True

    def block_until_ready(self) -> None:
        """Nothing to wait for."""

    def is_deleted(self) -> bool:
        """Whether it was deleted or donated."""
        return self._deleted

    def delete(self) -> None:
        """As a real array's."""
        self._deleted = True

    def unsafe_buffer_pointer(self) -> int:
        """Address of zeros. Raises: UnsupportedError where values are errors."""
        return int(self.__array__().ctypes.data)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        del dtype, copy
        if self._mode.values == "error":
            shape = f"{self.dtype}[{','.join(map(str, self.shape))}]"
            raise UnsupportedError(
                f"a dry run computes no values, but the program reads one: {shape}; "
                "leave the read out, or ask for zeros: tilestep.dry_run(values='zeros')"
            )
        if self._zeros is None:
            self._zeros = np.zeros(self.shape, self.dtype)
        return self._zeros


def require_one_kind(columns: Sequence[Any], names: Sequence[str], mode: DryMode | None) -> None:
    """Checks that a program gets only values of a dry run, or only real ones.

    Args: columns: arrays by argument, or by argument and IPU. names: of the arguments.
    Raises: UnsupportedError naming an argument of the other kind.
    """
    for name, column in zip(names, columns, strict=True):
        dry = isinstance(column[0] if isinstance(column, list) else column, DryArray)
        if dry and mode is None:
            raise UnsupportedError(f"argument {name!r} comes from a dry run and has no value: it can be used only inside of dry_run()")
        if mode is not None and not dry:
            raise UnsupportedError(
                f"argument {name!r} is a real value that was made before dry_run() began: make it inside, or pass a NumPy array"
            )


def settled(program: Program, mode: DryMode, places: Sequence[str]) -> Program:
    """The program with nothing left to count: loops that depend on data run `trip_count` times, a branch takes its dearest arm.

    Args: places: where each site stands in the user's source.
    Raises: UnsupportedError naming the first such loop and its place, if there is no trip count.
    """
    if not program.sites:
        return program
    assumptions = set(program.assumptions)

    def settle(node: Node) -> Node:
        match node:
            case Nodes(nodes=nodes):
                return Nodes(nodes=tuple(settle(child) for child in nodes))
            case Loop(trips=None, site=int(site)):
                if mode.trip_count is None:
                    raise UnsupportedError(
                        f"loop {node.name!r} ({node.scope or 'no name'}, {places[site]}) ends when its data say so, and a dry run has "
                        "no data: say how often such loops run, tilestep.dry_run(trip_count=...)"
                    )
                assumptions.add(f"loops that end when their data say so run {mode.trip_count} times (trip_count)")
                return replace(node, body=settle(node.body), trips=mode.trip_count, site=None)
            case Loop():
                return replace(node, body=settle(node.body))
            case Branch():
                assumptions.add("of a branch that depends on data, the dearest arm runs")
                return replace(node, arms=tuple(settle(arm) for arm in node.arms), site=None)
            case _:
                return node

    body = settle(program.body)
    return replace(program, body=body, assumptions=tuple(sorted(assumptions)))
