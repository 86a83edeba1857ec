"""What the user wrote, read from the source: the lines that advice names."""

import ast
import functools
import sys
from collections.abc import Iterable
from typing import Final

from tilestep.advice.finding import Line
from tilestep.recording.source_lines import source_text

_COMPOUND: Final = (ast.For, ast.While, ast.If, ast.With, ast.Try, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Match)
_LOOKS: Final = frozenset({  # functions that fetch values, or only look at them
    "add_scalar", "append", "array", "asarray", "block_until_ready", "concatenate", "debug", "device_get", "dict", "enumerate", "extend",
    "float", "format", "info", "int", "isfinite", "isinf", "isnan", "item", "len", "list", "log", "map", "max", "mean", "min", "print",
    "range", "round", "set_description", "set_postfix", "sorted", "stack", "str", "sum", "tolist", "tree_map", "tuple", "warning",
    "write", "writerow", "zip",
})  # fmt: skip
_OF_HOST: Final = frozenset({  # names in functions that cannot be jitted: of what reads, writes, or computes on the host
    "append", "block_until_ready", "device_get", "float", "input", "item", "np", "numpy", "open", "pd", "print", "random", "tolist", "write"
})  # fmt: skip


def in_loop(line: Line, inside: ast.expr | None = None) -> bool:
    """Whether a line, or an expression of the line's file, is in the body of a loop."""
    loops = [node for node in nodes_of(source_text(line.file) or "") if isinstance(node, ast.For | ast.While)]
    if inside is None:
        return any(loop.body[0].lineno <= line.number <= _end(loop.body[-1])[0] for loop in loops)
    return any(_begin(loop.body[0]) <= _begin(inside) <= _end(loop.body[-1]) for loop in loops)


def _begin(node: ast.stmt | ast.expr) -> tuple[int, int]:
    return node.lineno, node.col_offset


def _end(node: ast.stmt) -> tuple[int, int]:
    return node.end_lineno or node.lineno, node.end_col_offset or 0


def constants(files: Iterable[str], value: int) -> list[tuple[Line, str, str]]:
    """The places at which a number gets a name: 'BATCH = 64', and 'f(batch=64)'. Line, name and statement of each."""
    found: list[tuple[Line, str, str]] = []
    for file in dict.fromkeys(files):
        nodes = nodes_of(source_text(file) or "")
        for each in (node for node in nodes if isinstance(node, ast.stmt) and not isinstance(node, _COMPOUND)):
            for name, node in _named_values(each):
                if isinstance(node, ast.Constant) and type(node.value) is int and node.value == value:
                    found.append((Line(file=file, number=node.lineno), name, ast.unparse(each)))
    return found


def _named_values(each: ast.stmt) -> list[tuple[str, ast.expr]]:
    named = [(keyword.arg or "", keyword.value) for node in ast.walk(each) if isinstance(node, ast.Call) for keyword in node.keywords]
    if isinstance(each, ast.Assign) and len(each.targets) == 1:
        named.append((last_name(each.targets[0]), each.value))
    elif isinstance(each, ast.AnnAssign) and each.value is not None:
        named.append((last_name(each.target), each.value))
    return named


def needed_at(lines: Iterable[Line], *functions: str) -> dict[tuple[str, int], frozenset[str]]:
    """Those of some lines at which values are read that give them to functions, such as an evaluation or a checkpoint, with their names.

    Args: lines: those at which `tested_at` is true count for none. functions: that count for no such.
    """
    known = (line for line in lines if not tested_at(line))
    found = {(line.file, line.number): (called_at(line) | _given_by(line)) - _LOOKS - {*functions} for line in known}
    return {line: names for line, names in found.items() if names}


def _given_by(line: Line) -> frozenset[str]:
    """The names of functions that get what a line gives a name, further down in the same function."""
    names, below = _named_by(line)
    calls = (node for node in nodes_of(source_text(line.file) or "") if isinstance(node, ast.Call) and node.lineno in below)
    given = [(last_name(call.func), [*call.args, *(each.value for each in call.keywords)]) for call in calls]
    return frozenset(name for name, values in given if name and any(_has_one(value, names) for value in values))


def tested_at(line: Line) -> bool:
    """Whether what is read on a line decides what the program does next: a test is on it, or further down in the same function."""
    names, below = _named_by(line)
    tests = [node for node in nodes_of(source_text(line.file) or "") if isinstance(node, ast.If | ast.While)]
    on_line = [node for node in tests if _is_on(node.test, line)]
    bodies = [body for node in on_line for body in node.body if not isinstance(body, ast.Raise)]
    if any(_is_on(each, line) for body in bodies for each in ast.walk(body) if isinstance(each, ast.Call)):
        return False  # 'if step % 10 == 0: print(loss)' on one line
    return bool(on_line) or any(node.lineno in below and _has_one(node.test, names) for node in tests)


def _named_by(line: Line) -> tuple[set[str], range]:
    """The names that a line gives to values, and the lines further down in the same function."""
    assigns = [node for node in nodes_of(source_text(line.file) or "") if isinstance(node, ast.Assign | ast.AnnAssign)]
    names = {
        each.id
        for node in assigns
        if _is_on(node, line)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        for each in ast.walk(target)
        if isinstance(each, ast.Name)
    }
    around = function_at(line)
    return names, range(line.number + 1, (around.end_lineno or 0) + 1 if around is not None else sys.maxsize)


def function_at(line: Line) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    """The innermost function that a line is in the body of."""
    nodes = nodes_of(source_text(line.file) or "")
    around = (node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return next((node for node in reversed(list(around)) if _begin(node.body[0])[0] <= line.number <= _end(node)[0]), None)


def jittable_at(line: Line) -> tuple[str, Line] | None:
    """The function that a line is in, and its line, if nothing in its text needs the host; None otherwise, and for methods."""
    function = function_at(line)
    if function is None or isinstance(function, ast.AsyncFunctionDef):
        return None
    nodes = nodes_of(source_text(line.file) or "")
    used = {last_name(node) for node in ast.walk(function) if isinstance(node, ast.expr)}
    is_method = any(function in node.body for node in nodes if isinstance(node, ast.ClassDef))
    waits = any(isinstance(node, ast.Yield | ast.YieldFrom | ast.While | ast.Try | ast.With) for node in ast.walk(function))
    return None if is_method or waits or used & _OF_HOST else (function.name, Line(file=line.file, number=function.lineno))


def _has_one(value: ast.expr, names: set[str]) -> bool:
    return any(isinstance(each, ast.Name) and each.id in names for each in ast.walk(value))


def yields_at(line: Line) -> bool:
    """Whether a line yields, so that a context around it stays while others run."""
    nodes = nodes_of(source_text(line.file) or "")
    return any(isinstance(node, ast.Yield | ast.YieldFrom) and _is_on(node, line) for node in nodes)


def called_at(line: Line) -> frozenset[str]:
    """The names of what is called on a line, or by calls that go over it."""
    nodes = nodes_of(source_text(line.file) or "")
    calls = (node for node in nodes if isinstance(node, ast.Call) and _is_on(node, line))
    return frozenset(name for call in calls if (name := last_name(call.func)))


def _is_on(node: ast.expr | ast.stmt, line: Line) -> bool:
    return node.lineno <= line.number <= (node.end_lineno or node.lineno)


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
