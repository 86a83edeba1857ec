"""What a seed draws of a text is what is judged, also when the text has moved."""

from scripts.mutant_sites import drawn, sites

PYTHON = """
def halves(count: int, *, least: int = 2) -> int:
    if count < least:
        return 0
    return count // 2 + 1
"""
PAGE = "function middle(from, to) {\n  return (from + to) / 2;  // 3 + 4\n}\n"


def draw(seed: int, **files: str) -> list[str]:
    return [site.after.strip() for site in drawn(sites({name.replace("_", "."): text for name, text in files.items()}), seed)]


def test_a_seed_draws_each_line_once_and_the_same_of_a_text_that_has_moved() -> None:
    once = draw(1, halves_py=PYTHON, middle_js=PAGE)
    assert len(once) == 5
    assert draw(1, middle_js=f"// first\n{PAGE}", halves_py=f'"""First."""\n{PYTHON}') == once
    assert draw(2, halves_py=PYTHON, middle_js=PAGE) != once


def test_a_site_is_one_edit_outside_of_types_and_comments() -> None:
    found = {(site.kind, site.after.strip()) for site in sites({"halves.py": PYTHON, "middle.js": PAGE})}
    assert found == {
        ("constant", "def halves(count: int, *, least: int = 3) -> int:"),
        ("bound", "if count <= least:"),
        ("condition", "if (not (count < least)):"),
        ("constant", "return 1"),
        ("return", "return None"),
        ("operator", "return count * 2 + 1"),
        ("operator", "return count // 2 - 1"),
        ("constant", "return count // 3 + 1"),
        ("constant", "return count // 2 + 2"),
        ("operator", "return (from - to) / 2;  // 3 + 4"),
        ("operator", "return (from + to) * 2;  // 3 + 4"),
        ("constant", "return (from + to) / 3;  // 3 + 4"),
        ("return", "return undefined;  // 3 + 4"),
    }
