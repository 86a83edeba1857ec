"""View What if: the table of the command line, and sliders that `tilestep view` answers."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

import tilestep
from tests.page.conftest import OpenPage
from tests.page.pages import hold_time, text, wait_for
from tests.processes import ROOT, clean_environ
from tests.unit.figures.reader.recorded import journaled, report_of, two_stages
from tests.unit.views.page.test_server import Served, serving
from tilestep.advice import knob_table as module
from tilestep.advice.knob_table import answer, knob_table
from tilestep.advice.knobs import KNOBS
from tilestep.cli import main
from tilestep.figures.reader import Report
from tilestep.recording.call_tables import history_of
from tilestep.views.page import page_html
from tilestep.views.page.sections import what_if as section
from tilestep.views.page.server import PageServer, what_if_answer

LEAST = 0.0001  # of the time: knobs below have no bar
UNKNOWN = ("Would save less than 0.01 %: ", "Not played: ", "To play this recording takes long", "that was played")


def shown(page: Page) -> list[tuple[str, list[float]]]:
    """Each row of the table: its knob, and the exact changes."""
    return page.evaluate(
        """[...document.querySelectorAll(".tornado tbody tr")].map((each) =>
            [each.dataset.knob, [...each.querySelectorAll(".value[data-unit=share]")].map((one) => Number(one.dataset.value))])"""
    )


def test_its_rows_are_those_of_the_command_line(open_page: OpenPage, mnist_plain: Path) -> None:
    page = open_page(mnist_plain, "what-if")
    found = knob_table(history_of(tilestep.open_report(mnist_plain).tables))
    assert shown(page) == [[row.knob, list(row.changes.values())] for row in found.rows if row.effect >= LEAST]
    said = text(page)
    assert all(
        f"{row.title} ({row.knob})" in said.partition("No effect on this recording: ")[2] for row in found.rows if row.effect < LEAST
    )
    assert not any(sentence in said for sentence in (*UNKNOWN, "No effect in the runs"))
    assert page.inner_text(".answer") == answer(found)
    assert "tilestep view" in said
    assert page.locator("input[type=range]").count() == 0  # nobody would answer


def test_each_effect_is_a_share_and_the_time_that_it_is(open_page: OpenPage, mnist_plain: Path) -> None:
    page = open_page(mnist_plain, "what-if")
    whole = tilestep.open_report(mnist_plain).execution.total_cycles.total
    told = page.evaluate(
        """[...document.querySelectorAll(".turned")].map((each) =>
            [...each.querySelectorAll(".value")].map((one) => Number(one.dataset.value)))"""
    )
    assert told
    assert all(cycles == [round(abs(change) * whole)] for change, *cycles in told if change)
    matmul = page.locator("[data-knob='family.matmul']")
    assert "The time of matmul supersteps" in matmul.inner_text()
    assert "of the time" in matmul.locator("td.number").inner_text()


def test_a_long_recording_is_estimated_and_says_so(open_page: OpenPage, monkeypatch: pytest.MonkeyPatch) -> None:
    """What has no effect in the runs that were played may have one in others."""
    monkeypatch.setattr(section, "_MOST", 60_000)
    page = open_page(Report(journaled(two_stages(), runs=400)), "what-if")
    assert "(estimated from the first " in page.inner_text(".answer")
    assert "No effect in the runs that were played: " in text(page)
    assert not any(sentence in text(page) for sentence in (*UNKNOWN, "No effect on this recording"))


def test_what_was_not_played_is_unknown_and_not_without_effect(open_page: OpenPage, monkeypatch: pytest.MonkeyPatch) -> None:
    recording = Report(journaled(two_stages(), runs=4))
    monkeypatch.setattr(module, "_MOST_LONG", 10 * module.work_of(recording.history.calls))
    monkeypatch.setattr(module, "_COVERED", 1e9)  # no runs stand for others
    monkeypatch.setattr(section, "_MOST", 1)
    found = knob_table(recording.history, most=1)
    page = open_page(recording, "what-if")
    said = text(page)
    assert page.inner_text(".answer") == answer(found)
    assert all(sentence in said for sentence in UNKNOWN)
    without = said.partition("No effect on this recording: ")[2].partition(".\n")[0]
    assert not any(f"({row.knob})" in without for row in found.rows if row.unknown)
    assert all(f"({row.knob})" in said.partition("Not played: ")[2] for row in found.unplayed)
    little = said.partition("Would save less than 0.01 %: ")[2].partition(".\n")[0]
    assert all(f"({row.knob})" in little for row in found.rows if row.effect < LEAST and row.unknown)
    assert shown(page) == [[row.knob, list(row.changes.values())] for row in found.rows if row.effect >= LEAST]
    row = next(row for row in found.rows if row.effect >= LEAST and row.unknown)
    assert "unknown" in page.locator(f"[data-knob='{row.knob}']").inner_text()
    assert f"--set {found.rows[0].knob}=" in said or f"--set {row.knob}=" in said


def test_without_a_journal_it_says_why(open_page: OpenPage) -> None:
    page = open_page(report_of(two_stages()), "what-if")
    assert "this recording has no journal" in text(page)
    assert page.locator(".tornado tbody tr").count() == 0


def test_two_recordings_stand_below_each_other(open_page: OpenPage, mnist_plain: Path, pipeline: Path) -> None:
    page = open_page((mnist_plain, pipeline), "what-if")
    found = shown(page)
    assert len(found) % 2 == 0
    assert all(a[0] == b[0] for a, b in zip(found[::2], found[1::2], strict=True))
    for rows, path in ((found[::2], mnist_plain), (found[1::2], pipeline)):
        of = {row.knob: list(row.changes.values()) for row in knob_table(history_of(tilestep.open_report(path).tables)).rows}
        assert all(values == of.get(knob, []) for knob, values in rows)
    barred, said = {knob for knob, _ in found}, text(page)
    for name, path in (("A", mnist_plain), ("B", pipeline)):
        without = knob_table(history_of(tilestep.open_report(path).tables)).others["No effect on this recording"]
        told = said.partition(f"{name}: No effect on this recording: ")[2].partition(".\n")[0]
        assert {row.knob for row in without if f"({row.knob})" in told} == {row.knob for row in without} - barred


def test_bars_have_room_and_nothing_is_cut(open_page: OpenPage, mnist_plain: Path, pipeline: Path) -> None:
    page = open_page((mnist_plain, pipeline), "what-if")
    for width in (390, 1440):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        axes: list[float] = page.evaluate("[...document.querySelectorAll('.axis')].map((each) => each.clientWidth)")
        assert min(axes) >= 100, width


@pytest.fixture(scope="module")
def view(mnist_plain: Path) -> Iterator[Served]:
    """What `tilestep view` serves."""
    report = tilestep.open_report(mnist_plain)
    page = page_html(report, labels=("mnist_plain", ""), served=True)
    with serving(PageServer(page, what_if_answer({"a": report}))) as served:
        yield served


def label(knob: str) -> str:
    """How a knob's slider is called."""
    return f"{KNOBS[knob].title.removeprefix('the ')} ({knob})"


