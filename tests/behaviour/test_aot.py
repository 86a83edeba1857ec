"""Ahead of time: lowering, compiling and asking what a program will need, without running it."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, SingleDeviceSharding
from jax.sharding import PartitionSpec as P

SHAPE = jax.ShapeDtypeStruct((64, 64), np.float32)


def model(x: jax.Array, w: jax.Array) -> jax.Array:
    return jnp.tanh(x @ w)


@pytest.fixture
def compiled(ipu: jax.Device) -> Any:
    place = SingleDeviceSharding(ipu)
    return jax.jit(model, in_shardings=place, out_shardings=place).lower(SHAPE, SHAPE).compile()


def test_cost_analysis_has_the_usual_keys_and_our_own(compiled: Any) -> None:
    cost = compiled.cost_analysis()
    assert cost["flops"] >= 2 * 64**3
    assert cost["bytes accessed"] > 0
    ours = {key: value for key, value in cost.items() if key.startswith("ipu ")}
    assert ours
    assert all(np.isfinite(value) for value in ours.values())
    assert any("cycles" in key and value > 0 for key, value in ours.items())


def test_memory_analysis_counts_arguments_and_results(compiled: Any) -> None:
    memory = compiled.memory_analysis()
    assert memory.argument_size_in_bytes == 2 * 4 * 64 * 64
    assert memory.output_size_in_bytes == 4 * 64 * 64


def test_the_program_can_be_read(compiled: Any) -> None:
    text = compiled.as_text()
    assert text.startswith("HloModule jit_model")
    assert "tanh" in text


@pytest.mark.slow
def test_shardings_are_those_that_were_asked_for(ipus: list[jax.Device]) -> None:
    mesh = Mesh(np.array(ipus), ("i",))
    split, whole = NamedSharding(mesh, P("i")), NamedSharding(mesh, P())
    compiled = jax.jit(model, in_shardings=(split, whole), out_shardings=split).lower(SHAPE, SHAPE).compile()
    assert compiled.output_shardings == split
    assert compiled.input_shardings[0] == (split, whole)


def test_compiler_options_reach_the_compiler(ipu: jax.Device) -> None:
    with jax.default_device(ipu):
        lowered = jax.jit(model).lower(SHAPE, SHAPE)
        assert lowered.compile(compiler_options={"xla_backend_optimization_level": 0}) is not None
        with pytest.raises(Exception, match="no_such_option"):
            lowered.compile(compiler_options={"no_such_option": 1})


def test_shapes_need_no_values(ipu: jax.Device) -> None:
    with jax.default_device(ipu):
        result = jax.eval_shape(model, SHAPE, SHAPE)
    assert (result.shape, result.dtype) == ((64, 64), np.float32)
