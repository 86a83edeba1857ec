"""The order of what the host does, before it is emulated time."""

from collections.abc import Callable
from typing import cast

import pytest

from tests.unit.sim.toy import program, superstep
from tilestep.pjrt.running import player as player_module
from tilestep.pjrt.running.entries import PlannedRun, RunEntry, named
from tilestep.pjrt.running.player import Player
from tilestep.pjrt.running.program_source import ProgramSource
from tilestep.plan.steps import Counts
from tilestep.settings import read_settings
from tilestep.sim.calls import Call, Copy, Dispatch, Forget, MomentCall, Put, Read, Wait


class _Noticed(int):
    """The number of a value. When it is looked up something else happens, as if another thread had its turn then."""

    then: Callable[[], None]

    def __hash__(self) -> int:
        self.then()
        return int(self)


def test_other_threads_may_add_to_it_while_copies_are_put_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(player_module, "FORGOTTEN", [])  # values of this process's platform have the same numbers
    player = Player(read_settings({}))
    journal = player.journal
    journal.put(1, 0, 64, False)
    put: list[int] = []
    source = _Noticed(1)

    def put_another() -> None:
        if len(put) < 10:
            put.append(10 + len(put))
            journal.put(put[-1], 0, 64, False)

    source.then = put_another
    for target in (2, 3):
        journal.copy(source, target, 1, False)
    player.replay(wait=True)
    assert put
    assert all(player.system.knows(value) for value in (1, 2, 3, *put))


def test_an_entry_with_a_field_too_few_or_too_many_is_refused() -> None:
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        named((Read,))
    with pytest.raises(TypeError, match="takes"):
        named((Read, 1, None, 2))


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> Player:
    """A player whose calls are kept."""
    monkeypatch.setattr(player_module, "FORGOTTEN", [])
    player = Player(read_settings({}), looks=False)
    player.begin()
    return player


def calls_of(player: Player) -> list[Call]:
    """The calls that were kept."""
    player.replay(wait=True)
    assert player.system.log is not None
    return list(player.system.log.calls())


def test_an_upload_begins_at_its_moment(kept: Player) -> None:
    moment = kept.journal.moment()
    kept.journal.upload([(Put, 1, 0, 64, False), (Put, 2, 0, 64, False, None, 7)], moment)
    assert calls_of(kept) == [MomentCall(0), Put(1, 0, 64, False, 0), Put(2, 0, 64, False, 0, 7)]


def test_a_read_is_a_wait_first_and_both_have_its_line(kept: Player) -> None:
    line = "train.py", 7
    kept.journal.put(1, 0, 64, False, contents=3)
    kept.journal.entries.append((Read, 1, line))
    assert calls_of(kept) == [Put(1, 0, 64, False, contents=3), Wait(1, line), Read(1, line)]


def test_an_argument_that_a_program_may_not_take_over_is_copied_for_it(kept: Player) -> None:
    step = program(superstep(50), takes=(64,), gives=(64,), donates={0: 0})
    planned = PlannedRun(step, 1, (0,), 1, (), source=cast("ProgramSource", None), simulated=(0,))  # which nobody asks for
    kept.journal.put(1, 0, 64, False)
    kept.journal.entries.append((RunEntry, planned, (1,), 2, (), (0,), None, None, ("train.py", 9)))
    _, copy, dispatch, forget = calls_of(kept)
    assert (copy, forget) == (Copy(1, -1, 0, False, None), Forget(-1))
    assert dispatch == Dispatch(1, (0,), ((-1,),), ((2,),), (Counts(),), None, None, ("train.py", 9))
    assert kept.system.knows(1)
