"""Stages, models and elements for tests of pipelines, and what plain accumulation on one device makes of them."""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tilestep.train.pipeline.compile.programs import CompiledPipeline
from tilestep.train.pipeline.run.program_cache import ProgramCache

WIDTH, CLASSES, ROWS = 6, 3, 4


def embed(params: Any, tokens: Any, label: Any) -> Any:
    """Integers pass along beside real numbers."""
    return params["table"][tokens].mean(1), label


def dense(params: Any, x: Any, label: Any) -> Any:
    return jnp.tanh(x @ params["w"] + params["b"].astype(jnp.float32)), label


def gated(params: Any, x: Any, label: Any) -> dict[str, Any]:
    return {"x": jax.nn.gelu(x @ params["w"].T) * params["b"].astype(jnp.float32), "label": label}


def scaled(params: Any, named: dict[str, Any]) -> Any:
    return jnp.sin(named["x"]) * params["s"] + named["x"], named["label"]


def left(params: Any, x: Any, label: Any) -> Any:
    return x @ params["w"]


def right(params: Any, x: Any, label: Any) -> Any:
    return jnp.cos(x) * params["s"], label


def joined(params: Any, a: Any, b: Any, label: Any) -> Any:
    return jnp.concatenate([a, b], 1) @ params["w"], label


def head(params: Any, x: Any, label: Any) -> Any:
    scores = jax.nn.log_softmax(x @ params["w"])
    return -jnp.take_along_axis(scores, label[:, None], 1).mean(), scores


def noisy(params: Any, x: Any, label: Any, *, key: Any) -> Any:
    return x * params["s"] + 0.1 * jax.random.normal(key, x.shape), label


def centred(params: Any, aux: Any, x: Any, label: Any) -> Any:
    """What it returns depends on the microbatches before, which is the auxiliary state."""
    new = {"mean": 0.5 * aux["mean"] + 0.5 * x.mean(0), "seen": aux["seen"] + 1}
    return ((x - aux["mean"]) * params["s"], label), new


def output(params: Any, x: Any, label: Any) -> Any:
    """Scores of words, by the table of the embedding."""
    scores = jax.nn.log_softmax(x @ params["table"].T + params["b"])
    return -jnp.take_along_axis(scores, label[:, None], 1).mean(), jnp.float32(0.1)


@contextlib.contextmanager
def runs_noted() -> Iterator[list[tuple[CompiledPipeline, bool]]]:
    """Inside, the list grows with each run that has a program for each task: (its programs, whether they are started directly)."""
    runs: list[tuple[CompiledPipeline, bool]] = []
    find = ProgramCache.find

    def noted(cache: ProgramCache, *args: Any) -> tuple[CompiledPipeline, bool]:
        runs.append(find(cache, *args))
        return runs[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ProgramCache, "find", noted)
        yield runs


def matrix(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.normal(0, 0.5, shape).astype(np.float32)


def middle(rng: np.random.Generator) -> tuple[list[Any], list[Any]]:
    """One or two stages that turn (x, label) into the like, and their parameters."""
    half = rng.normal(1, 0.1, WIDTH).astype(np.float16)
    match int(rng.integers(3)):
        case 0:
            return [dense], [{"w": matrix(rng, WIDTH, WIDTH), "b": half, "steps": np.int32(3)}]
        case 1:
            return [gated, scaled], [{"w": matrix(rng, WIDTH, WIDTH), "b": half}, {"s": matrix(rng, WIDTH)}]
        case _:
            params = [{"w": matrix(rng, WIDTH, WIDTH)}, {"s": matrix(rng, WIDTH)}]
            return [[left, right], joined], [params, {"w": matrix(rng, 2 * WIDTH, WIDTH)}]


def model(seed: int) -> tuple[list[Any], list[Any]]:
    """Random stages, from an embedding to a loss."""
    rng = np.random.default_rng(seed)
    stages: list[Any] = [embed]
    params: list[Any] = [{"table": matrix(rng, 11, WIDTH)}]
    while len(stages) < 2 + seed % 4:
        more, theirs = middle(rng)
        stages += more
        params += theirs
    return [*stages, head], [*params, {"w": matrix(rng, WIDTH, CLASSES)}]


def batches(seed: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.integers(0, 11, (count, ROWS, 5)).astype(np.int32), rng.integers(0, CLASSES, (count, ROWS)).astype(np.int32)


def at_once(stages: Sequence[Any], params: Sequence[Any], *element: Any) -> Any:
    """The whole model as one function."""
    args = element
    for stage, own in zip(stages, params, strict=True):
        members = list(zip(stage, own, strict=True)) if isinstance(stage, list) else [(stage, own)]
        results = [member(theirs, *args) for member, theirs in members]
        args = tuple(item for result in results for item in (result if isinstance(result, tuple) else (result,)))
    return args


def reference(stages: Sequence[Any], params: Any, optimizer: Any, elements: Any, updates: int, reduction: str) -> tuple[Any, list[Any]]:
    """Plain accumulation on one device: (the parameters, what the last stage returned in the last update)."""
    params = jax.tree.map(jnp.asarray, params)
    real = lambda tree: jax.tree.map(lambda leaf: leaf if jnp.issubdtype(leaf.dtype, jnp.inexact) else None, tree)  # noqa: E731
    state = optimizer.init(real(params))
    value_and_grad = jax.jit(
        jax.value_and_grad(lambda p, *e: (lambda out: (out[0], out))(at_once(stages, p, *e)), has_aux=True, allow_int=True)
    )
    count = len(elements[0])

    @jax.jit
    def updated(params: Any, state: Any, total: Any) -> Any:
        mean = jax.tree.map(lambda leaf: leaf if reduction == "sum" else leaf / count, total)
        changes, state = optimizer.update(mean, state, real(params))
        return jax.tree.map(
            lambda p, u: p if u is None else p + u.astype(p.dtype), params, changes, is_leaf=lambda leaf: leaf is None
        ), state

    outputs: list[Any] = []
    for _ in range(updates):
        total: Any = None
        outputs = []
        for element in zip(*elements, strict=True):
            (_, out), gradients = value_and_grad(params, *element)
            outputs.append(out)
            gradients = jax.tree.map(lambda g, p: g if jnp.issubdtype(p.dtype, jnp.inexact) else None, gradients, params)
            total = gradients if total is None else jax.tree.map(np.add, total, gradients)
        params, state = updated(params, state, total)
    return params, outputs


def assert_near(found: Any, expected: Any, relative: float = 1e-5) -> None:
    """Halves as near as halves can be."""
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert a.dtype == b.dtype
        tolerance = max(relative, 4 * float(jnp.finfo(a.dtype).eps)) if jnp.issubdtype(a.dtype, jnp.floating) else 0
        scale = max(float(np.abs(np.asarray(b, np.float64)).max(initial=0)), 1e-6)
        np.testing.assert_allclose(np.asarray(a, np.float64), np.asarray(b, np.float64), rtol=0, atol=tolerance * scale)
