"""Joins the page's ES modules into one script, so that one file works from `file://` and its hash can stand in the page's policy.

A module here has imports of the form `import { a, b } from "./file.js";` or `import * as a from "./file.js";`, one on a line, and exports
declarations: `export function`, `export async function`, `export const` and `export class`. Each becomes a function's body that returns its
exports, after those that it imports. A style has lines `@import "file.css";`.

This file imports nothing of the package: `setup.py` runs it by itself, to minify what it joins into a wheel.
"""

import posixpath
import re
from collections.abc import Callable
from typing import Final

_IMPORT: Final = re.compile(r'^import (?:\{ ([\w$, ]+) \}|\* as ([\w$]+)) from "(\.\.?/[./\w-]+)";$', re.M)
_EXPORT: Final = re.compile(r"^export (?:async )?(?:function\*?|const|class) ([\w$]+)", re.M)
_STYLE: Final = re.compile(r'^@import "([./\w-]+)";$', re.M)
_OTHER: Final = re.compile(r"^\s*(?:import\b|export\b).*$", re.M)

SCRIPT: Final = "page.min.js"  # a build makes it of main.js and main.css
STYLE: Final = "page.min.css"


def joined(main: str, read: Callable[[str], str]) -> str:
    """One script of a module and all that it imports.

    Args:
        main: path of the module.
        read: gives the text of a path.
    Raises: ValueError for an import or export of another form, or for modules that import each other in a circle.
    """
    order: list[str] = []
    texts: dict[str, str] = {}
    _visit(main, read, (), order, texts)
    names = {path: f"module{number}" for number, path in enumerate(order)}
    return "\n".join(['"use strict";', *(_wrapped(path, texts[path], names) for path in order)])


def joined_style(main: str, read: Callable[[str], str]) -> str:
    """A style with the files that it imports in their places. Args: main: its path. read: gives the text of a path."""
    return _STYLE.sub(lambda found: read(found[1]), read(main))


def _visit(path: str, read: Callable[[str], str], around: tuple[str, ...], order: list[str], texts: dict[str, str]) -> None:
    if path in around:
        raise ValueError(f"module {path} imports itself through {', '.join(around[around.index(path) + 1 :])}")
    if path in texts:
        return
    texts[path] = text = read(path)
    for found in _IMPORT.finditer(text):
        _visit(_beside(path, found[3]), read, (*around, path), order, texts)
    order.append(path)


def _beside(path: str, other: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(path), other))


def _wrapped(path: str, text: str, names: dict[str, str]) -> str:
    def imported(found: re.Match[str]) -> str:
        module = names[_beside(path, found[3])]
        return f"const {found[2]} = {module};" if found[2] else f"const {{ {found[1].replace(' as ', ': ')} }} = {module};"

    exports = [found[1] for found in _EXPORT.finditer(text)]
    body = _IMPORT.sub(imported, text)
    body = _EXPORT.sub(lambda found: found[0].removeprefix("export "), body)
    other = _OTHER.search(body)
    if other is not None:
        raise ValueError(f"module {path} has {other[0].strip()!r}: imports are of one line, and exports of declarations")
    return f"// {path}\nconst {names[path]} = (() => {{\n{body}\nreturn {{ {', '.join(exports)} }};\n}})();"
