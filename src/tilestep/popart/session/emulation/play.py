"""The calls of a session, played by dry runs of its pipeline. A session without stages has a pipeline of one."""

import functools
import math
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, final

import numpy as np

from tilestep import hints
from tilestep.errors import LoopInterrupt
from tilestep.pjrt.programs.other_machines import MachineBeside, machine_beside
from tilestep.pjrt.running.player import Begin
from tilestep.popart.session.emulation.notes import Call, FromHost, Notes, Ran, ToHost, end_of_equal
from tilestep.popart.session.emulation.program import EmulatedProgram
from tilestep.popart.session.emulation.session_labels import SessionLabels
from tilestep.profiling.plugin import initialize
from tilestep.sim import Recurrence, TileUse
from tilestep.sim.mark import ByIpu, cycles_between
from tilestep.train.offload import is_on_host
from tilestep.train.pipeline.compile.watched.watch_keys import Parameter
from tilestep.train.untyped import jax as _jax

OUTSIDE: Final = ("load", "save", "read", "io-in", "io-out")  # kinds of cycles that are no part of a run's own time
_HOST: Final = (*OUTSIDE, "stream-in", "stream-out", "host-call")


def inner_cycles(spent: ByIpu, ipu: int) -> int:
    """Cycles of an IPU's steps, without transfers to and from the host; 0 if it took no part."""
    return sum(cycles for kind, cycles in spent.get(ipu, {}).items() if kind not in _HOST)


_NO_TASK: Final = -1  # stage and microbatch of a run that is no task of a pipeline


class Spent(NamedTuple):
    """What one call took.

    Attributes:
        cycles: from the first step of an IPU to the last one of any, transfers of its arguments and results included.
        by_ipu: of its programs.
    """

    cycles: int
    by_ipu: ByIpu


