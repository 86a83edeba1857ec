"""The stages that placed operators make: what each reads and gives, and that they compute what the whole graph does."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

from tests.unit.popart.session.staging.models import Placed, ladder, options, plan
from tilestep import popart
from tilestep.popart.session.model.graph import SessionGraph
from tilestep.popart.session.plan import SessionPlan
from tilestep.popart.session.staging import Staging


def arrays(graph: SessionGraph) -> tuple[dict[str, Any], dict[str, Any]]:
    """(variables, inputs) of a microbatch."""
    rng = np.random.default_rng(0)
    return dict(graph.variables), {name: np.asarray(rng.normal(size=spec.shape), np.float32) for name, spec in graph.inputs.items()}


def kept(into: dict[str, Any]) -> Callable[[str, Any], Any]:
    """A mark that keeps each tensor."""
    return lambda name, value: into.setdefault(name, value)


def shape_of(staging: Staging) -> list[tuple[int, tuple[str, ...], tuple[str, ...], tuple[str, ...]]]:
    """(IPU, reads, variables, gives) of each stage."""
    return [(stage.ipu, stage.reads, stage.variables, stage.gives) for stage in staging.stages]


def test_without_virtual_graphs_there_is_one_stage() -> None:
    staging = plan(ladder([0, 1])).staging
    assert (staging.kind, staging.num_ipus, staging.loss_stage) == ("one", 4, 0)
    assert [stage.nodes for stage in staging.stages] == [(0, 1, 2)]
    assert shape_of(staging) == [(0, ("x",), ("w0", "w1"), ())]


def test_virtual_graphs_are_stages_one_after_the_other() -> None:
    staging = plan(ladder([0, 1, 0]), manual=True).staging
    assert (staging.kind, staging.loss_stage) == ("sharded", 2)
    assert shape_of(staging) == [
        (0, ("x",), ("w0",), ("MatMul:0",)),
        (1, ("MatMul:0",), ("w1",), ("MatMul:0/1",)),
        (0, ("MatMul:0/1",), ("w2",), ()),
    ]


def test_operators_of_one_ipu_that_can_run_together_are_one_stage() -> None:
    staging = plan(ladder([0, 1, 0, 1], chained=False), manual=True).staging
    assert [(stage.ipu, stage.variables) for stage in staging.stages] == [(0, ("w0", "w2")), (1, ("w1", "w3"))]


def test_a_shape_is_known_in_every_stage_and_passes_nothing_on() -> None:
    staging = plan(ladder([0, 1], reshaped=True), manual=True, pipelining=True).staging
    first, second = staging.stages
    assert (first.reads, second.reads) == (("x",), ("Reshape:0",))
    assert list(second.known) == ["Shape:0/1"]
    assert sorted((*first.nodes, *second.nodes)) == list(range(len(first.nodes) + len(second.nodes)))


@pytest.mark.slow
def test_stages_one_after_the_other_compute_what_the_graph_does() -> None:
    found = plan(ladder([0, 1, 0], reshaped=True, dropped=True), manual=True)
    graph = found.graph
    variables, inputs = arrays(graph)
    key = jax.random.key(3)
    whole: dict[str, Any] = {}
    parts: dict[str, Any] = {}

    graph.run(variables, inputs, key, kept(whole))
    values: dict[str, Any] = {**inputs, **variables}
    for stage in found.staging.stages:
        assert values.keys() >= {*stage.reads, *stage.variables}
        given, _ = graph.run_stage(stage, values, key, kept(parts))
        assert tuple(given) == stage.gives
        values |= given
    assert parts.keys() == whole.keys()
    for name, value in whole.items():
        np.testing.assert_array_equal(np.asarray(parts[name]), np.asarray(value))
    assert (np.asarray(whole["Dropout:0/2"]) == 0).any()  # something was dropped


def test_each_operator_has_the_ipu_and_the_number_of_its_stage() -> None:
    def places(found: SessionPlan) -> list[tuple[int, int]]:
        of_node = {node: (stage.ipu, stage.number) for stage in found.staging.stages for node in stage.nodes}
        return [of_node[node] for node in sorted(of_node)]

    automatic = options(mode=popart.VirtualGraphMode.Auto, pipelining=True)
    assert places(plan(ladder([None] * 4), automatic))[:4] == [(layer, layer) for layer in range(4)]
    merged = plan(ladder([0, 0, 1], [0, 1, 2]), manual=True, pipelining=True)
    assert [number for _, number in places(merged)] == [0, 0, 1, 1]


def test_the_copy_of_a_float16_loss_runs_where_the_loss_does(builder: popart.Builder) -> None:
    x = builder.addInputTensor("FLOAT16", [2, 2], "x")
    with builder.virtualGraph(0):
        y = builder.aiOnnx.matmul([x, builder.addInitializedInputTensor(np.ones((2, 2), np.float16), "w")])
    with builder.virtualGraph(1):
        loss = builder.aiGraphcore.l1loss([y], 0.1, debugContext="loss")
    chosen = options(manual=True, pipelining=True)
    chosen.ensureFp32LossScaleTensor = True
    found = plan(Placed(builder.getModelProto(), loss, y), chosen)
    stage_of = {position: stage.number for stage in found.staging.stages for position in stage.nodes}
    kinds = [(node.op_type, stage_of[position]) for position, node in enumerate(found.graph.graph.nodes)]
    assert kinds == [("MatMul", 0), ("L1", 1), ("Cast", 1), ("L1", 1)]
    assert [node.name for node in found.graph.graph.nodes][1::2] == ["loss", "loss/fp32"]
    assert found.staging.loss_stage == 1
