"""Reads a built site: what its pages load, where their links lead, and which names they document."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

_LOADING = {
    "script": "src",
    "img": "src",
    "iframe": "src",
    "link": "href",
    "source": "src",
    "video": "src",
    "audio": "src",
    "embed": "src",
    "object": "data",
}
_ELSEWHERE = re.compile(r"(?:https?:)?//")
# What makes a style sheet or a script load something: each is followed by an address.
_STYLES_LOAD = re.compile(r"""(?:@import\s*|url\(\s*)["']?((?:https?:)?//[^"')\s]+)""")
_SCRIPTS_LOAD = re.compile(
    r"""(?:fetch\(|import\(|importScripts\(|\.open\(\s*["'][A-Z]+["']\s*,|\.(?:src|href)\s*=|Worker\(|WebSocket\(|from|import)"""
    r"""\s*["'`]((?:https?:|wss?:)?//[^"'`\s]+)"""
)


@dataclass
class Page(HTMLParser):
    """One page of a site."""

    path: Path
    loads: list[str] = field(default_factory=list)  # addresses
    links: list[str] = field(default_factory=list)
    ids: set[str] = field(default_factory=set)
    signatures: list[str] = field(default_factory=list)  # names that the page documents
    emphasised: list[str] = field(default_factory=list)
    _within: str = ""

    def __post_init__(self) -> None:
        super().__init__()
        self.feed(self.path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self._within = tag
        if "id" in found:
            self.ids.add(found["id"])
        if tag == "dt" and "sig" in found.get("class", "").split() and "id" in found:
            self.signatures.append(found["id"])
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        if found.get(_LOADING.get(tag, "")):
            self.loads.append(found[_LOADING[tag]])
        self.loads += [part.split()[0] for part in found.get("srcset", "").split(",") if part.strip()]
        self.loads += _STYLES_LOAD.findall(found.get("style", ""))

    def handle_endtag(self, tag: str) -> None:
        self._within = ""

    def handle_data(self, data: str) -> None:
        if self._within == "style":
            self.loads += _STYLES_LOAD.findall(data)
        elif self._within == "script":
            self.loads += _SCRIPTS_LOAD.findall(data)
        elif self._within == "em":
            self.emphasised.append(data)


def pages(site: Path) -> list[Page]:
    """Every page of a site."""
    return [Page(path) for path in sorted(site.rglob("*.html"))]


def loaded_from_elsewhere(site: Path, read: Iterable[Page]) -> Iterator[str]:
    """'file loads address' for each thing that a reader's browser would fetch from another host."""
    for page in read:
        yield from (f"{page.path.relative_to(site)} loads {address}" for address in page.loads if _ELSEWHERE.match(address))
    for pattern, suffix in ((_STYLES_LOAD, "css"), (_STYLES_LOAD, "svg"), (_SCRIPTS_LOAD, "js"), (_SCRIPTS_LOAD, "mjs")):
        for path in sorted(site.rglob(f"*.{suffix}")):
            found = pattern.findall(path.read_text(encoding="utf-8"))
            yield from (f"{path.relative_to(site)} loads {address}" for address in found)


def dead_links(site: Path, read: Iterable[Page]) -> Iterator[str]:
    """'file -> address' for each link within the site, and each thing that a page loads from it, without a target."""
    ids = cache(lambda path: Page(path).ids)
    for page in read:
        for address in (*page.links, *page.loads):
            parts = urlsplit(address)
            if parts.scheme or _ELSEWHERE.match(address):
                continue
            target = (page.path.parent / unquote(parts.path)).resolve() if parts.path else page.path
            missing = not target.is_file() or (target.suffix == ".html" and parts.fragment and unquote(parts.fragment) not in ids(target))
            if missing:
                yield f"{page.path.relative_to(site)} -> {address}"
