"""The page's core in a browser: numbers in the command line's words, blocks of data, tables, and what the page's policy refuses."""

import math
import random
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.page.pages import hold_time
from tilestep.figures.quantities import bytes_text, share_text, time_text
from tilestep.figures.scopes import parts_of
from tilestep.views.page.assets import asset
from tilestep.views.page.block import MOST_EXACT, PageBlock, packed
from tilestep.views.page.modules import joined

ENTRY = """
import * as data from "./core/data.js";
import * as dom from "./core/dom.js";
import * as format from "./core/format.js";
import * as state from "./core/state.js";
import { partsOf } from "./views/steps/read.js";
import * as table from "./core/table.js";
import { startTips } from "./core/tip.js";
import * as value from "./core/value.js";
Object.assign(window, { data, dom, format, partsOf, state, startTips, table, value });
"""
MINUS, NONE = "\u2212", "\u2013"
TIMES = [0, 1e-12, 1e-9, 9.994e-9, 1e-6, 0.9996, 1, 59.9, 99.95, 119.99, 120, 7199, 7200, 1e6, 0.125, 1.125, 62.25, 180, 13.25, 135]
SIZES = [
    0,
    1,
    1023,
    1024,
    1025,
    10_240,
    102_400,
    1_048_575,
    2**20,
    2**30 + 7,
    2**40,
    2**53,
    1152,
    1408,
    1664,
    10_496,
    102_912,
    2**20 + 2**17,
]


