"""Marks, and what a pipeline refuses to watch."""

import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from tests.together import each
from tilestep.train import Pipeline, Watched, gradient, parameter, watched

X = np.ones((2, 3), np.float32)
PARAMS: Any = [{"w": np.float32(1), "t": [np.float32(1), np.float32(1)]}, np.float32(1)]


def marked(p: Any, x: Any) -> Any:
    return watched(x * p["w"], "h")


def total(p: Any, x: Any) -> Any:
    return (x * p).sum()


def pipeline_of(watch: Any, first: Any = marked, last: Any = total, *, training: bool = True, **options: Any) -> Pipeline:
    optimizer = optax.sgd(0.1) if training else None
    return Pipeline([first, last], optimizer, 2, device_mapping=[0, 0], strict=False, watch=watch, **options)


def stepped(watch: Any, first: Any = marked, last: Any = total, **options: Any) -> Any:
    """What is watched in a step."""
    pipeline = pipeline_of(watch, first, last, **options)
    return pipeline.step(pipeline.init(PARAMS), X)[1].values


@pytest.mark.parametrize(
    ("value", "name", "kind", "message"),
    [
        ({"a": X}, "h", TypeError, "x is a dict: watched() marks one array; mark each array of a tree by itself"),
        (None, "h", TypeError, "x is a NoneType: watched() marks one array"),
        ("text", "h", TypeError, "x is a str: watched() marks one array"),
        (np.array(["a"]), "h", TypeError, "x is an array of <U1: watched() marks an array of numbers"),
        (np.array([None]), "h", TypeError, "x is an array of object: watched() marks an array of numbers"),
        (X, 3, TypeError, 'name is 3: it must be a text, as in watched(x, "hidden")'),
        (X, "", ValueError, "name is empty: give the value one"),
    ],
)
def test_what_is_no_array_or_no_name_is_refused(value: Any, name: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=re.escape(message)):
        watched(value, name)


def test_a_random_key_is_refused() -> None:
    with pytest.raises(TypeError, match=re.escape("x is a random key: mark jax.random.key_data(key)")):
        watched(jax.random.key(0), "key")


def inner_gradient(p: Any, x: Any) -> Any:
    return jax.grad(lambda y: (watched(y, "h") ** 3).sum())(x * p["w"])


def in_a_scan_of_checkpoints(p: Any, x: Any) -> Any:
    turn = jax.checkpoint(lambda y, _: (watched(y * p["w"], "h"), None))
    return jax.lax.scan(turn, x, None, 4, reverse=True)[0]


def in_vmap_of_scan(p: Any, x: Any) -> Any:
    return jax.vmap(lambda y: jax.lax.scan(lambda z, _: (watched(z * p["w"], "h"), None), y, None, 4)[0])(x)


@pytest.mark.few(10)
@pytest.mark.parametrize(
    ("stage", "value", "slope"),
    [
        (inner_gradient, np.ones((2, 3)), 6 * np.ones((2, 3))),  # of 3 y²
        (in_a_scan_of_checkpoints, np.ones((2, 4, 3)), np.ones((2, 4, 3))),
        (in_vmap_of_scan, np.ones((2, 4, 3)), np.ones((2, 4, 3))),
        (lambda p, x: jax.lax.fori_loop(0, 5, lambda _, y: watched(2 * y, "h"), x), None, [[2.0 ** (4 - k)] * 3 for k in range(5)]),
        (lambda p, x: jax.lax.map(lambda y: watched(y, "h"), x), np.ones((2, 3)), np.ones((2, 3))),
        (lambda p, x: jnp.where(x > 0, x, 0) + 0 * watched(x * p["w"], "h"), np.ones((2, 3)), np.zeros((2, 3))),
        (lambda p, x: (watched(x * p["w"], "h"), x * p["w"])[1], np.ones((2, 3)), np.zeros((2, 3))),  # nobody reads it
        (lambda p, x: watched(p["t"][0], "h") * x, np.ones(2), 3 * np.ones(2)),  # a parameter
        (lambda p, x: watched(2.5, "h") * x, 2.5 * np.ones(2), 3 * np.ones(2)),
        (lambda p, x: watched(jnp.complex64(x), "h").real, np.ones((2, 3), complex), np.ones((2, 3), complex)),
    ],
)
@pytest.mark.parametrize("program", ["stages", "single"])
def test_marks_within_what_jax_transforms(stage: Any, value: Any, slope: Any, program: Any) -> None:
    values = stepped(["h", gradient("h")], stage, program=program)
    if value is not None:
        np.testing.assert_array_equal(values["h"], value)
    np.testing.assert_array_equal(values[gradient("h")], np.broadcast_to(slope, values["h"].shape))


