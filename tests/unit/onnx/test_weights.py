"""Initialisers that an optimiser changes are those that were learned: no numbers of masks, comparisons, clips and shapes."""

from pathlib import Path

import jax
import numpy as np
import onnx
import pytest

from tests.unit.onnx.models import model, uniform
from tilestep.onnx import OnnxError, export_onnx, import_onnx

INF, MOST = np.float32(np.inf), np.finfo(np.float32).max
CAUSAL = np.where(np.tri(3, dtype=bool), np.float32(0), -INF)
MASKED = {  # what an exporter writes: text, initialisers that are none of the weights
    "an added mask": ("s = Add(m, hidden)", {"hidden": CAUSAL}),
    "a finite mask": ("s = Add(m, hidden)", {"hidden": np.where(np.tri(3, dtype=bool), np.float32(0), np.float32(-100))}),
    "numbers of Where": (
        "f = Cast <to = 9> (seen)  h = Where(f, zero, low)  s = Add(m, h)",
        {"zero": np.float32(0), "low": np.float32(-MOST)},
    ),
    "a mask from an input": (
        "f = Cast <to = 1> (seen)  n = Sub(one, f)  h = Mul(n, low)  s = Add(m, h)",
        {"one": np.float32(1), "low": np.float32(-MOST)},
    ),
    "a mask that is inverted": (
        "f = Cast <to = 1> (seen)  n = Sub(one, f)  i = Cast <to = 9> (n)  h = Where(i, low, n)  s = Add(m, h)",
        {"one": np.float32(1), "low": np.float32(-MOST)},
    ),
    "a masked product": ("f = Cast <to = 9> (seen)  s = Where(f, m, low)", {"low": -INF}),
    "a comparison": ("b = Less(m, level)  f = Cast <to = 1> (b)  s = Mul(m, f)", {"level": np.float32(0.5)}),
    "bounds": ("u = Clip(m, least, most)  s = Max(u, level)", {"least": np.float32(-2), "most": np.float32(2), "level": np.float32(-1)}),
    "an index": ("i = Cast <to = 7> (place)  s = Gather <axis = 0> (m, i)", {"place": np.float32([2, 0, 1])}),
    "a branch": (
        """b = Cast <to = 9> (flag)  s = If(b) <then_branch = t () => (float[3,3] u) { u = Add(m, hidden) },
            else_branch = e () => (float[3,3] v) { v = Where(b, low, m) }>""",
        {"flag": np.int64(1), "hidden": CAUSAL, "low": -INF},
    ),
    "a function": ("s = local.masked(m, seen, low)", {"low": np.float32(-MOST)}),
}
FUNCTION = '<domain: "local", opset_import: ["": 17]> masked (m, seen, low) => (s) { f = Cast <to = 9> (seen)  s = Where(f, m, low) }'


@pytest.mark.parametrize("case", MASKED)
def test_what_was_not_learned_is_no_parameter(case: str) -> None:
    text, numbers = MASKED[case]
    learned = "p = PRelu(x, slope)  r = MatMul(p, w)  m = Div(r, heat)"
    graph = f"(float[3,4] x, int64[3] seen) => (float[3,3] y) {{ {learned}  {text}  y = Mul(s, large) }}"
    weights = {"w": uniform(4, 3), "slope": np.float32(0.1), "heat": np.float32(2), "large": np.float32(100)}
    made = model(graph, imports=', "local": 1', functions=FUNCTION, **weights, **numbers)
    for training in (False, True):
        found = import_onnx(made, training=training)
        assert (set(found.params), set(found.constants), found.state) == (set(weights), set(numbers), {})


def test_what_is_finite_may_be_chosen_and_what_is_not_never() -> None:
    text = "(float[3,4] x) => (float[3,3] y) { m = MatMul(x, w)  u = Clip(m, least)  y = Add(u, hidden) }"
    made = model(text, w=uniform(4, 3), hidden=CAUSAL, least=np.float32(-2))
    assert set(import_onnx(made, trainable=["w", "least"]).params) == {"w", "least"}
    assert set(import_onnx(made, trainable=lambda _: True).params) == {"w", "least"}
    with pytest.raises(OnnxError, match="trainable names 'hidden', which can be no parameter, because it has NaN or infinities"):
        import_onnx(made, trainable=["w", "hidden"])


def test_weights_that_stand_in_nodes_are_parameters(tmp_path: Path) -> None:
    # As PaddlePaddle's exporter writes them. A single number is the program's, such as an epsilon, and so are integers and masks.
    arrays = {"w": uniform(4, 3), "b": uniform(3), "hidden": CAUSAL, "half": np.float32(0.5), "shape": np.int64([3, 3])}
    text = (
        "(float[3,4] x) => (float[3,3] y) { m = MatMul(x, w)  a = Add(m, b)  h = Mul(a, half)  s = Add(h, hidden)  y = Reshape(s, shape) }"
    )
    made = model(text)
    nodes = [onnx.helper.make_node("Constant", [], [name], value=onnx.numpy_helper.from_array(array)) for name, array in arrays.items()]
    nodes += made.graph.node
    del made.graph.node[:]
    made.graph.node.extend(nodes)
    x = uniform(3, 4)
    expected = (x @ arrays["w"] + arrays["b"]) * 0.5 + CAUSAL
    found = import_onnx(made)
    assert (set(found.params), set(found.constants)) == ({"w", "b"}, {"hidden"})
    for one in (found, found.frozen()):
        np.testing.assert_allclose(jax.jit(one.fn)(one.params, x)[0], expected, rtol=1e-5)
    with pytest.raises(OnnxError, match="trainable names 'half', which is no initialiser"):
        import_onnx(made, trainable=["half"])
    export_onnx(found, {**found.params, "b": found.params["b"] + 1}, tmp_path / "new.onnx")
    np.testing.assert_allclose(import_onnx(tmp_path / "new.onnx")(x)[0], expected + 0.5, rtol=1e-5)
    made.graph.initializer.append(onnx.numpy_helper.from_array(uniform(3), "other"))  # a file that tells weights from numbers
    assert not import_onnx(made).params


def test_a_cast_to_no_type_is_refused_by_name_and_one_to_a_name_has_a_gradient() -> None:
    made = model("(float[2] x) => (float[2] y) { y = Mul(x, w)  z = Cast <to = 1> (y) }", w=uniform(2))
    made.graph.output[0].name = "z"
    del made.graph.node[1].attribute[:]
    with pytest.raises(OnnxError, match="'to'"):
        import_onnx(made)(np.float32([1, 2]))
    made.graph.node[1].attribute.append(onnx.helper.make_attribute("to", "FLOAT"))
    made.opset_import[0].version = 5
    made.graph.node[0].attribute.append(onnx.helper.make_attribute("broadcast", 0))
    assert set(import_onnx(made).params) == {"w"}
