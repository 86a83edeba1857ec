"""Runs of a program on XLA:CPU, which computes its values."""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from tilestep.hints import current_group, current_task
from tilestep.pjrt import _native
from tilestep.pjrt.jax_private import compat
from tilestep.pjrt.programs.counters import NO_SITE, Key
from tilestep.pjrt.programs.outputs import Outputs
from tilestep.pjrt.running.entries import PlannedRun
from tilestep.pjrt.running.journal import Journal
from tilestep.pjrt.table.device import MEMORY_KINDS

Done = dict[str, Any]  # results of the steps that one run has done, by name
Outcome = tuple[list[Any], Any]  # arrays by result; a token or None


class HostProgram(NamedTuple):
    """A program as XLA:CPU runs it."""

    executable: Any  # XLA:CPU's
    counted: tuple[Key, ...]  # (site, arm) of each counter behind the program's own results


class HostRuns:
    """The runs of one program on XLA:CPU.

    Attributes: direct: the function that C calls on the short way (native/execute.c); None if each run must go through Python.
    """

    def __init__(
        self,
        journal: Journal,
        planned: PlannedRun,
        program: HostProgram,
        outputs: Outputs,
        devices: Sequence[compat.HostDevice],
        *,
        note_in_flight: Callable[[Any], None] | None,
        calls_host: bool,
        has_feeds: bool,
    ) -> None:
        """Args: devices: XLA:CPU's. note_in_flight: takes the token of each run; None where no program waits for its end.
        calls_host: whether the program has Python callbacks.
        """
        self._journal = journal
        self._planned = planned
        self._devices = devices
        self._num_counters = len(real_counters(program.counted))
        self._note_in_flight = note_in_flight
        self._reports_end = not planned.num_outputs or calls_host  # its end says more than its results
        self._has_token = self._reports_end or note_in_flight is not None
        execute = program.executable.execute_sharded
        self._execute: Any = functools.partial(execute, with_tokens=True) if self._has_token else execute
        self._handlers = self._make_handlers(outputs, len(program.counted))
        self.direct: tuple[Any, ...] | None = None
        if self._handlers is not None and planned.num_outputs and not (program.counted or calls_host or has_feeds):
            self.direct = (self._execute, self._handlers, *journal.note_run, planned, current_group, current_task)

    @functools.cached_property
    def _shardings(self) -> dict[str, Any]:
        return {kind: compat.replicated_over(self._devices, kind) for kind in MEMORY_KINDS}

    def _make_handlers(self, outputs: Outputs, num_counted: int) -> list[Any] | None:
        """Functions that make an array of each result and counter.

        Returns: None where JAX takes the results apart, because there is a token, or counters of several IPUs.
        """
        several = len(self._devices) > 1
        if outputs.has_tokens or (several and num_counted):
            return None
        specs = [(dims, dtype) for dims, dtype in outputs.specs if dtype is not None] + [((), np.dtype(np.int32))] * num_counted
        kinds = [*outputs.memory_kinds, *["device"] * num_counted]
        shardings = [self._shardings[kind] if several else compat.single_device_sharding(self._devices[0], kind) for kind in kinds]
        return [compat.result_handler(dims, dtype, sharding) for (dims, dtype), sharding in zip(specs, shardings, strict=True)]

    def run(self, columns: list[Any], values: tuple[int, ...], first: int, undonated: tuple[int, ...], done: Done) -> Outcome:
        """Computes the results and notes the run. Arguments and result are those of LoadedExecutable.run."""
        if "noted" in done:
            return done["outcome"]
        for index in undonated if "results" not in done else ():
            columns[index] = self._copy(columns[index])
        if len(self._devices) > 1:
            columns[:] = [self._join(column) if isinstance(column, list) else column for column in columns]  # C keeps the joined arrays
        results, token = _native.once(done, "results", self._execute, columns), None
        if self._has_token:
            token = _native.once(done, "token", results.consume_token)
            if self._note_in_flight is not None:
                self._note_in_flight(token)
        if self._handlers is None:
            arrays = _native.once(done, "arrays", results.disassemble_into_single_device_arrays)
        else:
            arrays = _native.once(done, "arrays", results.consume_with_handlers, self._handlers)
        num_outputs = self._planned.num_outputs
        counters = [array if isinstance(array, list) else [array] for array in arrays[num_outputs : num_outputs + self._num_counters]]
        outcome = done["outcome"] = arrays, token if self._reports_end else None
        self._journal.run(self._planned, values, first, counters, undonated, done)
        return outcome

    def _join(self, column: list[Any]) -> Any:
        return compat.join(column, self._shardings[column[0].sharding.memory_kind])

    def _copy(self, column: Any) -> Any:
        if isinstance(column, list):
            return [self._copy(array) for array in column]
        (device,) = column.devices()
        return compat.copy(column, device, column.sharding.memory_kind)


def real_counters(counted: Sequence[Key]) -> tuple[Key, ...]:
    """The counters that emulated time waits for: all but the result that counts nothing, which is the last."""
    return tuple(key for key in counted if key != NO_SITE)
