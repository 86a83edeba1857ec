"""Graphs under construction: the Builder, its operators, names and settings."""

from tilestep.popart.builder.facade import AiGraphcore as AiGraphcore
from tilestep.popart.builder.facade import AiOnnx as AiOnnx
from tilestep.popart.builder.facade import AiOnnxMl as AiOnnxMl
from tilestep.popart.builder.facade import Builder as Builder
from tilestep.popart.builder.facade import Opset as Opset
from tilestep.popart.builder.facade import _BuilderCore as _BuilderCore  # the original's name
from tilestep.popart.builder.facade import defaultAiGraphcoreOpset as defaultAiGraphcoreOpset
from tilestep.popart.builder.facade import defaultAiOnnxMlOpset as defaultAiOnnxMlOpset
from tilestep.popart.builder.facade import defaultAiOnnxOpset as defaultAiOnnxOpset
from tilestep.popart.builder.loading import load_model as load_model
from tilestep.popart.builder.opsets.graphcore_opset import AiGraphcoreOpset1 as AiGraphcoreOpset1
from tilestep.popart.builder.opsets.onnx_opsets import AiOnnxMlOpset1 as AiOnnxMlOpset1
from tilestep.popart.builder.opsets.onnx_opsets import AiOnnxOpset6 as AiOnnxOpset6
from tilestep.popart.builder.opsets.onnx_opsets import AiOnnxOpset7 as AiOnnxOpset7
from tilestep.popart.builder.opsets.onnx_opsets import AiOnnxOpset8 as AiOnnxOpset8
from tilestep.popart.builder.opsets.onnx_opsets import AiOnnxOpset9 as AiOnnxOpset9
from tilestep.popart.builder.opsets.onnx_opsets import AiOnnxOpset10 as AiOnnxOpset10
from tilestep.popart.builder.opsets.onnx_opsets import AiOnnxOpset11 as AiOnnxOpset11
from tilestep.popart.builder.opsets.supported import OpDefinition as OpDefinition
from tilestep.popart.builder.opsets.supported import OperatorIdentifier as OperatorIdentifier
from tilestep.popart.builder.opsets.supported import getSupportedOperations as getSupportedOperations
from tilestep.popart.builder.opsets.supported import getSupportedOperationsDefinition as getSupportedOperationsDefinition
from tilestep.popart.builder.opsets.supported import getUnsupportedOperations as getUnsupportedOperations
from tilestep.popart.builder.settings import ModelSettings as ModelSettings
from tilestep.popart.builder.settings import settings_of as settings_of
from tilestep.popart.builder.transformer import GraphTransformer as GraphTransformer
