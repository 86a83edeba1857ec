from typing import Any

import onnx
import pytest
from onnx import helper

from tilestep import popart
from tilestep.popart import Builder, RecomputeType, TensorInfo


@pytest.fixture
def builder() -> Builder:
    builder = Builder()
    builder.addInputTensor(TensorInfo("FLOAT", [4]), "x")
    return builder


def placed(builder: Builder, output: str) -> dict[str, Any]:
    """Attributes of the node that makes `output`, but the debug number."""
    for node in onnx.load_from_string(builder.getModelProto()).graph.node:
        if output in node.output:
            return {one.name: helper.get_attribute_value(one) for one in node.attribute if one.name != "__debug_info_id"}
    raise AssertionError(output)


NUMBERS = [("virtualGraph", "__ipu_number"), ("pipelineStage", "__pipeline_stage"), ("executionPhase", "__execution_phase")]


@pytest.mark.parametrize(("method", "attribute"), NUMBERS)
def test_a_call_and_a_context_write_the_same(builder: Builder, method: str, attribute: str) -> None:
    called = builder.aiOnnx.exp(["x"])
    assert getattr(builder, method)(called, 3) is None
    with getattr(builder, method)(3):
        inside = builder.aiOnnx.exp(["x"])
    outside = builder.aiOnnx.exp(["x"])
    assert placed(builder, called) == placed(builder, inside) == {attribute: 3}
    assert placed(builder, outside) == {}


@pytest.mark.parametrize(("method", "attribute"), NUMBERS)
def test_sets_of_outputs_and_keywords(builder: Builder, method: str, attribute: str) -> None:
    parts = builder.aiOnnx.split(["x"], 2)
    getattr(builder, method)(set(parts), 2)
    assert placed(builder, parts[0])[attribute] == 2
    single = builder.aiOnnx.exp(["x"])
    getattr(builder, method)(nodeOutputNames=single)
    assert placed(builder, single)[attribute] == 0
    with getattr(builder, method)(value=5):
        assert placed(builder, builder.aiOnnx.exp(["x"]))[attribute] == 5
    with pytest.raises(popart.popart_exception, match=f"Node already has attribute {attribute}"):
        getattr(builder, method)(single, 1)


@pytest.mark.parametrize(
    ("what", "message"), [("VirtualGraph", "Virtual graph"), ("PipelineStage", "Pipeline stage"), ("ExecutionPhase", "Execution phase")]
)
def test_getters_see_the_innermost_context(builder: Builder, what: str, message: str) -> None:
    has, get = getattr(builder, f"has{what}"), getattr(builder, f"get{what}")
    enter = getattr(builder, what[0].lower() + what[1:])
    assert has() is False
    with pytest.raises(popart.popart_exception, match=f"^{message} not set in current scope.$"):
        get()
    with enter(0):
        assert (has(), get()) == (True, 0)
        with enter(1):
            assert get() == 1
        assert get() == 0
    assert has() is False


def test_contexts_combine(builder: Builder) -> None:
    with builder.virtualGraph(1), builder.pipelineStage(2), builder.schedulePriority(0.5):
        made = builder.aiOnnx.exp(["x"])
    assert placed(builder, made) == {"__ipu_number": 1, "__pipeline_stage": 2, "__schedule_priority": 0.5}


def test_the_virtual_graph_of_a_node(builder: Builder) -> None:
    made = builder.aiOnnx.exp(["x"])
    builder.virtualGraph([made], 4)
    assert builder.getVirtualGraph(made) == builder.getVirtualGraph({made}) == builder.getVirtualGraph([made]) == 4
    with pytest.raises(popart.popart_exception, match=r"Node does not have an attribute __ipu_number."):
        builder.getVirtualGraph(builder.aiOnnx.exp(["x"]))


