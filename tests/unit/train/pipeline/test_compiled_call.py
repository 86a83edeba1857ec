"""Programs that a pipeline starts without JAX's looking for them."""

import contextlib
import dataclasses
import functools
import time
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from tests.unit.train.pipeline.pipelines import batches, model, runs_noted
from tilestep.train.jax_private import compiled_call
from tilestep.train.pipeline.pipeline import Pipeline
from tilestep.train.pipeline.run import program_cache

COUNT = 8


def made(seed: int = 1, **options: Any) -> tuple[Pipeline, Any]:
    stages, params = model(seed)
    pipeline = Pipeline(stages, optax.adam(1e-2), COUNT, program="stages", **options)
    return pipeline, pipeline.init(params)


@contextlib.contextmanager
def only(*, direct: bool) -> Iterator[None]:
    """Inside, all runs start their programs directly, or none does."""
    with runs_noted() as runs:
        yield
    assert {own for _, own in runs} == {direct}


@contextlib.contextmanager
def looking_up() -> Iterator[None]:
    """Inside, programs are looked up."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(program_cache, "may_start", lambda: False)
        yield


def three_updates(pipeline: Pipeline, state: Any, change: Callable[[Any], Any] | None = None) -> Any:
    """(state, outputs). Args: change: of matrices, after the first."""
    state, outputs = pipeline.step(state, batches(0, COUNT))
    if change is not None:
        params = [jax.tree.map(lambda leaf: change(leaf) if leaf.ndim == 2 else leaf, own) for own in state.params]
        state = dataclasses.replace(state, params=params)
    for update in (1, 2):
        state, outputs = pipeline.step(state, batches(update, COUNT))
    return state, outputs


@functools.cache
def shared() -> Pipeline:
    """A pipeline that several tests run, because compiling it takes seconds."""
    return made()[0]


def started() -> tuple[Pipeline, Any]:
    return shared(), shared().init(model(1)[1])


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [{}, {"pipeline_schedule": "zero_bubble", "recompute": "full", "reduction": "running_mean"}, {"pipeline_schedule": "stashed"}],
)
def test_it_changes_nothing(options: Any) -> None:
    pipeline, state = made(**options)
    state, outputs = pipeline.step(state, batches(0, COUNT))
    with only(direct=True):
        state, outputs = pipeline.step(state, batches(1, COUNT))
        state, outputs = pipeline.step(state, batches(2, COUNT))
    with looking_up():
        expected = three_updates(pipeline, pipeline.init(model(1)[1]))
    jax.tree.map(np.testing.assert_array_equal, (state, outputs), expected)
    kinds: Callable[[Any], Any] = lambda tree: [(leaf.aval, leaf.sharding, leaf.committed) for leaf in jax.tree.leaves(tree)]  # noqa: E731
    assert kinds((state, outputs)) == kinds(expected)


P = [{"w": np.arange(12, dtype=np.float32).reshape(3, 4) / 10}, {"w": np.ones((4, 2), np.float32)}]
X = np.random.default_rng(0).normal(size=(4, 3, 3)).astype(np.float32)


def first(p: Any, x: Any) -> Any:
    return x @ p["w"]


def last(p: Any, x: Any) -> Any:
    return (x @ p["w"]).sum(), x


def small(stages: Any = (first, last), **options: Any) -> Pipeline:
    return Pipeline(list(stages), optax.sgd(0.1), 4, program="stages", **options)


def test_a_state_of_numpy_is_refused() -> None:
    pipeline, state = started()
    state, _ = pipeline.step(state, batches(0, COUNT))
    restored = jax.tree.map(np.asarray, state)
    with pytest.raises(
        TypeError, match=r"state of stage 0 has a ndarray in params/table, which is on no device: put all where init\(\)"
    ) as caught:
        pipeline.step(restored, batches(1, COUNT))
    assert caught.value.state is restored
    placed = jax.tree.map(lambda new, old: jax.device_put(new, old.sharding), restored, state)
    jax.tree.map(np.testing.assert_array_equal, pipeline.step(placed, batches(1, COUNT)), pipeline.step(state, batches(1, COUNT)))


@pytest.mark.slow
def test_all_numpy_arrays_may_be_written_to_at_once() -> None:
    def slow(p: Any, x: Any, half: Any, there: Any) -> Any:
        def late(value: Any) -> Any:
            time.sleep(0.02)
            return value

        return jax.pure_callback(late, x, x) @ p["w"] + half.astype(jnp.float32).sum() + there.sum()

    pipeline = small((slow, last))
    halves, reals, there = np.ones((4, 4096), jnp.bfloat16), X.copy(), jnp.ones((4, 3, 1))
    found: list[Any] = []
    for _ in range(2):
        halves[:], reals[:] = 1, X
        _, (losses, _) = pipeline.step(pipeline.init(P), (reals, halves, there))
        halves[:], reals[:] = 1000, 1000
        found.append(losses)
    halves[:], reals[:] = 1, X
    np.testing.assert_array_equal(*found)
    np.testing.assert_allclose(found[0], [(((x @ P[0]["w"]) + 4096 + 3) @ P[1]["w"]).sum() for x in X], rtol=1e-5)


@pytest.mark.slow
def test_options_of_jax_that_programs_depend_on_are_heeded() -> None:
    pipeline, state = started()
    state, _ = pipeline.step(state, batches(0, COUNT))
    with only(direct=True):
        state, _ = pipeline.step(state, batches(1, COUNT))
    for option in (jax.debug_nans(True), jax.debug_infs(True)):
        with option, only(direct=False):
            state, _ = pipeline.step(state, batches(1, COUNT))
    with only(direct=True):
        pipeline.step(state, batches(2, COUNT))
    nowhere = jax.tree.map(lambda leaf: leaf * np.nan if leaf.dtype == np.float32 else leaf, pipeline.init(model(1)[1]))
    with pytest.raises(FloatingPointError), jax.debug_nans(True):
        pipeline.step(nowhere, batches(1, COUNT))


@pytest.mark.parametrize("effect", ["debug", "callback", "constant", "key"])
def test_programs_that_do_more_than_compute_are_left_to_jax(effect: str) -> None:
    told: list[Any] = []

    def function(x: Any) -> Any:
        match effect:
            case "debug":
                jax.debug.callback(told.append, x)
                return x
            case "callback":
                return jax.pure_callback(lambda value: value + 1, x, x)
            case "constant":
                return x + jnp.arange(3.0)
            case _:
                return jax.random.key(0)

    compiled = jax.jit(function).lower(jnp.ones(3)).compile()
    start = compiled_call.direct(compiled)
    if effect == "constant":
        assert start is not None
        np.testing.assert_array_equal(start(jnp.ones(3)), [1, 2, 3])
    else:
        assert start is None
