"""What a pipeline returns of its inside."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from tests.unit.train.pipeline.pipelines import CLASSES, ROWS, WIDTH, assert_near, at_once, batches, head, matrix
from tilestep.errors import QueueError
from tilestep.train import InfeedQueue, OutfeedQueue, Pipeline, Watched, gradient, parameter, watched

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


@pytest.mark.few(2)
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


@pytest.mark.slow
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


# ----------------------------------------------------------------------------------------------------------------------- queues


def scaled(watch: Any, **options: Any) -> tuple[Pipeline, Any]:
    pipeline = Pipeline(
        [lambda p, x: watched(x * p, "h"), lambda p, x: (x * p).sum()], optax.sgd(0.1), 2, strict=False, watch=watch, **options
    )
    return pipeline, pipeline.init([np.float32(1)] * 2)


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