def test_the_results_are_a_tree_with_the_keys_as_given() -> None:
    watch: Any = {gradient("h"): "all", "h": "all", parameter(0, "t", 1): "last"}
    pipeline = pipeline_of(watch)
    _, seen = pipeline.step(pipeline.init(PARAMS), X)
    assert isinstance(seen, Watched)
    assert list(seen.values) == list(watch)
    assert len(jax.tree.leaves(jax.block_until_ready(seen))) == 4  # JAX sorts the keys
    assert repr(pipeline).endswith("; watches gradient('h') all, 'h' all, parameter(0, 't', 1) last>")
    keys: list[Any] = [parameter(0, "w"), gradient("b"), "z", gradient("a"), "a"]
    assert sorted(keys) == ["a", "z", gradient("a"), gradient("b"), parameter(0, "w")]
    assert {gradient("a"), gradient("a"), "a"} == {gradient("a"), "a"}
    assert gradient("a") != "a"


# ------------------------------------------------------------------------------------------------------------- what is refused


@each(
    "watch, kind, message",
    [
        ("h", TypeError, "watch is 'h': it must be a mapping such as"),
        (gradient("h"), TypeError, "watch is gradient('h'): it must be a mapping such as"),
        (3, TypeError, "watch is 3: it must be a mapping such as"),
        ({}, ValueError, "watch is empty"),
        ([], ValueError, "watch is empty"),
        (["h", "h"], ValueError, "watch has 'h' twice: name each thing once"),
        ([3], TypeError, "watch has 3: it must be the name of a value"),
        ([gradient], TypeError, "call the function"),
        ({"h": "mean"}, ValueError, "watch has 'mean' for 'h': it must be one of 'all', 'last', 'sum'"),
        ({"h": ["all"]}, ValueError, "watch has ['all'] for 'h': it must be one of"),
        ({"h": None}, ValueError, "watch has None for 'h': it must be one of"),
        ([parameter(2)], ValueError, "watch has parameter(2), but the stages are 0 to 1"),
        ([parameter((0, 1), "w")], ValueError, "watch has parameter((0, 1), 'w'), but stage 0 has the members 0 to 0"),
    ],
)
def test_a_watch_that_is_wrong_is_refused_when_the_pipeline_is_made(watch: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=re.escape(message)):
        pipeline_of(watch)


def test_concurrent_stages_are_named_one_by_one() -> None:
    stages: Any = [lambda p, x: x, [lambda p, x: x, lambda p, x: x], lambda p, x, y: (x + y).sum()]
    with pytest.raises(ValueError, match=re.escape("stage 1 is 2 concurrent ones: name one, such as parameter((1, 0), 'w')")):
        Pipeline(stages, optax.sgd(0.1), 2, device_mapping=[0, [0, 0], 0], strict=False, watch=[parameter(1, "w")])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: gradient(3), "name is 3: it must be that of a value"),
        (lambda: parameter("w"), "stage is 'w': it must be a whole number"),
        (lambda: parameter(True, "w"), "stage is True: it must be a whole number"),
        (lambda: parameter((0, 1, 2)), "stage is (0, 1, 2): it must be a whole number"),
        (lambda: parameter(0, ["w"]), "path is (['w'],): it must be keys and indices"),
    ],
)
def test_a_key_that_cannot_be_one_is_refused(make: Any, message: str) -> None:
    with pytest.raises(TypeError, match=re.escape(message)):
        make()
    with pytest.raises(ValueError, match="stage is -1: it must be 0 or more"):
        parameter(-1)


