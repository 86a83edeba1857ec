"""If, Loop and Scan: what is known decides at once, the rest is a branch, a scan or a while loop of the program."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.together import each
from tests.unit.onnx.ops.one_node import WAYS, check_nodes, model, run_nodes
from tilestep.onnx.errors import DynamicShapeError, OnnxError
from tilestep.onnx.interpreter.graph import Graph
from tilestep.onnx.interpreter.interpret import Call, GraphRun, run_graph
from tilestep.onnx.interpreter.values import SequenceValue

F = np.float32


def jaxpr(graph: Graph, *inputs: Any) -> str:
    return str(jax.make_jaxpr(lambda *traced: run_graph(graph, traced, GraphRun()))(*inputs))


def count(graph: Graph, *inputs: Any) -> dict[str, int]:
    text = jaxpr(graph, *inputs)
    return {name: text.count(f"{name}[") for name in ("scan", "while", "cond")}


IF = """g (bool c, float[2] x) => (float[2] y) {
    y = If (c) <then_branch = a () => (float[2] p) { p = Add (x, x) }, else_branch = b () => (float[2] q) { q = Neg (x) }>
}"""


def outputs_are(graph: Graph, inputs: list[Any], *expected: Any, static: list[int] | None = None) -> None:
    """In each way."""

    def check(way: str, outputs: list[Any]) -> None:
        for output, wanted in zip(outputs, expected, strict=True):
            np.testing.assert_array_equal(output, wanted, err_msg=way)
            assert np.shape(output) == np.shape(wanted), way

    check_nodes(graph, inputs, check, WAYS, static=static or [])


def test_a_known_condition_leaves_one_branch() -> None:
    graph = model(IF)
    assert count(graph, np.array(True), jnp.ones(2)) == {"scan": 0, "while": 0, "cond": 1}
    known = jax.make_jaxpr(lambda x: run_graph(graph, [np.array(True), x], GraphRun()))(jnp.ones(2))
    assert [str(equation.primitive) for equation in known.eqns] == ["add"]


def test_branches_of_different_shapes_need_the_condition() -> None:
    graph = model("""g (bool c, float[2] x) => (float y) {
        y = If (c) <then_branch = a () => (float p) { p = Concat <axis = 0> (x, x) }, else_branch = b () => (float q) { q = Identity (x) }>
    }""")
    assert run_nodes(graph, [np.array(True), np.ones(2, F)])[0].shape == (4,)
    with pytest.raises(DynamicShapeError, match=r"needs the condition \(its branches give \[4\] and \[2\]\)"):
        run_nodes(graph, [np.array(True), np.ones(2, F)], "jit")


def test_what_both_branches_know_stays_known() -> None:
    # Both branches give the shape [2, 1], so that Reshape still knows it.
    graph = model("""g (bool c, float[2] x) => (float y) {
        s, t = If (c) <
            then_branch = a () => (int64[2] p, float[2] v) { p = Constant <value_ints = [2, 1]> ()
                v = Neg (x) },
            else_branch = b () => (int64[2] q, float[2] w) { q = Constant <value_ints = [2, 1]> ()
                w = Identity (x) }>
        y = Reshape (t, s)
    }""")
    assert run_nodes(graph, [np.array(True), np.ones(2, F)], "jit")[0].tolist() == [[-1], [-1]]


# y becomes 2y + i; the rows are y before.
LOOP = """g (int64 m, bool c, float[2] x) => (float[2] y, float[n, 2] rows) {
    y, rows = Loop (m, c, x) <body = b (int64 i, bool going, float[2] before) => (bool on, float[2] after, float[2] row) {
        on = Identity (going)
        double = Add (before, before)
        number = Cast <to = 1> (i)
        after = Add (double, number)
        row = Identity (before)
    }>
}"""


def loop_values(turns: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    y, rows = np.array([1, 2], F), []
    for turn in range(turns):
        rows.append(y)
        y = 2 * y + turn
    return y, np.reshape(rows, (-1, 2)).astype(F)


@each("turns", [0, 1, 5, 16, 17, 40])
def test_loop_of_a_known_number_of_turns(turns: int) -> None:
    outputs_are(model(LOOP), [np.array(turns), np.array(True), np.array([1, 2], F)], *loop_values(turns), static=[0, 1])


def test_sixteen_turns_are_unrolled_and_more_are_a_scan() -> None:
    def primitives(turns: int) -> dict[str, int]:
        graph = model(LOOP)
        text = str(jax.make_jaxpr(lambda x: run_graph(graph, [np.array(turns), np.array(True), x], GraphRun()))(jnp.ones(2)))
        return {name: text.count(name) for name in ("scan[", "while[")}

    assert primitives(16) == {"scan[": 0, "while[": 0}
    assert primitives(17) == {"scan[": 1, "while[": 0}


@each("condition", ["", "c"])
def test_a_loop_without_a_condition_does_not_heed_the_bodys(condition: str) -> None:
    graph = model(
        """g (int64 m, bool c, float x) => (float y) {
        y = Loop (m, CONDITION, x) <body = b (int64 i, bool going, float before) => (bool on, float after) {
            on = Constant <value = bool {0}> ()
            after = Add (before, before)
        }>
    }""".replace("CONDITION", condition)
    )
    outputs_are(graph, [np.array(3), np.array(True), np.array(1, F)], 2 if condition else 8, static=[0])


WHILE = """g (int64 m, bool c, float x) => (float y) {
    y = Loop (M, c, x) <body = b (int64 i, bool going, float before) => (bool on, float after) {
        after = Add (before, before)
        most = Constant <value_float = 100.0> ()
        on = Less (after, most)
    }>
}"""


def test_kinds_of_loops_by_values() -> None:
    graph, x = model(WHILE.replace("M", "m")), jnp.ones(())
    assert count(graph, jnp.array(5), jnp.array(True), x) == {"scan": 0, "while": 1, "cond": 0}
    few = str(jax.make_jaxpr(lambda x: run_graph(graph, [np.array(9), np.array(True), x], GraphRun()))(x))
    assert "scan[" in few
    assert "while[" not in few


def test_a_bound_gives_padded_rows_and_a_gradient() -> None:
    graph = model("""g (int64 m, bool c, float x) => (float y, float[n] rows) {
        y, rows = Loop (, c, x) <body = b (int64 i, bool going, float before) => (bool on, float after, float row) {
            after = Mul (before, before)
            most = Constant <value_float = 100.0> ()
            on = Less (after, most)
            row = Identity (after)
        }>
    }""")
    inputs = [np.array(0), np.array(True), np.array(2, F)]
    with pytest.raises(DynamicShapeError, match=r"the number of its turns .* bounds=\{'y': 100\}"):
        run_nodes(graph, inputs, "jit")
    assert [np.asarray(value).tolist() for value in run_nodes(graph, inputs)] == [256, [4, 16, 256]]
    run = GraphRun(bounds={"y": 5})
    assert [np.asarray(value).tolist() for value in run_nodes(graph, inputs, "jit", run=run)] == [256, [4, 16, 256, 0, 0]]
    gradient = jax.jit(jax.grad(lambda x: run_graph(graph, [inputs[0], jnp.array(True), x], run)[0]))(2.0)
    assert float(gradient) == 8 * 2**7  # of x ** 8
    spoiled = run_nodes(graph, inputs, "jit", run=GraphRun(bounds={"y": 2}))
    assert np.isnan(spoiled[0])
    assert np.isnan(spoiled[1]).tolist() == [True, True]


GROWING = """g (int64 m, bool c, float[n] x) => (float[k] y) {
    y = Loop (m, c, x) <body = b (int64 i, bool going, float[j] before) => (bool on, float[l] after) {
        on = Identity (going)
        after = Concat <axis = 0> (before, x)
    }>
}"""


def test_shapes_that_change_are_unrolled() -> None:
    graph = model(GROWING)
    for way in WAYS:
        assert run_nodes(graph, [np.array(20), np.array(True), np.ones(2, F)], way, static=[0, 1])[0].shape == (42,)
    with pytest.raises(OnnxError, match=r"changes from float32\[2\] to float32\[4\], and it has 300 turns"):
        run_nodes(graph, [np.array(300), np.array(True), np.ones(2, F)], "jit", static=[0, 1])
    with pytest.raises(DynamicShapeError, match="the number of its turns"):
        run_nodes(graph, [np.array(3), np.array(True), np.ones(2, F)], "jit")


def test_a_shape_that_is_carried_stays_known() -> None:
    # Forty turns are a scan, in which Reshape needs the shape that is carried as it is.
    graph = model("""g (float[2] x) => (float[1, 2] y, int64[2] t) {
        m = Constant <value_int = 40> ()
        shape = Constant <value_ints = [1, 2]> ()
        wide = Reshape (x, shape)
        y, t = Loop (m, , wide, shape) <body = b (int64 i, bool go, float[1, 2] v, int64[2] s) => (bool on, float[1, 2] w, int64[2] s_out) {
            on = Identity (go)
            flat = Add (v, v)
            w = Reshape (flat, s)
            s_out = Identity (s)
        }>
    }""")
    y, shape = run_nodes(graph, [np.ones(2, F)], "jit")
    assert y.tolist() == [[2.0**40] * 2]
    assert shape.tolist() == [1, 2]
    assert "scan[" in jaxpr(graph, jnp.ones(2))


def test_a_counter_that_is_carried_is_traced_in_a_scan() -> None:
    graph = model("""g (float x) => (float y, int64 k) {
        m = Constant <value_int = 40> ()
        zero = Constant <value_int = 0> ()
        y, k = Loop (m, , x, zero) <body = b (int64 i, bool going, float v, int64 before) => (bool on, float w, int64 after) {
            on = Identity (going)
            w = Identity (v)
            two = Constant <value_int = 2> ()
            after = Add (before, two)
        }>
    }""")
    assert int(run_nodes(graph, [np.array(1, F)], "jit")[1]) == 80


def test_a_sequence_of_steady_length_goes_through_a_scan() -> None:
    graph = model("""g (seq(float) s, float x) => (seq(float) y) {
        m = Constant <value_int = 40> ()
        y = Loop (m, , s) <body = b (int64 i, bool going, seq(float) before) => (bool on, seq(float) after) {
            on = Identity (going)
            zero = Constant <value_int = 0> ()
            one = Constant <value_int = 1> ()
            first = SequenceAt (before, zero)
            second = SequenceAt (before, one)
            sum = Add (first, x)
            after = SequenceConstruct (second, sum)
        }>
    }""")
    pair = SequenceValue((np.array(1, F), np.array(2, F)))
    assert [float(value) for value in run_nodes(graph, [pair, np.array(1, F)], "jit")[0]] == [21, 22]
    assert "scan[" in jaxpr(graph, pair, jnp.ones(()))


def test_a_loop_that_never_ends_is_refused() -> None:
    endless = model("""g (float x) => (float y) {
        y = Loop (, , x) <body = b (int64 i, bool going, float before) => (bool on, float after) {
            on = Identity (going)
            after = Identity (before)
        }>
    }""")
    with pytest.raises(OnnxError, match="neither a trip count nor a condition"):
        run_nodes(endless, [np.array(1, F)])


def test_many_turns_one_by_one_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilestep.onnx.ops.control_flow.control._MOST_EAGER", 50)
    graph = model(LOOP)
    with pytest.raises(OnnxError, match=r"has run 50 turns one by one, which is the most: let jax\.jit compile"):
        run_nodes(graph, [np.array(51), np.array(True), np.ones(2, F)])


SCAN = """g (float[2] start, float[AXES] x) => (float[2] sum, float sums) {
    sum, sums = Scan <num_scan_inputs = 1 ATTRIBUTES,
        body = b (float[2] before, float[2] element) => (float[2] after, float[2] row) {
            after = Add (before, element)
            row = Identity (after)
        }
    > (start, x)
}"""


def test_scan_of_nothing() -> None:
    graph = model(SCAN.replace("AXES", "0, 2").replace("ATTRIBUTES", ""), 21)
    outputs_are(graph, [np.array([10, 20], F), np.zeros((0, 2), F)], [10, 20], np.zeros((0, 2)))


def test_a_scan_is_one_scan_with_a_gradient() -> None:
    graph = model(SCAN.replace("AXES", "3, 2").replace("ATTRIBUTES", ""), 21)
    assert count(graph, jnp.ones(2), jnp.ones((3, 2))) == {"scan": 1, "while": 0, "cond": 0}
    gradient = jax.grad(lambda x: run_graph(graph, [jnp.ones(2), x], GraphRun())[1].sum())(jnp.ones((3, 2)))
    assert gradient.tolist() == [[3, 3], [2, 2], [1, 1]]


SCAN_8 = """g (int64[2] lengths, float[2, 1] start, float[2, 3, 1] x) => (float[2, 1] sum, float[2, 3, 1] sums) {
    sum, sums = Scan <num_scan_inputs = 1, directions = [BACKWARDS],
        body = b (float[1] before, float[1] element) => (float[1] after, float[1] row) {
            two = Constant <value = float[1] {2.0}> ()
            double = Mul (before, two)
            after = Add (double, element)
            row = Identity (after)
        }
    > (LENGTHS, start, x)
}"""


@each("static", [[], [0]])
@each("backwards", [0, 1])
@each("lengths", [None, [2, 1], [0, 3]])
def test_the_first_scan_has_a_batch_and_lengths(static: list[int], backwards: int, lengths: list[int] | None) -> None:
    graph = model(SCAN_8.replace("BACKWARDS", str(backwards)).replace("LENGTHS", "lengths" if lengths else ""), 8)
    start, x = np.array([[1], [5]], F), np.arange(1, 7, dtype=F).reshape(2, 3, 1)
    sums, totals = np.zeros((2, 3, 1)), []
    for example in range(2):
        length, value = (lengths or [3, 3])[example], start[example]
        elements = x[example, :length]
        for turn, element in enumerate(elements[::-1] if backwards else elements):
            value = sums[example, turn] = 2 * value + element
        totals.append(value)
    outputs_are(graph, [np.array(lengths or [0, 0]), start, x], totals, sums, static=static)


def test_training_keeps_no_statistics_in_a_branch() -> None:
    graph = model(IF)
    node = graph.nodes[0]
    inside = Call(node=node, run=GraphRun(inside="a loop"), scope={})
    with pytest.raises(OnnxError, match="keeps statistics in training, which it can't do inside of a loop"):
        inside.set_state(0, 1)
