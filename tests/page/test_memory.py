"""View Memory: what JavaScript works out of the lives of values is what the reader says, and keys alone choose any tile and step."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.page.conftest import OpenPage
from tests.page.pages import address, rows, values, wait_for
from tests.unit.figures.reader.recorded import liveness, report_of, two_stages
from tilestep.figures.reader import Report, open_report
from tilestep.figures.reader.memory import MemoryReport
from tilestep.plan.liveness import Life
from tilestep.recording.memory import ProgramMemory, alive, by_category, difference, over_time, peak, tile_bytes
from tilestep.recording.schema import CATEGORIES
from tilestep.views.page.assets import asset
from tilestep.views.page.modules import joined

ALL = """(memories) => memories.map((memory) => {
    const runs = mem.runsOf(memory);
    const fullest = mem.fullest(memory, runs);
    const count = memory.first.length;
    const groups = [...memory.first.map((_, life) => [life]), ...memory.first.map((_, life) => [...new Set([life, (life + 1) % count])])];
    const ticks = memory.temporary.map((_, tick) => tick);
    const tiles = Array.from({ length: memory.numTiles }, (_, tile) => tile);
    const over = (tile) => { const { always, others } = mem.overTime(memory, tile); return [[...always], [...others]]; };
    const grid = (...given) => { const found = mem.grid(memory, runs, ...given); return [found.columns, found.rows, [...found.bytes]]; };
    return {
        tiles: ticks.map((tick) => [...mem.tileBytes(memory, tick)]),
        categories: ticks.map((tick) => tiles.map((tile) => mem.byCategory(memory, tick, tile))),
        over: [over(null), ...tiles.map(over)],
        byCategory: mem.categoriesOverTime(memory, null).map((each) => [...each]),
        alive: ticks.map((tick) => mem.alive(memory, tick)),
        difference: ticks.map((tick) => mem.difference(memory, tick, ticks.length - 1 - tick)),
        peak: mem.peak(fullest),
        without: mem.without(memory, runs, fullest, groups),
        grid: grid(0, ticks.length, 10000, 10000),
        part: grid(Math.floor(ticks.length / 3), ticks.length, 3, 4),
    };
})"""


@cache
def _script() -> str:
    """The modules without a page, in an object `mem`."""
    return joined("views/memory/heat.js", asset) + "\nwindow.mem = { ...module0, ...module1, ...module2 };"


@pytest.fixture
def blank(browser: Browser) -> Any:
    """An empty page with the functions that work out memory."""
    page = browser.new_page()
    page.evaluate(f"() => {{ {_script()} }}")
    yield page
    page.close()


def drawn(seed: int) -> ProgramMemory:
    """Random lives, many of which go round behind the last tile, and of which many are equal."""
    draw = random.Random(seed)
    num_tiles, num_ticks, count = draw.randint(1, 9), draw.randint(1, 9), draw.randint(0, 8)
    first = [draw.randrange(num_ticks) for _ in range(count)]
    columns = {
        "category": [draw.randrange(len(CATEGORIES)) for _ in range(count)],
        "first": first,
        "last": [draw.randrange(each, num_ticks) for each in first],
        "tile_bytes": [draw.choice((0, 8, 8, 16, 100, 2**40)) for _ in range(count)],
        "tiles": [draw.randint(1, num_tiles) for _ in range(count)],
        "start_tile": [draw.randrange(num_tiles) for _ in range(count)],
    }
    return ProgramMemory(
        num_tiles=num_tiles,
        always_bytes=draw.choice((0, 300)),
        temporary_tile_bytes=np.array([draw.choice((0, 0, 16, 50)) for _ in range(num_ticks)], np.int64),
        **{name: np.array(column, np.int64) for name, column in columns.items()},
    )


def as_javascript(memory: ProgramMemory) -> dict[str, Any]:
    """The columns under the names that the page's modules give them."""
    return {
        "numTiles": memory.num_tiles,
        "numTicks": memory.num_ticks,
        "always": memory.always_bytes,
        "temporary": memory.temporary_tile_bytes.tolist(),
        "category": memory.category.tolist(),
        "first": memory.first.tolist(),
        "last": memory.last.tolist(),
        "tileBytes": memory.tile_bytes.tolist(),
        "tiles": memory.tiles.tolist(),
        "startTile": memory.start_tile.tolist(),
    }


