"""The emulated machine of one session."""

from __future__ import annotations

import functools
import itertools
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Final, final

from tilestep.errors import StreamingMemoryError, TileMemoryError
from tilestep.machine.spec import MachineSpec
from tilestep.messages import nearest, shown
from tilestep.pjrt.plugin import initialize
from tilestep.pjrt.programs.planning import Planned, Residence, plan_for
from tilestep.popart.session.emulation import reports
from tilestep.popart.session.emulation.anchors_advice import Returned
from tilestep.popart.session.emulation.arguments import Kept, Layout, Path, layout_of
from tilestep.popart.session.emulation.calls import Notes, SessionProgram, SessionSystem
from tilestep.popart.session.emulation.notes import FromHost, Ran, ToHost
from tilestep.popart.session.emulation.options import EmulationOptions
from tilestep.popart.session.emulation.out_of_memory import out_of_memory
from tilestep.popart.session.emulation.said import line_now
from tilestep.popart.session.emulation.spent import OUTSIDE, ByIpu, cycles_between, inner_cycles, no_run
from tilestep.popart.session.emulation.watched import begun
from tilestep.report.reader import Report
from tilestep.train.untyped import jax as _jax

_FROM_HOST: Final = "weightsFromHost"


@final
class Emulation:
    """The machine of one session: it plans the session's programs, and plays their calls when somebody asks for a figure.

    Args:
        machine: to emulate: that of the session's device, or what a setting has put in its place.
        name: of the session; its report is written to a folder of that name.
        options: of plans and reports.

    Attributes:
        machine: to emulate.
    """

    def __init__(self, machine: MachineSpec, *, name: str, options: EmulationOptions | None = None) -> None:
        self.machine = machine
        self._notes = Notes(machine=self.machine, name=name, options=options or EmulationOptions())
        self._new_key = itertools.count(1)
        self._keys: dict[str, int] = {}  # label -> key of its program
        self._transfers: dict[frozenset[Path], int] = {}  # arrays -> key of the program that takes them from the host
        self._said: dict[Ran, Ran] = {}  # equal notes are one object
        self._live = SessionSystem(self._notes)
        self._last: tuple[int, ByIpu] | None = None  # number of the last run, and what it took
        self._close = weakref.finalize(self, reports.write, self._notes, functools.partial(reports.measured, self._notes))
        begun(reports.Told(self._notes, self._close))

    # ------------------------------------------------------------------------------------------------ what happens

    def prepare(
        self,
        label: str,
        jitted: Any,
        arguments: Sequence[Any],
        *,
        kept: Sequence[Kept] = (),
        in_slices: bool = False,
        is_loaded: bool = False,
        returned: tuple[Returned, ...] = (),
    ) -> None:
        """Plans a program, which may be called from then on. It takes the place of an earlier one of that label.

        Args:
            label: what `ran` calls it.
            jitted: of `jax.jit`, without static arguments.
            arguments: as for `jitted.trace`; arrays may be jax.ShapeDtypeStruct.
            kept: the arguments that stay on the device. All others come from the host at each call, and all other results go there.
            in_slices: whether the program loops over what comes from the host, so that one part of it is in the tiles at a time.
            is_loaded: whether what is kept is in the tiles when the session begins, as a part of the executable.
            returned: the anchors of which each microbatch's value leaves.

        Raises:
            OutOfMemoryException: if it does not fit into the machine.
            ValueError: if an argument and the result that replaces it differ.
        """
        before = self._keys.get(label)
        self._notes.line, self._notes.returned, self._notes.is_loaded = line_now(), returned, is_loaded
        self._keys[label] = self._plan(label, jitted, arguments, kept, in_slices=in_slices)
        if before is not None and not any(isinstance(call, Ran) and before in call.keys for call in self._notes.calls):
            del self._notes.programs[before]

    def _plan(self, label: str, jitted: Any, arguments: Sequence[Any], kept: Sequence[Kept], *, in_slices: bool) -> int:
        initialize()  # JAX lowers for the emulated machine whether or not the process uses it as a platform
        lowered = jitted.trace(*arguments).lower(lowering_platforms=("ipu",))
        layout = layout_of(lowered, arguments, kept)
        notes = self._notes
        residence = Residence(kept=layout.kept, in_host_memory=in_slices)
        try:
            planned = plan_for(self.machine, lowered, name=label, residence=residence, options=notes.options.plan)
        except TileMemoryError as error:
            raise out_of_memory(error, summary=error.facts, path="") from None
        key = next(self._new_key)
        notes.programs[key] = program = _session_program(key, planned, layout)
        notes.arrays.update(layout.arrays)
        self._require_fits(program)
        reports.write_program(notes, program)
        return key

    def _require_fits(self, program: SessionProgram) -> None:
        notes = self._notes
        try:
            program.planned.require_fits()
        except (TileMemoryError, StreamingMemoryError) as error:
            if notes.options.allow_out_of_memory:
                return
            path = reports.write_unfit(notes, program)
            raise out_of_memory(error, summary=reports.memory_of(program), path=path) from None

    def ran(self, *labels: str, times: int = 1, name: str = "") -> None:
        """Notes that the session was called so many times, and each time ran these programs one after the other.

        Args: name: of the call, in reports.
        Raises: ValueError for a program that was not prepared.
        """
        try:
            note = Ran(name, tuple([self._keys[label] for label in labels]))
        except KeyError as error:
            near = nearest(error.args[0], self._keys)
            hint = f"; the nearest that was is {near!r}" if near else ""
            raise ValueError(f"program {shown(error.args[0])} was not prepared{hint}") from None
        note = self._said.setdefault(note, note)
        if times == 1:
            self._notes.calls.append(note)
        else:
            self._notes.calls.extend([note] * times)

    def weights_from_host(self, select: Callable[[Path], bool] | None = None) -> None:
        """Notes that the host sends new values of arrays that stay on the device. Args: select: by their paths; None: all."""
        paths = frozenset(self._selected(select))
        if not paths:
            return
        if paths not in self._transfers:
            names = sorted(paths)
            arrays = [self._notes.arrays[name] for name in names]
            kept = [Kept(argument=number, result=number, name=name) for number, name in enumerate(names)]
            self._transfers[paths] = self._plan(_FROM_HOST, _jax.jit(_unchanged), arrays, kept, in_slices=False)
        self._notes.calls.append(FromHost(self._transfers[paths]))

    def weights_to_host(self, select: Callable[[Path], bool] | None = None) -> None:
        """Notes that the host reads arrays that stay on the device. Args: select: by their paths; None: all."""
        if paths := self._selected(select):
            self._notes.reads_at = self._notes.reads_at or line_now()
            self._notes.calls.append(ToHost(paths))

    def _selected(self, select: Callable[[Path], bool] | None) -> tuple[Path, ...]:
        return tuple(path for path in self._notes.arrays if select is None or select(path))

    # -------------------------------------------------------------------------------------------------- what it took

    def cycles(self) -> int:
        """Cycles of the last call, from its first argument's way in to its last result's way out, on its busiest IPU.

        Raises: popart_runtime_error if nothing ran.
        """
        return max(sum(cycles for kind, cycles in kinds.items() if kind not in OUTSIDE) for kinds in self._last_run().values())

    def inner_cycles(self, ipu: int = 0) -> int:
        """Cycles of the steps of the last call on one IPU, without transfers to and from the host; 0 if it took no part.

        Raises: popart_runtime_error if nothing ran.
        """
        return inner_cycles(self._last_run(), ipu)

    def total_cycles(self) -> int:
        """Cycles of the machine's clock until all that the session has called is done."""
        if self._last_call() is not None:
            self._last_run()  # before the calls behind it
        self._live.play(len(self._notes.calls))
        return self._live.system.end_cycle

    def report(self) -> Report:
        """The recording of the session so far, opened: its programs, also those that have not run, and its runs."""
        return reports.report_of(self._notes)

    def summary(self) -> str:
        """The figures of the session so far as text."""
        return reports.summary_of(self._notes)

    def reset_profile(self) -> None:
        """Reports count from now on. What is on the device stays there."""
        self._notes.first = len(self._notes.calls)

    @property
    def profile_path(self) -> str:
        """The path that the recording has when the session is closed; '' if the options ask for none."""
        return self._notes.profile_path

    def close(self) -> None:
        """Writes the report that the options ask for. Happens by itself when the emulation is no longer used, or the process ends."""
        self._close()

    def _last_call(self) -> tuple[int, Ran] | None:
        """The last call of a program, and its number; None: nothing ran."""
        calls = self._notes.calls
        numbered = ((number, calls[number]) for number in range(len(calls) - 1, -1, -1))
        return next(((number, call) for number, call in numbered if isinstance(call, Ran)), None)

    def _last_run(self) -> ByIpu:
        """The cycles of the programs of the last call."""
        last = self._last_call()
        if last is None:
            raise no_run()
        number, call = last
        if self._last is None or self._last[0] != number:
            live = self._live
            live.play(number)
            before = live.system.mark()
            live.play(number + 1)
            self._last = number, cycles_between(before, live.system.mark(), set(call.keys))
        return self._last[1]


def _unchanged(*arrays: Any) -> tuple[Any, ...]:
    return arrays


def _session_program(key: int, planned: Planned, layout: Layout) -> SessionProgram:
    kept = {position: layout.paths[number] for position, number in enumerate(planned.arguments) if number in layout.paths}
    replaced = {result.index: kept[result.argument] for result in planned.program.results if result.argument is not None}
    return SessionProgram(key=key, planned=planned, ipus=planned.ipus, kept=kept, replaced=replaced)
