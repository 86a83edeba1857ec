"""Whole networks that onnx ships, with random weights, against ONNX Runtime: as parameters and frozen."""

from pathlib import Path
from typing import Any

import jax
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper

from tilestep.onnx import import_onnx

FOLDER = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
QUICK = "light_squeezenet"
NAMES = sorted(path.stem for path in FOLDER.glob("*.onnx"))
MOST_ERROR = 2e-3  # of the standard deviation of the output


def image(shape: Any) -> np.ndarray[Any, Any]:
    """As onnx's runner makes it: from 0 to 1 along all pixels."""
    sizes = [size if isinstance(size, int) else 1 for size in shape]
    return np.linspace(0, 1, int(np.prod(sizes)), endpoint=False, dtype=np.float32).reshape(sizes)


def with_random_weights(path: Path) -> onnx.ModelProto:
    """The model with random initialisers instead of the nodes that fill its weights with one number."""
    made, rng = onnx.load(str(path)), np.random.default_rng(0)
    given = {tensor.name: numpy_helper.to_array(tensor) for tensor in made.graph.initializer}
    filled = [node for node in made.graph.node if node.op_type == "ConstantOfShape" and node.input[0] in given]
    for node in filled:
        shape = tuple(int(size) for size in given[node.input[0]])
        scale = (2 / max(1, int(np.prod(shape[1:])))) ** 0.5 if len(shape) > 1 else 0.1
        weights = rng.normal(size=shape).astype(np.float32) * np.float32(scale)
        if len(shape) == 1:
            weights = np.abs(weights) + 1  # variances of batch norms are among them
        made.graph.initializer.append(numpy_helper.from_array(weights, node.output[0]))
        made.graph.node.remove(node)
    return made


@pytest.mark.slow
@pytest.mark.parametrize("name", [pytest.param(name, marks=() if name == QUICK else pytest.mark.slow) for name in NAMES])
def test_a_network_with_random_weights_gives_what_onnx_runtime_says(name: str) -> None:
    made = with_random_weights(FOLDER / f"{name}.onnx")
    session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    found = import_onnx(made)
    x = np.random.default_rng(1).normal(size=image(found.inputs[0].shape).shape).astype(np.float32)
    (wanted,) = session.run(None, {found.inputs[0].name: x})
    for model in (found, found.frozen()):
        (y,) = jax.jit(model.fn)(model.params, x)
        assert np.abs(y - wanted).max() <= MOST_ERROR * max(float(np.std(wanted)), 1e-9)
