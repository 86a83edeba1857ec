"""What if the machine were another: a recording's journal played again with knobs turned."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Final

from tilestep.advice.evidence import begin_of
from tilestep.advice.what_if.knobs import TurnedKnob, turned, with_family
from tilestep.errors import RecordingError, SpecError, TilestepError
from tilestep.figures.quantities import count_text, names_text
from tilestep.machine.spec import MachineSpec
from tilestep.messages import nearest, plain, shown
from tilestep.options import PlanOptions
from tilestep.plan.memory.liveness import fits
from tilestep.plan.steps import Program, Superstep, leaves
from tilestep.recording.history import History
from tilestep.recording.program import without_lines
from tilestep.recording.replay import replay_of_file
from tilestep.recording.sources import Source, planned_again

_UNKNOWN: Final[Mapping[int, PlanOptions]] = MappingProxyType({})


@dataclass(frozen=True, kw_only=True)
class WhatIfOutcome:
    """A recording with settings.

    Attributes:
        settings: as they were given.
        cycles: that the recording takes.
        turned_cycles: that it takes with all settings.
        planned_again: names of programs that were planned again.
        unfit: of those, the ones that do not fit.
        machine: that it takes these cycles on.
    """

    settings: tuple[str, ...]
    cycles: int
    turned_cycles: int
    planned_again: tuple[str, ...]
    unfit: tuple[str, ...]
    machine: MachineSpec


def outcome(
    history: History,
    hlo: Mapping[int, str],
    settings: Sequence[TurnedKnob],
    *,
    options: Mapping[int, PlanOptions] = _UNKNOWN,
    machine: MachineSpec | None = None,
) -> WhatIfOutcome:
    """Plays all of a history with settings.

    Args:
        history: of a recording, from anybody.
        hlo: of its programs, by key, as far as it was kept.
        settings: all together.
        options: of its programs' plans, by key, as far as they were kept; the default ones count for others.
        machine: another one, for which all programs are planned again, before the settings; None: that of the recording.

    Raises:
        RecordingError: if the journal cannot be played, or a setting changes plans and a program's HLO was not kept or cannot be planned.
        SpecError: for a value outside of its bounds, a family of which no superstep is, or a machine with fewer IPUs.
    """
    programs, snapshot, plans = dict(history.programs), history.snapshot, any(setting.knob.plans for setting in settings)
    if machine is None:
        machine = history.machine
    else:
        _require_plannable(history, hlo, machine)
        plans, snapshot = True, replace(snapshot, channels=())  # it may have other links
    for setting in settings:
        machine = turned(machine, setting)
    again: tuple[str, ...] = ()
    if plans:
        programs, again = _planned(history, hlo, options, machine)
    known = {leaf.family for program in programs.values() for leaf in leaves(program.body) if isinstance(leaf, Superstep)}
    for setting in settings:
        if setting.family and setting.family not in known:
            near = nearest(setting.family, known)
            hint = f"; the nearest is '{near}'" if near else ""
            raise SpecError(f"no superstep is of family {shown(setting.family)}{hint}: the recording has {', '.join(sorted(known))}")
        programs = dict(with_family(programs, setting))
    begin = begin_of(history.snapshot)
    cycles = replay_of_file(history).end_cycle - begin
    changed = replay_of_file(replace(history, snapshot=snapshot), machine=machine, programs=programs).end_cycle - begin
    unfit = tuple(dict.fromkeys(program.name for program in programs.values() if not fits(program.memory, machine.ipu.tile)))
    return WhatIfOutcome(
        settings=tuple(map(str, settings)),
        cycles=cycles,
        turned_cycles=changed,
        planned_again=again,
        unfit=unfit if again else (),
        machine=machine,
    )


def _require_plannable(history: History, hlo: Mapping[int, str], machine: MachineSpec) -> None:
    """Raises: SpecError if a machine has fewer IPUs than the recorded one; RecordingError if a program's HLO was not kept."""
    if machine.num_ipus < history.machine.num_ipus:
        raise SpecError(
            f"machine {machine.name} has {count_text(machine.num_ipus, 'IPU')}, and the recording is of {history.machine.num_ipus}: "
            "name one with at least as many"
        )
    missing = list(dict.fromkeys(shown(program.name) for key, program in history.programs.items() if not hlo.get(key)))
    if missing:
        it = "it" if len(missing) == 1 else "them"
        raise RecordingError(
            f"{names_text(missing)} cannot be planned for {machine.name}, because the recording has no HLO of {it}: "
            f"`tilestep run --machine {machine.name} SCRIPT` runs the program there"
        )


def _planned(
    history: History, hlo: Mapping[int, str], kept: Mapping[int, PlanOptions], machine: MachineSpec
) -> tuple[dict[int, Program], tuple[str, ...]]:
    """The programs planned for another machine, with the options of their first plan."""
    programs: dict[int, Program] = {}
    for key, program in history.programs.items():
        source = Source(text=partial(hlo.get, key, ""), options=PlanOptions())
        options = _options(source, program, history.machine, kept.get(key))
        programs[key] = _plan_of_file(source, program, machine, options)
    return programs, tuple(dict.fromkeys(program.name for program in programs.values()))


def _options(source: Source, program: Program, machine: MachineSpec, kept: PlanOptions | None) -> PlanOptions:
    """The options with which the HLO becomes the program that was recorded: those that were kept, or the default ones."""
    options = kept or PlanOptions(num_io_tiles=program.num_io_tiles)
    if replace(without_lines(_plan_of_file(source, program, machine, options)), dry=False) != replace(without_lines(program), dry=False):
        with_others = "" if kept else "with other options, or "
        raise RecordingError(
            f"program '{program.name}' cannot be planned again: its HLO does not become the recorded one. It was planned {with_others}by "
            "another version of tilestep"
        )
    return options


def _plan_of_file(source: Source, program: Program, machine: MachineSpec, options: PlanOptions) -> Program:
    """A plan of HLO that may come from anybody. Raises: RecordingError if it has none."""
    try:
        return planned_again(source, program, machine, options=options)
    except RecordingError:
        raise
    except (TilestepError, ValueError, ArithmeticError, LookupError, AssertionError, TypeError, RecursionError) as error:
        raise RecordingError(f"program '{program.name}' cannot be planned again: {plain(error) or type(error).__name__}") from None
