"""A pipeline's state comes back with its layers in other stages: each has its parameters and its optimiser's state, bit by bit."""

import itertools
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from tilestep import train
from tilestep.errors import CheckpointError
from tilestep.train.schedules.partition import LayerCost, Partition

WIDTHS = (3, 4, 5, 4)  # of the inputs of each layer: no two layers have equal shapes
CPUS = jax.devices("cpu")


def layer(params: Any, x: Any) -> Any:
    return jnp.tanh(x @ params["w"])


def last(params: Any, x: Any) -> Any:
    return (layer(params, x) ** 2).mean()


LAYERS = [layer, layer, layer, last]
PARAMS = [
    {"w": np.random.default_rng(n).normal(size=(a, b)).astype("f")} for n, (a, b) in enumerate(zip(WIDTHS, (*WIDTHS[1:], 2), strict=True))
]


def partition(*cuts: int) -> Partition:
    return Partition(cuts=cuts, costs=tuple(LayerCost(name=str(number), work=1.0) for number in range(cuts[-1])))


def first_state(cut: Partition, optimizer: Any) -> train.PipelineState:
    """Of a pipeline with these stages."""
    stages = cut.stages(LAYERS)
    made = train.Pipeline(stages, optimizer, 2, strict=False, devices=CPUS[: len(stages)], outfeed_loss=True)
    return made.init(cut.split(PARAMS))


def adam_of(state: train.PipelineState) -> list[optax.ScaleByAdamState]:
    """For each stage, or once for all of them."""
    found = jax.tree.leaves(state.optimizer_state, is_leaf=lambda node: isinstance(node, optax.ScaleByAdamState))
    return [node for node in found if isinstance(node, optax.ScaleByAdamState)]


def by_layer(state: train.PipelineState) -> list[Any]:
    """For each layer the bits of its parameters and of what Adam has of it."""
    adams: list[Any] = adam_of(state)
    if isinstance(state.optimizer_state, train.JointState):
        moments = [list(zip(mu, nu, strict=True)) for mu, nu in zip(adams[0].mu, adams[0].nu, strict=True)]
    else:
        moments = [list(zip(own.mu, own.nu, strict=True)) for own in adams]
    layers = [
        (params, *own) for stage, of_stage in zip(state.params, moments, strict=True) for params, own in zip(stage, of_stage, strict=True)
    ]
    return [[np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(layer)] for layer in layers]


OLD, NEW = partition(0, 1, 4), partition(0, 2, 3, 4)


def saved(directory: Path, optimizer: Any) -> tuple[train.Checkpoints, train.PipelineState]:
    """A state with the stages of OLD as after two updates: no two numbers of its arrays are equal."""
    numbers = itertools.count(0.5)

    def filled(leaf: Any) -> Any:
        value = np.full(leaf.shape, 2) if leaf.dtype == jnp.int32 else np.array([next(numbers) for _ in range(leaf.size)])
        return jax.device_put(value.reshape(leaf.shape).astype(leaf.dtype), leaf.sharding)

    state = jax.tree.map(filled, first_state(OLD, optimizer))
    checkpoints = train.Checkpoints(directory, background=False)
    checkpoints.save(2, state)
    return checkpoints, state


@pytest.mark.parametrize("joint", [False, True])
def test_layers_keep_what_they_have_in_other_stages(tmp_path: Path, joint: bool) -> None:
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(0.1)) if joint else optax.adam(0.1)
    checkpoints, state = saved(tmp_path, optimizer)
    like = first_state(NEW, optimizer)
    restored = checkpoints.restore(like=like, partitions=(OLD, NEW))
    assert isinstance(restored.optimizer_state, train.JointState) == joint
    assert len(by_layer(restored)) == 4
    assert by_layer(restored) == by_layer(state)
    assert [leaf.sharding for leaf in jax.tree.leaves(restored)] == [leaf.sharding for leaf in jax.tree.leaves(like)]
    assert [int(own.count) for own in adam_of(restored)] == [2] * (1 if joint else 3)


def test_a_state_that_is_not_of_layers_alone_is_refused_by_name(tmp_path: Path) -> None:
    checkpoints, state = saved(tmp_path, optax.adam(0.1))
    like = first_state(NEW, optax.adam(0.1))
    with pytest.raises(ValueError, match="partitions are of 3 and 4 layers: both must be of the same ones"):
        checkpoints.restore(like=like, partitions=(partition(0, 1, 3), NEW))
    with pytest.raises(ValueError, match=r"state.params has 3 stages, and the new partition 2"):
        checkpoints.restore(like=like, partitions=(NEW, OLD))
    with pytest.raises(ValueError, match=r"state.params\[0\] is a list of 1, and the new partition has 2 there"):
        checkpoints.restore(like=state, partitions=(OLD, partition(0, 2, 4)))
    with pytest.raises(TypeError, match="must be a pair of Partitions, for a like that is a PipelineState"):
        checkpoints.restore(like=like.params, partitions=(OLD, NEW))
    with pytest.raises(
        CheckpointError, match=r"step 2 is of another state: it lacks state.params\[0\]\[1\]\['w'\], .* and has state.params"
    ):
        checkpoints.restore(like=like, partitions=(partition(0, 2, 4), NEW))
    with_aux = train.PipelineState(params=like.params, optimizer_state=like.optimizer_state, aux=[None, None, None])
    with pytest.raises(ValueError, match="the state has aux, which is of stages and not of layers"):
        checkpoints.restore(like=with_aux, partitions=(OLD, NEW))


def test_counts_of_stages_that_differ_cannot_become_one(tmp_path: Path) -> None:
    """Stage 0 of NEW has a layer of each stage of OLD."""
    state = first_state(OLD, optax.adam(0.1))
    own: Any = state.optimizer_state
    own = [own[0], (own[1][0]._replace(count=own[1][0].count + 1), *own[1][1:])]
    checkpoints = train.Checkpoints(tmp_path, background=False)
    checkpoints.save(1, train.PipelineState(params=state.params, optimizer_state=own))
    with pytest.raises(
        CheckpointError, match=r"state.optimizer_state\[1\]\[0\].count is not equal to state.optimizer_state\[0\]\[0\].count, and a stage"
    ):
        checkpoints.restore(like=first_state(NEW, optax.adam(0.1)), partitions=(OLD, NEW))
    alone = partition(0, 1, 3, 4)
    assert [
        int(adam.count) for adam in adam_of(checkpoints.restore(like=first_state(alone, optax.adam(0.1)), partitions=(OLD, alone)))
    ] == [0, 1, 1]
