"""What pipelines can be told."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from tests.together import each
from tests.unit.train.pipeline.pipelines import (
    CLASSES,
    ROWS,
    WIDTH,
    assert_near,
    batches,
    dense,
    embed,
    head,
    matrix,
    reference,
)
from tilestep.train import cross_replica_mean
from tilestep.train.pipeline.pipeline import Pipeline


def three(seed: int = 0) -> list[Any]:
    rng = np.random.default_rng(seed)
    return [
        {"table": matrix(rng, 11, WIDTH)},
        {"w": matrix(rng, WIDTH, WIDTH), "b": np.ones(WIDTH, np.float32)},
        {"w": matrix(rng, WIDTH, CLASSES)},
    ]


STAGES = [embed, dense, head]
ACROSS = optax.chain(optax.clip_by_global_norm(0.1), optax.adam(0.1))  # looks across stages


def trained(pipeline: Pipeline, elements: Any, params: Any = None, updates: int = 2, **options: Any) -> Any:
    state = pipeline.init(three() if params is None else params)
    for _ in range(updates):
        state, _ = pipeline.step(state, elements, **options)
    return state


# ------------------------------------------------------------------------------------------------------ ties, state and keys


def test_tied_parameters_stay_equal_where_they_begin_equal_and_are_alike() -> None:
    table = np.ones((4, 4), np.float32)
    first, last = lambda p, x: x @ p["in"]["w"], lambda p, x: (x @ p["out"]["w"]).sum()
    options: Any = {"tied": [[(0, "in"), (1, "out")]]}
    pipeline = Pipeline([first, last], optax.sgd(0.1, momentum=0.9), 4, **options)
    state = pipeline.init([{"in": {"w": table}}, {"out": {"w": table}}])
    assert len(jax.tree.leaves(state.optimizer_state)) == 1  # one update, one state
    x = np.arange(32, dtype=np.float32).reshape(4, 2, 4) / 32
    for _ in range(2):
        state, _ = pipeline.step(state, x)
    shared = jnp.asarray(table)
    trace = jnp.zeros_like(shared)
    for _ in range(2):
        trace = 0.9 * trace + jax.grad(lambda w: sum((row @ w @ w).sum() for row in x))(shared)
        shared = shared - 0.1 * trace
    assert_near(state.params[0]["in"]["w"], shared)
    np.testing.assert_array_equal(state.params[0]["in"]["w"], state.params[1]["out"]["w"])
    with pytest.raises(ValueError, match="tied parameters must begin equal, but out/w of stage 1 has other values than that of stage 0"):
        pipeline.init([{"in": {"w": table}}, {"out": {"w": 2 * table}}])
    with pytest.raises(
        ValueError, match=r"tied parameters must be alike: stage 0 in is w float32\[4, 4\], stage 1 out is w float32\[4, 2\]"
    ):
        pipeline.init([{"in": {"w": table}}, {"out": {"w": table[:, :2]}}])
    with pytest.raises(ValueError, match="tied names in of stage 0, which has other"):
        pipeline.init([{"other": table}, {"out": {"w": table}}])


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("options", "optimizer"),
    [
        ({"program": "stages"}, optax.adam(0.1)),
        ({"program": "single"}, ACROSS),
        ({"program": "stages", "replicas": 2}, ACROSS),
    ],
)
def test_tied_parameters_on_one_device_are_one_array(options: Any, optimizer: Any) -> None:
    stages = [lambda p, x: x @ p["w"], lambda p, x: jnp.tanh(x * p), lambda p, x: (x @ p["w"].T).sum() + p["b"]]
    w, rng = np.float32(np.random.default_rng(0).normal(0, 0.3, (80, 80))), np.random.default_rng(1)  # 25 KiB: by itself
    params = [{"w": w}, np.float32(1), {"w": w, "b": np.float32(0)}]
    rows = rng.normal(size=(4, 2, 3, 80) if options.get("replicas") else (4, 3, 80)).astype(np.float32)
    own = Pipeline(stages, optimizer, 4, strict=False, tied=[[(0, "w"), (2, "w")]], device_mapping=[0, 1, 0], **options)
    apart = Pipeline(stages, optimizer, 4, strict=False, tied=[[(0, "w"), (2, "w")]], device_mapping=[0, 1, 2], **options)
    state, other = own.init(params), apart.init(params)
    assert other.params[2]["w"] is not other.params[0]["w"]
    for _ in range(3):
        assert state.params[2]["w"] is state.params[0]["w"]
        (state, losses), (other, others) = own.step(state, rows), apart.step(other, rows)
        jax.tree.map(np.testing.assert_array_equal, (state.params, losses), (other.params, others))
    saved = jax.tree.map(np.array, state)
    kept = jax.tree.map(np.array, own.step(state, rows)[0])
    state = jax.tree.map(lambda new, old: jax.device_put(new, old.sharding), saved, own.init(params))  # each an array of its own
    state, _ = own.step(state, rows)
    jax.tree.map(np.testing.assert_array_equal, state, kept)
    assert state.params[2]["w"] is state.params[0]["w"]


@pytest.mark.parametrize("program", ["stages", "single"])
def test_tied_parameters_without_an_optimizer(program: Any) -> None:
    stages = [lambda p, x: x @ p["w"], lambda p, x: (x @ p["w"].T).sum()]
    w = np.arange(16, dtype=np.float32).reshape(4, 4)
    pipeline = Pipeline(stages, None, 4, strict=False, tied=[[(0, "w"), (1, "w")]], device_mapping=[0, 0], program=program)
    rows = np.ones((4, 2, 4), np.float32)
    state, sums = pipeline.step(pipeline.init([{"w": w}, {"w": w}]), rows)
    np.testing.assert_array_equal(sums, [(row @ w @ w.T).sum() for row in rows])
    assert state.params[1]["w"] is state.params[0]["w"]


def test_a_stage_without_auxiliary_state_beside_one_that_has_it() -> None:
    def counting(params: Any, aux: Any, x: Any) -> Any:
        return x * params, aux + 1

    pipeline = Pipeline([counting, lambda p, x: (x * p).sum()], optax.sgd(0.1), 4)
    state = pipeline.init([np.float32(1), np.float32(1)], [np.int32(5), None])
    state, _ = pipeline.step(state, np.ones((4, 3), np.float32))
    assert state.aux is not None
    assert (int(state.aux[0]), state.aux[1]) == (9, None)
    with pytest.raises(TypeError, match=r"stage 0 \(lambda\) has auxiliary state: it must return \(outputs, the new state\)"):
        trained_one(lambda p, aux, x: x)
    with pytest.raises(TypeError, match=r"stage 0 \(lambda\) has auxiliary state int32\[\], but returned float32\[\]"):
        trained_one(lambda p, aux, x: (x, aux + 0.5))


def trained_one(stage: Any) -> Any:
    pipeline = Pipeline([stage, lambda p, x: (x * p).sum()], optax.sgd(0.1), 4)
    return pipeline.step(pipeline.init([np.float32(1), np.float32(1)], [np.int32(5), None]), np.ones((4, 3), np.float32))


# -------------------------------------------------------------------------------------------------------- replicas and meshes


def test_a_stage_combines_what_replicas_have() -> None:
    def mean(params: Any, aux: Any, x: Any) -> Any:
        return (x * params, cross_replica_mean(aux + x.sum()))

    pipeline = Pipeline([mean, lambda p, x: (x * p).sum()], optax.sgd(0.1), 4, replicas=2)
    state = pipeline.init([np.float32(1), np.float32(1)], [np.float32(0), None])
    state, _ = pipeline.step(state, np.arange(8, dtype=np.float32).reshape(4, 2))
    assert state.aux is not None
    assert np.asarray(state.aux[0]).tolist() == [14.0, 14.0]


@pytest.mark.parametrize("replicas", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_stage_may_be_divided_over_a_mesh(replicas: int) -> None:
    optimizer = optax.sgd(0.1, momentum=0.9)
    axes = ("replica", "x") if replicas > 1 else ("x",)
    mesh = Mesh(np.array(jax.devices()[4 : 4 + 2 * replicas]).reshape((replicas, 2) if replicas > 1 else (2,)), axes)
    params = three()
    params[1] = jax.tree.map(lambda leaf: jax.device_put(leaf, NamedSharding(mesh, P(*[None] * (leaf.ndim - 1), "x"))), params[1])
    pipeline = Pipeline(STAGES, optimizer, 6, device_mapping=[0, mesh, 1], replicas=replicas)
    tokens, labels = batches(1, 6 * replicas)
    rows = (tokens, labels) if replicas == 1 else (tokens.reshape(6, 2, *tokens.shape[1:]), labels.reshape(6, 2, ROWS))
    state = trained(pipeline, rows, params)
    assert state.params[1]["w"].sharding.shard_shape((WIDTH, WIDTH)) == (WIDTH, WIDTH // 2)
    assert state.optimizer_state[1][0].trace["w"].sharding.shard_shape((WIDTH, WIDTH)) == (WIDTH, WIDTH // 2)
    expected, _ = reference(STAGES, three(), optax.sgd(0.1 / replicas, momentum=0.9), (tokens, labels), 2, "sum")
    assert_near(jax.tree.map(np.asarray, state.params), expected)


@pytest.mark.few(1)
@pytest.mark.parametrize("replicas", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_a_stage_may_say_how_it_is_divided(replicas: int) -> None:
    mesh = Mesh(np.array(jax.devices()[4 : 4 + 2 * replicas]).reshape(replicas, 2), ("replica", "x"))

    def divided(p: Any, x: Any, label: Any) -> Any:
        scale = jax.lax.with_sharding_constraint(p["scale"] * 2, NamedSharding(mesh, P("x")))
        return jax.nn.gelu(jax.lax.with_sharding_constraint(x @ p["w"], NamedSharding(mesh, P(None, "x")))) * scale, label

    params = [*three()[:1], {"w": three()[1]["w"], "scale": np.ones(WIDTH, np.float32)}, *three()[2:]]
    stages = [embed, divided, head]
    pipeline = Pipeline(stages, optax.sgd(0.1), 6, device_mapping=[0, mesh, 1], replicas=replicas)
    tokens, labels = batches(1, 6 * replicas)
    rows = (tokens, labels) if replicas == 1 else (tokens.reshape(6, 2, *tokens.shape[1:]), labels.reshape(6, 2, ROWS))
    state = trained(pipeline, rows, params)
    expected, _ = reference(stages, params, optax.sgd(0.1 / replicas), (tokens, labels), 2, "sum")
    assert_near(jax.tree.map(np.asarray, state.params), expected)


@pytest.mark.parametrize("schedule", ["interleaved", "zero_bubble"])
def test_a_stage_may_write_to_a_reference(schedule: Any) -> None:
    def written(p: Any, x: Any, label: Any) -> Any:
        total = jax.new_ref(jnp.zeros_like(x))
        for turn in range(1, 3):
            total[...] += jnp.sin(turn * x @ p["w"])
        return total[...], label

    stages = [embed, written, head]
    params = [three()[0], {"w": three()[1]["w"]}, three()[2]]
    pipeline = Pipeline(stages, optax.sgd(0.1), 6, pipeline_schedule=schedule, program="stages", strict=False)
    assert_near(trained(pipeline, batches(1, 6), params).params, reference(stages, params, optax.sgd(0.1), batches(1, 6), 2, "sum")[0])


def test_devices_of_a_stage_are_all_or_none_of_another() -> None:
    with pytest.raises(ValueError, match=r"stages 0 and 1 share device .*, but not all of their devices"):
        Pipeline(STAGES, optax.sgd(0.1), 6, device_mapping=[0, (0, 1), 2])
    with pytest.raises(ValueError, match="with 3 replicas of 3 devices each there must be 9, but there are 8"):
        Pipeline(STAGES, optax.sgd(0.1), 6, replicas=3)


# ----------------------------------------------------------------------------------------------------- what is refused


@each(
    "options, error, message",
    [
        ({"outfeed_loss": True, "outfeed_mask": [True]}, ValueError, "outfeed_loss and outfeed_mask are given"),
        ({"outfeed_mask": [1]}, TypeError, r"outfeed_mask\[0\] is 1: it must be True or False"),
        ({"accumulate_outfeed_dtype": "float32"}, ValueError, "accumulate_outfeed is False"),
        ({"shard_optimizer_state": True}, ValueError, "the pipeline has one replica"),
        ({"shard_optimizer_state": 1}, ValueError, "shard_optimizer_state is 1, but the pipeline has one replica"),
        ({"offload_activations": [7]}, ValueError, "there is no stage 7 to offload"),
        ({"offload_optimizer_state": {"weights": True}}, ValueError, "offload has an entry for 'weights'"),
        ({"tied": [(0, "w")]}, TypeError, "tied has 0: it must be a path"),
        ({"tied": [[(0, "w")]]}, ValueError, "an entry names two or more"),
        ({"tied": [[(0, "w"), (5, "w")]]}, ValueError, "a stage of tied is 5: it must be 0 to 2"),
        ({"tied": [[(0, "w"), (1, "w")]], "pipeline_schedule": "stale"}, ValueError, "the stale schedule updates each stage at another"),
        ({"replicas": 0}, ValueError, "replicas is 0"),
        ({"device_mapping": [0, (1, 1), 2]}, ValueError, r"an entry of device_mapping is \[1, 1\]"),
    ],
)
def test_bad_options_are_refused_before_anything_runs(options: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        Pipeline(STAGES, optax.sgd(0.1), 6, **options)
