"""Which inputs and initialisers must be known: those on whose values shapes depend, and no others."""

from typing import Any

import jax
import numpy as np
import onnx
import pytest

from tests.unit.onnx.models import model, uniform
from tilestep.onnx import OnnxError, import_onnx
from tilestep.onnx.interpreter.demand import demanded, statistics
from tilestep.onnx.reading.load import load


def needs(made: onnx.ModelProto, **options: Any) -> set[str]:
    return set(demanded(load(made).graph, **options))


def test_a_shape_from_an_input_is_static_and_one_from_shape_is_not() -> None:
    assert needs(model("(float[N,3] x, int64[2] s) => (float[a,b] y) { y = Reshape(x, s) }")) == {"s"}
    assert needs(model("(float[N,3] x, float[M,3] z) => (float[M,3] y) { s = Shape(z)  y = Expand(x, s) }")) == set()


def test_demand_goes_back_through_arithmetic_to_all_it_is_made_of() -> None:
    made = model(
        """(float[N,3] x, int64 k, int64[1] j) => (float[a] y)
        { s = Shape(x)  t = Mul(s, k)  u = ReduceSum(t)  v = Unsqueeze(u, zero)  w = Concat <axis = 0> (v, j)  y = Expand(x, w) }""",
        zero=np.array([0]),
    )
    assert needs(made) == {"k", "j", "zero"}
    assert import_onnx(made).static_inputs == ("k", "j")


def test_floats_that_shapes_depend_on_are_constants_and_others_parameters() -> None:
    made = model(
        "(float[1,1,4,4] x) => (float[a,b,c,d] y) { z = Mul(x, w)  y = Resize(z, , scales) }",
        scales=np.array([1, 1, 2, 2], np.float32),
        w=uniform(4),
        unused=np.arange(3),
    )
    found = import_onnx(made)
    assert (set(found.params), set(found.constants)) == ({"w"}, {"scales", "unused"})


def test_integers_are_constants_and_text_is_static() -> None:
    made = model("(float[4,2] x, string[N] t) => (float[3,2] y, string[N] u) { y = Gather(x, i)  u = Identity(t) }", i=np.array([0, 3, 1]))
    found = import_onnx(made)
    assert (found.params, list(found.constants), found.static_inputs) == ({}, ["i"], ("t",))


def test_demand_goes_into_functions() -> None:
    function = '<domain: "f", opset_import: ["": 17]> resized (x, s, z) => (y, t) { y = Reshape(x, s)  t = Add(z, z) }'
    made = model(
        "(float[N,3] x, int64[2] a, int64[2] b, int64[2] c) => (float[p,q] y, int64[2] v, float[r,t] w) "
        "{ y, u = f.resized(x, a, b)  _, v = f.resized(x, a, c)  w = Reshape(x, u) }".replace("_", "unused"),
        imports=', "f": 1',
        functions=function,
    )
    assert needs(made) == {"a", "b"}  # b makes u, which is a shape; c makes v, which is none


LOOP = """(float[2] x, int64 n, bool c, int64[1] k) => (float[2] last, float[n,2] rows)
{
  last, rows = Loop(n, c, x) <body = body (int64 i, bool p, float[2] state) => (bool q, float[2] next, float[a] row)
    { q = Identity(p)  next = Add(state, state)  row = Expand(state, one) }>
}"""


def test_a_loop_with_rows_needs_its_length_unless_there_is_a_bound() -> None:
    made = model(LOOP, one=np.array([1]))
    assert needs(made) == {"n", "c", "one"}
    assert needs(made, bounds=["rows"]) == {"one"}


def test_a_loop_without_rows_needs_no_length() -> None:
    made = model(
        LOOP.replace(", float[n,2] rows)", ")")
        .replace("last, rows =", "last =")
        .replace(", float[a] row)", ")")
        .replace("row =", "unused ="),
        one=np.array([1]),
    )
    assert needs(made) == {"one"}


