"""What a pipeline returns of its inside."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from tests.unit.train.pipeline.pipelines import CLASSES, ROWS, WIDTH, assert_near, at_once, batches, dense, embed, head, matrix
from tilestep.errors import QueueError
from tilestep.train import InfeedQueue, OutfeedQueue, Pipeline, Watched, gradient, parameter, watched
from tilestep.train.pipeline.compile.executables import _calls
from tilestep.train.schedules import from_table
from tilestep.train.schedules.schedule import Kind, Task

COUNT, TURNS = 4, 3
NEAR = 1e-6
Mark = Callable[[Any, str], Any]


# ---------------------------------------------------------------------------------- a model, with marks of any kind, and its gradient


def stages_with(mark: Mark, *, transforms: bool = True) -> list[Any]:
    """The stages. Args: mark: what marks a value. transforms: whether they use JAX's transformations, else loops of Python."""

    def first(p: Any, tokens: Any, label: Any) -> Any:
        return mark(p["table"][tokens].mean(1), "embedded"), mark(label, "label")

    def one(p: Any, x: Any, label: Any) -> Any:
        inner = lambda x: jnp.tanh(mark(x @ p["w"], "in jit"))  # noqa: E731
        return (jax.jit(inner) if transforms else inner)(x)

    def other(p: Any, x: Any, label: Any) -> Any:
        def turn(x: Any, scale: Any, name: str) -> Any:
            return mark(jnp.sin(x * scale) + x, name)

        if transforms:
            x, _ = jax.lax.scan(lambda x, scale: (turn(x, scale, "in scan"), None), x, p["s"])
        else:
            for number in range(TURNS):
                x = turn(x, p["s"][number], f"in scan {number}")
        return x, label

    def both(p: Any, a: Any, b: Any, label: Any) -> Any:
        joined = jnp.concatenate([a, b], 1)
        inner = lambda x: jnp.cos(mark(x @ p["w"], "in checkpoint"))  # noqa: E731
        x = (jax.checkpoint(inner) if transforms else inner)(joined)
        if transforms:
            return jax.vmap(lambda column: mark(column * 2, "in vmap"), 1, 1)(x), label
        return mark((x * 2).T, "in vmap").T, label  # the mapped axis comes first

    def last(p: Any, x: Any, label: Any) -> Any:
        loss, scores = head(p, mark(x, "before the loss"), label)
        return loss, mark(scores, "scores")

    return [first, [one, other], both, last]


def parameters() -> list[Any]:
    rng = np.random.default_rng(0)
    return [
        {"table": matrix(rng, 11, WIDTH)},
        [{"w": matrix(rng, WIDTH, WIDTH)}, {"s": matrix(rng, TURNS)}],
        {"w": matrix(rng, 2 * WIDTH, WIDTH)},
        {"w": matrix(rng, WIDTH, CLASSES)},
    ]


REAL = ("embedded", "in jit", "in scan", "in checkpoint", "in vmap", "before the loss", "scores")
SHAPES: dict[str, tuple[int, ...]] = {
    **dict.fromkeys(REAL, (ROWS, WIDTH)),
    "in scan": (TURNS, ROWS, WIDTH),
    "in vmap": (WIDTH, ROWS),
    "scores": (ROWS, CLASSES),
}
ALL: dict[Any, Any] = {"label": "all"} | {key: "all" for name in REAL for key in (name, gradient(name))}


@jax.jit
def expected(params: Any, element: Any) -> dict[Any, Any]:
    """Values and gradients of one microbatch, by the gradient of the whole model with regard to zeros that are added at the marks."""

    def loss(slots: Mapping[str, Any]) -> Any:
        seen: dict[str, list[Any]] = {}

        def mark(x: Any, name: str) -> Any:
            name, _, number = (name, "", "") if not name.startswith("in scan") else ("in scan", " ", name[-1])
            slot = slots.get(name)
            x = x if slot is None else x + (slot[int(number)] if number else slot)
            seen.setdefault(name, []).append(x)
            return x

        total = at_once(stages_with(mark, transforms=False), params, *element)[0]
        return total, {name: jnp.stack(own) if len(own) > 1 else own[0] for name, own in seen.items()}

    slots = {name: jnp.zeros(shape) for name, shape in SHAPES.items()}
    gradients, values = jax.grad(loss, has_aux=True)(slots)
    return values | {gradient(name): value for name, value in gradients.items()}


