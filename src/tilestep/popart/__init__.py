"""PopART's Python interface on tilestep: programs written for it run as they are, on any JAX device, and are priced on an emulated IPU."""

from __future__ import annotations

try:
    import onnx as _onnx  # noqa: F401  # pyright: ignore[reportUnusedImport]
except ImportError as error:
    raise ImportError("tilestep.popart needs the package onnx: pip install 'tilestep[onnx]'") from error

from tilestep.popart.dataflow import AnchorReturnType as AnchorReturnType
from tilestep.popart.dataflow import DataFlow as DataFlow
from tilestep.popart.device_info import DeviceInfo as DeviceInfo
from tilestep.popart.devices import DeviceManager as DeviceManager
from tilestep.popart.devices import syncPatternFromString as syncPatternFromString
from tilestep.popart.devices import syncPatternToString as syncPatternToString
from tilestep.popart.enums import AccumulateOuterFragmentSchedule as AccumulateOuterFragmentSchedule
from tilestep.popart.enums import AdamMode as AdamMode
from tilestep.popart.enums import AdaptiveMode as AdaptiveMode
from tilestep.popart.enums import AnchorReturnTypeId as AnchorReturnTypeId
from tilestep.popart.enums import AutodiffStitchStrategy as AutodiffStitchStrategy
from tilestep.popart.enums import BatchSerializationBatchSchedule as BatchSerializationBatchSchedule
from tilestep.popart.enums import BatchSerializationMethod as BatchSerializationMethod
from tilestep.popart.enums import BatchSerializationTransformContext as BatchSerializationTransformContext
from tilestep.popart.enums import CollectiveOperator as CollectiveOperator
from tilestep.popart.enums import CommGroupType as CommGroupType
from tilestep.popart.enums import DataType as DataType
from tilestep.popart.enums import DeviceConnectionType as DeviceConnectionType
from tilestep.popart.enums import DeviceSelectionCriterion as DeviceSelectionCriterion
from tilestep.popart.enums import DeviceType as DeviceType
from tilestep.popart.enums import ExchangeStrategy as ExchangeStrategy
from tilestep.popart.enums import ExecutionPhaseIOSchedule as ExecutionPhaseIOSchedule
from tilestep.popart.enums import ExecutionPhaseSchedule as ExecutionPhaseSchedule
from tilestep.popart.enums import GradientTensorTrackingMethod as GradientTensorTrackingMethod
from tilestep.popart.enums import InitType as InitType
from tilestep.popart.enums import Instrumentation as Instrumentation
from tilestep.popart.enums import IrSerializationFormat as IrSerializationFormat
from tilestep.popart.enums import MeanReductionStrategy as MeanReductionStrategy
from tilestep.popart.enums import MergeVarUpdateType as MergeVarUpdateType
from tilestep.popart.enums import PatternsLevel as PatternsLevel
from tilestep.popart.enums import RecomputationType as RecomputationType
from tilestep.popart.enums import RecomputeType as RecomputeType
from tilestep.popart.enums import RecoveryAction as RecoveryAction
from tilestep.popart.enums import ReductionType as ReductionType
from tilestep.popart.enums import ReplicatedStreamMode as ReplicatedStreamMode
from tilestep.popart.enums import ReplicatedTensorSharding as ReplicatedTensorSharding
from tilestep.popart.enums import ScatterReduction as ScatterReduction
from tilestep.popart.enums import SGDAccumulatorAndMomentum as SGDAccumulatorAndMomentum
from tilestep.popart.enums import SubgraphCopyingStrategy as SubgraphCopyingStrategy
from tilestep.popart.enums import SyncPattern as SyncPattern
from tilestep.popart.enums import SyntheticDataMode as SyntheticDataMode
from tilestep.popart.enums import TensorRemapType as TensorRemapType
from tilestep.popart.enums import TensorStorage as TensorStorage
from tilestep.popart.enums import TileSet as TileSet
from tilestep.popart.enums import VariableRetrievalMode as VariableRetrievalMode
from tilestep.popart.enums import VirtualGraphMode as VirtualGraphMode
from tilestep.popart.enums import WeightDecayMode as WeightDecayMode
from tilestep.popart.exceptions import OutOfMemoryException as OutOfMemoryException
from tilestep.popart.exceptions import popart_exception as popart_exception
from tilestep.popart.exceptions import popart_internal_exception as popart_internal_exception
from tilestep.popart.exceptions import popart_runtime_error as popart_runtime_error
from tilestep.popart.exceptions import poplar_application_runtime_error as poplar_application_runtime_error
from tilestep.popart.exceptions import poplar_exception as poplar_exception
from tilestep.popart.exceptions import poplar_recoverable_runtime_error as poplar_recoverable_runtime_error
from tilestep.popart.exceptions import poplar_runtime_error as poplar_runtime_error
from tilestep.popart.exceptions import poplar_system_runtime_error as poplar_system_runtime_error
from tilestep.popart.exceptions import poplar_unknown_runtime_error as poplar_unknown_runtime_error
from tilestep.popart.exceptions import poplar_unrecoverable_runtime_error as poplar_unrecoverable_runtime_error
from tilestep.popart.exceptions import poplibs_exception as poplibs_exception
from tilestep.popart.groups import CommGroup as CommGroup
from tilestep.popart.groups import ReplicaGrouping as ReplicaGrouping
from tilestep.popart.log import Logger as Logger
from tilestep.popart.log import getLogger as getLogger
from tilestep.popart.names import _prefix as _prefix
from tilestep.popart.optimizers import SGD as SGD
from tilestep.popart.optimizers import ClipNormSettings as ClipNormSettings
from tilestep.popart.optimizers import ConstSGD as ConstSGD
from tilestep.popart.optimizers import Optimizer as Optimizer
from tilestep.popart.options import AccumulateOuterFragmentSettings as AccumulateOuterFragmentSettings
from tilestep.popart.options import AutodiffSettings as AutodiffSettings
from tilestep.popart.options import AutomaticLossScalingSettings as AutomaticLossScalingSettings
from tilestep.popart.options import BatchSerializationSettings as BatchSerializationSettings
from tilestep.popart.options import ExecutionPhaseSettings as ExecutionPhaseSettings
from tilestep.popart.options import ExperimentalSettings as ExperimentalSettings
from tilestep.popart.options import NumIOTiles as NumIOTiles
from tilestep.popart.options import ReplicatedCollectivesSettings as ReplicatedCollectivesSettings
from tilestep.popart.options import SessionOptions as SessionOptions
from tilestep.popart.options import TensorLocation as TensorLocation
from tilestep.popart.options import TensorLocationSettings as TensorLocationSettings
from tilestep.popart.patterns import Patterns as Patterns
from tilestep.popart.session import InferenceSession as InferenceSession
from tilestep.popart.session import TrainingSession as TrainingSession
from tilestep.popart.stepio import PyStepIO as PyStepIO
from tilestep.popart.stepio import PyStepIOCallback as PyStepIOCallback
from tilestep.popart.stepio import PyWeightsIO as PyWeightsIO
from tilestep.popart.versions import packageHash as packageHash
from tilestep.popart.versions import versionNumber as versionNumber
from tilestep.popart.versions import versionString as versionString
