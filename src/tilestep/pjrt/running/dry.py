"""Dry runs: programs are planned and timed, but no value is computed and no memory taken for one."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

import numpy as np

from tilestep.errors import UnsupportedError
from tilestep.pjrt import _native
from tilestep.pjrt.running.entries import PlannedRun
from tilestep.pjrt.running.journal import Journal
from tilestep.plan.steps import Branch, Loop, Node, Program, Series
from tilestep.sim.cycles.body import body_cost
from tilestep.units import seconds_from_cycles

_LAST_DRY_CYCLE: Final = 2**62  # so that the cycles of a clock stay in 64 bits
_YEAR_S: Final = 365.25 * 86_400

Values = Literal["error", "zeros"]


@dataclass(frozen=True, kw_only=True)
class DryMode:
    """The answers of a dry run to questions that need values."""

    values: Values = "error"  # the result of reading a value
    trip_count: int | None = None  # turns, where the end of a loop depends on data


_mode: DryMode | None = None  # not a context variable, because JAX compiles on threads of its own


def current_mode() -> DryMode | None:
    """The dry run that is under way, or None."""
    return _mode


@contextlib.contextmanager
def dry_mode(mode: DryMode) -> Iterator[None]:
    """Makes every program in the block run dry, whatever thread dispatches it."""
    global _mode
    outer, _mode = _mode, mode
    _native.count_dry(1)
    try:
        yield
    finally:
        _mode = outer
        _native.count_dry(-1)


class DryForm:
    """Shape, dtype and mode of a result, which its arrays on all IPUs share. It counts as a value of a dry run while one of them lives."""

    __slots__ = ("_is_counted", "dtype", "mode", "shape")

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any], mode: DryMode) -> None:
        self.shape = shape
        self.dtype = dtype
        self.mode = mode
        _native.count_dry(1)
        self._is_counted = True

    def __del__(self, count_dry: Callable[[int], None] = _native.count_dry) -> None:
        if getattr(self, "_is_counted", False):  # an interrupt may have ended __init__
            count_dry(-1)


class DryArray:
    """Stands for an array of XLA:CPU: it has shape and dtype, is always ready, and has no value.

    Args: form: of the part on one device. num_devices: on which it is. parts: device by device; None: made if asked for.
    """

    _deleted = False  # a pod makes very many arrays, and few need an attribute beside that of the class
    _zeros: np.ndarray[Any, Any] | None = None
    _parts: list[DryArray] | None = None

    def __init__(self, form: DryForm, num_devices: int = 1, parts: list[DryArray] | None = None) -> None:
        self.form = form
        self.num_devices = num_devices
        if parts is not None:
            self._parts = parts

    @property
    def _arrays(self) -> list[DryArray]:  # C asks for it, as for that of JAX's arrays
        if self._parts is None:
            self._parts = [DryArray(self.form) for _ in range(self.num_devices)]
        return self._parts

    @property
    def shape(self) -> tuple[int, ...]:
        """Its dimensions."""
        return self.form.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of its elements."""
        return self.form.dtype

    @property
    def ndim(self) -> int:
        """Number of its dimensions."""
        return len(self.form.shape)

    def is_ready(self) -> bool:
        """True, because emulated time says when the value would have been ready."""
        return True

    def block_until_ready(self) -> None:
        """Does nothing, because nothing is computed."""

    def is_deleted(self) -> bool:
        """Whether the array was deleted or donated."""
        return self._deleted

    def delete(self) -> None:
        """Deletes the array, as a real one's method does, and so its parts."""
        self._deleted = True
        for part in self._parts or ():
            part.delete()

    def unsafe_buffer_pointer(self) -> int:
        """Address of zeros. Raises: UnsupportedError where reading a value is an error."""
        return int(self.__array__().ctypes.data)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        del dtype, copy
        if self.form.mode.values == "error":
            shape = f"{self.dtype}[{','.join(map(str, self.shape))}]"
            raise UnsupportedError(
                f"a dry run computes no values, but the program reads one: {shape}; "
                "leave the read out, or ask for zeros: tilestep.dry_run(values='zeros'), or `tilestep run --dry-run=zeros`"
            )
        if self._zeros is None:
            self._zeros = np.zeros(self.shape, self.dtype)
        return self._zeros