@pytest.fixture(scope="module")
def core(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """A page whose globals are the modules of the core. It is a file: state of a page without an address stands elsewhere."""
    file = tmp_path_factory.mktemp("core") / "core.html"
    file.write_text('<!doctype html><meta charset="utf-8">', encoding="utf-8")
    page = browser.new_page()
    page.goto(file.as_uri())
    tip = "".join(line for line in asset("page.css").splitlines() if line.startswith("#tip"))
    page.set_content(
        f'<style>.scroller {{ overflow: auto; height: 600px; }} td {{ height: 26px; padding: 0; }} {tip}</style><div id="place"></div>'
    )
    page.evaluate(joined("entry.js", lambda path: ENTRY if path == "entry.js" else asset(path)))
    page.evaluate("startTips()")  # at once: it follows the pointer from then on
    yield page
    page.context.close()


def some(count: int, low: float, high: float) -> list[float]:
    """Numbers of all sizes between two powers of ten."""
    rng = random.Random(0)
    return [10 ** rng.uniform(low, high) for _ in range(count)]


def different(page: Page, function: str, arguments: list[Any], expected: list[str]) -> list[tuple[Any, str, str]]:
    found = page.evaluate(f"(all) => all.map((each) => {function})", arguments)
    return [row for row in zip(arguments, found, expected, strict=True) if row[1] != row[2]]


def test_parts_of_scopes_are_those_of_the_command_line(core: Page) -> None:
    scopes = ["", "add", "jit(f)/transpose(jvp(enc/MatMul))/dot_general", "jvp(a/b(c/d))/add", "jvp(a/b/add", "a)/(b/add"]
    assert core.evaluate("(all) => all.map(partsOf)", scopes) == [parts_of(scope) for scope in scopes]


def test_times_are_those_of_the_command_line(core: Page) -> None:
    times = [*TIMES, *some(2000, -11, 5)]
    assert different(core, "format.time(each)", times, [time_text(each) for each in times]) == []


def test_sizes_are_those_of_the_command_line(core: Page) -> None:
    sizes = [*SIZES, *(int(each) for each in some(2000, 0, 15))]
    assert different(core, "format.bytes(each)", sizes, [bytes_text(each) for each in sizes]) == []


@pytest.mark.slow
def test_shares_are_those_of_the_command_line(core: Page) -> None:
    pairs = [
        *((each, 800) for each in range(800)),
        (0, 0),
        (0, 5),
        (5, 5),
        (1, 1000),
        (1, 1001),
        (99, 1000),
        (100, 1000),
        *zip(some(1000, 0, 6), some(1000, 3, 7), strict=True),
    ]
    assert (
        different(core, "format.share(...each)", [list(each) for each in pairs], [share_text(*each).replace("-", NONE) for each in pairs])
        == []
    )


def test_counts_have_commas(core: Page) -> None:
    counts = [0, 1, 999, 1000, 123_456, 2**53, -1, -999, -1000, -1_234_567]
    halves = [0.5, 1.5, 2.5, 102.5, 103.5, 0.4, -0.4]
    assert core.evaluate("(all) => all.map(format.count)", halves) == ["0", "2", "2", "102", "104", "0", "0"]
    assert different(core, "format.count(each)", counts, [f"{each:,}".replace("-", MINUS) for each in counts]) == []
    large = [2**53 + 2, -(2**60), 1e300]  # a double has not all of their digits
    assert core.evaluate("(all) => all.map(format.count)", large) == ["about 9.007e+15", f"about {MINUS}1.153e+18", "about 1.000e+300"]


@pytest.mark.slow
def test_what_a_block_holds_comes_back(core: Page) -> None:
    rng = np.random.default_rng(0)
    columns: dict[str, Any] = {
        "empty": np.array([], np.int64),
        "bytes": rng.integers(-128, 128, 1000),
        "unsigned": rng.integers(0, 256, 1001, dtype=np.uint8),
        "shorts": rng.integers(-(2**15), 2**15, 7).astype(np.int16),
        "words": rng.integers(-(2**31), 2**31, 333),
        "large": rng.integers(-MOST_EXACT, MOST_EXACT + 1, 100),
        "extremes": np.array([MOST_EXACT, -MOST_EXACT, 0, MOST_EXACT]),
        "rising": np.cumsum(rng.integers(0, 100, 5000)) + 2**40,
        "one": np.array([-5]),
        "flags": np.array([True, False, True]),
        "floats": rng.normal(size=100) * 10.0 ** rng.integers(-300, 300, 100),
        "singles": rng.normal(size=9).astype(np.float32),
    }
    json = {"text": "</script>\u2028\u202e<!--é", "none": None, "list": [1, 2.5, True, {}], "lone": "\ud800x"}
    text = packed(PageBlock(json=json, columns=columns))
    found = core.evaluate(
        """async (text) => {
            document.body.append(dom.h("script", { type: "application/gzip;base64", id: "data-test" }, text));
            const { json, columns } = await data.block("test");
            document.getElementById("data-test").remove();
            return { json, columns: Object.fromEntries(Object.entries(columns).map(([name, each]) => [name, [...each]])) };
        }""",
        text,
    )
    assert found["json"] == {**json, "lone": "?x"}
    assert list(found["columns"]) == list(columns)
    for name, column in columns.items():
        assert [float(each) for each in found["columns"][name]] == [float(each) for each in column], name


def test_a_block_that_is_not_there_is_an_error(core: Page) -> None:
    assert core.evaluate("data.block('none').catch((error) => error.message)") == 'this page has no data "none"'


def test_state_goes_through_the_url(core: Page) -> None:
    for values in ({}, {"a": "1"}, {"a": "x y&z=?#%", "ü": "\u202e</script>", "n": "1.5e-7"}, {"__proto__x": "0"}):
        core.evaluate("(values) => { state.go('source', values); }", values)
        core.wait_for_function("state.viewName() === 'source'")
        assert core.evaluate("(keys) => keys.map((key) => state.get(key))", list(values)) == list(values.values())
        core.evaluate("state.set({ more: 7 })")
        assert core.evaluate("[state.number('more', 0), state.number('none', 3), state.get('none', 'else')]") == [7, 3, "else"]
        core.evaluate("state.set({ more: null })")
        assert core.evaluate("(keys) => keys.map((key) => state.get(key))", list(values)) == list(values.values())


def test_what_is_written_later_is_of_where_the_user_still_is(held: Page) -> None:
    gone = "to => new Promise((done) => { addEventListener('hashchange', done, { once: true }); location.hash = to; })"
    held.evaluate(gone, "one")
    held.evaluate("() => { state.setLater(() => ({ a: 1 }), 100); }")
    held.clock.run_for(99)
    assert held.evaluate("location.hash") == "#one"
    held.clock.run_for(1)
    assert held.evaluate("location.hash") == "#one?a=1"
    held.evaluate("() => { state.setLater(() => ({ a: 2 }), 100); }")
    held.evaluate(gone, "two")
    held.clock.run_for(100)
    assert held.evaluate("location.hash") == "#two"
    held.evaluate("() => { state.setLater(() => ({ a: 3 }), 100); }")
    held.evaluate(gone, "one")
    held.evaluate(gone, "two")  # and back
    held.clock.run_for(100)
    assert held.evaluate("location.hash") == "#two"


def test_a_damaged_url_is_no_error(core: Page) -> None:
    core.evaluate("state.go('memory', { x: 'y' })")
    core.evaluate("location.hash = '#%E0%A4%A?%&=&x'")
    assert core.evaluate("[state.viewName(), state.get('x'), state.number('x', 4)]") == ["", "", 4]
    core.evaluate("location.hash = ''")


def made(page: Page, rows: list[list[Any]], options: str = "filter: true") -> None:
    """Puts a table of (name, size) on the page."""
    page.evaluate(
        f"""(rows) => {{
            const columns = [{{ name: "name", of: (row) => row[0] }}, {{ name: "size", unit: "bytes", origin: "", of: (row) => row[1] }}];
            window.opened = [];
            document.getElementById("place").replaceChildren(table.table({{ label: "things", columns, rows, {options} }}));
        }}""",
        rows,
    )


def all_rows(page: Page) -> list[list[Any]]:
    return page.evaluate("document.querySelector('.scroller').allRows()")


def test_a_table_is_sorted_by_its_headings(core: Page) -> None:
    made(core, [["b", 2], ["a", None], ["c", 30], ["d", 2]])
    assert [row[0] for row in all_rows(core)] == ["b", "a", "c", "d"]
    core.click("th >> text=size")
    assert [row[0] for row in all_rows(core)] == ["c", "b", "d", "a"]
    assert core.get_attribute("th:nth-child(2)", "aria-sort") == "descending"
    core.click("th >> text=size")
    assert [row[0] for row in all_rows(core)] == ["a", "b", "d", "c"]
    core.focus("th:nth-child(1) button")
    core.keyboard.press("Enter")
    assert [row[0] for row in all_rows(core)] == ["a", "b", "c", "d"]
    assert core.get_attribute("th:nth-child(1)", "aria-sort") == "ascending"


def test_a_table_is_searched_for_words(core: Page) -> None:
    made(core, [["dot general", 1], ["add", 2], ["general add", 3]])
    core.fill("input", "GENERAL  d")
    assert [row[0] for row in all_rows(core)] == ["dot general", "general add"]
    assert core.inner_text("[role=status]") == "2 of 3 rows"
    core.fill("input", "nowhere")
    assert core.inner_text("tbody") == "nothing matches"
    core.fill("input", "")
    assert core.inner_text("[role=status]") == "3 rows"


def test_a_row_is_opened_by_mouse_and_keyboard(core: Page) -> None:
    made(core, [["x", 1], ["y", 2]], "open: (row) => window.opened.push(row[0])")
    core.click("tbody tr:nth-child(2) td:nth-child(2)")
    core.focus("tbody tr:nth-child(1) button")
    core.keyboard.press("Enter")
    assert core.evaluate("window.opened") == ["y", "x"]


TIP_SETTLED_MS, TIP_WAITS_MS = (int(re.findall(rf"{name} = (\d+)", asset("core/tip.js"))[0]) for name in ("SETTLED_MS", "ON_THE_WAY_MS"))
AT = """([x, y]) => { const found = document.elementFromPoint(x, y); return found.id || found.tagName; }"""
FOCUSED = """() => {
    const [here, tip] = [document.activeElement, document.getElementById("tip")];
    return { text: here.textContent, row: Number(here.closest("tr")?.getAttribute("aria-rowindex")) - 2, tag: here.tagName,
        tip: tip.hidden ? null : tip.textContent, described: here.getAttribute("aria-describedby") === "tip" };
}"""


def test_keys_read_a_table_cell_by_cell(core: Page) -> None:
    core.evaluate("value.learnClocks(1e9); value.learnOrigins({ '': 'From here.' })")
    made(core, [["b", 2048], ["a", 1]], "open: (row) => window.opened.push(row[0])")
    stops = "[...document.querySelectorAll('#place *')].filter((each) => each.tabIndex >= 0).length"
    assert core.evaluate(stops) == 1, "one stop of the Tab key"
    core.focus("th:nth-child(1) button")
    core.keyboard.press("ArrowRight")
    core.keyboard.press("Enter")
    assert core.get_attribute("th:nth-child(2)", "aria-sort") == "descending"
    core.keyboard.press("ArrowDown")
    exact = "2,048 bytes. From here."
    assert core.evaluate(FOCUSED) == {"text": "2.00 KiB", "row": 0, "tag": "TD", "tip": exact, "described": True}
    core.keyboard.press("Escape")
    assert core.evaluate(FOCUSED)["tip"] is None
    core.keyboard.press("ArrowDown")
    core.keyboard.press("ArrowDown")  # there is none below
    assert core.evaluate(FOCUSED)["tip"] == "1 byte. From here."
    core.keyboard.press("Home")
    core.keyboard.press("Enter")
    assert core.evaluate("window.opened") == ["a"]
    core.keyboard.press("Control+Home")
    assert core.evaluate(FOCUSED)["tag"] == "BUTTON"
    assert core.evaluate(stops) == 1


@pytest.fixture
def held(core: Page) -> Iterator[Page]:
    """The page with a clock that stands: a timer of the page ends when the test says how much time has passed."""
    core.evaluate("document.activeElement?.blur()")
    core.evaluate("value.learnClocks(1e9); value.learnOrigins({ '': 'From here.' })")
    core.mouse.move(2, 590)
    core.clock.install()
    hold_time(core)
    yield core
    core.clock.resume()


def test_a_pointer_that_passes_meets_the_next_number_and_not_a_tip_over_it(held: Page) -> None:
    made(held, [["b", 2048], ["a", 1]])
    tip, cell, below = (held.locator(each) for each in ("#tip", "tbody tr:nth-child(1) td.number", "tbody tr:nth-child(2) td.number"))
    held.mouse.move(*middle(cell))
    expect(tip).to_have_text("2,048 bytes. From here.")
    held.clock.run_for(TIP_SETTLED_MS - 1)
    assert held.evaluate(AT, middle(below)) == "TD"
    held.mouse.move(*middle(below))
    expect(tip).to_have_text("1 byte. From here.")
    held.mouse.move(*middle(cell))
    expect(tip).to_have_text("2,048 bytes. From here.")
    held.clock.run_for(TIP_SETTLED_MS - 1)
    expect(tip).not_to_have_class("settled")  # another tip has its own moment
    held.clock.run_for(1)
    expect(tip).to_have_class("settled")
    assert held.evaluate(AT, middle(below)) == "tip", "it lies over the next number"
    held.mouse.move(*middle(below))
    held.clock.run_for(2 * TIP_WAITS_MS)
    expect(tip).to_have_text("2,048 bytes. From here.")


def test_the_tip_stays_while_the_pointer_goes_to_it_and_reads_it(held: Page) -> None:
    """WCAG 2.1, 1.4.13: it can be hovered, stays, and Escape dismisses it."""
    made(held, [["b", 2048], ["a", 1]])
    tip, cell = held.locator("#tip"), held.locator("tbody tr:nth-child(1) td.number")
    held.mouse.move(*middle(cell))
    expect(tip).to_be_visible()
    held.clock.run_for(TIP_SETTLED_MS)
    x, y = middle(cell)
    x_to, y_to = middle(tip)
    for part in range(1, 9):
        held.mouse.move(x + (x_to - x) * part / 8, y + (y_to - y) * part / 8)
        held.clock.run_for(TIP_WAITS_MS - 1)  # it waits for a pointer that is on the way
    expect(tip).to_have_text("2,048 bytes. From here.")
    assert held.evaluate(AT, [x_to, y_to]) == "tip"
    held.mouse.dblclick(x_to, y_to)  # takes a word of it
    assert held.evaluate("getSelection().toString()").strip() in "2,048 bytes. From here."
    expect(tip).to_be_visible()
    held.keyboard.press("Escape")
    expect(tip).to_be_hidden()
    held.mouse.move(*middle(cell))
    expect(tip).to_be_visible()
    held.clock.run_for(TIP_SETTLED_MS)
    held.mouse.move(2, 590)  # away from both
    expect(tip).to_be_hidden()


def test_the_tip_of_what_has_the_focus_stays_while_the_pointer_is_elsewhere(held: Page) -> None:
    made(held, [["b", 2048]])
    held.focus("th:nth-child(2) button")
    held.keyboard.press("ArrowDown")
    expect(held.locator("#tip")).to_have_text("2,048 bytes. From here.")
    held.mouse.move(2, 580)
    held.mouse.move(2, 590)
    assert held.evaluate(FOCUSED)["described"]
    expect(held.locator("#tip")).to_be_visible()


def middle(locator: Locator) -> tuple[float, float]:
    """The middle of what is seen of an element, in CSS pixels."""
    box = locator.bounding_box()
    assert box is not None
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


@pytest.mark.slow
def test_keys_go_through_rows_that_are_not_drawn(core: Page) -> None:
    core.evaluate("value.learnClocks(1e9); value.learnOrigins({})")
    made(core, [[f"row {index}", index] for index in range(10_000)])
    core.mouse.move(30, 80)  # it lies still over the rows
    core.focus("th:nth-child(2) button")
    seen = """() => {
        const [cell, box] = [document.activeElement, document.querySelector(".scroller")].map((each) => each.getBoundingClientRect());
        return cell.top >= box.top - 1 && cell.bottom <= box.bottom + 1;
    }"""
    for key, row in (("Control+End", 9999), ("ArrowUp", 9998), ("PageUp", 9977), ("Control+Home", -1), ("PageDown", 20), ("ArrowDown", 21)):
        core.keyboard.press(key)
        assert core.evaluate(FOCUSED)["row"] == row, key
        assert core.evaluate(seen), key
    core.evaluate("document.querySelector('.scroller').scrollTop = 5000 * 26")
    core.wait_for_function("document.querySelector(`tr[aria-rowindex='5002']`)")
    assert core.evaluate(FOCUSED)["row"] == 21, "what has the focus keeps it out of sight"
    for key in ("ArrowDown", "End"):
        core.keyboard.press(key)
        assert core.evaluate(seen)
    found = core.evaluate(FOCUSED)
    assert (found["row"], found["tip"]) == (22, "22 bytes.")


def test_an_edge_says_that_there_is_more(core: Page) -> None:
    made(core, [["wide" * 200, 1]])
    core.evaluate("document.querySelector('.scroller').style.width = '300px'")
    frame = core.locator(".edged")
    expect(frame).to_have_attribute("data-more-right", "")
    expect(frame).not_to_have_attribute("data-more-left", "")
    core.evaluate("document.querySelector('.scroller').scrollLeft = 1e6")
    expect(frame).to_have_attribute("data-more-left", "")
    expect(frame).not_to_have_attribute("data-more-right", "")


def test_cycles_of_two_clocks_are_compared_as_time(core: Page) -> None:
    core.evaluate("value.learnClocks(2e9, 1e9)")
    assert core.evaluate("['a', 'b'].map((side) => value.text(1000000, value.ofSide('cycles', side)))") == ["500 µs", "1.00 ms"]
    assert core.evaluate("value.alike(4000000, 1000000, 'cycles')") == {"a": 0.002, "b": 0.001, "unit": "seconds"}
    assert core.evaluate("value.changeOf(4000000, 1000000, 'cycles').textContent") == "\u22121.00 ms (\u221250.00 %)"
    assert core.evaluate("value.changeOf(2000000, 1000000, 'cycles').textContent") == "="
    slight = "(([a, b]) => { const { className, textContent } = value.changeOf(a, b, 'cycles'); return [className, textContent]; })"
    assert core.evaluate(f"{slight}([2000000, 1000040])") == ["", "+40.0 ns (+0.00 %)"]
    assert core.evaluate(f"{slight}([2000000, 1000060])") == ["grows", "+60.0 ns (+0.01 %)"]
    assert core.evaluate("value.alike(4, 1, 'bytes')") == {"a": 4, "b": 1, "unit": "bytes"}
    core.evaluate("value.learnClocks(1e9)")
    assert core.evaluate("value.alike(4000000, 1000000, 'cycles')") == {"a": 4_000_000, "b": 1_000_000, "unit": "cycles"}


def test_numbers_say_what_they_are(core: Page) -> None:
    core.evaluate("value.learnClocks(1e9); value.learnOrigins({ here: 'From here.' })")
    made_of = core.evaluate(
        """[[1234567, "cycles"], [2048, "bytes"], [0.125, "share"], [12345678, "flops"], [2.5, "number"], [3, "count"]]
            .map(([number, unit]) => { const each = value.valueOf(number, unit, "here"); return [each.textContent, each.dataset.tip]; })"""
    )
    assert made_of == [
        ["1.23 ms", "1,234,567 cycles. From here."],
        ["2.00 KiB", "2,048 bytes. From here."],
        ["12 %", "12.5 %. From here."],
        ["12.3 Mflop", "12,345,678 floating-point operations. From here."],
        ["2.50000", "2.5. From here."],
        ["3", "3. From here."],
    ]
    assert core.evaluate("value.valueOf(null, 'bytes', 'here').outerHTML") == '<span class="value">\u2013</span>'
    assert math.isclose(core.evaluate("Number(value.valueOf(0.1 + 0.2, 'number', '').dataset.value)"), 0.1 + 0.2, rel_tol=0)