def twice(p: Any, x: Any) -> Any:
    return watched(watched(x * p["w"], "h"), "h")


def in_branches(p: Any, x: Any) -> Any:
    return jax.lax.cond(x.sum() > 0, lambda x: watched(x, "h"), lambda x: x, x * p["w"])


def in_a_body(p: Any, x: Any) -> Any:
    return jax.lax.while_loop(lambda x: x.sum() < 0, lambda x: watched(x, "h"), x * p["w"])


@jax.custom_vjp
def own_gradient(x: Any) -> Any:
    return watched(x, "h")


own_gradient.defvjp(lambda x: (x, None), lambda _, slope: (slope,))


@pytest.mark.few(14)
@pytest.mark.parametrize(
    ("watch", "first", "last", "message"),
    [
        (["x"], marked, total, "watch has 'x', but no stage has watched(x, 'x'): marked are 'h' (stage 0 (marked))"),
        ([gradient("x")], marked, total, "watch has gradient('x'), but no stage has watched(x, 'x'): marked are 'h' (stage 0 (marked))"),
        (["h"], lambda p, x: x * p["w"], total, "no stage marks anything"),
        (["\n" * 500], marked, total, "but no stage has watched"),
        (
            ["h"],
            marked,
            lambda p, x: watched(x * p, "h").sum(),
            "stage 0 (marked) and stage 1 (lambda) both mark a value as 'h', which is watched: give each a name of its own",
        ),
        (["h"], twice, total, "stage 0 (twice) marks two values as 'h', which is watched"),
        ([gradient("h")], twice, total, "stage 0 (twice) marks two values as 'h', which is watched"),
        (
            [gradient("i")],
            lambda p, x: watched(x.astype(int), "i") * p["w"],
            total,
            "watch has gradient('i'), but the value is int32[3] (of stage 0 (lambda)), and only real and complex numbers have a gradient",
        ),
        (
            {"i": "sum"},
            lambda p, x: watched(x > 0, "i") * p["w"],
            total,
            "watch has the \"sum\" of 'i', but the value is bool[3] (of stage 0 (lambda))",
        ),
        (["h"], in_branches, total, "stage 0 (in_branches) marks it inside of cond, which its values do not leave"),
        (["h"], lambda p, x: own_gradient(x * p["w"]), total, "marks it inside of custom_vjp_call, which its values do not leave"),
        ([parameter(0, "q")], marked, total, "its parameters are parameter(0, 't', 0), parameter(0, 't', 1), parameter(0, 'w')"),
        ([parameter(0, "t")], marked, total, "which is no single array: name one of parameter(0, 't', 0), parameter(0, 't', 1)"),
        (
            [parameter(1, "w")],
            marked,
            total,
            "watch has parameter(1, 'w'), but the stage has no such parameter; its parameters are parameter(1)",
        ),
    ],
)
@pytest.mark.parametrize("program", ["stages", "single"])
def test_what_cannot_be_watched_is_refused_before_the_update(watch: Any, first: Any, last: Any, message: str, program: Any) -> None:
    pipeline = pipeline_of(watch, first, last, program=program)
    state = pipeline.init(PARAMS)
    with pytest.raises(ValueError, match=re.escape(message)) as caught:
        pipeline.step(state, X)
    assert len(str(caught.value)) < 500
    assert float(state.params[1]) == 1  # nothing was given up


def test_a_loop_whose_end_is_not_known_cannot_be_watched() -> None:
    with pytest.raises(ValueError, match="marks it inside of while"):
        stepped(["h"], in_a_body, training=False)


@pytest.mark.parametrize(("key", "kind"), [(gradient("h"), "no gradients"), (parameter(0, "w"), "no updates of parameters")], ids=str)
def test_inference_has_neither_gradients_nor_updates(key: Any, kind: str) -> None:
    with pytest.raises(ValueError, match=re.escape(f"watch has {key!r}, but a pipeline without an optimizer has {kind}")):
        pipeline_of(["h", key], training=False)
