"""View Operations: the table against the rows of its steps, and what limits an operation."""

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.page.conftest import OpenPage
from tests.page.pages import rows, text, values, wait_for
from tests.unit.figures.reader.recorded import report_of, step
from tests.unit.sim.toy import collective, program
from tilestep.figures.reader import OnTileExecute, Report, open_report
from tilestep.figures.reader.programs.totals import leaf_totals
from tilestep.figures.rows import step_rows
from tilestep.plan.steps import HostCall


def table(page: object) -> list[dict[str, object]]:
    """The rows by the names of their columns."""
    heads = page.locator("[role=region][aria-label=operations] th").all_inner_texts()  # type: ignore[attr-defined]
    names = [head.split(" ▼")[0].split(" ▲")[0].strip() for head in heads]
    return [dict(zip(names, row, strict=True)) for row in rows(page, "operations")]  # type: ignore[arg-type]


def of_kind(report: Report, key: str) -> Counter[str]:
    """Cycles by line, scope or family, as `step_rows` has them."""
    found: Counter[str] = Counter()
    for row in step_rows(report):
        found[getattr(row, key)] += row.cycles
    return found


@pytest.mark.slow
def test_a_row_is_a_step_with_the_readers_figures(open_page: OpenPage, mnist_plain: Path) -> None:
    report = open_report(mnist_plain)
    [compiled] = report.compilation.programs
    theirs = {}
    clock = report.target.clock_hz
    for total in leaf_totals(compiled):
        flops = total.leaf.superstep.flops if isinstance(total.leaf, OnTileExecute) else 0
        moved = total.leaf.superstep.exchange_bytes if isinstance(total.leaf, OnTileExecute) else 0
        cycles = total.cycles
        rate = flops * total.executions * clock / cycles.total if flops else None
        theirs[total.leaf.name] = (
            cycles.total,
            cycles.compute,
            cycles.exchange,
            cycles.sync,
            total.executions,
            flops * total.executions,
            moved * total.executions,
            rate,
        )
    shown = table(open_page(mnist_plain, "operations", group="none"))
    names = ("time", "compute", "exchange", "sync", "executions", "flop", "exchange bytes", "flop/s")
    mine = {row["step"]: tuple(row[name] for name in names) for row in shown}
    assert mine.keys() == theirs.keys()
    for name, (*figures, rate) in theirs.items():
        assert list(mine[name][:-1]) == figures
        assert mine[name][-1] == (None if rate is None else pytest.approx(rate, rel=1e-12))


@pytest.mark.slow
def test_part_of_the_peak_is_of_the_machines_field(open_page: OpenPage, mnist_plain: Path) -> None:
    ipu = open_report(mnist_plain).target.machine.ipu
    peak = 2 * ipu.macs_per_cycle_float * ipu.num_tiles * ipu.clock_hz
    for row in table(open_page(mnist_plain, "operations", group="none")):
        if row["family"] == "matmul":
            assert row["of peak"] == pytest.approx(float(str(row["flop/s"])) / peak, rel=1e-12)


def test_rows_are_lines_at_first_and_a_line_leads_to_its_steps_and_its_source(open_page: OpenPage, mnist_plain: Path) -> None:
    page = open_page(mnist_plain, "operations", width=1366, height=768)
    lines = of_kind(open_report(mnist_plain), "line")
    assert {row["line"]: row["time"] for row in table(page)} == dict(lines)
    seen = page.locator("[role=region][aria-label=operations]").bounding_box()
    flop = page.get_by_role("columnheader", name="flop", exact=True).bounding_box()
    assert seen is not None
    assert flop is not None
    assert flop["x"] + flop["width"] <= seen["x"] + seen["width"]
    [(line, cycles)] = lines.most_common(1)
    verdict = page.locator(".verdict")
    assert verdict.inner_text().startswith(line)
    assert verdict.get_by_role("link", name="in the source").count() == 1
    verdict.get_by_role("link", name=re.compile(r"^see its \d+ steps$")).click()
    wait_for(page, "operations")
    expect(page.get_by_label("grouped by")).to_have_value("none")
    steps = table(page)
    assert len(steps) > 1
    assert sum(float(str(row["time"])) for row in steps) == cycles


def test_its_first_line_says_where_the_time_goes(open_page: OpenPage) -> None:
    took = dict(zip("abcde", (10, 50, 20, 5, 15), strict=True))
    steps = [replace(step(family, "jit(f)/dot", cycles), family=family) for family, cycles in took.items()]
    page = open_page(report_of(program(*steps)), "operations")
    assert [each["value"] for each in values(page, ".answer")] == [100, 0.5, 0.2, 0.15, 0.1]
    said = page.inner_text(".answer")
    assert said.startswith("All steps take ")
    assert "By family: b 50 %, c 20 %, e 15 %, a 10 % and others." in said


LIMITS = {
    "compute": step("s", "jit(f)/s", 50, 30, 20),
    "exchange": step("s", "jit(f)/s", 30, 50, 20),
    "sync": step("s", "jit(f)/s", 20, 30, 50),
}


@pytest.mark.parametrize("limit", list(LIMITS))
def test_the_sentence_names_what_takes_most_cycles(open_page: OpenPage, limit: str) -> None:
    page = open_page(report_of(program(LIMITS[limit])), "operations", group="none")
    assert page.locator(".operation-table td").first.inner_text() == "s"
    sentence = page.locator(".verdict")
    found = sentence.get_attribute("data-limit")
    assert found == limit or (limit == "sync" and found in ("sync", "overhead"))
    if found == limit:
        assert sentence.get_attribute("data-cycles") == "50"
        assert "50 %" in sentence.inner_text()


@pytest.mark.slow
def test_exchange_between_ipus_and_transfers_are_named(open_page: OpenPage) -> None:
    reduce = collective("all-reduce", 40_000, ((0, 1),))
    call = HostCall(name="call", scope="jit(f)/callback", bytes_to_host=70_000, bytes_from_host=3)
    report = report_of(program(reduce, call, num_ipus=2))
    page = open_page(report, "operations", group="none", family="all-reduce")
    assert page.locator(".verdict").get_attribute("data-limit") == "collective"
    assert page.locator(".verdict").inner_text().startswith("all-reduce")
    assert "Exchange between IPUs limits it: " in page.locator(".verdict").inner_text()
    page = open_page(report, "operations", group="none", family="host call")
    assert "Transfers to and from the host limit it: " in page.locator(".verdict").inner_text()


@pytest.mark.slow
def test_filters_leave_the_rows_that_match(open_page: OpenPage, mnist_plain: Path) -> None:
    page = open_page(mnist_plain, "operations", group="none", family="matmul")
    assert {row["family"] for row in table(page)} == {"matmul"}
    page.get_by_label("search in the operations").fill("transpose dot")
    assert table(page)
    assert all("transpose" in str(row["operation"]) for row in table(page))
    page.get_by_label("search in the operations").fill("no such thing")
    assert "No operation is left" in text(page)


def test_nothing_that_ran_is_said(open_page: OpenPage, empty: Path) -> None:
    assert "no programs" in text(open_page(empty, "operations"))
