"""What `plan_training` answers: plans that run as they say, what does not fit, and what it refuses."""

import functools
import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.sharding import PartitionSpec

import tilestep
from tests.together import each
from tests.unit.planner.small_models import SmallModel, classifier, residual, shape
from tilestep.errors import SettingsError, SpecError
from tilestep.machine import changed_machine, load_machine
from tilestep.settings import read_settings

SMALL = changed_machine(load_machine("m2000"), num_ipus=2, num_tiles=16)


def planned(model: SmallModel, machine: Any = SMALL, **options: Any) -> tilestep.TrainingPlans:
    given: dict[str, Any] = {
        "optimizer": optax.adam(0.1),
        "global_batch": 8,
        "microbatch_sizes": [2],
        "recompute": [None],
        "offload": [None],
    }
    return tilestep.plan_training(
        model.layers, model.params, microbatch=model.microbatch, machine=machine, **(given | {"schedules": ["interleaved"]} | options)
    )


@pytest.mark.slow
def test_a_plan_takes_what_running_it_takes() -> None:
    """To the cycle, and the byte on the fullest tile, on the process's own machine. Numbers come from the profile of a run."""
    model = classifier([16, 16])
    plans = planned(model, read_settings().machine, recompute=["full"], offload=["state"], replays=3)
    assert max(plan.num_ipus for plan in plans.plans) > 1
    for plan in (plans.best, plans.plans[-1]):
        axes = (plan.accumulation, *((plan.replicas,) if plan.replicas > 1 else ()), plan.microbatch)
        batch = np.zeros(axes, np.int32)
        with tilestep.dry_run():
            pipeline = plan.pipeline(jax.devices("ipu"))
            params = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), model.params)
            state, losses = pipeline.step(pipeline.init(plan.partition.split(params)), (batch, batch))
            jax.block_until_ready((state, losses))
            with tilestep.profile() as profile:
                state, losses = pipeline.step(state, (batch, batch))
                jax.block_until_ready((state, losses))
        assert profile.emulated_cycles == plan.step_cycles
        assert profile.groups[0].peak_tile_bytes == sum(plan.tile_bytes.values())
        assert plan.samples_per_s == pytest.approx(8 / profile.emulated_s)


def constrained(params: Any, x: Any) -> Any:
    """A residual layer whose inner values are divided as its parameters are."""
    inner = jax.lax.with_sharding_constraint(jnp.sin(x @ params["up"]), PartitionSpec(None, "shard"))
    return x + inner @ params["down"]


HALVES = {"up": PartitionSpec(None, "shard"), "down": PartitionSpec("shard")}


@pytest.mark.slow
def test_a_layer_that_no_ipu_holds_is_divided_over_several() -> None:
    """A layer has 1 MiB of halves and as much of accumulators or gradients; an IPU here has two tiles of 624 KiB."""
    machine = changed_machine(read_settings().machine, num_ipus=4, num_tiles=2)
    model = residual(2, 128, 2048)
    model = SmallModel([constrained, constrained, model.layers[-1]], model.params, model.microbatch)
    shardings = [HALVES, HALVES, None]
    options: dict[str, Any] = {"optimizer": optax.sgd(0.1), "offload": [None, "accumulators"], "sharding": shardings}
    played: list[str] = []
    whole = planned(model, machine, shards=[1], replays=1, progress=lambda _, text: played.append(text), **options)
    assert not whole.plans
    plans = planned(model, machine, shards=[2, 3], exhaustive=True, **options)
    assert [plan.text for plan in plans.plans] == [
        "2 stages (1+2 layers) of 2 IPUs x 1 replica, 4 microbatches of 2, interleaved, accumulators offloaded"
    ]


