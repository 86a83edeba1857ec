"""Programs that a pipeline starts without JAX's looking for them; `test_pipelines.py` starts a process that has several devices."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.experimental.layout import Format, Layout

from tests.unit.train.pipelines import batches, model
from tilestep.train import direct_calls
from tilestep.train.pipeline import Pipeline

COUNT = 8


def made(seed: int = 1, **options: Any) -> tuple[Pipeline, Any]:
    stages, params = model(seed)
    pipeline = Pipeline(stages, optax.adam(1e-2), COUNT, program="stages", **options)
    return pipeline, pipeline.init(params)


@contextlib.contextmanager
def only(pipeline: Pipeline, kept: str) -> Iterator[None]:
    """Inside, the pipeline's programs are there in one form: "direct" or "looked_up"."""
    engine = pipeline._engine
    assert engine._latest is not None
    seen, before = engine._latest
    other = {"direct": "looked_up", "looked_up": "direct"}[kept]
    engine._latest = seen, before._replace(**{other: None})
    yield
    engine._latest = engine._latest[0], before


def three_updates(pipeline: Pipeline, state: Any, change: Callable[[Any], Any] | None = None) -> Any:
    """(state, outputs). Args: change: of matrices, after the first."""
    state, outputs = pipeline.step(state, batches(0, COUNT))
    if change is not None:
        params = [jax.tree.map(lambda leaf: change(leaf) if leaf.ndim == 2 else leaf, own) for own in state.params]
        state = dataclasses.replace(state, params=params)
    for update in (1, 2):
        state, outputs = pipeline.step(state, batches(update, COUNT))
    return state, outputs


def looked_up(pipeline: Pipeline) -> Pipeline:
    pipeline._engine._plain_places = False
    return pipeline


@pytest.mark.parametrize(
    "options",
    [{}, {"pipeline_schedule": "zero_bubble"}, {"pipeline_schedule": "stashed"}, {"recompute": "full"}, {"reduction": "running_mean"}],
)
def test_it_changes_nothing(options: Any) -> None:
    pipeline, state = made(**options)
    state, outputs = pipeline.step(state, batches(0, COUNT))
    with only(pipeline, "direct"):
        state, outputs = pipeline.step(state, batches(1, COUNT))
        state, outputs = pipeline.step(state, batches(2, COUNT))
    other, begun = made(**options)
    expected = three_updates(looked_up(other), begun)
    jax.tree.map(np.testing.assert_array_equal, (state, outputs), expected)
    kinds: Callable[[Any], Any] = lambda tree: [(leaf.aval, leaf.sharding, leaf.committed) for leaf in jax.tree.leaves(tree)]  # noqa: E731
    assert kinds((state, outputs)) == kinds(expected)


def weak(leaf: Any) -> Any:
    found = jax.device_put(jnp.broadcast_to(jnp.asarray(0.25), leaf.shape), leaf.sharding)
    assert found.aval.weak_type
    return found


def transposed(leaf: Any) -> Any:
    found = jax.device_put(leaf, Format(Layout((1, 0)), leaf.sharding))
    assert found.format.layout.major_to_minor == (1, 0)
    return found


def elsewhere(leaf: Any) -> Any:
    return jax.device_put(leaf, jax.devices()[-1])


def copied(leaf: Any) -> Any:
    return jax.device_put(jnp.copy(leaf), leaf.sharding)


@pytest.mark.parametrize("change", [weak, transposed, copied])
def test_a_state_that_somebody_has_changed_is_as_good(change: Callable[[Any], Any]) -> None:
    found, expected = three_updates(*made(), change), three_updates(looked_up(made()[0]), made()[1], change)
    jax.tree.map(np.testing.assert_array_equal, found, expected)


def test_a_state_on_another_device_is_refused_as_jax_refuses_it() -> None:
    for pipeline in (made()[0], looked_up(made()[0])):
        with pytest.raises(ValueError, match="device"):
            three_updates(pipeline, made()[1], elsewhere)


def test_options_of_jax_that_programs_depend_on_are_heeded() -> None:
    pipeline, state = made()
    state, _ = pipeline.step(state, batches(0, COUNT))
    with only(pipeline, "direct"):
        state, _ = pipeline.step(state, batches(1, COUNT))
    for option in (jax.debug_nans(True), jax.debug_infs(True), jax.default_matmul_precision("float32")):
        with option, only(pipeline, "looked_up"):
            state, _ = pipeline.step(state, batches(1, COUNT))
    with only(pipeline, "direct"):
        pipeline.step(state, batches(2, COUNT))
    nowhere = jax.tree.map(lambda leaf: leaf * np.nan if leaf.dtype == np.float32 else leaf, pipeline.init(model(1)[1]))
    with pytest.raises(FloatingPointError), jax.debug_nans(True):
        pipeline.step(nowhere, batches(1, COUNT))


def test_without_what_it_takes_jax_looks_for_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(direct_calls, "_found", None)
    assert direct_calls.options() is None
    pipeline, state = made()
    state, _ = pipeline.step(state, batches(0, COUNT))
    with only(pipeline, "looked_up"):
        pipeline.step(state, batches(1, COUNT))


def test_arrays_that_are_gone_are_an_error() -> None:
    pipeline, state = made()
    new, _ = pipeline.step(state, batches(0, COUNT))
    pipeline.step(new, batches(1, COUNT))
    with pytest.raises(RuntimeError, match="deleted"):
        pipeline.step(new, batches(2, COUNT))


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
    start = direct_calls.direct(compiled)
    if effect == "constant":
        assert start is not None
        np.testing.assert_array_equal(start(jnp.ones(3)), [1, 2, 3])
    else:
        assert start is None


def test_structures_and_arguments_that_nothing_reads() -> None:
    def function(unread: Any, tree: Any) -> Any:
        return {"sum": tree["a"] + tree["b"][0], "none": None}, (tree["b"][0],)

    tree = {"a": jnp.arange(3.0), "b": [jnp.ones(3), jnp.zeros(2)]}
    start = direct_calls.direct(jax.jit(function).lower(jnp.ones(5), tree).compile())
    assert start is not None
    jax.tree.map(np.testing.assert_array_equal, start(jnp.ones(5), tree), function(None, tree))
    assert jax.tree.structure(start(jnp.ones(5), tree)) == jax.tree.structure(function(None, tree))
