"""Small networks whose memory on the tiles was published: an MLP, and the first stage of a ResNet-18 without batch norm.

Source: graphcore/tensorflow@b2127bb tensorflow/compiler/plugin/poplar/tests/size_speed_tests (matmul_size_test.py, resnet_size_test.py).
"""

from __future__ import annotations

import itertools
from typing import Any

import jax
import jax.numpy as jnp

Params = dict[str, Any]

RESNET18_IMAGE = (224, 224, 4)
RESNET18_CLASSES = 1000


def mlp_shapes(widths: tuple[int, ...], dtype: Any) -> list[Params]:
    """Shapes of a layer from each width to the next."""
    return [
        {"kernel": jax.ShapeDtypeStruct((inputs, outputs), dtype), "bias": jax.ShapeDtypeStruct((outputs,), dtype)}
        for inputs, outputs in itertools.pairwise(widths)
    ]


def mlp(params: list[Params], x: jax.Array) -> jax.Array:
    """Dense layers, each with a relu."""
    for layer in params:
        x = jax.nn.relu(x @ layer["kernel"] + layer["bias"])
    return x


def resnet18_shapes(dtype: Any) -> Params:
    """Shapes of a stem, a stage of two blocks and a classifier."""

    def conv(size: int, inputs: int) -> Params:
        return {"kernel": jax.ShapeDtypeStruct((size, size, inputs, 64), dtype), "bias": jax.ShapeDtypeStruct((64,), dtype)}

    return {
        "stem": conv(7, RESNET18_IMAGE[-1]),
        "blocks": [[conv(3, 64), conv(3, 64)] for _ in range(2)],
        "head": {
            "kernel": jax.ShapeDtypeStruct((64, RESNET18_CLASSES), dtype),
            "bias": jax.ShapeDtypeStruct((RESNET18_CLASSES,), dtype),
        },
    }


def resnet18(params: Params, images: jax.Array) -> jax.Array:
    """[batch, RESNET18_CLASSES] logits."""
    x = jax.nn.relu(_conv(params["stem"], images, 2))
    x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")
    for first, second in params["blocks"]:
        x = jax.nn.relu(x + _conv(second, jax.nn.relu(_conv(first, x, 1)), 1))
    return x.max((1, 2)) @ params["head"]["kernel"] + params["head"]["bias"]


def _conv(params: Params, x: jax.Array, stride: int) -> jax.Array:
    y = jax.lax.conv_general_dilated(x, params["kernel"], (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    return y + params["bias"]
