"""Memory on the tiles, of programs whose footprint Poplar's compiler reported: of all tiles without code, or of the fullest."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.measured.answer import Answer, LeftOut, dtype_of, machine_of, numbers, options_of
from benchmarks.measured.predict import Prediction, Step, predict
from benchmarks.measured.rows import Row
from benchmarks.models import small
from benchmarks.models.training import accumulated_momentum, cross_entropy, momentum, sgd

_RATE = 0.01
_TRIPS = 10  # of the published loops
_ACCUMULATED = 10  # batches per update, in the published programs with momentum

Loss = Callable[..., jax.Array]


def footprint(row: Row) -> Answer | LeftOut | None:
    """Bytes of all tiles, or of the fullest."""
    if not row.metric.endswith("tile memory") or not row.unit.startswith("B"):
        return None
    if "initialisation" in row.workload:
        return LeftOut(reason="memory of the programs that initialise variables, of which JAX has no counterpart")
    run = _of_mlp(row) or _of_resnet18(row) or _of_serialised_product(row)
    if run is None:
        return LeftOut(reason="a network that is not written here")
    return Answer(predicted=run.peak_tile_bytes if row.metric.startswith("max") else run.values_bytes, prediction=run)


def _of_mlp(row: Row) -> Prediction | None:
    layers = re.search(r"MLP ([\d-]+)", row.workload)
    batch = numbers(r"\bbs (\d+)", row.workload)
    if layers is None or batch is None:
        return None
    widths, dtype = tuple(map(int, layers[1].split("-"))), dtype_of(row)
    inputs = [jax.ShapeDtypeStruct((batch[0], width), dtype) for width in (widths[0], widths[-1])]
    return _run(row, _loss_of(small.mlp), small.mlp_shapes(widths, dtype), inputs)


def _of_resnet18(row: Row) -> Prediction | None:
    if "ResNet-18-like" not in row.workload:
        return None
    batch, dtype = numbers(r"\bbs (\d+)", row.workload) or (1,), dtype_of(row)
    inputs = [jax.ShapeDtypeStruct((batch[0], *dims), dtype) for dims in (small.RESNET18_IMAGE, (small.RESNET18_CLASSES,))]
    return _run(row, _loss_of(small.resnet18), small.resnet18_shapes(dtype), inputs)


def _of_serialised_product(row: Row) -> Prediction | None:
    shape = numbers(r"serialised matmul (\d+)x(\d+) by \d+x(\d+) in (\d+) parts", row.workload)
    if shape is None:
        return None
    rows, inner, columns, parts = shape
    dtype = dtype_of(row)

    def step(_: tuple[()], x: jax.Array, y: jax.Array, z: jax.Array) -> tuple[tuple[()], jax.Array]:
        return (), x + jnp.concatenate([part @ z for part in jnp.split(y, parts)])

    inputs = [jax.ShapeDtypeStruct(dims, dtype) for dims in ((rows, columns), (rows, inner), (inner, columns))]
    return predict(step, (), inputs, machine=machine_of(row), options=options_of(row.conditions))


def _loss_of(network: Callable[[Any, jax.Array], jax.Array]) -> Loss:
    return lambda params, x, labels: cross_entropy(network(params, x), labels)


def _run(row: Row, loss: Loss, params: Any, inputs: Sequence[Any]) -> Prediction:
    """Inference, or a training step as the row's words have it."""
    wanted = row.workload
    state: Any = params
    step: Step
    if "inference" in wanted:
        step = _inference(loss)
    elif "momentum" in wanted:
        state, step = (params, params), functools.partial(momentum, loss, rate=_RATE)
    else:
        step = functools.partial(sgd, loss, rate=_RATE)
    if "gradient accumulation" in wanted:
        state, step = (params, params), functools.partial(accumulated_momentum, loss, rate=_RATE, count=_ACCUMULATED)
    if "loop" in wanted:
        step = _looped(step)
    return predict(step, state, inputs, machine=machine_of(row), options=options_of(row.conditions))


def _inference(loss: Loss) -> Step:
    return lambda params, *batch: (params, loss(params, *batch))


def _looped(step: Step) -> Step:
    def loop(state: Any, *batch: jax.Array) -> tuple[Any, jax.Array]:
        state, losses = jax.lax.scan(lambda carried, _: step(carried, *batch), state, length=_TRIPS)
        return state, losses[-1]

    return loop
