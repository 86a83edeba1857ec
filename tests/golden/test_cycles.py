"""Cycles and bytes of whole programs, exact. Each case has a derivation by hand beside it.

`pytest tests/golden --update-golden` rewrites the figures; the derivation and the CHANGELOG then say why they changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tilestep.machine import load_machine
from tilestep.plan import Branch, Collective, HostCall, Loop, Program, Series, Superstep, lower
from tilestep.plan.steps import Node
from tilestep.program import parse_hlo

CASES = sorted(path.parent for path in Path(__file__).parent.glob("*/machine.toml"))


def rows(node: Node, indent: str = "") -> Iterator[str]:
    match node:
        case Series(nodes=nodes):
            for inner in nodes:
                yield from rows(inner, indent)
        case Loop(name=name, trips=trips, body=body):
            yield f"{indent}loop {name} x {trips}"
            yield from rows(body, indent + "  ")
        case Branch(name=name, arms=arms):
            for number, arm in enumerate(arms):
                yield f"{indent}branch {name} arm {number}"
                yield from rows(arm, indent + "  ")
        case Superstep():
            yield (
                f"{indent}{node.name:<20} {node.family:<12} compute {node.compute_cycles:>5}  exchange {node.exchange_cycles:>4}  "
                f"sync {node.sync_cycles:>5}  flops {node.flops:>6}  temporary {node.temporary_tile_bytes:>4} B"
            )
        case Collective():
            yield f"{indent}{node.name:<20} {node.kind} {node.size_bytes} B of {node.groups}"
        case HostCall():
            yield f"{indent}{node.name:<20} host  {node.bytes_to_host} B out  {node.bytes_from_host} B in"


def render(program: Program) -> str:
    memory = program.memory
    lines = [
        *rows(program.body),
        "",
        f"resident {memory.resident_bytes} B  transient {memory.transient_bytes} B  code {memory.code_bytes} B  peak {memory.peak_bytes} B",
        f"peak at {memory.peak_step}",
        *(f"  {size:>6} B  {what}" for what, size in memory.largest),
    ]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("folder", CASES, ids=lambda folder: folder.name)
def test_cycles_are_the_derived_ones(folder: Path, update_golden: bool) -> None:
    module = parse_hlo((folder / "program.hlo").read_text(encoding="utf-8"))
    found = render(lower(module, load_machine(str(folder / "machine.toml")), name=folder.name, num_ipus=1))
    expected = folder / "expected.txt"
    if update_golden:
        expected.write_text(found, encoding="utf-8")
    assert found == expected.read_text(encoding="utf-8")


@pytest.mark.parametrize("folder", CASES, ids=lambda folder: folder.name)
def test_the_derivation_ends_at_the_same_cycles(folder: Path) -> None:
    """Every compute, exchange and sync figure stands in the derivation, step by step."""
    derivation = (folder / "DERIVATION.md").read_text(encoding="utf-8")
    for line in (folder / "expected.txt").read_text(encoding="utf-8").split("\n\n")[0].splitlines():
        name, _, _, compute, _, exchange, _, sync, *_ = line.split()
        assert f"**{name}: compute {compute}, exchange {exchange}, sync {sync}**" in derivation
