"""What is seen: colours in every colour vision, on both grounds and on paper, and words that have room."""

import re
from collections.abc import Iterator
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from playwright.sync_api import Browser, Page

from tilestep.views.page.assets import asset
from tilestep.views.page.modules import joined

Color = NDArray[np.float64]
VISIONS: dict[str, Any] = {  # of linear RGB. Source: Machado, Oliveira, Fernandes 2009, severity 1; the last is luminance alone
    "normal": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
    "achromatopsia": [[0.2126, 0.7152, 0.0722]] * 3,
}
LUMINANCE = np.array([0.2126, 0.7152, 0.0722])
OKLAB = (  # Source: Ottosson 2020
    np.array([[0.41222147, 0.53633254, 0.05144599], [0.2119035, 0.68069955, 0.10739696], [0.08830246, 0.28171884, 0.6299787]]),
    np.array([[0.21045426, 0.79361779, -0.00407205], [1.9779985, -2.42859221, 0.45059371], [0.02590404, 0.78277177, -0.80867577]]),
)
LEAST_CONTRAST = {**dict.fromkeys(("ink", "faint", "link", "mark", "good", "bad"), 4.5), "edge": 3, "focus": 3, "wait": 1.6}
ON_GROUND = {"mark", "edge", "focus", "wait"}  # alone
LEAST_APART = 5.5  # hundredths of OKLab's lightness
COLORS, PIPELINE = "core/colors.js", "views/pipeline/looks.js"
WAITING = {"wait", "waiting", "idle"}  # one look, because it is one thing
ENTRY = """
import * as colors from "./core/colors.js";
Object.assign(window, { colors });
"""


def seen(color: str, vision: str) -> Color:
    """Linear RGB as someone with a colour vision sees it."""
    parts = np.array([int(color[place : place + 2], 16) for place in (1, 3, 5)]) / 255
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return np.clip(np.array(VISIONS[vision]) @ linear, 0, 1)


def contrast(one: Color, other: Color) -> float:
    """As WCAG defines it, from 1 to 21."""
    low, high = sorted((float(LUMINANCE @ one), float(LUMINANCE @ other)))
    return (high + 0.05) / (low + 0.05)


def apart(one: Color, other: Color) -> float:
    lab = [OKLAB[1] @ np.cbrt(OKLAB[0] @ each) for each in (one, other)]
    return 100 * float(np.linalg.norm(lab[0] - lab[1]))


def looks(path: str, begin: str, color: str = "color") -> dict[str, tuple[str, str]]:
    """Colour and hatch of each name, as a table of a file of the page declares them."""
    (body,) = re.findall(rf"{begin} = Object.freeze\(\{{\n(.*?)\n\}}\)", asset(path), re.DOTALL)
    found = re.findall(rf'^  "?([\w -]+?)"?: \{{.*?\b{color}: "(#\w{{6}})".*?hatch: "(\w+)"', body, re.MULTILINE)
    assert len(found) == body.count("hatch:")
    return {name: (shade, hatch) for name, shade, hatch in found}


def themes() -> dict[str, dict[str, str]]:
    """The colours of the page by theme."""
    light, preferred, chosen, _ = [
        dict(re.findall(r"--(\w+): (#\w{3,6});", block)) for block in re.findall(r"\{([^{}]*--ground:[^{}]*)\}", asset("page.css"))
    ]
    assert preferred == chosen
    return {"light": light, "dark": chosen}


@pytest.fixture(scope="module")
def blank(browser: Browser) -> Iterator[Page]:
    """A page whose globals are modules of what is drawn."""
    page = browser.new_page()
    page.set_content('<!doctype html><div id="place"></div>')
    page.evaluate(joined("entry.js", lambda path: ENTRY if path == "entry.js" else asset(path)))
    yield page
    page.context.close()


@pytest.mark.parametrize("vision", VISIONS)
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_words_and_edges_have_contrast(theme: str, vision: str) -> None:
    colors = {name: seen(color, vision) for name, color in themes()[theme].items()}
    low = {
        (name, ground): round(found, 2)
        for name, least in LEAST_CONTRAST.items()
        for ground in (("ground",) if name in ON_GROUND else ("ground", "panel"))
        if (found := contrast(colors[name], colors[ground])) < least
    }
    assert low == {}


@pytest.mark.parametrize("vision", VISIONS)
def test_looks_of_one_hatch_have_colors_that_differ(vision: str) -> None:
    kinds = {name: look for name, look in looks(COLORS, "KINDS").items() if name not in WAITING - {"waiting"}}
    tasks = {**looks(PIPELINE, "TASKS"), **{name: kinds[name] for name in ("stream-in", "collective")}, "of no stage": ("#7A8B99", "down")}
    waits = [looks(PIPELINE, "WAITS", color) for color in ("color", "dark")]
    near = {
        (one, other): round(found, 1)
        for together in (kinds, tasks, *waits)
        for (one, (color, hatch)), (other, (color2, hatch2)) in combinations(together.items(), 2)
        if hatch == hatch2 and (found := apart(seen(color, vision), seen(color2, vision))) < LEAST_APART
    }
    assert near == {}


@pytest.mark.slow
def test_hatches_are_seen_on_their_color(blank: Page) -> None:
    programs = re.findall(r"#\w{6}", re.findall(r"PROGRAMS = .*", asset(COLORS))[0])
    waits = looks(PIPELINE, "WAITS", "dark")
    tables = (looks(COLORS, "KINDS"), looks(PIPELINE, "TASKS"), looks(PIPELINE, "WAITS"), waits)
    every = {color for table in tables for color, _ in table.values()}
    assert {"#cfe0cb", "#3d5439"} <= {*programs}
    faint = {}
    for color in sorted({*every, *programs}):
        red, green, blue, part = map(float, re.findall(r"[\d.]+", blank.evaluate("(color) => colors.hatchInk(color)", color)))
        mixed = [round(part * ink + (1 - part) * int(color[place : place + 2], 16)) for ink, place in ((red, 1), (green, 3), (blue, 5))]
        found = contrast(seen("#{:02x}{:02x}{:02x}".format(*mixed), "normal"), seen(color, "normal"))
        if found < 2:
            faint[color] = round(found, 2)
    assert faint == {}


def test_neighbours_of_a_series_differ_in_hatch_and_color(blank: Page) -> None:
    found = blank.evaluate("[...Array(56).keys()].map((place) => colors.lookAt(place))")
    assert len({(each["color"], each["hatch"]) for each in found}) == 56
    assert all(one["color"] != other["color"] and one["hatch"] != other["hatch"] for one, other in pairwise(found))
