"""Places in program text where one small edit makes a mutant, and draws of them by a seed.

A site lies on one line; `drawn` says where, and the text before and after. Messages, types and generated text have no sites.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import chain, pairwise, zip_longest
from typing import Final, Literal, get_args

Kind = Literal["operator", "constant", "bound", "condition", "return"]
_Edit = tuple[Kind, int, int, int, str]  # kind, line from 1, first and last byte, text instead

_BINARY: Final[Mapping[type[ast.operator], tuple[str, str]]] = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "+"),
    ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "*"),
    ast.Mod: ("%", "//"),
    ast.Pow: ("**", "*"),
    ast.LShift: ("<<", ">>"),
    ast.RShift: (">>", "<<"),
    ast.BitAnd: ("&", "|"),
    ast.BitOr: ("|", "&"),
    ast.BitXor: ("^", "&"),
}
_COMPARE: Final[Mapping[type[ast.cmpop], tuple[Kind, str, str]]] = {
    ast.Lt: ("bound", "<", "<="),
    ast.LtE: ("bound", "<=", "<"),
    ast.Gt: ("bound", ">", ">="),
    ast.GtE: ("bound", ">=", ">"),
    ast.Eq: ("operator", "==", "!="),
    ast.NotEq: ("operator", "!=", "=="),
    ast.Is: ("operator", "is", "is not"),
    ast.IsNot: ("operator", "is not", "is"),
    ast.In: ("operator", "in", "not in"),
    ast.NotIn: ("operator", "not in", "in"),
}
_BOOLEAN: Final[Mapping[type[ast.boolop], tuple[str, str]]] = {ast.And: ("and", "or"), ast.Or: ("or", "and")}

_JS_HIDDEN: Final = re.compile(r"""//[^\n]*|/\*.*?\*/|'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"|`(?:\\.|[^`\\])*`""", re.DOTALL)
_JS_OTHER: Final = dict(
    each.split() for each in ("=== !==", "!== ===", "< <=", "<= <", "> >=", ">= >", "&& ||", "|| &&", "+ -", "- +", "* /", "/ *", "% *")
)
_JS_OPERATOR: Final = re.compile(rf" ({'|'.join(sorted(map(re.escape, _JS_OTHER), key=len, reverse=True))}) ")
_JS_NUMBER: Final = re.compile(r"(?<![\w.$#])(\d+)(?![\w.])")
_JS_CONDITION: Final = re.compile(r"\b(?:if|while) \((.*)\) (?:\{|return\b|continue\b|break\b)")
_JS_RETURN: Final = re.compile(r"\breturn (.+);$")


@dataclass(frozen=True, kw_only=True)
class Site:
    """One edit of one line."""

    path: str  # from the project's root
    line: int = field(compare=False)  # from 1
    function: str  # the functions and classes around it, with dots; empty: none, or not known
    kind: Kind
    before: str  # the whole line
    after: str


def python_sites(path: str, text: str) -> list[Site]:
    """The sites of a Python file, in the order of its text."""
    lines = text.split("\n")
    encoded = [line.encode() for line in lines]
    found: list[Site] = []
    for function, (kind, line, start, end, instead) in sorted(_python_edits(ast.parse(text), encoded, ""), key=lambda each: each[1][1:]):
        after = encoded[line - 1][:start] + instead.encode() + encoded[line - 1][end:]
        found.append(Site(path=path, line=line, function=function, kind=kind, before=lines[line - 1], after=after.decode()))
    return found


def _python_edits(node: ast.AST, lines: list[bytes], function: str) -> Iterator[tuple[str, _Edit]]:
    for edit in _edits_of(node, lines):
        yield function, edit
    for child in _children(node):
        named = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        yield from _python_edits(child, lines, f"{function}.{child.name}".lstrip(".") if named else function)


def _children(node: ast.AST) -> Iterator[ast.AST]:
    """What may have sites: no types, no f-strings, whose places Python 3.11 does not know, and nothing that only types need."""
    if _is_for_types(node):
        return
    if isinstance(node, ast.Assign) and any(isinstance(target, ast.Name) and target.id == "__all__" for target in node.targets):
        return
    for name, value in ast.iter_fields(node):
        if name not in ("annotation", "returns", "type_params"):
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST) and not isinstance(child, ast.JoinedStr | ast.Assert | ast.ImportFrom):
                    yield child


