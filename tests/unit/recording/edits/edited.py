"""Host programs on the toy machine whose calls are kept, so that they can be edited and played again."""

from collections.abc import Callable

from tests.unit.sim.toy import Host
from tilestep.recording.edits.script import Change, Script
from tilestep.recording.history import History, begin_history, history_since
from tilestep.recording.replay import replay


def kept(act: Callable[[Host], None], num_ipus: int = 1) -> History:
    """What a host program did."""
    host = Host(num_ipus)
    begin = begin_history(host.system)
    act(host)
    return history_since(host.system, begin)


def script_of(history: History) -> Script:
    return Script(calls=tuple(history.calls), programs=history.programs)


def cycles(history: History, change: Change | None = None) -> int:
    """Of a host program, as it was or with a change."""
    script = script_of(history)
    if change is not None:
        script = change(script)
    return replay(history, calls=script.calls, programs=script.programs).end_cycle
