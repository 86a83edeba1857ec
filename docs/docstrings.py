"""Docstrings as Sphinx shows them: sections as lists, and words between backquotes as code that links where a public name stands.

A section is `Args:` and its like, with the text on the same line or indented below it. A dataclass without a section `Attributes:` gets
one from the comments beside its fields.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterator
from dataclasses import is_dataclass
from types import BuiltinMethodType

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.roles import XRefRole

_SECTION = re.compile(r"(Args|Attributes|Returns|Yields|Raises|Source): *(.*)")
_NAME = r"(?:\\\*){0,2}[A-Za-z_][\w.]*"  # stars are escaped
_ENTRY = re.compile(rf"({_NAME}(?:, {_NAME})*)(?: \([^)]*\))?:(?: +(.*))?")
_EXCEPTION = re.compile(r"[A-Z][\w.]*|[a-z_.]+\.[A-Z]\w*")  # may stand before the colon of an entry of `Raises`


def restructured(docstring: list[str]) -> list[str]:
    """The lines of a docstring in reStructuredText: text as it was, then one field for each section."""
    lines = [plain(line) for line in docstring]
    text: list[str] = []
    fields: list[str] = []
    index = 0
    while index < len(lines):
        match = _SECTION.fullmatch(lines[index])
        if match is None:
            text.append(lines[index])
            index += 1
            continue
        below = index + 1
        while below < len(lines) and (not lines[below].strip() or lines[below].startswith(" ")):
            below += 1
        body = textwrap.dedent("\n".join(lines[index + 1 : below])).rstrip("\n").split("\n")
        fields += [*field(match[1], [line for line in (match[2], *body) if line.strip()]), ""]
        index = below
    return [*text, "", *fields]


def commented_fields(source: str) -> list[str]:
    """A section of the fields of a class that a comment explains on the same line; empty if there are none."""
    found = re.findall(r"^    ([a-z]\w*): [^#\n]+?  # (.+)$", source, re.MULTILINE)
    return ["", "Attributes:", *(f"    {name}: {text}" for name, text in found)] if found else []


def field(section: str, body: list[str]) -> Iterator[str]:
    """The field of one section. `Args` and `Attributes` have entries; `Raises` has them where it names an exception before a colon."""
    entries = list(split(body, section))
    if not entries:
        yield f":{section}: {' '.join(line.strip() for line in body)}"
        return
    yield f":{section}:"
    for name, words in entries:
        shown = f":py:name:`{name}`" if section == "Raises" else f"**{name}**"
        yield f"    * {shown}: {words}"


def split(body: list[str], section: str) -> Iterator[tuple[str, str]]:
    """(name, text) of each entry of a section; nothing if it is plain text. An entry goes on in the lines that begin no other one."""
    if section not in ("Args", "Attributes", "Raises"):
        return
    name, words = "", ""
    outer = min((len(line) - len(line.lstrip()) for line in body), default=0)
    for line in body:
        match = _ENTRY.fullmatch(line.strip()) if len(line) - len(line.lstrip()) == outer else None
        if match is not None and (section != "Raises" or _EXCEPTION.fullmatch(match[1])):
            if name:
                yield name, words
            name, words = match[1], match[2] or ""
        elif name:
            words = f"{words} {line.strip()}"
        else:
            return
    if name:
        yield name, words


def plain(line: str) -> str:
    """A line of which only backquotes mean anything: what else reStructuredText would read as markup is escaped."""
    parts = re.split(r"(``?[^`]*``?)", line)
    return "".join(part if part.startswith("`") else re.sub(r"([*|]|(?<=\w)_(?!\w))", r"\\\1", part) for part in parts)


class Name(XRefRole):
    """Code between backquotes: a link where it is a documented name, else code."""

    def process_link(
        self, env: BuildEnvironment, refnode: nodes.Element, has_explicit_title: bool, title: str, target: str
    ) -> tuple[str, str]:
        refnode["py:module"] = env.ref_context.get("py:module")
        refnode["py:class"] = env.ref_context.get("py:class")
        refnode["reftype"] = "obj"
        if target[:1].isupper():
            refnode["refspecific"] = True  # a class is found in any module
        text = f"{title} <{target}>" if has_explicit_title else title
        return text, text.removesuffix("()")


def _process(app: Sphinx, what: str, name: str, thing: object, options: object, lines: list[str]) -> None:
    if what == "class" and is_dataclass(thing) and not any(line.startswith("Attributes:") for line in lines):
        lines += commented_fields(inspect.getsource(thing))
    lines[:] = [] if what == "data" else restructured(lines)  # a constant has only the docstring of its type


def _skip(app: Sphinx, what: str, name: str, thing: object, skip: bool, options: object) -> bool | None:
    return True if isinstance(thing, BuiltinMethodType) else None  # it has the docstring of Python's own


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("autodoc-process-docstring", _process)
    app.connect("autodoc-skip-member", _skip)
    app.add_role_to_domain("py", "name", Name(innernodeclass=nodes.literal))
    return {"parallel_read_safe": True}
