"""Ctrl-C in a loop: nothing is lost, nothing happens twice, and the loop can go on."""

import functools
import gc
import itertools
import random
import signal
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.unit.train.moments import After, At, Moment, Never, Several, at_calls, ctrl_c_heard, send_ctrl_c, some_gaps, twice
from tilestep.errors import LoopInterrupt
from tilestep.train import InfeedQueue, OutfeedQueue, loop_state, repeat, while_loop
from tilestep.train import ctrl_c as ctrl_cs
from tilestep.train.ctrl_c import CtrlC
from tilestep.train.feeds.prefetch import Feeder
from tilestep.train.loop.session import Session


@pytest.fixture(autouse=True)
def interruptible() -> Iterator[None]:
    with ctrl_c_heard():
        yield


STEPS = 48


def ctrl_c_at(element: int) -> Iterator[Any]:
    for k in itertools.count():
        if k == element:
            send_ctrl_c()
        yield np.float32(k)


def add(total: Any, x: Any) -> Any:
    return total + x


def elements(wait_wall_s: float) -> Callable[[], Iterator[Any]]:
    def dataset() -> Iterator[Any]:
        for k in range(STEPS):
            if wait_wall_s:
                time.sleep(wait_wall_s)
            yield np.float32(k)

    return dataset


@functools.cache
def looped(loop: str) -> tuple[OutfeedQueue, Callable[..., Any], Callable[[Any], Any]]:
    """What a loop is compiled for: an outfeed, its body, its condition."""
    outfeed = OutfeedQueue()

    def body(c: Any, x: Any) -> Any:
        outfeed.enqueue(x)
        return c[0] + 1, c[1] + x

    return outfeed, body, lambda c: c[0] < STEPS


def run(loop: str, carry: Any, steps: int, infeed: InfeedQueue) -> Any:
    """The carry after so many more steps of the loop. `while_loop` finds in the carry how many are left."""
    outfeed, body, goes_on = looped(loop)
    if loop == "repeat":
        return repeat(steps, body, carry, infeed, outfeed, chunk=4)
    return while_loop(goes_on, body, carry, infeed, outfeed, chunk=4)


def finished(loop: str, moment: Moment, rng: random.Random, *, wait_wall_s: float = 0.0) -> tuple[int, float]:
    """Runs a loop to the end, whatever interrupts it, with each element once.

    Returns: (how often it was ended, how long all took).
    """
    infeed = InfeedQueue(elements(wait_wall_s), prefetch_depth=rng.choice((1, 3)))
    outfeed = looped(loop)[0]

    carry: Any = (jnp.int32(0), jnp.float32(0))
    done, ends, is_over, begun, wall_s = 0, 0, False, time.perf_counter(), 0.0
    while not is_over:
        try:
            if done < STEPS:
                moment.begin()
                # Nothing is called between the end of the loop and where its carry is kept.
                carry, done = run(loop, carry, STEPS - done, infeed), STEPS
                wall_s = time.perf_counter() - begun
            moment.end()
            is_over = True
        except KeyboardInterrupt as error:
            reached = loop_state(error)
            if reached is None:  # it came before a loop began, or after
                assert not any(leaf.is_deleted() for leaf in carry)
                continue
            carry, done, ends = reached.carry, done + reached.steps, ends + 1
            assert (infeed.consumed, len(outfeed)) == (done, done)
            if rng.random() < 0.5:
                position = infeed.state()
                infeed.close()
                infeed = InfeedQueue(elements(0.0))
                infeed.restore(position)
    assert (infeed.consumed, int(carry[0]), float(carry[1])) == (STEPS, STEPS, sum(range(STEPS)))
    assert outfeed.dequeue().tolist() == list(range(STEPS))
    infeed.close()
    return ends, wall_s


@pytest.mark.parametrize("trials", [4, pytest.param(100, marks=pytest.mark.slow)])
@pytest.mark.parametrize("loop", ["repeat", "while_loop"])
def test_ctrl_c_at_a_random_moment_neither_loses_nor_repeats_an_element(loop: str, trials: int) -> None:
    rng, ends = random.Random(loop), 0
    took = {wait: min(finished(loop, Never(), rng, wait_wall_s=wait)[1] for _ in range(2)) for wait in (0.0, 0.0005)}
    for trial in range(trials):
        wait = (0.0, 0.0005)[trial % 2]
        ends += finished(loop, After(rng.uniform(0, took[wait])), rng, wait_wall_s=wait)[0]
    assert ends or trials < 10  # a few may all come at the end


@pytest.mark.parametrize("loop", [repeat, while_loop])
def test_ctrl_c_wherever_python_looks_for_one(loop: Any) -> None:
    """Also where a loop is about to begin, and where it has ended and is about to return."""
    rng = random.Random(0)
    for event in (*range(1, 9, 2), *rng.sample(range(9, 4000), 6)):
        finished(loop.__name__, At(event, loop), rng)
    for event in range(2, 9, 2):
        finished(loop.__name__, At(event, loop, after=CtrlC.end), rng)


