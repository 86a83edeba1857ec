"""The networks of published training runs compute what their names promise."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks.models import conformer, swin, vit
from benchmarks.models.pretraining import dense, normed
from benchmarks.models.transformer import Encoder

TINY_VIT = vit.Vit(encoder=Encoder(width=8, layers=3, heads=2), image=32, classes=5, bytes_in=True)
TINY_CONFORMER = conformer.Conformer(features=16, frames=30, width=8, heads=2, inner=16, kernel=3, decoders=1, words=3, vocabulary=7)
TINY_SWIN = swin.Swin(width=8, depths=(2, 1), heads=(2, 4), window=2, image=16, classes=5)
KEY = jax.random.key(0)


def drawn(shapes: Any, scale: float = 0.3) -> Any:
    """Arrays of these shapes, equal in every run."""
    random = np.random.default_rng(0)
    return jax.tree.map(lambda shape: (scale * random.standard_normal(shape.shape)).astype(shape.dtype), shapes)


def count(shapes: Any) -> int:
    return sum(shape.size for shape in jax.tree.leaves(shapes))


def test_vit_base_has_86_million_parameters() -> None:
    model = vit.Vit(encoder=Encoder(width=768, layers=12, heads=12))
    parts: list[vit.Part] = ["embedding", *["layer"] * 12, "head"]
    assert sum(count(vit.parameters(model, part)) for part in parts) == 86_567_656


@pytest.mark.parametrize("representation", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_checkpoints_do_not_change_a_vit(representation: bool) -> None:
    model = replace(TINY_VIT, representation=representation)
    data = (jnp.full((2, 32, 32, 3), 7, jnp.uint8), jnp.asarray([1, 4]))
    losses: list[Any] = []
    for layer in ("layer", "halved layer"):
        parts: list[vit.Part] = ["embedding", layer, "head"]
        params = [drawn(vit.parameters(model, part, jnp.float32)) for part in parts]
        losses.append(jax.jit(jax.value_and_grad(lambda params, parts=parts: vit.stage(model, parts)(params, *data, key=KEY)))(params))
    (loss, gradients), (other, others) = losses
    assert float(loss) == pytest.approx(float(other), rel=1e-5)
    assert jax.tree.all(jax.tree.map(lambda one, two: np.allclose(one, two, atol=1e-6), gradients, others))
    assert model.tokens == 5


def test_conformer_subsamples_as_its_source_says() -> None:
    assert conformer.subsampled(1220) == 304
    assert conformer.subsampled(80) == 19


@pytest.mark.parametrize(("frames", "words"), [(4, 2), (4, 1), (3, 2), (2, 0)])
def test_ctc_sums_over_all_paths(frames: int, words: int) -> None:
    likely = jax.nn.log_softmax(jnp.asarray(np.random.default_rng(1).standard_normal((2, 4, 4)), jnp.float32))
    labels = np.asarray([[1, 1], [2, 3]])

    def direct(likely: jax.Array, row: int) -> jax.Array:
        wanted = labels[row, :words].tolist()
        paths = [p for p in itertools.product(range(4), repeat=frames) if [word for word, _ in itertools.groupby(p) if word] == wanted]
        return -jnp.log(jnp.exp(likely[row, jnp.arange(frames), np.array(paths, int).reshape(-1, frames)].sum(1)).sum())

    def ours(likely: jax.Array, row: int) -> jax.Array:
        return conformer.ctc(likely, labels, jnp.full(2, frames), jnp.full(2, words))[row]

    for row in range(2):
        wanted, gradient = jax.jit(jax.value_and_grad(direct), static_argnums=1)(likely, row)
        if jnp.isinf(wanted):  # the text is too long for the frames
            continue
        loss, found = jax.jit(jax.value_and_grad(ours), static_argnums=1)(likely, row)
        assert float(loss) == pytest.approx(float(wanted), rel=1e-5)
        np.testing.assert_allclose(found, gradient, atol=1e-5)


def test_a_conformer_in_stages_is_one_in_one_piece() -> None:
    model = replace(TINY_CONFORMER, dropout=0.0)
    parts: list[conformer.Part] = ["subsampling", "block", "heads"]
    params = [drawn(conformer.parameters(model, part, jnp.float32)) for part in parts]
    shapes = conformer.element(model, 2, jnp.float32)
    data = {**drawn(shapes), "words": jnp.asarray([[6, 1, 2], [6, 3, 0]]), "labels": jnp.asarray([[1, 2, 6], [3, 6, 0]])}
    data["lengths"] = jnp.asarray([[6, 3], [5, 2]])
    whole = jax.jit(conformer.stage(model, parts, first=True))(params, key=KEY, **data)
    x = jax.jit(conformer.stage(model, parts[:2], first=True))(params[:2], key=KEY, **data)
    assert x[0].shape == (2, conformer.subsampled(30), 8)
    last = jax.jit(conformer.stage(model, parts[2:], first=False))
    assert float(last(params[2:], *x, key=KEY)) == pytest.approx(float(whole), rel=1e-5)


def test_a_conformer_does_not_hear_what_is_behind_a_recordings_end() -> None:
    model = replace(TINY_CONFORMER, dropout=0.0)
    params = drawn(conformer.parameters(model, "block", jnp.float32))
    x = drawn(jax.ShapeDtypeStruct((1, 6, 8), jnp.float32))
    positions = conformer.encodings(6, 8)
    block = jax.jit(lambda x: conformer.block(model, params, x, positions, jnp.asarray([3]), KEY))
    changed = x.copy()
    changed[0, 5] += 1
    before, after = block(x), block(changed)
    np.testing.assert_allclose(before[0, :3], after[0, :3], atol=1e-5)


def test_published_swins_have_their_parameters() -> None:
    found = [sum(count(swin.parameters(model, part)) for part in swin.parts_of(model)) for model in (swin.SWIN_TINY, swin.SWIN_BASE)]
    assert found == [28_288_354, 87_768_224]


@pytest.mark.parametrize("number", [0, 1])
def test_swins_windows_are_those_of_a_loop(number: int) -> None:
    part = swin.Part(kind="block", number=number)
    params = drawn(swin.parameters(TINY_SWIN, part))["attention"]
    x = drawn(jax.ShapeDtypeStruct((2, 4, 4, 8), jnp.float32), 1.0)
    found = jax.jit(lambda params, x: swin.attention(TINY_SWIN, part, params, x))(params, x)
    np.testing.assert_allclose(found, looped(params, x, shift=number), atol=1e-5)


def looped(params: Any, x: jax.Array, *, shift: int) -> np.ndarray:
    """Attention in windows of 2 x 2 with two heads: a token sees the tokens that its window has from its side of the image."""
    hidden, result = np.asarray(jax.jit(lambda x: dense(params["qkv"], normed(params["norm"], x)))(x)), np.zeros(x.shape, np.float32)
    edge, size = x.shape[1], 4
    tokens = list(itertools.product(range(edge), repeat=2))

    def window(token: tuple[int, int]) -> list[int]:
        return [(place - shift) % edge // 2 for place in token]

    for row, here, head in itertools.product(range(len(x)), tokens, range(2)):
        seen = [
            there for there in tokens if window(here) == window(there) and all(abs(a - b) < 2 for a, b in zip(here, there, strict=True))
        ]
        own = slice(head * size, (head + 1) * size)
        queries, keys, values = hidden[row, *here, :8][own], hidden[row, ..., 8:16][..., own], hidden[row, ..., 16:][..., own]
        far = [(a + 1) * 3 + b + 1 for there in seen for a, b in [(here[0] - there[0], here[1] - there[1])]]
        scores = [queries @ keys[there] * size**-0.5 + params["biases"][distance, head] for there, distance in zip(seen, far, strict=True)]
        shares = np.exp(scores) / np.exp(scores).sum()
        result[row, *here, own] = sum(share * values[there] for share, there in zip(shares, seen, strict=True))
    return np.asarray(dense(params["out"], jnp.asarray(result)))


def test_merging_takes_four_neighbours() -> None:
    params = {"norm": {"scale": jnp.ones(4), "bias": jnp.zeros(4)}, "kernel": jnp.eye(4)}
    x = jnp.arange(16.0).reshape(1, 4, 4, 1)
    tokens = jax.jit(swin.merged)(params, x)[0, 0, 1]
    four = jnp.asarray([2.0, 3.0, 6.0, 7.0])
    np.testing.assert_allclose(tokens, (four - four.mean()) / four.std(), rtol=1e-4)


@pytest.mark.parametrize("by_block", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_swin_learns(by_block: bool) -> None:
    parts = swin.parts_of(TINY_SWIN)
    params = [drawn(swin.parameters(TINY_SWIN, part)) for part in parts]
    data = (drawn(jax.ShapeDtypeStruct((2, 16, 16, 3), jnp.float32)), jax.nn.one_hot(jnp.asarray([1, 3]), 5))
    loss = jax.jit(jax.value_and_grad(lambda params: swin.stage(TINY_SWIN, parts, by_block=by_block)(params, *data, key=KEY)))
    first, gradients = loss(params)
    second, _ = loss(jax.tree.map(lambda param, gradient: param - np.float32(0.05) * np.asarray(gradient), params, gradients))
    assert second < first
