"""Arrays on their way to devices, by what JAX's `device_put` calls and by itself."""

from typing import Any

import jax
import numpy as np
import pytest

from tilestep.train import InfeedQueue, repeat
from tilestep.train.jax_private import device_put
from tilestep.train.pipeline.run.batches import Stacked


@pytest.mark.slow
@pytest.mark.parametrize("private", [True, False])
def test_values_of_all_kinds_are_copied_as_device_put_does(private: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    assert device_put.FOUND is not None  # this version of JAX has it
    if not private:
        monkeypatch.setattr(device_put, "FOUND", None)
    one, two = (jax.sharding.SingleDeviceSharding(device) for device in jax.devices()[:2])
    both = jax.sharding.NamedSharding(jax.make_mesh((2,), ("x",)), jax.sharding.PartitionSpec("x"))
    on_one = jax.device_put(np.arange(4, dtype=np.float32), one)
    divided, hosted = jax.device_put(np.arange(4), both), jax.device_put(on_one, one.with_memory_kind("pinned_host"))
    for values, places in (
        ([on_one, on_one * 2], [two, one]),
        ([on_one, np.ones(3, np.int32)], [two, two]),
        ([on_one], [both]),
        ([divided, on_one], [one, two]),
        ([hosted], [two]),
        ([], []),
    ):
        found, expected = device_put.copied(values, places), jax.device_put(values, places)
        for a, b, place in zip(found, expected, places, strict=True):
            np.testing.assert_array_equal(a, b)
            assert a.sharding == b.sharding == place
            assert a.committed


def test_a_divided_value_stays_divided_on_another_mesh_of_the_same_axes() -> None:
    def over(devices: list[int], *axes: str, **names: int) -> jax.sharding.NamedSharding:
        mesh = jax.sharding.Mesh(np.array([jax.devices()[index] for index in devices]).reshape(*names.values()), tuple(names))
        return jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*axes))

    value = jax.device_put(np.arange(8).reshape(2, 4), over([0, 1], "x", x=2))
    for target, spec in (
        (over([1, 2], x=2), ("x",)),  # all of it goes to each device: its parts do
        (over([0, 1], x=2), ()),  # on its own devices it becomes whole
        (over([1, 2], None, "x", x=2), (None, "x")),
        (over([1, 2], y=2), ()),
        (over([0, 1, 2], x=3), ()),
    ):
        (found,) = device_put.copied([value], [target])
        assert found.sharding.is_equivalent_to(jax.sharding.NamedSharding(target.mesh, jax.sharding.PartitionSpec(*spec)), 2)
        np.testing.assert_array_equal(found, value)
    both = jax.device_put(np.arange(8).reshape(2, 4), over([0, 1, 2, 3], "r", "x", r=2, x=2))
    (found,) = device_put.copied([both], [over([3, 2, 1, 0], "r", r=2, x=2)])
    assert found.sharding.spec == jax.sharding.PartitionSpec("r", "x")


@pytest.mark.parametrize("private", [True, False])
def test_what_is_put_from_the_host_is_as_device_put_has_it(private: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not private:
        monkeypatch.setattr(device_put, "FOUND", None)
    arrays: list[Any] = [np.arange(6, dtype=np.float32).reshape(2, 3), np.ones((), np.bool_), np.zeros((0, 4), np.int8)]
    for kind in (None, "pinned_host"):
        place = jax.sharding.SingleDeviceSharding(jax.devices()[1], memory_kind=kind)
        for found, expected in zip(device_put.put(arrays, place), jax.device_put(arrays, place), strict=True):
            np.testing.assert_array_equal(found, expected)
            assert (found.dtype, found.sharding, found.committed) == (expected.dtype, place, True)
    with jax.enable_x64(True):
        (wide,) = device_put.put([np.array([2.0**60 + 2**20])], jax.sharding.SingleDeviceSharding(jax.devices()[0]))
        assert wide.dtype == np.float64
        assert float(wide[0]) == 2.0**60 + 2**20


def test_a_batch_of_doubles_is_one_of_floats_on_a_device_without_64_bit_types() -> None:
    batch = Stacked(np.ones((2, 3)), 2, ()).whole(jax.sharding.SingleDeviceSharding(jax.devices()[0]))
    assert [leaf.dtype for leaf in jax.tree.leaves(batch)] == [np.float32]


def test_shapes_are_not_remembered_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_put, "MOST_KINDS", 2)
    place = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    for size in (1, 2, 3, 1):
        assert device_put.put([np.zeros(size)], place)[0].shape == (size,)


@pytest.mark.parametrize("level", ["disallow", "log", "disallow_explicit"])
def test_a_transfer_guard_takes_them_for_what_the_program_asks_for(level: str) -> None:
    one, two = (jax.sharding.SingleDeviceSharding(device) for device in jax.devices()[:2])
    (on_one,) = device_put.put([np.ones(3, np.float32)], one)
    with jax.transfer_guard(level):
        if level == "disallow_explicit":
            with pytest.raises(jax.errors.JaxRuntimeError, match="host-to-device"):
                device_put.put([np.ones(3, np.float32)], one)
            with pytest.raises(jax.errors.JaxRuntimeError, match="device-to-device"):
                device_put.copied([on_one], [two])
        else:
            device_put.put([np.ones(3, np.float32)], one)
            device_put.copied([on_one], [two])
    with jax.transfer_guard("disallow"), pytest.raises(jax.errors.JaxRuntimeError, match="host-to-device"):
        jax.jit(lambda x: x)(np.ones(3, np.float32))  # what is not asked for stays forbidden


def test_a_queue_may_name_its_device() -> None:
    device = jax.devices()[1]
    with InfeedQueue([np.full(2, k, np.float32) for k in range(4)], sharding=device) as queue:
        total = repeat(4, lambda total, x: total + x.sum(), jax.device_put(np.float32(0), device), queue)
    assert float(total) == 12
    assert total.devices() == {device}
