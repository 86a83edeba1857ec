"""View What to do: what the profile says, and links to what proves it."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page

import tilestep
from tests.page.conftest import OpenPage
from tests.page.pages import rows, text, values, wait_for
from tests.unit.figures.reader.recorded import journaled, liveness, two_stages
from tilestep.advice import Finding, Gain, Line, Other, Steady, Together
from tilestep.figures.reader import Report
from tilestep.recording.tables import json_text
from tilestep.views.page.terms import TERMS


def documents(report: Report) -> list[dict[str, Any]]:
    """The findings of a recording's profile."""
    profile: Any = json_text(report.tables, "profile")
    return profile["findings"]


def entries(page: Page, within: str = "#main") -> list[dict[str, Any]]:
    """The view's findings: their number, title, sentences, gains and links."""
    return page.evaluate(
        """within => [...document.querySelectorAll(`${within} .findings > li`)].map((each) => ({
            number: each.value,
            title: each.querySelector("h3").textContent,
            said: [...each.querySelectorAll("p")].map((one) => one.textContent),
            gains: [...each.querySelectorAll(".gain .value")].map((one) => Number(one.dataset.value)),
            links: [...each.querySelectorAll("a")].map((one) => one.getAttribute("href")) }))""",
        within,
    )


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["mnist_plain", "mnist_classifier", "pipeline"])
def test_findings_are_those_of_the_profile(open_page: OpenPage, request: pytest.FixtureRequest, name: str) -> None:
    path: Path = request.getfixturevalue(name)
    page, found = open_page(path, "findings"), documents(tilestep.open_report(path))
    shown = entries(page)
    assert [each["number"] for each in shown] == [*range(1, len(found) + 1)]
    assert [each["title"] for each in shown] == [each["edit"] or each["text"] for each in found]
    for each, finding in zip(shown, found, strict=True):
        assert finding["text"] in [each["title"], *each["said"]]
        names = [*(("step_share", "step_cycles") if (finding["gain_step_share"] or 0) > 0 else ()), "share", "cycles"]
        told = finding["how"] is not None and finding["kind"] != "set-up"
        assert each["gains"] == [finding[f"gain_{name}"] for name in names if told]


@pytest.mark.slow
def test_the_steady_state_and_the_programs_are_those_of_the_recording(open_page: OpenPage, mnist_plain: Path) -> None:
    report = tilestep.open_report(mnist_plain)
    page = open_page(mnist_plain, "findings")
    profile: Any = json_text(report.tables, "profile")
    steady = profile["steady"]
    assert [each["value"] for each in values(page, ".steady")] == [
        *(steady[name] for name in ("step_cycles", "low_cycles", "high_cycles", "set_up_cycles")),
        *(round(steady["items_a_second"]), steady["samples"], steady["steps"]),
    ]
    assert page.inner_text(".steady").endswith(". A step is a run of jit_update (128 items); 22 ran.")
    [row] = report.programs
    assert rows(page, "programs") == [[row.name, row.runs, row.loads, row.total.cycles, row.total.by_kind["load"], row.peak_tile_bytes]]
    kinds = {each["value"] for each in values(page, ".bar-table") if each["unit"] == "cycles"}
    assert kinds == {cycles for cycles in [*report.execution.total_cycles.by_kind.values(), profile["cycles_by_kind"]["idle"]] if cycles}
    assert all(sentence in text(page) for sentence in profile["assumptions"])
    assert "see Operations of this line" in text(page)


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["mnist_plain", pytest.param("mnist_classifier", marks=pytest.mark.slow), "pipeline"])
def test_links_lead_to_what_they_name(open_page: OpenPage, request: pytest.FixtureRequest, name: str) -> None:
    path: Path = request.getfixturevalue(name)
    page = open_page(path, "findings")
    for count, finding in enumerate(documents(tilestep.open_report(path))):
        *lines, proof = page.locator(".findings > li").nth(count).locator("a").all()
        for link in lines[:1]:
            link.click()
            wait_for(page, "source")
            marked = page.locator(".code-row[aria-selected=true]").first
            assert str(finding["line"]["line"]) in marked.inner_text()
            page.go_back()
            wait_for(page, "findings")
        proof.click()
        view = page.evaluate("location.hash").split("?")[0][1:]
        wait_for(page, view)
        assert page.query_selector_all(".alert") == []
        if view == "operations":
            assert rows(page, page.evaluate("document.querySelector('#main .scroller').ariaLabel"))
        page.go_back()
        wait_for(page, "findings")


