"""Non-max suppression: the boxes with the best scores, without those that overlap a better one."""

from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tilestep.onnx.interpreter.interpret import Call
from tilestep.onnx.interpreter.registry import op
from tilestep.onnx.interpreter.values import NeedsValueError, is_traced, jax_dtype, known, known_scalar
from tilestep.onnx.ops.control_flow.loop_iterations import spoiled


@op("NonMaxSuppression", since=10, needs=(2,))
def non_max_suppression(
    call: Call, boxes: Any, scores: Any, most: Any = None, overlap: Any = None, threshold: Any = None, *, center_point_box: int = 0
) -> Any:
    """Rows of (batch, class, box), for each class up to `most` boxes whose scores are above the threshold, the best ones first.

    boxes [batch, boxes, 4] have two corners, or a centre and sizes. scores are [batch, classes, boxes]. A box is left out if its
    intersection with a better one, divided by their union, is above `overlap`. Of equal scores the first is the better one.

    Up to a bound, rows are filled with the numbers of batches, classes and boxes, which are no indices. If there are more rows than
    the bound, all are the lowest integer.
    """
    if boxes.ndim != 3 or boxes.shape[2] != 4 or scores.ndim != 3 or (scores.shape[0], scores.shape[2]) != boxes.shape[:2]:
        raise ValueError(
            f"boxes {list(boxes.shape)} and scores {list(scores.shape)}: it needs [batch, boxes, 4] and [batch, classes, boxes]"
        )
    count = 0 if most is None else max(0, int(known_scalar(most, "the most boxes of a class")))
    limits = [0.0 if overlap is None else overlap, -np.inf if threshold is None else threshold]
    if not any(is_traced(value) for value in (boxes, scores, *limits)):
        least = None if threshold is None else float(known_scalar(threshold, "the threshold"))
        return _selected(
            known(boxes, "the boxes"), known(scores, "the scores"), count, float(known_scalar(limits[0], "")), least, center_point_box
        )
    bound = call.bound()
    if bound is None:
        raise NeedsValueError("the boxes and scores, on which the number of its rows depends", or_bound=True)
    return _traced(boxes, scores, min(count, boxes.shape[1], bound + 1), limits[0], threshold, center_point_box, bound)


def _corners(module: ModuleType, boxes: Any, center_point_box: int) -> tuple[Any, Any]:
    """The lower and upper corners of boxes: [..., 2] each."""
    first, second = boxes[..., :2], boxes[..., 2:]
    if center_point_box:
        return first - second / 2, first + second / 2
    return module.minimum(first, second), module.maximum(first, second)


def _overlaps(module: ModuleType, corners: tuple[Any, Any], other: tuple[Any, Any]) -> Any:
    """Intersection over union of boxes with one other box; 0 where one has no area."""
    sides = module.minimum(corners[1], other[1]) - module.maximum(corners[0], other[0])
    common = module.where((sides > 0).all(-1), sides.prod(-1), 0)
    area, other_area = (corners[1] - corners[0]).prod(-1), (other[1] - other[0]).prod(-1)
    union = area + other_area - common
    real = (common > 0) & (area > 0) & (other_area > 0) & (union > 0)
    return module.where(real, common / module.where(real, union, 1), 0)


def _selected(boxes: Any, scores: Any, most: int, overlap: float, threshold: float | None, center_point_box: int) -> Any:
    rows: list[tuple[int, int, int]] = []
    for batch, classes in enumerate(scores):
        low, high = _corners(np, boxes[batch], center_point_box)
        for number, of_class in enumerate(classes):
            left = np.argsort(-of_class, kind="stable")
            left = left[~np.isnan(of_class[left]) if threshold is None else of_class[left] > threshold]
            for _ in range(most):
                if not left.size:
                    break
                best, left = left[0], left[1:]
                rows.append((batch, number, int(best)))
                left = left[~(_overlaps(np, (low[left], high[left]), (low[best], high[best])) > overlap)]
    return np.array(rows, np.int64).reshape(-1, 3)


def _traced(boxes: Any, scores: Any, steps: int, overlap: Any, threshold: Any, center_point_box: int, bound: int) -> Any:
    boxes, scores = jnp.asarray(boxes), jnp.asarray(scores)
    batches, classes, total = scores.shape
    filler = jnp.array([batches, classes, total], jax_dtype(np.int64))
    if not scores.size or not steps:
        return jnp.tile(filler, (bound, 1))
    low, high = _corners(jnp, boxes, center_point_box)
    limit = jnp.reshape(jnp.asarray(overlap), ())

    def of_class(low: Any, high: Any, scores: Any) -> tuple[Any, Any]:
        left = ~jnp.isnan(scores) if threshold is None else scores > jnp.reshape(threshold, ())

        def step(left: Any, _: None) -> tuple[Any, tuple[Any, Any]]:
            best = jnp.argmax(jnp.where(left, scores, -jnp.inf))
            best = jnp.where(left[best], best, jnp.argmax(left))  # where all that are left are minus infinity
            found = left[best]
            kept = left & ~(_overlaps(jnp, (low, high), (low[best], high[best])) > limit)
            return kept & (jnp.arange(total) != best), (best, found)

        return lax.scan(step, left, None, length=steps)[1]

    best, found = jax.vmap(jax.vmap(of_class, in_axes=(None, None, 0)))(low, high, scores)
    (places,) = jnp.nonzero(found.reshape(-1), size=bound, fill_value=found.size)
    names = jnp.indices(found.shape)[:2].reshape(2, -1)
    rows = jnp.stack([*names, best.reshape(-1)], -1).astype(filler.dtype)
    return spoiled(jnp.concatenate([rows, filler[None]])[places], jnp.count_nonzero(found) > bound)
