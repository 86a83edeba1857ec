"""What pipelines can be told, on eight CPU devices; `test_pipelines.py` starts a process that has them."""

from __future__ import annotations

from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.ad_checkpoint import checkpoint_name
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

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
    runs_noted,
)
from tilestep.train import InfeedQueue, OutfeedQueue, cross_replica_mean
from tilestep.train.pipeline.pipeline import Pipeline
from tilestep.train.pipeline.state import JointState
from tilestep.train.replicas.shards import is_shard


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


@pytest.mark.parametrize(
    ("options", "optimizer"),
    [
        ({"program": "stages"}, optax.adam(0.1)),
        ({"program": "single"}, ACROSS),
        ({"program": "stages", "replicas": 2}, ACROSS),
        pytest.param({"program": "stages"}, ACROSS, marks=pytest.mark.slow),
        pytest.param({"program": "single"}, optax.adam(0.1), marks=pytest.mark.slow),
        pytest.param({"program": "stages", "replicas": 2}, optax.adam(0.1), marks=pytest.mark.slow),
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


def test_random_keys_depend_on_stage_microbatch_and_replica_alone() -> None:
    def draw(params: Any, x: Any, *, key: Any) -> Any:
        return x, jax.random.key_data(key)

    def again(params: Any, x: Any, before: Any, *, key: Any) -> Any:
        return before, jax.random.key_data(key)

    x, key = np.zeros((4, 1), np.float32), jax.random.key(3)
    found = [
        Pipeline([draw, again], None, 4, pipeline_schedule=schedule, device_mapping=mapping).step(
            Pipeline([draw, again], None, 4, device_mapping=mapping).init([(), ()]), x, key=key
        )[1]
        for schedule, mapping in (("grouped", [0, 1]), ("sequential", [1, 0]))
    ]
    expected = [[jax.random.key_data(jax.random.fold_in(jax.random.fold_in(key, stage), m)) for m in range(4)] for stage in range(2)]
    for first, second in found:
        np.testing.assert_array_equal(first, np.stack(expected[0]))
        np.testing.assert_array_equal(second, np.stack(expected[1]))
    pipeline = Pipeline([draw, again], None, 4, replicas=2)
    first, _ = pipeline.step(pipeline.init([(), ()]), np.zeros((4, 2, 1), np.float32), key=key)[1]
    keys = [[jax.random.key_data(jax.random.fold_in(jax.random.fold_in(key, 0), m * 2 + r)) for r in range(2)] for m in range(4)]
    np.testing.assert_array_equal(first, np.array(keys))
    pipeline = Pipeline([draw, again], None, 4)
    with pytest.raises(ValueError, match=r"stage 0 \(draw\) asks for a random key: give step\(\) or run\(\) a key"):
        pipeline.step(pipeline.init([(), ()]), x)
    with pytest.raises(TypeError, match="key is 3: it must be a random key"):
        pipeline.step(pipeline.init([(), ()]), x, key=3)


# -------------------------------------------------------------------------------------------------------- replicas and meshes


def test_replicas_take_the_mean_and_their_elements_in_turn() -> None:
    optimizer = optax.adamw(1e-2)
    pipeline = Pipeline(STAGES, optimizer, 6, replicas=2, reduction="mean")
    tokens, labels = batches(1, 12)
    rows = tokens.reshape(6, 2, *tokens.shape[1:]), labels.reshape(6, 2, ROWS)
    state = trained(pipeline, rows)
    assert [sorted(device.id for device in leaf.devices()) for leaf in jax.tree.leaves(state.params[1])] == [[1, 4], [1, 4]]
    expected, _ = reference(STAGES, three(), optimizer, (tokens, labels), 2, "mean")  # a mean of means
    assert_near(jax.tree.map(np.asarray, state.params), expected, 1e-4)
    infeed, outfeed = InfeedQueue(list(zip(tokens, labels, strict=True)) * 2, replicas=2), OutfeedQueue()
    fed = pipeline.run(pipeline.init(three()), infeed, outfeed, repeat_count=2)
    jax.tree.map(np.testing.assert_array_equal, fed.params, state.params)
    assert outfeed.dequeue()[0].shape == (12, 2)
    with pytest.raises(ValueError, match=r"the pipeline has 2 replicas, but a step of the InfeedQueue is of 1: make it InfeedQueue"):
        pipeline.run(fed, InfeedQueue([]))
    with pytest.raises(ValueError, match=r"an array of shape \(6, 4, 5\): the second axis of each must be the 2 replicas"):
        pipeline.step(fed, batches(1, 6))


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


def test_a_policy_may_keep_activations_in_the_hosts_memory() -> None:
    policy = jax.checkpoint_policies.save_and_offload_only_these_names(
        names_which_can_be_saved=["kept"], names_which_can_be_offloaded=["away"], offload_src="device", offload_dst="pinned_host"
    )

    def named(p: Any, x: Any, label: Any) -> Any:
        x = checkpoint_name(jax.nn.gelu(x @ p["w"]), "away")
        return jnp.sin(checkpoint_name(jnp.exp(jnp.sin(x @ p["w"])), "kept")), label

    stages = [embed, jax.checkpoint(named, policy=policy), head]  # pyright: ignore[reportPrivateImportUsage]
    params = [three()[0], {"w": three()[1]["w"]}, three()[2]]
    pipeline = Pipeline(stages, optax.sgd(0.1), 6, pipeline_schedule="interleaved", program="stages")
    assert_near(trained(pipeline, batches(1, 6), params).params, reference(stages, params, optax.sgd(0.1), batches(1, 6), 2, "sum")[0])


@pytest.mark.parametrize("replicas", [1, 2])
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


@pytest.mark.slow
def test_a_stage_on_two_devices_beside_two_on_one() -> None:
    pipeline = Pipeline(STAGES, optax.sgd(0.1), 6, device_mapping=[0, (1, 2), 0], strict=False)
    assert_near(trained(pipeline, batches(2, 6)).params, reference(STAGES, three(), optax.sgd(0.1), batches(2, 6), 2, "sum")[0])


def test_devices_of_a_stage_are_all_or_none_of_another() -> None:
    with pytest.raises(ValueError, match=r"stages 0 and 1 share device .*, but not all of their devices"):
        Pipeline(STAGES, optax.sgd(0.1), 6, device_mapping=[0, (0, 1), 2])
    with pytest.raises(ValueError, match="with 3 replicas of 3 devices each there must be 9, but there are 8"):
        Pipeline(STAGES, optax.sgd(0.1), 6, replicas=3)


# ------------------------------------------------------------------------------------------------------------------ optimisers


@pytest.mark.parametrize(
    ("name", "replicas"),
    [
        ("clipped", 1),
        *(pytest.param(name, replicas, marks=pytest.mark.slow) for name in ("masked", "finite") for replicas in (1, 2)),
        pytest.param("clipped", 2, marks=pytest.mark.slow),
    ],
)
def test_an_optimizer_that_looks_across_stages_sees_all_of_them(name: str, replicas: int) -> None:
    optimizer = {
        "clipped": optax.chain(optax.clip_by_global_norm(0.2), optax.adam(1e-2)),
        "masked": optax.masked(optax.sgd(0.1), [True, {"w": True, "b": False}, True]),  # a mask of all stages
        "finite": optax.apply_if_finite(optax.sgd(0.1), 3),
    }[name]
    if name == "masked":
        optimizer = optax.chain(optimizer, optax.clip_by_global_norm(0.2))
    pipeline = Pipeline(STAGES, optimizer, 6, replicas=replicas)
    tokens, labels = batches(1, 6)
    rows = (tokens, labels) if replicas == 1 else tuple(np.stack([leaf, leaf], 1) for leaf in (tokens, labels))
    state = trained(pipeline, rows)
    assert isinstance(state.optimizer_state, JointState)
    expected, _ = reference(STAGES, three(), optimizer, (tokens, labels), 2, "sum")
    assert_near(jax.tree.map(np.asarray, state.params), expected, 1e-4)
    with pytest.raises(ValueError, match="the optimizer looks across stages, whose updates the stale schedule does at different times"):
        Pipeline(STAGES, optimizer, 6, pipeline_schedule="stale").init(three())


def test_an_optimizer_that_looks_across_stages_takes_the_memory_of_the_state_that_it_is_given() -> None:
    pipeline = Pipeline(STAGES, optax.chain(optax.clip_by_global_norm(0.2), optax.adam(1e-2)), 6, program="stages")
    first = trained(pipeline, batches(1, 6))
    state, _ = pipeline.step(first, batches(1, 6))
    kept = [jax.tree_util.keystr(path) for path, leaf in jax.tree_util.tree_flatten_with_path(first)[0] if not leaf.is_deleted()]
    assert kept == [], kept
    assert not any(leaf.is_deleted() for leaf in jax.tree.leaves(state))


@pytest.mark.slow
def test_layerwise_optimizers_update_each_stage_by_itself() -> None:
    for optimizer in (
        optax.lamb(1e-2),
        optax.adamw(1e-2),
        optax.adafactor(1e-2),
        optax.chain(optax.clip_by_block_rms(0.1), optax.sgd(0.1)),
    ):
        assert isinstance(Pipeline(STAGES, optimizer, 6).init(three()).optimizer_state, list)


def test_an_optimizer_may_depend_on_what_the_last_stage_returns() -> None:
    """A learning rate among the run's inputs, which passes through all stages."""

    def first(params: Any, rate: Any, x: Any) -> Any:
        return x * params, rate

    def last(params: Any, x: Any, rate: Any) -> Any:
        return (x * params).sum(), rate

    optimizer: Any = lambda total, rate: (optax.sgd(rate, momentum=0.5), 3 * total)  # noqa: E731
    pipeline = Pipeline([first, last], optimizer, 4, outfeed_loss=True)
    state = pipeline.init([np.float32(2), np.float32(3)])
    assert state.optimizer_state is None
    x = np.arange(4, dtype=np.float32)
    a, b, trace = 2.0, 3.0, [0.0, 0.0]
    for rate in (0.01, 0.02):
        state, losses = pipeline.step(state, x, inputs=(np.float32(rate),))
        np.testing.assert_allclose(losses, 3 * x * a * b, rtol=1e-6)
        trace = [0.5 * trace[0] + 3 * b * x.sum(), 0.5 * trace[1] + 3 * a * x.sum()]
        a, b = a - rate * trace[0], b - rate * trace[1]
        np.testing.assert_allclose([float(own) for own in state.params], [a, b], rtol=1e-6)
    pipeline = Pipeline([first, last], lambda total, rate: total, 4)
    with pytest.raises(TypeError, match=r"the optimizer's function returned .*: it must return \(a transformation of optax, the loss\)"):
        pipeline.step(pipeline.init([np.float32(2), np.float32(3)]), x, inputs=(np.float32(1),))


# ---------------------------------------------------------------------------------------------------------- what comes out


def outputs(params: Any, x: Any) -> Any:
    return x * params, {"twice": 2 * x}


def test_what_is_hidden_and_what_is_summed() -> None:
    x = np.arange(4, dtype=np.float32)

    def given(**options: Any) -> Any:
        pipeline = Pipeline([lambda p, x: x, outputs], optax.sgd(0.0), 4, **options)
        return jax.tree.map(np.asarray, pipeline.step(pipeline.init([(), np.float32(3)]), x)[1])

    assert given(outfeed_loss=True).tolist() == (3 * x).tolist()
    assert given(outfeed_mask=[True, False])["twice"].tolist() == (2 * x).tolist()
    assert given(outfeed_mask=[True, True]) == ()
    for reduction in ("mean", "running_mean"):
        loss, others = given(accumulate_outfeed=True, reduction=reduction)
        assert (loss, others["twice"]) == (18, 12)
    half = given(accumulate_outfeed=True, accumulate_outfeed_dtype=jnp.float16, outfeed_loss=True)
    assert (half, half.dtype) == (18, np.float16)
    pipeline, queue = Pipeline([lambda p, x: x, outputs], optax.sgd(0.0), 4, accumulate_outfeed=True, outfeed_loss=True), OutfeedQueue()
    pipeline.run(pipeline.init([(), np.float32(3)]), InfeedQueue([np.float32(k) for k in range(8)]), queue, repeat_count=2)
    assert queue.dequeue().tolist() == [18, 66]
    pipeline = Pipeline([lambda p, x: x, outputs], optax.sgd(0.0), 4, outfeed_mask=[True, True])
    with pytest.raises(ValueError, match="outfeed_mask hides all that the last stage returns"):
        pipeline.run(pipeline.init([(), np.float32(3)]), InfeedQueue([]), OutfeedQueue())


@pytest.mark.parametrize(
    ("options", "error", "message"),
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


def test_microbatches_have_dtypes_that_jax_has() -> None:
    pipeline = Pipeline([lambda p, x: x, lambda p, x: x * p], None, 4, program="stages")
    state = pipeline.init([(), np.float32(2)])
    for dtype in (np.int8, np.float16, np.float64, jnp.bfloat16, bool):
        found = pipeline.step(state, np.arange(4).astype(dtype))[1]
        np.testing.assert_array_equal(found, 2 * np.arange(4).astype(dtype).astype(np.float32))
    with pytest.raises(TypeError, match="not a valid JAX array type"):
        pipeline.step(state, np.arange(4, dtype=">f4"))


# ------------------------------------------------------------------------------------------------------------- one program


def test_one_program_does_what_the_stages_do() -> None:
    optimizer = optax.sgd(0.1, momentum=0.9)
    expected, _ = reference(STAGES, three(), optimizer, batches(3, 6), 2, "sum")
    single = Pipeline(STAGES, optimizer, 6, program="single")
    state = trained(single, batches(3, 6))
    assert_near(state.params, expected)
    assert {device.id for leaf in jax.tree.leaves(state) for device in leaf.devices()} == {0}
    fed = single.run(single.init(three()), InfeedQueue(list(zip(*batches(3, 6), strict=True)) * 2), repeat_count=2)
    assert_near(fed.params, expected)
    for options in ({"replicas": 2}, {"pipeline_schedule": "stale"}, {"check_nans": True}, {"offload_activations": True}):
        with pytest.raises(ValueError, match='program is "single", but the pipeline cannot be one program'):
            Pipeline(STAGES, optimizer, 6, program="single", **options)
    with pytest.raises(ValueError, match="program is 'both': it must be one of 'auto', 'stages', 'single'"):
        Pipeline(STAGES, optimizer, 6, program="both")  # pyright: ignore[reportArgumentType]


def test_one_program_is_made_anew_for_other_shapes_and_found_again() -> None:
    optimizer, traced = optax.sgd(0.1), []

    def noted(*args: Any) -> Any:
        traced.append(args[1].shape[0])
        return STAGES[0](*args)

    pipeline = Pipeline([noted, *STAGES[1:]], optimizer, 6, program="single")
    state, params = pipeline.init(three()), three()
    for rows in (ROWS, 2 * ROWS, ROWS):
        elements = tuple(np.concatenate([leaf] * (rows // ROWS), 1) for leaf in batches(3, 6))
        state, _ = pipeline.step(state, elements)
        params, _ = reference(STAGES, params, optimizer, elements, 1, "sum")
        assert_near(state.params, params)
    assert list(dict.fromkeys(traced)) == [ROWS, 2 * ROWS]
    assert traced[-1] == 2 * ROWS


@pytest.mark.slow
def test_what_is_measured_changes_no_value() -> None:
    """Small stages, which are tried as one program, and go wherever they are faster."""
    pipeline = Pipeline(STAGES, optax.sgd(0.1), 6)
    state = trained(pipeline, batches(3, 6), updates=6)
    assert_near(state.params, reference(STAGES, three(), optax.sgd(0.1), batches(3, 6), 6, "sum")[0])


@pytest.mark.slow
def test_one_program_gives_out_the_same() -> None:
    x = np.arange(4, dtype=np.float32)
    for options in ({"outfeed_mask": [True, False]}, {"accumulate_outfeed": True}):
        both = []
        for program in ("stages", "single"):
            pipeline = Pipeline([lambda p, x: x, outputs], optax.sgd(0.0), 4, program=program, **options)  # pyright: ignore[reportArgumentType]
            both.append(pipeline.step(pipeline.init([(), np.float32(3)]), x)[1])
        jax.tree.map(np.testing.assert_array_equal, *both)
    pipeline = Pipeline([lambda p, x: x, [lambda p, x: x * 2, lambda p, x: (x, x)]], None, 4, program="single")
    found = pipeline.step(pipeline.init([(), [(), ()]]), x)[1]
    assert [leaf.tolist() for leaf in found] == [(2 * x).tolist(), x.tolist(), x.tolist()]


# ------------------------------------------------------------------------------------------------------ memory of the host


def on_host(tree: Any) -> list[bool]:
    return [leaf.sharding.memory_kind == "pinned_host" for leaf in jax.tree.leaves(tree)]


@pytest.mark.slow
def test_what_is_in_the_hosts_memory_changes_no_value() -> None:
    optimizer = optax.adam(1e-2)
    expected = trained(Pipeline(STAGES, optimizer, 6), batches(3, 6))
    away = {"optimizer_state": True, "accumulators": True, "parameters": True}
    pipeline = Pipeline(STAGES, optimizer, 6, offload_optimizer_state=away, offload_activations=True)
    state = trained(pipeline, batches(3, 6))
    assert all(on_host(state.params))
    assert all(on_host([own[0].mu for own in state.optimizer_state]))
    assert_near(jax.tree.map(np.asarray, state.params), jax.tree.map(np.asarray, expected.params))
    state = trained(Pipeline(STAGES, optimizer, 6, offload_activations=[0], pipeline_schedule="zero_bubble"), batches(3, 6))
    assert_near(state.params, expected.params)


@pytest.mark.parametrize("schedule", ["stashed", pytest.param("stale", marks=pytest.mark.slow)])
def test_what_updates_within_a_run_find_in_the_hosts_memory_changes_no_value(schedule: Any) -> None:
    """Old weights stay for microbatches under way, so that the state's memory is not that of the new ones, which have its shapes."""
    options: Any = {"pipeline_schedule": schedule, "device_mapping": [0, 1, 2], "strict": False}
    rows = batches(0, 4)
    whole = trained(Pipeline(STAGES, optax.sgd(0.1, momentum=0.9), 4, **options), rows)
    away = trained(Pipeline(STAGES, optax.sgd(0.1, momentum=0.9), 4, offload_optimizer_state=True, **options), rows)
    kinds = {leaf.sharding.memory_kind for leaf in jax.tree.leaves(away.optimizer_state)}
    assert kinds == {"pinned_host"}
    jax.tree.map(np.testing.assert_array_equal, away, whole)


@pytest.mark.parametrize("away", [pytest.param(None, marks=pytest.mark.slow), True])
def test_replicas_divide_the_optimizers_state(away: bool | None) -> None:
    wide = [{"table": np.ones((11, 4096), np.float32)}, np.ones(4096, np.float32)]
    stages = [lambda p, tokens, label: p["table"][tokens].mean(1), lambda p, x: (x * p).sum() ** 2 * 1e-9]
    optimizer = optax.adam(1e-2)
    rows = tuple(np.stack([leaf, leaf], 1) for leaf in batches(3, 4))
    expected = trained(Pipeline(stages, optimizer, 4, replicas=2), rows, wide)
    state = trained(Pipeline(stages, optimizer, 4, replicas=2, shard_optimizer_state=True, offload_optimizer_state=away), rows, wide)
    moments = state.optimizer_state[0][0].mu["table"]
    assert is_shard(moments)
    assert moments.values.sharding.shard_shape(moments.values.shape)[0] == 11 * 4096 // 2
    assert all(on_host(moments)) is bool(away)
    assert_near(jax.tree.map(np.asarray, state.params), jax.tree.map(np.asarray, expected.params))


# ----------------------------------------------------------------------------------------------------- what is shown, what is passed


def test_a_bar_tells_of_compilation_microbatches_and_updates(capsys: pytest.CaptureFixture[str]) -> None:
    pipeline = Pipeline([lambda p, x: x * p, lambda p, x: (x * p).sum()], optax.sgd(0.01), 4)
    pipeline.run(pipeline.init([np.float32(1), np.float32(1)]), InfeedQueue([np.float32(1)] * 8), repeat_count=2, progress=True)
    shown = capsys.readouterr().out
    assert "8/8" in shown
    assert "update 2 of 2" in shown


def test_what_stages_hand_on_goes_to_those_that_read_it() -> None:
    """Labels from the first stage to the last; a mask that the second one reads, and its own count, which it makes anew."""

    def first(p: Any, x: Any, labels: Any) -> Any:
        return x @ p, labels, x[:, 0] > 0, jnp.int32(1)

    def second(p: Any, x: Any, labels: Any, mask: Any, count: Any) -> Any:
        return jnp.where(mask[:, None], x @ p, x), labels, mask, count + 1

    def third(p: Any, x: Any, labels: Any, mask: Any, count: Any) -> Any:
        return x * p, labels, mask, count

    def last(p: Any, x: Any, labels: Any, mask: Any, count: Any) -> Any:
        return (((x * p)[:, 0] - labels) ** 2 * mask * count).mean(), (labels, mask, count)

    rng = np.random.default_rng(0)
    stages = [first, second, third, last]
    params = [matrix(rng, WIDTH, WIDTH), matrix(rng, WIDTH, WIDTH), matrix(rng, WIDTH), matrix(rng, WIDTH)]
    elements = rng.normal(size=(6, ROWS, WIDTH)).astype(np.float32), rng.integers(0, 3, (6, ROWS)).astype(np.int32)
    expected, _ = reference(stages, params, optax.sgd(0.1), elements, 2, "sum")
    for recompute in (None, "full"):
        pipeline = Pipeline(stages, optax.sgd(0.1), 6, program="stages", recompute=recompute, pipeline_schedule="interleaved", strict=False)
        state = pipeline.init(params)
        with runs_noted() as runs:
            for _ in range(2):
                state, (_, (labels, masks, counts)) = pipeline.step(state, elements)
        assert_near(state.params, expected)
        np.testing.assert_array_equal(labels, elements[1])
        np.testing.assert_array_equal(masks, elements[0][:, :, 0] > 0)
        assert counts.tolist() == [2] * 6
        routes = runs[-1][0].routes
        ways = [[(sent[way.source], way.destination) for way in own] for own, sent in zip(routes.ways, routes.sent, strict=True)]
        # From the first: labels (1) to the last, the mask (2) to the second and the last, the count (3) to the second, which adds one.
        assert ways == [[(0, 1), (2, 1), (3, 1), (1, 3), (2, 3)], [(0, 2), (3, 3)], [(0, 3)], []], recompute
        assert routes.sent[:3] == ((0, 1, 2, 3), (0, 3), (0,))  # programs return nothing else


@pytest.mark.parametrize(("count", "recompute"), [(8, None), (1, None), pytest.param(8, "full", marks=pytest.mark.slow)])
def test_elements_that_are_small_are_on_the_first_device_at_once(
    count: int, recompute: Literal["full"] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def noisy(p: Any, rate: Any, tokens: Any, *, label: Any, key: Any) -> Any:
        x = p["table"][tokens].mean(1)
        return x + rate * jax.random.normal(key, x.shape), label

    def counted(p: Any, rate: Any, tokens: Any, *, label: Any, key: Any) -> Any:
        return p["w"] * rate * jnp.cos(tokens[:, :1])

    def last(p: Any, x: Any, label: Any, more: Any) -> Any:
        return head(p, x * more, label)

    rng = np.random.default_rng(0)
    stages: list[Any] = [[noisy, counted], last]
    params = [[{"table": matrix(rng, 11, WIDTH)}, {"w": matrix(rng, 1, 1)}], {"w": matrix(rng, WIDTH, CLASSES)}]
    tokens, labels = batches(0, count)
    elements = {"tokens": jnp.asarray(tokens), "label": labels}
    found: list[Any] = []
    for most in (4 * 2**20, 0):
        monkeypatch.setattr("tilestep.train.pipeline.run.batches.SMALL_BYTES", most)
        options: Any = {"strict": False, "recompute": recompute, "program": "stages", "pipeline_schedule": "interleaved"}
        pipeline = Pipeline(stages, optax.sgd(0.1), count, **options)
        state = pipeline.init(params)
        with runs_noted() as runs:
            for update in range(2):
                state, outputs = pipeline.step(state, elements, inputs=(np.float32(0.1),), key=jax.random.key(update))
        assert {compiled.traced.is_whole for compiled, _ in runs} == {most > 0 and count > 1}
        found.append((state, outputs))
    jax.tree.map(np.testing.assert_array_equal, *found)


def test_what_was_given_may_be_written_to_at_once() -> None:
    x = np.ones((8, ROWS, WIDTH), np.float32)
    pipeline = Pipeline([lambda p, x: x * p, lambda p, x: (x * p).sum()], optax.sgd(0.0), 8, program="stages")
    state = pipeline.init([np.float32(1), np.float32(1)])
    for _ in range(3):
        x[:] = 1
        state, losses = pipeline.step(state, x)
        x[:] = np.nan
        assert losses.tolist() == [ROWS * WIDTH] * 8