def test_a_divided_plan_takes_what_running_it_takes() -> None:
    def columns(params: Any, x: Any) -> Any:
        return jax.lax.with_sharding_constraint(constrained(params, x), PartitionSpec(None, "shard"))

    model = residual(2, 32, 128)
    layers = [columns, columns, model.layers[-1]]
    plans = planned(
        SmallModel(layers, model.params, model.microbatch),
        read_settings().machine,
        sharding=[HALVES, HALVES, None],
        offload=["accumulators"],
        plan_options={"available_memory_proportion": 0.1},
        shards=[2],
        replays=3,
    )
    for start in ("1 stage of 2 IPUs x 2 replicas", "2 stages (1+2 layers) of 2 IPUs"):
        plan = next(plan for plan in plans.plans if plan.text.startswith(start))
        axes = (plan.accumulation, *((plan.replicas,) if plan.replicas > 1 else ()), plan.microbatch)
        batch = np.zeros((*axes, 32), np.float16)
        with tilestep.dry_run():
            devices = jax.devices("ipu")
            pipeline = plan.pipeline(devices)
            params = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), model.params)
            state, losses = pipeline.step(pipeline.init(plan.split(params, devices)), batch)
            jax.block_until_ready((state, losses))
            with tilestep.profile() as profile:
                jax.block_until_ready(pipeline.step(state, batch))
        assert profile.emulated_cycles == plan.step_cycles
        assert profile.groups[0].peak_tile_bytes == sum(plan.tile_bytes.values())
        for attempt in (plan.pipeline, functools.partial(plan.split, params)):
            with pytest.raises(ValueError, match=f"the plan needs {plan.num_ipus} IPUs, but devices has 1: set TILESTEP_MACHINE"):
                attempt(devices[:1])
            with pytest.raises(TypeError, match="devices is 'ipu': it must be a list"):
                attempt("ipu")
        with pytest.raises(ValueError, match="there are 2 entries, but the partition is of 3 layers"):
            plan.split(params[:2], devices)
        for attempt in (plan.pipeline, functools.partial(plan.split, params)):
            with pytest.raises(ValueError, match=rf"the plan needs {plan.num_ipus} IPUs, but devices has 1: set TILESTEP_MACHINE"):
                attempt(devices[:1])
            with pytest.raises(TypeError, match="devices is 'ipu': it must be a list"):
                attempt("ipu")
        with pytest.raises(ValueError, match="there are 2 entries, but the partition is of 3 layers"):
            plan.split(params[:2], devices)


@pytest.mark.process  # Matplotlib asks for the system's fonts when it is first used
def test_plans_are_ranked_and_say_what_they_are(tmp_path: Path) -> None:
    plans = planned(classifier([16, 16]), schedules=["interleaved", "zero_bubble"], microbatch_sizes=[2, 4], replays=3)
    assert plans.replayed == len(plans.plans) == 3
    assert plans.gap
    assert [plan.step_cycles for plan in plans.plans] == sorted(plan.step_cycles for plan in plans.plans)
    assert plans.verdict.startswith(f"best of {plans.considered}: 3 replayed; none can be more than ")
    assert [bool(plan.why_slower) for plan in plans.plans] == [False, True, True]
    shown = plans.show()
    assert all(" ".join(plan.text.split()[:4]) in shown for plan in plans.plans)
    document = json.loads(plans.to_json())
    assert document["plans"][0] == json.loads(json.dumps(plans.best.as_dict()))
    assert document["gap"] == plans.gap
    assert 0 <= plans.best.bubble < 1
    with pytest.raises(ValueError, match=r"path is 'plans.gif': its name must end with .png or .svg"):
        plans.plot("plans.gif")
    pytest.importorskip("matplotlib")
    plans.plot(tmp_path / "plans.svg")
    text = (tmp_path / "plans.svg").read_text()
    assert f"{len(plans.best.stages) - 1} x 1 x {plans.best.replicas}" in text


def test_the_fastest_is_said_only_where_nothing_faster_can_be_left() -> None:
    plans = planned(classifier([16]), exhaustive=True, replays=1)
    assert plans.gap == 0
    assert plans.verdict.startswith(f"the fastest of {plans.considered}: ")


def test_what_cannot_fit_is_never_played() -> None:
    """Of 2048 x 2048 floats, which are 16 MiB, 16 tiles of 624 KiB hold 9.75 MiB."""
    played: list[str] = []
    plans = planned(classifier([2048, 2048]), progress=lambda _, text: played.append(text))
    assert (plans.plans, plans.gap, plans.replayed, played) == ((), None, 0, [])
    assert plans.impossible == plans.considered
    assert "alone need" in plans.nearest
    with pytest.raises(ValueError, match="none of 4 plans fits m2000, as far as 0 replays show"):
        _ = plans.best


