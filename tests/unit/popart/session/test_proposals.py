"""Stages that are proposed are balanced by emulated cycles, and become annotations that a session takes."""

import itertools
import json

import numpy as np
import onnx
import pytest

from tests.together import each
from tests.unit.popart.session.models import cpu, ipu_model
from tilestep import popart
from tilestep.popart.builder.loading import read_model
from tilestep.popart.session.emulation.costs import wanted_gradients
from tilestep.popart.session.model.analysis import analyse
from tilestep.popart.session.model.graph import SessionGraph, session_graph
from tilestep.popart.session.proposals.session_registry import RegisteredSession, announce_made, proposals, seen_sessions

TILES = 64
WIDTHS = (64, 256, 256, 256, 32)
# Cycles of each matmul of [16, m] by [m, n] on 64 tiles: (forward, backward). The first has no gradient of its input.
MATMULS = ((3903, 3014), (6169, 12130), (6169, 12130), (3809, 6318))
PASSED = 1462  # cycles to pass [16, 256] of float32 on; gradients go back meanwhile
ADDED = (602, 1754, 1754, 404)  # cycles to add a gradient of each weight to that of the microbatches before
TOGETHER = 2248  # cycles of an exchange in which three or four stages do so at once
HOSTS = {1: 13675, 2: 13755, 3: 13835, 4: 13835}  # cycles in which so many stages wait for [16, 64] of float32 from the host
RNG = np.random.default_rng(0)


def chain(widths: tuple[int, ...] = WIDTHS) -> tuple[popart.Builder, str]:
    """(the builder of a chain of matmuls and its loss, the loss)."""
    builder = popart.Builder()
    value = builder.addInputTensor("FLOAT", [16, widths[0]], "x")
    for number, (rows, columns) in enumerate(itertools.pairwise(widths)):
        weight = builder.addInitializedInputTensor(RNG.normal(size=(rows, columns)).astype(np.float32), f"w{number}")
        value = builder.aiOnnx.matmul([value, weight])
    return builder, builder.aiGraphcore.l1loss([value], 0.1)


def graph_of(builder: popart.Builder, *, training: bool = True) -> SessionGraph:
    read = read_model(builder.getModelProto())
    return session_graph(read, training=training, shapes=popart.InputShapeInfo(), options=popart.SessionOptions())


def stages_of(costs: list[int], cuts: tuple[int, ...]) -> list[int]:
    """Cycles of stages between two cuts, of operators that pass [16, 256] on; the last two pass less and are no place to cut at."""
    bounds = [0, *cuts, len(costs)]
    return [sum(costs[first:after]) + PASSED * ((first > 0) + (after < len(costs))) for first, after in itertools.pairwise(bounds)]


def machine(tiles: int = TILES, ipus: int = 4):
    found = ipu_model(tiles, ipus).machine()
    assert found is not None
    return found


def test_nobody_needs_the_gradient_of_an_input() -> None:
    builder, loss = chain((8, 4))
    graph = graph_of(builder)
    found = analyse(graph, loss).differentiable
    assert "x" in found
    assert wanted_gradients(graph, found) == {"w0", "MatMul:0", loss}


@pytest.mark.slow
def test_a_chain_of_unequal_matmuls_is_cut_where_its_slowest_stage_is_fastest() -> None:
    builder, loss = chain()
    proposal = popart.propose_stages(builder.getModelProto(), 3, ipu_model(TILES, 4), loss)
    assert [stage.cycles for stage in proposal.stages] == [43655, 36136, 28819]
    costs = [sum(matmul) + added for matmul, added in zip(MATMULS, ADDED, strict=True)]
    costs.append(28819 - costs[3] - TOGETHER - HOSTS[3])
    ways = itertools.combinations(range(1, 5), 2)
    assert min(max(stages_of(costs, cuts)) for cuts in ways) == costs[0] + costs[1] + PASSED
    assert proposal.slowest_cycles == costs[0] + costs[1] + TOGETHER + HOSTS[3] == 43655
    assert proposal.training
    assert proposal.notes == ()


def test_the_annotations_are_those_of_a_program_that_writes_them() -> None:
    builder, loss = chain()
    plain = builder.getModelProto()
    proposal = popart.propose_stages(plain, 3, ipu_model(TILES, 4), loss)
    proposal.annotate(builder)
    written = builder.getModelProto()
    assert proposal.annotated(plain) == written
    assert proposal.annotated(onnx.ModelProto.FromString(written)) == written
    nodes = onnx.ModelProto.FromString(written).graph.node
    stages = [{each.name: each.i for each in node.attribute if each.name.startswith("__")} for node in nodes]
    wanted = [stage.number for stage in proposal.stages for _ in stage.operators]
    assert [(one["__pipeline_stage"], one["__ipu_number"]) for one in stages] == [(number, number) for number in wanted]
    again = popart.propose_stages(written, 3, ipu_model(TILES, 4), loss)
    assert again.own_cycles == {stage.number: stage.cycles for stage in proposal.stages}


def test_what_a_model_has_already_is_compared() -> None:
    builder, loss = chain()
    for number in range(4):
        builder.virtualGraph(f"MatMul:0/{number}" if number else "MatMul:0", int(number == 3))
    builder.virtualGraph(loss, 1)
    proposal = popart.propose_stages(builder.getModelProto(), 2, ipu_model(TILES, 2), loss)
    own = sum(map(sum, MATMULS[:3])) + sum(ADDED[:3]) + PASSED + HOSTS[2]
    assert proposal.own_cycles[0] == own
    assert f"The model's own 2 stages: the slowest takes {own:,} cycles" in str(proposal)
    with pytest.raises(popart.popart_exception, match="Node already has attribute"):
        proposal.annotate(builder)


