"""Cycles and bytes of whole programs, exact. Each case has a derivation by hand beside it.

`pytest tests/golden --update-golden` rewrites the figures; the derivation and the CHANGELOG then say why they changed.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.tips import MACHINE, PAGE, TIPS, shown, table, text_of, with_tables
from tests.in_turn import python
from tests.processes import ROOT
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


RECORD = ROOT / "benchmarks" / "results" / "tips.json"
QUICK = ["training", "looping", "types"]  # others compile larger programs for the CPU
CHANGED = "run pytest with --update-golden, and see what it changes"


@pytest.mark.parametrize("tips", [QUICK, pytest.param([], marks=pytest.mark.slow)], ids=["quick", "all"])
def test_the_record_has_todays_emulated_cycles(update_golden: bool, tips: list[str]) -> None:
    flags = ["--emulated", *(["--tips", *tips] if tips else [])]
    today = json.loads(python(f"from benchmarks.tips import main; main({flags})", strict=False, TILESTEP_MACHINE=MACHINE).stdout)
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    if update_golden:
        for tip, ways in today.items():
            for way, cycles in ways.items():
                record["tips"][tip]["ways"][way]["emulated_cycles"] = cycles
        RECORD.write_text(text_of(record), encoding="utf-8")
        PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8"), record), encoding="utf-8")
    recorded = {
        tip: {way: kept["emulated_cycles"] for way, kept in entry["ways"].items()} for tip, entry in record["tips"].items() if tip in today
    }
    assert len(today) == len(tips or TIPS)
    assert recorded == today, CHANGED


def test_the_page_shows_the_record() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == with_tables(page, json.loads(RECORD.read_text(encoding="utf-8"))), CHANGED


def test_every_tip_has_its_place_in_the_page() -> None:
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    for tip in TIPS:
        with pytest.raises(ValueError, match=f"the page has no <!-- {tip.name} -->"):
            with_tables(PAGE.read_text(encoding="utf-8").replace(f"<!-- {tip.name} -->", ""), record)


def test_a_table_says_which_part_of_the_gain_a_way_brings() -> None:
    (tip,) = (tip for tip in TIPS if tip.name == "training")
    first, between, last = (way.name for way in tip.ways)
    cycles = {first: 1000, between: 360, last: 200}
    wall_s = {"median": 0.25, "iqr": 0.0, "n": 5}
    ways = {name: {"emulated_cycles": 1_850_000 * value, "wall_s": wall_s} for name, value in cycles.items()}
    *_, before, middle, after = table(tip, {"machine": "bow-2000", "tips": {"training": {"steps": 10, "ways": ways}}})
    assert before == f"| {first} | 100 ms | 250 ms | 0.0% |"
    assert middle == f"| {between} | 36 ms | 250 ms | 80.0% |"
    assert after == f"| {last} | 20 ms | 250 ms | 100.0% |"


def test_times_have_a_unit_and_three_figures() -> None:
    shown_times = [shown(seconds) for seconds in (0, 2e-9, 1.5e-5, 0.0213, 61.2)]
    assert shown_times == ["0", "2 ns", "15 µs", "21.3 ms", "61.2 s"]
