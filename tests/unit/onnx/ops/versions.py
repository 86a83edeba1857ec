"""Which versions of operators a file of handlers has to have cases for."""

import functools
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final

from onnx import defs

from tilestep.onnx.interpreter.registry import all_operators

NEWEST_OLD: Final = 11  # ONNX's own node tests hardly cover versions up to this one


def old_versions(module: str) -> set[tuple[str, int]]:
    """(operator, version) of ONNX's own domain up to NEWEST_OLD, for operators whose handlers stand in a module of tilestep.onnx.ops."""
    names = {
        name
        for (domain, name), versions in all_operators().items()
        if not domain and any(version.handler.__module__ == f"tilestep.onnx.ops.{module}" for version in versions)
    }
    return {
        (schema.name, schema.since_version)
        for schema in defs.get_all_schemas_with_history()
        if not schema.domain and schema.name in names and schema.since_version <= NEWEST_OLD and not schema.deprecated
    }


def versions(name: str) -> list[int]:
    """All old versions of an operator, and the newest one."""
    found = _every_version().get(name, [])
    return [version for version in found if version <= NEWEST_OLD or version == found[-1]]


@functools.cache
def _every_version() -> Mapping[str, list[int]]:
    found = defaultdict[str, list[int]](list)
    for schema in sorted(defs.get_all_schemas_with_history(), key=lambda schema: schema.since_version):
        if not schema.domain:
            found[schema.name].append(schema.since_version)
    return dict(found)


def takes(name: str, version: int, attribute: str) -> bool:
    """Whether a version of an operator has the attribute."""
    return attribute in defs.get_schema(name, version).attributes


def missing(module: str, cases: Iterable[tuple[str, int]]) -> set[tuple[str, int]]:
    """Old versions without a case."""
    return old_versions(module) - set(cases)
