"""The training runtime on a GPU, or another device beyond the CPU: the values are those of the CPU.

`benchmarks/on_gpu.sh` runs this where there is a GPU, and `benchmarks/on_gpu.sh --rehearse` on the CPU.
"""

import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from tilestep import train

pytestmark = pytest.mark.device
STEPS = 24
REHEARSED = "TILESTEP_DEVICE_TESTS_ON_CPU"
RTOL = 2e-5  # of sums in another order


def devices() -> list[jax.Device]:
    """Those under test. JAX raises RuntimeError where there are none."""
    return jax.devices("cpu" if os.environ.get(REHEARSED) else "gpu")


@pytest.fixture
def device() -> Iterator[jax.Device]:
    try:
        found = devices()[0]
    except RuntimeError:
        pytest.skip("needs a GPU; benchmarks/on_gpu.sh --rehearse runs it on the CPU")
    with jax.default_device(found), jax.default_matmul_precision("highest"):
        yield found


@pytest.fixture
def cpu() -> jax.Device:
    return jax.devices("cpu")[0]


def batches(count: int | None = None) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Args: count: of batches; None: without end."""
    for k in itertools.count() if count is None else range(count):
        x = np.random.default_rng(k).normal(size=(16, 8)).astype(np.float32)
        yield x, x.sum(1)


def loss_of(w: Any, x: Any, y: Any) -> Any:
    return jnp.mean((jnp.tanh(x @ w["a"]) @ w["b"] - y) ** 2)


def weights() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {"a": rng.normal(size=(8, 16)).astype(np.float32), "b": rng.normal(size=16).astype(np.float32)}


def near(found: Any, wanted: Any) -> None:
    jax.tree.map(lambda a, b: np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=RTOL, atol=RTOL), found, wanted)


def updated(optimizer: optax.GradientTransformation, carry: Any, x: Any, y: Any) -> tuple[Any, Any]:
    """(the next carry, the loss)."""
    w, state = carry
    loss, gradient = jax.value_and_grad(loss_of)(train.on_device(w), x, y)
    updates, state = optimizer.update(gradient, state, w)
    return (train.apply_updates(w, updates), state), loss


def by_hand(optimizer: optax.GradientTransformation, where: jax.Device, steps: int = STEPS) -> tuple[Any, list[float]]:
    """(the carry, the losses) of a loop of the host."""
    with jax.default_device(where):
        carry, losses = jax.device_put((weights(), optimizer.init(weights())), where), []
        step = jax.jit(lambda carry, x, y: updated(optimizer, carry, x, y))
        for batch in batches(steps):
            carry, loss = step(carry, *batch)
            losses.append(float(loss))
    return carry, losses


def looped(optimizer: optax.GradientTransformation, carry: Any, steps: int = STEPS, **options: Any) -> tuple[Any, np.ndarray]:
    """(the carry, the losses) of `repeat` with queues."""
    outfeed = train.OutfeedQueue()

    def body(carry: Any, x: Any, y: Any) -> Any:
        carry, loss = updated(optimizer, carry, x, y)
        outfeed.enqueue(loss)
        return carry

    with train.InfeedQueue(batches) as infeed:
        carry = train.repeat(steps, body, carry, infeed, outfeed, chunk=5, **options)
    return carry, outfeed.dequeue()


def test_a_loop_with_queues_gives_what_a_loop_by_hand_gives(device: jax.Device, cpu: jax.Device) -> None:
    optimizer = optax.adam(0.01)
    carry, losses = looped(optimizer, jax.device_put((weights(), optimizer.init(weights())), device))
    assert {leaf.device for leaf in jax.tree.leaves(carry)} == {device}
    for where in (device, cpu):
        wanted, wanted_losses = by_hand(optimizer, where)
        near(carry[0], wanted[0])
        near(losses, np.array(wanted_losses, np.float32))


def test_a_loop_of_unknown_length_ends_where_its_condition_says(device: jax.Device) -> None:
    with train.InfeedQueue(batches) as infeed:
        carry = train.while_loop(lambda c: c < 11, lambda c, x, y: c + 1, jnp.int32(0), infeed, maximum_iterations=50, chunk=4)
    assert (int(carry), carry.device, infeed.consumed) == (11, device, 11)


def test_an_outfeed_is_read_while_the_loop_runs(device: jax.Device) -> None:
    outfeed = train.OutfeedQueue(buffer_depth=4, when_full="drop")

    def body(c: Any) -> Any:
        outfeed.enqueue(c)
        return c + 1

    train.repeat(20, body, jnp.float32(0), None, outfeed, chunk=4)
    assert outfeed.dequeue().tolist() == [16, 17, 18, 19]


def test_an_optimiser_s_state_in_the_host_s_memory_gives_the_same(device: jax.Device) -> None:
    plain, parked = optax.adam(0.01), train.offloaded(optax.adam(0.01), True)
    state = parked.init(jax.device_put(weights(), device))
    assert state[0].mu["a"].sharding.memory_kind == "pinned_host"
    carry, _ = looped(parked, (jax.device_put(weights(), device), state))
    assert carry[1][0].nu["a"].sharding.memory_kind == "pinned_host"
    near(carry[0], by_hand(plain, device)[0][0])


def test_microbatches_make_the_update_of_their_batch(device: jax.Device) -> None:
    optimizer = train.gradient_accumulation(optax.sgd(0.05), 4, reduction="mean")
    w = jax.device_put(weights(), device)
    carry, _ = looped(optimizer, (w, optimizer.init(w)), steps=4)
    x, y = (np.concatenate(each) for each in zip(*batches(4), strict=True))
    gradient = jax.grad(loss_of)(jax.device_put(weights(), device), x, y)
    near(carry[0], jax.tree.map(lambda a, g: a - 0.05 * g, weights(), gradient))


def test_replicas_on_all_devices_make_the_update_of_all_data(device: jax.Device) -> None:
    replicas = train.Replicas(devices=devices())
    count = len(devices())
    optimizer = train.cross_replica(optax.sgd(0.05))

    def body(carry: Any, x: Any, y: Any) -> Any:
        return updated(optimizer, carry, x, y)[0]

    infeed = train.InfeedQueue(batches, replicas=replicas)
    w = weights()
    carry = train.repeat(1, body, (w, optimizer.init(w)), infeed, replicas=replicas)
    x, y = (np.concatenate(each) for each in zip(*batches(count), strict=True))
    near(carry[0], jax.tree.map(lambda a, g: a - 0.05 * g, w, jax.grad(loss_of)(w, x, y)))


@pytest.mark.parametrize("schedule", ["grouped", "sequential"])
def test_a_pipeline_on_one_device_makes_the_update_of_all_microbatches(schedule: str, device: jax.Device) -> None:
    def features(w: Any, x: Any, y: Any) -> Any:
        return jnp.tanh(x @ w), y

    def head(w: Any, x: Any, y: Any) -> Any:
        return jnp.mean((x @ w - y) ** 2)

    pipeline = train.Pipeline(
        [features, head], optax.sgd(0.05), 4, devices=[device], device_mapping=[0, 0], pipeline_schedule=schedule, reduction="mean"
    )
    state = pipeline.init([weights()["a"], weights()["b"]])
    data = tuple(np.stack(each) for each in zip(*batches(4), strict=True))
    state, losses = pipeline.step(state, data)
    gradient = jax.grad(lambda w: jnp.mean(jax.vmap(loss_of, (None, 0, 0))(w, *data)))(weights())
    near([np.asarray(each) for each in state.params], [weights()[k] - 0.05 * np.asarray(gradient[k]) for k in "ab"])
    near(losses, np.stack([loss_of(weights(), *batch) for batch in batches(4)]))


def test_a_run_that_the_cpu_began_goes_on_here(device: jax.Device, cpu: jax.Device, tmp_path: Path) -> None:
    optimizer = optax.adam(0.01)
    with jax.default_device(cpu):
        start = jax.device_put((weights(), optimizer.init(weights())), cpu)
        looped(optimizer, start, steps=STEPS // 2, checkpoints=train.Checkpoints(tmp_path, every=5))
    carry = jax.device_put((weights(), optimizer.init(weights())), device)
    carry, losses = looped(optimizer, carry, checkpoints=train.Checkpoints(tmp_path, every=5))
    assert {leaf.device for leaf in jax.tree.leaves(carry)} == {device}
    wanted, wanted_losses = by_hand(optimizer, cpu)
    near(carry[0], wanted[0])
    near(losses, np.array(wanted_losses, np.float32)[-len(losses) :])
