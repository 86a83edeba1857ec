"""Gradient accumulation in `repeat`: updates at the right steps whatever the chunks, and no branch in the program."""

import functools
import itertools
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import tilestep
from tilestep.train import InfeedQueue, OutfeedQueue, gradient_accumulation, repeat, while_loop
from tilestep.train.loop import update_pattern
from tilestep.train.loop.program_cache import ChunkSpan, LoopSettings, repeat_loop
from tilestep.train.loop.update_pattern import UpdatePattern, counters_in

RATE = 0.5


def gradients(stop: int | None = None) -> Iterator[np.float32]:
    return (np.float32(k) for k in (itertools.count(1) if stop is None else range(1, stop + 1)))


def expected(steps: int, count: int) -> list[float]:
    """The variable after each step of descent by the sum of gradients 1, 2, 3 ..., from 0."""
    values, variable, total = [], 0.0, 0.0
    for step in range(1, steps + 1):
        total += step
        if step % count == 0:
            variable, total = variable - RATE * total, 0.0
        values.append(variable)
    return values


def descent(count: int, outfeed: OutfeedQueue | None = None, optimiser: Any = None) -> tuple[Any, Any]:
    """(a body that takes gradients as elements, the carry it starts with)."""
    optimiser = optimiser or gradient_accumulation(optax.sgd(RATE), count)

    def body(carry: Any, gradient: Any) -> Any:
        variable, state = carry
        updates, state = optimiser.update(gradient, state, variable)
        variable = optax.apply_updates(variable, updates)
        if outfeed is not None:
            outfeed.enqueue(variable)
        return variable, state

    variable = jnp.float32(0)
    return body, (variable, optimiser.init(variable))


@pytest.mark.few(4)
@pytest.mark.parametrize(
    ("count", "chunk"), [(1, 2), (4, None), (4, 4), (4, 12), (4, 2), (4, 1), (4, 3), (6, 4), (6, 9), (12, 5), (24, 7), (24, None)]
)
def test_updates_come_at_each_count_th_step_whatever_the_chunks(count: int, chunk: int | None) -> None:
    outfeed = OutfeedQueue()
    body, carry = descent(count, outfeed)
    infeed = InfeedQueue(gradients())
    for steps in (24, 48):
        carry = repeat(steps, body, carry, infeed, outfeed, chunk=chunk)
    assert outfeed.dequeue().tolist() == expected(72, count)
    assert int(carry[1].microbatch) == 0


def program_text(body: Any, carry: Any, steps: int, *, keeps_last: bool = False) -> str:
    """What JAX makes of the program of a chunk of `repeat`."""
    count = counters_in(jax.tree.structure(carry))[0].count
    kept = repeat_loop(body, LoopSettings(has_infeed=True, keeps_last=keeps_last))
    program: Any = kept.program(ChunkSpan(steps=steps, every=count, first=count))
    text = str(program.trace(carry, np.ones(steps, np.float32)).jaxpr)
    assert not kept.unsteady
    return text


@pytest.mark.parametrize("keeps_last", [False, True])
def test_a_loop_s_program_has_no_branch(keeps_last: bool) -> None:
    body, carry = descent(4)
    text = program_text(body, carry, 16, keeps_last=keeps_last)
    assert "cond[" not in text
    assert text.count("scan[") == 2  # over updates, and over the microbatches before each one's last
    assert "length=4" in text  # updates
    assert "length=3" in text  # microbatches


@pytest.mark.parametrize(
    ("steps", "count", "message"),
    [
        (
            10,
            32,
            r"repeat\(10\) accumulates the gradients of 32 microbatches, so its .* a multiple of 32: 10 is not; the nearest is 32$",
        ),
        (70, 32, "must be a multiple of 32: 70 is not; the nearest are 64 and 96"),
    ],
)
def test_a_length_that_is_no_multiple_is_refused_before_anything_is_traced(steps: int, count: int, message: str) -> None:
    _, carry = descent(count)
    infeed = InfeedQueue(gradients())
    with pytest.raises(ValueError, match=message):
        repeat(steps, lambda carry, gradient: pytest.fail("it was traced"), carry, infeed)
    assert infeed.consumed == 0


