"""Small arrays as one: what goes together, and that it comes back as it was."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tilestep.train.pipeline.compile.packing import packed, unpacked


def leaves() -> list[Any]:
    big = jnp.arange(5000, dtype=jnp.float32)  # 20,000 B
    return [
        jnp.arange(6, dtype=jnp.float32).reshape(2, 3),
        big,
        jnp.float32(7),
        jnp.arange(4, dtype=jnp.int32),
        jnp.zeros((0, 3)),
        jnp.array([True, False]),
        jnp.int32(3),
        jax.random.key(0),
        jnp.full((3,), 1.5, jnp.bfloat16),
    ]


def assert_same(found: list[Any], expected: list[Any]) -> None:
    for a, b in zip(found, expected, strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        if not jax.dtypes.issubdtype(b.dtype, jax.dtypes.prng_key):
            np.testing.assert_array_equal(a, b)


@pytest.mark.slow
def test_small_arrays_of_a_kind_are_one_and_come_back_as_they_were() -> None:
    values = leaves()
    packing = packed(values)
    assert packing.alone == (1, 5, 7, 8)  # large, the only bool, a random key, the only one of bfloat16
    assert packing.packs == ((0, 2, 4), (3, 6))
    arrays = packing.pack(values)
    assert [leaf.shape for leaf in arrays] == [(5000,), (2,), (), (3,), (7,), (5,)]
    assert_same(packing.unpack(arrays), values)
    assert_same(jax.jit(lambda own: packing.unpack(packing.pack(own)))(values), values)


def test_what_is_named_stays_by_itself() -> None:
    packing = packed(leaves(), but={0, 3})
    assert packing.alone == (0, 1, 3, 5, 6, 7, 8)
    assert packing.packs == ((2, 4),)


def test_gradients_get_the_dtype_of_what_they_are_added_to() -> None:
    packing = packed([jax.ShapeDtypeStruct((2,), np.float32), jax.ShapeDtypeStruct((), np.float32)])
    (pack,) = packing.pack([jnp.ones(2, jnp.float16), jnp.float32(2)])
    assert pack.dtype == np.float32
    assert pack.tolist() == [1, 1, 2]


def test_unpacked_arrays_stay_as_they_are() -> None:
    values = leaves()
    packing = unpacked(values)
    assert all(a is b for a, b in zip(packing.pack(values), values, strict=True))
    assert all(a is b for a, b in zip(packing.unpack(values), values, strict=True))
