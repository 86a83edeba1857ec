"""`tilestep report what-if`: what a recorded run would take on another machine."""

import argparse
from typing import Any, Final

from tilestep.advice.what_if.knob_table import KnobTable, Turned, answer, knob_table
from tilestep.advice.what_if.knobs import FAMILY, KNOBS, setting_of
from tilestep.advice.what_if.outcome import outcome
from tilestep.cli.report.opening import WRONG, add_path, exit_status, print_json, print_line, print_rows
from tilestep.cli.usage import tell
from tilestep.errors import SpecError
from tilestep.figures.quantities import time_text
from tilestep.figures.reader import open_report
from tilestep.machine.spec import MachineSpec
from tilestep.machine.toml import changed_machine, load_machine
from tilestep.messages import sentences
from tilestep.recording.sources import hlo_of, options_of
from tilestep.units import seconds_from_cycles

_COMMAND: Final = "tilestep report what-if"
_BOTH: Final = ("/2", "x2")


def add_parser(subparsers: Any) -> None:
    """Adds `what-if` to the subparsers of `tilestep report`."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "what-if",
        help="play a recording again on another machine",
        description="Plays the journal of a recording again on another machine, or with its knobs turned. Without both: each knob "
        f"halved and doubled, and the cost of each family of operations. Knobs: {', '.join(KNOBS)}, {FAMILY}NAME, or "
        "the path of a machine's field.",
    )
    add_path(parser)
    parser.add_argument(
        "--set",
        metavar="KNOB=xFACTOR",
        dest="settings",
        action="append",
        default=[],
        help="turn a knob: host.link=x2, host.load=/2, links=32e9, sync.pattern=singlePipeline, family.matmul=/2; all together",
    )
    parser.add_argument(
        "--machine",
        metavar="NAME|FILE.toml",
        help="play it on another machine with at least as many IPUs: all programs are planned again for it; --set turns its knobs",
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    parser.set_defaults(run=run)


def _like(recorded: MachineSpec, name: str) -> MachineSpec:
    """The machine of this name, with the recorded one's sync pattern, and as many IPUs simulated if it has so many IPUs."""
    machine = load_machine(name, sync_pattern=recorded.sync_pattern, simulated_ipus=0)
    if machine.num_ipus < recorded.num_ipus:
        return machine
    try:
        return changed_machine(machine, simulated_ipus=recorded.simulated_ipus)
    except SpecError as error:
        raise SpecError(
            f"the recording has {recorded.num_simulated} simulated IPUs, which do not stand for those of {machine.name}: {error}"
        ) from error


def run(args: argparse.Namespace) -> int:
    """Prints to stdout. Returns 2 after a message to stderr if the recording cannot be played, or a setting is wrong."""
    return exit_status(_COMMAND, lambda: _what_if(args))


def _what_if(args: argparse.Namespace) -> int:
    try:
        settings = [setting_of(text) for text in args.settings]
        report = open_report(args.path)
        history = report.history
        _ = report.execution  # without one no knob would change anything
        clock_hz = history.machine.ipu.clock_hz
        machine = None if args.machine is None else _like(history.machine, args.machine)
        if settings or machine is not None:
            found = outcome(history, hlo_of(report.tables), settings, options=options_of(report.tables), machine=machine)
            now, then = seconds_from_cycles(found.cycles, clock_hz), seconds_from_cycles(found.turned_cycles, found.machine.ipu.clock_hz)
            change = found.turned_cycles / found.cycles * (clock_hz / found.machine.ipu.clock_hz) - 1 if found.cycles else 0.0
            names = [*([] if machine is None else [f"on {machine.name}"]), *found.settings]
            if args.json:
                print_json(
                    {
                        "machine": found.machine.name,
                        "settings": list(found.settings),
                        "emulated_cycles": found.cycles,
                        "emulated_s": now,
                        "turned_cycles": found.turned_cycles,
                        "turned_s": then,
                        "change": change,
                        "planned_again": list(found.planned_again),
                        "unfit": list(found.unfit),
                    }
                )
                return 0
            print_line(sentences(f"{', '.join(names)}: {time_text(then)} in place of {time_text(now)} ({_percent(change)})"))
            if found.planned_again:
                print_line(sentences(f"Planned again: {', '.join(found.planned_again)}"))
            if found.unfit:
                print_line(sentences(f"Does not fit there: {', '.join(found.unfit)}"))
            return 0
        turned = knob_table(history)
    except SpecError as error:
        tell(_COMMAND, str(error))
        return WRONG
    if args.json:
        knobs = [{"knob": row.knob, "now": row.now, "changes": dict(row.changes)} for row in turned.rows]
        print_json({"basis": turned.basis, "complete": history.complete, "knobs": knobs})
    else:
        _print(turned)
    return 0


def _print(turned: KnobTable) -> None:
    print_line(answer(turned))
    cells = [(row.knob, row.now, *(_cell(row, setting) for setting in _BOTH)) for row in turned.shown if _is_number(row)]
    print_rows(f"Emulated time{f', {turned.basis}' if turned.basis else ''}", ("knob",), ("now", "halved", "doubled"), cells)
    for row in turned.shown:
        if not _is_number(row):
            changes = [f"{name} {_percent(change)}" for name, change in row.changes.items()]
            print_line(f"{row.knob} is {row.now}: {', '.join(changes)}")
    if turned.others:
        where = "in the runs that were played" if turned.basis else "on this recording"
        print_line(f"No effect {where}: {', '.join(row.knob for row in turned.others)}.")


def _is_number(row: Turned) -> bool:
    return row.changes.keys() <= set(_BOTH)


def _cell(row: Turned, setting: str) -> str:
    return _percent(row.changes[setting]) if setting in row.changes else "-"


def _percent(change: float) -> str:
    return f"{100 * change:+.2f} %"
