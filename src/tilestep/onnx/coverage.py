"""Which of ONNX's operators are covered, in which versions: for `tilestep onnx --ops` and the documentation."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from onnx import defs

from tilestep.onnx import ops as _ops  # registers the operators  # noqa: F401
from tilestep.onnx.interpreter.graph import has_body
from tilestep.onnx.interpreter.registry import all_operators, find, plain_domain

NOT_COVERED: Final = {  # (domain, name) -> why
    ("", "ImageDecoder"): "the format of an image is no matter of a tensor program: decode it before",
}


@dataclass(frozen=True, kw_only=True)
class Coverage:
    """One operator.

    Attributes:
        domain: "" is ONNX's own.
        covered: versions in which the operator's definition changed, and that are covered.
        missing: such versions that are not.
        how: "own", or "ONNX's" where ONNX's definition by other operators is run in all versions.
        static: names of inputs whose values must be known, in the newest version.
    """

    domain: str
    name: str
    covered: tuple[int, ...]
    missing: tuple[int, ...]
    how: str
    static: tuple[str, ...]

    @property
    def versions(self) -> str:
        """The versions as a text."""
        missing = f"; not {_listed(self.missing)}" if self.missing and self.covered else "none" if self.missing else ""
        return f"{_listed(self.covered)}{missing}"


def coverage() -> list[Coverage]:
    """All operators of the installed onnx, and those that have been registered besides, by domain and name."""
    schemas: dict[tuple[str, str], list[Any]] = {}
    for schema in defs.get_all_schemas_with_history():
        schemas.setdefault((plain_domain(schema.domain), schema.name), []).append(schema)
    found = [_of_schemas(key, sorted(versions, key=lambda schema: schema.since_version)) for key, versions in schemas.items()]
    for (domain, name), operators in all_operators().items():
        if (domain, name) not in schemas:
            since = tuple(operator.since for operator in operators)
            found.append(Coverage(domain=domain, name=name, covered=since, missing=(), how="own", static=()))
    return sorted(found, key=lambda row: (row.domain, row.name))


def _of_schemas(key: tuple[str, str], schemas: Sequence[Any]) -> Coverage:
    domain, name = key
    live = [schema for schema in schemas if not schema.deprecated]
    own = {schema.since_version: find(domain, name, schema.since_version) for schema in live}
    covered = [schema for schema in live if own[schema.since_version] is not None or has_body(schema)]
    newest = own[live[-1].since_version] if live else None
    inputs = [value.name for value in live[-1].inputs] if live else []
    return Coverage(
        domain=domain,
        name=name,
        covered=tuple(schema.since_version for schema in covered),
        missing=tuple(schema.since_version for schema in live if schema not in covered),
        how="own" if any(own.values()) else "ONNX's",
        static=tuple(inputs[position] for position in sorted(newest.needs) if position < len(inputs)) if newest is not None else (),
    )


def _listed(versions: Sequence[int]) -> str:
    return ", ".join(map(str, versions))
