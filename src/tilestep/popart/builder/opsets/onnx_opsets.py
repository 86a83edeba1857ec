"""Operators of ONNX's versions 6 to 11, as methods that are made from ONNX's schemas.

Parameters are `args`, if the operator has inputs; `num_outputs`, if its number of outputs varies; attributes that are required, by name;
the others, by name; and `debugContext`. `auto_pad` is never a parameter. Constant takes an array, and from version 11 on `is_value_sparse`.
"""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import onnx
from onnx import defs

from tilestep.popart.builder.graph.model import AttributeValue, GraphModel
from tilestep.popart.builder.graph.nodes import BuilderOperator, Check, Opset, add_operator
from tilestep.popart.builder.opsets.signatures import (
    ARRAY,
    BOOL,
    DEBUG,
    DEBUG_CONTEXT,
    FLOAT,
    FLOATS,
    IDS,
    INT,
    INTS,
    REQUIRED,
    STR,
    STRS,
    ArgumentKind,
    SignatureParameter,
    optional,
    overloaded,
)
from tilestep.popart.builder.opsets.subgraphs import SUBGRAPH, embedded
from tilestep.popart.builder.opsets.windows import check_conv, check_pad, check_pool
from tilestep.popart.exceptions import popart_exception
from tilestep.popart.tensors import data_type_of, onnx_number

VERSIONS: Final = (6, 7, 8, 9, 10, 11)
DEFAULT_VERSION: Final = 10
_KEYWORDS: Final = frozenset({"and", "or", "not", "xor", "if"})
_UNBOUNDED: Final = (1 << 31) - 1  # as schemas write it
_OMITTED: Final = frozenset({"auto_pad"})
_CHECKS: Final[Mapping[str, Check]] = {"AveragePool": check_pool, "Conv": check_conv, "MaxPool": check_pool}
_Type: Final = defs.OpSchema.AttrType
_KINDS: Final[Mapping[Any, ArgumentKind]] = {
    _Type.INT: INT,
    _Type.INTS: INTS,
    _Type.FLOAT: FLOAT,
    _Type.FLOATS: FLOATS,
    _Type.STRING: STR,
    _Type.STRINGS: STRS,
    _Type.GRAPH: SUBGRAPH,
    _Type.TENSOR: ARRAY,
    _Type.SPARSE_TENSOR: ARRAY,
}
_LISTS: Final = (_Type.INTS, _Type.FLOATS, _Type.STRINGS)


def method_name(operator: str) -> str:
    """The name of an operator's method: in lower case, with "logical_" before words that C++ keeps for itself."""
    name = operator.lower()
    return f"logical_{name}" if name in _KEYWORDS else name


def schemas_of(version: int) -> dict[str, defs.OpSchema]:
    """The schema of each operator in a version of ONNX, by its method's name. Operators that are deprecated are among them."""
    newest: dict[str, defs.OpSchema] = {}
    for schema in defs.get_all_schemas_with_history():
        if schema.domain == "" and schema.since_version <= version:
            known = newest.get(schema.name)
            if known is None or known.since_version < schema.since_version:
                newest[schema.name] = schema
    return {method_name(name): newest[name] for name in sorted(newest)}


def parameters_of(schema: defs.OpSchema) -> tuple[SignatureParameter, ...]:
    """The parameters of an operator's method."""
    parameters: list[SignatureParameter] = []
    if schema.max_input > 0:
        parameters.append(SignatureParameter("args", IDS))
    if schema.min_output != schema.max_output:
        parameters.append(SignatureParameter("num_outputs", INT))
    if schema.name == "Constant":
        parameters.append(SignatureParameter("value", ARRAY))
        if schema.since_version >= 11:
            parameters.append(SignatureParameter("is_value_sparse", BOOL, False))
        return (*parameters, DEBUG_CONTEXT)
    attributes = [_parameter(schema, schema.attributes[name]) for name in sorted(schema.attributes) if name not in _OMITTED]
    parameters += [one for one in attributes if one.default is REQUIRED]
    parameters += [one for one in attributes if one.default is not REQUIRED]
    return (*parameters, DEBUG_CONTEXT)


def _parameter(schema: defs.OpSchema, attribute: defs.OpSchema.Attribute) -> SignatureParameter:
    kind = STR if schema.name == "Cast" else _KINDS[attribute.type]
    tensor = attribute.type in (_Type.TENSOR, _Type.SPARSE_TENSOR)
    if attribute.required or tensor:
        return SignatureParameter(attribute.name, kind)
    default = _default(schema, attribute)
    return SignatureParameter(attribute.name, optional(kind) if default is None else kind, default)


def _default(schema: defs.OpSchema, attribute: defs.OpSchema.Attribute) -> Any:
    if attribute.type in _LISTS:
        is_axes = attribute.name == "axes" and "reduce" in schema.name.lower()
        return None if is_axes else []
    value = attribute.default_value
    if value.type == onnx.AttributeProto.INT:
        return value.i
    if value.type == onnx.AttributeProto.FLOAT:
        return float(np.format_float_scientific(np.float32(value.f)))  # the shortest number that gives this float
    if value.type == onnx.AttributeProto.STRING:
        return value.s.decode()
    return None