def test_recomputation(builder: Builder) -> None:
    name = "__recompute_output_in_backward_pass"
    one, two, three = (builder.aiOnnx.exp(["x"]) for _ in range(3))
    builder.recomputeOutputInBackwardPass(one)
    builder.recomputeOutputInBackwardPass({two}, RecomputeType.Checkpoint)
    builder.recomputeOutput(three, RecomputeType.Recompute)
    with builder.recomputeOutput(RecomputeType.Checkpoint):
        four = builder.aiOnnx.exp(["x"])
    assert [placed(builder, id)[name] for id in (one, two, three, four)] == [2, 1, 2, 1]
    assert builder.getRecomputeOutputInBackwardPass(one) is True
    assert builder.getRecomputeOutputInBackwardPass({two}) is True
    with pytest.raises(TypeError, match=r"recomputeOutput\(\): incompatible function arguments"):
        builder.recomputeOutput(one, 1)


@pytest.mark.parametrize(("method", "attribute"), NUMBERS)
def test_a_number_that_no_attribute_holds_is_refused(builder: Builder, method: str, attribute: str) -> None:
    made = builder.aiOnnx.exp(["x"])
    for arguments in ((made, 2**63), (2**63,)):
        with pytest.raises(TypeError, match=rf"{method}\(\): incompatible function arguments"):
            getattr(builder, method)(*arguments)
    assert placed(builder, made) == {}
    getattr(builder, method)(made, 2**63 - 1)
    assert placed(builder, made) == {attribute: 2**63 - 1}


def test_checkpoints_are_copies_with_new_ids(builder: Builder) -> None:
    made = builder.aiOnnx.exp(["x"])
    with builder.virtualGraph(1):
        copies = builder.checkpointOutput([made, "x"])
    assert copies == ["Identity:0", "Identity:0/1"]
    assert builder.getTensorShape(copies[0]) == [4]
    node = onnx.load_from_string(builder.getModelProto()).graph.node[1]
    assert (node.op_type, node.name, list(node.input)) == ("Identity", "Checkpoint", [made])
    assert placed(builder, copies[0]) == {
        "__ipu_number": 1,
        "__recompute_output_in_backward_pass": 1,
        "__exclude_patterns": [b"PreUniRepl", b"PostNRepl"],
    }


def test_locations_and_groups(builder: Builder) -> None:
    location = popart.TensorLocation(popart.TensorStorage.OffChip)
    one = builder.aiOnnx.exp(["x"])
    builder.outputTensorLocation(one, location)
    with builder.outputTensorLocation(location), builder.commGroup(popart.CommGroupType.Orthogonal, 4):
        two = builder.aiGraphcore.replicatedallreduce(["x"])
    with builder.commGroup(int(popart.CommGroupType.Consecutive), 2):
        three = builder.aiGraphcore.replicatedallreduce(["x"])
    assert placed(builder, one) == {"__output_tensor_location": [1, 0, 0, 0, 0, 0]}
    assert placed(builder, two) == {"__output_tensor_location": [1, 0, 0, 0, 0, 0], "__collectiveCommGroup": [2, 4]}
    assert placed(builder, three) == {"__collectiveCommGroup": [1, 2]}


def test_keys_and_values_for_outlining_are_merged(builder: Builder) -> None:
    with builder.outlineAttributes({"layer": "embedding", "n": 1}):
        one = builder.aiOnnx.exp(["x"])
        with builder.outlineAttributes({"layer": "other", "block": "a"}):
            two = builder.aiOnnx.exp(["x"])
        three = builder.aiOnnx.exp(["x"])
    assert placed(builder, one)["__outline"] == placed(builder, three)["__outline"] == [b"layer", b"embedding", b"n", b"1"]
    assert placed(builder, two)["__outline"] == [b"block", b"a", b"layer", b"embedding", b"n", b"1"]
    assert placed(builder, builder.aiOnnx.exp(["x"])) == {}


def test_subgraphs_have_contexts_of_their_own(builder: Builder) -> None:
    inner = builder.createSubgraphBuilder()
    with builder.virtualGraph(1):
        made = inner.aiOnnx.exp(["x"])
    assert placed(inner, made) == {}
