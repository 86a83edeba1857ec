"""The networks of the benchmarks compute what their names promise."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks.models import cnn, gpt, resnet50, small, transformer
from benchmarks.models.training import accumulated_momentum, cross_entropy, momentum, sgd

TINY_GPT = gpt.Gpt(layers=1, width=8, heads=2, vocabulary=16, context=6)
TINY_BERT = transformer.Encoder(width=8, layers=1, heads=2)


def drawn(shapes: Any, scale: float = 0.3) -> Any:
    """Arrays of these shapes, equal in every run."""
    random = np.random.default_rng(0)
    return jax.tree.map(lambda shape: jnp.asarray((scale * random.standard_normal(shape.shape)).astype(shape.dtype)), shapes)


def test_gpt3_has_175_billion_parameters() -> None:
    assert gpt.GPT3.num_parameters == pytest.approx(175e9, rel=0.003)
    assert jax.tree.structure(gpt.specs()) == jax.tree.structure(gpt.shapes(gpt.GPT3))


def test_a_gpt_does_not_see_the_words_to_come() -> None:
    params = drawn(gpt.shapes(TINY_GPT, jnp.float32))
    words = jnp.asarray([[1, 2, 3, 4, 5, 6]])
    forward = jax.jit(lambda words: gpt.forward(TINY_GPT, params, words))
    before, after = forward(words), forward(words.at[0, 4].set(9))
    np.testing.assert_allclose(before[:, :4], after[:, :4], rtol=1e-5)
    assert not np.allclose(before[:, 4:], after[:, 4:])


def test_a_gpt_learns() -> None:
    params = drawn(gpt.shapes(TINY_GPT, jnp.float32), 0.1)
    zeros = jax.tree.map(np.zeros_like, params)
    words = jnp.asarray([[1, 2, 3, 1, 2, 3, 1]])
    step = jax.jit(lambda state: gpt.train_step(TINY_GPT, state, words))
    state, first = step((params, zeros, zeros))
    _, second = step(state)
    assert second < first


def test_bert_does_not_look_at_hidden_words() -> None:
    params = drawn(transformer.bert_shapes(TINY_BERT, jnp.float32))
    words, segments = jnp.asarray([[1, 2, 3]]), jnp.zeros((1, 3), int)
    mask = jnp.asarray([[1, 1, 0]])
    forward = jax.jit(lambda words: transformer.bert(TINY_BERT, params, words, mask, segments))
    (start, end), (other_start, _) = forward(words), forward(words.at[0, 2].set(7))
    assert start.shape == end.shape == (1, 3)
    np.testing.assert_allclose(start[:, :2], other_start[:, :2], rtol=1e-5)
    assert not np.allclose(start[:, 2], other_start[:, 2])


def test_packed_sequences_do_not_see_each_other() -> None:
    params = drawn(transformer.bert_shapes(TINY_BERT, jnp.float32))
    segments = jnp.zeros((1, 4), int)
    bert = jax.jit(functools.partial(transformer.bert, TINY_BERT))
    alone, _ = bert(params, jnp.asarray([[5, 6]]), jnp.ones((1, 2), int), segments[:, :2])
    packed, _ = bert(params, jnp.asarray([[3, 4, 5, 6]]), jnp.asarray([[1, 1, 2, 2]]), segments, jnp.asarray([[0, 1, 0, 1]]))
    np.testing.assert_allclose(packed[:, 2:], alone, rtol=1e-4, atol=1e-6)


def test_wide_norms_and_gelus_change_no_dtype_outside() -> None:
    model = replace(TINY_BERT, wide=True)
    words = jax.ShapeDtypeStruct((2, 3), jnp.int32)
    start, _ = jax.eval_shape(lambda *a: transformer.bert(model, *a), transformer.bert_shapes(model, jnp.float16), words, words, words)
    assert (start.shape, start.dtype) == ((2, 3), jnp.float16)


@pytest.mark.parametrize("dtype", [jnp.float16, jnp.float32])
def test_classifiers_give_a_logit_per_class(dtype: Any) -> None:
    def logits(forward: Any, shapes: Any, *dims: int, images: Any = dtype) -> Any:
        return jax.eval_shape(forward, shapes, jax.ShapeDtypeStruct((2, *dims), images))

    vit = replace(transformer.VIT_BASE, layers=1)
    found = [
        logits(resnet50.forward, resnet50.shapes(dtype), 224, 224, 3, images=jnp.uint8),
        logits(resnet50.forward, resnet50.shapes(dtype, normalised=True), 224, 224, 3),
        logits(lambda *a: transformer.vit(vit, *a), transformer.vit_shapes(vit, dtype), 224, 224, 3),
        logits(small.resnet18, small.resnet18_shapes(dtype), *small.RESNET18_IMAGE),
    ]
    assert [(each.shape, each.dtype) for each in found] == [((2, 1000), dtype)] * 4
    assert logits(cnn.forward, cnn.shapes(dtype), 128, 128, 1).shape == (2, 10)


def test_a_network_in_8_bit_floats_computes_what_one_in_halves_does() -> None:
    eight = resnet50.shapes(jnp.float16, kernels=jnp.float8_e4m3fnuz, kept=("first_conv", "head"))
    assert eight["head"]["kernel"].dtype == eight["blocks"][0]["expand"]["bias"].dtype == jnp.float16
    block = drawn(eight["blocks"][0], 0.05)
    x = drawn(jax.ShapeDtypeStruct((1, 4, 4, 64), jnp.float16))
    widened = jax.tree.map(lambda leaf: leaf.astype(jnp.float16), block)
    narrow, wide = (resnet50._block(params, x, 1) for params in (block, widened))
    assert narrow.dtype == jnp.float16
    np.testing.assert_allclose(narrow, wide, atol=0.1 * float(np.abs(wide).max()))
    with pytest.raises(ValueError, match="last_conv: no such layer has a name; first_conv, first_shortcut, head have"):
        resnet50.shapes(jnp.float16, kernels=jnp.float8_e4m3fnuz, kept=("last_conv",))


def test_training_steps_are_those_of_the_books() -> None:
    def loss(w: jax.Array, x: jax.Array) -> jax.Array:
        return (w * x).sum()

    w, x = jnp.asarray([1.0, 2.0]), jnp.asarray([3.0, -1.0])
    new, value = sgd(loss, w, x, rate=0.1)
    assert (value, new.tolist()) == (1.0, pytest.approx([0.7, 2.1]))
    (new, velocity), _ = momentum(loss, (w, jnp.asarray([1.0, 1.0])), x, rate=0.1)
    assert (velocity.tolist(), new.tolist()) == (pytest.approx([3.9, -0.1]), pytest.approx([0.61, 2.01]))
    (_, velocity), _ = accumulated_momentum(loss, (w, jnp.zeros(2)), x, rate=0.1, count=4)
    assert velocity.tolist() == pytest.approx([12.0, -4.0])


def test_cross_entropy_takes_classes_or_probabilities() -> None:
    logits = jnp.asarray([[0.0, jnp.log(3.0)], [0.0, 0.0]])
    by_class = cross_entropy(logits, jnp.asarray([1, 0]))
    assert by_class == pytest.approx((np.log(4 / 3) + np.log(2)) / 2)
    assert cross_entropy(logits, jnp.asarray([[0.0, 1.0], [1.0, 0.0]])) == pytest.approx(by_class)