TIP = "() => [document.activeElement.textContent, document.getElementById('tip').textContent.split('\\n')]"


def test_what_is_explained_alone_names_no_keys(open_page: OpenPage) -> None:
    page = open_page(said(Finding(kind="memory", text="The sync is long.", edit="do less")), "findings")
    page.focus(".findings dfn")
    assert len(page.evaluate(TIP)[1]) == 1


@pytest.mark.parametrize(
    "told", [{"samples": 512}, {"samples": None, "others": True, "between_share": 0.75}, {"samples": 512, "reloads": True}]
)
def test_a_warm_step_is_told_as_the_summary_tells_it(open_page: OpenPage, told: dict[str, Any]) -> None:
    steady = Steady(label="program group 'train'", unit="step", key=1, steps=9, step_cycles=1_330_000, set_up_cycles=1_330_000_000, **told)
    report = said(steady=steady)
    page = open_page(report, "findings")
    shown = re.sub(r"[\d.,]+ ", "# ", page.inner_text(".steady"))
    assert shown == re.sub(r"[\d.,]+ ", "# ", steady.text(1e6))
    page.focus(".steady .value")
    page.keyboard.press("ArrowRight")
    assert page.evaluate(TIP)[1][-1] == "← → to the others here"


def said(*findings: Finding, together: Together | None = None, steady: Steady | None = None) -> Report:
    """A recording with these findings."""
    profile = {
        "steady": None if steady is None else steady.as_document(1e6),
        "findings": [finding.as_document() for finding in findings],
        "together": None if together is None else together.as_document(),
    }
    return Report(journaled(two_stages(), profile=profile, detail=liveness()))


@pytest.mark.slow
def test_a_finding_about_memory_leads_to_its_program(open_page: OpenPage) -> None:
    gain = Gain(tile_bytes=32, how="about", basis="as planned")
    full = Finding(kind="memory", text="two_stages does not fit.", edit="recompute h", gain=gain, urgent=True)
    page = open_page(said(full), "findings")
    [shown] = entries(page)
    assert shown["gains"] == [32]
    assert "on the fullest tile (as planned)" in shown["said"][0]
    prefix = "getComputedStyle(document.querySelector('.urgent h3'), '::before').content"
    assert page.evaluate(prefix) == '"does not fit: "'
    assert open_page(said(replace(full, edit="")), "findings").evaluate(prefix) == "none", "its text says so"
    assert shown["links"][-1] == "#memory?program=0"
    page.get_by_text("see Memory").click()
    wait_for(page, "memory")
    assert "First, recompute h. Without " in page.inner_text(".frees"), "the same advice, and not another one"


def test_a_gain_that_is_known_of_a_warm_step_alone_says_nothing_of_all(open_page: OpenPage) -> None:
    gain = Gain(step_cycles=40, step_share=0.25, warm_only=True, how="about")
    cut = Finding(kind="pipeline", text="Stage 1 is long.", edit="cut it", gain=gain)
    [shown] = entries(open_page(said(cut, together=Together(gain=gain, numbers=(1,))), "findings"))
    assert shown["gains"] == [0.25, 40]
    assert "of all" not in shown["said"][0]


def test_what_counts_behind_others_alone_saves_nothing_by_itself(open_page: OpenPage) -> None:
    gain = Gain(how="within 2 %", after=(1,), after_share=0.25)
    first = Finding(kind="loads", text="f is loaded often.", edit="join it", gain=Gain(cycles=50, share=0.5, how="replayed"))
    _, shown = entries(open_page(said(first, Finding(kind="donation", text="w comes again.", edit="donate w", gain=gain)), "findings"))
    assert shown["said"][0] == str(gain) == "saves nothing by itself; after 1: 25 % of the time that is left"


