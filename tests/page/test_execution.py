"""View Execution: its numbers are the reader's, keys alone reach every event, and the URL holds what is seen."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.page.conftest import OpenPage
from tests.page.pages import address, go, hold_time, rows, settled, tables, text, values
from tests.unit.figures.reader.recorded import everything, recorded, report_of, run_of, two_stages
from tilestep.figures.lane_names import KIND_TEXTS
from tilestep.figures.reader import Report, open_report
from tilestep.views.page.document import in_full

RECORDINGS = ("mnist_plain", "mnist_classifier", "pipeline", "popart_pipeline")


@cache
def whole(recording: Path) -> Report:
    """A recording with the events of all runs, as its page has it."""
    return in_full(open_report(recording))


def timeline(page: Page) -> Locator:
    return page.locator("#main canvas[role=application]")


def press(page: Page, *keys: str) -> str:
    """Presses keys on a timeline, and gives what it then says."""
    timeline(page).focus()
    for key in keys:
        page.keyboard.press(key)
    return page.locator("#main figure .live").inner_text()


def state(page: Page) -> dict[str, str]:
    """What the URL holds once it is written."""
    settled(page)
    found = parse_qs(address(page).partition("?")[2])
    return {name: value for name, [value] in found.items()}


def whole_number(words: str) -> int:
    return int(words.replace(",", ""))


@pytest.fixture(params=RECORDINGS)
def recording(request: pytest.FixtureRequest) -> Path:
    return request.getfixturevalue(request.param)


@pytest.mark.few(1)
def test_waits_and_times_by_kind_are_the_readers(recording: Path, open_page: OpenPage) -> None:
    page = open_page(recording, "execution")
    execution = whole(recording).execution
    cycles: Counter[tuple[str, str]] = Counter()
    times: Counter[tuple[str, str]] = Counter()
    for lane in execution.lanes:
        for wait in execution.waits(lane):
            cycles[lane.name, wait.reason] += wait.cycles
            times[lane.name, wait.reason] += 1
    found = rows(page, "waits by lane and reason")
    assert {(lane, reason): (waited, count) for lane, reason, waited, count, _ in found} == {
        key: (cycles[key], times[key]) for key in cycles
    }
    kinds = ["IPU ", "I/O", "hos", "IPU-"]  # of lanes: of IPUs before the host and its links, of IPU-Links behind them
    ranks = [
        (row[1] == "what it waited for is not in the recording", next((at for at, kind in enumerate(kinds) if row[0].startswith(kind)), 9))
        for row in found
    ]
    assert ranks == sorted(ranks)
    of_ipus = [row[2] for row, rank in zip(found, ranks, strict=True) if rank == (False, 0)]
    assert of_ipus == sorted(of_ipus, reverse=True)
    by_lane: Counter[str] = Counter()
    for (lane, _), waited in cycles.items():
        by_lane[lane] += waited
    assert {lane: waited for lane, waited, *_ in rows(page, "waits by lane")} == by_lane
    total = execution.total_cycles
    assert sorted(cycles for _, cycles in rows(page, "time by kind of the busiest IPU")) == sorted(total.by_kind.values())
    assert f"IPU {total.busiest_ipu}" in text(page)


@pytest.mark.slow
def test_what_was_not_recorded_is_no_wait_and_looks_like_none(open_page: OpenPage) -> None:
    called = two_stages()
    report = Report(recorded(run_of(called, runs=9), [called], runs_in_detail=4))
    execution = report.execution
    page = open_page(report, "execution", **{"from": 0, "to": max(map(int, execution.events.column("end")))})
    unkept = {lane.name: cycles for lane in execution.lanes if (cycles := sum(gap.cycles for gap in execution.unkept(lane)))}
    waits = {lane.name: sum(wait.cycles for wait in execution.waits(lane)) for lane in execution.lanes}
    assert {row[0]: (row[1], row[3]) for row in rows(page, "waits by lane") if row[3]} == {
        name: (waits[name], cycles) for name, cycles in unkept.items()
    }
    assert dict.fromkeys(["not recorded"], sum(unkept.values())) == {
        kind: every for kind, _, every in rows(page, "time by kind in the window") if kind == "not recorded"
    }
    spans = [execution.events_of(lane) for lane in execution.lanes]
    whole = sum(max(event.cycles_to for event in events) - events[0].cycles_from for events in spans if events)
    share = next(each["value"] for each in values(page) if each["unit"] == "share" and "were not kept" in each["tip"])
    assert share == pytest.approx(1 - sum(unkept.values()) / whole)
    page.get_by_role("button", name="Show as table").click()
    [label] = [each for each in tables(page) if each.startswith("events of")]
    shown = {(row[0], row[5], row[6]) for row in rows(page, label) if row[1] == "not recorded"}
    assert shown == {(lane.name, gap.cycles_from, gap.cycles_to) for lane in execution.lanes for gap in execution.unkept(lane)}
    said = [press(page, "ArrowRight") for _ in execution.events_of(execution.lane("host"))]
    assert sum("not recorded: the events of runs in this time were not kept, so it may have worked" in words for words in said) == 1
    assert page.locator(".legend .swatch.unkept").count() == 1


@pytest.mark.slow
def test_the_waits_of_one_lane_stand_alone_once_it_is_opened(mnist_classifier: Path, open_page: OpenPage) -> None:
    page = open_page(mnist_classifier, "execution")
    every = rows(page, "waits by lane and reason")
    page.get_by_role("region", name="waits by lane", exact=True).get_by_role("button", name="IPU 0").click()
    assert rows(page, "waits by lane and reason") == [row for row in every if row[0] == "IPU 0"]
    page.get_by_role("button", name="Show all lanes").click()
    assert rows(page, "waits by lane and reason") == every


@pytest.mark.slow
def test_the_critical_path_is_the_readers(recording: Path, open_page: OpenPage) -> None:
    page = open_page(recording, "execution")
    report = whole(recording)
    path = report.execution.critical_path()
    names = [program["label"] for program in head(page)["programs"]]
    page.locator("summary", has_text="All pieces").click()
    page.wait_for_selector("[aria-label^='pieces of the critical path']")
    [label] = [each for each in tables(page) if each.startswith("pieces of the critical path")]
    expected = [
        [
            piece.event.lane.name,
            KIND_TEXTS[piece.event.kind],
            names[piece.event.program] if piece.event.program >= 0 else None,
            piece.cycles_from,
            piece.cycles_to,
            piece.cycles,
        ]
        for piece in path.pieces
    ]
    assert rows(page, label) == expected
    summed = rows(page, "critical path by lane, kind and program")
    assert sum(row[3] for row in summed) == path.cycles
    assert sum(row[5] for row in summed) == len(path.pieces)
    assert f"{len(path.pieces):,} pieces, one behind the other, decide the end: " in text(page)
    assert ("It is not complete" in text(page)) == (not path.complete)


def head(page: Page) -> Any:
    """The block `head` of the first recording."""
    return page.evaluate(
        """async () => {
            const coded = Uint8Array.from(atob(document.getElementById("data-a-head").textContent.trim()), (each) => each.charCodeAt(0));
            const stream = new Blob([coded]).stream().pipeThrough(new DecompressionStream("gzip"));
            const buffer = await new Response(stream).arrayBuffer();
            return JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, new DataView(buffer).getUint32(0, true)))).json;
        }"""
    )


@pytest.mark.slow
@pytest.mark.parametrize("program", ["everything", "loop"])
def test_the_steps_of_a_run_are_the_readers_to_the_cycle(program: str, open_page: OpenPage) -> None:
    report = steps_of(program)
    page = open_page(report, "execution")
    said = press(page, "ArrowRight")
    while not re.search(r"on IPU \d", said):
        said = press(page, "ArrowDown")
    ipu = int(re.findall(r"on IPU (\d)", said)[0])
    run = whole_number(values(page, ".selection")[0]["text"])
    page.locator(".selection summary").click()
    label = f"what run {run} did on IPU {ipu}"
    page.wait_for_selector(f"[aria-label='{label}']")
    [on_ipu] = [each for each in report.execution.runs[run].ipus if each.ipu == ipu]
    assert [[row[0], row[1], *row[4:]] for row in rows(page, label)] == [
        [
            KIND_TEXTS.get(span.kind, span.kind),
            span.leaf.name if span.leaf else None,
            span.times,
            span.cycles_from,
            span.cycles_to,
            span.cycles,
        ]
        for span in on_ipu.spans(unrolled=True)
    ]


def steps_of(program: str) -> Report:
    if program == "loop":
        return report_of(two_stages(), runs=2)
    called, counts = everything()
    return report_of(called, counts=counts)


@pytest.mark.slow
def test_keys_zoom_and_move_and_the_url_keeps_the_window(mnist_plain: Path, open_page: OpenPage) -> None:
    page = open_page(mnist_plain, "execution")
    assert "from" not in state(page)
    said = press(page, "w", "w")
    first = state(page)
    assert said.startswith("shown: ")
    press(page, "d")
    moved = state(page)
    assert int(moved["from"]) > int(first["from"])
    assert abs((int(moved["to"]) - int(moved["from"])) - (int(first["to"]) - int(first["from"]))) <= 2
    press(page, "-")
    wider = state(page)
    assert int(wider["to"]) - int(wider["from"]) > int(moved["to"]) - int(moved["from"])
    go(page, "memory")
    go(page, "execution", **wider)
    press(page, "a", "d")
    again = state(page)
    assert abs(int(again["from"]) - int(wider["from"])) <= 2
    press(page, "Home")
    assert "from" not in state(page)


@pytest.mark.slow
def test_keys_go_from_event_to_event_and_are_read_aloud(mnist_classifier: Path, open_page: OpenPage) -> None:
    page = open_page(mnist_classifier, "execution")
    execution = whole(mnist_classifier).execution
    events = list(execution.events_of(execution.lane("host")))
    for event in events:
        said = press(page, "ArrowRight")
        assert said.startswith(KIND_TEXTS[event.kind])
        assert f"from cycle {event.cycles_from:,} to {event.cycles_to:,}" in said
    assert "no bar behind it in host" in press(page, "ArrowRight")
    for event in reversed(events[:-1]):
        assert f"from cycle {event.cycles_from:,}" in press(page, "ArrowLeft")
    assert "no bar before it in host" in press(page, "ArrowLeft")


def test_the_cause_of_an_event_is_one_key_or_one_press_away(mnist_classifier: Path, open_page: OpenPage) -> None:
    page = open_page(mnist_classifier, "execution")
    execution = whole(mnist_classifier).execution
    press(page, "ArrowRight", "ArrowDown", "ArrowDown", "ArrowDown")
    wanted = next(event for event in execution.events_of(execution.lane("ipu", 0)) if event.kind == "compute")
    while f"from cycle {wanted.cycles_from:,} " not in press(page, "ArrowRight"):
        pass
    chosen = state(page)["event"]
    cause = execution.events.event(wanted.cause)
    said = press(page, "c")
    assert said.startswith("Its cause: ")
    assert f"from cycle {cause.cycles_from:,} to {cause.cycles_to:,}" in said
    assert press(page, "e").startswith("First of ")
    go(page, "execution", event=chosen)
    assert values(page, ".selection")[2]["value"] == wanted.cycles_from
    page.locator(".selection dd button").first.click()
    assert values(page, ".selection")[2]["value"] == cause.cycles_from


@pytest.mark.slow
def test_the_transfer_of_a_load_is_a_part_of_it(mnist_plain: Path, open_page: OpenPage) -> None:
    """Others have a cause, and are no part of anything."""
    page = open_page(mnist_plain, "execution")
    execution = whole(mnist_plain).execution
    [load, *_] = [event for event in execution.events_of(execution.lane("ipu", 0)) if event.kind == "load"]
    said = press(page, "ArrowRight", "ArrowDown")
    assert said.startswith("transfers")
    assert f" to {load.cycles_to:,}" in said
    chosen = state(page)["event"]
    assert "its cause" not in page.inner_text(".selection")
    assert "what it is a part of is on it" in page.inner_text(".selection")
    said = press(page, "c")
    assert said.startswith("Part of: loading programs")
    assert f"from cycle {load.cycles_from:,} to {load.cycles_to:,}" in said
    assert state(page)["event"] != chosen
    go(page, "execution", event=chosen)
    page.locator(".selection dd button").first.click()
    assert "loading programs" in page.inner_text(".selection h2")
    assert press(page, "c").startswith("Its cause: dispatches")
    assert "part of" not in page.inner_text(".selection")
    assert "its cause" in page.inner_text(".selection")


@pytest.mark.slow
def test_keys_follow_the_critical_path(pipeline: Path, open_page: OpenPage) -> None:
    page = open_page(pipeline, "execution")
    pieces = whole(pipeline).execution.critical_path().pieces
    for number, piece in enumerate(pieces[:12], 1):
        said = press(page, "]")
        assert said.startswith(f"{number} of {len(pieces):,} on the critical path: {KIND_TEXTS[piece.event.kind]}")
        assert f"from cycle {piece.event.cycles_from:,} to {piece.event.cycles_to:,}" in said
    assert press(page, "p") == "critical path hidden"
    assert state(page)["path"] == "0"


@pytest.mark.slow
def test_show_as_table_has_the_events_of_the_window(mnist_plain: Path, open_page: OpenPage) -> None:
    execution = whole(mnist_plain).execution
    every = [event for lane in execution.lanes for event in execution.events_of(lane)]
    begin, end = min(event.cycles_to for event in every), max(event.cycles_from for event in every) - 1
    page = open_page(mnist_plain, "execution", **{"from": begin + 1, "to": end})
    page.get_by_role("button", name="Show as table").click()
    [label] = [each for each in tables(page) if each.startswith("events of")]
    inside = [event for event in every if event.cycles_to >= begin + 1 and event.cycles_from <= end]
    found = rows(page, label)
    assert 0 < len(found) < len(every)
    assert sorted((row[0], row[1], *row[5:]) for row in found) == sorted(
        (event.lane.name, KIND_TEXTS[event.kind], event.cycles_from, event.cycles_to, event.cycles) for event in inside
    )
    page.get_by_role("button", name="compute", exact=True).click()
    settled(page)
    assert {row[1] for row in rows(page, label)} == {row[1] for row in found} - {"compute"}
    assert state(page)["kinds"] == "compute"


@pytest.mark.slow
def test_search_finds_as_one_types_and_enter_goes_from_hit_to_hit(pipeline: Path, open_page: OpenPage) -> None:
    page = open_page(pipeline, "execution")
    execution = whole(pipeline).execution
    status = page.locator(".search [role=status]")
    field = page.get_by_role("searchbox", name="find a program, task, kind, lane or step")

    def found(words: str) -> str:
        field.fill(words)
        settled(page)
        return status.inner_text().partition(":")[0]

    name = open_report(pipeline).compilation.programs[0].name
    labels = [program["label"] for program in head(page)["programs"]]
    lanes_of_runs = {
        (event.lane.index, event.run, event.program)
        for lane in execution.lanes
        for event in execution.events_of(lane)
        if event.program >= 0 and name in labels[event.program]
    }
    assert found(name.upper()) == f"{len(lanes_of_runs):,} found"
    assert state(page)["find"] == name.upper()
    field.press("Enter")
    assert status.inner_text().startswith("1 of ")
    field.press("Shift+Enter")
    assert status.inner_text() == f"{len(lanes_of_runs):,} of {len(lanes_of_runs):,}"
    kind = [event for lane in execution.lanes for event in execution.events_of(lane) if event.kind == "stream-in"]
    assert found("arguments in") == f"{len(kind):,} found"
    assert found("IPU-Link from IPU 0 to IPU 1") == "1 found"
    task = next(run.task for run in execution.runs if run.stage >= 0)
    assert found(task).endswith(" found")
    assert found("no such thing") == "nothing is called “no such thing”"
    assert found("") == ""


@pytest.mark.slow
def test_search_finds_a_step_inside_of_a_run(open_page: OpenPage) -> None:
    page = open_page(steps_of("everything"), "execution")
    page.get_by_role("searchbox").first.fill("all-reduce")
    page.get_by_role("searchbox").first.press("Enter")
    assert page.locator(".search [role=status]").inner_text().startswith("1 of ")
    assert " · everything on IPU " in page.locator("#main figure .live").inner_text()


@pytest.mark.slow
def test_three_tabs_are_enough_for_the_picture_and_arrows_go_through_a_legend(mnist_plain: Path, open_page: OpenPage) -> None:
    page = open_page(mnist_plain, "execution", alone=True)
    for key in ("Tab", "Tab", "Enter"):
        page.keyboard.press(key)
    assert page.evaluate("document.activeElement === document.querySelector('#main canvas[role=application]')")
    assert page.locator(".filters button[tabindex='0']").count() == page.locator(".filters [role=toolbar]").count() == 2
    buttons = page.locator(".filters [role=toolbar]").first.locator("button")
    buttons.first.focus()
    page.keyboard.press("ArrowRight")
    assert buttons.nth(1).evaluate("each => each === document.activeElement && each.tabIndex === 0")
    page.keyboard.press("End")
    assert buttons.last.evaluate("each => each === document.activeElement")
    page.keyboard.press("ArrowRight")
    assert buttons.first.evaluate("each => each === document.activeElement")
    go(page, "findings")
    assert page.locator("#to-picture").evaluate("each => each.hidden") == (page.locator("#main figure canvas").count() == 0)


@pytest.mark.slow
def test_all_keys_below_the_timeline_hold_and_none_scrolls_the_page(mnist_plain: Path, open_page: OpenPage) -> None:
    page = open_page(mnist_plain, "execution", height=500)
    keys = page.locator("figcaption .keys").inner_text()
    named = {"←": "ArrowLeft", "→": "ArrowRight", "↑": "ArrowUp", "↓": "ArrowDown", "\N{MINUS SIGN}": "-"}
    words = [named.get(word, word) for word in re.split(r"[ ,.]+", keys.partition("Drag")[0])]
    listed = [
        word
        for word in words
        if word in {*named.values(), "+", "[", "]", "Home", "End", "Enter", "Escape", "PageUp", "PageDown"} or re.fullmatch("[A-Z]", word)
    ]
    assert len(listed) == 20
    send = "canvas.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true }))"
    taken = timeline(page).evaluate(f"(canvas, keys) => keys.filter((key) => {send})", listed)
    assert taken == []
    press(page, "w", "w", "End")
    assert int(state(page)["to"]) >= max(
        event.cycles_to for lane in whole(mnist_plain).execution.lanes for event in whole(mnist_plain).execution.events_of(lane)
    )
    assert page.evaluate("scrollY") == 0


def test_the_pointer_zooms_moves_and_selects(mnist_plain: Path, open_page: OpenPage) -> None:
    page = open_page(mnist_plain, "execution", alone=True)
    page.clock.install()
    box = timeline(page).bounding_box()
    assert box is not None
    middle = (box["x"] + box["width"] / 2, box["y"] + box["height"] - 25)
    page.mouse.move(*middle)
    page.keyboard.down("Control")
    page.mouse.wheel(0, -300)
    page.keyboard.up("Control")
    zoomed = state(page)
    page.mouse.down()
    page.mouse.move(middle[0] + 80, middle[1], steps=4)
    page.mouse.up()
    dragged = state(page)
    assert int(dragged["from"]) < int(zoomed["from"])
    go(page, "execution")
    page.mouse.move(box["x"] + 190, middle[1])
    tip = page.locator("#tip")
    expect(tip).to_have_class("settled")
    words = tip.inner_text()
    there = tip.bounding_box()
    assert there is not None
    hold_time(page)  # the tip waits for a pointer that is on the way for some of it
    page.mouse.move(there["x"] + there["width"] / 2, there["y"] + there["height"] / 2, steps=12)
    assert tip.inner_text() == words, "the pointer goes to it, and reads it"
    page.keyboard.press("Escape")
    assert not tip.is_visible()
    page.clock.resume()
    page.mouse.click(box["x"] + 260, middle[1])
    assert re.fullmatch(r"\d+", state(page)["event"])