class DryRuns:
    """The dry runs of one program: its plan without anything to count, by mode."""

    def __init__(
        self,
        journal: Callable[[], Journal],
        planned: PlannedRun,
        *,
        site_locations: Sequence[str],
        results: Sequence[tuple[tuple[int, ...], np.dtype[Any] | None]],
        new_key: Callable[[], int],
    ) -> None:
        """Args: journal: gives that of the program's client. planned: the program with its counters.
        site_locations: the source line of each loop and branch that counts.
        results: dimensions and dtype of each result, None for a token. new_key: gives the key of a program that is not `planned`'s.
        """
        self._journal = journal
        self._planned = planned
        self._site_locations = site_locations
        self._results = results
        self._new_key = new_key
        self._num_devices = len(planned.simulated)
        self._by_mode: dict[DryMode, PlannedRun] = {}
        self._body_cycles: dict[DryMode, int] = {}

    def run(
        self,
        columns: list[Any],
        values: tuple[int, ...],
        first: int,
        undonated: tuple[int, ...],
        mode: DryMode | None,
        done: dict[str, Any],
    ) -> tuple[list[Any], None]:
        """Notes the run and computes nothing. Arguments and result are those of LoadedExecutable.run.

        Raises: UnsupportedError if an argument is a real value, if one is dry outside of a dry run, if the clock cannot show when the run
            would end, or as `without_counters`.
        """
        arguments = self._planned.program.arguments
        require_one_kind(columns, [argument.name for argument in arguments], mode)
        assert mode is not None  # else the arguments were of the wrong kind
        planned = self._planned_in(mode)
        self._add_time(planned, mode)
        num_devices = self._num_devices
        for index, (argument, column) in enumerate(zip(arguments, columns, strict=True)):
            if argument.result is not None and argument.index not in undonated:
                for array in column if isinstance(column, list) else [column]:
                    array.delete()
            elif isinstance(column, list) and num_devices > 1:  # joined, because the next run may have the same ones
                columns[index] = DryArray(column[0].form, num_devices, column)
        self._journal().run(planned, values, first, [], undonated, done)
        token = np.dtype(np.bool_)  # the dtype of the array that stands for a token
        return [self._result(DryForm(dims, dtype or token, mode), num_devices) for dims, dtype in self._results], None

    @staticmethod
    def _result(form: DryForm, num_devices: int) -> Any:
        """An array over all devices; of one device a list of it."""
        return DryArray(form, num_devices) if num_devices > 1 else [DryArray(form)]

    def _planned_in(self, mode: DryMode) -> PlannedRun:
        if mode not in self._by_mode:
            program = without_counters(self._planned.program, mode, self._site_locations)
            key = self._planned.key if program is self._planned.program else self._new_key()
            self._by_mode[mode] = self._planned._replace(program=program, key=key, counted=())
        return self._by_mode[mode]

    def _add_time(self, planned: PlannedRun, mode: DryMode) -> None:
        journal, program, machine = self._journal(), planned.program, planned.source.machine
        if mode not in self._body_cycles:
            self._body_cycles[mode] = body_cost(program, machine, planned.ipus).fixed.total
        cycles = self._body_cycles[mode]
        if journal.dry_cycles + cycles > _LAST_DRY_CYCLE:
            took, most = (seconds_from_cycles(each, machine.ipu.clock_hz) / _YEAR_S for each in (cycles, _LAST_DRY_CYCLE))
            raise UnsupportedError(
                f"a run of {program.name!r} takes {cycles:.3g} cycles, {took:,.3g} years: dry runs end at {_LAST_DRY_CYCLE:.3g} cycles, "
                f"{most:,.3g} years, together. Let its loops make fewer trips (trip_count), or its arrays be smaller"
            )
        journal.dry_cycles += cycles


def any_dry(columns: Sequence[Any]) -> bool:
    """Whether an argument comes from a dry run. A column is an array, or a list of one for each IPU."""
    return any(type(column[0] if isinstance(column, list) else column) is DryArray for column in columns)


def require_one_kind(columns: Sequence[Any], names: Sequence[str], mode: DryMode | None) -> None:
    """Checks that a program gets only values of a dry run, or only real ones.

    Args: columns: arrays by argument, or by argument and IPU. names: of the arguments.
    Raises: UnsupportedError naming an argument of the other kind.
    """
    if mode is not None and all(type(column[0] if isinstance(column, list) else column) is DryArray for column in columns):
        return
    for name, column in zip(names, columns, strict=True):
        dry = any_dry((column,))
        if dry and mode is None:
            raise UnsupportedError(f"argument {name!r} comes from a dry run and has no value: it can be used only inside of dry_run()")
        if mode is not None and not dry:
            raise UnsupportedError(
                f"argument {name!r} is a real value that was made before dry_run() began: make it inside, or pass a NumPy array"
            )


def without_counters(program: Program, mode: DryMode, site_locations: Sequence[str]) -> Program:
    """The program with nothing left to count: loops that depend on data run `trip_count` times, a branch takes its dearest arm.

    Args: site_locations: the source line of each loop and branch that counts.
    Raises: UnsupportedError naming the first such loop and its source line, if there is no trip count.
    """
    if not program.sites:
        return program
    assumptions = set(program.assumptions)

    def fixed(node: Node) -> Node:
        match node:
            case Series(nodes=nodes):
                return Series(nodes=tuple(fixed(child) for child in nodes))
            case Loop(trips=None, site=int(site)):
                if mode.trip_count is None:
                    raise UnsupportedError(
                        f"loop {node.name!r} ({node.scope or 'no name'}, {site_locations[site]}) ends when its data say so, and a dry run "
                        "has no data: say how often such loops run, tilestep.dry_run(trip_count=...)"
                    )
                assumptions.add(f"loops that end when their data say so run {mode.trip_count} times (trip_count)")
                return replace(node, body=fixed(node.body), trips=mode.trip_count, site=None)  # pyrefly: ignore[bad-argument-type]
            case Loop():
                return replace(node, body=fixed(node.body))  # pyrefly: ignore[bad-argument-type]
            case Branch():
                assumptions.add("of a branch that depends on data, the dearest arm runs")
                return replace(node, arms=tuple(fixed(arm) for arm in node.arms), site=None)  # pyrefly: ignore[bad-argument-type]
            case _:
                return node

    body = fixed(program.body)
    return replace(program, body=body, assumptions=tuple(sorted(assumptions)))  # pyrefly: ignore[bad-argument-type]