def rows_expected(elements: Any) -> dict[Any, Any]:
    """Of the first step."""
    rows = [expected(parameters(), element) for element in zip(*elements, strict=True)]
    return {key: np.stack([row[key] for row in rows]) for key in rows[0]}


def pipeline_of(watch: Any, optimizer: Any = optax.sgd(0.1), **options: Any) -> Pipeline:  # noqa: B008
    return Pipeline(stages_with(watched), optimizer, COUNT, watch=watch, strict=False, **{"program": "stages", **options})


def seen_in_a_step(watch: Any, elements: Any, **options: Any) -> Watched:
    pipeline = pipeline_of(watch, **options)
    return pipeline.step(pipeline.init(parameters()), elements)[1]


def reduced(rows: Any, how: str) -> Any:
    return rows if how == "all" else rows[-1] if how == "last" else rows.sum(0, dtype=rows.dtype)


SOME: dict[Any, Any] = {key: ("sum", "last", "all")[number % 3] for number, key in enumerate(ALL)}
REDUCED: list[Any] = [  # options with which totals take other ways
    {"pipeline_schedule": "zero_bubble"},
    {"program": "single"},
    {"offload_activations": True, "check_nans": True},
    {"device_mapping": [(0, 1), [(2, 3), (4, 5)], (6, 7), (0, 1)]},
]


@pytest.mark.parametrize(
    ("options", "watch"),
    [
        ({"pipeline_schedule": "grouped", "recompute": "full"}, ALL),
        ({"pipeline_schedule": "interleaved", "reduction": "running_mean"}, ALL),
        pytest.param({"pipeline_schedule": "sequential", "device_mapping": [0, [0, 0], 0, 0]}, ALL, marks=pytest.mark.slow),
        *((options, SOME) for options in REDUCED),
        *(pytest.param(options, ALL, marks=pytest.mark.slow) for options in REDUCED),
    ],
    ids=lambda value: {id(ALL): "all", id(SOME): "some"}.get(id(value), str(value)),
)
def test_values_and_gradients_are_those_of_the_whole_model(options: Any, watch: Any) -> None:
    elements = batches(0, COUNT)
    seen = seen_in_a_step(watch, elements, **options)
    rows = rows_expected(elements)
    assert list(seen.values) == list(watch)
    assert_near(seen.values, {key: reduced(rows[key], how) for key, how in watch.items()}, NEAR)
    np.testing.assert_array_equal(seen.values["label"], reduced(elements[1], watch["label"]))


def test_replicas_have_an_axis_of_their_own() -> None:
    one, two = batches(0, COUNT), batches(1, COUNT)
    elements = jax.tree.map(lambda *both: np.stack(both, 1), one, two)
    options: Any = {"replicas": 2, "device_mapping": [0, [1, 2], 1, 3], "shard_optimizer_state": True}
    key = parameter((1, 0), "w")
    some: dict[Any, Any] = {"in jit": "sum", gradient("in scan"): "sum", "scores": "last"}
    seen = seen_in_a_step({**ALL, **some, key: "last"}, elements, **options)
    rows = [rows_expected(own) for own in (one, two)]
    whole = [k for k in ALL if k not in some]
    assert_near({k: seen.values[k] for k in whole}, {k: np.stack([own[k] for own in rows], 1) for k in whole}, NEAR)
    assert_near({k: seen.values[k] for k in some}, {k: np.stack([reduced(own[k], how) for own in rows]) for k, how in some.items()}, NEAR)
    assert seen.values[key].shape == (WIDTH, WIDTH)  # all replicas have the same


