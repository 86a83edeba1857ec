"""View System: the wall clock of the reader, by keys alone too."""

from __future__ import annotations

from pathlib import Path

from tests.page.conftest import OpenPage
from tests.page.pages import address, rows, text
from tests.unit.figures.reader.test_system import job
from tilestep.figures.reader import Report, open_report
from tilestep.recording.merge import merged


def test_the_call_tree_is_the_readers_spans_by_path(open_page: OpenPage, host_only: Path) -> None:
    page = open_page(host_only, "system", tree="all")
    events = open_report(host_only).system.events
    wanted = sum(event.duration_ns for event in events if event.label == "inner")
    found = [row for row in rows(page, "call tree") if row[0] == "inner"]
    assert sum(row[3] for row in found) == wanted
    assert sum(row[2] for row in found) == sum(event.label == "inner" for event in events)
    summed = [row for row in rows(page, "spans by channel and label") if row[1] == "inner"]
    assert [row[3] for row in summed] == [wanted]


def test_rows_of_the_tree_open(open_page: OpenPage, host_only: Path) -> None:
    page = open_page(host_only, "system")
    before = [row[0] for row in rows(page, "call tree")]
    assert "inner" not in before
    page.locator('#main .scroller[aria-label="call tree"] tr', has_text="reader 0").get_by_role("button").click()
    assert [row[0] for row in rows(page, "call tree")].count("inner") == 1


def test_lines_and_heat_maps_have_the_readers_values(open_page: OpenPage, host_only: Path) -> None:
    page = open_page(host_only, "system")
    report = open_report(host_only).system
    for figure in page.locator("#main figure").all():
        figure.get_by_role("button", name="Show as table").click()
    (line,), (heat,) = report.series, report.heat_maps
    assert [row[1] for row in rows(page, "done")] == line.values.tolist()
    assert sum(row[2] for row in rows(page, "sizes")) == int(heat.counts.sum())


def test_search_and_channels_stand_in_the_url(open_page: OpenPage, host_only: Path) -> None:
    page = open_page(host_only, "system")
    page.get_by_label("search for spans").fill("inner")
    assert "spans match" in text(page)
    assert "find=inner" in address(page)
    button = page.locator("#main button.channel").first
    button.click()
    assert button.get_attribute("aria-pressed") == "false"
    assert "channels=" in address(page)


def test_keys_go_from_span_to_span(open_page: OpenPage, host_only: Path) -> None:
    page = open_page(host_only, "system")
    page.locator("#main figure > canvas").first.focus()
    page.keyboard.press("ArrowDown")
    assert "channel" in page.locator("#main figure .live").first.inner_text()
    page.keyboard.press("w")
    page.wait_for_function("() => location.hash.includes('wall=')")


def test_two_traces_are_joined_by_path(open_page: OpenPage, host_only: Path) -> None:
    page = open_page([host_only, host_only], "system", tree="all")
    for row in rows(page, "call tree"):
        assert row[2] == row[3]
        assert row[4] == 0
        assert row[10] == 0


def test_a_recording_without_a_trace_says_how_to_make_one(open_page: OpenPage, mnist_plain: Path) -> None:
    page = open_page(mnist_plain, "system")
    assert "PVTI_OPTIONS" in text(page)
    assert "tilestep.tracepoint" in text(page)


def test_processes_of_a_job_say_by_which_clock_they_stand(open_page: OpenPage, host_only: Path) -> None:
    words = "processes stand on one axis by the wall clocks of their hosts"
    report = Report(merged([job(5000, 11).tables(), job(5900, 22).tables()]))
    page = open_page(report, "system")
    assert f"2 {words}" in text(page)
    assert "emulated time are of process" not in text(page)
    assert {row[0] for row in rows(page, "call tree")} >= {"11 \N{MIDDLE DOT} MainThread", "22 \N{MIDDLE DOT} MainThread"}
    assert words not in text(open_page(host_only, "system"))


def test_threads_stand_on_the_clock_of_their_table(open_page: OpenPage, host_only: Path) -> None:
    spans = sorted(event.start_ns for event in open_report(host_only).system.events)
    page = open_page(host_only, "system", wall=f"{spans[-1] - 10}_{spans[-1] + 100_000}")
    page.locator("#main figure > canvas").first.focus()
    page.keyboard.press("s")
    page.wait_for_function("() => location.hash.includes('wall=')")
    begin, end = (
        float(part) for part in page.evaluate("decodeURIComponent(location.hash)").partition("wall=")[2].partition("&")[0].split("_")
    )
    assert begin <= spans[-1] <= end
