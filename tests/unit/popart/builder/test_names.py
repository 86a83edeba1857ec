import numpy as np
import onnx

from tilestep.popart import Builder, DebugContext, DebugInfo, TensorInfo

INFO = TensorInfo("FLOAT", [2])


def test_outputs_are_named_by_operator_and_position(builder: Builder) -> None:
    x = builder.addInputTensor(INFO)
    assert [builder.aiOnnx.exp([x]) for _ in range(3)] == ["Exp:0", "Exp:0/1", "Exp:0/2"]
    assert builder.aiOnnx.split([x], 2) == ["Split:0", "Split:1"]
    assert builder.aiOnnx.logical_not([x]) == "Not:0"


def test_a_debug_name_names_inputs_and_nodes_and_no_outputs(builder: Builder) -> None:
    assert [builder.addInputTensor(INFO) for _ in range(2)] == ["input", "input/1"]
    assert [builder.addInputTensor(INFO, "data") for _ in range(2)] == ["data", "data/1"]
    assert builder.addInitializedInputTensor(np.zeros(2, np.float32)) == "init_input"
    assert builder.addInitializedInputTensor(np.zeros(2, np.float32), "w") == "w"
    assert builder.aiOnnx.exp(["data"], "name") == "Exp:0"
    builder.aiOnnx.exp(["data"])
    assert [node.name for node in onnx.load_from_string(builder.getModelProto()).graph.node] == ["name", ""]


def test_scopes_stand_before_all_names(builder: Builder) -> None:
    assert (builder.getNameScope(), builder.getNameScope("a")) == ("", "a")
    with builder.nameScope("one"):
        x = builder.addInputTensor(INFO)
        w = builder.addInitializedInputTensor(np.zeros(2, np.float32), "w")
        assert (builder.getNameScope(), builder.getNameScope("a")) == ("one/", "one/a")
        with builder.nameScope("two"):
            y = builder.aiOnnx.add([x, w], "name")
            z = builder.aiOnnx.add([x, w])
            assert builder.getNameScope() == "one/two/"
    assert (x, w, y, z) == ("one/input", "one/w", "one/two/Add:0", "one/two/Add:0/1")
    assert [node.name for node in onnx.load_from_string(builder.getModelProto()).graph.node] == ["one/two/name", "one/two/Add"]
    assert builder.aiOnnx.add([x, w]) == "Add:0"


def test_names_are_not_reused_in_subgraphs_and_around_them(builder: Builder) -> None:
    x = builder.addInputTensor(INFO)
    first, second = builder.createSubgraphBuilder(), builder.createSubgraphBuilder()
    first.addInputTensorFromParentGraph(x)
    assert first.aiOnnx.exp([x]) == "Exp:0"
    assert second.aiOnnx.exp([x]) == "Exp:0"  # neither is in the other
    assert builder.aiOnnx.exp([x]) == "Exp:0/1"
    assert first.createSubgraphBuilder().addInputTensor(INFO) == "input/1"


def test_graphs_have_names_that_differ() -> None:
    def name_of(builder: Builder) -> str:
        return onnx.load_from_string(builder.getModelProto()).graph.name

    one, two = Builder(), Builder()
    assert name_of(one).startswith("BuilderGraph_")
    assert name_of(one) != name_of(two)
    one.setGraphName("mine")
    assert name_of(one) == "mine"
    one.setGraphName("")
    assert name_of(one).startswith("_")


def test_debug_contexts_are_taken_everywhere(builder: Builder) -> None:
    info = DebugInfo(DebugContext("outer"), "layer")
    context = DebugContext(info, "inner")
    assert builder.addInputTensor(INFO, context) == "outer/inner"
    assert builder.addInputTensor("FLOAT", [2], debugContext=context) == "outer/inner/1"
    assert builder.addInitializedInputTensor(np.zeros(2, np.float32), debugContext=context) == "outer/inner/2"
    builder.aiOnnx.exp(["outer/inner"], context)
    builder.aiGraphcore.nop(["outer/inner"], debugContext=info)
    assert [node.name for node in onnx.load_from_string(builder.getModelProto()).graph.node] == ["outer/inner", "outer"]


def test_a_loaded_model_s_names_are_taken() -> None:
    first = Builder()
    x = first.addInputTensor(INFO)
    first.addOutputTensor(first.aiOnnx.exp([x]))
    second = Builder(first.getModelProto())
    assert second.aiOnnx.exp([x]) == "Exp:0/1"
    assert second.addInputTensor(INFO) == "input/1"