def without(memory: ProgramMemory, life: int | list[int]) -> ProgramMemory:
    names = ("category", "first", "last", "tile_bytes", "tiles", "start_tile")
    return replace(memory, **{name: np.delete(getattr(memory, name), life) for name in names})


def coarse(cells: np.ndarray[Any, Any], columns: int, rows_: int) -> np.ndarray[Any, Any]:
    """The most of each block of a matrix [tiles, ticks]."""
    tiles, ticks = cells.shape

    def edges(parts: int, whole: int) -> list[tuple[int, int]]:
        return [(part * whole // parts, (part + 1) * whole // parts) for part in range(parts)]

    return np.array([[cells[a:b, c:d].max() for c, d in edges(columns, ticks)] for a, b in edges(rows_, tiles)])


def same(memory: ProgramMemory, found: dict[str, Any]) -> None:
    """Checks all that JavaScript found of a program's memory."""
    cells = tile_bytes(memory)
    assert found["tiles"] == cells.tolist()
    assert found["categories"] == [by_category(memory, tick).T.tolist() for tick in range(memory.num_ticks)]
    for tile, sums in zip([None, *range(memory.num_tiles)], found["over"], strict=True):
        assert sums == [column.tolist() for column in over_time(memory, tile)]
    assert found["byCategory"] == np.stack([by_category(memory, t).sum(axis=1) for t in range(memory.num_ticks)], axis=1).tolist()
    assert found["alive"] == [alive(memory, tick).tolist() for tick in range(memory.num_ticks)]
    for tick, told in enumerate(found["difference"]):
        change = difference(memory, tick, memory.num_ticks - 1 - tick)
        assert told == {"born": change.born.tolist(), "gone": change.gone.tolist(), "temporary": change.temporary_tile_bytes}
    top = peak(memory)
    assert found["peak"] == {"bytes": top.total_bytes, "tile": top.tile, "tick": top.tick}
    count = len(memory.first)
    for group, told in zip([*range(count), *([life, (life + 1) % count] for life in range(count))], found["without"], strict=True):
        rest = without(memory, group)
        left = peak(rest)
        assert (told["bytes"], told["tick"]) == (left.total_bytes, left.tick)
        assert tile_bytes(rest)[told["tick"], told["tile"]] == left.total_bytes
    columns, rows_, whole = found["grid"]
    assert (columns, rows_) == (memory.num_ticks, memory.num_tiles)
    assert np.reshape(whole, (rows_, columns)).tolist() == cells.T.tolist()
    columns, rows_, part = found["part"]
    assert np.reshape(part, (rows_, columns)).tolist() == coarse(cells.T[:, memory.num_ticks // 3 :], columns, rows_).tolist()


@pytest.mark.parametrize("seeds", [range(50), pytest.param(range(50, 300), marks=pytest.mark.slow)], ids=["some", "many"])
def test_memory_that_javascript_works_out_is_that_of_the_reader(blank: Page, seeds: range) -> None:
    memories = [drawn(seed) for seed in seeds]
    for memory, found in zip(memories, blank.evaluate(ALL, [as_javascript(each) for each in memories]), strict=True):
        same(memory, found)


@pytest.mark.slow
def test_memory_of_a_large_recording_is_that_of_the_reader(blank: Page, pipeline_transformer: Any) -> None:
    for program in open_report(pipeline_transformer).compilation.programs:
        if program.detailed:
            compared(blank, program.memory)


def compared(page: Page, memory: MemoryReport) -> None:
    """Checks a program's map of tiles and steps, its peak, and its peak without each value."""
    found = page.evaluate(
        """(memory) => {
            const runs = mem.runsOf(memory);
            const fullest = mem.fullest(memory, runs);
            const cells = mem.grid(memory, runs, 0, memory.numTicks, 1e6, 1e6);
            const { always, others } = mem.overTime(memory, null);
            return { bytes: [...cells.bytes], peak: mem.peak(fullest), always: [...always], others: [...others],
                     without: mem.without(memory, runs, fullest, memory.first.map((_, life) => [life])) };
        }""",
        as_javascript(memory.columns),
    )
    cells = tile_bytes(memory.columns)
    assert np.array_equal(np.reshape(found["bytes"], cells.T.shape), cells.T)
    assert found["peak"] == {"bytes": memory.peak.total_bytes, "tile": memory.peak.tile, "tick": memory.peak.tick}
    assert [found["always"], found["others"]] == [column.tolist() for column in memory.over_time()]
    for life, told in enumerate(found["without"]):
        left = peak(without(memory.columns, life))
        assert (told["bytes"], told["tick"], told["tile"]) == (left.total_bytes, left.tick, _first_tile(memory.columns, life, left.tick))


def _first_tile(memory: ProgramMemory, life: int, tick: int) -> int:
    return int(tile_bytes(without(memory, life), ticks=range(tick, tick + 1))[0].argmax())


def one() -> Report:
    return report_of(two_stages(), detail=liveness())


def test_the_fullest_tile_and_its_parts_are_those_of_the_reader(open_page: Any) -> None:
    report = one()
    memory = report.compilation.main.memory
    page = open_page(report, "memory")
    sentence = values(page, ".fullest")
    sram = report.target.bytes_per_tile
    assert [each["value"] for each in sentence] == [memory.peak.total_bytes, sram, sram - memory.peak.total_bytes]
    assert all(each["tip"].endswith(".") and each["unit"] == "bytes" for each in sentence)
    parts = page.evaluate(
        "Object.fromEntries([...document.querySelectorAll('.kinds tbody tr')].map((row) => "
        "[row.dataset.key, Number(row.querySelector('[data-value]').dataset.value)]))"
    )
    assert parts == {name: size for name, size in memory.by_category().items() if size}
    assert "stacks (no program can use them)" in page.inner_text(".kinds")


def test_each_tile_beside_the_chosen_one_has_a_bar_as_long_as_its_bytes(open_page: Any) -> None:
    page = open_page(one(), "memory")
    found = page.evaluate(
        """() => [...document.querySelectorAll(".chosen-tiles tbody tr")].map((row) =>
            [Number(row.querySelector(".value").dataset.value), parseFloat(row.querySelector(".bar")?.style.width ?? "0") / 100])"""
    )
    most = max(size for size, _ in found)
    assert len(found) % 3 == 0
    assert [part for _, part in found] == pytest.approx([size / most for size, _ in found], abs=1e-5)


def test_values_and_what_frees_the_fullest_tile(open_page: Any) -> None:
    report = one()
    memory = report.compilation.main.memory
    page = open_page(report, "memory")
    found = rows(page, "values")
    for row in found:
        variable = next(each for each in memory.variables if each.name == row[0])
        line = "" if variable.line is None else f"train.py:{variable.line.line}"
        expected = [variable.category, variable.tile_bytes, variable.size_bytes, variable.tiles, variable.first, variable.last]
        assert row[1:7] == expected
        assert row[7].endswith(line)
        here = variable.first <= memory.peak.tick <= variable.last
        on_tile = (memory.peak.tile - variable.start_tile) % 16 < variable.tiles
        assert row[8] == ("yes" if here and on_tile else "no")
    assert len(found) == len(memory.variables)
    freed = rows(page, "who would free the fullest tile")
    assert {row[0] for row in freed} == {row[0] for row in found if row[8] == "yes"}
    assert [each["value"] for each in values(page, ".frees")] == freed[0][1:3]
    assert all(row[1] <= freed[0][1] for row in freed)
    for row in freed:
        left = peak(without(memory.columns, next(each.index for each in memory.variables if each.name == row[0])))
        assert (row[1], row[2]) == (memory.peak.total_bytes - left.total_bytes, left.total_bytes)
        assert f"({left.tick})" in row[8]


def test_values_that_differ_by_a_layer_are_one_row_and_the_first_line_says_which_have_most(open_page: Any) -> None:
    kept = liveness()
    activation = Life(name="", category="temporary", size_bytes=640, first=1, last=5, tile_bytes=40, tiles=16, start_tile=0, frame=3)
    activations = tuple(replace(activation, name=f"jit(f)/jvp(LM)/Block_{layer}/Dense_0/max", tile_bytes=40 + layer) for layer in (0, 1, 2))
    gradient = replace(activation, name="jit(f)/transpose(jvp(LM))/Block_0/mul", size_bytes=16, first=4, last=4, tile_bytes=1)
    arguments = tuple(  # of two arguments of *args, and one of another size
        replace(activation, name=name, category="argument", size_bytes=size, first=0, tile_bytes=1)
        for name, size in (("args[1][0]", 16), ("args[1][4]", 16), ("args[1][8]", 8), ("args[2][0]", 16))
    )
    report = report_of(two_stages(), detail=replace(kept, lives=(*kept.lives, *activations, gradient, *arguments)))
    memory = report.compilation.main.memory
    page = open_page(report, "memory")
    kinds = rows(page, "who would free the fullest tile")
    assert {(row[0], row[4]) for row in kinds if "args" in row[0]} == {("args[1][0,4]", 2), ("args[1][8]", 1), ("args[2][0]", 1)}
    [row] = [row for row in kinds if "Block_0" in row[0]]
    left = peak(without(memory.columns, [each.index for each in memory.variables if each.name in {life.name for life in activations}]))
    assert row[:5] == ["jit(f)/jvp(LM)/Block_0..2/Dense_0/max", memory.peak.total_bytes - left.total_bytes, left.total_bytes, 123, 3]
    said = page.inner_text(".frees")
    assert said.startswith("It fits: nothing has to be freed, ")
    assert "Without 3 values jit(f)/jvp(LM)/Block_0..2/Dense_0/max the peak falls by " in said
    assert [each["value"] for each in values(page, ".frees")] == row[1:3]


def test_keys_choose_any_tile_and_step_and_the_url_keeps_them(open_page: Any) -> None:
    report = one()
    memory = report.compilation.main.memory
    page = open_page(report, "memory")
    canvas = page.locator("canvas[aria-label*='every tile at every step']")
    canvas.focus()
    for key in ("Home", "ArrowRight", "ArrowRight", "Shift+ArrowUp", "Shift+ArrowUp", "ArrowDown", "ArrowDown"):
        page.keyboard.press(key)
    assert address(page) == "#memory?tick=2&tile=2"
    told = canvas.locator("xpath=..").locator(".live").inner_text()
    assert f"{int(memory.per_tile(2)[2]):,} bytes" in told
    assert "step 2, loop" in told
    page.reload()
    wait_for(page, "memory")
    assert page.locator("input[type=number]").first.input_value() == "2"
    page.locator("canvas[aria-label*='every tile']").focus()
    page.keyboard.press("p")
    assert address(page) == "#memory"


def test_a_click_in_the_map_chooses_and_a_row_marks_a_life(open_page: Any) -> None:
    page = open_page(one(), "memory")
    canvas = page.locator("canvas[aria-label*='every tile at every step']")
    box = canvas.bounding_box()
    canvas.click(position={"x": 80, "y": box["height"] - 45})
    assert address(page) == "#memory?tick=0&tile=15"
    page.get_by_role("button", name="h", exact=True).last.click()
    assert "is the life of h" in page.inner_text("[role=status]:has-text('dashed')")
    assert "valuea=2" in address(page)


def test_a_program_without_detail_says_why(open_page: Any) -> None:
    page = open_page(report_of(two_stages()), "memory")
    text = page.inner_text("#main")
    assert "its memory was not recorded in detail" in text
    assert page.locator("canvas[aria-label*='every tile']").count() == 0


def test_two_recordings_stand_side_by_side(open_page: Any) -> None:
    detail = liveness()
    larger = replace(detail, lives=(*detail.lives[:-1], replace(detail.lives[-1], tile_bytes=44)))
    a, b = one(), report_of(two_stages(), detail=larger)
    page = open_page((a, b), "memory")
    assert page.locator("canvas[aria-label*='every tile at every step']").count() == 2
    found = {row[0]: row for row in rows(page, "values")}
    assert found["y"][2:5] == [4, 44, 40]
    assert found["x"][2:5] == [10, 10, 0]
    memories = [report.compilation.main.memory for report in (a, b)]
    sentence = [each["value"] for each in values(page, ".fullest")]
    assert [sentence[0], sentence[3]] == [memory.peak.total_bytes for memory in memories]


def lives_in_memory(count: int) -> dict[str, Any]:
    """Lives of values on the tiles of one IPU, over 5,000 ticks."""
    draw = np.random.default_rng(0)
    ticks = 5000
    first = draw.integers(0, ticks, count)
    return {
        "numTiles": 1472,
        "numTicks": ticks,
        "always": 1000,
        "temporary": draw.integers(0, 5000, ticks).tolist(),
        "category": [0] * count,
        "first": first.tolist(),
        "last": np.minimum(first + draw.integers(1, 400, count), ticks - 1).tolist(),
        "tileBytes": draw.integers(8, 900, count).tolist(),
        "tiles": draw.integers(1, 1473, count).tolist(),
        "startTile": draw.integers(0, 1472, count).tolist(),
    }


@pytest.mark.slow
def test_the_time_to_draw_the_map_of_all_tiles_grows_at_most_as_lives_do(blank: Page) -> None:
    """Each time is the shortest of some, because the computer may be busy."""
    few, many = blank.evaluate(
        """(memories) => memories.map((memory) => {
            const runs = mem.runsOf(memory);
            const times = [];
            for (let turn = 0; turn < 3; turn++) {
                const start = performance.now();
                mem.picture(mem.grid(memory, runs, 0, memory.numTicks, 1100, 290), 0, 1e6);
                times.push(performance.now() - start);
            }
            return Math.min(...times);
        })""",
        [lives_in_memory(400), lives_in_memory(16_000)],
    )
    assert many < 400 * few  # 40 times the lives; each against each would be 1,600


def test_a_link_leads_to_the_top_of_a_view_and_back_to_the_link(open_page: OpenPage, mnist_plain: Path) -> None:
    page = open_page(mnist_plain, "memory", alone=True)
    here = "[document.activeElement.tagName, Math.round(scrollY)]"
    assert page.evaluate(here) == ["BODY", 0], "the first view is read from the top of the page"
    link = page.locator("#main a[href^='#liveness']").last
    link.focus()
    tag, place = page.evaluate(here)
    assert tag == "A"
    assert place > 500
    page.keyboard.press("Enter")
    wait_for(page, "liveness")
    assert page.evaluate(here) == ["H1", 0]
    page.keyboard.press("Tab")
    assert page.evaluate("document.querySelector('#main').contains(document.activeElement)")
    page.go_back()
    wait_for(page, "memory")
    expect(link).to_be_focused()
    page.wait_for_function("() => scrollY > 500")
    page.focus("nav a[data-view=operations]")
    page.keyboard.press("Enter")
    wait_for(page, "operations")
    assert page.evaluate(here) == ["A", 0], "the focus stays in the list of views"
