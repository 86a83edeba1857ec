"""What goes wrong arrives as a Python exception that says why, and the platform goes on working."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from tilestep.train import Pipeline


@pytest.fixture(autouse=True)
def default_ipu(ipu: jax.Device) -> Any:
    with jax.default_device(ipu):
        yield
        assert (jnp.ones(3) + 1).tolist() == [2, 2, 2]  # still works


@pytest.mark.slow
def test_a_program_that_does_not_compile(ipu: jax.Device) -> None:
    unknown = jax.jit(lambda x: jax.ffi.ffi_call("no_such_function", jax.ShapeDtypeStruct(x.shape, x.dtype))(x))
    with pytest.raises(jax.errors.JaxRuntimeError, match="no_such_function"):
        unknown(jnp.ones(3)).block_until_ready()


def test_an_exception_in_a_callback(ipu: jax.Device) -> None:
    def fail(_: np.ndarray) -> np.ndarray:
        raise ValueError("the cause of it")

    broken = jax.jit(lambda x: jax.pure_callback(fail, jax.ShapeDtypeStruct(x.shape, x.dtype), x) + 1)
    with pytest.raises(jax.errors.JaxRuntimeError, match="the cause of it"):
        broken(jnp.ones(3)).block_until_ready()


def test_a_callback_with_a_wrong_shape(ipu: jax.Device) -> None:
    wrong = jax.jit(lambda x: jax.pure_callback(lambda v: np.ones(7, np.float32), jax.ShapeDtypeStruct(x.shape, x.dtype), x))
    with pytest.raises(Exception, match=r"shape|\(7,\)"):
        wrong(jnp.ones(3)).block_until_ready()


@pytest.mark.slow
def test_nan_is_found(ipu: jax.Device) -> None:
    with jax.debug_nans(True), pytest.raises(FloatingPointError, match="nan"):
        jnp.log(jnp.array(-1.0))


def test_a_stage_that_does_not_fit_is_named_with_its_parameters_and_the_state_before() -> None:
    """At the second step, whose microbatches are longer: a square of 16,384 numbers is 1 GiB, and an IPU has 0.9."""

    def squared(params: Any, x: Any) -> Any:
        table = jnp.sin(x[:, None] * params["in"]["scale"] * x[None, :])
        return (table + table.T).sum() * params["out"]

    stages = [lambda p, x: x * p, squared, lambda p, x: (x * p) ** 2]
    params = [np.float32(1), {"in": {"scale": np.ones(1, np.float32)}, "out": np.float32(0.5)}, np.float32(1)]
    pipeline = Pipeline(stages, optax.sgd(1e-3), 2, devices=jax.devices("ipu"), device_mapping=[0, 1, 2], strict=False)
    state, _ = pipeline.step(pipeline.init(params), np.ones((2, 4), np.float32))
    before = jax.tree.map(np.asarray, state.params)
    with pytest.raises(Exception, match=r"tile \d+ needs [\d,]+ B in superstep") as caught:
        pipeline.step(state, np.ones((2, 16384), np.float32))
    failed: Any = caught.value
    notes = " ".join(failed.__notes__)
    assert "raised by stage 1 (squared) of the pipeline, when its" in notes
    assert "before microbatch 0 of the update began; the stage's parameters, largest first: out 4 B, in/scale 4 B" in notes
    jax.tree.map(np.testing.assert_array_equal, failed.state.params, before)
    again, _ = pipeline.step(failed.state, np.ones((2, 4), np.float32))
    assert not any(leaf.is_deleted() for leaf in jax.tree.leaves(again))
