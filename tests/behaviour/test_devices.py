"""What the devices, their memories and transfers between them look like to a program."""

import functools
import gc

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, SingleDeviceSharding
from jax.sharding import PartitionSpec as P

import tilestep

MEMORIES = ("device", "pinned_host", "unpinned_host")


def on(device: jax.Device, kind: str) -> SingleDeviceSharding:
    return SingleDeviceSharding(device, memory_kind=kind)


def test_device_says_what_it_is(ipus: list[jax.Device]) -> None:
    """Figures of the Bow IPU: 1,472 tiles of 624 KiB and 6 workers at 1.85 GHz (Graphcore, Bow-2000 datasheet)."""
    device = ipus[1]
    assert repr(device) == "IpuDevice(id=1, num_tiles=1472, version=ipu2)"
    assert (device.platform, device.device_kind, device.id) == ("ipu", "Graphcore-IPUModel", 1)
    assert (device.num_tiles, device.bytes_per_tile, device.num_worker_contexts) == (1472, 638_976, 6)
    assert device.tile_clock_frequency == 1.85e9
    assert device.target_type == "IPU_MODEL"
    assert (device.process_index, device.local_hardware_id) == (0, 1)
    assert device.client.platform == "ipu"


def test_device_has_its_memories(ipu: jax.Device) -> None:
    assert {memory.kind for memory in ipu.addressable_memories()} == set(MEMORIES)
    assert ipu.default_memory().kind == "device"


@pytest.mark.parametrize("source", MEMORIES)
@pytest.mark.parametrize("target", MEMORIES)
def test_values_move_between_memories(ipu: jax.Device, source: str, target: str) -> None:
    there = jax.device_put(np.arange(6.0), on(ipu, source))
    moved = jax.device_put(there, on(ipu, target))
    assert (there.sharding.memory_kind, moved.sharding.memory_kind) == (source, target)
    np.testing.assert_array_equal(moved, np.arange(6.0))


@pytest.mark.parametrize("kind", ["pinned_host", "unpinned_host"])
def test_programs_of_several_ipus_use_host_memory(ipus: list[jax.Device], kind: str) -> None:
    on_chip = NamedSharding(Mesh(np.array(ipus), ("i",)), P("i"))
    parked = jax.device_put(np.arange(8, dtype=np.float32), on_chip.with_memory_kind(kind))
    beside = jax.device_put(np.ones(8, np.float32), on_chip)
    result = jax.jit(lambda x, y: jax.device_put(x, on_chip) * 2 + y)(parked, beside)
    assert result.sharding.memory_kind == "device"
    np.testing.assert_array_equal(result, np.arange(8) * 2 + 1)


@pytest.mark.slow
def test_memory_stats_follow_the_arrays(ipus: list[jax.Device]) -> None:
    device = ipus[3]
    gc.collect()
    before = device.memory_stats()
    assert before["bytes_limit"] == device.num_tiles * device.bytes_per_tile
    held = jax.device_put(np.ones(1_000_000, np.float32), device).block_until_ready()
    during = device.memory_stats()["bytes_in_use"]
    assert during - before["bytes_in_use"] >= 4_000_000
    assert device.memory_stats()["peak_bytes_in_use"] >= during
    del held
    gc.collect()
    assert device.memory_stats()["bytes_in_use"] == before["bytes_in_use"]


def test_arrays_move_between_ipus_and_cpu(ipus: list[jax.Device], cpu: jax.Device) -> None:
    values = np.arange(12, dtype=np.float32).reshape(3, 4)
    at = jax.device_put(values, cpu)
    for device in (ipus[0], ipus[3], cpu, ipus[2], ipus[1], cpu):
        at = jax.device_put(at, device)
        assert at.devices() == {device}
        np.testing.assert_array_equal(at, values)


def test_arrays_are_read_without_a_copy(ipu: jax.Device) -> None:
    """np.asarray and the buffer protocol give the memory of the value itself."""
    array = jax.device_put(np.arange(1000, dtype=np.float32), ipu).block_until_ready()
    address = array.addressable_data(0).unsafe_buffer_pointer()
    assert np.asarray(array).ctypes.data == address
    view = memoryview(array)
    assert (view.readonly, view.shape, view.format) == (True, (1000,), "=f")
    assert np.asarray(view).ctypes.data == address


@pytest.mark.slow
def test_dlpack_hands_over_the_memory_itself(ipu: jax.Device, cpu: jax.Device) -> None:
    for size in (3, 1000):
        array = jax.device_put(np.arange(size, dtype=np.float32), ipu) * 2
        address = array.unsafe_buffer_pointer()
        taken = np.from_dlpack(array)
        assert taken.ctypes.data == address
        assert np.from_dlpack(array, copy=True).ctypes.data != address
        there = jnp.from_dlpack(array)
        assert (there.devices(), there.unsafe_buffer_pointer()) == ({cpu}, address)
        del array  # the memory lives as long as somebody holds it
        gc.collect()
        np.testing.assert_array_equal(taken, np.arange(size) * 2)
        np.testing.assert_array_equal(there, np.arange(size) * 2)
        assert jnp.from_dlpack(np.arange(size), device=ipu).devices() == {ipu}


def test_dlpack_takes_one_ipu_s_arrays_only(ipus: list[jax.Device]) -> None:
    spread = jax.device_put(np.zeros(8, np.float32), NamedSharding(Mesh(np.array(ipus), ("i",)), P("i")))
    with pytest.raises(BufferError, match="array with a Sharding over 4 devices"):
        np.from_dlpack(spread)


