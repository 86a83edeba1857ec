"""The page's own files."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Final

from tilestep.views.page.modules import joined

VIEWS: Final = (
    "findings",
    "what_if",
    "source",
    "memory",
    "liveness",
    "program",
    "operations",
    "execution",
    "pipeline",
    "system",
    "compare",
)
STYLES: Final = ("page.css", *(f"views/{name}.css" for name in VIEWS))


def asset(path: str) -> str:
    """The text of a file of `views/assets`."""
    return files("tilestep.views").joinpath("assets", path).read_text(encoding="utf-8")


@cache
def script() -> str:
    """The page's script."""
    return joined("main.js", asset)


@cache
def style() -> str:
    """The page's style."""
    return "\n".join(map(asset, STYLES))
