"""The page's own files: minified where a build has made them so, else joined of the sources."""

from functools import cache
from importlib.resources import files
from typing import Final

from tilestep.views.page.modules import SCRIPT, STYLE, joined, joined_style

_FOLDER: Final = files("tilestep.views") / "assets"


def asset(path: str) -> str:
    """The text of a file of `views/assets`."""
    return _FOLDER.joinpath(path).read_text(encoding="utf-8")


@cache
def script() -> str:
    """The page's script."""
    return _built(SCRIPT) or joined("main.js", asset)


@cache
def style() -> str:
    """The page's style."""
    return _built(STYLE) or joined_style("main.css", asset)


def _built(name: str) -> str:
    return asset(name) if _FOLDER.joinpath(name).is_file() else ""