def test_a_donated_array_that_dlpack_shares_keeps_its_values(ipu: jax.Device) -> None:
    array = jax.device_put(np.ones(1000, np.float32), ipu)
    taken = np.from_dlpack(array)
    result = jax.jit(lambda x: x + 1, donate_argnums=0)(array)
    assert (taken.sum(), result.sum()) == (1000, 2000)


def test_sharded_arrays_lie_where_they_were_put(ipus: list[jax.Device]) -> None:
    mesh = Mesh(np.array(ipus).reshape(2, 2), ("a", "b"))
    values = np.arange(32, dtype=np.float32).reshape(4, 8)
    array = jax.device_put(values, NamedSharding(mesh, P("b", "a")))
    assert {shard.device for shard in array.addressable_shards} == set(ipus)
    for shard in array.addressable_shards:
        np.testing.assert_array_equal(shard.data, values[shard.index])
    again = jax.device_put(array, NamedSharding(mesh, P(None, ("a", "b"))))
    np.testing.assert_array_equal(again, values)
    np.testing.assert_array_equal(jax.device_put(again, ipus[2]), values)


@pytest.mark.parametrize("shardy", [True, False])
def test_jit_over_a_mesh_with_either_partitioner(ipus: list[jax.Device], shardy: bool) -> None:
    before = jax.config.jax_use_shardy_partitioner
    jax.config.update("jax_use_shardy_partitioner", shardy)
    try:
        mesh = Mesh(np.array(ipus), ("i",))
        split = NamedSharding(mesh, P("i"))
        x = jax.device_put(np.arange(32, dtype=np.float32).reshape(8, 4), split)
        result = jax.jit(lambda v: v @ v.T, out_shardings=split)(x)
        assert result.sharding == split
        np.testing.assert_allclose(result, np.asarray(x) @ np.asarray(x).T)
    finally:
        jax.config.update("jax_use_shardy_partitioner", before)


def test_loops_in_a_shard_map_inside_of_another_are_counted_on_each_device(ipus: list[jax.Device]) -> None:
    """Device k makes n (k + 1) trips; the slowest one's count, so that n adds 4 trips each time."""
    mesh = Mesh(np.array(ipus[:4]).reshape(2, 2), ("x", "y"))

    @jax.jit
    @functools.partial(jax.shard_map, mesh=mesh, in_specs=(P("x"), P()), out_specs=P("x"), axis_names={"x"}, check_vma=False)
    def outer(x: jax.Array, n: jax.Array) -> jax.Array:
        @functools.partial(jax.shard_map, in_specs=(P("y"), P()), out_specs=P("y"), axis_names={"y"}, check_vma=False)
        def inner(x: jax.Array, n: jax.Array) -> jax.Array:
            place = 2 * jax.lax.axis_index("x") + jax.lax.axis_index("y")
            return jax.lax.fori_loop(0, n * (place + 1), lambda _, v: v + 1, x)

        return inner(x, n)

    def compute_cycles(n: int) -> int:
        with tilestep.profile() as profile:
            values = outer(jnp.zeros(8), jnp.int32(n))
            assert values.tolist() == [n, n, 2 * n, 2 * n, 3 * n, 3 * n, 4 * n, 4 * n]
        (program,) = (p for p in profile.programs if p.name == "jit_outer")
        return program.cycles.compute

    none, one, two, four = (compute_cycles(n) for n in (0, 1, 2, 4))
    assert none < one
    assert (one - none) * 2 == two - none
    assert (one - none) * 4 == four - none


DELETED = "argument 0 was deleted or donated before|Array has been deleted"


@pytest.mark.slow
def test_values_over_several_ipus_stay_whole_until_somebody_wants_a_part(ipus: list[jax.Device]) -> None:
    """What a run makes goes into the next one undivided; whoever wants parts, subsets or another order, deletes or donates, finds them."""
    mesh = Mesh(np.array(ipus), ("i",))
    spread = NamedSharding(mesh, P("i"))
    step = jax.jit(lambda x: x + 1)
    taken = jax.jit(lambda x: x * 2, donate_argnums=0)
    numbers = np.arange(4.0 * len(ipus), dtype=np.float32)
    first = jax.device_put(numbers, spread)
    x = first
    for _ in range(5):
        x = step(x)
    part = x.addressable_shards[1].data  # taken out of the whole
    np.testing.assert_array_equal(part, numbers[4:8] + 5)
    y = step(x)  # of which one part was taken out
    np.testing.assert_array_equal(y, numbers + 6)
    backwards = NamedSharding(Mesh(np.array(ipus[::-1]), ("i",)), P("i"))
    np.testing.assert_array_equal(step(jax.device_put(y, backwards)), numbers + 7)
    two = NamedSharding(Mesh(np.array(ipus[:2]), ("i",)), P("i"))
    halves = jax.make_array_from_single_device_arrays((8,), two, [shard.data for shard in y.addressable_shards[:2]])
    np.testing.assert_array_equal(step(halves), numbers[:8] + 7)

    doubled = taken(y)
    assert y.is_deleted()
    assert halves.is_deleted()  # their memory is the same
    np.testing.assert_array_equal(doubled, 2 * (numbers + 6))
    with pytest.raises((ValueError, RuntimeError), match=DELETED):  # newer JAX asks first; older on its CPU platform ends in a signal
        step(y)
    again = step(first)
    again.addressable_shards[0].data.delete()
    with pytest.raises((ValueError, RuntimeError), match=DELETED):
        step(again)
    np.testing.assert_array_equal(step(first), numbers + 1)  # joined before, and again
    np.testing.assert_array_equal(part, numbers[4:8] + 5)
