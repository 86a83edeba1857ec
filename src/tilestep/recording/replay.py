"""Plays a history again: on the same machine with equal times, or with another machine or other programs.

A replay imports no JAX and computes no values.
"""

from collections.abc import Iterable, Mapping

import numpy as np

from tilestep.errors import RecordingError
from tilestep.machine.spec import MachineSpec
from tilestep.messages import plain
from tilestep.plan.steps import Program
from tilestep.recording.call_tables import has_history, history_of
from tilestep.recording.capture import event_columns, lane_row
from tilestep.recording.history import History
from tilestep.recording.schema import TABLES
from tilestep.recording.tables import Replaced, Tables
from tilestep.sim import calls as kinds
from tilestep.sim.call_log import MAX_PARTS
from tilestep.sim.calls import Call, Moment
from tilestep.sim.system import System


def replay(
    history: History,
    *,
    machine: MachineSpec | None = None,
    programs: Mapping[int, Program] | None = None,
    calls: Iterable[Call] | None = None,
    record: bool = False,
    links: bool = False,
) -> System:
    """The system after all calls of a history.

    Args:
        history: to play.
        machine: to emulate in place of the history's; it needs as many IPUs.
        programs: by key, in place of the history's.
        calls: to make in place of the history's.
        record: whether the system keeps events.
        links: whether transfers over host links are events of their own.

    Returns:
        A system at the end of the history. Its `end_cycle` equals the original's if nothing was replaced.

    Raises:
        ValueError: if a call cannot be made, for example because a program that was replaced has donated a value that is used later; if
            there are more dispatches than a log keeps.
    """
    known = history.programs if programs is None else {**history.programs, **programs}
    system = System.restored(history.snapshot, machine or history.machine, known, record=record)
    system.record_links = links
    play(system, history.calls if calls is None else calls, known)
    return system


def replay_of_file(
    history: History,
    *,
    machine: MachineSpec | None = None,
    programs: Mapping[int, Program] | None = None,
    calls: Iterable[Call] | None = None,
    record: bool = False,
) -> System:
    """The same for a history that may come from anybody. Transfers over host links are events of their own.

    Raises: RecordingError if a call cannot be made.
    """
    try:
        system = replay(history, machine=machine, programs=programs, calls=calls, record=record, links=record)
        system.mark()
    except (ValueError, ArithmeticError, LookupError, AssertionError, TypeError) as error:  # the simulation takes it to be impossible
        raise RecordingError(f"the journal of the recording cannot be played: {plain(error) or type(error).__name__}") from None
    return system


def play(system: System, calls: Iterable[Call], programs: Mapping[int, Program]) -> None:
    """Makes calls on a system.

    Raises: ValueError if one cannot be made.
    """
    moments: dict[int, Moment] = {}
    parts = 0
    for call in calls:
        match call:
            case kinds.Forget(value):  # first, because there are as many as values
                system.forget(value)
            case kinds.Put(value, ipu, size_bytes, on_host, since, contents):
                moment = moments[since] if isinstance(since, int) else since
                system.put(value, ipu=ipu, size_bytes=size_bytes, on_host=on_host, since=moment, contents=contents)
            case kinds.Copy(source, target, ipu, on_host, group):
                system.copy(source, target, ipu=ipu, on_host=on_host, group=group)
            case kinds.Wait(value, line):
                system.wait(value, line)
            case kinds.Read(value, line):
                system.read(value, line)
            case kinds.Dispatch():
                program = programs.get(call.key)
                if program is None:
                    raise ValueError(f"a call dispatches program {call.key}, which is not there")
                parts += len(call.arguments)
                if parts > MAX_PARTS:
                    raise ValueError(f"the calls dispatch more than {MAX_PARTS:,} parts of programs, which is more than a log keeps")
                system.dispatch(program, call)
            case kinds.Accumulated(batch, steps):
                system.accumulated(batch, steps)
            case kinds.MomentCall(number):
                moments[number] = system.moment()


def with_all_events(tables: Tables, history: History | None = None) -> Tables:
    """The recording with the events of all its runs.

    Args:
        tables: a recording with its whole journal.
        history: that `history_of` gives of it, if the caller has it already.

    Returns:
        The same with other tables `lanes` and `events`.

    Raises:
        RecordingError: if the journal was not kept, was cut, or cannot be played.
    """
    if not has_history(tables):
        raise RecordingError("this recording has no journal, so the events that it left out are lost: record it with one")
    history = history or history_of(tables)
    if not history.complete:
        raise RecordingError("the journal of this recording was cut, so the events that it left out are lost: record fewer runs")
    system = replay_of_file(history, record=True)
    start = history.snapshot.dispatches
    runs = {start + row: row for row in range(tables.rows("runs"))}
    programs = {key: row for row, key in enumerate(tables.column("programs", "key").tolist())}
    rows = [lane_row(lane) for lane in system.lanes]
    lanes = {name: np.array([row[name] for row in rows], np.int64) for name in TABLES["lanes"]}
    return Replaced(tables, {"lanes": lanes, "events": event_columns(system.all_rows(), programs=programs, runs=runs)})
