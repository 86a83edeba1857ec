"""Places that do not fit are errors that begin with the original's words."""

import re
from typing import Any

import numpy as np
import pytest

from tests.unit.popart.session.staging.models import Placed, device, ladder, options, plan
from tilestep import popart

PIPELINED: dict[str, Any] = {"manual": True, "pipelining": True}


def refuses(message: str, *arguments: Any, **keywords: Any) -> None:
    with pytest.raises(popart.popart_exception, match=message) as raised:
        plan(*arguments, **keywords)
    assert re.match(message, str(raised.value))


def test_all_operators_have_a_virtual_graph_or_none() -> None:
    refuses(
        r"Either all Ops must have their virtual graph ids set, or none must. Op count per virtual graph id\n  0 : 1\n  1 : 2\n"
        r"Ops with no virtual graph id :  \n  Op\(ai.onnx.MatMul:\d+, inputs=\[MatMul:0, w1\], outputs=\[MatMul:0/1\]\)\n$",
        ladder([0, None, 1]),
        manual=True,
    )
    refuses("SessionOptions flag virtualGraphMode is .*Manual, but no Ops have been annotated", ladder([None, None]), manual=True)
    assert plan(ladder([0, None, 1])).staging.kind == "one"


def calling(inner_ipu: int | None) -> Placed:
    """A call on IPU 0 of a graph with one operator, and a loss on IPU 1."""
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [2], "x")
    inner = builder.createSubgraphBuilder()
    given = inner.addUntypedInputTensor(x)
    added = inner.aiOnnx.add([given, given])
    if inner_ipu is not None:
        inner.virtualGraph(added, inner_ipu)
    inner.addOutputTensor(added)
    y = builder.aiGraphcore.call([x], 1, inner)[0]
    builder.virtualGraph(y, 0)
    builder.virtualGraph(builder.aiGraphcore.identityloss([y]), 1)
    return Placed(builder.getModelProto(), y, y)


def test_operators_of_inner_graphs_have_virtual_graphs_too() -> None:
    refuses(r"(?s)Either all Ops must .*\n  Op\(ai.onnx.Add, inputs=", calling(None), training=False, manual=True)
    refuses(r'Op Op\(ai.onnx.Add, .*\) in subgraph ".*" does not have a virtual graph id. When', calling(None), training=False, **PIPELINED)
    refuses(
        r'The virtual graph id \(1\) for Op Op\(ai.onnx.Add, .* in subgraph ".*" does not match the virtual graph id \(0\) of the calling',
        calling(1),
        training=False,
        **PIPELINED,
    )
    assert plan(calling(0), training=False, **PIPELINED).staging.kind == "pipelined"


def test_what_is_known_before_needs_no_virtual_graph(builder: popart.Builder) -> None:
    x = builder.addInputTensor("FLOAT", [2, 3], "x")
    size = builder.aiOnnx.concat([builder.aiOnnx.constant(np.array([3])), builder.aiOnnx.constant(np.array([2]))], 0)
    y = builder.aiOnnx.reshape([x, size])
    builder.virtualGraph(y, 0)
    z = builder.aiOnnx.reshape([y, builder.aiOnnx.shape([x])])
    builder.virtualGraph(z, 1)
    staging = plan(Placed(builder.getModelProto(), z, z), training=False, manual=True).staging
    assert [stage.ipu for stage in staging.stages] == [0, 1]


def test_what_is_made_of_constant_weights_needs_no_virtual_graph(builder: popart.Builder) -> None:
    x = builder.addInputTensor("FLOAT", [2, 2], "x")
    w = builder.addInitializedInputTensor(np.ones((2, 2), np.float32), "w")
    y = builder.aiOnnx.matmul([x, builder.aiOnnx.transpose([w])])
    builder.virtualGraph(y, 0)
    model = Placed(builder.getModelProto(), y, y)
    assert plan(model, training=False, manual=True).staging.kind == "one"
    chosen = options(manual=True)
    chosen.constantWeights = False
    refuses("Either all Ops must", model, chosen, training=False)


def test_a_pipeline_needs_virtual_graphs_and_ipus() -> None:
    message = r"Pipelining requires more than 1 IPU \(currently {}\) and .* option to not be .*\(currently .*::{}\)\.{}$"
    turn_on = r" Choose VirtualGraphMode\.Auto, or Manual and name each operator's IPU by builder\.virtualGraph\."
    acquire = r" Acquire a device with an IPU for each stage of each replica\."
    refuses(message.format(4, "Off", turn_on), ladder([0, 1]), pipelining=True)
    refuses(message.format(1, "Off", turn_on + acquire), ladder([0, 1]), num_ipus=1, pipelining=True)
    refuses(message.format(1, "Manual", acquire), ladder([0, 0], [0, 1]), num_ipus=1, **PIPELINED)
    refuses(message.format(1, "Manual", acquire), ladder([0, 0], [0, 1]), options(**PIPELINED, replicas=4))
    refuses("For replicated graphs, the number of IPUs must be divisible by the replication factor. ", ladder([0]), options(replicas=3))


