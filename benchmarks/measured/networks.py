"""Whole networks: ResNet-50, BERT and ViT for inference."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.measured.answer import (
    Answer,
    LeftOut,
    dtype_of,
    loop_of,
    machine_of,
    measured_verdicts,
    numbers,
    options_of,
    rate,
    verdict_of,
)
from benchmarks.measured.predict import Prediction, Step, predict
from benchmarks.measured.rows import Packing, Row
from benchmarks.models import resnet50, transformer
from tilestep.machine import load_machine, waited_seconds

_DRAWN = 1000  # sequences of the published runs with packing
_UNKNOWN_LAYERS = "a network in 8-bit floats of which nobody knows what stayed in halves"
_SEVERAL_IPUS = "a network on several IPUs, whose replicas or stages are not part of the row"


def resnet50_throughput(row: Row) -> Answer | LeftOut | None:
    """Images per second; or, of a batch that did not fit, that it does not."""
    batch = numbers(r"\bbs (\d+)", row.shape)
    if not row.workload.startswith("ResNet-50 inference") or batch is None:
        return None
    if row.dtype.startswith("fp8") and row.conditions is None:
        return LeftOut(reason=_UNKNOWN_LAYERS)
    return LeftOut(reason=_SEVERAL_IPUS) if row.n_ipus > 1 else throughput(row, batch[0], _resnet50(row, batch[0]))


def bert(row: Row) -> Answer | LeftOut | None:
    """Sequences per second; of packed rows there are more than one."""
    shape = numbers(r"\bSL(\d+).*\bbs (\d+)", f"{row.workload} {row.shape}")
    size = re.search(r"BERT-(Base|Large)", row.workload)
    if size is None or shape is None or "inference" not in row.workload:
        return None
    tokens, batch = shape
    packing = row.conditions.packed if row.conditions else None
    if packing is None and "pack" in row.workload.casefold():
        return LeftOut(reason="packed sequences whose lengths are not known")
    if row.n_ipus > 1:
        return LeftOut(reason=_SEVERAL_IPUS)
    model = _as_run(row, transformer.BERT_BASE if size[1] == "Base" else transformer.BERT_LARGE)
    words = jax.ShapeDtypeStruct((batch, tokens), jnp.int32)
    step = inference(functools.partial(transformer.bert, model))
    run = _run(row, step, transformer.bert_shapes(model, dtype_of(row)), [words] * (3 if packing is None else 4))
    return throughput(row, batch if packing is None else sequences_per_batch(packing, batch, tokens), run)


def sequences_per_batch(packing: Packing, rows: int, tokens: int) -> float:
    """How many sequences a batch holds on average, of a thousand in the order in which they are drawn."""
    lengths = np.clip(np.random.default_rng(0).normal(packing.mean, packing.mean, _DRAWN).astype(int), 1, tokens)
    batches, room, held = 1, [tokens] * rows, 0
    for length in lengths:
        place = next((row for row, free in enumerate(room) if free >= length), None) if held < packing.at_most else None
        if place is None:
            batches, room, held, place = batches + 1, [tokens] * rows, 0, 0
        room[place] -= int(length)
        held += 1
    return _DRAWN / batches


def vit(row: Row) -> Answer | LeftOut | None:
    """Images per second."""
    batch = numbers(r"\bbs (\d+)", row.shape)
    if not row.workload.startswith("ViT inference") or batch is None:
        return None
    if row.n_ipus > 1:
        return LeftOut(reason=_SEVERAL_IPUS)
    model, dtype = _as_run(row, transformer.VIT_BASE), dtype_of(row)
    images = jax.ShapeDtypeStruct((batch[0], transformer.IMAGE, transformer.IMAGE, 3), dtype)
    step = inference(functools.partial(transformer.vit, model))
    return throughput(row, batch[0], _run(row, step, transformer.vit_shapes(model, dtype), [images]))


def throughput(row: Row, batch: float, prediction: Prediction) -> Answer:
    """Items per second, or the time of a call; of a row that says whether it fits, that alone."""
    if said := re.search(r"out of memory|oom|does not fit|fits", row.value, re.IGNORECASE):
        fitted = said[0].casefold() == "fits"
        return Answer(prediction=prediction, verdicts=(verdict_of(f"bs {batch}", prediction, measured=fitted),))
    host_io = row.conditions.host_io if row.conditions else "none"
    seconds = prediction.seconds if host_io == "none" else prediction.call_seconds
    waited = _waited(row, prediction) if host_io == "serial" else 0.0
    part = waited / (seconds + waited)
    kinds = {**{kind: share * (1 - part) for kind, share in prediction.shares.items()}, "call": part} if waited else {}
    return Answer(
        predicted=rate(row, batch, seconds + waited),
        prediction=prediction,
        verdicts=measured_verdicts(row, prediction),
        kinds=kinds,
        with_host=host_io != "none",
    )


def _waited(row: Row, prediction: Prediction) -> float:
    """Seconds of a batch that PopART's host adds."""
    return waited_seconds(
        load_machine(machine_of(row)),
        streams=prediction.streams,
        to_ipus=prediction.to_ipus_bytes,
        to_host=prediction.to_host_bytes,
        prefetched=loop_of(row) > 1,
    )


def _resnet50(row: Row, batch: int) -> Prediction:
    eight = row.dtype.startswith("fp8")
    dtype = jnp.float16 if eight else dtype_of(row)
    of_bytes = row.conditions is not None and row.conditions.named_ops.get("input") == "uint8"
    images = jax.ShapeDtypeStruct((batch, resnet50.IMAGE, resnet50.IMAGE, 3), jnp.uint8 if of_bytes else dtype)
    if not eight:
        return _run(row, inference(resnet50.forward), resnet50.shapes(dtype), [images])
    # F143, PopRT's format for weights and activations: four bits of exponent, three of mantissa, no infinities.
    named = row.conditions.named_ops.get("fp16", "") if row.conditions else ""
    params = resnet50.shapes(dtype, kernels=jnp.float8_e4m3fnuz, kept=named.split("+") if named else ())
    return _run(row, inference(resnet50.forward), params, [images])


def _run(row: Row, step: Step, params: Any, inputs: Sequence[Any]) -> Prediction:
    return predict(step, params, inputs, machine=machine_of(row), options=options_of(row.conditions))


def inference(forward: Any) -> Step:
    """Weights stay as they are."""
    return lambda params, *inputs: (params, forward(params, *inputs))


def _as_run(row: Row, model: transformer.Encoder) -> transformer.Encoder:
    ops = row.conditions.named_ops if row.conditions else {}
    padded = row.conditions is not None and "attention_padding" in row.conditions.conditions_source
    gelu: Literal["tanh", "erf"] = "tanh" if ops.get("gelu") == "tanh" else "erf"
    return replace(model, gelu=gelu, wide="wide" in ops, slow_norm=ops.get("norm") == "slow", attention_grain=16 if padded else 1)
