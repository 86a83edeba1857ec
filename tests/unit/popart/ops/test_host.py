"""Printing, stopping, calls, packed blocks and collectives."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from onnx import helper

from tests.together import each
from tests.unit.onnx.ops.one_node import prepared
from tests.unit.popart.ops.graphcore import DOMAIN, gradient, holds, outputs
from tilestep.onnx.interpreter.interpret import GraphRun, run_graph
from tilestep.popart.enums import CollectiveOperator
from tilestep.popart.exceptions import popart_exception
from tilestep.popart.ops.collectives import groups_of, replicas
from tilestep.popart.ops.host import aborted

F = np.float32
X = np.array([[1, 2], [0.5, 12]], F)


def test_gradients_are_printed_unless_they_should_not(capfd: Any) -> None:
    gradient("PrintTensor", [X], cotangent=X * 2, title="x")
    gradient("PrintTensor", [X], cotangent=X, title="y", print_gradient=0)
    gradient("PrintTensor", [X])
    jax.effects_barrier()
    printed = capfd.readouterr().err
    assert "x_gradient: [[" in printed
    assert "y_gradient" not in printed
    assert "Gradient___in0: [[" in printed


def test_long_arrays_are_printed_in_part(capfd: Any) -> None:
    outputs("PrintTensor", [np.arange(100, dtype=np.int32)], summariseThreshold=10, edgeItems=2, title="x")
    jax.effects_barrier()
    assert "x: [ 0  1 ... 98 99]" in capfd.readouterr().err


@each("condition", [None, 1])
def test_an_abort_fails_the_run(condition: int | None) -> None:
    inputs = [] if condition is None else [np.array([condition], F)]
    graph = prepared([helper.make_node("Abort", [f"in{i}" for i in range(len(inputs))], [], domain=DOMAIN)], ["in0"], [], {DOMAIN: 1})
    run = jax.jit(lambda x: run_graph(graph, [x], GraphRun()))
    with pytest.raises(jax.errors.JaxRuntimeError, match="Abort Program") as caught:
        finished(run)
    error = aborted(caught.value)
    assert error is not None
    assert str(error).startswith("Abort Program")
    assert aborted(ValueError("other")) is None


def finished(run: Any) -> None:
    run(jnp.ones(1))
    jax.effects_barrier()


def value(name: str) -> Any:
    return helper.make_empty_tensor_value_info(name)


def test_a_call_runs_its_graph_with_values_around_it() -> None:
    nodes = [helper.make_node("Mul", ["a", "outside"], ["b"])]
    callee = helper.make_graph(nodes, "callee", [value("a")], [value("b")])
    call = helper.make_node("Call", ["in0"], ["y"], domain=DOMAIN, callee=callee, num_outputs=1)
    graph = prepared([call], ["in0", "outside"], ["y"], {DOMAIN: 1, "": 10})
    np.testing.assert_array_equal(run_graph(graph, [X, X], GraphRun())[0], X * X)
    wrong = helper.make_node("Call", ["in0", "in0"], ["y"], name="debug", domain=DOMAIN, callee=callee, num_outputs=1)
    with pytest.raises(
        popart_exception, match=r"For CallOp 'debug', number of inputs \(2\) does not match that of the callee subgraph \(1\)"
    ):
        run_graph(prepared([wrong], ["in0", "outside"], ["y"], {DOMAIN: 1, "": 10}), [X, X], GraphRun())


def test_a_called_graphs_update_of_a_variable_is_the_callers() -> None:
    nodes = [helper.make_node("CopyVarUpdate", ["a", "b"], ["c"], domain=DOMAIN)]
    callee = helper.make_graph(nodes, "callee", [value("a"), value("b")], [value("c")])
    call = helper.make_node("Call", ["variable", "in0"], ["y"], domain=DOMAIN, callee=callee, num_outputs=1)
    state: dict[str, Any] = {}
    run_graph(prepared([call], ["variable", "in0"], ["y"], {DOMAIN: 1}), [X, X + 1], GraphRun(state=state))
    np.testing.assert_array_equal(state["variable"], X + 1)


@each("size", [1, 2])
def test_a_packed_block_runs_its_graph_for_batches_of_sequences(size: int) -> None:
    lengths, offsets = np.array([3, 1, 2, 2], np.uint32), np.array([0, 3, 4, 6], np.uint32)
    data = np.arange(16, dtype=F).reshape(8, 2)
    nodes = [helper.make_node("Transpose", ["a"], ["t"], perm=[0, 2, 1]), helper.make_node("MatMul", ["a", "t"], ["b"])]
    callback = helper.make_graph(nodes, "callback", [value("a")], [value("b")])
    block = helper.make_node(
        "PackedDataBlock",
        ["d", "o", "l", "o", "l"],
        ["y"],
        domain=DOMAIN,
        callback=callback,
        maxSequenceLengths=[4],
        resultSize=9,
        callbackBatchSize=size,
    )
    graph = prepared([block], ["d", "o", "l"], ["y"], {DOMAIN: 1, "": 10})
    expected = np.zeros((9, 4), F)
    for offset, length in zip(offsets, lengths, strict=True):
        rows = np.zeros((4, 2), F)
        rows[:length] = data[offset : offset + length]
        expected[offset : offset + length] = (rows @ rows.T)[:length]
    result = jax.jit(lambda d, o, n: run_graph(graph, [d, o, n], GraphRun()))(data, offsets, lengths)[0]
    np.testing.assert_allclose(result, expected)


def test_one_replica_reduces_to_itself() -> None:
    holds([X], "ReplicatedAllReduce", [X])
    holds([X.ravel()], "ReplicatedReduceScatter", [X])


@each(
    "operator, expected",
    [("Add", X.sum(0)), ("Mean", X.mean(0)), ("Mul", X.prod(0)), ("Max", X.max(0)), ("SquareAdd", (X * X).sum(0)), ("Local", X)],
)
def test_replicas_reduce_over_their_axis(operator: str, expected: Any) -> None:
    node = helper.make_node("ReplicatedAllReduce", ["x"], ["y"], domain=DOMAIN, __collectiveOperator=CollectiveOperator[operator].value)
    graph = prepared([node], ["x"], ["y"], {DOMAIN: 1})
    with replicas("replica", 2):
        result = jax.vmap(lambda x: run_graph(graph, [x], GraphRun())[0], axis_name="replica")(X)
    np.testing.assert_allclose(result, np.broadcast_to(expected, X.shape), 1e-6)


def test_replicas_keep_their_parts() -> None:
    x = np.arange(10, dtype=F).reshape(2, 5)
    graph = prepared([helper.make_node("ReplicatedReduceScatter", ["x"], ["y"], domain=DOMAIN)], ["x"], ["y"], {DOMAIN: 1})
    with replicas("replica", 2):
        result = jax.vmap(lambda x: run_graph(graph, [x], GraphRun())[0], axis_name="replica")(x)
    np.testing.assert_allclose(result, [[5, 7, 9], [11, 13, 0]])


def over_pairs(op_type: str, x: Any, **attributes: Any) -> Any:
    """What each of four replicas gets of a collective over pairs of neighbours. Args: x: [4, ...]."""
    node = helper.make_node(op_type, ["x"], ["y"], domain=DOMAIN, __collectiveCommGroup=[1, 2], **attributes)
    graph = prepared([node], ["x"], ["y"], {DOMAIN: 1})
    with replicas("replica", 4):
        return jax.vmap(lambda x: run_graph(graph, [x], GraphRun())[0], axis_name="replica")(x)


def test_replicas_scatter_and_gather_within_groups() -> None:
    x = np.arange(12, dtype=F).reshape(4, 3)
    np.testing.assert_array_equal(over_pairs("ReplicatedReduceScatter", x), [[3, 5], [7, 0], [15, 17], [19, 0]])
    local = over_pairs("ReplicatedReduceScatter", x, __collectiveOperator=CollectiveOperator.Local.value)
    np.testing.assert_array_equal(local, [[0, 1], [5, 0], [6, 7], [11, 0]])
    np.testing.assert_array_equal(over_pairs("ReplicatedAllGather", x), np.repeat(x.reshape(2, 6), 2, 0))
    holds([X.ravel()], "ReplicatedAllGather", [X])


def test_groups_of_replicas() -> None:
    assert groups_of((), 4) is None
    assert groups_of((1, 2), 4) == [[0, 1], [2, 3]]
    assert groups_of((2, 2), 4) == [[0, 2], [1, 3]]
    assert groups_of((3, 0), 2) == [[0], [1]]
    with pytest.raises(popart_exception, match="does not divide"):
        groups_of((1, 3), 4)
