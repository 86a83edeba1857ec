"""`recompute=`: the same values, and less memory."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.ad_checkpoint import checkpoint_name

from tilestep.train import OutfeedQueue, recomputed, repeat

WAYS: dict[str, Any] = {
    "full": "full",
    "policy": jax.checkpoint_policies.dots_saveable,
    "names": ("hidden",),
}
LAYERS, WIDTH = 3, 32


def weights(layers: int = LAYERS) -> Any:
    return jnp.asarray(np.random.default_rng(0).normal(size=(layers, WIDTH, WIDTH)) / WIDTH**0.5, jnp.float32)


def layer(weight: Any, x: Any, key: Any) -> Any:
    """With dropout, whose numbers must be the same when they are drawn again."""
    hidden = checkpoint_name(jnp.tanh(x @ weight), "hidden")
    return jnp.where(jax.random.bernoulli(key, 0.8, x.shape), hidden / 0.8, 0) + jnp.sin(hidden)


def loss(weights: Any, x: Any, key: Any, layer: Any = layer) -> Any:
    for weight, number in zip(weights, jax.random.split(key, len(weights)), strict=True):
        x = layer(weight, x, number)
    return jnp.mean(x**2)


def loss_by_layers(way: Any = "as the loop says") -> Any:
    """The loss, whose layers are recomputed each by itself."""
    return functools.partial(loss, layer=recomputed(layer, way))


ELEMENT = jnp.asarray(np.random.default_rng(1).normal(size=(8, WIDTH)), jnp.float32), jax.random.key(0)


@pytest.fixture(scope="module")
def plain() -> Any:
    return jax.jit(jax.grad(loss))(weights(), *ELEMENT)


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_values_are_the_same(way: str, plain: jax.Array) -> None:
    found = jax.jit(jax.grad(loss_by_layers(WAYS[way])))(weights(), *ELEMENT)
    rounding = 1e-5 * float(jnp.abs(plain).max())  # of sums whose terms are as large; another mask moves them by a tenth and more
    np.testing.assert_allclose(found, plain, rtol=0, atol=rounding)


def kept(way: Any) -> int:
    """How many activations the backward pass gets from the forward pass; the argument is one, too."""
    kinds = jax.eval_shape(lambda *args: jax.tree.leaves(jax.vjp(loss_by_layers(way), *args)[1]), weights(), *ELEMENT)
    return sum(kind.shape == ELEMENT[0].shape for kind in kinds)


def test_what_is_kept_is_what_was_asked_for() -> None:
    assert kept("full") == LAYERS + 1  # the layers' arguments, and the last one's result
    assert kept(("hidden",)) == 2 * LAYERS + 1
    assert kept(None) > 3 * LAYERS + 1


def test_a_loop_with_nothing_to_recompute_says_so() -> None:
    with pytest.raises(ValueError, match=r"recompute is \('nothing',\), but the loop's body lambda calls nothing to recompute: "):
        repeat(2, lambda c: c + 1, 0, recompute=("nothing",))


def test_it_says_so_whatever_other_loops_recompute() -> None:
    @recomputed
    def marked(c: Any) -> Any:
        return jnp.sin(c)

    repeat(2, lambda c: c - jax.grad(marked)(c), 0.5, recompute="full")
    for _ in range(2):
        with pytest.raises(ValueError, match="recompute is 'full', but the loop's body lambda calls nothing to recompute"):
            repeat(2, lambda c: c - jax.grad(jnp.sin)(c), 0.5, recompute="full")


def test_a_mark_in_what_jax_has_traced_before_is_found() -> None:
    outfeed = OutfeedQueue()

    @jax.jit
    def gradient(c: Any) -> Any:
        return jax.grad(recomputed(jnp.sin))(c)

    def body(c: Any) -> Any:
        outfeed.enqueue(c)
        return c - gradient(c)

    found = [repeat(3, lambda c: body(c), 0.5, outfeed=outfeed, recompute="full") for _ in range(2)]
    assert outfeed.dequeue().shape == (6,)
    assert float(found[0]) == float(found[1]) == float(repeat(3, body, 0.5, outfeed=outfeed))


def test_marking_a_part_compiles_nothing_anew() -> None:
    traced: list[int] = []

    @jax.jit
    def doubled(x: Any) -> Any:
        traced.append(1)
        return 2 * x

    doubled(np.float32(1))
    recomputed(layer)
    doubled(np.float32(1))
    assert len(traced) == 1