def test_a_while_loop_may_end_amid_an_accumulation_and_another_loop_goes_on() -> None:
    body, carry = descent(4)
    infeed = InfeedQueue(gradients())
    carry = while_loop(lambda carry: carry[0] > -9, body, carry, infeed, chunk=3)
    assert (float(carry[0]), infeed.consumed) == (-18, 8)
    carry = while_loop(lambda carry: True, body, carry, infeed, maximum_iterations=3)
    assert int(carry[1].microbatch) == 3
    carry = repeat(5, body, carry, infeed)
    assert float(carry[0]) == expected(16, 4)[-1]


def test_a_body_that_does_not_add_one_microbatch_each_step_has_branches_and_is_right() -> None:
    optimiser = gradient_accumulation(optax.sgd(RATE), 2)

    def odd(carry: Any, gradient: Any) -> Any:
        """Leaves out gradients that 3 divides."""
        updates, state = optimiser.update(gradient, carry[1], carry[0])
        new = optax.apply_updates(carry[0], updates), state
        return jax.tree.map(lambda new, old: jnp.where(gradient % 3 == 0, old, new), new, carry)

    def twice(carry: Any, gradient: Any) -> Any:
        for _ in range(2):
            updates, state = optimiser.update(gradient, carry[1], carry[0])
            carry = optax.apply_updates(carry[0], updates), state
        return carry

    start = jnp.float32(0)
    carry = repeat(6, odd, (start, optimiser.init(start)), InfeedQueue(gradients()))
    assert float(carry[0]) == -RATE * (1 + 2 + 4 + 5)
    for _ in range(2):
        start = jnp.float32(0)
        carry = repeat(4, twice, (start, optimiser.init(start)), InfeedQueue(gradients()), chunk=2)
        assert float(carry[0]) == -RATE * 2 * (1 + 2 + 3 + 4)


@pytest.mark.parametrize(
    ("count", "most", "steps"), [(4, 64, 64), (24, 64, 48), (64, 64, 64), (100, 64, 50), (128, 64, 64), (67, 64, 64), (5, 1, 1), (6, 4, 3)]
)
def test_chunks_suit_the_updates(count: int, most: int, steps: int) -> None:
    assert UpdatePattern(count=count, accumulated=0).chunk_steps(most) == steps


def test_a_bar_tells_how_many_microbatches_an_update_is_of(capsys: pytest.CaptureFixture[str]) -> None:
    body, carry = descent(4)
    repeat(8, body, carry, InfeedQueue(gradients()), progress=True)
    assert "repeat(8), 4 microbatches an update" in capsys.readouterr().out


def test_on_ipu_two_bodies_take_less_than_one_with_a_branch(monkeypatch: pytest.MonkeyPatch) -> None:
    optimiser = gradient_accumulation(optax.adam(1e-3), 4, offload_optimizer_state=False)

    def body(carry: Any, x: Any) -> Any:
        weights, state = carry
        gradients = jax.grad(lambda weights: jnp.mean(functools.reduce(lambda x, w: jnp.tanh(x @ w), weights, x) ** 2))(weights)
        updates, state = optimiser.update(gradients, state, weights)
        return optax.apply_updates(weights, updates), state

    taken: list[tuple[int, int]] = []
    for most in (update_pattern.MOST_PROGRAMS, 0):  # 0: no loop is worth programs of its own for updates
        monkeypatch.setattr(update_pattern, "MOST_PROGRAMS", most)
        infeed = InfeedQueue(itertools.repeat(np.zeros((16, 256), np.float32)))
        with jax.default_device(jax.devices("ipu")[0]), tilestep.dry_run(), tilestep.profile() as profile:
            weights = [jax.device_put(np.zeros((256, 256), np.float32)) for _ in range(3)]
            repeat(8, lambda carry, x: body(carry, x), (weights, optimiser.init(weights)), infeed)
        program = max(profile.programs, key=lambda program: program.cycles.compute)
        code = sum(size for kind, size in program.tile_bytes_by_kind if "code" in kind)
        taken.append((program.cycles.compute + program.cycles.exchange + program.cycles.sync, code))
    (cycles, code), (branched_cycles, branched_code) = taken
    assert cycles < branched_cycles
    assert code < 1.2 * branched_code  # of the same operations, whose vertices are there once; a branch takes code, too
