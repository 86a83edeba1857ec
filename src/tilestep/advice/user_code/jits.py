"""Where the user jits a function, and what that line says: read from the user's source."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from tilestep.advice.finding import Line
from tilestep.advice.user_code.lines import plain
from tilestep.advice.user_code.source_lines import last_name, nodes_of
from tilestep.plan.frames import own_frames
from tilestep.plan.steps import Frame, Program
from tilestep.recording.source_lines import source_text

_JITS: Final = frozenset({"jit", "pjit"})
_PMAP: Final = "pmap"
_STATIC: Final = frozenset({"static_argnums", "static_argnames"})
_PMAP_LEAVES: Final = "flat_args"
_PMAP_PROGRAM: Final = "fun"
_STARS: Final = ("args", _PMAP_LEAVES)  # JAX's names of arguments that it knows by their places only
_LEAF: Final = re.compile(rf"{_PMAP_LEAVES}\[(\d+)\].*")
_MOST_NESTED: Final = 8  # functions of one name that call each other, of which one is looked for that is jitted


class Jit(NamedTuple):
    """What the source tells of a program's function.

    Attributes:
        name: of the function, as its author wrote it; '' of a lambda.
        line: where it is jitted; where it is defined if no line jits it, or several do; None if the source is unknown.
        definition: of the function; None if the source is unknown.
        call: that jits it; None if there is not exactly one.
        is_decorator: whether it stands above the function.
    """

    name: str
    line: Line | None
    definition: ast.FunctionDef | ast.Lambda | None
    call: ast.Call | None
    is_decorator: bool

    @property
    def positional(self) -> tuple[str, ...]:
        """Those of them that an argument can be given to by its place."""
        return (
            () if self.definition is None else tuple(each.arg for each in (*self.definition.args.posonlyargs, *self.definition.args.args))
        )

    @property
    def is_pmap(self) -> bool:
        """Whether jax.pmap makes it a program, whose arguments are known by the places of their leaves only."""
        return self.call is not None and _makes(self.call, frozenset({_PMAP}))

    def parameters(self, names: Sequence[str], leaves: int) -> list[str]:
        """The function's parameters that some arguments of the program are: 'w' for 'flat_args[0]' of a pmap; the name if that is unknown.

        Args:
            names: of the arguments.
            leaves: of all arguments; as many as there are parameters are one of each.
        """
        given = self.positional
        places = [place and int(place[1]) for place in map(_LEAF.fullmatch, names)]
        if self.is_pmap and 0 < len(given) < leaves and {*places} == {*range(leaves - len(given) + 1)}:  # the others have one each
            return [given[0]] * len(names)
        whole = self.is_pmap and len(given) == leaves
        return [given[place] if whole and place is not None and place < leaves else name for name, place in zip(names, places, strict=True)]

    @property
    def returns(self) -> Line | None:
        """The only line on which the function returns; None if there are several, or it is unknown."""
        if self.line is None or not isinstance(self.definition, ast.FunctionDef):
            return None
        found = [node.lineno for node in _own(self.definition) if isinstance(node, ast.Return)]
        return Line(file=self.line.file, number=found[0]) if len(found) == 1 else None

    @property
    def has_static(self) -> bool:
        """Whether what jits it has static arguments."""
        return self.call is not None and any(each.arg in _STATIC for each in self.call.keywords)


def jit_of(program: Program, text_of: Callable[[str], str | None] = source_text) -> Jit:
    """What the source of the user's files tells of a program's function. Args: text_of: gives the text of a file; None: unknown."""
    name = plain(program.name.removeprefix("jit_"))
    own = own_frames(program.frames)
    inside = [n for n in own if plain(program.frames[n - 1].function.rpartition(".")[2]) == name][:_MOST_NESTED]
    found = [_jit_inside(program, text_of, name, own, frame) for frame in inside or [0]]
    return next((jit for jit in found if jit.call is not None or jit.is_decorator), found[0])  # a caller may have that name, too


def _jit_inside(program: Program, text_of: Callable[[str], str | None], name: str, own: Sequence[int], inside: int) -> Jit:
    """The same. Args: name: of the function. own: numbers of the user's frames. inside: that of the function's; 0 if it is unknown."""
    frames = program.frames
    files = dict.fromkeys(frames[n - 1].file for n in ((inside, *own) if inside else own))
    found = {file: _functions(text_of(file) or "") for file in files}
    within = frames[inside - 1] if inside else None
    definition, home = None, ""
    for file, (definitions, _) in found.items():
        places = [each for each in definitions if plain(getattr(each, "name", "lambda")) == name]
        if within is not None and file == within.file:
            places = [each for each in places if each.lineno <= within.line <= (each.end_lineno or each.lineno)]
            places = ([each for each in places if _has(each, within)] or places)[-1:]
        if places and definition is None:
            definition, home = places[-1], file
    if name == _PMAP_PROGRAM and any(is_leaf(argument.name) for argument in program.arguments):
        return _mapped(found)
    made = [(file, *jit) for file, (_, jits) in found.items() for jit in jits if _jits(jit[0], jit[1], name, definition)]
    known = getattr(definition, "name", "") if definition is not None else program.name.removeprefix("jit_") if name != "lambda" else ""
    if len(made) == 1:
        file, call, decorated = made[0]
        bare = not isinstance(call, ast.Call)
        return Jit(known, Line(file=file, number=call.lineno), definition, None if bare else call, decorated is not None)
    line = None if definition is None else Line(file=home, number=definition.lineno)
    return Jit(known, line, definition, None, False)


def is_leaf(name: str) -> bool:
    """Whether an argument's name is the place of a leaf, as jax.pmap has it."""
    return _LEAF.fullmatch(name) is not None


