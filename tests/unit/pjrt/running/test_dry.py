"""Arrays of dry runs over several IPUs: one object, taken apart where somebody asks."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

import tilestep
from tilestep.pjrt.running.dry import DryArray, DryForm, DryMode


def test_a_result_of_several_devices_is_taken_apart_once_and_deleted_with_its_parts() -> None:
    whole = DryArray(DryForm((2, 3), np.dtype(np.float32), DryMode(values="zeros")), 4)
    first, *others = whole._arrays
    assert len(others) == 3
    assert whole._arrays[0] is first
    assert (first.shape, first.dtype, first.ndim, first.__array__().sum()) == ((2, 3), np.float32, 2, 0)
    first.delete()
    assert not any(part.is_deleted() for part in (*others, whole))
    whole.delete()
    assert all(part.is_deleted() for part in others)


def test_shards_of_a_dry_result_are_arrays_of_their_own() -> None:
    devices = jax.devices("ipu")[:4]
    sharding = NamedSharding(jax.sharding.Mesh(np.array(devices), ("x",)), P("x"))
    add = jax.jit(lambda x, y: (x + 1, x + y), donate_argnums=0)
    with tilestep.dry_run("zeros"):
        x, y = (jax.device_put(jnp.zeros((8, 2), device=devices[0]), sharding) for _ in range(2))
        kept, other = add(x, y)
        assert x.is_deleted()
        assert not y.is_deleted()
        with pytest.raises((ValueError, RuntimeError), match=r"argument 0 was deleted|Array has been deleted"):  # by JAX 0.12
            add(x, y)
        again, _ = add(kept, y)  # y was joined by the first run
        assert kept.is_deleted()
        assert [shard.data.shape for shard in again.addressable_shards] == [(2, 2)] * 4
        assert not again.addressable_shards[3].data.is_deleted()
        assert np.asarray(other).shape == (8, 2)
        moved = jax.device_put(again.addressable_shards[2].data, devices[0])
        assert moved.shape == (2, 2)
        add(again, y)
        assert again.is_deleted()
