"""Training runs of networks for images: the programs that a row's conditions name."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable, Sequence
from typing import Any, Final

import jax
import jax.numpy as jnp

from benchmarks.measured.answer import RowError
from benchmarks.measured.rows import Row
from benchmarks.measured.training.conditions import TrainingConditions
from benchmarks.measured.training.pipelined import Pipelined
from benchmarks.measured.training.replicated import Replicated
from benchmarks.models import efficientnet as efficient
from benchmarks.models import residual
from benchmarks.models import unet as cells
from benchmarks.models.efficientnet import EfficientNet
from benchmarks.models.residual import Residual, smoothed_cross_entropy
from benchmarks.models.unet import UNet

_BLOCKS: Final = {50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}  # of the networks with bottlenecks
_UNIT: Final = re.compile(r"stage\d+/unit\d+")


def resnet(row: Row, conditions: TrainingConditions) -> Replicated | Pipelined | None:
    """The program of a row that trains a ResNet or ResNeXt; None for other rows.

    Raises: RowError for a depth, a recomputation or a split that is not known here.
    """
    del row
    named = re.search(r"ResNe(X?)t-?(\d+)", conditions.model)
    if named is None:
        return None
    model = residual_of(conditions.model, conditions.note, depth=int(named[2]), grouped=bool(named[1]))
    images = _images(conditions, residual.IMAGE)
    if conditions.number("ipus_per_replica") == 1:
        cuts = _cuts(model, conditions)
        return Replicated(loss=functools.partial(residual.loss, model, cuts), params=residual.parameters(model), element=images)
    cuts = _named_cuts(model, conditions)
    _require_stages(conditions, len(cuts) + 1)
    bounds = (0, *cuts, len(model.units) + 1)
    return Pipelined(
        stages=tuple(
            _residual_stage(model, begin, last=end == bounds[-1], recomputes=_recomputes(conditions))
            for begin, end in itertools.pairwise(bounds)
        ),
        params=[residual.parameters(model, begin, None if end == bounds[-1] else end) for begin, end in itertools.pairwise(bounds)],
        element=images,
        ipus=tuple(range(len(bounds) - 1)),
        key=False,
    )


def residual_of(text: str, note: str, *, depth: int, grouped: bool) -> Residual:
    """The network that a text names.

    Raises: RowError for a depth whose blocks are not known here.
    """
    if depth not in _BLOCKS:
        raise RowError(f"model is {text!r}: blocks are known of depths {', '.join(map(str, _BLOCKS))}, not of {depth}")
    size = re.search(r"(\d+)x(\d+)d", text)
    shared = re.search(r"distributed over (\d+) replicas", text)
    groups = re.search(r"groups (\d+)", text)
    return Residual(
        blocks=_BLOCKS[depth],
        groups=int(size[1]) if size else 32 if grouped else 1,
        group_width=int(size[2]) if size else 4 if grouped else 64,
        norm="group" if re.search(r"group ?norm", text, re.IGNORECASE) else "batch",
        norm_groups=int(groups[1]) if groups else 32,
        norm_replicas=int(shared[1]) if shared else 1,
        stable="stable_norm on" in note,
    )


def _images(conditions: TrainingConditions, size: int) -> dict[str, jax.ShapeDtypeStruct]:
    batch = conditions.number("micro_batch")
    return {"images": jax.ShapeDtypeStruct((batch, size, size, 3), jnp.uint8), "labels": jax.ShapeDtypeStruct((batch,), jnp.int32)}


def _recomputes(conditions: TrainingConditions) -> bool:
    return not conditions.recompute.startswith("no")


def _cuts(model: Residual, conditions: TrainingConditions) -> tuple[int, ...]:
    """Units after which the backward pass finds values; between them it computes again.

    Behind the last one everything is kept: its backward pass follows at once.
    """
    if not _recomputes(conditions):
        return ()
    if "all residual adds" in conditions.stage_split:  # and all values of the last stage
        return tuple(number for number, (stage, _) in enumerate(model.units, 2) if stage < len(model.blocks))
    return _named_cuts(model, conditions)


def _named_cuts(model: Residual, conditions: TrainingConditions) -> tuple[int, ...]:
    names = _UNIT.findall(conditions.stage_split)
    try:
        cuts = tuple(model.after(name) for name in names)
    except ValueError as error:
        raise RowError(f"stage_split is {conditions.stage_split!r}: {error}") from error
    if not cuts or list(cuts) != sorted(set(cuts)):
        raise RowError(f"stage_split is {conditions.stage_split!r}: it must name units in order, such as stage2/unit3")
    return cuts


def _require_stages(conditions: TrainingConditions, found: int) -> None:
    """Raises: RowError if there is not one stage for each IPU."""
    ipus = conditions.number("ipus_per_replica")
    if found != ipus:
        raise RowError(f"stage_split is {conditions.stage_split!r}: it makes {found} stages, but a replica has {ipus} IPUs")


def _residual_stage(model: Residual, begin: int, *, last: bool, recomputes: bool) -> Callable[..., Any]:
    def body(params: Sequence[Any], x: jax.Array) -> jax.Array:
        units = params[:-1] if last else params
        x = residual.segment(model, units, x if begin else residual.normalised(x), begin)
        return residual.classified(params[-1], x) if last else x

    def stage(params: Sequence[Any], images: jax.Array, labels: jax.Array) -> Any:
        result = (jax.checkpoint(body) if recomputes and not last else body)(params, images)
        return smoothed_cross_entropy(result, labels, model.smoothing) if last else (result, labels)

    return stage


def efficientnet(row: Row, conditions: TrainingConditions) -> Replicated | Pipelined | None:
    """The program of a row that trains an EfficientNet; None for other rows.

    Raises: RowError for a variant or a split that is not known here.
    """
    del row
    named = re.search(r"EfficientNet-?\s?B(\d)", conditions.model)
    if named is None:
        return None
    model = efficientnet_of(conditions.model, variant=int(named[1]))
    cuts = _block_cuts(model, conditions)
    bounds = (0, *cuts, len(model.blocks) + 1)
    spans = list(itertools.pairwise(bounds))
    images = _images(conditions, _rows(conditions, model.image))
    if not cuts:
        [stage], recomputes = [_efficientnet_stage(model, 0, last=True)], _recomputes(conditions)
        return Replicated(loss=jax.checkpoint(stage) if recomputes else stage, params=efficient.parameters(model), element=images)
    return Pipelined(
        stages=tuple(
            _checkpointed(_efficientnet_stage(model, begin, last=end == bounds[-1]), conditions, end == bounds[-1]) for begin, end in spans
        ),
        params=[efficient.parameters(model, begin, None if end == bounds[-1] else end) for begin, end in spans],
        element=images,
        ipus=tuple(range(len(spans))),
        key=False,
    )


def efficientnet_of(text: str, *, variant: int) -> EfficientNet:
    """The network that a text names: with a G and a number it has convolutions of so many channels a group, else of one.

    Raises: RowError for a variant that is not known here.
    """
    if variant not in efficient.SIZES:
        raise RowError(f"model is {text!r}: there is no B{variant}")
    width = re.search(r"\bG(\d+)\b", text)
    expansion = re.search(r"expand ratio (\d+)", text)
    norm_groups = re.search(r"[Gg]roup ?[Nn]orm groups (\d+)", text)
    grouped = int(width[1]) if width else 1
    return EfficientNet(
        variant=variant,
        group_width=grouped,
        expansion=int(expansion[1]) if expansion else 6 if grouped == 1 else 4,
        norm_groups=int(norm_groups[1]) if norm_groups else 4,
    )


def _block_cuts(model: EfficientNet, conditions: TrainingConditions) -> tuple[int, ...]:
    text = conditions.stage_split
    ipus = conditions.number("ipus_per_replica")
    try:
        cuts = tuple(model.before(name) for name in dict.fromkeys(re.findall(r"\bblock\d[a-z]\b", text)))
    except ValueError as error:
        raise RowError(f"stage_split is {text!r}: {error}") from error
    if list(cuts) != sorted(cuts):
        raise RowError(f"stage_split is {text!r}: it must name blocks in order, such as block4a")
    _require_stages(conditions, len(cuts) + 1) if ipus > 1 or cuts else None
    return cuts


def _efficientnet_stage(model: EfficientNet, begin: int, *, last: bool) -> Callable[..., Any]:
    def stage(params: Sequence[Any], images: jax.Array, labels: jax.Array) -> Any:
        x = images if begin else residual.normalised(images)
        x = efficient.segment(model, params[:-1] if last else params, x, begin)
        return smoothed_cross_entropy(efficient.classified(model, params[-1], x), labels, model.smoothing) if last else (x, labels)

    return stage


def unet(row: Row, conditions: TrainingConditions) -> Replicated | Pipelined | None:
    """The program of a row that trains a U-Net; None for other rows.

    Raises: RowError for a split that is not known here.
    """
    del row
    if "u-net" not in conditions.model.casefold() and "unet" not in conditions.model.casefold():
        return None
    model = UNet(image=_rows(conditions, UNet.image))
    batch, dtype = conditions.number("micro_batch"), jnp.float16
    spans = unet_stages(model, conditions)
    element = {
        "images": jax.ShapeDtypeStruct((batch, model.image, model.image, 1), dtype),
        "truth": jax.ShapeDtypeStruct((batch, model.result, model.result, model.classes), dtype),
    }
    return Pipelined(
        stages=tuple(
            _checkpointed(_unet_stage(model, steps, number == 0), conditions, number == len(spans) - 1)
            for number, steps in enumerate(spans)
        ),
        params=[[_unet_parameters(model, *step) for step in steps] for steps in spans],
        element=element,
        ipus=tuple(range(len(spans))),
    )


Step = tuple[str, int]  # 'encode', 'deepest', 'widen' or 'decode'; the level


def unet_stages(model: UNet, conditions: TrainingConditions) -> list[list[Step]]:
    """The steps of each stage; a text names the layers that end them as the program calls them.

    Raises: RowError for a name of none, and if there is not one stage for each IPU.
    """
    text, deep = conditions.stage_split, len(model.channels) - 1
    steps: list[Step] = [("encode", level) for level in range(deep)]
    steps.append(("deepest", deep))
    for level in reversed(range(deep)):
        steps += [("widen", level), ("decode", level)]
    ends: list[int] = []
    for kind, number, what in re.findall(r"(encoder|decoder)_block_(\d+)_(maxpooling|transpose)", text):
        step = ("encode", int(number)) if kind == "encoder" else ("widen", deep - 1 - int(number))
        if step not in steps or (kind == "encoder") != (what == "maxpooling"):
            raise RowError(f"stage_split is {text!r}: there is no {kind}_block_{number}_{what}")
        ends.append(steps.index(step) + 1)
    if ends != sorted(set(ends)):
        raise RowError(f"stage_split is {text!r}: it must name layers in order")
    _require_stages(conditions, len(ends) + 1)
    return [steps[begin:end] for begin, end in zip((0, *ends), (*ends, len(steps)), strict=True)]


def _unet_parameters(model: UNet, step: str, level: int) -> Any:
    make = {"encode": cells.encoder_parameters, "deepest": cells.encoder_parameters, "widen": cells.widening_parameters}
    return make.get(step, cells.decoder_parameters)(model, level)


def _unet_stage(model: UNet, steps: Sequence[Step], first: bool) -> Callable[..., Any]:
    def stage(params: Sequence[Any], images: jax.Array, over: tuple[jax.Array, ...], truth: jax.Array, *, key: jax.Array) -> Any:
        x = images
        for (step, level), own in zip(steps, params, strict=True):
            if step == "encode":
                x, cropped = cells.encoded(model, own, x, level)
                over = (*over, cropped)
            elif step == "deepest":
                x = cells.deepest(model, own, x, key)
            elif step == "widen":
                x = cells.widened(own, x)
            else:
                x, over = cells.decoded(own, x, over[-1]), over[:-1]
        return cells.loss(x, truth) if steps[-1] == ("decode", 0) else (x, over, truth)

    if first:
        return lambda params, *, key, images, truth: stage(params, images, (), truth, key=key)
    return stage


def _checkpointed(stage: Callable[..., Any], conditions: TrainingConditions, last: bool) -> Callable[..., Any]:
    """A stage whose backward pass computes its values again; that of the last one follows at once."""
    return jax.checkpoint(stage) if _recomputes(conditions) and not last else stage


def _rows(conditions: TrainingConditions, usual: int) -> int:
    """Rows of an image, where the model's text says it: '380x380'."""
    found = re.search(r"\b(\d+)x\1(?!\d)", conditions.model)
    return int(found[1]) if found else usual