def test_where_a_replay_does_not_fit_it_says_what_is_lacking() -> None:
    tiny = changed_machine(SMALL, num_ipus=1, num_tiles=4)
    plans = planned(classifier([420] * 4), tiny, optimizer=optax.sgd(0.1), global_batch=2)
    assert plans.plans == ()
    assert (plans.considered, plans.replayed, plans.gap) == (1, 1, None)
    assert "times as much" in plans.nearest
    assert "which has 638,976 B" in plans.nearest


@each(
    "options, error, message",
    [
        ({"global_batch": 0}, ValueError, "global_batch is 0: it must be 1 or more|global_batch is 0: it must be 1 to"),
        ({"schedules": ["looped"]}, ValueError, "schedules has 'looped': it must be a list of 'sequential', 'grouped'"),
        ({"schedules": []}, ValueError, "schedules is empty"),
        ({"recompute": "full"}, TypeError, "recompute is 'full': it must be a list of None, 'full'"),
        ({"offload": ["weights"]}, ValueError, "offload has 'weights': it must be a list of None, 'state'"),
        ({"microbatch_sizes": [3]}, ValueError, r"microbatch_sizes is \[3\]: at least one must divide the global batch of 8"),
        ({"sharding": PartitionSpec()}, TypeError, "sharding is .*: it must be a list with an entry for each layer"),
        ({"sharding": [None]}, ValueError, "sharding has 1 entries, and there are 2 layers"),
        ({"sharding": [None, "shard"]}, TypeError, r"sharding\[1\] has 'shard': it must be a pytree of PartitionSpecs of the axis"),
        ({"sharding": [None, PartitionSpec("ipus")]}, ValueError, r"sharding\[1\] has .*'ipus',?\): it must be a pytree"),
        ({"sharding": [None, PartitionSpec(None, None, "shard")]}, ValueError, r"for an array of shape \(16, 8\)"),
        ({"sharding": [None, {"w": None}]}, ValueError, r"sharding\[1\] has another structure than the layer's params"),
        ({"sharding": [None, PartitionSpec("shard")], "shards": [3]}, ValueError, r"shards\[0\] is 3"),
        ({"sharding": [PartitionSpec(None, "shard")] * 2, "shards": [2.0]}, TypeError, r"shards\[0\] is 2.0"),
        ({"shards": [2]}, ValueError, r"shards is \[2\], but without sharding nothing says"),
        ({"tied": [[(0,), (1,)]]}, TypeError, r"tied has .*: it must be a path \(layer, key, \.\.\.\)"),
        ({"cuts": [(0, 3)]}, ValueError, r"cuts is \(0, 3\): it must rise from 0 to the 2 layers"),
        ({"shard_optimizer_state": 2}, TypeError, "shard_optimizer_state is 2"),
        ({"plan_options": {"proportion": 1}}, SettingsError, "plan_options: .*proportion"),
        ({"replays": 0}, ValueError, "replays is 0: it must be 1 or more"),
        ({"exhaustive": 1}, TypeError, "exhaustive is 1"),
        ({"optimizer": 0.1}, TypeError, "optimizer is 0.1: it must be a transformation of optax"),
        ({"loss": 1}, TypeError, "loss is 1"),
        ({"progress": 1}, TypeError, "progress is 1"),
        ({"machine": "m2001"}, SpecError, "m2001"),
        ({"machine": 4}, TypeError, "machine is a int: it must be the name of a machine"),
    ],
)
def test_bad_arguments_are_refused_before_any_work(options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        planned(classifier([16]), **options)


def test_layers_that_do_not_fit_together_are_refused_with_their_number() -> None:
    model = classifier([16, 8])
    with pytest.raises(ValueError, match="there are 3 layers and 2 entries of params"):
        planned(SmallModel(model.layers, model.params[:2], model.microbatch))
    with pytest.raises(ValueError, match=r"the last layer \(dense\) returns .* first: it must return the loss, a scalar"):
        planned(SmallModel(model.layers[:2], model.params[:2], model.microbatch))
    with pytest.raises(TypeError, match="dot_general") as caught:
        planned(SmallModel(model.layers, [model.params[0], shape(4, 4), model.params[2]], model.microbatch))
    assert any(note.startswith("raised by layer 1 (dense), with arguments") for note in caught.value.__notes__)
    with pytest.raises(ValueError, match=r"microbatch has .*: it must be arrays or shapes"):
        planned(SmallModel(model.layers, model.params, (np.float32(1),)))