@pytest.mark.parametrize("program", ["stages", "single"])
def test_parameters_are_those_after_the_update_and_outlive_it(program: Any) -> None:
    elements = batches(0, COUNT)
    keys = [parameter(0, "table"), parameter((1, 1), "s"), parameter(3, "w")]
    pipeline = pipeline_of(dict(zip(keys, ("all", "last", "sum"), strict=True)), optax.adam(0.1), program=program)
    state, first = pipeline.step(pipeline.init(parameters()), elements)
    own = state.params[0]["table"], state.params[1][1]["s"], state.params[3]["w"]
    expected = [np.asarray(leaf) for leaf in own]
    assert first.values[keys[0]].shape == (1, *expected[0].shape)
    pipeline.step(state, elements)  # gives the state's arrays up
    for key, leaf in zip(keys, expected, strict=True):
        np.testing.assert_array_equal(np.asarray(first.values[key]).reshape(leaf.shape), leaf)


def test_tied_and_offloaded_parameters_and_those_of_an_optimiser_that_looks_across_stages() -> None:
    w, rows = np.float32(np.random.default_rng(0).normal(size=(3, 3))), np.float32(np.random.default_rng(1).normal(size=(COUNT, 2, 3)))
    optimizer = optax.chain(optax.clip_by_global_norm(0.5), optax.adam(0.1))
    watch: Any = {parameter(0, "w"): "all", parameter(1): "last", gradient("h"): "all"}
    stages = [lambda p, x: watched(x @ p["w"], "h"), lambda p, x: ((x @ p) ** 2).sum()]
    away = {"optimizer_state": True, "parameters": True}
    cases: list[Any] = [{"program": "stages"}, {"program": "single"}, {"program": "stages", "offload_optimizer_state": away}]
    for options in cases:
        pipeline = Pipeline(stages, optimizer, COUNT, strict=False, watch=watch, **options)
        state, seen = pipeline.step(pipeline.init([{"w": w}, w]), rows)
        np.testing.assert_array_equal(seen.values[parameter(0, "w")][0], state.params[0]["w"])
        np.testing.assert_array_equal(seen.values[parameter(1)], state.params[1])
        np.testing.assert_allclose(seen.values[gradient("h")], 2 * rows @ w @ w @ w.T, rtol=1e-5)
    pipeline = Pipeline(
        [stages[0], lambda p, x: ((x @ p["w"]) ** 2).sum()],
        optimizer,
        COUNT,
        strict=False,
        tied=[[(0, "w"), (1, "w")]],
        watch=[parameter(0, "w"), parameter(1, "w")],
    )
    state, seen = pipeline.step(pipeline.init([{"w": w}, {"w": w}]), rows)
    for stage in range(2):
        np.testing.assert_array_equal(seen.values[parameter(stage, "w")][0], state.params[stage]["w"])


# ------------------------------------------------------------------------------------------------------------ weights that change


@pytest.mark.parametrize("schedule", ["stale", "stashed"])
def test_weights_that_change_within_a_run(schedule: str) -> None:
    """Against the same in NumPy: backward has the activations of its forward, and the weights that the schedule says."""
    count, rate, depth = 6, 0.05, 3
    rng = np.random.default_rng(0)
    weights = [rng.normal(0, 0.5, (3, 3)).astype(np.float32) for _ in range(depth)]
    x = rng.normal(size=(count, 2, 3)).astype(np.float32)

    def stage(number: int) -> Any:
        def function(w: Any, h: Any) -> Any:
            h = watched(jnp.tanh(watched(h, f"in {number}") @ w), f"out {number}")
            return (h**2).sum() if number == depth - 1 else h

        return function

    names = [f"{side} {number}" for number in range(depth) for side in ("in", "out")]
    watch: dict[Any, Any] = {key: "all" for name in names for key in (name, gradient(name))}
    watch |= {parameter(number): "all" for number in range(depth)}
    pipeline = Pipeline([stage(n) for n in range(depth)], optax.sgd(rate), count, pipeline_schedule=schedule, strict=False, watch=watch)
    state, seen = pipeline.step(pipeline.init(weights), x)
    versions = pipeline.schedule.versions()
    found: dict[Any, list[Any]] = {key: [] for key in watch}
    of = [[weight] for weight in weights]  # by the number of updates
    for m in range(count):
        h, ins = x[m], []
        for n in range(depth):
            ins.append(h)
            found[f"in {n}"].append(h)
            h = np.tanh(h @ of[n][versions[Task(n, Kind.FORWARD, m)]])
            found[f"out {n}"].append(h)
        slope = 2 * h
        for n in reversed(range(depth)):
            found[gradient(f"out {n}")].append(slope)
            inner = (1 - found[f"out {n}"][m] ** 2) * slope
            slope = inner @ of[n][versions[Task(n, Kind.BACKWARD, m)]].T
            found[gradient(f"in {n}")].append(slope)
            of[n].append(of[n][-1] - rate * ins[n].T @ inner)
            found[parameter(n)].append(of[n][-1])
    assert_near(seen.values, {key: np.stack(found[key]).astype(np.float32) for key in watch}, 2e-6)
    for n in range(depth):
        np.testing.assert_array_equal(seen.values[parameter(n)][-1], state.params[n])
    some: dict[Any, Any] = {parameter(0): "sum", parameter(1): "last", gradient("in 1"): "sum", "out 2": "last"}
    pipeline = Pipeline([stage(n) for n in range(depth)], optax.sgd(rate), count, pipeline_schedule=schedule, strict=False, watch=some)
    _, less = pipeline.step(pipeline.init(weights), x)
    assert_near(less.values, {key: reduced(np.asarray(seen.values[key]), how) for key, how in some.items()}, NEAR)


