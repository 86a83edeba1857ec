"""Networks that no number of the cost model was fitted to, for inference: YOLOv4-P5, CLIP, Swin, ResNeXt-50, and two products."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

import jax
import jax.numpy as jnp

from benchmarks.measured.answer import Answer, LeftOut, dtype_of, machine_of, numbers, options_of, verdict_of
from benchmarks.measured.networks import inference, throughput
from benchmarks.measured.predict import Prediction, predict
from benchmarks.measured.rows import Row
from benchmarks.models import clip, resnet50, swin, yolov4

_SWINS: Final = {"Tiny": swin.SWIN_TINY, "Small": swin.SWIN_SMALL, "Base": swin.SWIN_BASE}
_SEVERAL_IPUS: Final = LeftOut(reason="a network on several IPUs, whose replicas or stages are not part of the row")


def yolo(row: Row) -> Answer | LeftOut | None:
    """Latency or images per second of YOLOv4-P5."""
    sizes = numbers(r"\b(\d+) px.*\bbs? ?(\d+)", row.shape)
    if not row.workload.startswith("YOLOv4-P5 inference") or sizes is None:
        return None
    edge, batch = sizes
    dtype = dtype_of(row)
    return _answer(row, batch, yolov4.forward, yolov4.shapes(dtype), [jax.ShapeDtypeStruct((batch, edge, edge, 3), dtype)])


def clip_of_images(row: Row) -> Answer | LeftOut | None:
    """Images per second of CLIP, beside as many texts as the row says."""
    sizes = numbers(r"\bbs (\d+), (\d+) texts", row.shape)
    if not row.workload.startswith("CLIP inference") or sizes is None:
        return None
    images, texts = sizes
    dtype = dtype_of(row)
    inputs = [
        jax.ShapeDtypeStruct((images, clip.IMAGE, clip.IMAGE, 3), dtype),
        jax.ShapeDtypeStruct((texts, clip.TEXTS.tokens), jnp.int32),
    ]
    return _answer(row, images, clip.forward, clip.shapes(dtype), inputs)


def swin_of_images(row: Row) -> Answer | LeftOut | None:
    """Images per second of a Swin transformer."""
    size, batch = re.match(r"Swin-(\w+) inference", row.workload), numbers(r"\bbs (\d+)", row.shape)
    if size is None or batch is None or size[1] not in _SWINS:
        return None
    model, dtype = replace(_SWINS[size[1]], drop_path=0.0), dtype_of(row)
    params = [swin.parameters(model, part, dtype) for part in swin.parts_of(model)]
    images = jax.ShapeDtypeStruct((*batch, model.image, model.image, 3), dtype)
    return _answer(row, batch[0], functools.partial(swin.forward, model), params, [images])


def resnext50(row: Row) -> Answer | LeftOut | None:
    """Images per second of ResNeXt-50 32x4d."""
    batch = numbers(r"\bbs (\d+)", row.shape)
    if not row.workload.startswith("ResNeXt-50 inference") or batch is None:
        return None
    dtype, sizes = dtype_of(row), {"stages": resnet50.RESNEXT_STAGES, "expansion": resnet50.RESNEXT_EXPANSION}
    kept = row.conditions is not None and row.conditions.named_ops.get("norm") == "kept"
    params = resnet50.shapes(dtype, groups=resnet50.RESNEXT_GROUPS, statistics=kept, **sizes)
    images = jax.ShapeDtypeStruct((*batch, resnet50.IMAGE, resnet50.IMAGE, 3), dtype)
    return _answer(row, batch[0], functools.partial(resnet50.forward, stages=resnet50.RESNEXT_STAGES), params, [images])


def products(row: Row) -> Answer | LeftOut | None:
    """Whether two products after each other fit; their arrays stay on the IPU.

    The first array is there twice where arrays are mapped linearly. Its plan has serial passes over it, and poplin copies what it slices so
    into the plan's layout before the first pass, if a slice would be on several tiles (`rearrangeIfSplitOverTiles` in poplibs@7eac0f26
    lib/poplin/Convolution.cpp).
    """
    shape = numbers(r"(\d+)x(\d+), \2x(\d+), \3x(\d+)", row.shape)
    if not row.workload.startswith("two products after each other") or shape is None:
        return None
    rows, inner, middle, columns = shape
    dtype = dtype_of(row)
    arrays = [jax.ShapeDtypeStruct(dims, dtype) for dims in ((rows, inner), (inner, middle), (middle, columns))]

    def step(state: Sequence[jax.Array]) -> tuple[Sequence[jax.Array], jax.Array]:
        mapped, first, second, third = state
        return (mapped + 1, first, second, third), first @ second @ third  # an array that nothing reads would be none of the program's

    run = predict(step, (arrays[0], *arrays), machine=machine_of(row), options=options_of(row.conditions))
    return Answer(prediction=run, verdicts=(verdict_of(row.shape, run, measured="not" not in row.value),))


def _answer(row: Row, batch: int, forward: Callable[..., Any], params: Any, inputs: Sequence[Any]) -> Answer | LeftOut:
    if row.n_ipus > 1:
        return _SEVERAL_IPUS
    run: Prediction = predict(inference(forward), params, inputs, machine=machine_of(row), options=options_of(row.conditions))
    return throughput(row, batch, run)
