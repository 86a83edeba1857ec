"""What a model is, as a text: its inputs, outputs, parameters and operators."""

import io
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from rich import box
from rich.console import Console, Group
from rich.table import Table

from tilestep.messages import plain
from tilestep.onnx.function import ModelFunction
from tilestep.onnx.interpreter.graph import Graph
from tilestep.onnx.reading.specs import ValueSpec


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
