"""What pipelines do when something goes wrong."""

import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from tilestep.errors import DatasetError, NotFiniteError
from tilestep.train import InfeedQueue
from tilestep.train.pipeline.pipeline import Pipeline


def fails_at(number: int) -> Any:
    """A stage that raises in Python when a microbatch comes whose first element is that number."""

    def look(x: Any) -> Any:
        if x[0] == number:
            raise ValueError("this one")
        return x

    return lambda params, x: jax.pure_callback(look, jax.ShapeDtypeStruct(x.shape, x.dtype), x) * params


@pytest.mark.slow
def test_what_a_program_raises_names_stage_and_microbatch_and_carries_the_state() -> None:
    stages = [lambda p, x: x * p, lambda p, x: fails_at(3)(1, jax.lax.stop_gradient(x)) * p, lambda p, x: (x * p).sum()]
    pipeline = Pipeline([stages[0], fails_at(3), stages[2]], optax.sgd(0.1), 6)
    with pytest.raises(ValueError, match="Pure callbacks do not support JVP") as traced:
        pipeline.step(pipeline.init([np.float32(1)] * 3), np.zeros((6, 2), np.float32))
    assert any("raised by stage 1 (lambda) of the pipeline, when its programs were traced" in note for note in traced.value.__notes__)
    pipeline = Pipeline(stages, optax.sgd(0.1), 6, device_mapping=[0, 1, 2])
    state = pipeline.init([np.float32(1)] * 3)
    state, _ = pipeline.step(state, np.zeros((6, 2), np.float32))
    before = jax.tree.map(np.asarray, state.params)
    with pytest.raises(Exception, match="this one") as caught:
        pipeline.step(state, np.arange(6, dtype=np.float32)[:, None] * np.ones(2, np.float32))
    assert any("raised by stage 1 (lambda) of the pipeline, forward of microbatch 3" in note for note in caught.value.__notes__)
    after: Any = caught.value
    jax.tree.map(np.testing.assert_array_equal, after.state.params, before)
    again, _ = pipeline.step(after.state, np.zeros((6, 2), np.float32))  # it goes on
    assert not any(leaf.is_deleted() for leaf in jax.tree.leaves(again))


@pytest.mark.parametrize(
    "schedule", [pytest.param(name, marks=pytest.mark.slow) for name in ("grouped", "stale", "stashed")] + ["zero_bubble"]
)
def test_numbers_that_are_not_finite_are_found_before_they_are_taken_in(schedule: str) -> None:
    def root(params: Any, x: Any) -> Any:
        return jnp.sqrt(x) * params["in"]["s"]  # whose gradient at 0 is not finite

    stages = [lambda p, x: x * p["w"], root, lambda p, x: (x * p).sum()]
    params = [{"w": np.float32(1)}, {"in": {"s": np.float32(1)}}, np.float32(1)]
    x = np.ones((6, 2), np.float32)
    pipeline = Pipeline(stages, optax.sgd(0.1), 6, pipeline_schedule=schedule, check_nans=True)
    state, _ = pipeline.step(pipeline.init(params), x)
    before = jax.tree.map(np.asarray, state.params)
    for value, stage, path in ((np.nan, 0, "output 0"), (0.0, 0, "gradient of w"), (-1.0, 1, "output 0")):
        bad = x.copy()
        bad[4] = value
        with pytest.raises(NotFiniteError, match=f"made a NaN or an infinity with microbatch 4: {path}") as caught:
            pipeline.step(state, bad)
        state = caught.value.state
        assert (caught.value.stage, caught.value.microbatch, caught.value.path) == (stage, 4, path)
        jax.tree.map(np.testing.assert_array_equal, state.params, before)


def test_a_whole_number_that_would_become_another_is_refused_before_anything_starts() -> None:
    pipeline = Pipeline([lambda p, a, x, n: x * p + n + a, lambda p, x: (x * p).sum()], optax.sgd(0.1), 4)
    state = pipeline.init([np.float32(1)] * 2)
    x, n = np.zeros((4, 2), np.float32), np.arange(8).reshape(4, 2)
    state, before = pipeline.step(state, {"x": x, "n": n}, inputs=(np.int64(3),))
    wrong = n.copy()
    wrong[2, 1] = 2**40
    words = "has 1099511627776 at [2, 1], which int32 does not have (-2147483648 to 2147483647): set jax_enable_x64"
    with pytest.raises(OverflowError, match=re.escape(f"microbatch 2['n'] {words}")):
        pipeline.step(state, {"x": x, "n": wrong}, inputs=(np.int64(3),))
    with pytest.raises(OverflowError, match=r"inputs\[0\] is 4294967296, which int32 does not have"):
        pipeline.step(state, {"x": x, "n": n}, inputs=(2**32,))
    with pytest.raises(TypeError, match=r"microbatches\['n'\] is float128 \(ndarray\), no array of numbers"):
        pipeline.step(state, {"x": x, "n": n.astype(np.longdouble)}, inputs=(3,))
    infeed = InfeedQueue([{"x": own, "n": number} for own, number in zip(x, wrong, strict=True)])
    with pytest.raises(DatasetError, match=r"element 2\['n'\] has 1099511627776 at \[1\], which int32 does not have"):
        pipeline.run(state, infeed, inputs=(np.int64(3),))
    with pytest.raises(OverflowError, match=r"inputs\[0\] is 4294967296"):
        pipeline.run(state, infeed, inputs=(2**32,))
    with pytest.raises(OverflowError, match=r"stage 1: \(params, aux\)\[0\]\['w'\] has 4294967296 at \[0\], which int32"):
        pipeline.init([np.float32(1), {"w": np.array([2**32])}])
    _, after = pipeline.step(state, {"x": x, "n": n}, inputs=(np.int64(3),))  # nothing was donated
    assert after.shape == before.shape


def test_what_cannot_be_compiled_names_the_stage() -> None:
    def unknown(params: Any, x: Any) -> Any:
        return jax.lax.with_sharding_constraint(x, NamedSharding(Mesh(np.array(jax.devices()[5:7]), ("x",)), P("x"))) * params

    pipeline = Pipeline([lambda p, x: x * p, unknown, lambda p, x: (x * p).sum()], optax.sgd(0.1), 6)
    state = pipeline.init([np.float32(1)] * 3)
    with pytest.raises(ValueError, match="incompatible devices") as caught:
        pipeline.step(state, np.ones((6, 2), np.float32))
    assert any("raised by stage 1 (unknown) of the pipeline, when its" in note for note in caught.value.__notes__)
    failed: Any = caught.value
    assert failed.state is state
