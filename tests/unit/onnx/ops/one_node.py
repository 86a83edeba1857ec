"""Runs a model of one node in each of the three ways: on known values, eagerly, and traced. Also in ONNX Runtime."""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import onnx.parser
import onnxruntime
from onnx import helper

import tilestep.onnx.ops  # noqa: F401 - registers all
from tests.together import compiled
from tilestep.onnx.interpreter.graph import Graph, Preparation, versions_of
from tilestep.onnx.interpreter.interpret import GraphRun, run_graph

WAYS: Final = ("known", "eager", "jit")
QUICK_WAYS: Final = ("known", "jit")  # eager runs compile operation by operation


def prepared(nodes: Sequence[onnx.NodeProto], inputs: Sequence[str], outputs: Sequence[str], opsets: Mapping[str, int]) -> Graph:
    """A graph of these nodes, ready to run."""
    values = [helper.make_empty_tensor_value_info(name) for name in inputs], [helper.make_empty_tensor_value_info(name) for name in outputs]
    preparation = Preparation(functions={}, left=1000)
    graph = preparation.graph(helper.make_graph(nodes, "test", *values), opsets)
    preparation.require_all()
    return graph


def model(text: str, opset: int = 21) -> Graph:
    """A graph in onnx's text form."""
    proto = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : {opset}]>\n{text}')
    preparation = Preparation(functions={}, left=1000)
    graph = preparation.graph(proto.graph, versions_of(proto.opset_import))
    preparation.require_all()
    return graph


def run_nodes(
    graph: Graph, inputs: Sequence[Any], way: str = "eager", *, static: Sequence[int] = (), run: GraphRun | None = None
) -> list[Any]:
    """The outputs of a graph.

    Args:
        way: "known": all inputs are known. "eager": they are JAX's arrays. "jit": they are traced, without 64-bit types. "shapes": so, too,
            but nothing is compiled, and the outputs are shapes and dtypes.
        static: positions of inputs that are known in every way. Text, sequences and absent inputs are so anyhow.
    """
    if way in ("jit", "shapes"):
        function, arrays = traced(graph, inputs, static=static, run=run)
        return jax.jit(function)(arrays) if way == "jit" else jax.eval_shape(function, arrays)
    fixed = range(len(inputs)) if way == "known" else _fixed(inputs, static)
    with jax.enable_x64(True):
        return run_graph(graph, [x if i in fixed else jnp.asarray(x) for i, x in enumerate(inputs)], run or GraphRun())


def traced(
    graph: Graph, inputs: Sequence[Any], *, static: Sequence[int] = (), run: GraphRun | None = None
) -> tuple[Callable[[dict[int, Any]], list[Any]], dict[int, Any]]:
    """(the outputs of a graph as a function of the inputs that are not known, these inputs by position). Args: as `run_nodes`."""
    fixed, run = _fixed(inputs, static), run or GraphRun()
    arrays = {i: x for i, x in enumerate(inputs) if i not in fixed}
    return lambda arrays: run_graph(graph, [arrays.get(i, x) for i, x in enumerate(inputs)], run), arrays


def _fixed(inputs: Sequence[Any], static: Sequence[int]) -> set[int]:
    return {i for i, x in enumerate(inputs) if i in static or not isinstance(x, np.ndarray) or x.dtype.kind in "OUS"}


def check_nodes(
    graph: Graph,
    inputs: Sequence[Any],
    check: Callable[[str, list[Any]], None],
    ways: Sequence[str] = QUICK_WAYS,
    *,
    static: Sequence[int] = (),
    run: GraphRun | None = None,
) -> None:
    """Calls `check` with each way and the outputs; with those of programs at the end of `one_program`, if it is called within.

    Args: ways: as in `run_nodes`; "wide" is "jit" with 64-bit types.
    """
    for way in ways:
        if way in ("jit", "wide"):
            compiled(*traced(graph, inputs, static=static, run=run), functools.partial(check, way), wide=way == "wide")
        else:
            check(way, run_nodes(graph, inputs, way, static=static, run=run))


def node_graph(op_type: str, inputs: Sequence[Any], *, version: int, domain: str = "", outputs: int = 1, **attributes: Any) -> Graph:
    """A graph of one node. Args: inputs: None stands for one that is absent."""
    names = ["" if x is None else f"in{i}" for i, x in enumerate(inputs)]
    results = [f"out{i}" for i in range(outputs)]
    node = helper.make_node(op_type, names, results, name="the_node", domain=domain, **attributes)
    return prepared([node], names, results, {"": version, domain: version})


def run_node(
    op_type: str,
    inputs: Sequence[Any],
    way: str = "eager",
    *,
    version: int,
    domain: str = "",
    outputs: int = 1,
    static: Sequence[int] | None = None,
    run: GraphRun | None = None,
    **attributes: Any,
) -> list[Any]:
    """The outputs of one node. Args: static: by default the positions that its operator says it needs."""
    graph = node_graph(op_type, inputs, version=version, domain=domain, outputs=outputs, **attributes)
    return run_nodes(graph, _given(inputs), way, static=_needs(graph) if static is None else static, run=run)


def _needs(graph: Graph) -> tuple[int, ...]:
    operator = graph.nodes[0].operator
    return () if operator is None else tuple(operator.needs)


def _given(inputs: Sequence[Any]) -> list[Any]:
    return [x if x is None or isinstance(x, tuple | dict) else np.asarray(x) for x in inputs]


def check_node(
    op_type: str,
    inputs: Sequence[Any],
    check: Callable[[str, list[Any]], None],
    ways: Sequence[str] = QUICK_WAYS,
    *,
    version: int,
    domain: str = "",
    outputs: int = 1,
    static: Sequence[int] | None = None,
    run: GraphRun | None = None,
    **attributes: Any,
) -> None:
    """`check_nodes` of one node. Args: as `run_node`."""
    graph = node_graph(op_type, inputs, version=version, domain=domain, outputs=outputs, **attributes)
    check_nodes(graph, _given(inputs), check, ways, static=_needs(graph) if static is None else static, run=run)


def by_onnxruntime(
    op_type: str,
    inputs: Sequence[np.ndarray[Any, Any] | None],
    *,
    version: int,
    domain: str = "",
    outputs: int = 1,
    out_types: Sequence[int] | None = None,
    **attributes: Any,
) -> list[Any]:
    """ONNX Runtime's outputs of one node.

    Args: version: of the domain. out_types: element types of the outputs, where it can't infer them.
    """
    names = ["" if x is None else f"in{i}" for i, x in enumerate(inputs)]
    results = [f"out{i}" for i in range(outputs)]
    node = helper.make_node(op_type, names, results, domain=domain, **attributes)
    kinds = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype) if x.dtype.kind not in "OU" else 8, x.shape)
        for name, x in zip(names, inputs, strict=True)
        if x is not None
    ]
    made = [
        helper.make_tensor_value_info(name, out_types[i], None) if out_types else helper.make_empty_tensor_value_info(name)
        for i, name in enumerate(results)
    ]
    opsets = [helper.make_opsetid("", version if not domain else 15)] + ([helper.make_opsetid(domain, version)] if domain else [])
    model = helper.make_model(helper.make_graph([node], "test", kinds, made), opset_imports=opsets, ir_version=8)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, {name: x for name, x in zip(names, inputs, strict=True) if x is not None})
