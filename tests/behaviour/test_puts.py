"""Values on their way from the host to the machine."""

import jax
import ml_dtypes
import numpy as np
import pytest
from jax._src.lib import _jax

DTYPES = [
    *(np.dtype(name) for name in ["bool", "int8", "int16", "int32", "uint8", "uint16", "uint32", "float16", "float32", "complex64"]),
    *(
        np.dtype(getattr(ml_dtypes, name))
        for name in [
            "bfloat16",
            "float8_e5m2",
            "float8_e4m3fn",
            "float8_e4m3b11fnuz",
            "float8_e5m2fnuz",
            "float8_e4m3fnuz",
            "float8_e4m3",
            "float8_e3m4",
            "float8_e8m0fnu",
            "int2",
            "uint2",
            "int4",
            "uint4",
            "float4_e2m1fn",
        ]
    ),
]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_value_of_any_dtype_shape_and_order_arrives_as_it_is(dtype: np.dtype, ipu: jax.Device) -> None:
    plain = (np.arange(2 * 3 * 1031) % 2).reshape(2, 3, 1031).astype(dtype)
    views = [plain, plain[:, ::-1, ::7], plain.transpose(2, 0, 1), plain[0, 0, 0], plain[:0]]
    for view in views:
        here = jax.device_put(view, ipu)
        assert (here.shape, here.dtype) == (view.shape, dtype)
        np.testing.assert_array_equal(np.asarray(here).astype(np.complex64), view.astype(np.complex64))
        on_host = jax.device_put(here, here.sharding.with_memory_kind("pinned_host"))
        np.testing.assert_array_equal(np.asarray(on_host).astype(np.complex64), view.astype(np.complex64))


@pytest.mark.parametrize("dtype", ["int64", "uint64", "float64", "complex128"])
def test_so_do_those_of_64_bits(dtype: str, ipu: jax.Device) -> None:
    with jax.enable_x64(True):
        value = (np.arange(2**40, 2**40 + 12) / 3).astype(dtype)
        here = jax.device_put(value, ipu)
        assert here.dtype == np.dtype(dtype)
        np.testing.assert_array_equal(np.asarray(here), value)


def test_jax_counts_a_put_as_it_does_on_cpu(ipu: jax.Device, cpu: jax.Device) -> None:
    """What the platform does inside leaves JAX's own figures alone."""
    value = np.arange(8)

    def counted(device: jax.Device) -> dict[str, int]:
        before = _jax.get_internal_device_put_info()
        jax.device_put(value, device).block_until_ready()
        after = _jax.get_internal_device_put_info()
        return {name: after[name] - before[name] for name in after}

    on_cpu = counted(cpu)
    assert sum(on_cpu.values()) > 0
    assert counted(ipu) == on_cpu


@pytest.mark.slow
def test_what_was_put_is_the_machines_own(ipu: jax.Device) -> None:
    """A large value and a small one: neither sees the host's array change, nor does the host's array see a donation."""
    for size in (4, 2_000_000):
        value = np.ones(size, np.float32)
        here = jax.device_put(value, ipu)
        value[:] = 2
        assert float(here[-1]) == 1
        there = jax.jit(lambda x: x + 4, donate_argnums=0)(here)
        assert here.is_deleted()
        assert (float(there[0]), float(value[0])) == (5, 2)


def test_memory_that_a_value_leaves_serves_the_next_of_its_size_and_no_other_that_lives(ipu: jax.Device) -> None:
    rows = [np.full((256, 256), row, np.float32) for row in range(24)]  # 256 KiB each
    kept = [jax.device_put(row, ipu) for row in rows]
    for turn in range(3):
        del kept[turn::4]
        kept += [jax.device_put(np.full((256, 256), 100 + turn, np.float32), ipu) for _ in range(8)]
        rows = [*rows[:turn], *(row for index, row in enumerate(rows[turn:]) if index % 4)]
        rows += [np.full((256, 256), 100 + turn, np.float32)] * 8
        for array, row in zip(kept, rows, strict=True):
            np.testing.assert_array_equal(np.asarray(array), row)
