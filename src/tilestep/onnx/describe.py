"""What a model has and needs, as text: inputs, parameters, operators, and which operators there are here."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from onnx import defs
from rich import box
from rich.console import Console, Group
from rich.table import Table

from tilestep.messages import plain
from tilestep.onnx import ops as _ops  # registers the operators  # noqa: F401
from tilestep.onnx.function import ModelFunction
from tilestep.onnx.graph import Graph, has_body
from tilestep.onnx.registry import all_operators, find, plain_domain
from tilestep.onnx.specs import ValueSpec

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


def summary_of(model: ModelFunction, *, width: int) -> str:
    """Tables of a model. Args: width: columns."""
    console = Console(file=io.StringIO(), width=width, highlight=False, markup=False, emoji=False, color_system=None)
    console.print(Group(title_of(model), values_table(model), operators_table(model.graph)))
    return "\n".join(line.rstrip() for line in console.file.getvalue().splitlines()).rstrip("\n")  # pyrefly: ignore[missing-attribute]


def title_of(model: ModelFunction) -> str:
    """One line: name, versions, weights."""
    versions = ", ".join(f"{domain or 'ai.onnx'} {version}" for domain, version in sorted(model.opset.items()))
    parts: list[str] = []
    for what, arrays in (("parameter", model.params), ("state array", model.state)):
        if arrays:
            numbers = sum(array.size for array in arrays.values())
            parts.append(f"{len(arrays):,} {what}{'s'[: len(arrays) != 1]} of {numbers:,} numbers ({_bytes(arrays.values())})")
    return plain(f"{model.name}: {'; '.join([*parts, versions])}")


def values_table(model: ModelFunction) -> Table:
    """Inputs and outputs."""
    table = Table(box=box.SIMPLE_HEAD)
    for heading in ("", "name", "type", ""):
        table.add_column(heading, overflow="fold")
    for what, specs in (("input", model.inputs), ("output", model.outputs)):
        for spec in specs:
            table.add_row(what, plain(spec.name), plain(spec), "static: its value must be known" if _is_static(model, spec, what) else "")
    return table


def operators_table(graph: Graph) -> Table:
    """How often each operator occurs, those of functions and subgraphs counted where they stand."""
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("operator")
    table.add_column("version", justify="right")
    table.add_column("nodes", justify="right")
    for (name, version), count in sorted(Counter(operators(graph)).items(), key=lambda item: (-item[1], item[0])):
        table.add_row(plain(name), str(version), f"{count:,}")
    return table


def operators(graph: Graph) -> Iterator[tuple[str, int]]:
    """(name with its domain, version) of each node, and of those in functions and subgraphs."""
    for node in graph.nodes:
        if node.function is not None:
            yield from operators(node.function)
        else:
            yield f"{node.domain}.{node.op_type}" if node.domain else node.op_type, node.version
        for inner in node.subgraphs:
            yield from operators(inner)


def _is_static(model: ModelFunction, spec: ValueSpec, what: str) -> bool:
    return what == "input" and spec.name in model.static_inputs


def _bytes(arrays: Iterable[Any]) -> str:
    size = sum(array.nbytes for array in arrays)
    return f"{size / 1e9:,.2f} GB" if size >= 1e9 else f"{size / 1e6:,.2f} MB" if size >= 1e5 else f"{size:,} B"