def test_all_operators_have_a_pipeline_stage_or_none() -> None:
    refuses(
        r"Only some ops have had their pipeline stage set. Ops missing the pipeline stage:\n  Op\(ai.onnx.MatMul:\d+, inputs=\[x, w0\], ",
        ladder([0, 1], [None, 1]),
        **PIPELINED,
    )


def test_a_pipeline_stage_is_on_one_virtual_graph() -> None:
    refuses(
        r"Ops \[.*\] have the same pipeline stage 0, but different virtual graph ids \{0, 1\}. All", ladder([0, 1], [0, 0]), **PIPELINED
    )
    refuses("Op has bad pipeline stage -2", ladder([0, 1], [-2, 1]), **PIPELINED)


def test_no_pipeline_stage_is_missing() -> None:
    message = "The set of pipeline stages for all Ops contains {} stages, but stage {} is missing"
    refuses(message.format(3, 1), ladder([0, 1], [0, 2]), **PIPELINED)  # 0, 2 and the backward pass of 0, which is 4
    refuses(message.format(2, 1), ladder([0, 1], [0, 2]), training=False, **PIPELINED)


def test_nothing_is_read_before_it_is_made() -> None:
    message = (
        r"Tensor MatMul:0 is consumed in an earlier pipeline stage than it is produced\n"
        r"Producer Op\(.*outputs=\[MatMul:0\]\) has pipeline stage 1\nConsumer Op\(.*\) has pipeline stage 0"
    )
    refuses(message, ladder([1, 0]), **PIPELINED)
    refuses(message, ladder([0, 1], [1, 0]), **PIPELINED)
    assert plan(ladder([1, 0]), manual=True).staging.kind == "sharded"


def test_a_variable_of_a_pipeline_is_on_one_ipu() -> None:
    message = "Can not copy variable tensor w between virtual graphs when pipelining. All pipeline stages using this tensor should be on"
    refuses(message, ladder([0, 1], shared=True), **PIPELINED)
    assert [stage.variables for stage in plan(ladder([0, 1, 0], shared=True), manual=True).staging.stages] == [("w",)] * 3
    builder = popart.Builder()
    last = builder.addInputTensor("FLOAT", [2, 2], "x")
    tied, own = (builder.addInitializedInputTensor(np.ones((2, 2), np.float32), name) for name in ("tied", "own"))
    for stage, weight in enumerate((tied, own, tied)):
        with builder.pipelineStage(stage), builder.virtualGraph(stage % 2):
            last = builder.aiOnnx.matmul([last, weight])
    with builder.pipelineStage(2), builder.virtualGraph(0):
        loss = builder.aiGraphcore.identityloss([last])
    staging = plan(Placed(builder.getModelProto(), loss, last), **PIPELINED).staging
    assert [(stage.ipu, stage.variables) for stage in staging.stages] == [(0, ("tied",)), (1, ("own",)), (0, ("tied",))]
    assert plan(ladder([0, 1], shared=True), training=False, **PIPELINED).staging.kind == "pipelined"  # constants are copied


@pytest.mark.parametrize(("training", "stages", "depth"), [(True, 2, 3), (True, 3, 5), (True, 4, 7), (False, 2, 2), (False, 4, 4)])
def test_a_pipeline_is_at_least_as_deep_as_it_has_stages(training: bool, stages: int, depth: int) -> None:
    model = ladder(list(range(stages)))
    message = rf"For pipelining, depth \(batchesPerStep\) must equal at least the number of pipeline stages \({depth}\). It is {depth - 1}"
    refuses(message, model, training=training, batches=depth - 1, **PIPELINED)
    assert len(plan(model, training=training, batches=depth, **PIPELINED).staging.stages) == stages
    assert plan(model, training=training, batches=depth + 1, **PIPELINED).staging.kind == "pipelined"  # and nothing must divide it
    if training:
        chosen = options(**PIPELINED, accumulation=depth - 1)
        refuses(rf"For pipelining, depth \(gradient accumulation factor\) must equal .* \({depth}\)", model, chosen, batches=9)
        assert plan(model, options(**PIPELINED, accumulation=depth), batches=1).staging.kind == "pipelined"


