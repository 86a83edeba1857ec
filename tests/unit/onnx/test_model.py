"""A model is a plain function of JAX: it can be compiled, differentiated, mapped and divided, and refuses what does not fit."""

import threading
from pathlib import Path
from typing import Any

import jax
import numpy as np
import onnx
import onnxruntime
import pytest

from tests.unit.onnx.models import linear, model, uniform
from tilestep.onnx import DynamicShapeError, OnnxError, OnnxModel, import_onnx, register_op
from tilestep.onnx import model as modelling
from tilestep.onnx.interpreter import registry
from tilestep.onnx.interpreter.values import SequenceValue
from tilestep.onnx.reading.specs import narrowed

X = uniform(2, 3)


@pytest.fixture(scope="module")
def found() -> OnnxModel:
    return import_onnx(linear())


def test_a_name_that_every_export_has_gives_way_to_the_name_of_the_file(tmp_path: Path) -> None:
    made = linear()
    made.graph.name = "main_graph"
    onnx.save(made, str(tmp_path / "linear.onnx"))
    assert import_onnx(tmp_path / "linear.onnx").name == "linear"
    assert import_onnx(tmp_path / "linear.onnx").fn.__name__ == "linear"
    assert import_onnx(made).name == "main_graph"


def expected(found: OnnxModel, x: Any = X) -> Any:
    return x @ found.params["w"] + found.params["b"]


def test_a_model_says_what_it_is(found: OnnxModel) -> None:
    assert repr(found) == "<OnnxModel net: x: float32[N, 3] -> y; 2 parameters>"
    assert (found.name, found.opset, found.static_inputs, found.training, found.draws) == ("net", {"": 17}, (), False, False)
    assert {name: array.shape for name, array in found.params.items()} == {"w": (3, 4), "b": (4,)}
    text = found.summary(width=80)
    for part in (
        "net: 2 parameters of 16 numbers (64 B); ai.onnx 17",
        "input    x      float32[N, 3]",
        "output   y      float32[N, 4]",
        "MatMul",
    ):
        assert part in text


RESHAPED = "(float[N,3] x, int64[2] s) => (float[a,b] y) { z = Mul(x, w)  y = Reshape(z, s) }"


@pytest.mark.parametrize("shape", [(3, 2), [3, 2], np.array([3, 2]), np.array([3, 2], np.int32)])
def test_static_inputs_are_numbers_that_no_program_traces(shape: Any) -> None:
    made = import_onnx(model(RESHAPED, w=np.float32(2)))
    wanted = (2 * X).reshape(3, 2)
    np.testing.assert_allclose(made(X, shape)[0], wanted)
    np.testing.assert_allclose(made.run({"x": X, "s": shape})["y"], wanted)
    np.testing.assert_allclose(jax.jit(lambda params, x: made.fn(params, x, shape))(made.params, X)[0], wanted)
    np.testing.assert_allclose(jax.vmap(lambda x: made.fn(made.params, x, shape)[0])(X[None])[0], wanted)


def test_a_tuple_is_a_static_argument() -> None:
    made = import_onnx(model(RESHAPED, w=np.float32(2)))
    program = jax.jit(made.fn, static_argnums=2)
    assert [program(made.params, X, shape)[0].shape for shape in ((3, 2), (6, 1), (3, 2))] == [(3, 2), (6, 1), (3, 2)]
    assert program._cache_size() == 2
    with pytest.raises(DynamicShapeError, match="input 's' must be known when the program is made, and is traced"):
        jax.jit(made.fn)(made.params, X, np.array([3, 2]))


def test_static_values_are_no_inputs_any_more() -> None:
    made = import_onnx(model(RESHAPED, w=np.float32(2)), static={"s": (3, 2)})
    assert [spec.name for spec in made.inputs] == ["x"]
    np.testing.assert_allclose(jax.jit(made.fn)(made.params, X)[0], (2 * X).reshape(3, 2))
    np.testing.assert_array_equal(made.constants["s"], [3, 2])


