"""PopART's Python interface on tilestep: programs written for it run as they are, on any JAX device, and are priced on an emulated IPU."""

from typing import Any

try:
    import onnx as _onnx  # noqa: F401
except ImportError as error:
    raise ImportError("tilestep.popart needs the package onnx: pip install 'tilestep[onnx]'") from error

from tilestep.popart import former as _former
from tilestep.popart.builder import AiGraphcoreOpset1 as AiGraphcoreOpset1
from tilestep.popart.builder import AiOnnxMlOpset1 as AiOnnxMlOpset1
from tilestep.popart.builder import AiOnnxOpset6 as AiOnnxOpset6
from tilestep.popart.builder import AiOnnxOpset7 as AiOnnxOpset7
from tilestep.popart.builder import AiOnnxOpset8 as AiOnnxOpset8
from tilestep.popart.builder import AiOnnxOpset9 as AiOnnxOpset9
from tilestep.popart.builder import AiOnnxOpset10 as AiOnnxOpset10
from tilestep.popart.builder import AiOnnxOpset11 as AiOnnxOpset11
from tilestep.popart.builder import Builder as Builder
from tilestep.popart.builder import GraphTransformer as GraphTransformer
from tilestep.popart.builder import OpDefinition as OpDefinition
from tilestep.popart.builder import OperatorIdentifier as OperatorIdentifier
from tilestep.popart.builder import Opset as Opset
from tilestep.popart.builder import _BuilderCore as _BuilderCore  # the original's name
from tilestep.popart.builder import defaultAiGraphcoreOpset as defaultAiGraphcoreOpset
from tilestep.popart.builder import defaultAiOnnxMlOpset as defaultAiOnnxMlOpset
from tilestep.popart.builder import defaultAiOnnxOpset as defaultAiOnnxOpset
from tilestep.popart.builder import getSupportedOperations as getSupportedOperations
from tilestep.popart.builder import getSupportedOperationsDefinition as getSupportedOperationsDefinition
from tilestep.popart.builder import getUnsupportedOperations as getUnsupportedOperations
from tilestep.popart.dataflow import AnchorReturnType as AnchorReturnType
from tilestep.popart.dataflow import DataFlow as DataFlow
from tilestep.popart.devices.device_info import DeviceInfo as DeviceInfo
from tilestep.popart.devices.devices import DeviceManager as DeviceManager
from tilestep.popart.devices.devices import syncPatternFromString as syncPatternFromString
from tilestep.popart.devices.devices import syncPatternToString as syncPatternToString
from tilestep.popart.devices.versions import packageHash as packageHash
from tilestep.popart.devices.versions import versionNumber as versionNumber
from tilestep.popart.devices.versions import versionString as versionString
from tilestep.popart.diagnostics.debug import DebugContext as DebugContext
from tilestep.popart.diagnostics.debug import DebugInfo as DebugInfo
from tilestep.popart.diagnostics.debug import SourceLocation as SourceLocation
from tilestep.popart.diagnostics.debug import closePoplarDebugInfo as closePoplarDebugInfo
from tilestep.popart.diagnostics.debug import initializePoplarDebugInfo as initializePoplarDebugInfo
from tilestep.popart.diagnostics.log import Logger as Logger
from tilestep.popart.diagnostics.log import getLogger as getLogger
from tilestep.popart.enums import *  # noqa: F403
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
from tilestep.popart.names import *  # noqa: F403
from tilestep.popart.numerics import NumericsReport as NumericsReport
from tilestep.popart.optimizers import SGD as SGD
from tilestep.popart.optimizers import Adam as Adam
from tilestep.popart.optimizers import Adaptive as Adaptive
from tilestep.popart.optimizers import ClipNormSettings as ClipNormSettings
from tilestep.popart.optimizers import ConstSGD as ConstSGD
from tilestep.popart.optimizers import Optimizer as Optimizer
from tilestep.popart.optimizers import OptimizerValue as OptimizerValue
from tilestep.popart.optimizers import OptimizerValueMap as OptimizerValueMap
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
from tilestep.popart.session.proposals import ProposedStage as ProposedStage
from tilestep.popart.session.proposals import StagedOperator as StagedOperator
from tilestep.popart.session.proposals import StageProposal as StageProposal
from tilestep.popart.session.proposals import propose_stages as propose_stages
from tilestep.popart.stepio import PyStepIO as PyStepIO
from tilestep.popart.stepio import PyStepIOCallback as PyStepIOCallback
from tilestep.popart.stepio import PyWeightsIO as PyWeightsIO
from tilestep.popart.tensors import InputSettings as InputSettings
from tilestep.popart.tensors import InputShapeInfo as InputShapeInfo
from tilestep.popart.tensors import TensorInfo as TensorInfo
from tilestep.popart.variables import CommGroup as CommGroup
from tilestep.popart.variables import ReplicaGrouping as ReplicaGrouping
from tilestep.popart.variables import VariableSettings as VariableSettings


def __getattr__(name: str) -> Any:
    """Former names of the interface. Raises: AttributeError, with today's way for what has another form today."""
    if name in _former.NAMES:
        return globals()[_former.NAMES[name]]
    raise AttributeError(_former.gone(name) or f"module 'popart' has no attribute '{name}'")
