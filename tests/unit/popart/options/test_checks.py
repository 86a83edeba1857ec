"""Values that do not fit each other are errors that begin with the original's words."""

from typing import Any

import pytest

from tests.together import each
from tests.unit.popart.session.models import options
from tilestep.popart import enums
from tilestep.popart.exceptions import popart_exception
from tilestep.popart.options import AutomaticLossScalingSettings, BatchSerializationSettings, ExecutionPhaseSettings

LOSS_SCALE = r"\[AutomaticLossScale transform\] "
TRACKED = enums.GradientTensorTrackingMethod.GradientsOfUserSpecifiedTensors
LOOP = BatchSerializationSettings(4, method=enums.BatchSerializationMethod.Loop)
LOCAL = {"enableReplicatedGraphs": True}
GLOBAL = {"enableDistributedReplicatedGraphs": True}
MANUAL = {"virtualGraphMode": enums.VirtualGraphMode.Manual}
PIPELINED = {**MANUAL, "enablePipelining": True}
PHASED = {"virtualGraphMode": enums.VirtualGraphMode.ExecutionPhases}


@each(
    "given, message",
    [
        ({"accumulationFactor": 2}, "enableGradientAccumulation is false, but accumulationFactor > 1. Either enable .* It is 2"),
        ({"accumulationFactor": 0}, "accumulationFactor is 0: it must be 1 or more"),
        ({"replicatedGraphCount": 2}, "enableReplicatedGraphs is false, but replicatedGraphCount > 1"),
        ({"replicatedGraphCount": 0}, "replicatedGraphCount is 0: it must be 1 or more"),
        ({**GLOBAL, "globalReplicationFactor": 0}, "Invalid globalReplicationFactor value: 0, must be greater or equal than 1"),
        ({**GLOBAL, "globalReplicaOffset": -1}, "Invalid globalReplicaOffset value: -1, must be greater or equal than 0"),
        ({**GLOBAL, "globalReplicaOffset": 2}, "Global replica offset: 2, is larger than global replication factor: 1"),
        ({**GLOBAL, **LOCAL}, "Local replicated graphs enabled but replication factor is 1"),
        ({**GLOBAL, **LOCAL, "replicatedGraphCount": 4}, "Invalid local replication factor: 4, larger than global replication factor: 1"),
        ({"createImplicitPipeliningFwdOnlyProgram": True}, "Implicit pipelining forward-only program is not supported without implicit"),
        (
            {"createImplicitPipeliningFwdOnlyProgram": True, "enablePipelining": True},
            "Implicit pipelining forward-only program is not supported without gradient accumulation",
        ),
        (
            {
                "createImplicitPipeliningFwdOnlyProgram": True,
                "enablePipelining": True,
                "useHostCopyOps": True,
                "enableExplicitMainLoops": True,
            },
            "Implicit pipelining forward-only program is not supported with explicit pipelining",
        ),
        ({"executionPhaseSettings": ExecutionPhaseSettings(-2)}, "executionPhaseSettings.phases is -2: it must be 0 or more"),
        ({"executionPhaseSettings": ExecutionPhaseSettings(2)}, "> 1 execution phases requires VirtualGraphMode::ExecutionPhases"),
        ({"enableExplicitMainLoops": True}, "enableExplicitMainLoops requires useHostCopyOps"),
        ({"aliasZeroCopy": True}, "Alias zero copy is currently not supported with implicit recomputation"),
        ({"aliasZeroCopy": True, **PIPELINED}, "Alias zero copy is not supported with implicit pipelining"),
        ({"batchSerializationSettings": LOOP}, "Loop batch serialization is only supported in BatchSerializationTransformContext::Bwd"),
        (
            {"automaticLossScalingSettings": AutomaticLossScalingSettings(True), **PIPELINED},
            LOSS_SCALE + "Automatic loss scaling is not currently supported when the 'enablePipelining'",
        ),
        ({"automaticLossScalingSettings": AutomaticLossScalingSettings(True, ["x"])}, LOSS_SCALE + "toTrackTensors has been set, but"),
        (
            {"automaticLossScalingSettings": AutomaticLossScalingSettings(True, gradientTensorTrackingMethod=TRACKED)},
            LOSS_SCALE + "gradientTensorTrackingMethod set to .* but 'toTrackTensors' has not been set",
        ),
        (
            {"automaticLossScalingSettings": AutomaticLossScalingSettings(True, binEdgeLocation=1.5)},
            LOSS_SCALE + "Out of range value for 'binEdgeLocation'. The current value is 1.5",
        ),
        ({"kahnTieBreaker": "slow"}, "Unrecognised KahnTieBreaker, slow. Should be one of"),
        ({"partialsTypeMatMuls": "int"}, "Unable to get option 'partialsTypeMatMul' from string 'int'"),
        ({"defaultBufferingDepth": 0}, r"Unable to support a buffering depth of 0 \(minimum"),
        ({"bufferingDepthMap": {"x": 0}}, r"Unable to support a buffering depth of 0 for tensor x \(minimum"),
        ({"numIOTiles": -1}, "numIOTiles is -1: it must be 0 or more"),
        ({**MANUAL, "numIOTiles": 16}, "16 is an invalid number of IO tiles. Number of IO tiles must be an even number and >= 32"),
        ({**MANUAL, "numIOTiles": 33}, "33 is an invalid number of IO tiles"),
        ({**MANUAL, "numIOTiles": 64}, "Tiles per IPU 64 should exceed number of IO tiles 64"),
        ({**PHASED, "executionPhaseSettings": ExecutionPhaseSettings(4, stages=3)}, "executionPhaseSettings.stages is 3: phases run on 1"),
        ({**PHASED, "executionPhaseSettings": ExecutionPhaseSettings(4, stages=0)}, "executionPhaseSettings.stages is 0"),
        (
            {**PHASED, **LOCAL, "replicatedGraphCount": 4, "executionPhaseSettings": ExecutionPhaseSettings(4)},
            r"Invalid virtual graph index 1 \(1 available\): with executionPhaseSettings.stages = 2, phase i runs on IPU i % 2",
        ),
    ],
)
def test_a_training_session_refuses(given: dict[str, Any], message: str) -> None:
    with pytest.raises(popart_exception, match=f"^{message}"):
        options(**given).require_supported(training=True, num_ipus=4, tiles=64)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"enableGradientAccumulation": True}, "Gradient Accumulation only available when training"),
        ({"automaticLossScalingSettings": AutomaticLossScalingSettings(True)}, LOSS_SCALE + "Only compatible when doing training"),
    ],
)
def test_an_inference_session_refuses(given: dict[str, Any], message: str) -> None:
    with pytest.raises(popart_exception, match=f"^{message}"):
        options(**given).require_supported(training=False)


