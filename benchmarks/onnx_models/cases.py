"""Networks in two ways: as ONNX models, and by hand in JAX with the same weights and inputs."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
import onnx

from benchmarks.models import gpt2, resnet50, transformer
from benchmarks.onnx_models import bert as bert_file
from benchmarks.onnx_models import gpt2 as gpt2_file
from benchmarks.onnx_models import resnet50 as resnet50_file
from tilestep.onnx import OnnxModel, import_onnx

TOKENS: Final = 128
_MOST_ERROR: Final = 1e-4  # of the outputs' standard deviation

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, kw_only=True)
class Case:
    """One network.

    Attributes:
        proto: the ONNX model.
        inputs: of the ONNX model by name, with its dtypes.
        hand: the network by hand, of parameters and inputs.
        hand_params, hand_inputs: what it takes.
    """

    name: str
    proto: onnx.ModelProto
    inputs: Mapping[str, Array]
    hand: Callable[..., Any]
    hand_params: Any
    hand_inputs: tuple[Array, ...]

    @functools.cached_property
    def model(self) -> OnnxModel:
        return import_onnx(self.proto)

    @property
    def model_inputs(self) -> tuple[Array, ...]:
        """Those of the imported model's function, whose integers have 32 bits."""
        return tuple(array.astype(np.int32) if array.dtype == np.int64 else array for array in self.inputs.values())

    def error(self) -> float:
        """The largest difference between outputs of both, in standard deviations of an output."""
        ours = jax.tree.leaves(jax.jit(self.model.fn)(self.model.params, *self.model_inputs))
        theirs = jax.tree.leaves(jax.jit(self.hand)(self.hand_params, *self.hand_inputs))
        return max(float(np.abs(np.asarray(a) - np.asarray(b)).max() / np.std(b)) for a, b in zip(ours, theirs, strict=True))

    def require_equal(self) -> float:
        """The error. Raises: ValueError if the two are different networks."""
        error = self.error()
        if not error <= _MOST_ERROR:
            raise ValueError(
                f"{self.name}: imported and by hand differ by {error:.2g} standard deviations; at most {_MOST_ERROR} is rounding"
            )
        return error


def bert(model: transformer.Encoder = transformer.BERT_BASE_ERF, tokens: int = TOKENS, *, joint: bool = False) -> Case:
    """Args: joint: whether queries, keys and values by hand are one product; the file has three."""
    params = _drawn(transformer.bert_shapes(model, jnp.float32))
    random = np.random.default_rng(1)
    words = random.integers(0, transformer.VOCABULARY, (1, tokens))
    mask, segments = (
        (np.arange(tokens)[None] < tokens - tokens // 8).astype(np.int64),
        (np.arange(tokens)[None] > tokens // 2).astype(np.int64),
    )
    inputs = {"words": words, "mask": mask, "segments": segments}
    return Case(
        name="BERT-base" + ", one product by hand" * joint,
        proto=bert_file.bert(model, params, tokens),
        inputs=inputs,
        hand=functools.partial(transformer.bert, model),
        hand_params=params if joint else transformer.apart(params),
        hand_inputs=tuple(array.astype(np.int32) for array in inputs.values()),
    )


def gpt2_block(model: gpt2.Block = gpt2.SMALL, tokens: int = TOKENS) -> Case:
    params = _drawn(gpt2.shapes(model))
    x = np.random.default_rng(1).standard_normal((1, tokens, model.width)).astype(np.float32)
    return Case(
        name="GPT-2 block",
        proto=gpt2_file.block(model, params, tokens),
        inputs={"x": x},
        hand=functools.partial(gpt2.forward, model),
        hand_params=params,
        hand_inputs=(x,),
    )


def resnet(stages: Any = resnet50.STAGES, image: int = resnet50.IMAGE, *, norms: bool = True) -> Case:
    """Args: norms: whether the file has batch norms of its own; by hand they are folded."""
    weights = resnet50_file.drawn(stages)
    images = np.random.default_rng(1).standard_normal((1, 3, image, image)).astype(np.float32)
    return Case(
        name="ResNet-50" + ", folded in the file" * (not norms),
        proto=resnet50_file.resnet50(weights, image, stages=stages, norms=norms),
        inputs={"data": images},
        hand=functools.partial(resnet50.forward, stages=stages),
        hand_params=resnet50_file.folded(weights),
        hand_inputs=(np.ascontiguousarray(images.transpose(0, 2, 3, 1)),),
    )


NETWORKS: Final[Mapping[str, Callable[[], Case]]] = {"ResNet-50": resnet, "BERT-base": bert, "GPT-2 block": gpt2_block}
SMALL: Final[Mapping[str, Callable[[], Case]]] = {  # for tests
    "resnet": lambda: resnet(((64, 1, 1), (128, 1, 2)), 64, norms=False),
    "bert": lambda: bert(transformer.Encoder(width=128, layers=1, heads=8, gelu="erf"), 64),
    "gpt2": lambda: gpt2_block(gpt2.Block(width=256, heads=8), 64),
}


def _drawn(shapes: Any, seed: int = 0) -> Any:
    """Random parameters: norms have scales about 1, matrices keep the size of what they multiply."""
    random = np.random.default_rng(seed)

    def array(path: Any, shape: Any) -> Array:
        center = 1.0 if path[-1].key == "scale" else 0.0
        width = 0.1 if len(shape.shape) == 1 else 1 / np.sqrt(shape.shape[0]) if path[-1].key == "kernel" else 0.5
        return (center + width * random.standard_normal(shape.shape)).astype(shape.dtype)

    return jax.tree_util.tree_map_with_path(array, shapes)
