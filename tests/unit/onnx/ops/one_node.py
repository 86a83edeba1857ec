"""Runs a model of one node in each of the three ways: on known values, eagerly, and traced. Also in ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest
from onnx import helper

import tilestep.onnx.ops  # noqa: F401 - registers all
from tilestep.onnx.graph import Graph, Preparation, versions_of
from tilestep.onnx.interpret import Run, run_graph

WAYS: Final = ("known", "eager", "jit")
QUICK_WAYS: Final = ("known", "jit")  # eager runs compile operation by operation; `agree` has one for each operator
MOST_WAYS: Final = [pytest.param(way, marks=() if way in QUICK_WAYS else pytest.mark.slow) for way in WAYS]


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


def run_nodes(graph: Graph, inputs: Sequence[Any], way: str = "eager", *, static: Sequence[int] = (), run: Run | None = None) -> list[Any]:
    """The outputs of a graph.

    Args:
        way: "known": all inputs are known. "eager": they are JAX's arrays. "jit": they are traced, without 64-bit types. "shapes": so, too,
            but nothing is compiled, and the outputs are shapes and dtypes.
        static: positions of inputs that are known in every way. Text, sequences and absent inputs are so anyhow.
    """
    run = run or Run()
    fixed = {i for i, x in enumerate(inputs) if way == "known" or i in static or not isinstance(x, np.ndarray) or x.dtype.kind in "OUS"}
    if way in ("jit", "shapes"):

        def traced(arrays: dict[int, Any]) -> list[Any]:
            return run_graph(graph, [arrays.get(i, x) for i, x in enumerate(inputs)], run)

        arrays = {i: jnp.asarray(x) for i, x in enumerate(inputs) if i not in fixed}
        return jax.jit(traced)(arrays) if way == "jit" else jax.eval_shape(traced, arrays)
    with jax.enable_x64(True):
        return run_graph(graph, [x if i in fixed else jnp.asarray(x) for i, x in enumerate(inputs)], run)


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
    run: Run | None = None,
    **attributes: Any,
) -> list[Any]:
    """The outputs of one node. Args: static: by default the positions that its operator says it needs."""
    graph = node_graph(op_type, inputs, version=version, domain=domain, outputs=outputs, **attributes)
    operator = graph.nodes[0].operator
    needs = () if operator is None else tuple(operator.needs)
    given = [x if x is None or isinstance(x, tuple | dict) else np.asarray(x) for x in inputs]
    return run_nodes(graph, given, way, static=needs if static is None else static, run=run)


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