@each(
    "given",
    [
        {"enableGradientAccumulation": True, "accumulationFactor": 8},
        {"enableReplicatedGraphs": True},
        {"partialsTypeMatMuls": "HALF"},
        {"globalReplicaOffset": 3},
        {"batchSerializationSettings": BatchSerializationSettings(4)},
        PIPELINED,
        {**PIPELINED, **LOCAL, "replicatedGraphCount": 2},
        {"enablePipelining": True, "useHostCopyOps": True, "enableExplicitMainLoops": True},
        {**PHASED, "executionPhaseSettings": ExecutionPhaseSettings(4)},
        {**PHASED, **LOCAL, "replicatedGraphCount": 4, "executionPhaseSettings": ExecutionPhaseSettings(4, stages=1)},
        {"numIOTiles": 16},
        {**MANUAL, "numIOTiles": 32},
    ],
)
def test_what_fits_is_taken(given: dict[str, Any]) -> None:
    options(**given).require_supported(training=True, num_ipus=4, tiles=64)


@pytest.mark.parametrize(("given", "phases"), [({"executionPhaseSettings": ExecutionPhaseSettings(1)}, 1), (PHASED, 0)])
def test_one_phase_is_no_phases(given: dict[str, Any], phases: int, capsys: pytest.CaptureFixture[str]) -> None:
    options(**given).require_supported(training=True)
    assert (
        f"Phased execution was enabled but only {phases} phases were defined. Phased execution only works with >=2 phases. Disabling."
        in capsys.readouterr().err
    )
