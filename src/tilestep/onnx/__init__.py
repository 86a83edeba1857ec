"""ONNX models as plain JAX functions: to compile, differentiate, divide, pipeline, train, and price on an emulated IPU."""

try:
    import onnx as _onnx  # noqa: F401
except ImportError as error:
    raise ImportError("tilestep.onnx needs the package onnx: pip install 'tilestep[onnx]'") from error

from tilestep.onnx.errors import DynamicShapeError as DynamicShapeError
from tilestep.onnx.errors import NodeError as NodeError
from tilestep.onnx.errors import OnnxError as OnnxError
from tilestep.onnx.errors import UnsafeModelError as UnsafeModelError
from tilestep.onnx.errors import UnsupportedOpError as UnsupportedOpError
from tilestep.onnx.export import export_onnx as export_onnx
from tilestep.onnx.interpreter.registry import register_op as register_op
from tilestep.onnx.model import OnnxModel as OnnxModel
from tilestep.onnx.model import import_onnx as import_onnx
from tilestep.onnx.reading.specs import ValueSpec as ValueSpec
from tilestep.onnx.stages.layers import Layers as Layers
from tilestep.onnx.stages.stages import Stages as Stages