def attributes_of(schema: defs.OpSchema, values: Mapping[str, Any]) -> dict[str, AttributeValue]:
    """The attributes that a node gets.

    Integers with a default are always written; other attributes with a default, only if they differ from it; lists, if they are not empty.

    Args: values: of the method's parameters.
    Raises: popart_exception for a sparse constant, and a Cast to an unknown type.
    """
    if schema.name == "Constant":
        if values.get("is_value_sparse"):
            raise popart_exception("Attributes of type `sparse_tensor' are currently not supported.")
        return {"value": values["value"]}
    written: dict[str, AttributeValue] = {}
    for parameter in parameters_of(schema):
        name = parameter.name
        if name not in schema.attributes:
            continue
        value, attribute = values[name], schema.attributes[name]
        if schema.name == "Cast":
            written[name] = onnx_number(data_type_of(value))
        elif attribute.type == _Type.GRAPH:
            written[name] = value
        elif parameter.default is REQUIRED or attribute.type == _Type.INT or isinstance(value, np.ndarray):
            if value is not None:
                written[name] = value
        elif value is not None and not _is_default(value, parameter.default):
            written[name] = value
    return written


def _is_default(value: Any, default: Any) -> bool:
    if isinstance(value, float):
        return default is not None and np.float32(value) == np.float32(default)
    return bool(value == default)


def operator_of(schema: defs.OpSchema) -> BuilderOperator:
    """The operator of a schema."""
    most = -1 if schema.max_input == _UNBOUNDED else schema.max_input
    outputs = 0 if schema.max_output == _UNBOUNDED else schema.max_output
    is_resize = schema.name == "Resize" and schema.since_version == 11  # takes `scales` or `sizes`, which is the fourth input
    may_lack = (2,) if is_resize else ()
    return BuilderOperator(domain="ai.onnx", name=schema.name, inputs=(schema.min_input, most), outputs=outputs, may_lack=may_lack)


def _method(name: str, schema: defs.OpSchema, version: int) -> Any:
    operator = operator_of(schema)
    check = check_pad if schema.name == "Pad" and version < 11 else _CHECKS.get(schema.name)
    many = schema.max_output > 1
    varies = schema.min_output != schema.max_output

    def run(self: Opset, **values: Any) -> Any:
        if any(isinstance(value, GraphModel) for value in values.values()):
            self.model.use_opset("ai.onnx", version)  # before versions of the inner graphs are adopted
        attributes = attributes_of(schema, {name: embedded(self.model, value) for name, value in values.items()})
        ids = add_operator(
            self.model,
            operator,
            version,
            values.get("args", []),
            attributes,
            name=values.get("debugContext") or values.get("name", ""),
            outputs=values["num_outputs"] if varies else None,
            check=check,
        )
        return ids if many else ids[0]

    overloads = [parameters_of(schema)]
    if schema.name == "If":  # the original's Python layer calls its debug context `name`
        overloads.append((*overloads[0][:-1], SignatureParameter("name", DEBUG, "")))
    returns = "List[str]" if many else "str"
    return overloaded(*overloads, returns=returns, name=name, owner=f"AiOnnxOpset{version}", doc=_doc(schema))(run)


def _doc(schema: defs.OpSchema) -> str:
    link = f"https://github.com/onnx/onnx/blob/main/docs/Changelog.md#{schema.name}-{schema.since_version}"
    returns = "Returns: the outputs' ids." if schema.max_output > 1 else "Returns: the output's id."
    return f"Adds operator {schema.name} of ONNX, in the meaning that it has since version {schema.since_version}: {link}\n\n{returns}"


def opset_class(version: int) -> type[Opset]:
    """The class of a version's operators, such as AiOnnxOpset10. Its `operators` are the schema of each method."""
    operators = schemas_of(version)
    members: dict[str, Any] = {name: _method(name, schema, version) for name, schema in operators.items()}
    members |= {"version": version, "operators": operators, "__doc__": f"Operators of version {version} of ONNX."}
    return type(f"AiOnnxOpset{version}", (Opset,), members)


AiOnnxOpset6 = opset_class(6)
AiOnnxOpset7 = opset_class(7)
AiOnnxOpset8 = opset_class(8)
AiOnnxOpset9 = opset_class(9)
AiOnnxOpset10 = opset_class(10)
AiOnnxOpset11 = opset_class(11)


class AiOnnxMlOpset1(Opset):
    """Operators of ai.onnx.ml's version 1: the original's builder has none."""

    version = 1


OPSETS: Final[Mapping[int, type[Opset]]] = dict(
    zip(VERSIONS, (AiOnnxOpset6, AiOnnxOpset7, AiOnnxOpset8, AiOnnxOpset9, AiOnnxOpset10, AiOnnxOpset11), strict=True)
)