def root_of(name: str) -> str:
    """The function's own argument, of which this is a part: 'params' of 'params[0][1]', and 'args[0]' of 'args[0].mu'."""
    root = re.split(r"[\[.]", name)[0]
    place = re.match(r"\[\d+\]", name.removeprefix(root)) if root in _STARS else None
    return root + (place[0] if place is not None else "")


def _mapped(found: Mapping[str, tuple[Sequence[_Function], Sequence[_Made]]]) -> Jit:
    """What the only pmap of some files maps. Its program has a name that JAX gives to all."""
    made = [(file, *each) for file, (_, makers) in found.items() for each in makers if _makes(each[0], frozenset({_PMAP}))]
    if len(made) != 1:
        return Jit("", None, None, None, False)
    file, call, decorated = made[0]
    definition: _Function | None = decorated
    if decorated is None and isinstance(call, ast.Call):
        given = call.args[0]
        named = [each for each in found[file][0] if getattr(each, "name", "") == last_name(given) != ""]
        definition = given if isinstance(given, ast.Lambda) else named[0] if len(named) == 1 else None
    name, line = getattr(definition, "name", ""), Line(file=file, number=call.lineno)
    bare = ast.Call(func=call, args=[], keywords=[])
    return Jit(name, line, definition, call if isinstance(call, ast.Call) else bare, decorated is not None)


def _makes(node: ast.expr, makers: frozenset[str]) -> bool:
    """Whether it is jax.pmap, a call of it, or functools.partial(jax.pmap, ...)."""
    if isinstance(node, ast.Call):
        return last_name(node.func) in makers or (last_name(node.func) == "partial" and bool(node.args) and _makes(node.args[0], makers))
    return last_name(node) in makers


def _has(function: _Function, frame: Frame) -> bool:
    """Whether a line with its column is in a function: two lambdas may be on one line."""
    end = function.end_lineno or function.lineno, function.end_col_offset or 0
    return (function.lineno, function.col_offset) <= (frame.line, frame.column) < end


_Function = ast.FunctionDef | ast.Lambda
_Made = tuple[ast.expr, ast.FunctionDef | None]  # the expression that jits; the function below it, if it is a decorator


@functools.lru_cache(maxsize=16)
def _functions(text: str) -> tuple[tuple[_Function, ...], tuple[_Made, ...]]:
    """The functions of a source, and what jits some. Text that is no Python has none."""
    nodes = nodes_of(text)
    functions = tuple(node for node in nodes if isinstance(node, _Function))
    above = [(each, node) for node in functions if isinstance(node, ast.FunctionDef) for each in node.decorator_list]
    decorators = {id(each) for each, _ in above}
    makers = _JITS | {_PMAP}
    made: list[_Made] = [(each, node) for each, node in above if _makes(each, makers)]
    made += [
        (node, None)
        for node in nodes
        if isinstance(node, ast.Call) and id(node) not in decorators and last_name(node.func) in makers and node.args
    ]
    return functions, tuple(made)


def _jits(made: ast.expr, decorated: ast.FunctionDef | None, name: str, definition: _Function | None) -> bool:
    """Whether that jits the function."""
    if _makes(made, frozenset({_PMAP})):
        return False
    if decorated is not None:
        return decorated is definition or (definition is None and plain(decorated.name) == name)
    assert isinstance(made, ast.Call)
    [given] = made.args[:1]
    if isinstance(given, ast.Call) and last_name(given.func) == "partial" and given.args:
        given = given.args[0]
    return given is definition if isinstance(given, ast.Lambda) else plain(last_name(given)) == name


def _own(function: ast.FunctionDef) -> Iterator[ast.AST]:
    """What a function has, without the functions in it."""
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            waiting += ast.iter_child_nodes(node)


def made_at(program: Program, makers: frozenset[str]) -> Line | None:
    """The only line of the user's files at which something of these names is called, such as a class; None if there are several."""
    frames = program.frames
    files = dict.fromkeys(frames[n - 1].file for n in own_frames(frames))
    found = [Line(file=file, number=line) for file in files for line in _calls(source_text(file) or "", makers)]
    return found[0] if len(found) == 1 else None


@functools.lru_cache(maxsize=16)
def _calls(text: str, names: frozenset[str]) -> tuple[int, ...]:
    return tuple(node.lineno for node in nodes_of(text) if isinstance(node, ast.Call) and last_name(node.func) in names)
