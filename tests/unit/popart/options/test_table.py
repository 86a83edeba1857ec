"""Each option does what the table says: it is refused by name, has no effect, or takes effect."""

from typing import Any

import pytest

from tests.together import each
from tilestep.popart import enums
from tilestep.popart.exceptions import popart_exception
from tilestep.popart.options import (
    AccumulateOuterFragmentSettings,
    BatchSerializationSettings,
    ExperimentalSettings,
    ReplicatedCollectivesSettings,
    SessionOptions,
)
from tilestep.popart.options.checks import refusals
from tilestep.popart.options.fields import fields_of
from tilestep.popart.options.option_support import Situation
from tilestep.popart.options.table import TABLE

TRAINING = Situation(training=True)


def _experimental() -> ExperimentalSettings:
    settings = ExperimentalSettings()
    settings.customTransformApplierSettings["Fwd0"] = ["Transform A"]
    return settings


# option -> a value that is refused, and other options that must be set for that
REFUSED: dict[str, tuple[Any, dict[str, Any]]] = {
    "groupNormStridedChannelGrouping": (True, {}),
    "customCodelets": (["vertex.cpp"], {}),
    "enableDistributedReplicatedGraphs": (True, {"globalReplicationFactor": 2}),
    "globalReplicationFactor": (2, {"enableDistributedReplicatedGraphs": True}),
    "globalReplicaOffset": (1, {"enableDistributedReplicatedGraphs": True}),
    "experimentalSettings": (_experimental(), {}),
}
# option -> a value that is not the default and changes nothing
NO_EFFECT: dict[str, Any] = {
    "enableStochasticRounding": True,
    "enableFloatingPointChecks": True,
    "enableNonStableSoftmax": True,
    "enableStableNorm": True,
    "throwIfLog2ScaleTensorNotInRange": False,
    "_enableRngStateManagement": True,
    "strictOpVersions": False,
    "updatableNamedBuffers": ["w"],
    "disableGradAccumulationTensorStreams": True,
    "disableOptimizerStateTensorStreams": True,
    "enableVariablesCaching": False,
    "customCodeletCompileFlags": "-g",
    "gclOptions": {"link": "auto"},
    "enableFullyConnectedPass": False,
    "enableOutlining": False,
    "enableOutliningCopyCostPruning": False,
    "outlineThreshold": 10.0,
    "outlineSequenceBreakCost": 1.0,
    "subgraphCopyingStrategy": enums.SubgraphCopyingStrategy.JustInTime,
    "aliasZeroCopy": True,
    "useLoopCandidateCreator": True,
    "mergeVarUpdate": enums.MergeVarUpdateType.All,
    "mergeVarUpdateMemThreshold": 1,
    "decomposeGradSum": True,
    "delayVarUpdates": False,
    "scheduleNonWeightUpdateGradientConsumersEarly": True,
    "accumulateOuterFragmentSettings": AccumulateOuterFragmentSettings(enums.AccumulateOuterFragmentSchedule.Scheduler),
    "kahnTieBreaker": "FIFO",
    "timeLimitScheduler": 1.0,
    "swapLimitScheduler": 1,
    "transitiveClosureOptimizationThreshold": 1,
    "serializedPoprithmsShiftGraphsDir": "here",
    "groupHostSync": True,
    "enableEfficientOverlapIOTopoCons": True,
    "batchSerializationSettings": BatchSerializationSettings(4),
    "rearrangeAnchorsOnHost": False,
    "rearrangeStreamsOnHost": True,
    "enablePrefetchDatastreams": False,
    "defaultBufferingDepth": 2,
    "bufferingDepthMap": {"x": 2},
    "enableMergeExchange": False,
    "stashAllTensorsInferencePipeline": True,
    "replicatedCollectivesSettings": ReplicatedCollectivesSettings(mergeAllReduceCollectives=True),
    "logDir": "here",
    "dotChecks": {"Final"},
    "dotOpNames": True,
    "firstDotOp": 1,
    "finalDotOp": 2,
    "separateCallOpPdfs": False,
    "exportPoplarComputationGraph": True,
    "exportPoplarVertexGraph": True,
    "opxAliasChecking": True,
    "opxModifyChecking": True,
    "enableInplaceAmbiguityChecking": True,
    "enableConstantFoldingOfMultipleConsumers": False,
}
OTHER_FLAGS = {"aliasZeroCopy": ("explicitRecomputation",)}


def test_the_table_has_every_field_once() -> None:
    assert TABLE.keys() == fields_of(SessionOptions).keys()


def test_the_tables_rows_are_tested() -> None:
    assert {name for name, row in TABLE.items() if row.fate == "refused"} == REFUSED.keys()
    assert {name for name, row in TABLE.items() if row.fate == "no effect"} == NO_EFFECT.keys()


@each("name", REFUSED)
def test_a_refused_value_is_an_error_that_names_the_option_and_the_way_out(name: str) -> None:
    options = SessionOptions()
    value, others = REFUSED[name]
    for option, setting in {name: value, **others}.items():
        setattr(options, option, setting)
    found = [message for message in refusals(options, TRAINING) if message.startswith(f"SessionOptions.{name} = ")]
    assert len(found) == 1
    assert f". To go on: {TABLE[name].way_out}." in found[0]
    with pytest.raises(popart_exception):
        options.require_supported(training=True)


@pytest.mark.parametrize("replicas", [1, 2])
def test_a_process_that_has_all_replicas_may_say_that_they_are_distributed(options: SessionOptions, replicas: int) -> None:
    options.enableDistributedReplicatedGraphs, options.globalReplicationFactor = True, replicas
    options.enableReplicatedGraphs, options.replicatedGraphCount = replicas > 1, replicas
    options.require_supported(training=True)
    assert options.getGlobalReplicationFactor() == replicas


@pytest.mark.parametrize("name", NO_EFFECT)
def test_a_value_without_effect_is_taken(options: SessionOptions, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    for other in OTHER_FLAGS.get(name, ()):
        setattr(options, other, True)
    setattr(options, name, NO_EFFECT[name])
    assert name in options.changed()
    options.require_supported(training=True)
    assert (f"SessionOptions.{name} has no effect: {TABLE[name].text}." in capsys.readouterr().err) == TABLE[name].warns


@each("row", TABLE.values())
def test_a_row_is_a_sentence_and_a_refusal_has_a_way_out(row: Any) -> None:
    assert row.text
    assert not row.text.endswith(".")
    assert bool(row.way_out) == (row.refuses is not None) == (row.fate == "refused")
