"""The effective batch, microbatch x count x replicas: on a loop's bar, and in the profile of an emulated machine that ran it."""

import itertools
import json
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import tilestep
from tilestep.errors import DatasetError
from tilestep.train import InfeedQueue, Replicas, cross_replica, gradient_accumulation, repeat, while_loop

BATCH = np.ones((8, 3), np.float32), np.ones(8, np.float32)


def training(optimizer: Any) -> tuple[Any, Any]:
    """(a body that takes microbatches, the carry that it starts with)."""

    def body(carry: Any, x: Any, y: Any) -> Any:
        params, state = carry
        updates, state = optimizer.update(jax.grad(lambda w: jnp.mean((jnp.atleast_2d(x) @ w - y) ** 2))(params), state, params)
        return optax.apply_updates(params, updates), state

    with jax.default_device(jax.devices("cpu")[0]):
        params = jnp.zeros(3)
        return body, (params, optimizer.init(params))


def feed(element: Any = BATCH, **options: Any) -> InfeedQueue:
    return InfeedQueue(itertools.repeat(element), **options)


def on_ipu(carry: Any) -> Any:
    return jax.device_put(carry, jax.devices("ipu")[0])


def figures(profile: Any) -> list[tuple[Any, ...]]:
    return [(b.loop, b.steps, b.microbatch, b.count, b.replicas, b.microbatches, b.samples) for b in profile.batches]


@pytest.mark.slow
def test_bar_profile_json_and_summary_show_it(capsys: pytest.CaptureFixture[str]) -> None:
    replicas = Replicas(devices=jax.devices("ipu")[:2])
    body, carry = training(gradient_accumulation(cross_replica(optax.sgd(0.1)), 4))
    with tilestep.profile() as profile, feed(replicas=replicas) as infeed:
        for _ in range(2):
            carry = repeat(8, body, carry, infeed, replicas=replicas, progress=True)
    assert "repeat(8), 64 samples an update" in capsys.readouterr().out
    assert figures(profile) == [("repeat_body", 16, 8, 4, 2, 8, 64)]
    expected = {"loop": "repeat_body", "steps": 16, "microbatch": 8, "count": 4, "replicas": 2, "microbatches": 8, "samples": 64}
    assert json.loads(profile.to_json())["batches"] == [expected]
    lines = [line.split() for line in profile.summary().splitlines()]
    assert ["Effective", "batch", "of", "an", "update"] in lines
    assert ["repeat_body", "16", "8", "samples", "x", "4", "x", "2", "=", "64", "samples"] in lines


@pytest.mark.parametrize(
    ("element", "samples"),
    [
        (BATCH, 8),
        ((np.ones((4, 3), np.float32), np.ones((4, 1), np.float32)), 4),
        ((np.ones((4, 3), np.float32), np.float32(1)), None),  # a scalar beside it
        ((np.ones(3, np.float32), np.ones(3, np.float32)), None),  # a sample, or three?
        ((np.ones((4, 3), np.float32), np.ones((1, 3), np.float32)), None),  # lengths differ
    ],
)
def test_samples_are_the_leading_axis_that_an_element_s_arrays_have_in_common(element: Any, samples: int | None) -> None:
    optimizer = gradient_accumulation(optax.sgd(0.1), 2)

    def body(carry: Any, x: Any, y: Any) -> Any:
        updates, state = optimizer.update(jnp.full(3, x.sum() - y.sum()), carry[1], carry[0])
        return carry[0] + updates, state

    with tilestep.profile() as profile:
        repeat(4, body, on_ipu(training(optimizer)[1]), feed(element))
    [batch] = profile.batches
    assert (batch.microbatch, batch.samples, batch.microbatches) == (samples, samples and 2 * samples, 2)


def test_what_is_not_known_is_not_told() -> None:
    """Not samples where a step may add no microbatch, or two; nothing where optimisers differ, or nothing accumulates."""
    optimizer = gradient_accumulation(optax.sgd(0.1), 2)
    body, carry = training(optimizer)

    def twice(carry: Any, x: Any, y: Any) -> Any:
        return body(body(carry, x, y), x, y)

    def several(carries: Any, x: Any, y: Any) -> Any:
        return tuple(one(part, x, y) for (one, _), part in zip(both, carries, strict=True))

    both = training(optimizer), training(gradient_accumulation(optax.sgd(0.1), 4))
    plain, plain_carry = training(optax.sgd(0.1))
    with tilestep.profile() as profile:
        repeat(4, twice, on_ipu(carry), feed(), donate=False)
        while_loop(lambda carry: jnp.bool_(True), body, on_ipu(carry), feed(), maximum_iterations=3)
        repeat(4, several, on_ipu(tuple(carry for _, carry in both)), feed())
        repeat(4, plain, on_ipu(plain_carry), feed())
    assert figures(profile) == [("repeat_twice", 4, None, 2, 1, 2, None), ("while_loop_body", 3, None, 2, 1, 2, None)]
    [line] = [line.split() for line in profile.summary().splitlines() if line.strip().startswith("while_loop_body")]
    assert line == ["while_loop_body", "3", "?", "x", "2", "x", "1", "=", "2", "microbatches"]


def test_a_loop_that_fails_has_done_what_it_did_and_a_dry_one_what_it_would() -> None:
    body, carry = training(gradient_accumulation(optax.sgd(0.1), 2))
    with tilestep.profile() as profile:
        with pytest.raises(DatasetError):
            repeat(8, body, on_ipu(carry), InfeedQueue([BATCH] * 5), chunk=2)
        with tilestep.dry_run():
            repeat(6, body, on_ipu(carry), feed())
    assert figures(profile) == [("repeat_body", 4 + 6, 8, 2, 1, 2, 16)]
