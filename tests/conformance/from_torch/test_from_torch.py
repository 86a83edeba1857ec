"""Networks of PyTorch, imported: outputs, losses, gradients and running statistics are PyTorch's, and what is trained goes to ONNX Runtime.

The exports stand beside this file, with PyTorch's figures; `export.py` makes them. `make test-all` makes them anew as well.
"""

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnxruntime
import optax
import pytest

from tests.processes import ROOT, run_python
from tilestep.onnx import OnnxModel, export_onnx, import_onnx

FOLDER = Path(__file__).parent
NAMES = ("autoencoder", "digits", "encoder", "lstm", "mlp")
MOST_BYTES = 100_000  # of a file that is committed
RTOL = 1e-3  # of the largest number of an array
ATOL = 1e-6  # of the largest gradient of a network: some gradients are 0, such as those of a bias before a batch norm
Figures = dict[str, Any]


@pytest.fixture(scope="module", params=["committed", pytest.param("made anew", marks=pytest.mark.slow)])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the exports are."""
    if request.param == "committed":
        return FOLDER
    if find_spec("torch") is None or find_spec("onnxscript") is None:
        pytest.skip("torch is not installed: pip install '.[torch]'")
    made = tmp_path_factory.mktemp("exports")
    done = run_python("-m", "tests.conformance.from_torch.export", str(made))
    assert done.returncode == 0, done.stderr
    return made


def read(folder: Path, name: str) -> Figures:
    with np.load(folder / f"{name}.npz") as file:  # NumPy unpickles nothing unless it is told to
        return dict(file)


def close(found: Any, wanted: Any, rtol: float = RTOL, atol: float = 0.0) -> None:
    """Raises: AssertionError unless all numbers are within `rtol` of the largest one."""
    np.testing.assert_allclose(found, wanted, rtol=0, atol=rtol * np.abs(wanted).max() + atol)


def objective(model: OnnxModel, figures: Figures) -> Callable[[Any, Any], tuple[Any, Any]]:
    """(params, state) -> (loss, new state) of a training step, as export.py has it."""
    inputs, target = figures[model.inputs[0].name], figures["target"]

    def loss(params: Any, state: Any) -> tuple[Any, Any]:
        (outputs,), state = model.fn(params, state, inputs)
        if target.dtype.kind == "f":
            return jnp.square(outputs - target).mean(), state
        return optax.softmax_cross_entropy_with_integer_labels(outputs, target.astype(np.int32)).mean(), state

    return loss


@pytest.mark.parametrize("name", [pytest.param(name, marks=() if name == "autoencoder" else pytest.mark.slow) for name in NAMES])
def test_outputs_are_those_of_pytorch(folder: Path, name: str) -> None:
    model, figures = import_onnx(folder / f"{name}.onnx"), read(folder, name)
    assert model.inputs[0].shape is not None
    assert model.inputs[0].shape[0] == "batch"
    x, wanted = figures[model.inputs[0].name], figures[model.outputs[0].name]
    close(jax.jit(model.fn)(model.params, x)[0], wanted)
    close(jax.jit(model.fn)(model.params, x[:1])[0], wanted[:1])


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_training_step_has_the_loss_the_gradients_and_the_statistics_of_pytorch(folder: Path, name: str, tmp_path: Path) -> None:
    model, figures = import_onnx(folder / f"{name}.onnx", training=True), read(folder, name)
    step = jax.jit(jax.value_and_grad(objective(model, figures), has_aux=True))
    (loss, state), gradients = step(model.params, model.state)
    close(loss, figures["loss"])

    wanted = {key.removeprefix("grad."): value for key, value in figures.items() if key.startswith("grad.")}
    assert gradients.keys() == wanted.keys()
    largest = max(np.abs(value).max() for value in wanted.values())
    for key, value in wanted.items():
        close(gradients[key], value, atol=ATOL * largest)

    statistics = {key.removeprefix("state."): value for key, value in figures.items() if key.startswith("state.")}
    assert state.keys() == statistics.keys()
    for key, value in statistics.items():
        # PyTorch's variance is larger by n / (n - 1), where n is the batch's size times that of an image; the momentum is 0.1.
        old = model.state[key]
        n = {"mlp": 8, "digits": 64 * 64 if key.startswith("1.") else 64 * 16}[name]
        factor = n / (n - 1) if "var" in key else 1.0
        close(0.9 * old + (state[key] - 0.9 * old) * factor, value)

    trained = {key: value - np.float32(0.05) * gradients[key] for key, value in model.params.items()}
    export_onnx(model, trained, tmp_path / "trained.onnx", state=state)
    session = onnxruntime.InferenceSession(str(tmp_path / "trained.onnx"), providers=["CPUExecutionProvider"])
    x = figures[model.inputs[0].name]
    (theirs,) = session.run(None, {model.inputs[0].name: x})
    inference = import_onnx(folder / f"{name}.onnx")
    close(jax.jit(inference.fn)({**trained, **state}, x)[0], theirs)
    assert np.abs(theirs - figures[model.outputs[0].name]).max() > 2 * RTOL * np.abs(theirs).max()  # it has learnt something


def test_committed_exports_are_small_and_name_no_file() -> None:
    files = [FOLDER / f"{name}{suffix}" for name in NAMES for suffix in (".onnx", ".npz")]
    assert [path.name for path in files if path.stat().st_size > MOST_BYTES] == []
    assert [path.name for path in files if b"site-packages" in path.read_bytes() or bytes(ROOT) in path.read_bytes()] == []
