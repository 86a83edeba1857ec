"""View Execution: its numbers are the reader's, keys alone reach every event, and the URL holds what is seen."""

import re
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.page.conftest import OpenPage
from tests.page.pages import address, go, hold_time, rows, settled, text, values
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
    page.locator("[aria-label='waits by lane'] tbody tr").first.click()
    chosen = rows(page, "waits by lane")[0][0]
    assert [row for row in found if row[0] == chosen] == rows(page, "waits by lane and reason")
    page.get_by_role("button", name="Show all lanes").click()
    assert rows(page, "waits by lane and reason") == found
    total = execution.total_cycles
    assert sorted(cycles for _, cycles in rows(page, "time by kind of the busiest IPU")) == sorted(total.by_kind.values())
    assert f"IPU {total.busiest_ipu}" in text(page)


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


WRITTEN = """() => {
    window.written = [];
    const { fillText } = CanvasRenderingContext2D.prototype;
    CanvasRenderingContext2D.prototype.fillText = function (words, ...place) { written.push(words); fillText.call(this, words, ...place); };
}"""


def test_a_run_that_has_room_shows_its_steps(open_page: OpenPage) -> None:
    page = open_page(steps_of("everything"), "execution")
    page.evaluate(WRITTEN)
    said = press(page, "ArrowRight")
    while "compute" not in said:
        said = press(page, "ArrowRight" if "on IPU" in said else "ArrowDown")
    steps = {"compute \u00b7 add", "compute \u00b7 dear"}
    assert steps.isdisjoint(written(page)), "the bars of all events are narrow"
    press(page, "Enter")
    settled(page)
    assert steps <= written(page)


def written(page: Page) -> set[str]:
    """What the timeline has written into its picture, without the marks around each text that keep its direction."""
    return {words.strip("\u2068\u2069") for words in page.evaluate("written")}


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


def test_the_table_of_the_timeline_has_the_stretches_that_are_not_recorded(open_page: OpenPage) -> None:
    called = two_stages()
    report = Report(recorded(run_of(called, runs=6), [called], runs_in_detail=2))
    gaps = [(lane.name, gap.cycles_from, gap.cycles_to) for lane in report.execution.lanes for gap in report.execution.unkept(lane)]
    page = open_page(report, "execution")
    page.get_by_role("button", name="Show as table").first.click()
    found = [(row[0], *row[5:7]) for row in rows(page, "events of A in the window") if row[1] == "not recorded"]
    assert sorted(found) == sorted(gaps) != []


def test_search_finds_each_run_of_a_program_by_a_part_of_its_name(open_page: OpenPage) -> None:
    page = open_page(report_of(two_stages(), runs=3), "execution")
    page.get_by_role("searchbox", name="find a program").fill("WO_STAGES")
    expect(page.locator(".search [role=status]")).to_contain_text(re.compile(r"^[1-9]\d* found"))


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
