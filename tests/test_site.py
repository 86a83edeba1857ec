"""The documentation builds without a warning, needs no network, and has a page for everything."""

import importlib
import re
import xml.etree.ElementTree as ET
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from scripts.report_pictures import LIVE
from tests.documents import documents, local_links
from tests.processes import ROOT, run_python
from tests.site import Page, dead_links, loaded_from_elsewhere, pages
from tests.test_public_names import PUBLIC_NAMES

API = "docs/reference/api"
KINDS = {"tutorials": "tutorial", "how-to": "how-to", "reference": "reference", "explanation": "explanation"}
KINDS_ELSEWHERE = {
    "ARCHITECTURE.html": "explanation",
    "CHANGELOG.html": "reference",
    "CONTRIBUTING.html": "how-to",
    "SECURITY.html": "reference",
    "benchmarks/README.html": "reference",
    "docs/glossary.html": "reference",
}
WITHOUT_KIND = {"README.html", "docs/index.html", "index.html", "genindex.html", "py-modindex.html", "search.html"}
PICTURES = sorted((ROOT / "docs" / "pictures").rglob("*.svg"))


def wrong_kinds(site: Path, read: list[Page]) -> list[str]:
    """Pages without a line that names their kind, or with another kind than their folder's."""
    wrong: list[str] = []
    for page in read:
        name = page.path.relative_to(site).as_posix()
        kind = KINDS_ELSEWHERE.get(name) or (
            "tutorial" if name.startswith("examples/") else KINDS.get(Path(name).parts[1] if "/" in name else "")
        )
        if name not in WITHOUT_KIND and page.emphasised[:1] != [f"Kind: {kind}."]:
            wrong.append(f"{name} has no line '*Kind: {kind}.*' below its title")
    return wrong


def wrongly_documented(documented: list[str]) -> list[str]:
    """Public names that do not have one description. A thing with several public names has it under one of them."""
    names_of: defaultdict[object, list[str]] = defaultdict(list)
    for public in PUBLIC_NAMES:
        module, _, name = public.rpartition(".")
        value = getattr(importlib.import_module(module), name)
        names_of[id(value) if callable(value) else public].append(public)
    times = Counter(documented)
    return [f"{' = '.join(names)}: {count}" for names in names_of.values() if (count := sum(times[name] for name in names)) != 1]


def test_every_page_names_its_kind_and_every_public_name_is_described_once() -> None:
    """By the pages' sources. What the built site adds is slow to see: references within docstrings, and what themes and scripts load."""
    for folder, kind in KINDS.items():
        for path in (ROOT / "docs" / folder).rglob("*.md"):
            assert re.findall(r"^\*(Kind: .*)\*$", path.read_text(encoding="utf-8"), re.MULTILINE) == [f"Kind: {kind}."], path
    described = [
        name
        for path in (ROOT / API).glob("*.md")
        for name in re.findall(r"^\.\. (?:auto|py:)\w+:: ([\w.]+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    ]
    assert wrongly_documented(described) == []


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_site_is_whole(tmp_path: Path) -> None:
    site = tmp_path / "site"
    options = ("--quiet", "--fail-on-warning", "--keep-going", "--conf-dir", "docs", "--doctree-dir", str(tmp_path / "doctrees"))
    done = run_python("-m", "sphinx", *options, ".", str(site))
    assert done.returncode == 0, done.stderr
    read = pages(site)
    api = [page for page in read if page.path.is_relative_to(site / API)]
    assert (site / "searchindex.js").is_file()
    assert list(loaded_from_elsewhere(site, read)) == []
    made_later = {f"docs/how-to/reports.html -> ../../reports/{name}.html" for name in LIVE}  # by `make docs`, of the examples
    assert set(dead_links(site, read)) == made_later
    assert wrong_kinds(site, read) == []
    modules = [name for page in api for name in page.ids if name.startswith("module-")]
    assert wrongly_documented([name for page in api for name in page.signatures] + [name.removeprefix("module-") for name in modules]) == []


def test_the_index_and_the_indexes_below_it_name_every_page() -> None:
    indexes = [
        ROOT / name
        for name in ("docs/index.md", "docs/reference/api/index.md", "docs/explanation/decisions/index.md", "examples/README.md")
    ]
    named = {(index.parent / link).resolve() for index in indexes for link in local_links(index.read_text(encoding="utf-8"))}
    assert {*documents(ROOT), *(ROOT / "examples").glob("*.ipynb")} - named == {ROOT / "docs" / "index.md"}


def test_pictures_are_legible_in_dark_and_light() -> None:
    """A picture has a ground of its own below everything, or colours for either."""
    assert PICTURES
    for path in PICTURES:
        text = path.read_text(encoding="utf-8")
        assert ET.fromstring(text).tag == "{http://www.w3.org/2000/svg}svg", path
        assert "prefers-color-scheme: dark" in text or re.search(r'fill(: |=")#fff(fff)?\b', text), path