def test_the_last_microbatch_is_that_of_the_highest_number_in_any_order() -> None:
    rows = [["0F0", "0F2", "0F1", "1F0", "1F2", "1F1", "1B0", "1B2", "1B1", "0B0", "0B2", "0B1", "0U", "1U"]]
    schedule = from_table(rows, device_mapping=[0, 0])
    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    stages = [lambda p, x: watched(x * p, "h"), lambda p, x: ((watched(x, "x") ** 2) * p).sum()]
    watch: dict[Any, Any] = {"h": "last", gradient("h"): "last", "x": "last", gradient("x"): "sum"}
    options: Any = {"pipeline_schedule": schedule, "device_mapping": [0, 0], "program": "stages", "strict": False}
    pipeline = Pipeline(stages, optax.sgd(0.1), 3, watch=watch, **options)
    _, seen = pipeline.step(pipeline.init([np.float32(2), np.float32(3)]), x)
    for key, value in zip(watch, (2 * x[2], 12 * x[2], 2 * x[2], 12 * x.sum(0)), strict=True):
        np.testing.assert_array_equal(seen.values[key], value)


# ------------------------------------------------------------------------------------------------------------------------ inference


@pytest.mark.parametrize("options", [{}, {"program": "single"}, {"pipeline_schedule": "sequential"}, {"replicas": 2}], ids=str)
def test_inference_has_values(options: Any) -> None:
    x = np.arange(24, dtype=np.float32).reshape(COUNT, 2, 3) / 9
    watch: Any = {"h": "all", "n": "sum", "z": "last"}
    stages = [
        lambda p, x: (watched(x * p, "h"), watched(jnp.int32(2), "n")),
        [lambda p, x, n: watched(x + p, "z"), lambda p, x, n: x],
    ]
    pipeline = Pipeline(stages, None, COUNT, strict=False, watch=watch, **{"program": "stages", **options})
    _, seen = pipeline.step(pipeline.init([np.float32(2), [np.float32(1), ()]]), x)
    several = "replicas" in options
    np.testing.assert_array_equal(seen.values["h"], 2 * x)
    np.testing.assert_array_equal(seen.values["n"], [2 * COUNT] * 2 if several else 2 * COUNT)
    np.testing.assert_array_equal(seen.values["z"], 2 * x[-1] + 1)
    np.testing.assert_array_equal(seen.outputs[1], 2 * x)