def test_any_input_may_be_made_static() -> None:
    text = "(float[4] x, bool c) => (float[n] y) { y = If(c) <then_branch = t () => (float[n] u) { u = Identity(x) }, "
    made = model(text + "else_branch = e () => (float[n] v) { v = Concat <axis = 0> (x, x) }> }")
    with pytest.raises(DynamicShapeError, match="If"):
        jax.jit(import_onnx(made).fn)({}, np.ones(4, np.float32), True)
    static = import_onnx(made, static=["c"])
    assert static.static_inputs == ("c",)
    assert jax.jit(static.fn, static_argnums=2)({}, np.ones(4, np.float32), False)[0].shape == (8,)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ([], r"0 inputs are given, and the model takes 2: x float32\[N, 3\], z float32\[N, 2\]"),
        ([X[0], X[:, :2]], r"input 'x' has shape \[3\], of 1 dimensions and not 2: the model declares float32\[N, 3\]"),
        ([X[:, :2], X[:, :2]], r"input 'x' has shape \[2, 2\], so dimension 1 is 2 and not 3"),
        ([X.astype(np.float64), X[:, :2]], r"input 'x' is an array of float64: the model declares float32"),
        ([X.astype(np.int32), X[:, :2]], r"input 'x' is an array of int32"),
        ([[[1.0, 2, 3], [4, 5]], X[:, :2]], "input 'x' is no array"),
        ([None, X[:, :2]], "input 'x' is missing"),
        (["text", X[:, :2]], "input 'x' is an array of object"),
    ],
)
def test_inputs_that_do_not_fit_are_refused(inputs: list[Any], message: str) -> None:
    made = import_onnx(model("(float[N,3] x, float[N,2] z) => (float[N,5] y) { y = Concat <axis = 1> (x, z) }"))
    for way in (lambda: made(*inputs), lambda: made.fn({}, *inputs)):
        with pytest.raises(OnnxError, match=message):
            way()


def test_names_that_the_model_does_not_have_are_refused(found: OnnxModel) -> None:
    with pytest.raises(OnnxError, match="the model has no input 'images': it has x"):
        found.run({"images": X})
    with pytest.raises(OnnxError, match=r"params lacks 'b': it must have the names of model\.params"):
        found.fn({"w": found.params["w"]}, X)
    with pytest.raises(OnnxError, match="params has 'c', which the model does not have"):
        found.fn({**found.params, "c": X}, X)
    with pytest.raises(OnnxError, match="params is a list"):
        found.fn([X], X)
    with pytest.raises(OnnxError, match="static names 'z', and the model's inputs are x"):
        import_onnx(linear(), static=["z"])
    with pytest.raises(TypeError, match=r"static is the text 'x': it must be a list of inputs' names, such as \['x'\]"):
        import_onnx(linear(), static="x")
    with pytest.raises(OnnxError, match="bounds names 'q', and the model has no such node or value"):
        import_onnx(linear(), bounds={"q": 3})
    with pytest.raises(OnnxError, match=r"bounds\['y'\] is -1: it must be a whole number"):
        import_onnx(linear(), bounds={"y": -1})
    with pytest.raises(OnnxError, match="trainable names 'x', which is no initialiser"):
        import_onnx(linear(), trainable=["x"])
    with pytest.raises(TypeError, match="bounds is a list: it must be a mapping"):
        import_onnx(linear(), bounds=["y"])
    with pytest.raises(TypeError, match="training is 'yes': it must be True or False"):
        import_onnx(linear(), training="yes")


def test_integers_at_the_bounds_of_32_bits_are_kept() -> None:
    bounds = np.array([-(2**31), 2**31 - 1])
    np.testing.assert_array_equal(narrowed("x", bounds), bounds)


def test_integers_beyond_32_bits_are_exact_or_an_error() -> None:
    made = import_onnx(model("(int64[2] x) => (int64[2] y) { y = Add(x, one) }", one=np.array(1)))
    large = np.array([2**40, -5])
    np.testing.assert_array_equal(made(large)[0], large + 1)
    np.testing.assert_array_equal(made.run({"x": large})["y"], large + 1)
    with pytest.raises(OnnxError, match=r"input 'x' has 1099511627776, which int32 cannot hold: without jax.enable_x64"):
        made.fn({}, large)
    np.testing.assert_array_equal(made.fn({}, np.array([7, -5]))[0], [8, -4])
    with jax.enable_x64(True):
        np.testing.assert_array_equal(jax.jit(made.fn)({}, large)[0], large + 1)


