"""Donation is residency: what is donated stays in SRAM, what is not streams in and out at every call."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest


def values(*shape: int, by: float = 1.0) -> np.ndarray:
    return (np.arange(np.prod(shape), dtype=np.float32) * by).reshape(shape)


@pytest.fixture(autouse=True)
def default_ipu(ipu: jax.Device) -> Any:
    with jax.default_device(ipu):
        yield


DONATIONS: tuple[tuple[str, Callable[..., Any], tuple[int, ...]], ...] = (
    ("the last", lambda a, b, c: (a.sum(), c + 1), (2,)),
    ("all, in order", lambda a, b, c: (a + 1, b + 2, c + 3), (0, 1, 2)),
    ("the first only", lambda a, b, c: (a + b, c.sum()), (0,)),
    ("to another place", lambda a, b, c: (b.sum(), c + a), (0,)),
    ("interleaved", lambda a, b, c: (a + b, c * b), (0, 2)),
    ("crossed", lambda a, b, c: (c + 1, b + 1, a + 1), (0, 2)),
    ("one of a pytree", lambda a, b, c: {"x": a + c, "y": b.sum()}, (1,)),
)


@pytest.mark.slow
@pytest.mark.parametrize(("fn", "donated"), [case[1:] for case in DONATIONS], ids=[case[0] for case in DONATIONS])
def test_donation_in_any_order(fn: Callable[..., Any], donated: tuple[int, ...]) -> None:
    """The six orders, those included that the reference system refused."""
    arguments = [values(8, 16, by=k + 1) for k in range(3)]
    expected = jax.tree.map(np.asarray, jax.jit(fn)(*arguments))
    placed = [jnp.asarray(a) for a in arguments]
    result = jax.jit(fn, donate_argnums=donated)(*placed)
    for ours, theirs in zip(jax.tree.leaves(result), jax.tree.leaves(expected), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    taken = sum(leaf.shape == (8, 16) for leaf in jax.tree.leaves(result))
    assert [placed[k].is_deleted() for k in donated].count(True) == min(taken, len(donated))
    assert not any(placed[k].is_deleted() for k in range(3) if k not in donated)


def test_inputs_of_numpy_are_untouched() -> None:
    mine = values(16)
    jax.jit(lambda x: x * 5, donate_argnums=0)(mine).block_until_ready()
    np.testing.assert_array_equal(mine, values(16))


def test_a_donated_array_is_deleted() -> None:
    """Deletion follows JAX."""
    x = jnp.asarray(values(16))
    y = jax.jit(lambda v: v + 1, donate_argnums=0)(x)
    assert x.is_deleted()
    with pytest.raises(RuntimeError, match="deleted"):
        np.asarray(x)
    with pytest.raises((RuntimeError, ValueError), match="deleted"):
        jax.jit(lambda v: v + 1)(x)
    np.testing.assert_array_equal(y, values(16) + 1)
