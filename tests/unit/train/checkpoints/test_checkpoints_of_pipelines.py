"""A pipeline's run that ends at any element and goes on from its checkpoint gives the bits of one that was never ended."""

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from tests.unit.train.checkpoints.test_checkpoints import Ended, bits
from tests.unit.train.pipeline.test_resumed_pipelines import FORMS as SCHEDULES
from tilestep import train
from tilestep.errors import CheckpointError

COUNT, UPDATES = 4, 6


def by_loss(loss: jax.Array) -> tuple[optax.GradientTransformation, jax.Array]:
    return optax.chain(optax.scale_by_adam(), optax.scale(-1e-2 * loss)), loss


FORMS: dict[str, dict[str, Any]] = {
    **SCHEDULES,
    "replicas": {"replicas": 2},
    "offloaded": {"offload_optimizer_state": True},
    "divided": {"replicas": 2, "shard_optimizer_state": True},
    "function": {"optimizer": by_loss},
    "function, one program": {"optimizer": by_loss, "program": "single", "device_mapping": [0, 0]},
    "function, replicas": {"optimizer": by_loss, "replicas": 2, "shard_optimizer_state": True},
}

OFTEN = ("grouped", "offloaded", "divided", "function, one program")


def first(params: Any, aux: Any, x: Any, *, key: Any) -> Any:
    return jnp.tanh(x @ params["w"]) + 0.1 * jax.random.normal(key, (8, 4)), {"mean": 0.9 * aux["mean"] + x.mean()}


def last(params: Any, x: Any) -> Any:
    return ((x @ params["w"] - 1) ** 2).mean()


@functools.cache
def pipeline_of(form: str, platform: str) -> train.Pipeline:
    """One for all runs of a form: what is compiled knows no checkpoint."""
    options = {"optimizer": optax.adam(1e-2), "devices": jax.devices(platform), "outfeed_loss": True} | FORMS[form]
    return train.Pipeline([first, last], gradient_accumulation_count=COUNT, **options)


def trained(directory: Path | None, end: int | None, form: str, platform: str) -> tuple[Any, Any]:
    replicas = FORMS[form].get("replicas", 1)

    def dataset() -> Iterator[np.ndarray]:
        for index in range(COUNT * UPDATES * replicas):
            if index == end:
                raise Ended
            yield np.random.RandomState(index).randn(8, 4).astype(np.float32)

    pipeline = pipeline_of(form, platform)
    params = [{"w": jnp.eye(4)}, {"w": jnp.ones((4, 3))}]
    state = pipeline.init(params, [{"mean": jnp.zeros(())}, None])
    outfeed = train.OutfeedQueue()
    checkpoints = None if directory is None else train.Checkpoints(directory, every=2)
    with train.InfeedQueue(dataset, replicas=replicas if replicas > 1 else None) as infeed:
        state = pipeline.run(state, infeed, outfeed, repeat_count=UPDATES, key=jax.random.key(2), first_update=5, checkpoints=checkpoints)
    return bits(state), bits(outfeed.dequeue())


@pytest.mark.few(1)
@pytest.mark.parametrize("form", [form if form in OFTEN else pytest.param(form, marks=pytest.mark.slow) for form in FORMS])
def test_a_pipeline_ended_anywhere_goes_on_with_equal_bits(form: str, tmp_path: Path) -> None:
    whole = trained(None, None, form, "cpu")
    for end in (3, 2 * COUNT + 1, 4 * COUNT + 2):
        with pytest.raises(Ended) as caught:
            trained(tmp_path, end * FORMS[form].get("replicas", 1), form, "cpu")
        assert caught.value.__notes__[-1].startswith(f"{tmp_path} has {'the' if end > 2 * COUNT else 'no'} checkpoint ")
    assert trained(tmp_path, None, form, "cpu") == whole
    assert train.Checkpoints(tmp_path).latest() == UPDATES
    # It is done. What the optimiser's arrays are like takes an update if it is a function.
    assert trained(tmp_path, None if "optimizer" in FORMS[form] else 0, form, "cpu") == whole


def test_a_pipeline_goes_on_on_ipu(tmp_path: Path) -> None:
    """Its optimiser's state is in the host's memory."""
    whole = trained(None, None, "grouped", "ipu")
    with pytest.raises(Ended):
        trained(tmp_path, 4 * COUNT + 1, "grouped", "ipu")
    assert trained(tmp_path, None, "grouped", "ipu") == whole


def test_a_state_goes_to_another_platform_and_another_schedule(tmp_path: Path) -> None:
    """The state alone, by `restore`: the run of another program is refused."""
    trained(tmp_path, None, "grouped", "cpu")
    other = train.Pipeline([first, last], optax.adam(1e-2), COUNT, devices=jax.devices("ipu"), pipeline_schedule="sequential")
    like = other.init([{"w": jnp.eye(4)}, {"w": jnp.ones((4, 3))}], [{"mean": jnp.zeros(())}, None])
    checkpoints = train.Checkpoints(tmp_path, every=2)
    infeed, outfeed = train.InfeedQueue([]), train.OutfeedQueue()
    found = checkpoints.restore(like=like, feeds={"infeed": infeed}, outfeeds={"outfeed": outfeed})
    assert {device.platform for leaf in jax.tree.leaves(found) for device in leaf.devices()} == {"ipu"}
    assert jax.tree.map(lambda a, b: a.sharding == b.sharding, found, like)
    with pytest.raises(CheckpointError, match="is of another program: its schedule is grouped, and here it is sequential"):
        other.run(like, infeed, outfeed, repeat_count=UPDATES, checkpoints=checkpoints)
