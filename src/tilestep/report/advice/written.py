"""The statements that the user wrote, and what they say with an edit: code for findings, read from the user's source."""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from typing import Final

from tilestep.record.source_lines import source_text
from tilestep.report.advice.finding import Line
from tilestep.report.advice.phrases import CPU_DEFAULT

LONGEST: Final = 160  # characters of a line of code
COMPREHENSIONS: Final = (ast.ListComp, ast.GeneratorExp, ast.SetComp, ast.DictComp)
_MOST_LINES: Final = 4  # of a statement
_COMPOUND: Final = (ast.For, ast.While, ast.If, ast.With, ast.Try, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Match)
_SCOPES: Final = (ast.FunctionDef, ast.AsyncFunctionDef)
_COPIES: Final = frozenset({"asarray", "array"})  # of an array of the host, by jax.numpy
_JNP: Final = frozenset({"jnp", "jax"})  # what comes before them

Change = Callable[[ast.expr], ast.expr | None]
"""An edit of an expression; None: it stays."""


def statement(line: Line | None) -> ast.stmt | None:
    """The only statement on a line that has no others in it; None if there are several, or the source is unknown."""
    if line is None:
        return None
    found = [each for each in _statements(source_text(line.file) or "") if each.lineno <= line.number <= (each.end_lineno or each.lineno)]
    return found[0] if len(found) == 1 else None


def verbatim(line: Line | None) -> str:
    """The only statement on a line as the user wrote it; '' if it is unknown or long."""
    found = statement(line)
    text = "" if found is None or line is None else ast.get_source_segment(source_text(line.file) or "", found) or ""
    margin = 0 if found is None else found.col_offset
    rows = [row if number == 0 or row[:margin].strip() else row[margin:] for number, row in enumerate(text.splitlines())]
    return _short("\n".join(rows))


def on_cpu(lines: Sequence[Line]) -> str:
    """What a line says, run on the CPU. Args: lines: the first of them is shown."""
    code = verbatim(lines[0]) if lines else ""
    if not code:
        return ""
    more = "  # and so the other lines" if len(lines) > 1 else ""
    return f"with {CPU_DEFAULT}:{more}\n" + "\n".join(f"    {row}" for row in code.splitlines())


def without_copies(line: Line | None) -> str:
    """A statement without the copies that jnp.asarray and jnp.array make; '' if it has none."""
    return changed(statement(line), lambda node: node.args[0] if isinstance(node, ast.Call) and _copies(node) else None)


def jitted_once(line: Line | None) -> str:
    """A statement that gives a name to a value, which a jitted function makes: 'w = jax.jit(lambda: init(key))()'; '' if it is none."""
    found = statement(line)
    if not isinstance(found, ast.Assign):
        return ""
    made = ast.parse("jax.jit(lambda: 0)()", mode="eval").body
    assert isinstance(made, ast.Call)
    assert isinstance(made.func, ast.Call)
    made.func.args = [ast.Lambda(args=_NO_ARGUMENTS, body=found.value)]
    return _short(ast.unparse(ast.Assign(targets=found.targets, value=made, lineno=1)))


def function_of(lines: Iterable[Line]) -> ast.FunctionDef | None:
    """The innermost function that has all of some lines; None if there is none, or it has a decorator."""
    known = list(lines)
    files = {line.file for line in known}
    if len(files) != 1:
        return None
    [file] = files
    numbers = [line.number for line in known]
    found = [
        each
        for each in _functions(source_text(file) or "")
        if each.body[0].lineno <= min(numbers) and max(numbers) <= (each.end_lineno or each.lineno)
    ]
    return found[-1] if found and not found[-1].decorator_list else None


def names_around(line: Line) -> frozenset[str]:
    """The names in the innermost function around a line, or in its file outside of functions."""
    nodes = nodes_of(source_text(line.file) or "")
    scopes = [node for node in nodes if isinstance(node, _SCOPES) and node.lineno <= line.number <= (node.end_lineno or node.lineno)]
    waiting: list[ast.AST] = list(scopes[-1].body) if scopes else list(nodes[:1])
    found: set[str] = set()
    while waiting:
        node = waiting.pop()
        found |= {node.id} if isinstance(node, ast.Name) else set()
        if isinstance(node, _SCOPES):
            found.add(node.name)
        elif not isinstance(node, ast.Lambda):
            waiting += ast.iter_child_nodes(node)
    return frozenset(found | {each.arg for scope in scopes[-1:] for each in ast.walk(scope.args) if isinstance(each, ast.arg)})


def lines_of(lines: Iterable[Line | None]) -> list[Line]:
    """Each that is known, once."""
    return list(dict.fromkeys(line for line in lines if line is not None))