def test_shapes_that_depend_on_values_run_node_by_node() -> None:
    made = import_onnx(model("(float[N] x) => (int64[1,M] y) { n = NonZero(x)  y = Mul(n, two) }", two=np.array(2)))
    x = np.array([0, 3, 0, 4], np.float32)
    np.testing.assert_array_equal(made(x)[0], [[2, 6]])
    np.testing.assert_array_equal(made.run({"x": x})["y"], [[2, 6]])
    np.testing.assert_array_equal(made.run({"x": x[:2]})["y"], [[2]])
    with pytest.raises(DynamicShapeError, match=r"(?s)NonZero-17, which makes n.*model\(\.\.\.\).*static=.*bounds="):
        jax.jit(made.fn)({}, x)


RATES = "wide = Equal(sr, rate)  y = If(wide) <then_branch = t () => (float[1,2] u) { u = MatMul(x, w1) }, "
RATES += "else_branch = e () => (float[1,2] v) { v = MatMul(x, w2) }>"
LOOPED = "y = Loop(sr, , x) <body = b (int64 i, bool p, float[1,4] s) => (bool q, float[1,4] t) { q = Identity(p)  t = MatMul(s, w2) }>"


@pytest.mark.parametrize(
    ("graph", "functions", "known", "wanted"),
    [
        (f"(float[1,4] x, int64 sr) => (float[1,2] y) {{ {RATES} }}", "", 16000, lambda x, w: x @ w),
        (
            "(float[1,4] x, int64 sr) => (float[1,2] y) { y = local.rates(x, sr, rate, w1, w2) }",
            f'<domain: "local", opset_import: ["": 17]> rates (x, sr, rate, w1, w2) => (y) {{ {RATES} }}',
            16000,
            lambda x, w: x @ w,
        ),
        (f"(float[1,4] x, int64 sr) => (float[1,4] y) {{ {LOOPED} }}", "", 0, lambda x, w: x),
    ],
)
def test_a_graph_that_cannot_take_the_input_needs_what_chooses_it(graph: str, functions: str, known: int, wanted: Any) -> None:
    # The other branch, or the body of a loop without turns, multiplies [1, 4] by [6, 2].
    weights = {"rate": np.array(16000), "w1": uniform(4, 2), "w2": uniform(6, 2)}
    imports = ', "local": 1' if functions else ""
    proto = model(graph, functions=functions, imports=imports, **weights)
    made, x, sr = import_onnx(proto), uniform(1, 4), np.array(known)
    for y in (made(x, sr)[0], made.run({"x": x, "sr": sr})["y"]):
        np.testing.assert_allclose(y, wanted(x, weights["w1"]), rtol=1e-5)
    with pytest.raises(DynamicShapeError, match=r"can't take \(float32\[1, 4\], float32\[6, 2\]\).* static=\['sr'\]\)(\n|$)") as found:
        jax.jit(made.fn)(made.params, x, sr)
    assert found.value.inputs == ("sr",)
    fixed = import_onnx(proto, static={"sr": sr})
    np.testing.assert_allclose(jax.jit(fixed.fn)(fixed.params, x)[0], wanted(x, weights["w1"]), rtol=1e-5)


def test_a_branch_that_fails_for_another_reason_says_that_reason() -> None:
    text = "(float[1,4] x, bool c) => (float[1,4] y) { y = If(c) <then_branch = t () => (float[1,4] u) { u = RandomNormalLike(x) }, "
    made = import_onnx(model(text + "else_branch = e () => (float[1,4] v) { v = Neg(x) }> }"))
    with pytest.raises(OnnxError, match=r"^node \(RandomNormalLike-17, which makes u\) draws random numbers: give a key"):
        jax.jit(made.fn)({}, uniform(1, 4), np.array(True))


def test_dimensions_of_one_name_may_differ() -> None:
    # ONNX Runtime runs it: exporters give '?' to every dimension whose size they don't know.
    made = model("(float[N,3,N,N] x, float[M,3] z) => (float[N,3,M,N] y, float[N,3] u) { y = Relu(x)  u = Add(z, w) }", w=np.float32(2))
    x, z = uniform(1, 3, 4, 6), uniform(2, 3)
    found = import_onnx(made)
    expected = onnxruntime.InferenceSession(made.SerializeToString()).run(None, {"x": x, "z": z})
    for outputs in (found(x, z), found.run({"x": x, "z": z}).values(), jax.jit(found.fn)(found.params, x, z)):
        for y, wanted in zip(outputs, expected, strict=True):
            np.testing.assert_array_equal(y, wanted)


