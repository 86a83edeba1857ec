"""Names that PopART had before SDK 2.3: what has only another name today is taken, and anything else is an error that names today's way."""

import functools
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeVar

_T = TypeVar("_T")

_ARGUMENTS: Final = MappingProxyType({"debugPrefix": "debugContext", "dataFeed": "dataFlow", "passes": "patterns"})
NAMES: Final = MappingProxyType({"SessionOptionsCore": "SessionOptions", "PingPongSettings": "ExecutionPhaseSettings"})
BUILDER_METHODS: Final = MappingProxyType({"pingPongPhase": "executionPhase"})
_LOSS: Final = "and give its id to TrainingSession(loss=...)"
_PLACED: Final = "set virtualGraphMode = popart.VirtualGraphMode"
_PHASES: Final = "set executionPhaseSettings.phases"
GONE: Final[Mapping[str, str]] = MappingProxyType(
    {
        "NllLoss": f"a loss is an operator: builder.aiGraphcore.nllloss([probs, labels], reduction=popart.ReductionType.Sum), {_LOSS}",
        "L1Loss": f"a loss is an operator: builder.aiGraphcore.l1loss([x], factor, reduction=popart.ReductionType.Sum), {_LOSS}",
        "IdentityLoss": f"a loss is an operator: builder.aiGraphcore.identityloss([x], reduction=popart.ReductionType.Sum), {_LOSS}",
        "losses": "there is one loss, the id of a scalar tensor: give loss=..., and add several with builder.aiOnnx.sum",
        "updateOptimizer": "call updateOptimizerFromHost(optimizer) alone",
        "optimizerFromHost": "call updateOptimizerFromHost(optimizer) alone",
        "getGraphReport": "call getReport(), which gives a recording, or getSummaryReport()",
        "getExecutionReport": "call getReport(), which gives a recording, or getSummaryReport()",
        "enableVirtualGraphs": f"{_PLACED}.Manual, or leave it Off",
        "autoVirtualGraph": f"{_PLACED}.Auto",
        "ignoreData": "set syntheticDataMode = popart.SyntheticDataMode.Zeros",
        "pingPongPhases": _PHASES,
        "explicitPipelining": "set enablePipelining",
        "enableAutomaticLossScaling": "set automaticLossScalingSettings.enabled",
        "batchSerializationFactor": "set batchSerializationSettings.factor",
        "weightCacheSettings": "set weightTensorLocationSettings",
        "activationCacheSettings": "set activationTensorLocationSettings",
        "optimizerStateCacheSettings": "set optimizerStateTensorLocationSettings",
        "cacheSettingOverride": "set tensorLocationSettingsOverride",
        "replicatedWeightSharding": "set optimizerStateTensorLocationSettings.location.replicatedTensorSharding",
        "replicatedWeightShardingMinNumElements": "set optimizerStateTensorLocationSettings.minElementsForReplicatedTensorSharding",
        "hostAllReduce": "set enableReplicatedGraphs: the IPUs sum over their links",
        "hostAllReduceRemoteBuffer": "set enableReplicatedGraphs: the IPUs sum over their links",
        "hostWeightUpdate": "leave it out: weights are updated on the device",
        "ipuSystemType": "leave it out: the machine of the device says it",
    }
)


def gone(name: str) -> str | None:
    """What to do instead, in a sentence; None for a name that PopART did not have before."""
    return f"'{name}' is of PopART before SDK 2.3. To go on: {GONE[name]}" if name in GONE else None


def renamed(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments under today's names. Raises: TypeError for one that has another form today."""
    for name in arguments:
        if (instead := gone(name)) is not None:
            raise TypeError(instead)
    return {_ARGUMENTS[name] if name in _ARGUMENTS and _ARGUMENTS[name] not in arguments else name: arguments[name] for name in arguments}


def takes_former_names(function: Callable[..., _T]) -> Callable[..., _T]:
    """A decorator: the function may be called with arguments' former names."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> _T:
        return function(*args, **renamed(kwargs))

    return call
