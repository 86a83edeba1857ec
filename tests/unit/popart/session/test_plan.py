"""What is refused when a session is made: anchors, losses and models that do not fit."""

import re

import numpy as np
import pytest

from tests.unit.popart.session.models import Model, cpu, inference, run, same, sgd, squares, training
from tilestep import popart


def test_a_loss_must_be_a_scalar_of_the_model() -> None:
    model = squares()
    for loss, message in [
        (model.y, "The loss has shape [2, 2]: reduce it, for example with aiGraphcore.identityloss. Loss tensor, 'MatMul:0', must be"),
        ("nothing", "Could not find loss tensor 'nothing' in main graph tensors"),
    ]:
        with pytest.raises(popart.popart_exception, match="^" + re.escape(message)):
            popart.TrainingSession(model.proto, popart.DataFlow(1, [model.y]), loss, sgd(), cpu())


def test_unknown_anchors_are_named_with_those_that_there_are() -> None:
    model = squares()
    with pytest.raises(popart.popart_exception, match=r"^Anchor tensor `nothing' not in Ir Tensors\. The tensors are: .*MatMul:0"):
        inference(model.proto, {"nothing": "All"}, prepare=False)
    with pytest.raises(
        popart.popart_exception, match=r"^Anchor tensor `Gradient___w' not in Ir Tensors\. `w' is one\. Only a tensor that leads"
    ):
        inference(model.proto, {"Gradient___w": "All"}, prepare=False)
    for name in ("Accl___input", "UpdatedVar___input", "Gradient___nothing", "Accl1___w"):
        with pytest.raises(popart.popart_exception, match=f"^Anchor tensor `{name}' not in Ir Tensors"):
            training(model, {name: "All"}, prepare=False)


def test_a_tensor_that_does_not_lead_to_the_loss_has_no_gradient(builder: popart.Builder) -> None:
    x = builder.addInputTensor("FLOAT", [2])
    w = builder.addInitializedInputTensor(np.ones(2, np.float32), "w")
    unused = builder.addInitializedInputTensor(np.ones(2, np.float32), "unused")
    y, side = builder.aiOnnx.mul([x, w]), builder.aiOnnx.mul([x, unused])
    loss = builder.aiGraphcore.identityloss([builder.aiOnnx.mul([builder.aiGraphcore.detach([y]), w])])
    model = Model(proto=builder.getModelProto(), x=x, w=w, y=y, loss=loss)
    for name in (unused, side, y):
        with pytest.raises(popart.popart_exception, match=f"^Anchor tensor `Gradient___{re.escape(name)}' not in Ir Tensors"):
            training(model, {f"Gradient___{name}": "All"}, prepare=False)
    session = training(model, {side: "All", "w": "Final", "unused": "Final"})
    found = run(session, {x: np.ones(2, np.float32)})
    same(found["unused"], [1, 1])  # nothing trains it
    assert (found["w"] < 1).all()


def test_a_model_of_which_nothing_is_left_is_refused(builder: popart.Builder) -> None:
    x = builder.addInputTensor("FLOAT", [2])
    builder.aiOnnx.add([x, x])
    with pytest.raises(popart.popart_exception, match=r"^All operations in the main graph were pruned, nothing to compute") as raised:
        inference(builder.getModelProto(), {x: "All"}, prepare=False)
    assert "The anchors are input" in raised.value.__notes__[0]


def test_inference_needs_an_anchor_and_has_no_accumulation() -> None:
    model = squares()
    with pytest.raises(popart.popart_exception, match=r"^User must specify an anchor tensor when doing inference"):
        inference(model.proto, {}, prepare=False)
    with pytest.raises(popart.popart_exception, match=r"^Gradient Accumulation only available when training"):
        inference(model.proto, {model.y: "All"}, accumulation=2, prepare=False)


def test_manual_and_automatic_recomputation_exclude_each_other() -> None:
    def recomputed() -> Model:
        builder = popart.Builder()
        x = builder.addInputTensor("FLOAT", [2])
        w = builder.addInitializedInputTensor(np.ones(2, np.float32), "w")
        y = builder.aiOnnx.mul([x, w])
        builder.recomputeOutputInBackwardPass(y)
        loss = builder.aiGraphcore.identityloss([y])
        return Model(proto=builder.getModelProto(), x=x, w=w, y=y, loss=loss)

    model = recomputed()
    with pytest.raises(popart.popart_exception, match=r"^A mixture of auto and manual recomputation is not supported$"):
        training(model, prepare=False, autoRecomputation=popart.RecomputationType.Standard)
    same(run(training(model, {model.y: "All"}), {model.x: np.ones(2, np.float32)})[model.y], [1, 1])
    training(squares(), prepare=False, autoRecomputation=popart.RecomputationType.Standard)


def test_saved_state_of_another_shape_is_refused() -> None:
    import onnx
    from onnx import numpy_helper

    model = squares()
    proto = onnx.load_from_string(model.proto)
    proto.graph.initializer.append(numpy_helper.from_array(np.zeros(5, np.float32), "Accl___w"))
    with pytest.raises(popart.popart_exception, match=r"^The model's 'Accl___w' has shape \[5\], and the optimiser's has \[3, 2\]$"):
        training(Model(proto=proto.SerializeToString(), x=model.x, w="w", y=model.y, loss=model.loss), prepare=False)