def resumed(loop: str, moment: Several, rng: random.Random, *, wait_wall_s: float = 0.0) -> tuple[int, int]:
    """Runs a loop to the end, whatever interrupts it how often, each time with what the last exception has told, or else a saved state.

    Returns: (how often it was ended, how often the state was lost).
    """
    infeed = InfeedQueue(elements(wait_wall_s), prefetch_depth=rng.choice((1, 3)))
    outfeed = looped(loop)[0]
    done, ends, losses, values, carry = 0, 0, 0, [], (jnp.int32(0), jnp.float32(0))
    while done < STEPS:
        saved, position = jax.tree.map(np.array, carry), infeed.state()
        caught = None
        try:
            moment.begin()
            carry, done = run(loop, carry, STEPS - done, infeed), STEPS
        except KeyboardInterrupt as error:
            caught = error
        try:  # a Ctrl-C that came when no call was left in the loop is heard at the next call, which that of suppress() would be
            moment.inside = False
            time.sleep(0)
        except KeyboardInterrupt:
            pass
        sys.setprofile(None)
        if caught is not None:
            reached = loop_state(caught)
            ends += 1
            if reached is not None:
                carry, done = reached.carry, done + reached.steps
            elif infeed.consumed != done or any(leaf.is_deleted() for leaf in carry):
                losses += 1
                carry = jax.tree.map(jnp.array, saved)
                infeed.restore(position)
        values += outfeed.dequeue().tolist() if len(outfeed) else []
        del values[done:]
        assert (infeed.consumed, values) == (done, list(range(done)))
        assert (int(carry[0]), float(carry[1])) == (done, sum(range(done)))
    moment.end()
    infeed.close()
    return ends, losses


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # the second may come in a destructor, where it is lost
@pytest.mark.parametrize("trials", [6, pytest.param(200, marks=pytest.mark.slow)])
@pytest.mark.parametrize("loop", ["repeat", "while_loop"])
def test_two_or_three_ctrl_cs_at_random_moments_neither_lose_nor_repeat_an_element(loop: str, trials: int) -> None:
    rng, ends = random.Random(loop), 0
    took = min(finished(loop, Never(), rng, wait_wall_s=0.0005)[1] for _ in range(2))
    for _ in range(trials):
        ends += resumed(loop, Several(some_gaps(rng, took)), rng, wait_wall_s=0.0005)[0]
    assert ends or trials < 10  # a few may all come at the end


@pytest.mark.parametrize("loop", ["repeat", "while_loop"])
@pytest.mark.parametrize(
    ("owner", "name"),
    [(InfeedQueue, "release"), (Feeder, "give_back_held"), (OutfeedQueue, "release"), (OutfeedQueue, "deliver"), (Feeder, "take"),
     (OutfeedQueue, "make_room"), (Feeder, "wake"), (Feeder, "begin"), (InfeedQueue, "reserve"), (OutfeedQueue, "reserve")],
)  # fmt: skip
def test_ctrl_cs_while_a_feed_changes_leave_it_to_the_next_loop(loop: str, owner: Any, name: str) -> None:
    infeed, outfeed = InfeedQueue(elements(0.0)), looped(loop)[0]
    with pytest.raises(LoopInterrupt) as caught, at_calls({getattr(owner, name): twice}):
        run(loop, (jnp.int32(0), jnp.float32(0)), STEPS, infeed)
    done = caught.value.steps
    assert (infeed.consumed, len(outfeed)) == (done, done)
    carry = caught.value.carry if done == STEPS else run(loop, caught.value.carry, STEPS - done, infeed)
    assert (infeed.consumed, int(carry[0]), float(carry[1])) == (STEPS, STEPS, sum(range(STEPS)))
    assert outfeed.dequeue().tolist() == list(range(STEPS))
    infeed.close()


def test_a_ctrl_c_ends_a_release_that_hangs_and_the_queues_are_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctrl_cs, "HANG_WALL_S", 0.2)
    infeed, (outfeed, body, _) = InfeedQueue(elements(0.0)), looped("repeat")

    def hang() -> None:
        for _ in range(1200):
            signal.raise_signal(signal.SIGINT)
            time.sleep(0.05)
        pytest.fail("no Ctrl-C has ended it in a minute")

    with at_calls({Feeder.give_back_held: hang}), pytest.raises(KeyboardInterrupt):
        repeat(4, body, (jnp.int32(0), jnp.float32(0)), infeed, outfeed, chunk=4)
    repeat(4, body, (jnp.int32(0), jnp.float32(0)), infeed, outfeed, chunk=4)
    assert outfeed.dequeue().tolist() == list(range(8))
    infeed.close()


def test_ctrl_cs_while_an_interrupted_loop_waits_for_its_steps_lose_nothing() -> None:
    infeed = InfeedQueue(ctrl_c_at(3), prefetch_depth=1)
    with pytest.raises(LoopInterrupt) as caught, at_calls({jax.block_until_ready: twice}):
        repeat(4000, add, np.float32(0), infeed, chunk=4)
    assert float(caught.value.carry) == sum(range(caught.value.steps))
    infeed.close()


