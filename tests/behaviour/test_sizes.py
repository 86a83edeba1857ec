"""Many devices, large arrays, many arguments, many arrays, none of anything, and arrays that lie otherwise."""

import jax
import numpy as np
import pytest
from jax.experimental.layout import Format, Layout
from jax.sharding import SingleDeviceSharding

from tests import processes
from tests.in_turn import python


def test_256_devices_in_one_process() -> None:
    python(
        """
        import jax, jax.numpy as jnp, numpy as np, tilestep
        from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
        devices = jax.devices("ipu")
        assert len(devices) == 256
        n = np.arange(1024, dtype=np.float32)

        rows = NamedSharding(Mesh(np.array(devices), ("i",)), P("i"))
        grid = Mesh(np.array(devices).reshape(16, 16), ("a", "b"))
        x = jax.device_put(n.reshape(256, 4), rows)
        with tilestep.profile() as profile:
            result = jax.jit(lambda v: (v * 2 + 1, jnp.sum(v), v @ v.T), out_shardings=(rows, None, rows))(x)
            np.testing.assert_array_equal(result[0], n.reshape(256, 4) * 2 + 1)
            assert result[1] == n.sum()
            np.testing.assert_allclose(result[2], n.reshape(256, 4) @ n.reshape(256, 4).T)
        assert {shard.device for shard in result[0].addressable_shards} == set(devices)
        assert profile.machine.num_ipus == 256

        def both(v):
            return jax.lax.psum(v, ("a", "b")), jax.lax.psum(v, "a")
        over = jax.shard_map(both, mesh=grid, in_specs=P(("a", "b")), out_specs=(P(), P("b")))
        everything, columns = jax.jit(over)(n)
        np.testing.assert_array_equal(everything, n.reshape(256, 4).sum(0))
        np.testing.assert_array_equal(columns, n.reshape(16, 64).sum(0))

        ring = [(i, (i + 1) % 256) for i in range(256)]
        passed = jax.pmap(lambda v: jax.lax.ppermute(v, "i", ring), axis_name="i", devices=devices)(n.reshape(256, 4))
        np.testing.assert_array_equal(passed, np.roll(n.reshape(256, 4), 1, axis=0))
        """,
        TILESTEP_MACHINE="bow-pod256",
    )


@pytest.mark.slow
def test_an_array_of_2_gib() -> None:
    """More bytes than 32 bits with a sign count; put, computed with, copied, read, each at both ends."""
    processes.python(
        """
        import jax, jax.numpy as jnp, numpy as np
        ipu, other = jax.devices("ipu")[:2]
        count = 1 << 29
        host = np.arange(count, dtype=np.uint32)
        x = jax.device_put(host, ipu)
        del host
        step = jax.jit(lambda x: x + 1, donate_argnums=0).lower(x).compile(compiler_options={"ipu_allow_out_of_memory": True})
        y = step(x)
        assert x.is_deleted() and y.nbytes == 1 << 31
        z = jax.device_put(y, other)
        del y
        read = np.asarray(z)
        assert (read[:3].tolist(), read[-2:].tolist()) == ([1, 2, 3], [count - 1, count])
        assert int(read[count // 2]) == count // 2 + 1
        assert other.memory_stats()["bytes_in_use"] == 1 << 31
        """
    )


LAYOUTS = [(1, 0, 2), (2, 1, 0), (0, 2, 1)]


@pytest.mark.slow
@pytest.mark.parametrize("order", LAYOUTS, ids=str)
def test_arrays_that_lie_otherwise(ipus: list[jax.Device], order: tuple[int, ...]) -> None:
    """Put, made, taken, donated, copied, read; and as the program itself wants them."""
    values = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    turned = Format(Layout(major_to_minor=order), SingleDeviceSharding(ipus[0]))
    put = jax.device_put(values, turned)
    made = jax.jit(lambda v: v * 2, in_shardings=turned, out_shardings=turned)(put)
    for array, expected in ((put, values), (made, values * 2)):
        assert array.format.layout.major_to_minor == order
        np.testing.assert_array_equal(array, expected)
        np.testing.assert_array_equal(np.asarray(jax.device_put(array, ipus[1])), expected)
        assert array[1, 2, 3] == expected[1, 2, 3]
    again = jax.jit(lambda v: v + 1, in_shardings=turned, out_shardings=turned, donate_argnums=0)(made)
    np.testing.assert_array_equal(again, values * 2 + 1)
    np.testing.assert_array_equal(jax.device_put(again, Format(Layout(major_to_minor=(0, 1, 2)), SingleDeviceSharding(ipus[0]))), again)
