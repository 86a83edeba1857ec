"""Names of before SDK 2.3: those that were only renamed are taken, others are errors with today's way."""

from typing import Any

import numpy as np
import onnx
import pytest

from tests.together import each
from tests.unit.popart.session.models import run
from tilestep import popart


def built(**named: str) -> tuple[popart.Builder, str, str]:
    builder = popart.Builder()
    x = builder.addInputTensor(popart.TensorInfo("FLOAT", [2]))
    return builder, x, builder.aiOnnx.relu([x], **named)


def test_a_debug_prefix_is_a_debug_context() -> None:
    for named in ({"debugPrefix": "old"}, {"debugContext": "old"}):
        builder, x, _ = built(**named)
        builder.reshape_const(builder.aiOnnx, [x], [2, 1], **named)  # type: ignore[arg-type]
        names = [node.name for node in onnx.load_from_string(builder.getModelProto()).graph.node]
        assert names == ["old", "old_const", "old"]
    with pytest.raises(TypeError, match="incompatible function arguments"):
        built(debugPrefix="old", debugContext="new")


def test_a_program_of_sdk_1_2_runs() -> None:
    """Its data flow is a data feed, and its patterns are passes. relu([-1, 2]) = [0, 2]."""
    builder, x, y = built(debugPrefix="relu")
    given: dict[str, Any] = {
        "fnModel": builder.getModelProto(),
        "dataFeed": popart.DataFlow(1, {y: popart.AnchorReturnType("ALL")}),
        "passes": popart.Patterns(popart.PatternsLevel.ALL),
        "userOptions": popart.SessionOptionsCore(),
        "deviceInfo": popart.DeviceManager().createCpuDevice(),
    }
    session = popart.InferenceSession(**given)
    session.prepareDevice()
    anchors = run(session, {x: np.array([-1, 2], np.float32)})
    np.testing.assert_array_equal(anchors[y], [0, 2])
    with pytest.raises(TypeError, match=r"^'losses' is of PopART before SDK 2.3. To go on: there is one loss"):
        popart.TrainingSession(**given, losses=[y], optimizer=popart.ConstSGD(0.1))  # type: ignore[call-arg]
    with pytest.raises(AttributeError, match=r"'getGraphReport' is of PopART before SDK 2.3. To go on: call getReport\(\)"):
        session.getGraphReport()
    with pytest.raises(AttributeError, match="'InferenceSession' object has no attribute 'never'"):
        session.never()


def test_renamed_members_and_options_are_the_same() -> None:
    options = popart.SessionOptions()
    options.accumulationReductionType = popart.ReductionType.Mean
    assert options.accumulationAndReplicationReductionType is popart.ReductionType.Mean is options.accumulationReductionType
    options.pingPongSettings.phases = 4
    assert options.executionPhaseSettings.phases == 4


@each(
    "name, way", [("enableVirtualGraphs", "VirtualGraphMode.Manual"), ("ignoreData", "SyntheticDataMode.Zeros"), ("hostAllReduce", "links")]
)
def test_options_of_another_form_are_errors(name: str, way: str) -> None:
    options = popart.SessionOptions()
    for use in (lambda: setattr(options, name, True), lambda: getattr(options, name)):
        with pytest.raises(AttributeError, match=f"^'{name}' is of PopART before SDK 2.3. To go on: .*{way}"):
            use()
    with pytest.raises(AttributeError, match="'SessionOptions' object has no attribute 'never'"):
        options.never = True  # type: ignore[attr-defined]


@each("name, operator", [("NllLoss", "nllloss"), ("L1Loss", "l1loss"), ("IdentityLoss", "identityloss")])
def test_losses_are_operators(name: str, operator: str) -> None:
    with pytest.raises(AttributeError, match=rf"^'{name}' is of PopART before SDK 2.3. To go on: .*builder.aiGraphcore.{operator}\("):
        getattr(popart, name)
    with pytest.raises(AttributeError, match="has no attribute 'Never'"):
        _ = popart.Never  # type: ignore[attr-defined]