def test_auxiliary_state_and_random_keys() -> None:
    def counting(p: Any, aux: Any, x: Any, *, key: Any) -> Any:
        return watched(x * p, "h") + watched(jax.random.normal(key, x.shape), "noise"), watched(aux, "before") + 1

    x = np.ones((COUNT, 3), np.float32)
    pipeline = Pipeline(
        [counting, lambda p, x: (x * p).sum()],
        optax.sgd(0.1),
        COUNT,
        strict=False,
        watch=["before", "noise", gradient("h")],
    )
    state, seen = pipeline.step(pipeline.init([np.float32(1), np.float32(3)], [np.int32(5), None]), x, key=jax.random.key(0))
    np.testing.assert_array_equal(seen.values["before"], [5, 6, 7, 8])
    assert state.aux is not None
    assert state.aux[0] == 9
    assert len(np.unique(seen.values["noise"])) == 3 * COUNT
    np.testing.assert_array_equal(seen.values[gradient("h")], np.full((COUNT, 3), 3, np.float32))


def test_a_value_that_is_only_watched_and_handed_on_is_there() -> None:
    """A stage that does not read a value gets zeros for it: a mark reads it."""
    x, label = np.ones((COUNT, 3), np.float32), np.arange(COUNT, dtype=np.int32) + 7
    stages = [
        lambda p, x, label: (x * p, label),
        lambda p, x, label: (x * p, watched(label, "label")),
        lambda p, x, label: (x * p).sum() * label,
    ]
    for last in (stages[2], lambda p, x, label: (x * p).sum()):
        for options in ({}, {"replicas": 2}):
            pipeline = Pipeline([*stages[:2], last], optax.sgd(0.1), COUNT, strict=False, program="stages", watch=["label"], **options)
            elements = jax.tree.map(lambda leaf: np.stack([leaf, leaf], 1), (x, label)) if options else (x, label)
            _, seen = pipeline.step(pipeline.init([np.float32(1)] * 3), elements)
            np.testing.assert_array_equal(seen.values["label"], elements[1])


# -------------------------------------------------------------------------------------------------------------- without a watch


def lowered(pipeline: Pipeline, params: Any, elements: Any) -> list[str]:
    """The programs of one step, as JAX writes them."""
    pipeline.step(pipeline.init(params), elements)
    programs: list[str] = []
    engine: Any = pipeline._engine  # nobody else has the programs
    for runnable in engine._programs._runnables.values():
        state: Any = pipeline.init(params).optimizer_state
        programs += [
            call.program.lower(*call.specs).as_text() for call in _calls(runnable.looked_up, state) if hasattr(call.program, "lower")
        ]
    return programs


@pytest.mark.parametrize("options", [{"pipeline_schedule": "zero_bubble", "recompute": "full"}, {"replicas": 2}], ids=str)
def test_without_a_watch_programs_are_those_without_marks(options: Any) -> None:
    params = [{"table": np.ones((11, WIDTH), np.float32)}, {"w": np.eye(WIDTH, dtype=np.float32), "b": np.ones(WIDTH, np.float32)}]
    params.append({"w": np.ones((WIDTH, CLASSES), np.float32)})
    elements = batches(0, COUNT)
    if options.get("replicas"):
        elements = jax.tree.map(lambda leaf: np.stack([leaf, leaf], 1), elements)

    def marked(stage: Any, name: str) -> Any:
        def function(p: Any, *args: Any) -> Any:
            first, second = stage(p, *args)
            return watched(first, name), watched(second, f"{name} 2")

        function.__name__ = stage.__name__
        return function

    plain, with_marks = [embed, dense, head], [marked(embed, "a"), marked(dense, "b"), marked(head, "c")]
    texts = [
        lowered(Pipeline(stages, optax.sgd(0.1), COUNT, strict=False, program="stages", **options), params, elements)
        for stages in (plain, with_marks)
    ]
    assert texts[0]
    assert texts[0] == texts[1]


# ----------------------------------------------------------------------------------------------------------------------- memory


