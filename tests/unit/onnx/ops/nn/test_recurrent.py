"""RNN, GRU and LSTM as ONNX Runtime has them, in each version and with each option."""

from typing import Any

import jax
import numpy as np
import pytest

from tests.together import each, one_program
from tests.unit.onnx.ops.agree import agrees
from tests.unit.onnx.ops.one_node import by_onnxruntime, node_graph, run_node
from tilestep.onnx.errors import OnnxError
from tilestep.onnx.interpreter.interpret import GraphRun, run_graph

F = np.float32
TIME, BATCH, INPUTS, HIDDEN = 5, 4, 2, 3
GATES, OUTPUTS = {"RNN": 1, "GRU": 3, "LSTM": 4}, {"RNN": 2, "GRU": 2, "LSTM": 3}
LENGTHS = np.array([5, 3, 1, 2], np.int32)


def inputs(name: str, direction: str = "forward", *, full: bool = True) -> list[Any]:
    rng = np.random.default_rng(0)
    directions, size = (2 if direction == "bidirectional" else 1), GATES[name] * HIDDEN
    shapes: list[Any] = [(TIME, BATCH, INPUTS), (directions, size, INPUTS), (directions, size, HIDDEN), (directions, 2 * size)]
    if full:
        state = (directions, BATCH, HIDDEN)
        shapes += [None, state] + ([state, (directions, 3 * HIDDEN)] if name == "LSTM" else [])
    made = [None if shape is None else rng.uniform(-1, 1, shape).astype(F) for shape in shapes]
    return [LENGTHS if value is None else value for value in made]


def check(name: str, given: list[Any], **options: Any) -> None:
    options = {"hidden_size": HIDDEN, **options}
    expected = by_onnxruntime(name, given, version=14, outputs=OUTPUTS[name], **options)
    agrees(expected, name, given, version=14, rtol=1e-4, atol=1e-5, ways=("jit",), **options)


@pytest.mark.slow
@each("name", GATES)
@each("direction", ["forward", "reverse", "bidirectional"])
def test_directions_states_and_lengths(name: str, direction: str) -> None:
    check(name, inputs(name, direction), direction=direction)
    if direction == "reverse":
        check(name, inputs(name, direction, full=False)[:3], direction=direction)
        check(name, inputs(name, direction), direction=direction, clip=0.3)


@each("options", [{"linear_before_reset": 1}, {"linear_before_reset": 1, "clip": 0.2}])
def test_a_gru_may_reset_after_the_product(options: dict[str, Any]) -> None:
    check("GRU", inputs("GRU", "bidirectional"), direction="bidirectional", **options)
    check("GRU", inputs("GRU", "reverse", full=False)[:3], direction="reverse", **options)


@each(
    "function",
    ["Relu", "Tanh", "Sigmoid", "Affine", "LeakyRelu", "ThresholdedRelu", "ScaledTanh", "HardSigmoid", "Elu", "Softsign", "Softplus"],
)
def test_activations(function: str) -> None:
    small = inputs("RNN", full=False)
    check("RNN", small, activations=[function], activation_alpha=[0.3], activation_beta=[0.4])
    if function in ("LeakyRelu", "HardSigmoid", "Elu"):
        check("RNN", small, activations=[function])


def test_defaults_of_activations() -> None:
    # ONNX's ThresholdedRelu has alpha 1; ONNX Runtime takes 0 here.
    one = np.ones((1, 1, 1), F)
    with one_program():
        for x, want in ((0.5, 0), (1.0, 1), (2.0, 2)):
            state = np.full((1, 1, 1), want, F)
            agrees([state[None], state], "RNN", [one * F(x), one, 0 * one], version=14, activations=["ThresholdedRelu"])
    for function in ("Affine", "ScaledTanh"):
        with pytest.raises(OnnxError, match=f"activation '{function}' has no default of alpha and beta"):
            run_node("RNN", [one, one, one], version=14, outputs=2, activations=[function])


@each("name", GATES)
def test_old_versions_and_layouts(name: str) -> None:
    given = inputs(name)
    want = by_onnxruntime(name, given, version=14, outputs=OUTPUTS[name], hidden_size=HIDDEN)
    options: dict[str, Any] = {"rtol": 1e-4, "atol": 1e-5, "ways": ("jit",)}
    for version in (1, 3, 7) if name == "GRU" else (1, 7):
        agrees(want, name, given, version=version, **({"output_sequence": 1} if version < 7 else {}), **options)
    turned = [np.swapaxes(x, 0, 1) if i in (0, 5, 6) else x for i, x in enumerate(given)]
    batched = [want[0].transpose(2, 0, 1, 3), *(np.swapaxes(x, 0, 1) for x in want[1:])]
    agrees(batched, name, turned, version=14, layout=1, **options)


def test_an_example_without_length_keeps_its_state() -> None:
    given = inputs("GRU")
    given[4] = np.array([0, 5, 5, 5], np.int32)
    all_times, last = run_node("GRU", given, "jit", version=14, outputs=2)
    np.testing.assert_array_equal(last[0, 0], given[5][0, 0])
    assert not all_times[:, 0, 0].any()


def test_a_direction_is_one_scan_and_one_product_for_all_inputs() -> None:
    graph = node_graph("LSTM", [0, 0, 0, 0], version=14, outputs=3)
    text = str(jax.make_jaxpr(lambda *x: run_graph(graph, x, GraphRun()))(*inputs("LSTM", full=False)))
    assert text.count("scan[") == 1
    assert text.count("dot_general[") == 2  # of the inputs, and in the scan of the hidden state


@each(
    "options, message",
    [
        ({"direction": "up"}, "direction 'up'"),
        ({"hidden_size": 7}, "hidden_size is 7, and R has 3"),
        ({"clip": 0.0}, "clip is 0.0, and must be above 0"),
        ({"activations": ["Tanh"]}, "it has 1 activations, and needs 3"),
        ({"activations": ["Tanh", "Sin", "Tanh"]}, "activation 'Sin'"),
        ({"direction": "bidirectional"}, r"it needs \[2, 12, 3\] and \[2, 12, 2\]"),
    ],
)
def test_what_does_not_fit_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OnnxError, match=message):
        run_node("LSTM", inputs("LSTM", full=False), "known", version=14, outputs=3, **options)
