"""Which operators there are here, and what they take."""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from onnx import defs

from tilestep.onnx.interpreter.registry import all_operators, find
from tilestep.popart.builder.opsets.graphcore_table import DOMAIN as GRAPHCORE
from tilestep.popart.builder.opsets.onnx_opsets import OPSETS, schemas_of
from tilestep.popart.enums import DataType

_TYPES: Final[Mapping[str, DataType]] = {
    "tensor(float)": DataType.FLOAT,
    "tensor(double)": DataType.DOUBLE,
    **{f"tensor({kind.name.lower()})": kind for kind in DataType if kind not in (DataType.FLOAT, DataType.DOUBLE, DataType.UNDEFINED)},
}
# A session compiles its model: these have results whose shapes depend on data, or texts.
_NOT_COMPILED: Final = frozenset({"Compress", "NonMaxSuppression", "NonZero", "StringNormalizer", "Unique"})


@dataclass(frozen=True)
class OperatorIdentifier:
    """An operator, in the meaning that it has since a version of its domain."""

    domain: str
    type: str
    version: int


@dataclass(frozen=True, kw_only=True)
class OpInput:
    """Attributes: supportedTensors: types; constant: whether its value must be known when the program is made."""

    name: str
    supportedTensors: tuple[DataType, ...]
    constant: bool


@dataclass(frozen=True, kw_only=True)
class OpOutput:
    """Attributes: supportedTensors: types."""

    name: str
    supportedTensors: tuple[DataType, ...]


@dataclass(frozen=True, kw_only=True)
class OpAttribute:
    """Attributes: supportedValuesRegex: a pattern of its values as text."""

    supportedValuesRegex: str


@dataclass(frozen=True, kw_only=True)
class OpDefinition:
    """What an operator takes and gives."""

    inputs: tuple[OpInput, ...]
    outputs: tuple[OpOutput, ...]
    attributes: Mapping[str, OpAttribute]


def getSupportedOperations(includeInternal: bool) -> list[OperatorIdentifier]:
    """Operators that builders have methods for and that sessions run.

    Args: includeInternal: whether to add those that only imported models can have: of later versions and other domains.
    """
    _load_operators()
    found = {_identifier(schema) for version in OPSETS for schema in schemas_of(version).values() if _runs(schema, version)}
    found |= {
        OperatorIdentifier(GRAPHCORE, name, operator.since)
        for (domain, name), (*_, operator) in all_operators().items()
        if domain == GRAPHCORE
    }
    if includeInternal:
        for (domain, name), versions in all_operators().items():
            found |= {OperatorIdentifier(domain or "ai.onnx", name, operator.since) for operator in versions}
    return sorted(found, key=lambda one: (one.domain, one.type, one.version))


def getUnsupportedOperations(opsetVersion: int) -> list[OperatorIdentifier]:
    """Operators of a version of ONNX that sessions do not run."""
    _load_operators()
    return [_identifier(schema) for schema in schemas_of(opsetVersion).values() if not _runs(schema, opsetVersion)]


def getSupportedOperationsDefinition(includeInternal: bool) -> dict[OperatorIdentifier, OpDefinition]:
    """What the supported operators take and give. Operators that ONNX has no schema of have no inputs and outputs listed."""
    return {one: _definition(one) for one in getSupportedOperations(includeInternal)}


def _load_operators() -> None:
    """Both packages register their operators when they are imported."""
    for package in ("tilestep.onnx.ops", "tilestep.popart.ops"):
        importlib.import_module(package)


def _identifier(schema: defs.OpSchema) -> OperatorIdentifier:
    return OperatorIdentifier("ai.onnx", schema.name, schema.since_version)


def _runs(schema: defs.OpSchema, version: int) -> bool:
    return schema.name not in _NOT_COMPILED and find("", schema.name, version) is not None


def _definition(one: OperatorIdentifier) -> OpDefinition:
    domain = "" if one.domain == "ai.onnx" else one.domain
    if not defs.has(one.type, one.version, domain):
        return OpDefinition(inputs=(), outputs=(), attributes={})
    schema = defs.get_schema(one.type, one.version, domain)
    operator = find(domain, one.type, one.version)
    needs = frozenset[int]() if operator is None else operator.needs
    return OpDefinition(
        inputs=tuple(
            OpInput(name=value.name, supportedTensors=_types(value), constant=position in needs)
            for position, value in enumerate(schema.inputs)
        ),
        outputs=tuple(OpOutput(name=value.name, supportedTensors=_types(value)) for value in schema.outputs),
        attributes={name: OpAttribute(supportedValuesRegex=".*") for name in sorted(schema.attributes)},
    )


def _types(value: defs.OpSchema.FormalParameter) -> tuple[DataType, ...]:
    return tuple(sorted((_TYPES[name] for name in value.types if name in _TYPES), key=int))
