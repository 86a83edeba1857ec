"""What JAX's own tests ask of CPU by its name, or of a device that is no CPU, and a plugin does not have by itself."""

import threading
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export, lax
from jax.experimental import serialize_executable

from tests.processes import python

X = np.arange(16, dtype=np.float32).reshape(4, 4)


def on(device: jax.Device, fn: object) -> jax.Array:
    return jax.jit(fn)(jax.device_put(X, device))  # type: ignore[arg-type]  # any function of one array


@pytest.mark.slow
def test_a_branch_for_cpu_is_taken_where_nothing_else_is_said(ipu: jax.Device) -> None:
    def once(x: jax.Array) -> jax.Array:
        return x + 1

    def twice(x: jax.Array) -> jax.Array:
        return 2 * x

    np.testing.assert_array_equal(on(ipu, lambda x: lax.platform_dependent(x, cpu=once, tpu=twice)), X + 1)
    np.testing.assert_array_equal(on(ipu, lambda x: lax.platform_dependent(x, cpu=once, default=twice)), 2 * X)
    np.testing.assert_array_equal(on(ipu, lambda x: lax.platform_dependent(x, cpu=once, ipu=twice)), 2 * X)
    slope = jax.vmap(jax.vmap(jax.grad(lambda x: lax.platform_dependent(x, tpu=once, cpu=jnp.square))))
    np.testing.assert_array_equal(on(ipu, slope), 2 * X)
    with pytest.raises(NotImplementedError, match="not found for platform ipu"):
        on(ipu, lambda x: lax.platform_dependent(x, cuda=once, tpu=twice))


@pytest.mark.parametrize("platforms", [("cpu",), ("tpu", "cpu")])
def test_a_program_exported_for_cpu_runs(ipu: jax.Device, platforms: tuple[str, ...]) -> None:
    def by_platform(x: jax.Array) -> jax.Array:
        return lax.platform_dependent(x @ x, cpu=jnp.sin, tpu=jnp.cos)

    there = export.deserialize(export.export(jax.jit(by_platform), platforms=platforms)(X).serialize())
    np.testing.assert_array_equal(on(ipu, there.call), on(jax.devices("cpu")[0], by_platform))
    for_tpu = export.export(jax.jit(jnp.sin), platforms=("tpu",))(X)
    with pytest.raises(ValueError, match="exported for platforms"):
        on(ipu, for_tpu.call)


@pytest.mark.slow
def test_reading_is_a_transfer_that_jax_can_forbid(ipu: jax.Device) -> None:
    made = on(ipu, lambda x: x + 1)
    read = on(ipu, lambda x: x + 2)
    np.asarray(read)
    with jax.transfer_guard_device_to_host("disallow"):
        with pytest.raises(jax.errors.JaxRuntimeError, match="Disallowed device-to-host transfer"):
            np.asarray(made)
        np.testing.assert_array_equal(np.asarray(read), X + 2)  # it came before
        np.testing.assert_array_equal(jax.device_get(on(ipu, lambda x: x + 3)), X + 3)  # asked for by name
        done: list[np.ndarray] = []
        other = threading.Thread(target=lambda: done.append(np.asarray(on(ipu, lambda x: x + 4))))
        other.start()
        other.join()
        np.testing.assert_array_equal(done[0], X + 4)  # another thread is free
    with jax.transfer_guard("disallow_explicit"), pytest.raises(jax.errors.JaxRuntimeError, match="Disallowed device-to-host transfer"):
        jax.device_get(made)


@pytest.mark.slow
def test_linear_algebra_outlives_its_process(ipu: jax.Device, tmp_path: Path) -> None:
    """Who did not lower it has not told XLA where LAPACK is: XLA would jump to address 0."""
    factor = jax.jit(lambda x: jnp.linalg.cholesky(x @ x.T + jnp.eye(4)))
    made = factor.lower(jax.device_put(X, ipu)).compile()
    (tmp_path / "program").write_bytes(serialize_executable.serialize(made)[0])
    (tmp_path / "exported").write_bytes(export.export(factor, platforms=("ipu",))(X).serialize())
    np.save(tmp_path / "values.npy", made(X))
    python(
        """
        import jax, numpy as np
        from jax import export
        from jax.experimental import serialize_executable
        x, expected = np.arange(16, dtype=np.float32).reshape(4, 4), np.load("values.npy")
        tree = jax.tree.structure(((x,), {})), jax.tree.structure(x)
        program = serialize_executable.deserialize_and_load(open("program", "rb").read(), *tree, execution_devices=jax.devices()[:1])
        np.testing.assert_array_equal(program(x), expected)
        np.testing.assert_array_equal(jax.jit(export.deserialize(open("exported", "rb").read()).call)(x), expected)
        """.replace('"values.npy"', repr(str(tmp_path / "values.npy")))
        .replace('"program"', repr(str(tmp_path / "program")))
        .replace('"exported"', repr(str(tmp_path / "exported"))),
        JAX_PLATFORMS="ipu,cpu",
    )
