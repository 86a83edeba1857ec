"""An edit of what a host program did takes as long as the host program that is really written so."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.unit.figures.reader.recorded import larger
from tests.unit.recording.edits.edited import cycles, kept, script_of
from tests.unit.sim.toy import Host, collective, program, superstep
from tilestep.plan.steps import HostCall, Loop, Program, Series
from tilestep.recording.edits.donation import donatable, donated, pairs_of, put_once
from tilestep.recording.edits.donation import kept as kept_unchanged
from tilestep.recording.edits.looped import looped
from tilestep.recording.edits.programs import in_tiles, on_fewer_tiles, scaled, with_collectives
from tilestep.recording.edits.reads import read_at_the_end, without_results
from tilestep.recording.edits.relocate import called_as, merged, on_cpu, passed_straight
from tilestep.recording.edits.script import Change, ImpossibleEditError, in_turn, with_changed, without_forgets
from tilestep.recording.replay import replay

BIG = 4096
STEPS = 6


def step(**donates: int) -> Program:
    return program(superstep(5), name="step", takes=(BIG, 8), gives=(BIG, 4), donates={0: 0} if donates else None)


def training(called: Program, *, keep: bool = False, read: str = "each") -> Callable[[Host], None]:
    """A state that goes round; its losses are read at once or at the end."""

    def act(host: Host) -> None:
        state, losses, states = host.put(BIG), list[int](), list[int]()
        for _ in range(STEPS):
            before, (state, loss) = state, host.run(called, state, host.put(8))
            states.append(before)
            losses.append(loss)
            if read == "each":
                host.system.wait(loss)
                host.system.read(loss)
            if not keep:
                host.system.forget(before)
        for loss in losses if read == "end" else ():
            host.system.wait(loss)
            host.system.read(loss)
        for before in states if keep else ():
            host.system.read(before)

    return act


def test_donation_of_own_results_is_exact() -> None:
    before, after = kept(training(step())), kept(training(step(donated=1)))
    assert cycles(before, donated(1, [0])) == cycles(after) < cycles(before)


def test_a_value_that_is_used_again_cannot_be_donated() -> None:
    history = kept(training(step(), keep=True))
    assert donatable(tuple(history.calls), 1, [0, 1]) == (1,)
    with pytest.raises(ImpossibleEditError, match="argument 0 of program 1 is used again"):
        cycles(history, donated(1, [0]))


def test_where_more_calls_follow_a_value_must_have_been_forgotten() -> None:
    one = step()

    def forgotten(host: Host) -> None:
        state = host.put(BIG)
        for _ in range(STEPS):
            before, (state, _) = state, host.run(one, state, host.put(8))
            host.system.forget(before)

    calls = tuple(kept(forgotten).calls)
    assert donatable(calls, 1, [0], more_follow=True) == donatable(calls[:-1], 1, [0], more_follow=True) == (0,)
    assert donatable(tuple(kept(forgotten).calls), 1, [1], more_follow=True) == ()


def test_a_value_that_is_two_arguments_of_a_call_cannot_be_donated() -> None:
    both = program(superstep(5), name="both", takes=(BIG, BIG), gives=(BIG,))

    def act(host: Host) -> None:
        state = host.put(BIG)
        for _ in range(STEPS):
            [state] = host.run(both, state, state)

    assert donatable(tuple(kept(act).calls), 1, [0, 1]) == ()
    with pytest.raises(ImpossibleEditError, match="a value is two arguments"):
        cycles(kept(act), kept_unchanged(1, [0]))


def test_an_argument_without_a_result_of_its_shape_cannot_be_donated() -> None:
    with pytest.raises(ImpossibleEditError, match="has not as many free results of those shapes"):
        cycles(kept(training(step())), donated(1, [0, 1]))


def test_arguments_are_paired_with_results_in_order() -> None:
    called = program(superstep(1), takes=(8, 16, 8, 8), gives=(16, 8, 8), donates={3: 2})
    assert pairs_of(called, [0, 1, 2]) == {1: 0, 0: 1}
    assert pairs_of(called, [2]) == {2: 1}


def predicting(*, returned: bool) -> Callable[[Host], None]:
    def act(host: Host) -> None:
        once = program(superstep(5), name="predict", takes=(BIG, 8), gives=(4,))
        whole = program(superstep(5), name="predict", takes=(BIG, 8), gives=(4, BIG), donates={0: 1})
        weights = host.put(BIG)
        for _ in range(STEPS):
            if returned:
                before, (_, weights) = weights, host.run(whole, weights, host.put(8))
                host.system.forget(before)
            else:
                host.run(once, weights, host.put(8))
        host.system.read(weights)
        host.system.forget(weights)

    return act


def test_weights_that_are_returned_unchanged_are_exact_and_read_at_the_end() -> None:
    before, after = kept(predicting(returned=False)), kept(predicting(returned=True))
    assert cycles(before, kept_unchanged(1, [0])) == cycles(after) < cycles(before)


def test_reads_at_the_end_are_exact() -> None:
    before, after = kept(training(step(donated=1))), kept(training(step(donated=1), read="end"))
    assert cycles(before, read_at_the_end) == cycles(after) < cycles(before)


def test_a_value_that_is_donated_is_read_before() -> None:
    called = program(superstep(500), name="step", takes=(BIG,), gives=(BIG,), donates={0: 0})

    def act(host: Host) -> None:
        state = host.put(BIG)
        for _ in range(STEPS):
            [state] = host.run(called, state)
            host.system.read(state)

    history = kept(act)
    changed = read_at_the_end(script_of(history))
    assert [type(call).__name__ for call in changed.calls] == [type(call).__name__ for call in script_of(history).calls]


def test_a_result_that_is_not_returned_takes_no_time() -> None:
    long = program(superstep(5), name="step", takes=(8,), gives=(4, BIG))
    short = program(superstep(5), name="step", takes=(8,), gives=(4,))

    def act(called: Program) -> Callable[[Host], None]:
        return lambda host: [host.run(called, host.put(8)) for _ in range(STEPS)] and None

    assert cycles(kept(act(long)), without_results(1, [1])) == cycles(kept(act(short)))


def alternating(*, where: str) -> Callable[[Host], None]:
    def act(host: Host) -> None:
        train = program(superstep(50), name="train", takes=(BIG,), gives=(BIG,), donates={0: 0})
        test = program(superstep(5), name="test", takes=(BIG,), gives=(4,))
        state = host.put(BIG)
        for entry in range(STEPS):
            group = ("both", entry + 1) if where == "together" else None
            [state] = host.run(train, state, group=group)
            if where == "cpu":
                host.system.wait(state)
                host.system.read(state)
            else:
                [loss] = host.run(test, state, group=group)
                host.system.read(loss)

    return act


def test_a_program_on_the_cpu_reads_its_arguments() -> None:
    before, after = kept(alternating(where="apart")), kept(alternating(where="cpu"))
    assert cycles(before, on_cpu([2])) == cycles(after) < cycles(before)


def test_neighbours_that_are_one_program_are_a_group() -> None:
    before, after = kept(alternating(where="apart")), kept(alternating(where="together"))
    assert cycles(before, merged([1, 2])) == cycles(after) < cycles(before)


@pytest.mark.parametrize(("at_most", "entries"), [(None, 1), (3, 2), (4, 2), (1, 6)])
def test_an_entry_has_so_many_calls_at_most(at_most: int | None, entries: int) -> None:
    called = program(superstep(1), takes=(8,), gives=(8,), donates={0: 0})

    def act(host: Host) -> None:
        state = host.put(8)
        for _ in range(STEPS):
            [state] = host.run(called, state)

    script = merged([1], at_most=at_most)(script_of(kept(act)))
    assert len({call.group for call in script.calls if hasattr(call, "group")}) == entries


def test_a_call_with_the_shapes_of_another_program_is_that_program_s() -> None:
    large, small = (program(superstep(size), name="f", takes=(size,), gives=(4,)) for size in (128, 30))

    def act(*called: Program) -> Callable[[Host], None]:
        return lambda host: [host.run(each, host.put(each.arguments[0].size_bytes)) for each in called * 3] and None

    assert cycles(kept(act(large, small)), called_as([2], 1)) == cycles(kept(act(large, large)))


def body_of(*nodes: object, **options: object) -> Callable[[Host], None]:
    called = replace(program(*nodes, num_ipus=2), **options)  # type: ignore[arg-type]
    return lambda host: host.run_on((0, 1), called, [[], []]) and None


CASES: dict[str, tuple[Callable[[Host], None], Change, Callable[[Host], None]]] = {
    "a family at half the cost": (
        body_of(
            superstep(7, 4, 2, family="matmul"),
            superstep(5),
            Loop(name="l", scope="", body=Series(nodes=(superstep(8, family="matmul"),)), trips=3),
        ),
        with_changed([1], lambda p: scaled(p, "matmul", 1, 2)),
        body_of(
            superstep(4, 2, 1, family="matmul"),
            superstep(5),
            Loop(name="l", scope="", body=Series(nodes=(superstep(4, family="matmul"),)), trips=3),
        ),
    ),
    "no exchange between IPUs": (
        body_of(superstep(5), collective("all-reduce", 1000)),
        with_changed([1], lambda p: with_collectives(p, lambda _: None)),
        body_of(superstep(5)),
    ),
    "no value in pinned_host": (
        body_of(superstep(5), HostCall(name="c", scope="", bytes_to_host=0, bytes_from_host=100, in_memory=True), parked_bytes=100),
        with_changed([1], in_tiles),
        body_of(superstep(5)),
    ),
    "fewer tiles": (
        body_of(superstep(6, 3, 10)),
        with_changed([1], lambda p: on_fewer_tiles(p, 1, 4)),
        body_of(superstep(8, 4, 10), num_io_tiles=1),
    ),
    "two edits": (
        body_of(superstep(8, family="matmul"), collective("all-reduce", 1000)),
        in_turn(with_changed([1], lambda p: with_collectives(p, lambda _: None)), with_changed([1], lambda p: scaled(p, "matmul", 1, 4))),
        body_of(superstep(2, family="matmul")),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_programs_with_other_steps(name: str) -> None:
    before, change, after = CASES[name]
    assert cycles(kept(before, 2), change) == cycles(kept(after, 2)) != cycles(kept(before, 2))


def copying(*, copies: bool, keep: bool = False) -> Callable[[Host], None]:
    """Batches that a program copies before a step takes them."""
    stage, called = (
        program(superstep(1), name="stage", takes=(BIG,), gives=(BIG,)),
        program(superstep(5), name="step", takes=(BIG,), gives=(4,)),
    )

    def act(host: Host) -> None:
        for _ in range(STEPS):
            batch = host.put(BIG)
            if copies:
                batch, [copy] = batch, host.run(stage, batch)
                if not keep:
                    host.system.forget(batch)
                batch = copy
            [loss] = host.run(called, batch)
            host.system.forget(batch)
            host.system.wait(loss)
            host.system.read(loss)

    return act


@pytest.mark.parametrize("keep", [False, True])
def test_an_array_passed_straight_is_exact(keep: bool) -> None:
    before, after = kept(copying(copies=True, keep=keep)), kept(copying(copies=False))
    [key] = [key for key, found in before.programs.items() if found.name == "stage"]
    assert cycles(before, passed_straight([key])) == cycles(after) < cycles(before)


def test_a_result_is_not_put_once() -> None:
    with pytest.raises(ImpossibleEditError, match="argument of program 1 was not put by the host"):
        cycles(kept(training(step())), put_once(1, [0]))


def test_calls_in_a_loop_bring_all_arguments_and_send_all_results_at_once() -> None:
    called = program(superstep(5), name="step", takes=(64, 8), gives=(64, 8, 4), donates={0: 0})
    once = looped(called, 3, larger(), fresh={1}, states={0})
    assert [argument.size_bytes for argument in once.arguments] == [64, 3 * 8]
    assert [result.size_bytes for result in once.results] == [64, 3 * 8, 3 * 4]
    [loop] = [node for node in once.body.nodes if isinstance(node, Loop)]
    assert loop.trips == 3
    assert loop.body.nodes[-1] == called.body.nodes[0]
    assert len(loop.body.nodes) > 1  # each trip takes its part of the arguments and puts its results in their place


def test_values_that_are_never_forgotten_take_as_long() -> None:
    """Unless a number names one value after another."""
    called = program(superstep(5), takes=(30,), gives=(4,))

    def act(host: Host) -> None:
        for _ in range(3):
            argument = host.put(30)
            [result] = host.run(called, argument)
            host.system.read(result)
            for value in (argument, result):
                host.system.forget(value)

    history = kept(act)
    calls = list(history.calls)
    fewer = without_forgets(calls, history.snapshot)
    assert len(fewer) == len(calls) - 6
    assert replay(history, calls=fewer).end_cycle == replay(history).end_cycle
    again = [*calls, calls[0]]  # puts the first value, which was forgotten
    assert without_forgets(again, history.snapshot) is again