def test_an_input_with_an_initialiser_may_be_left_out() -> None:
    made = model("(float[2] x, float[2] w, int64[1] s) => (float[2] y, float[a] z) { y = Mul(x, w)  z = Reshape(y, s) }")
    made.graph.initializer.extend(model("() => () {}", w=np.float32([2, 3]), s=np.array([2])).graph.initializer)
    found = import_onnx(made)
    assert [spec.name for spec in found.inputs] == ["x"]
    x = np.ones(2, np.float32)
    np.testing.assert_array_equal(found.run({"x": x})["y"], [2, 3])
    changed = found.run({"x": x, "w": np.float32([5, 6])})
    np.testing.assert_array_equal(changed["z"], [5, 6])
    with pytest.raises(OnnxError, match=r"input 'w' has shape \[1\]"):
        found.run({"x": x, "w": x[:1]})


@pytest.mark.parametrize(
    ("name", "training", "why"),
    [
        ("steps", False, "it is int32"),
        ("shape", False, "a shape or a choice of the program depends on its value"),
        ("ratio", False, "it is the ratio of a dropout"),
        ("mean", True, "it is a statistic of a batch norm, which is state in training"),
    ],
)
def test_a_list_of_parameters_with_one_that_can_be_none_is_refused(name: str, training: bool, why: str) -> None:
    proto = model(
        """(float[2,3] x) => (float[3,2] y) {
            n = BatchNormalization(x, scale, bias, mean, variance)  d = Dropout(n, ratio)
            c = Cast <to=1>(steps)  a = Add(d, c)  y = Reshape(a, shape) }""",
        scale=np.ones(3, np.float32),
        bias=np.zeros(3, np.float32),
        mean=np.zeros(3, np.float32),
        variance=np.ones(3, np.float32),
        ratio=np.float32(0.5),
        steps=np.int32(3),
        shape=np.array([3, 2]),
    )
    with pytest.raises(OnnxError, match=f"trainable names '{name}', which can be no parameter, because {why}"):
        import_onnx(proto, trainable=["scale", name], training=training)
    assert set(import_onnx(proto, trainable=["scale"], training=training).params) == {"scale"}
    chosen = import_onnx(proto, trainable=lambda _: True, training=training)  # a function is asked of those that can be
    assert set(chosen.params) == {"scale", "bias"} | (set() if training else {"mean", "variance"})