def test_a_stage_without_weights_has_no_backward_pass(builder: popart.Builder) -> None:
    x = builder.addInputTensor("FLOAT", [2, 2], "x")
    w = builder.addInitializedInputTensor(np.ones((2, 2), np.float32), "w")
    with builder.virtualGraph(0):
        y = builder.aiOnnx.relu([x])
    with builder.virtualGraph(1):
        y = builder.aiOnnx.matmul([y, w])
        loss = builder.aiGraphcore.identityloss([y])
    model = Placed(builder.getModelProto(), loss, y)
    assert plan(model, batches=2, **PIPELINED).staging.kind == "pipelined"
    refuses(
        r"For pipelining, depth \(batchesPerStep\) must equal at least the number of pipeline stages \(2\)", model, batches=1, **PIPELINED
    )


def test_a_pipeline_with_explicit_loops_has_rules_of_its_own() -> None:
    chosen = options(**PIPELINED)
    chosen.enableExplicitIR(True)
    assert plan(ladder([0, 1]), chosen).staging.kind == "pipelined"
    chosen.explicitRecomputation = False
    refuses(r"\[Pipeline::addDynamicStashOps\] Explicit pipelining requires explicit recomputation", ladder([0, 1]), chosen)
    chosen = options(pipelining=True)
    chosen.enableExplicitIR(True)
    refuses(
        "Pipelining requires the 'virtualGraphMode' session option to not be .*::Off. Choose VirtualGraphMode.Auto", ladder([0, 1]), chosen
    )


def test_single_operators_are_not_computed_again_in_a_pipeline() -> None:
    def recomputing(kind: popart.RecomputeType) -> Placed:
        builder = popart.Builder()
        x = builder.addInputTensor("FLOAT", [2, 2], "x")
        with builder.virtualGraph(0), builder.recomputeOutput(kind):
            y = builder.aiOnnx.matmul([x, builder.addInitializedInputTensor(np.ones((2, 2), np.float32), "w")])
        with builder.virtualGraph(1):
            loss = builder.aiGraphcore.identityloss([y])
        return Placed(builder.getModelProto(), loss, y)

    model = recomputing(popart.RecomputeType.Recompute)
    refuses("When pipelining is enabled, user annotation for recomputation is not allowed", model, **PIPELINED)
    chosen = options(manual=True)
    chosen.autoRecomputation = popart.RecomputationType.Standard
    refuses("A mixture of auto and manual recomputation is not supported", model, chosen)
    assert plan(recomputing(popart.RecomputeType.Checkpoint), chosen).staging.kind == "sharded"


def test_a_stage_is_not_computed_again_twice(builder: popart.Builder) -> None:
    x = builder.addInputTensor("FLOAT", [2, 2], "x")
    w = builder.addInitializedInputTensor(np.ones((2, 2), np.float32), "w")
    with builder.virtualGraph(0), builder.pipelineStage(0):
        made = builder.aiOnnx.exp([x])
        y = builder.aiOnnx.matmul([made, w])
    with builder.virtualGraph(1), builder.pipelineStage(1):
        y = builder.aiOnnx.sqrt([y])
    with builder.virtualGraph(0), builder.pipelineStage(2):
        loss = builder.aiGraphcore.identityloss([builder.aiOnnx.add([made, y])])
    model = Placed(builder.getModelProto(), loss, y)
    chosen = options(**PIPELINED)
    assert plan(model, chosen).staging.kind == "pipelined"
    chosen.autoRecomputation = popart.RecomputationType.Pipeline
    refuses(
        "SessionOptions::autoRecomputation == RecomputationType::Pipeline is not compatible with .* To-stash Tensor 'Exp:0'", model, chosen
    )
    assert plan(model, chosen, training=False).staging.kind == "pipelined"


def test_an_operator_on_an_ipu_that_the_device_lacks_is_found_when_it_is_prepared() -> None:
    model = ladder([0, 5])
    session = popart.InferenceSession(model.proto, popart.DataFlow(1, [model.y]), device(4), userOptions=options(manual=True))
    message = (
        r"^Op\(ai.onnx.MatMul:\d+, inputs=\[MatMul:0_c5, w1\], outputs=\[MatMul:0/1\]\) has been assigned to an invalid virtual graph 5. "
        "numIPUs = 4."
    )
    with pytest.raises(popart.popart_exception, match=message):
        session.prepareDevice()


def test_without_virtual_graphs_a_device_has_one_ipu_for_each_replica() -> None:
    model = ladder([None, None])
    session = popart.InferenceSession(model.proto, popart.DataFlow(1, [model.y]), device(2))
    with pytest.raises(
        popart.popart_exception, match=r"^If virtual graphs are disabled, the replicated graph count \(1\) needs to be equal"
    ):
        session.prepareDevice()