def test_operators_that_share_a_variable_stay_together(builder: popart.Builder) -> None:
    x = builder.addInputTensor("FLOAT", [4, 8])
    tied = builder.addInitializedInputTensor(np.ones((8, 8), np.float32), "tied")
    own = builder.addInitializedInputTensor(np.ones((8, 8), np.float32), "own")
    y = builder.aiOnnx.matmul([builder.aiOnnx.matmul([builder.aiOnnx.matmul([x, tied]), own]), tied])
    last = builder.aiOnnx.relu([builder.aiOnnx.matmul([y, builder.addInitializedInputTensor(np.ones((8, 8), np.float32))])])
    proposal = popart.propose_stages(builder.getModelProto(), 5, ipu_model(TILES, 8))
    assert [each.outputs for each in proposal.stages[0].operators][:3] == [("MatMul:0",), ("MatMul:0/1",), ("MatMul:0/2",)]
    assert proposal.stages[-1].operators[-1].name == last
    assert proposal.notes[0].startswith("5 stages were asked for: ")


def test_operators_of_known_results_cost_nothing_and_go_with_the_next(builder: popart.Builder) -> None:
    x = builder.addInputTensor("FLOAT", [4, 8])
    shape = builder.aiOnnx.constant(np.array([8, 4], np.int64))
    y = builder.aiOnnx.relu([builder.aiOnnx.reshape([builder.aiOnnx.sin([x]), shape])])
    proposal = popart.propose_stages(builder.getModelProto(), 2, ipu_model(4, 2))
    constant = proposal.stages[0].operators[0]
    assert (constant.op_type, constant.forward_cycles) == ("Constant", 0)
    assert proposal.stages[-1].operators[-1].name == y


def test_fewer_stages_than_asked_for_are_explained() -> None:
    builder, loss = chain((8, 8))
    proposal = popart.propose_stages(builder.getModelProto(), 3, ipu_model(TILES), loss)
    assert len(proposal.stages) < 3
    assert proposal.notes[0].startswith("3 stages were asked for: ")


@each("number", [0, -1, True, 2.0, "2", None, 5000])
def test_a_number_of_stages_that_is_none_is_refused(number: object) -> None:
    builder, loss = chain((8, 8))
    with pytest.raises(popart.popart_exception, match=r"num_stages is .*: it must be a number of stages, from 1 to 4,096"):
        popart.propose_stages(builder.getModelProto(), number, ipu_model(), loss)  # type: ignore[arg-type]  # on purpose


def test_a_device_without_cycles_and_a_loss_that_is_none_are_refused() -> None:
    builder, _ = chain((8, 8))
    with pytest.raises(popart.popart_exception, match="A Cpu device has no tiles and no cycles"):
        popart.propose_stages(builder.getModelProto(), 2, cpu())
    with pytest.raises(popart.popart_exception, match="Could not find loss tensor 'nothing'"):
        popart.propose_stages(builder.getModelProto(), 2, ipu_model(), "nothing")


def test_another_model_is_not_annotated() -> None:
    builder, loss = chain((8, 8))
    proposal = popart.propose_stages(builder.getModelProto(), 1, ipu_model(), loss)
    other, _ = chain((8, 8, 8))
    with pytest.raises(popart.popart_exception, match="no operator that makes MatMul:0/1: it is of another model"):
        proposal.annotated(other.getModelProto())


def test_the_json_has_what_the_table_has() -> None:
    builder, loss = chain()
    proposal = popart.propose_stages(builder.getModelProto(), 3, ipu_model(TILES, 4), loss)
    plain = json.loads(proposal.to_json())
    assert (plain["schema"], plain["version"], plain["machine"], plain["asked"]) == ("tilestep-stages", 1, "m2000", 3)
    assert [stage["cycles"] for stage in plain["stages"]] == [stage.cycles for stage in proposal.stages]
    lines = str(proposal).splitlines()
    assert lines[0].startswith("3 stages for training on m2000, balance ")
    for stage, line in zip(proposal.stages, lines[2:], strict=False):
        assert line.split()[0] == str(stage.number)
        assert f" {stage.cycles:,} " in line
    assert lines[-1].endswith(
        f"with builder.virtualGraph(2), builder.pipelineStage(2):  # {proposal.stages[2].operators[0].name} to {loss}"
    )


def test_sessions_are_seen_in_a_block_and_get_proposals() -> None:
    builder, loss = chain((8, 8, 8))
    proto, anchors = builder.getModelProto(), popart.DataFlow(1, [loss])
    with seen_sessions() as seen:
        popart.TrainingSession(proto, anchors, loss, popart.SGD({}), ipu_model(4, 2), name="first")
        popart.InferenceSession(proto, anchors, cpu(), name="second")
    announce_made(RegisteredSession(name="later", graph=graph_of(builder), loss=None, differentiable=frozenset(), device=cpu()))
    told = proposals(seen, 2)
    assert [each.name for each in told] == ["first", "second"]
    assert told[0].proposal is not None
    assert told[0].proposal.training
    assert str(told[0]).startswith("session 'first': proposed stages\n")
    assert str(told[1]) == "session 'second': no stages are proposed, because a Cpu device has no cycles"
    assert told[1].as_dict() == {"session": "second", "why_none": "no stages are proposed, because a Cpu device has no cycles"}
