"""ResNet-50 as PyTorch's exporter writes torchvision's, with its batch norms or, as it does for evaluation, with these folded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import jax
import numpy as np
import onnx

from benchmarks.models.resnet50 import STAGES, Stage, shapes
from benchmarks.onnx_models.writer import Writer

Params = dict[str, Any]
_EPSILON: Final = 1e-5


def drawn(stages: Sequence[Stage] = STAGES, seed: int = 0) -> Params:
    """Random weights: kernels [out, in, rows, columns] and norms with statistics, of each convolution; and the classifier."""
    random = np.random.default_rng(seed)

    def conv(shape: Params) -> Params:
        rows, columns, inputs, outputs = shape["kernel"].shape
        kernel = random.standard_normal((outputs, inputs, rows, columns)) * np.sqrt(2 / (inputs * rows * columns))
        norm = {"scale": random.uniform(0.5, 1.5, outputs), "bias": random.uniform(-0.2, 0.2, outputs)}
        statistics = {"mean": random.uniform(-0.2, 0.2, outputs), "variance": random.uniform(0.5, 1.5, outputs)}
        return {name: value.astype(np.float32) for name, value in {"kernel": kernel, **norm, **statistics}.items()}

    tree = shapes(np.float32, stages=stages)
    head = {name: (random.standard_normal(shape.shape) * 0.02).astype(np.float32) for name, shape in tree["head"].items()}
    blocks = [{name: conv(shape) for name, shape in block.items()} for block in tree["blocks"]]
    return {"stem": conv(tree["stem"]), "blocks": blocks, "head": head}


def folded(weights: Params) -> Params:
    """The same network as `benchmarks.models.resnet50` wants it: kernels [rows, columns, in, out] with the norms in them."""

    def conv(own: Params) -> Params:
        factor = own["scale"] / np.sqrt(own["variance"] + _EPSILON)
        kernel = own["kernel"].transpose(2, 3, 1, 0) * factor
        return {"kernel": np.ascontiguousarray(kernel), "bias": own["bias"] - own["mean"] * factor}

    return jax.tree.map(lambda own: own if "mean" not in own else conv(own), weights, is_leaf=lambda own: "kernel" in own)


def resnet50(weights: Params, image: int, *, stages: Sequence[Stage] = STAGES, norms: bool = True, batch: int = 1) -> onnx.ModelProto:
    """float32[batch, 3, image, image] in, [batch, 1000] out.

    Args:
        weights: of `drawn`.
        norms: whether batch norms are nodes of their own; else they are folded into the convolutions.
    """
    to = Writer(opset=17)
    x = to.node("Relu", _conv(to, "data", weights["stem"], 2, "conv1", norms))
    x = to.node("MaxPool", x, kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2], ceil_mode=0)
    blocks = iter(weights["blocks"])
    for stage, (_, count, stride) in enumerate(stages, 1):
        for index in range(count):
            x = _block(to, x, next(blocks), 1 if index else stride, f"layer{stage}.{index}", norms)
    head = weights["head"]
    flat = to.node("Flatten", to.node("GlobalAveragePool", x), axis=1)
    classifier = to.weight(head["kernel"].T, "fc.weight"), to.weight(head["bias"], "fc.bias")
    return to.model("resnet50", [("data", np.float32, (batch, 3, image, image))], [to.node("Gemm", flat, *classifier, transB=1)])


def _block(to: Writer, x: str, weights: Params, stride: int, name: str, norms: bool) -> str:
    y = to.node("Relu", _conv(to, x, weights["reduce"], 1, f"{name}.conv1", norms))
    y = to.node("Relu", _conv(to, y, weights["spatial"], stride, f"{name}.conv2", norms))
    y = _conv(to, y, weights["expand"], 1, f"{name}.conv3", norms)
    shortcut = _conv(to, x, weights["shortcut"], stride, f"{name}.downsample.0", norms) if "shortcut" in weights else x
    return to.node("Relu", to.node("Add", y, shortcut))


def _conv(to: Writer, x: str, own: Params, stride: int, name: str, norms: bool) -> str:
    """A convolution that keeps the size of the field but for the stride, and its batch norm."""
    size = own["kernel"].shape[-1]
    how = {"kernel_shape": [size] * 2, "strides": [stride] * 2, "pads": [size // 2] * 4, "dilations": [1, 1], "group": 1}
    if not norms:
        plain = folded(own)
        kernel = to.weight(plain["kernel"].transpose(3, 2, 0, 1), f"{name}.weight")
        return to.node("Conv", x, kernel, to.weight(plain["bias"], f"{name}.bias"), **how)
    y = to.node("Conv", x, to.weight(own["kernel"], f"{name}.weight"), **how)
    norm = [to.weight(own[part], f"{name}.bn.{part}") for part in ("scale", "bias", "mean", "variance")]
    return to.node("BatchNormalization", y, *norm, epsilon=_EPSILON, momentum=0.9)