@final
class SessionPlay:
    """One session on a machine of its own in virtual time.

    When it is made the pipeline has run, so that its programs are loaded, as an engine of the original's is when a device is prepared.
    The session begins behind that.

    Args:
        program: what the session runs.

    Attributes:
        played: how many calls of the session it has seen.
        uses: of each IPU, bytes on its fullest tile.
    """

    def __init__(self, notes: Notes, program: EmulatedProgram) -> None:
        initialize()
        self.played = 0
        self._notes, self._program, self._record = notes, program, False
        self._machine: MachineBeside = machine_beside(notes.machine, notes.options.plan)
        self.player = self._machine.player(SessionLabels(program.stages, notes.line))
        self._begins: dict[int, Begin] = {}
        self.last: Spent | None = None
        with self._machine.running(self.player), hints.program_group(self._group):
            self._pipeline = program.pipeline(self._machine)
            self._forward = None if program.forward is None else program.forward.pipeline(self._machine)
            self._state = program.first_state(self._pipeline)
            self._send_weights()
            for each in (program, program.forward):
                if each is not None:
                    self._run(Ran(forward=each is program.forward), loads_only=True)
        self.start = self.player.mark()
        system = self.player.system
        self.uses: tuple[TileUse, ...] = tuple(system.tile_use(ipu) for ipu in range(notes.machine.num_ipus))

    @property
    def _group(self) -> str:
        return self._notes.name or "session"

    def record(self) -> None:
        """Keeps the timeline of what is played from now on."""
        self._record = True

    def play(self, end: int) -> None:
        """Moves the clocks by the session's calls up to a number, the first being 0."""
        if end <= self.played:
            return
        calls, number = self._notes.calls, self.played
        last = next((at for at in range(end - 1, number - 1, -1) if isinstance(calls[at], Ran)), end)
        stops = [stop for stop in (self._notes.first, last) if stop < end]  # a recording begins there, and the last call is timed
        with self._machine.running(self.player):
            while number < end:
                after = end_of_equal(calls, number, min((stop for stop in stops if stop > number), default=end))
                recurrence = Recurrence(self.player.system)
                while number < after:
                    self._begin_at(number)
                    self._call(calls[number], timed=number == last and not self._record)
                    number += 1
                    if number < after:
                        self.player.replay(wait=True)
                        number += recurrence.skipped(after - number)
                    self.played = number

    def _call(self, call: Call, *, timed: bool) -> None:
        match call:
            case Ran() as ran:
                self.last = self._timed(ran) if timed else self._run(ran)
            case FromHost():
                self._send_weights()
            case ToHost():
                _read(self._state)

    def begin(self, number: int) -> Begin:
        """The begin of a recording at a call that has been played, or is the next one."""
        self._begin_at(number)
        return self._begins[number]

    def _begin_at(self, number: int) -> None:
        if self._record and number not in self._begins and number in (0, self._notes.first):
            self.player.system.record = self.player.system.record_links = True
            self._begins[number] = self.player.begin()

    def _send_weights(self) -> None:
        """New values of all that stays on the device come from the host. On each IPU one program takes them into the tiles."""
        self._state = _jax.tree.map(lambda leaf: _jax.device_put(np.zeros(leaf.shape, leaf.dtype), leaf.sharding), self._state)
        with hints.program_group(self._group):
            self._state = self._in_tiles(self._state)

    def _in_tiles(self, tree: Any) -> Any:
        """The same arrays, which stay in the tiles from then on: a program on each IPU takes those that it has."""
        leaves, structure = _jax.tree.flatten(tree)
        places: dict[Any, list[int]] = {}
        for number, leaf in enumerate(leaves):
            if not is_on_host(leaf):
                places.setdefault(tuple(sorted(device.id for device in leaf.sharding.device_set)), []).append(number)
        for numbers in places.values():
            for number, taken in zip(numbers, _take_weights([leaves[number] for number in numbers]), strict=True):
                leaves[number] = taken
        _jax.block_until_ready(leaves)
        return _jax.tree.unflatten(structure, leaves)

    def _run(self, call: Ran, *, loads_only: bool = False, timed: bool = False) -> None:
        """One call: the host pays for one dispatch, and waits until all is done.

        Args: loads_only: whether it only loads the programs: the pipeline runs until each has run, and nobody reads what it gives.
            timed: whether the timeline has its first runs of the pipeline and its last.
        """
        program, pipeline = self._program, self._pipeline
        if call.forward and program.forward is not None and self._forward is not None:
            program, pipeline = program.forward, self._forward
        runs = min(program.runs, max([2, *program.stages.periods.values()])) if loads_only else program.runs
        number, recurrence, unit = 0, Recurrence(self.player.system), math.lcm(*program.stages.periods.values())
        in_turn = not self._notes.options.plan.num_io_tiles  # else inputs come while the run before computes
        totals: dict[Any, Any] = {}
        if call.name and program.is_single:
            hints.pipeline_task(_NO_TASK, call.name, _NO_TASK)
        with hints.program_group(self._group):
            while number < runs:
                if timed and (number == 0 or (runs > 3 and number in (2, runs - 1))):  # between the first runs a total would leave
                    self.player.replay(wait=True)
                    self.player.system.record = number != 2
                try:
                    self._state, leaving = program.step(pipeline, self._state)
                except LoopInterrupt:  # whose state is of this play, and no session's
                    raise KeyboardInterrupt from None
                for key in [key for key in leaving if runs > 1 and program.stages.watch.get(key) == "sum"]:
                    totals[key] = _added(totals[key], leaving[key]) if key in totals else leaving[key]
                    leaving[key] = totals[key]
                if program.is_loaded:
                    self._state = self._in_tiles((self._state, leaving))[0]
                else:
                    results = self._leaving(program, leaving, number, totals)
                    _jax.block_until_ready(results) if loads_only else _read(results)
                del leaving
                number += 1
                if number > 1 and number % unit == 0 and number + unit < runs and in_turn:  # the last ones end the timeline
                    _jax.block_until_ready(_jax.tree.leaves(self._state))  # else the host's clock would not move
                    self.player.replay(wait=True)
                    number += unit * recurrence.skipped((runs - 1 - number) // unit)
        hints.no_pipeline_task()
        _jax.block_until_ready(_jax.tree.leaves(self._state))

    def _leaving(self, program: EmulatedProgram, watched: Mapping[Any, Any], run: int, totals: Mapping[Any, Any]) -> list[Any]:
        """What leaves behind a run. All else stays, because a program takes it: what no program takes would leave.

        Args: watched: by key. totals: of those that the next run takes.
        """
        found: list[Any] = []
        others: list[Any] = []
        for key, value in watched.items():
            rows = program.rows(key, run)
            if len(rows) == program.schedule.microbatches or (rows and isinstance(key, Parameter)):  # a parameter has a row for each run
                found.append(value)
            elif rows:
                found.append(_every(value, rows.start, rows.step))
            elif key not in totals:
                others.append(value)
        if others:
            _stay(others)
        return found

    def _timed(self, call: Ran) -> Spent:
        system = self.player.system
        before = self.player.mark()
        self._run(call, timed=True)
        after = self.player.mark()
        # What the host reads in a call are its results: the last value, or the sum, of an anchor waits in the tiles for that.
        own = [event for event in system.trace_between(before, after).events if event.kind == "read" or event.kind not in OUTSIDE]
        span = max(event.end_cycle for event in own) - min(event.start_cycle for event in own) if own else 0
        system.record = False
        system.clear_trace()
        return Spent(span, cycles_between(before, after))


@functools.partial(_jax.jit, donate_argnums=0)
def _take_weights(arrays: list[Any]) -> list[Any]:
    return _jax.lax.optimization_barrier(arrays)


@functools.partial(_jax.jit, donate_argnums=0)
def _stay(arrays: list[Any]) -> list[Any]:
    return _jax.lax.optimization_barrier(arrays)


@functools.partial(_jax.jit, static_argnums=(1, 2))
def _every(value: Any, start: int, period: int) -> Any:
    return value[start::period]


@functools.partial(_jax.jit, donate_argnums=0)
def _added(total: Any, value: Any) -> Any:
    return _jax.tree.map(_jax.numpy.add, total, value)


def _read(tree: Any) -> None:
    for array in _jax.tree.leaves(tree):
        np.asarray(array)