@pytest.mark.parametrize("what", ["state", "restore"])
def test_a_ctrl_c_while_a_queue_tells_its_position_comes_after_it(what: str) -> None:
    infeed = InfeedQueue(elements(0.0))
    repeat(8, add, np.float32(0), infeed, chunk=4)
    position = infeed.state()
    with pytest.raises(KeyboardInterrupt), at_calls({Feeder.next_start: twice, Feeder.close: twice}):
        infeed.state() if what == "state" else infeed.restore(position)
    assert float(repeat(4, add, np.float32(0), infeed)) == sum(range(8, 12))
    infeed.close()


@pytest.mark.parametrize("place", ["callback of gc", "__del__", "weakref.finalize"])
def test_a_second_ctrl_c_that_python_would_drop_comes_a_moment_later(place: str) -> None:
    """Where Python has dropped one, pytest makes that an error."""
    came: list[bool] = []

    class Dying:
        def __del__(self) -> None:
            if place == "__del__":
                signal.raise_signal(signal.SIGINT)

    dying: Any = Dying()

    def collected(*_: object) -> None:
        if not came:
            came.append(True)
            signal.raise_signal(signal.SIGINT)

    def die() -> None:
        nonlocal dying
        del dying
        if place == "callback of gc":
            gc.callbacks.append(collected)
            gc.collect()
        for _ in range(3000):
            time.sleep(0.01)

    if place == "weakref.finalize":
        weakref.finalize(dying, signal.raise_signal, signal.SIGINT)
    ctrl_c = CtrlC()
    ctrl_c.begin()
    try:
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            die()
    finally:
        ctrl_c.end()
        if place == "callback of gc":
            gc.callbacks.remove(collected)


@pytest.mark.parametrize("loop", ["repeat", "while_loop"])
@pytest.mark.parametrize("moment", ["before it is noted", "after"])
def test_a_second_ctrl_c_tells_a_carry_and_its_own_steps_or_nothing(loop: str, moment: str) -> None:
    """It comes at once, so perhaps between the third chunk and the note of it, when the carry known so far has been donated."""
    with pytest.raises(KeyboardInterrupt) as caught, at_calls({Session.did: twice}, after=moment == "after", number=3):
        repeat(20, lambda c: c + 1, 0, chunk=2) if loop == "repeat" else while_loop(lambda c: c < 20, lambda c: c + 1, 0, chunk=2)
    state = loop_state(caught.value)
    told = None if state is None else (state.steps, int(state.carry))
    assert told == (None if moment == "before it is noted" else (6, 6))


def test_a_loop_that_waits_for_its_dataset_is_interrupted_at_once() -> None:
    held = threading.Event()

    def dataset() -> Iterator[Any]:
        yield from (np.float32(k) for k in range(5))
        while infeed.consumed < 4:
            time.sleep(0.001)
        time.sleep(0.1)  # the loop waits
        send_ctrl_c()
        held.wait(60)

    infeed = InfeedQueue(dataset)
    told = r"^interrupted after 4 steps of the loop\nrepeat\(8\) had done 4 steps; .*loop_state\(error\) has the carry after them$"
    with pytest.raises(LoopInterrupt, match=told) as caught:
        repeat(8, add, np.float32(0), infeed, chunk=4)
    assert (caught.value.steps, float(caught.value.carry), infeed.consumed) == (4, 6, 4)
    state = loop_state(caught.value)
    assert state is not None
    assert (state.steps, state.carry) == (4, caught.value.carry)
    held.set()


def test_a_loop_that_waits_for_room_is_interrupted_at_once() -> None:
    outfeed = OutfeedQueue(buffer_depth=4)

    def body(c: Any) -> Any:
        outfeed.enqueue(c)
        return c + 1

    def interrupt() -> None:
        while len(outfeed) < 4:
            time.sleep(0.001)
        time.sleep(0.1)  # the loop waits
        send_ctrl_c()

    threading.Thread(target=interrupt, daemon=True).start()
    with pytest.raises(LoopInterrupt) as caught:
        repeat(8, body, 0, outfeed=outfeed)
    assert (caught.value.steps, int(caught.value.carry)) == (4, 4)


def test_the_exception_is_a_keyboard_interrupt_and_no_other() -> None:
    assert issubclass(LoopInterrupt, KeyboardInterrupt)
    assert not issubclass(LoopInterrupt, Exception)
    assert loop_state(KeyboardInterrupt()) is None


def test_one_that_is_expected_is_waited_for_and_no_longer() -> None:
    ctrl_c = CtrlC()
    ctrl_c.begin()
    begun = time.monotonic()
    try:
        ctrl_c.expect(0.1)
        assert time.monotonic() - begun >= 0.1
        ctrl_c.check()
        threading.Timer(0.1, send_ctrl_c).start()
        ctrl_c.expect(60)
        assert time.monotonic() - begun < 30
        with pytest.raises(KeyboardInterrupt):
            ctrl_c.check()
    finally:
        ctrl_c.end()
