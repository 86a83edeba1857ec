"""View Memory: what JavaScript works out of the lives of values is what the reader says, and keys alone choose any tile and step."""

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
from tilestep.figures.reader import Report
from tilestep.plan.memory.liveness import Life
from tilestep.recording.memory import ProgramMemory, alive, by_category, over_time, peak, tile_bytes
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
    return {
        categories: ticks.map((tick) => tiles.map((tile) => mem.byCategory(memory, tick, tile))),
        over: [over(null), ...tiles.map(over)],
        byCategory: mem.categoriesOverTime(memory, null).map((each) => [...each]),
        alive: ticks.map((tick) => mem.alive(memory, tick)),
        peak: mem.peak(fullest),
        without: mem.without(memory, runs, fullest, groups),
    };
})"""


@cache
def _script() -> str:
    """The modules without a page, in an object `mem`."""
    return joined("views/memory/peaks.js", asset) + "\nwindow.mem = { ...module0, ...module1 };"


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


def same(memory: ProgramMemory, found: dict[str, Any]) -> None:
    """Checks all that JavaScript found of a program's memory."""
    assert found["categories"] == [by_category(memory, tick).T.tolist() for tick in range(memory.num_ticks)]
    for tile, sums in zip([None, *range(memory.num_tiles)], found["over"], strict=True):
        assert sums == [column.tolist() for column in over_time(memory, tile)]
    assert found["byCategory"] == np.stack([by_category(memory, t).sum(axis=1) for t in range(memory.num_ticks)], axis=1).tolist()
    assert found["alive"] == [sorted(alive(memory, tick).tolist()) for tick in range(memory.num_ticks)]
    top = peak(memory)
    assert found["peak"] == {"bytes": top.total_bytes, "tile": top.tile, "tick": top.tick}
    count = len(memory.first)
    for group, told in zip([*range(count), *([life, (life + 1) % count] for life in range(count))], found["without"], strict=True):
        rest = without(memory, group)
        left = peak(rest)
        assert (told["bytes"], told["tick"]) == (left.total_bytes, left.tick)
        assert tile_bytes(rest)[told["tick"], told["tile"]] == left.total_bytes


def test_memory_that_javascript_works_out_is_that_of_the_reader(blank: Page) -> None:
    memories = [drawn(seed) for seed in range(50)]
    for memory, found in zip(memories, blank.evaluate(ALL, [as_javascript(each) for each in memories]), strict=True):
        same(memory, found)


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


def test_a_value_leads_to_what_is_alive_in_its_first_step(open_page: Any) -> None:
    page, memory = open_page(one(), "memory"), one().compilation.main.memory
    page.get_by_role("button", name="h", exact=True).last.click()
    wait_for(page, "liveness")
    [first] = [each.first for each in memory.variables if each.name == "h"]
    assert address(page) == f"#liveness?tick={first}"


def test_a_program_without_detail_says_why(open_page: Any) -> None:
    page = open_page(report_of(two_stages()), "memory")
    text = page.inner_text("#main")
    assert "its memory was not recorded in detail" in text
    assert page.get_by_role("table", name="values").count() == 0


@pytest.mark.slow
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