def test_a_finding_of_several_lines_has_all(open_page: OpenPage) -> None:
    lines = [Line(file="/home/me/train.py", number=number) for number in (3, 9)]
    finding = Finding(kind="halves", text="t", edit="use halves", line=lines[0], shares=((lines[0], 0.75), (lines[1], 0.25)))
    page = open_page(said(finding, replace(finding, text="of one line", shares=((lines[0], 1.0),))), "findings")
    assert page.locator(".others li").all_inner_texts() == ["train.py:3 75 %", "train.py:9 25 %"]  # one line stands below anyway
    assert "train.py:3 and 1 other line" in page.inner_text(".findings")


@pytest.mark.slow
def test_where_nothing_is_to_be_done_it_says_so(open_page: OpenPage, empty: Path, out_of_memory: Path) -> None:
    page = open_page(said(), "findings")
    assert "No change is known that would make it faster" in text(page)
    page = open_page(empty, "findings")
    assert "Nothing ran." in text(page)
    assert "Nothing ran." not in text(open_page(out_of_memory, "findings"))


def test_a_program_that_did_not_fit_is_the_first_finding(open_page: OpenPage, out_of_memory: Path) -> None:
    page = open_page(out_of_memory, "findings")
    [shown] = entries(page)
    [program] = tilestep.open_report(out_of_memory).compilation.programs
    over = program.planned.memory.peak_bytes - 638_976
    assert "jit_product does not fit, so it never ran: tile 0 needs 3.25 MiB" in shown["said"][1]
    assert f"{over:,} B too many" in shown["said"][1]
    assert "(out_of_memory.py:8)" in shown["said"][1]
    assert "None of them is enough by itself" in shown["said"][1]
    assert shown["links"][-1].startswith("#memory?program=0")
    folder = out_of_memory if out_of_memory.is_dir() else out_of_memory.parent
    told = " ".join((folder / "summary.txt").read_text(encoding="utf-8").split())
    verdict = f"does not fit: jit_product needs 3.25 MiB of the 624 KiB of tile 0 of IPU 0 (533 %, {over:,} B too many), so it never ran"
    assert told.startswith(f"tilestep: {verdict} Nothing ran on bow-2000")
    assert page.locator(".fits").inner_text().strip() == f"{verdict}."
    assert shown["said"][1] in told


def test_the_first_three_stand_out_with_what_all_save_together(open_page: OpenPage) -> None:
    found = [Finding(kind="donation", text="t", edit=f"edit {n}", gain=Gain(share=0.1, cycles=10, how="about")) for n in range(6)]
    fixed = Finding(kind="fixed", text="a program is loaded once")
    unknown = Finding(kind="loads", text="they take turns", unknown="nobody counts them")
    together = Together(
        gain=Gain(share=0.25, cycles=25, how="about"), numbers=(1, 2, 3), left=(4, 5, 6), why=("saves nothing", "not played", "same line")
    )
    page = open_page(said(*found, unknown, fixed, together=together), "findings")
    assert page.locator(".findings > li.card").count() == 3
    told = page.inner_text(".together")
    assert told.startswith("With 1 to 3 all done: saves about 25 % of the time")
    assert (
        "Not in it: 4, which saves nothing beside them. Not in it: 5, which cannot be played with them. Not in it: 6, another edit" in told
    )
    assert "What that saves is not known: nobody counts them." in text(page)
    assert page.locator("h2").all_inner_texts()[:2] == ["First of all", "Fixed costs"]
    tip = page.locator("h2 dfn", has_text="Fixed costs").get_attribute("data-tip")
    assert tip == f"Fixed costs: {TERMS['fixed costs']}"  # not the fixed cost of a superstep
    assert page.locator(".gain-bar").count() == 6
    page = open_page(said(found[0]), "findings")
    assert page.locator(".together").count() == 0
    assert "Fixed costs" not in text(page)


@pytest.mark.slow
def test_other_edits_for_the_same_come_below_with_what_each_saves(open_page: OpenPage) -> None:
    others = (Other(edit="send x as float16", gain=Gain(share=0.05, cycles=5, how="about", basis="with half of the bytes")),)
    page = open_page(
        said(Finding(kind="streaming", text="t", edit="loop", gain=Gain(share=0.1, cycles=10, how="about"), others=others)), "findings"
    )
    assert page.locator(".ways li").all_inner_texts() == [
        "or send x as float16: saves about 5.0 % of the time, 5.00 µs (with half of the bytes)"
    ]