def in_loop(line: Line, inside: ast.expr) -> bool:
    """Whether an expression of the line's file is in the body of a loop."""
    place = inside.lineno, inside.col_offset
    loops = [node for node in nodes_of(source_text(line.file) or "") if isinstance(node, ast.For | ast.While)]
    return any(_begin(loop.body[0]) <= place <= _end(loop.body[-1]) for loop in loops)


def _begin(node: ast.stmt) -> tuple[int, int]:
    return node.lineno, node.col_offset


def _end(node: ast.stmt) -> tuple[int, int]:
    return node.end_lineno or node.lineno, node.end_col_offset or 0


def changed(found: ast.stmt | None, change: Change) -> str:
    """A statement with some of its expressions changed; '' if none is, or it is long."""
    if found is None:
        return ""
    edit = _Edit(change)
    copy = edit.visit(deepcopy(found))
    return _short(ast.unparse(ast.fix_missing_locations(copy))) if edit.times else ""


def calls_of(found: ast.stmt | None, names: Iterable[str]) -> list[ast.Call]:
    """The calls in a statement of functions with these names."""
    known = frozenset(names)
    return [node for node in ast.walk(found) if isinstance(node, ast.Call) and last_name(node.func) in known] if found is not None else []


def constants(files: Iterable[str], value: int) -> list[tuple[Line, str, str]]:
    """The statements with a number, as the user wrote it: their lines, themselves with another in its place ('{}'), and a name for it."""
    return [(Line(file=file, number=line), code, name) for file in dict.fromkeys(files) for line, code, name in _constants(file, value)]


def _constants(file: str, value: int) -> list[tuple[int, str, str]]:
    found: list[tuple[int, str, str]] = []
    for each in _statements(source_text(file) or ""):
        for name, node in _named_values(each):
            if isinstance(node, ast.Constant) and type(node.value) is int and node.value == value:
                code = changed(each, lambda other, node=node: ast.Name("__number__") if _same(other, node) else None)
                if code.count("__number__") == 1:
                    found.append((node.lineno, code.replace("{", "{{").replace("}", "}}").replace("__number__", "{}"), name))
    return found


def _named_values(each: ast.stmt) -> list[tuple[str, ast.expr]]:
    """What a statement gives names to: 'BATCH = 64', and 'f(batch=64)'."""
    named = [(keyword.arg or "", keyword.value) for node in ast.walk(each) if isinstance(node, ast.Call) for keyword in node.keywords]
    if isinstance(each, ast.Assign) and len(each.targets) == 1:
        named.append((last_name(each.targets[0]), each.value))
    elif isinstance(each, ast.AnnAssign) and each.value is not None:
        named.append((last_name(each.target), each.value))
    return named


def _same(one: ast.expr, other: ast.expr) -> bool:
    """Whether two are the same number; a statement that is parsed again has other places."""
    return isinstance(one, ast.Constant) and isinstance(other, ast.Constant) and one.value == other.value and type(one.value) is int


class _Edit(ast.NodeTransformer):
    def __init__(self, change: Change) -> None:
        self._change = change
        self.times = 0

    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        after = self._change(node) if isinstance(node, ast.expr) else None
        self.times += after is not None
        return node if after is None else after


def _copies(node: ast.Call) -> bool:
    """jnp.asarray(x), and the like."""
    func = node.func
    return (
        isinstance(func, ast.Attribute)
        and func.attr in _COPIES
        and (last_name(func.value) == "numpy" or (isinstance(func.value, ast.Name) and func.value.id in _JNP))
        and len(node.args) == 1
        and not node.keywords
    )


def _short(code: str) -> str:
    rows = code.splitlines()
    return code if len(rows) <= _MOST_LINES and all(len(row) <= LONGEST for row in rows) else ""


_NO_ARGUMENTS: Final = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])


def last_name(node: ast.expr) -> str:
    """'jit' of jax.jit, and 'x' of x; '' of others."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


@functools.lru_cache(maxsize=16)
def nodes_of(text: str) -> tuple[ast.AST, ...]:
    """All nodes of a source, those further out first. Text that is no Python has none."""
    try:
        return tuple(ast.walk(ast.parse(text)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()


def _statements(text: str) -> list[ast.stmt]:
    """Those that have no others in them."""
    return [node for node in nodes_of(text) if isinstance(node, ast.stmt) and not isinstance(node, _COMPOUND)]


def _functions(text: str) -> list[ast.FunctionDef]:
    return [node for node in nodes_of(text) if isinstance(node, ast.FunctionDef)]
