"""Programs that a pipeline starts without JAX's looking for them."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import gc
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.experimental.layout import Format, Layout

from tests.unit.train.pipeline.pipelines import batches, model, runs_noted
from tilestep.errors import NotFiniteError
from tilestep.train import InfeedQueue
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


FORMS = looking_up, contextlib.nullcontext


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
    pipeline, params = shared(), model(1)[1]
    found = three_updates(pipeline, pipeline.init(params), change)
    with looking_up():
        expected = three_updates(pipeline, pipeline.init(params), change)
    jax.tree.map(np.testing.assert_array_equal, found, expected)


P = [{"w": np.arange(12, dtype=np.float32).reshape(3, 4) / 10}, {"w": np.ones((4, 2), np.float32)}]
X = np.random.default_rng(0).normal(size=(4, 3, 3)).astype(np.float32)


def first(p: Any, x: Any) -> Any:
    return x @ p["w"]


def last(p: Any, x: Any) -> Any:
    return (x @ p["w"]).sum(), x


def small(stages: Any = (first, last), **options: Any) -> Pipeline:
    return Pipeline(list(stages), optax.sgd(0.1), 4, program="stages", **options)


def laid_out(x: Any, order: tuple[int, ...]) -> Any:
    return jax.device_put(x, Format(Layout(order), jax.sharding.SingleDeviceSharding(jax.devices()[0])))


def mixed(p: Any, m: Any, x: Any) -> Any:
    return (x @ m).astype(jnp.bfloat16) * x @ p["w"]


def halved(p: Any, a: Any, x: Any) -> Any:
    return x.astype(jnp.bfloat16) * a @ p["w"].astype(jnp.bfloat16)


@functools.cache
def small_one(stage: Callable[..., Any]) -> Pipeline:
    return small((stage, last))


@pytest.mark.parametrize("elements", [laid_out(X, (0, 2, 1)), jnp.broadcast_to(jnp.asarray(0.1), X.shape), X])
def test_elements_of_any_layout_and_type_are_as_good(elements: Any) -> None:
    matrix = np.eye(3, dtype=np.float32) + np.arange(9, dtype=np.float32).reshape(3, 3)
    for stage, given in (
        (first, ()),
        (mixed, (laid_out(matrix, (1, 0)),)),
        (mixed, (matrix,)),
        (halved, (jnp.asarray(0.5),)),
    ):
        results: list[Any] = []
        for form in FORMS:
            pipeline = small_one(stage)
            state = pipeline.init(P)
            with form():
                for _ in range(2):
                    state, outputs = pipeline.step(state, elements, inputs=given)
            results.append((state, outputs))
        jax.tree.map(np.testing.assert_array_equal, *results)
        assert [leaf.dtype for leaf in jax.tree.leaves(results[0])] == [leaf.dtype for leaf in jax.tree.leaves(results[1])]


def test_a_run_that_fails_in_between_says_nothing_of_another_state() -> None:
    def numbered(p: Any, x: Any) -> Any:
        return x @ p["w"] + p["i"].astype(jnp.float32)[:3, :4]

    params = [{"w": P[0]["w"], "i": np.arange(16, dtype=np.int32).reshape(4, 4)}, P[1]]
    found: list[Any] = []
    for fails in (False, True):
        pipeline = small((numbered, last), check_nans=True)
        one, other = pipeline.init(params), pipeline.init(params)
        one.params[0]["i"] = laid_out(one.params[0]["i"], (1, 0))
        one, _ = pipeline.step(one, X)
        if fails:
            with pytest.raises(NotFiniteError):
                pipeline.step(other, X * np.nan)
        found.append(pipeline.step(one, X))
    jax.tree.map(np.testing.assert_array_equal, *found)


@pytest.mark.parametrize("schedule", ["grouped", "stale"])
@pytest.mark.parametrize("flips", [True, False])
def test_a_state_may_come_back_of_another_kind(flips: bool, schedule: str) -> None:
    def update(gradients: Any, count: Any, params: Any = None) -> Any:
        dtype = jnp.int32 if flips and count.dtype == jnp.float32 else jnp.float32
        return jax.tree.map(lambda gradient: -0.1 * gradient, gradients), (count + 1).astype(dtype)

    counting = optax.GradientTransformation(lambda params: jnp.zeros((), jnp.int32), update)
    found: list[Any] = []
    for form in FORMS:
        pipeline = Pipeline([first, last], counting, 4, program="stages", pipeline_schedule=schedule)
        with form():
            state, kinds = pipeline.init(P), []
            for _ in range(6):
                state, outputs = pipeline.step(state, X)
                kinds.append(state.optimizer_state[0].dtype)
            found.append((state, outputs))
            updates = 4 if schedule == "stale" else 1  # of a run
            assert len(set(kinds)) == (2 if flips and updates == 1 else 1)
            assert [float(count) for count in state.optimizer_state] == [6 * updates, 6 * updates]
    jax.tree.map(np.testing.assert_array_equal, *found)


def test_an_optimizer_whose_state_becomes_weakly_typed_computes_as_jax_does() -> None:
    def update(gradients: Any, rate: Any, params: Any = None) -> Any:
        changes = jax.tree.map(lambda gradient: (gradient.astype(jnp.bfloat16) * rate).astype(gradient.dtype), gradients)
        return changes, jnp.where(True, -0.123456, 0.1)

    weakening = optax.GradientTransformation(lambda params: jnp.full((), -0.123456, jnp.float32), update)
    found: list[Any] = []
    for form in FORMS:
        pipeline = Pipeline([first, last], weakening, 4, program="stages")
        with form():
            state = pipeline.init(P)
            for _ in range(3):
                state, outputs = pipeline.step(state, X)
            assert state.optimizer_state[0].weak_type
            found.append((state, outputs))
    jax.tree.map(np.testing.assert_array_equal, *found)


@pytest.mark.parametrize("optimizer", [optax.sgd(0.1), None])
def test_weak_types_end_where_a_stage_does(optimizer: Any) -> None:
    def weakly(p: Any, x: Any) -> Any:
        return jnp.where(x.sum() > 0, 1.1, 2.3), x @ p["w"]

    def halves(p: Any, scale: Any, x: Any) -> Any:
        product = x.astype(jnp.bfloat16) * scale
        return product.astype(jnp.float32) @ p["w"], product.dtype == jnp.float32

    def summed(p: Any, x: Any, is_float32: Any) -> Any:
        return (x * p).sum(), is_float32

    found: list[Any] = []
    for form, program in ((looking_up, "stages"), (contextlib.nullcontext, "stages"), (contextlib.nullcontext, "single")):
        pipeline = Pipeline([weakly, halves, summed], optimizer, 6, program=program)
        state = pipeline.init([*P, np.float32(1)])
        with form():
            for _ in range(3):
                state, (losses, are_float32) = pipeline.step(state, np.concatenate([X, X[:2]]))
        assert are_float32.all()
        found.append((losses, state.params))
    jax.tree.map(np.testing.assert_array_equal, *found[:2])
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5), *found[1:])


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


def test_elements_and_inputs_of_other_shapes_are_seen_whatever_has_gone_before() -> None:
    def scaled(p: Any, scale: Any, x: Any) -> Any:
        return x * scale @ p["w"]

    found: list[Any] = []
    for form in FORMS:
        pipeline = small((scaled, last))
        with form():
            state = pipeline.init(P)
            for rows, scale in ((3, 1.0), (3, 2.0), (3, 3.0), (2, 2.0), (2, np.ones(3, np.float32)), (3, 1.0), (3, 2.0)):
                state, (losses, outputs) = pipeline.step(state, X[:, :rows], inputs=[np.asarray(scale, np.float32)])
                assert outputs.shape == (4, rows, 4)
            found.append((state, losses))
    jax.tree.map(np.testing.assert_array_equal, *found)


def test_what_compiling_leaves_is_held_once_for_each_set_of_shapes() -> None:
    pipeline = small()
    state = pipeline.init([{"w": np.eye(4, dtype=np.float32)}] * 2)
    held: Any = pipeline._engine._programs._pieces  # nobody else has them
    counts: list[int] = []
    for rows in (1, 1, 1, 2, 2, 1, 2):
        state, _ = pipeline.step(state, np.ones((4, rows, 4), np.float32))
        counts.append(len(held))
    assert counts == [0, 1, 1, 1, 2, 2, 2]  # a first run compiles a little too
    pieces = [weakref.ref(each) for each in held if each is not None]  # None: malloc is not glibc's
    assert all(each() is not None for each in pieces)
    del pipeline, held
    gc.collect()
    assert all(each() is None for each in pieces)


def test_without_jit_stages_see_values() -> None:
    seen: list[bool] = []

    def looking(p: Any, x: Any) -> Any:
        seen.append(isinstance(x, jax.core.Tracer))
        return x @ p["w"], np.float32(2)

    def doubled(p: Any, x: Any, k: Any) -> Any:
        return (x @ p["w"]).sum() * k, x

    expected = None
    for compiled_before in (False, True):
        pipeline = small((looking, doubled), device_mapping=[0, 0])
        state = pipeline.init(P)
        if compiled_before:
            pipeline.step(pipeline.init(P), X)
        with jax.disable_jit():
            for _ in range(2):
                seen.clear()
                state, (losses, _) = pipeline.step(state, X)
        assert not all(seen)
        expected = losses if expected is None else expected
        np.testing.assert_allclose(losses, expected, rtol=1e-6)


def test_a_step_may_be_transformed() -> None:
    stages: Any = (first, lambda p, x: (x @ p["w"]).sum())
    pipeline = Pipeline(list(stages), None, 4, program="stages", device_mapping=[0, 0])
    state = pipeline.init(P)
    loss: Callable[[Any], Any] = lambda x: pipeline.step(state, x)[1]  # noqa: E731
    traced = jax.jit(loss)(X)  # before any other step
    _, expected = pipeline.step(state, X)
    np.testing.assert_allclose(traced, expected, rtol=1e-5)
    np.testing.assert_allclose(jax.grad(lambda x: loss(x).sum())(jnp.asarray(X))[0, 0], (P[0]["w"] @ P[1]["w"]).sum(1), rtol=1e-5)
    np.testing.assert_allclose(jax.vmap(loss)(np.stack([X, X]))[1], expected, rtol=1e-5)
    assert jax.eval_shape(loss, X).shape == (4,)


def test_an_update_may_be_differentiated_by_its_elements() -> None:
    @jax.custom_jvp
    def doubled(x: Any) -> Any:
        return jax.pure_callback(lambda x: 2 * np.asarray(x), jax.ShapeDtypeStruct(x.shape, x.dtype), x, vmap_method="sequential")

    doubled.defjvps(lambda g, ans, x: 2 * g)
    relu: Callable[[Any, Any], Any] = lambda p, x: jax.nn.relu(doubled(x)) * p  # noqa: E731
    pipeline = small((relu, lambda p, x: (x * p).sum()), device_mapping=[0, 0])
    x, state = jnp.asarray([[0.0, 1.0, -1.0]] * 4), pipeline.init([np.float32(1), np.float32(3)])
    gradient = jax.jit(jax.grad(lambda x: pipeline.step(state, x)[1].sum()))(x)
    np.testing.assert_allclose(gradient, [[0.0, 6.0, 0.0]] * 4)  # as relu has it at 0


@pytest.mark.parametrize("option", [jax.disable_jit, functools.partial(jax.debug_nans, False)])
def test_what_stages_call_back_comes_once(option: Any) -> None:
    called: list[float] = []

    def calling(p: Any, x: Any) -> Any:
        jax.debug.callback(lambda value: called.append(float(value)), x.sum())
        return jax.nn.gelu(x @ p["w"])

    pipeline = small((calling, last), device_mapping=[0, 0])
    with option():
        pipeline.step(pipeline.init(P), X)
    jax.effects_barrier()
    assert len(called) == 4


def test_a_nan_is_found_in_the_line_that_makes_it() -> None:
    def bad(p: Any, x: Any) -> Any:
        return jnp.log(x - 10) @ p["w"]

    pipeline = small((bad, last), device_mapping=[0, 0])
    with pytest.raises(FloatingPointError) as caught, jax.debug_nans(True):
        pipeline.step(pipeline.init(P), X)
    assert any(entry.name == "bad" for entry in caught.traceback)


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


def test_a_state_on_another_device_is_refused_as_jax_refuses_it() -> None:
    for form in FORMS:
        with form(), pytest.raises(ValueError, match="device"):
            three_updates(*started(), elsewhere)


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


@pytest.mark.parametrize("option", ["precision", "promotion", "nothing private"])
def test_stages_are_traced_for_each_set_of_options(option: str, monkeypatch: pytest.MonkeyPatch) -> None:
    traced: list[Any] = []

    def looking(p: Any, x: Any) -> Any:
        traced.append((jax.config.jax_default_matmul_precision, jax.config.jax_numpy_dtype_promotion))
        return (x @ p["w"]) * jnp.arange(1, 5, dtype=np.int32)

    if option == "nothing private":
        monkeypatch.setattr(compiled_call, "FOUND", None)
    pipeline = small((looking, last), device_mapping=[0, 0])
    state, _ = pipeline.step(pipeline.init(P), X)
    state, _ = pipeline.step(state, X)
    before = len(traced)
    if option == "promotion":
        with pytest.raises(ValueError, match="promotion"), jax.numpy_dtype_promotion("strict"):
            pipeline.step(state, X)
    else:
        with jax.default_matmul_precision("float32"):
            state, _ = pipeline.step(state, X)
            state, _ = pipeline.step(state, X)
        assert {own[0] for own in traced[before:]} == {"float32"}
    before = len(traced)
    pipeline.step(state, X)
    assert len(traced) == before


def test_without_what_it_takes_jax_looks_for_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled_call, "FOUND", None)
    assert not compiled_call.may_start()
    pipeline, state = made()
    state, _ = pipeline.step(state, batches(0, COUNT))
    with only(direct=False):
        pipeline.step(state, batches(1, COUNT))


def test_arrays_that_are_gone_are_an_error() -> None:
    pipeline, state = made()
    new, _ = pipeline.step(state, batches(0, COUNT))
    pipeline.step(new, batches(1, COUNT))
    for gone in (state, new):
        with pytest.raises(RuntimeError, match="deleted") as caught:
            pipeline.step(gone, batches(2, COUNT))
        assert any("raised by stage 0 (embed) of the pipeline" in note for note in caught.value.__notes__)


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


def test_structures_and_arguments_that_nothing_reads() -> None:
    def function(unread: Any, tree: Any) -> Any:
        return {"sum": tree["a"] + tree["b"][0], "none": None}, (tree["b"][0],)

    tree = {"a": jnp.arange(3.0), "b": [jnp.ones(3), jnp.zeros(2)]}
    start = compiled_call.direct(jax.jit(function).lower(jnp.ones(5), tree).compile())
    assert start is not None
    jax.tree.map(np.testing.assert_array_equal, start(jnp.ones(5), tree), function(None, tree))
    assert jax.tree.structure(start(jnp.ones(5), tree)) == jax.tree.structure(function(None, tree))


def test_runs_with_a_queue_take_over_the_programs_of_later_stages() -> None:
    pipeline, state = made(1)
    with looking_up(), runs_noted() as runs:
        state, _ = pipeline.step(state, batches(0, COUNT))
        pipeline.run(state, InfeedQueue(list(zip(*batches(1, COUNT), strict=True))))
    (stepped, _), (ran, _) = runs
    first_pair, *others = zip(stepped.programs[:-1], ran.programs[:-1], strict=True)
    assert first_pair[0] is not first_pair[1]
    assert others
    assert all(one is other for one, other in others)
    assert stepped.last is ran.last
    assert stepped.updates is ran.updates
    assert stepped.starts is ran.starts