def slide(page: Page, knob: str, steps: int) -> None:
    """Moves the slider of a knob by keys."""
    page.get_by_label(label(knob)).focus()
    for _ in range(abs(steps)):
        page.keyboard.press("ArrowRight" if steps > 0 else "ArrowLeft")


def played(page: Page) -> list[float]:
    """The answer's cycles, once it stands: with the settings, and without."""
    page.wait_for_selector(".outcome .value")
    return page.evaluate("[...document.querySelectorAll('.outcome .value')].map((each) => Number(each.dataset.value))")


def test_sliders_play_the_recording_again(browser: Browser, view: Served, mnist_plain: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked: list[str] = []
    problems: list[str] = []
    page = browser.new_page()
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: problems.append(message.text))
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.clock.install()
    page.goto(f"{view.server.url}#what-if")
    wait_for(page, "what-if")
    hold_time(page)
    asked.clear()
    slide(page, "host.link", 2)
    slide(page, "host.load", -2)
    assert asked == []
    page.clock.resume()
    turned, cycles = played(page)
    assert len(asked) == 1, "once for both"
    settings = ("--set", "host.link=x2", "--set", "host.load=/2")
    assert main(["report", "what-if", str(mnist_plain), "--json", *settings]) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert (turned, cycles) == (document["turned_cycles"], document["emulated_cycles"])
    page.reload()  # the settings stand in the URL
    wait_for(page, "what-if")
    assert played(page) == [turned, cycles]
    assert page.get_by_label(label("host.link")).input_value() == "2"
    page.get_by_role("button", name="Reset").click()
    wait_for(page, "what-if")
    page.wait_for_function("() => document.querySelector('.outcome').textContent.startsWith('Move a slider')")
    assert {url.rpartition("/")[0] for url in asked} == {view.server.url.rstrip("/")}
    assert problems == []
    page.context.close()


def test_the_tip_of_a_slider_leaves_the_outcome_free(browser: Browser, view: Served) -> None:
    """Also where there is no room below the slider."""
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    page.goto(f"{view.server.url}#what-if?set=host.link%3Dx2")
    wait_for(page, "what-if")
    played(page)
    slider = page.locator("input[type=range]").first
    for room in (400, 0):
        slider.evaluate("(each, room) => scrollTo(0, each.getBoundingClientRect().bottom + scrollY + room - innerHeight)", room)
        slider.focus()
        expect(page.locator("#tip")).to_be_visible()
        assert page.locator(".outcome").inner_text().startswith("mnist_plain: ")
        assert not covers(page, "#tip", ".outcome")
        slider.blur()
    page.context.close()


def covers(page: Page, one: str, other: str) -> bool:
    """Whether one element lies over another."""
    a, b = (page.locator(each).bounding_box() for each in (one, other))
    assert a is not None
    assert b is not None
    return all(a[at] < b[at] + b[size] and b[at] < a[at] + a[size] for at, size in (("x", "width"), ("y", "height")))


@pytest.mark.process
def test_ctrl_c_ends_it_quietly_and_the_page_says_so(browser: Browser, mnist_plain: Path) -> None:
    process = subprocess.Popen(
        (sys.executable, "-m", "tilestep", "view", "--no-browser", str(mnist_plain)),
        cwd=ROOT,
        env=clean_environ() | {"PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        url, then = (process.stdout.readline().strip() for _ in range(2))
        page = browser.new_page()
        page.goto(f"{url}#what-if")
        wait_for(page, "what-if")
        assert then == "Ctrl-C ends it."
        process.send_signal(signal.SIGINT)
        assert (*process.communicate(timeout=60), process.returncode) == ("\n", "", 0)
    finally:
        process.kill()
        process.communicate()
    slide(page, "links", 1)
    page.wait_for_selector(".outcome .alert")
    assert "tilestep view does not answer: it has ended" in page.inner_text(".outcome")
    page.context.close()