@pytest.mark.parametrize(("how", "most"), [("all", None), ("sum", 2), ("last", 2)])
def test_reduced_values_do_not_stay(how: Any, most: int | None) -> None:
    """Counts arrays of a shape that nothing else has, while the last stage's last microbatch is computed."""
    counts: list[int] = []
    shape, count = (13, 17), 12

    def inner(p: Any, x: Any) -> Any:
        return (watched(jnp.full(shape, 1.0) * x, "h") * p).sum()

    def last(p: Any, x: Any) -> Any:
        jax.debug.callback(lambda _: counts.append(sum(array.shape == shape for array in jax.live_arrays())), x)
        return x * p

    pipeline = Pipeline(
        [inner, last], optax.sgd(0.0), count, pipeline_schedule="sequential", strict=False, program="stages", watch={"h": how}
    )
    _, seen = pipeline.step(pipeline.init([np.float32(1)] * 2), np.ones(count, np.float32))
    jax.block_until_ready(seen)
    jax.effects_barrier()
    assert len(counts) == count
    if most is None:
        assert max(counts) >= count // 2
    else:
        assert max(counts) <= most


# ----------------------------------------------------------------------------------------------------------------------- queues


def scaled(watch: Any, **options: Any) -> tuple[Pipeline, Any]:
    pipeline = Pipeline(
        [lambda p, x: watched(x * p, "h"), lambda p, x: (x * p).sum()], optax.sgd(0.1), 2, strict=False, watch=watch, **options
    )
    return pipeline, pipeline.init([np.float32(1)] * 2)


def test_a_queue_gets_an_element_for_each_microbatch_where_all_has_a_row_for_each() -> None:
    data = [np.float32([k, 2 * k]) for k in range(6)]
    pipeline, state = scaled({"h": "all", gradient("h"): "all"})
    outfeed, queue = OutfeedQueue(), OutfeedQueue()
    state = pipeline.run(state, InfeedQueue(data), outfeed, repeat_count=3, watched=queue)
    rows = queue.dequeue()
    assert list(rows) == ["h", gradient("h")]
    assert rows["h"].shape == rows[gradient("h")].shape == (6, 2)
    assert outfeed.dequeue().shape == (6,)
    other, state = scaled({"h": "all", gradient("h"): "all"})
    steps = []
    for update in range(3):
        state, seen = other.step(state, np.stack(data[2 * update : 2 * update + 2]))
        steps.append(seen.values)
    for key, values in rows.items():
        np.testing.assert_array_equal(values, np.concatenate([step[key] for step in steps]))


@pytest.mark.parametrize(
    ("watch", "schedule", "shapes"),
    [
        ({"h": "all", gradient("h"): "sum"}, "grouped", [(3, 2, 2), (3, 2)]),
        ({"h": "last", parameter(0): "all"}, "grouped", [(3, 2), (3, 1)]),
        ({"h": "all", parameter(0): "all"}, "stale", [(6, 2), (6,)]),
    ],
)
def test_else_it_gets_one_for_each_update(watch: Any, schedule: str, shapes: list[tuple[int, ...]]) -> None:
    pipeline, state = scaled(watch, pipeline_schedule=schedule)
    queue = OutfeedQueue()
    pipeline.run(state, InfeedQueue([np.float32([k, 2 * k]) for k in range(6)]), repeat_count=3, watched=queue)
    assert [value.shape for value in queue.dequeue().values()] == shapes


def test_a_queue_that_does_not_fit_is_refused_before_the_update() -> None:
    data = [np.ones(2, np.float32)] * 4
    queue = OutfeedQueue()
    pipeline, state = scaled([gradient("h")])
    pipeline.run(state, InfeedQueue(data), watched=queue)
    pipeline, state = scaled(["h"])
    with pytest.raises(QueueError, match=r"the loop enqueues .* wait to be read"):
        pipeline.run(state, InfeedQueue(data), watched=queue)
    assert float(state.params[0]) == 1  # nothing was given up
    with pytest.raises(ValueError, match="watched and outfeed are the same queue"):
        pipeline.run(state, InfeedQueue(data), queue, watched=queue)
    with pytest.raises(TypeError, match="watched is a int: it must be an OutfeedQueue"):
        pipeline.run(state, InfeedQueue(data), watched=3)
    plain, state = scaled(None)
    with pytest.raises(ValueError, match="watched is a queue, but the pipeline watches nothing"):
        plain.run(state, InfeedQueue(data), watched=queue)
