"""Mutants of a small text, the same for the same seed, and which tests are run for one."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from scripts.mutant_sites import Site, drawn, javascript_sites, located, python_sites, sites
from scripts.mutant_tests import _executed_lines
from scripts.mutants import REFERENCE, Lines, in_order, place

PYTHON = '''"""A docstring of 3 numbers."""
from typing import TYPE_CHECKING
__all__ = ["f"][0:1]
if TYPE_CHECKING:
    LIMIT = 1
class A:
    def f(self, x: Literal[3] = 4) -> Literal[5]:
        """Adds 1."""
        if x <= 2 and not self.é:
            raise ValueError(f"x is {x + 1}: " + "it must be more")
        x += 0.5
        y = [z for z in x if z is not None]
        return (y) == (x)
def g():
    return None
'''
JAVASCRIPT = """const TOP = 1;
export function f(a) {
  // a + 1
  if (a.size < 2) return null;
  const text = "1 + 2"; /* 3 + 4
  5 + 6 */
  return a.size + 1;
}
"""


def edits(sites: list[Site]) -> list[tuple[int, str, str]]:
    return [(site.line, site.kind, site.after.strip()) for site in sites]


def test_python_has_an_operator_a_constant_a_bound_a_condition_and_a_return() -> None:
    assert edits(python_sites("a.py", PYTHON)) == [
        (7, "constant", "def f(self, x: Literal[3] = 5) -> Literal[5]:"),
        (9, "condition", "if (not (x <= 2 and not self.é)):"),
        (9, "bound", "if x < 2 and not self.é:"),
        (9, "constant", "if x <= 3 and not self.é:"),
        (9, "operator", "if x <= 2 or not self.é:"),
        (11, "operator", "x -= 0.5"),
        (11, "constant", "x += 1.0"),
        (12, "condition", "y = [z for z in x if (not (z is not None))]"),
        (12, "operator", "y = [z for z in x if z is None]"),
        (13, "return", "return None"),
        (13, "operator", "return (y) != (x)"),
    ]


def test_javascript_has_sites_outside_of_strings_and_comments() -> None:
    assert edits(javascript_sites("a.js", JAVASCRIPT)) == [
        (4, "bound", "if (a.size <= 2) return null;"),
        (4, "constant", "if (a.size < 3) return null;"),
        (4, "condition", "if (!(a.size < 2)) return null;"),
        (7, "operator", "return a.size - 1;"),
        (7, "constant", "return a.size + 2;"),
        (7, "return", "return undefined;"),
    ]


def test_a_seed_draws_the_same_kinds_in_turn_and_a_line_once() -> None:
    found = python_sites("a.py", PYTHON)
    first = drawn(found, "1")
    assert first == drawn(list(found), "1")
    assert sorted(site.line for site in first) == [7, 9, 11, 12, 13]
    assert [site.kind for site in first[:2]] == ["operator", "constant"]
    assert len({tuple(drawn(found, str(seed))) for seed in range(20)}) > 1


def test_a_site_is_found_again_where_its_function_has_moved_to() -> None:
    site = next(site for site in python_sites("a.py", PYTHON) if site.line == 12)
    lower = "def other(x):\n        y = [z for z in x if z is not None]\n" + PYTHON.replace("__all__", "\n__all__")
    found = located(site, lower)
    assert found is not None
    assert (found.line, found.function, found.after) == (15, "A.f", site.after)
    assert located(site, PYTHON.replace("z is not None", "z")) is None


def test_tests_of_a_line_are_those_that_execute_it_or_share_what_does(tmp_path: Path) -> None:
    ran = {"wall": 1.0, "self": 0.5, "child": 0.1}
    records = [
        {"key": "", "files": {"sim/a.py": f"{1 << 3:x}"}},  # when it is imported
        {"key": "one", "uses": [], "files": {"sim/a.py": f"{1 << 7 | 1 << 9:x}"}, **ran},
        {"key": "fixture a", "uses": ["file b"], "files": {}},
        {"key": "file b", "own": 2.0, "files": {"sim/a.py": f"{1 << 8:x}"}},
        {"key": "two", "uses": ["fixture a"], "files": {}, **ran},
        {"key": "three", "own": 3.0, "files": {"sim/b.py": "ff"}, **ran},
    ]
    (tmp_path / "1.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records) + '{"key": "cut', encoding="utf-8")
    lines = Lines(tmp_path, [("src/tilestep/sim/a.py", number) for number in (3, 4, 7, 8)])
    found = {number: lines.tests("src/tilestep/sim/a.py", number) for number in (3, 4, 7, 8)}
    assert found == {3: {"one", "two"}, 4: set(), 7: {"one"}, 8: {"two"}}
    assert lines.cpu_s == {"one": 0.6, "two": 0.6, "three": 3.0}


def test_likely_killers_come_first() -> None:
    site = Site(path="src/tilestep/sim/play.py", line=1, function="", kind="bound", before="", after="")
    near = [
        "tests/unit/train/test_loop.py::k",
        "tests/unit/sim/test_play.py::a",
        "tests/unit/sim/test_sync.py::b",
        "tests/golden/test_time.py::c",
    ]
    cpu_s = dict(zip([*near, "tests/golden/test_time.py::d"], (9.0, 3.0, 2.0, 1.0, 0.5), strict=True))
    order = in_order(cpu_s, cpu_s, site, near[0])
    assert order == [near[0], near[1], near[2], "tests/golden/test_time.py::d", near[3]]


def test_lines_of_the_page_s_modules_are_those_whose_first_letter_ran() -> None:
    text = '"use strict";\n// core/a.js\nconst module0 = (() => {\nconst x = 1;\n\n  f();\n  g();\n'

    executed = bytearray(b"\1" * len(text))
    executed[text.index("f();")] = 0
    assert list(_executed_lines(text, executed)) == [
        ("views/assets/core/a.js", 1),
        ("views/assets/core/a.js", 4),
    ]


@pytest.mark.process
def test_a_site_is_found_in_a_file_that_has_moved(tmp_path: Path) -> None:
    git = ("git", "-c", "user.name=a", "-c", "user.email=a@b.c", "-C", str(tmp_path))
    former, later = tmp_path / "src/tilestep/old.py", tmp_path / "src/tilestep/new/place.py"
    later.parent.mkdir(parents=True)
    former.write_text(PYTHON)
    subprocess.run((*git, "init", "-q"), check=True)
    for _ in range(2):
        subprocess.run((*git, "add", "."), check=True)
        subprocess.run((*git, "commit", "-qm", "all"), check=True)
        if former.exists():
            subprocess.run((*git, "tag", REFERENCE), check=True)
            former.rename(later)
            later.write_text(f"# a line more\n{PYTHON}")
    site = sites({"src/tilestep/old.py": PYTHON})[0]
    assert place(tmp_path, site) == replace(site, path="src/tilestep/new/place.py", line=site.line + 1)