def test_trainable_chooses_parameters() -> None:
    for trainable in (["w"], lambda name: name == "w"):
        made = import_onnx(linear(), trainable=trainable)
        assert (set(made.params), set(made.constants)) == ({"w"}, {"b"})
        np.testing.assert_allclose(made.fn(made.params, X)[0], X @ made.params["w"] + made.constants["b"], rtol=1e-5, atol=1e-6)
    trained = import_onnx(linear(), trainable=["w"], training=True)
    assert (set(trained.params), set(trained.state)) == ({"w"}, {"b"})
    (y,), state = jax.jit(trained.fn)(trained.params, trained.state, X)
    np.testing.assert_allclose(y, X @ trained.params["w"] + trained.state["b"], rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(state["b"], trained.state["b"])


@pytest.mark.skipif(jax.__version_info__ >= (0, 12), reason="XLA has programs for float6 then")
def test_a_weight_of_a_type_without_programs_is_named() -> None:
    proto = model("(float[2] x) => (float[2] y) { c = Cast<to = 1>(w)  y = Add(x, c) }", opset=23, w=np.float32([1, 2]))
    proto.graph.initializer[0].CopyFrom(onnx.helper.make_tensor("w", onnx.TensorProto.FLOAT6E3M2, [2], [1.0, 2.0]))
    found = import_onnx(proto)
    with pytest.raises(OnnxError, match="initialiser 'w' is float6_e3m2fn, which XLA has no programs for"):
        found(np.float32([1, 2]))
    proto.graph.input[0].type.tensor_type.elem_type = onnx.TensorProto.FLOAT6E3M2
    del proto.graph.initializer[:], proto.graph.node[:]
    proto.graph.node.append(onnx.helper.make_node("Cast", ["x"], ["y"], to=onnx.TensorProto.FLOAT))
    with pytest.raises(OnnxError, match="an input is float6_e3m2fn, which XLA has no programs for"):
        import_onnx(proto)(found.params["w"])


def test_frozen_weights_are_constants(found: OnnxModel, monkeypatch: pytest.MonkeyPatch) -> None:
    frozen = found.frozen()
    assert (frozen.params, set(frozen.constants)) == ({}, {"w", "b"})
    np.testing.assert_allclose(jax.jit(frozen.fn)({}, X)[0], expected(found), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(frozen(X)[0], expected(found), rtol=1e-5, atol=1e-6)
    monkeypatch.setattr(modelling, "MOST_FROZEN_WEIGHT_BYTES", 63)
    with pytest.raises(OnnxError, match=r"the weights have 64 B, and at most 63 B can be constants"):
        found.frozen()
    with pytest.raises(OnnxError, match="a model for training can't be frozen"):
        import_onnx(linear(), training=True).frozen()


def test_the_ratio_of_a_dropout_is_no_parameter_wherever_the_dropout_is() -> None:
    made = model(
        "(float[4] x, bool c) => (float[4] y) { a = Mul(x, w)  d = Dropout(a, r)  e = local.drop(d, s)  "
        "y = If (c) <then_branch = g () => (float[4] f) { f = Dropout(e, t) }, else_branch = h () => (float[4] f) { f = Identity(e) }> }",
        imports=', "local": 1',
        functions='<domain: "local", opset_import: ["": 17]> drop (z, ratio) => (o) { o = Dropout(z, ratio) }',
        w=uniform(4),
        **dict.fromkeys("rst", np.float32(0.5)),
    )
    for training in (False, True):
        found = import_onnx(made, training=training)
        assert (found.params.keys(), found.state) == ({"w"}, {})
        assert found.constants.keys() >= {"r", "s", "t"}


def test_sequences_optionals_and_text_go_in_and_out() -> None:
    made = import_onnx(
        model("(seq(float[N]) xs) => (seq(float[N]) ys, float[M] y) { ys = Identity(xs)  y = ConcatFromSequence <axis = 0> (xs) }")
    )
    xs = [np.ones(2, np.float32), np.zeros(3, np.float32)]
    for ys, y in (made(xs), made.run({"xs": xs}).values(), jax.jit(made.fn)({}, xs)):
        assert isinstance(ys, list | SequenceValue)
        assert ([element.shape for element in ys], y.tolist()) == ([(2,), (3,)], [1, 1, 0, 0, 0])
    text = import_onnx(model("(string[2] x) => (string[2] y) { y = Identity(x) }"))
    assert text.static_inputs == ("x",)
    assert text(["a", "b"])[0].tolist() == ["a", "b"] == text.run({"x": np.array(["a", "b"])})["y"].tolist()


def test_ones_own_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_operators", dict(registry._operators))

    @register_op("com.example", "Twice", 1)
    def twice(call: Any, x: Any, *, shift: float = 0.0) -> Any:
        return 2 * x + shift

    made = import_onnx(model("(float[2] x) => (float[2] y) { y = com.example.Twice <shift = 0.5> (x) }", imports=', "com.example": 3'))
    np.testing.assert_array_equal(made(np.float32([1, 2]))[0], [2.5, 4.5])


def test_a_node_that_fails_is_named(found: OnnxModel) -> None:
    made = import_onnx(model("(float[2,N] x, float[2,M] z) => (float[2,N] y) { s = Relu(x)  y = Add(s, z) }"))
    with pytest.raises(OnnxError, match=r"node \(Add-17, which makes y\) can't take \(float32\[2, 3\], float32\[2, 2\]\)"):
        made(np.ones((2, 3), np.float32), np.ones((2, 2), np.float32))


def test_threads_run_one_model_at_once(found: OnnxModel) -> None:
    results: list[Any] = []
    threads = [threading.Thread(target=lambda: results.append(found.run({"x": X})["y"])) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 4
    assert all(np.array_equal(result, results[0]) for result in results)
