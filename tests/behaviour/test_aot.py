"""Ahead of time: lowering, compiling and asking what a program will need, without running it."""

from __future__ import annotations

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


def test_what_is_only_lowered_has_the_cost_that_cpu_says(ipu: jax.Device, cpu: jax.Device) -> None:
    def cost(device: jax.Device) -> dict[str, float]:
        return jax.jit(lambda x: jnp.sin(x) @ x).lower(jax.device_put(np.ones((8, 8), np.float32), device)).cost_analysis()

    assert cost(ipu) == cost(cpu)
    assert cost(ipu)["flops"] == 2 * 8**3


def test_memory_analysis_counts_arguments_and_results(compiled: Any) -> None:
    memory = compiled.memory_analysis()
    assert memory.argument_size_in_bytes == 2 * 4 * 64 * 64
    assert memory.output_size_in_bytes == 4 * 64 * 64


def test_donation_shows_as_an_alias(ipu: jax.Device) -> None:
    with jax.default_device(ipu):
        compiled = jax.jit(lambda x: x + 1, donate_argnums=0).lower(SHAPE).compile()
    assert compiled.memory_analysis().alias_size_in_bytes == 4 * 64 * 64


def test_the_program_can_be_read(compiled: Any) -> None:
    text = compiled.as_text()
    assert text.startswith("HloModule jit_model")
    assert "tanh" in text


def test_lowered_text_is_stablehlo(ipu: jax.Device) -> None:
    with jax.default_device(ipu):
        assert "stablehlo.tanh" in jax.jit(model).lower(SHAPE, SHAPE).as_text()


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