def test_what_a_loop_carries_and_uses_as_a_shape_is_needed() -> None:
    made = model(
        """(float[2] x, int64 n, bool c, int64[1] k) => (float[2] last)
        {
          last, shape = Loop(n, c, x, k) <body = body (int64 i, bool p, float[2] s, int64[1] size)
            => (bool q, float[2] next, int64[1] grown) { q = Identity(p)  u = Expand(s, size)  next = Add(s, s)  grown = Add(size, more) }>
        }""",
        more=np.array([1]),
    )
    assert needs(made) == {"n", "c", "k", "more"}


def test_an_if_needs_what_its_branches_need_and_not_its_condition() -> None:
    text = """(float[4] x, bool c, int64[1] a, int64[1] b) => (float[n] y)
    {
      y = If(c) <then_branch = t () => (float[n] u) { u = Reshape(x, a) },
        else_branch = e () => (float[n] v) { z = Add(b, b)  v = Mul(x, x) }>
    }"""
    assert needs(model(text)) == {"a"}
    wanted = text.replace("y = If", "s = If").replace("(float[n] y)", "(float[n] y)").replace("}>\n", "}>\n y = Reshape(x, s)\n")
    wanted = wanted.replace("u = Reshape(x, a)", "u = Identity(a)").replace("v = Mul(x, x)", "v = Identity(z)")
    assert needs(model(wanted)) == {"c", "a", "b"}


def test_a_scan_needs_what_its_body_needs() -> None:
    made = model(
        """(float[2] x, float[5,2] xs, int64[1] k) => (float[2] last, float[5,2] ys)
        {
          last, ys = Scan <num_scan_inputs = 1, body = body (float[2] s, float[2] e) => (float[2] next, float[2] out)
            { next = Add(s, e)  out = Expand(next, k) }> (x, xs)
        }"""
    )
    assert needs(made) == {"k"}


def test_statistics_are_found_in_functions_too() -> None:
    function = '<domain: "f", opset_import: ["": 17]> norm (x, s, m, v) => (y) { y = BatchNormalization(x, s, s, m, v) }'
    made = model(
        "(float[N,3] x) => (float[N,3] y) { y = f.norm(x, scale, mean, var) }",
        imports=', "f": 1',
        functions=function,
        **{name: np.ones(3, np.float32) for name in ("scale", "mean", "var")},
    )
    assert statistics(load(made).graph) == {"mean", "var"}
    trained = import_onnx(made, training=True)
    assert (set(trained.params), set(trained.state)) == ({"scale"}, {"mean", "var"})
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    (y,), state = trained.fn(trained.params, trained.state, x)
    np.testing.assert_allclose(y, 1 + (x - x.mean(0)) / np.sqrt(x.var(0) + 1e-5), rtol=1e-4)
    np.testing.assert_allclose(state["mean"], 0.9 + 0.1 * x.mean(0), rtol=1e-5)
    np.testing.assert_allclose(state["var"], 0.9 + 0.1 * x.var(0), rtol=1e-5)


def test_a_loop_without_a_body_is_an_error() -> None:
    made = model(LOOP, one=np.array([1]))
    del made.graph.node[0].attribute[:]
    with pytest.raises(OnnxError, match="has 0 graphs, and takes one, its body"):
        import_onnx(made)


def test_loops_in_loops_take_no_time() -> None:
    inner = "next = Identity(s)"
    for depth in range(30):
        inner = (
            f"next = Loop(n, c, s) <body = body{depth} (int64 i{depth}, bool p{depth}, float[2] s) => (bool q{depth}, float[2] next) "
            f"{{ q{depth} = Identity(p{depth})  {inner} }}>"
        )
    made = model(f"(float[2] s, int64 n, bool c) => (float[2] next) {{ {inner} }}")
    assert needs(made) == set()


def test_what_is_not_demanded_may_be_traced() -> None:
    made = model("(float[N,3] x, int64[2] i, int64 axis) => (float[2,3] y, int64 s) { y = Gather(x, i)  s = Add(axis, axis) }")
    found = import_onnx(made)
    y, s = jax.jit(found.fn)({}, np.eye(3, dtype=np.float32), np.array([2, 0]), np.array(4))
    np.testing.assert_array_equal(y, np.eye(3)[[2, 0]])
    assert s == 8