def _edits_of(node: ast.AST, lines: list[bytes]) -> Iterator[_Edit]:
    match node:
        case ast.BinOp(left=left, op=op, right=right) if not _has_text(node):
            yield from _between(left, right, "operator", *_BINARY.get(type(op), ("", "")), lines)
        case ast.AugAssign(target=left, op=op, value=right) if type(op) in _BINARY and not _has_text(right):
            old, new = _BINARY[type(op)]
            yield from _between(left, right, "operator", f"{old}=", f"{new}=", lines)
        case ast.BoolOp(op=op, values=values):
            for left, right in pairwise(values):
                yield from _between(left, right, "operator", *_BOOLEAN[type(op)], lines)
        case ast.Compare(left=left, ops=ops, comparators=comparators):
            for before, op, after in zip([left, *comparators], ops, comparators, strict=False):
                yield from _between(before, after, *_COMPARE[type(op)], lines)
        case ast.Constant(value=bool() as value):
            yield from _whole(node, "constant", str(not value))
        case ast.Constant(value=int() as value):
            yield from _whole(node, "constant", str(value + 1))
        case ast.Constant(value=float() as value):
            yield from _whole(node, "constant", repr(value * 2 or 1.0))
        case ast.Return(value=ast.expr() as value) if not (isinstance(value, ast.Constant) and value.value in (None, False, True)):
            yield from _whole(value, "return", "None")
        case ast.comprehension(ifs=ifs):
            for test in ifs:
                yield from _negated(test, lines)
        case _:
            pass
    if isinstance(node, ast.If | ast.While | ast.IfExp) and not isinstance(node.test, ast.Constant) and not _is_for_types(node):
        yield from _negated(node.test, lines)


def _is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)


def _has_text(node: ast.AST) -> bool:
    return any(
        isinstance(part, ast.JoinedStr) or (isinstance(part, ast.Constant) and isinstance(part.value, str)) for part in ast.walk(node)
    )


def _whole(node: ast.expr, kind: Kind, instead: str) -> Iterator[_Edit]:
    if node.lineno == node.end_lineno:
        yield kind, node.lineno, node.col_offset, node.end_col_offset or 0, instead


def _negated(test: ast.expr, lines: list[bytes]) -> Iterator[_Edit]:
    for kind, line, start, end, _ in _whole(test, "condition", ""):
        yield kind, line, start, end, f"(not ({lines[line - 1][start:end].decode()}))"


def _between(left: ast.expr, right: ast.expr, kind: Kind, old: str, new: str, lines: list[bytes]) -> Iterator[_Edit]:
    """The operator between two operands of one line."""
    start = left.end_col_offset or 0
    if old and left.end_lineno == right.lineno:
        found = re.fullmatch(rf"[\s)]*({re.escape(old)})[\s(]*".encode(), lines[right.lineno - 1][start : right.col_offset])
        if found:
            yield kind, right.lineno, start + found.start(1), start + found.end(1), new


def javascript_sites(path: str, text: str) -> list[Site]:
    """The sites of the page's JavaScript: of its indented lines, which are those of functions, outside of strings and comments."""
    hidden = _JS_HIDDEN.sub(lambda found: re.sub(r"[^\n]", "\0", found[0]), text)
    found: list[Site] = []
    for number, (line, seen) in enumerate(zip(text.split("\n"), hidden.split("\n"), strict=True), 1):
        if seen.startswith("  "):
            for kind, start, end, instead in _javascript_edits(seen.rstrip("\0 "), line):
                found.append(Site(path=path, line=number, function="", kind=kind, before=line, after=line[:start] + instead + line[end:]))
    return found


def _javascript_edits(seen: str, line: str) -> Iterator[tuple[Kind, int, int, str]]:
    for found in _JS_OPERATOR.finditer(seen):
        yield ("bound" if found[1][0] in "<>" else "operator"), *found.span(1), _JS_OTHER[found[1]]
    for found in _JS_NUMBER.finditer(seen):
        yield "constant", *found.span(1), str(int(found[1]) + 1)
    for found in _JS_CONDITION.finditer(seen):
        if found[1].count("(") == found[1].count(")"):
            yield "condition", *found.span(1), f"!({line[slice(*found.span(1))]})"
    for found in _JS_RETURN.finditer(seen):
        if found[1] not in ("null", "undefined", "false") and all(
            found[1].count(opens) == found[1].count(closes) for opens, closes in ("()", "[]", "{}")
        ):
            yield "return", *found.span(1), "undefined"


def sites(files: Mapping[str, str]) -> list[Site]:
    """The sites of files by path, Python's and JavaScript's."""
    finders = {".py": python_sites, ".js": javascript_sites}
    return list(chain.from_iterable(finders[path[-3:]](path, text) for path, text in sorted(files.items()) if path[-3:] in finders))


def drawn(found: Iterable[Site], seed: int) -> list[Site]:
    """Sites as a seed draws them: of each kind in turn, and of a line once. What stands beside a site does not move it."""

    def chance(site: Site) -> bytes:
        return sha256(f"{seed} {site.path} {site.function} {site.before} {site.after}".encode()).digest()

    mixed = sorted(dict.fromkeys(found), key=chance)
    by_kind = ([site for site in mixed if site.kind == kind] for kind in get_args(Kind))
    first: dict[tuple[str, int], Site] = {}
    for site in chain.from_iterable(zip_longest(*by_kind)):
        if site is not None:
            first.setdefault((site.path, site.line), site)
    return list(first.values())
