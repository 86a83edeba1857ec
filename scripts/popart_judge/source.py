"""What a test of PopART's own uses, decided from its source alone: no test is imported here."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

TESTS: Final = "tests/integration"
LEFT_OUT: Final = ("popxl", "popart._internal.ir_cpp", "verify_cxx_11_interface")  # folders of another interface
NO_TESTS: Final = ("conftest.py", "test_util.py", "test_session.py")  # the harness: what it offers says nothing of a test's use

WHITE_BOX: Final = (
    "_serializeIr",
    "_internal",
    "_ir",
    "libpva",
    "pva",
    "getSerializedGraph",
    "getSerialisedGraph",
    "savePoplarGraph",
    "getReport",  # gives a report of libpva, whose objects are Poplar's
)
PROCESS: Final = ("subprocess", "Popen", "poprun", "mpirun", "mpi4py", "popdist")
CUSTOM_OPERATORS: Final = ("ctypes", "cdll", "CDLL", "load_library", "cppimport")
DEVICES: Final = (  # words of more devices than one
    "virtualGraph",
    "virtualGraphMode",
    "VirtualGraphMode",
    "pipelineStage",
    "pipelineStageAttribute",
    "enablePipelining",
    "executionPhase",
    "executionPhaseSettings",
    "replicatedGraphCount",
    "enableReplicatedGraphs",
    "enableDistributedReplicatedGraphs",
    "globalReplicationFactor",
    "globalReplicaOffset",
    "CommGroup",
    "CommGroupType",
    "ReplicaGrouping",
    "ReplicatedTensorSharding",
    "replicatedTensorSharding",
    "replicatedallreduce",
    "replicatedallgather",
    "replicatedreducescatter",
)
COUNTS: Final = re.compile(r"num_?ipus?|ipus|replicationFactor|replication_factor|num_?replicas?", re.IGNORECASE)
TAKE_A_COUNT: Final = ("create_test_device", "acquireAvailableDevice", "ipu_available")
CHECKS: Final = re.compile(r"assert\w*|raises|warns|fail|allclose_or_raise|verifyTensor|check_\w+")


@dataclass(frozen=True, kw_only=True)
class Function:
    """A test function; `why_out` is "" or says why it isn't a test of behaviour that can be run here."""

    file: str  # below tests/integration
    name: str  # of a method: Class::name
    why_out: str
    asserts: bool
    one_device: bool

    @property
    def id(self) -> str:
        return f"{self.file}::{self.name}"

    @property
    def black_box(self) -> bool:
        return not self.why_out


def functions(checkout: Path) -> tuple[Function, ...]:
    """All test functions of a checkout, in the order of files and lines. Raises: FileNotFoundError if it has no tests."""
    root = checkout / TESTS
    if not root.is_dir():
        raise FileNotFoundError(f"{checkout} has no {TESTS}; name a checkout of graphcore/popart")
    found: list[Function] = []
    for path in sorted(root.rglob("*.py")):
        if path.relative_to(root).parts[0] in LEFT_OUT or path.name in NO_TESTS:
            continue
        found += functions_of(Module(path, root))
    return tuple(found)


def functions_of(module: Module) -> Iterator[Function]:
    for name, node in module.tests:
        words = module.words(node)
        yield Function(
            file=str(module.path.relative_to(module.root)),
            name=name,
            why_out=_why_out(words),
            asserts=words.checks,
            one_device=not (words.names & set(DEVICES)) and not words.many,
        )


def _why_out(words: Words) -> str:
    if words.skipped:
        return "skipped by the original"
    if words.names & set(WHITE_BOX):
        return "white box"
    if "popxl" in words.names:
        return "written in popxl"
    if words.names & set(CUSTOM_OPERATORS):
        return "custom operator in C++"
    if words.names & set(PROCESS):
        return "starts processes"
    return ""


@dataclass(frozen=True, kw_only=True)
class Words:
    """What a function and the helpers that it reaches say."""

    names: frozenset[str]  # names, attributes, keywords, modules
    checks: bool
    skipped: bool  # without a condition
    many: bool  # a count of IPUs or replicas above 1


class Module:
    """A file of tests or helpers."""

    def __init__(self, path: Path, root: Path) -> None:
        self.path, self.root = path, root
        self.tree = ast.parse(path.read_text(encoding="utf-8"))

    @cached_property
    def definitions(self) -> Mapping[str, list[ast.stmt]]:
        """Top-level name -> the statements that define it."""
        found: dict[str, list[ast.stmt]] = {}
        for node in self.tree.body:
            for name in _defined(node):
                found.setdefault(name, []).append(node)
        return found

    @cached_property
    def tests(self) -> list[tuple[str, ast.FunctionDef]]:
        """(name, function) of the tests; of functions of one name the last counts, as in Python."""
        found: dict[str, ast.FunctionDef] = {}
        for node in self.tree.body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test"):
                found[node.name] = node
            if isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
                found |= {
                    f"{node.name}::{inner.name}": inner
                    for inner in node.body
                    if isinstance(inner, ast.FunctionDef) and inner.name.startswith("test")
                }
        return list(found.items())

    def words(self, test: ast.FunctionDef) -> Words:
        """The words of a test, of what it reaches in its file, and of its calls of helpers beside it."""
        reached = [*self._reached(test), *self._run_at_import]
        names = frozenset(name for node in reached for name in _names(node))
        return Words(
            names=names,
            checks=any(_checks(node) for node in reached),
            skipped=any(_skips(decorator) for decorator in test.decorator_list) or self._file_is_skipped,
            many=any(_many(node) for node in reached),
        )

    @cached_property
    def _run_at_import(self) -> list[ast.stmt]:
        return [node for node in self.tree.body if isinstance(node, ast.Expr | ast.If | ast.For | ast.With | ast.Try)]

    @cached_property
    def _file_is_skipped(self) -> bool:
        return any(_skips(node.value) for node in self.definitions.get("pytestmark", []) if isinstance(node, ast.Assign))

    def _reached(self, start: ast.stmt) -> Iterator[ast.stmt]:
        seen: set[int] = set()
        waiting: list[tuple[Module, ast.stmt]] = [(self, start)]
        while waiting:
            module, node = waiting.pop()
            if id(node) in seen:
                continue
            seen.add(id(node))
            yield node
            for name in _used(node):
                waiting += [(module, definition) for definition in module.definitions.get(name, [])]
            for sibling, name in module.links(node):
                waiting += [(sibling, definition) for definition in sibling.definitions.get(name, [])]

    def links(self, node: ast.stmt) -> Iterator[tuple[Module, str]]:
        """(helper file beside this one, a name of it that `node` uses)."""
        used = set(_used(node))
        for module, name, here in self._imported:
            if here in used:
                yield module, name
        for module, here in self._imported_whole:
            for inner in ast.walk(node):
                if isinstance(inner, ast.Attribute) and isinstance(inner.value, ast.Name) and inner.value.id == here:
                    yield module, inner.attr

    @cached_property
    def _imported(self) -> list[tuple[Module, str, str]]:
        """(helper file, name there, name here)."""
        return [
            (module, alias.name, alias.asname or alias.name)
            for node in self.tree.body
            if isinstance(node, ast.ImportFrom) and (module := self._beside(node.module or "")) is not None
            for alias in node.names
        ]

    @cached_property
    def _imported_whole(self) -> list[tuple[Module, str]]:
        return [
            (module, alias.asname or alias.name)
            for node in self.tree.body
            if isinstance(node, ast.Import)
            for alias in node.names
            if (module := self._beside(alias.name)) is not None
        ]

    def _beside(self, name: str) -> Module | None:
        """The helper file of that module name; None for libraries and for the harness."""
        for folder in (self.path.parent, self.root):
            for path in (folder / f"{name.replace('.', '/')}.py", folder / name / "utils.py"):
                if name and path.is_file() and path.name not in NO_TESTS and path != self.path:
                    return Module(path, self.root)
        return None


def _defined(node: ast.stmt) -> Iterator[str]:
    match node:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.Assign(targets=targets):
            yield from (inner.id for target in targets for inner in ast.walk(target) if isinstance(inner, ast.Name))
        case ast.AnnAssign(target=ast.Name(id=name)):
            yield name
        case _:
            pass


def _used(node: ast.stmt) -> Iterator[str]:
    """Names that a statement reads; parameters too, because fixtures come by them."""
    for inner in ast.walk(node):
        match inner:
            case ast.Name(id=name, ctx=ast.Load()) | ast.arg(arg=name):
                yield name
            case _:
                pass


def _names(node: ast.stmt) -> Iterator[str]:
    for inner in ast.walk(node):
        match inner:
            case ast.Name(id=name) | ast.Attribute(attr=name):
                yield name
            case ast.keyword(arg=str(name)):
                yield name
            case ast.Import(names=names):
                yield from (part for alias in names for part in alias.name.split("."))
            case ast.ImportFrom(module=module, names=names):
                yield from (module or "").split(".")
                yield from (alias.name for alias in names)
            case ast.Constant(value=str(text)) if text in ("mpirun", "poprun"):
                yield text
            case _:
                pass


def _checks(node: ast.stmt) -> bool:
    """Whether something there can fail the test."""
    for inner in ast.walk(node):
        match inner:
            case ast.Assert():
                return True
            case ast.Call(func=ast.Attribute(attr="run", value=ast.Name(id="op_tester"))):
                return True
            case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name)) if CHECKS.fullmatch(name):
                return True
            case _:
                pass
    return False


def _skips(decorator: ast.expr) -> bool:
    """Whether it is pytest.mark.skip, which asks for no condition."""
    call = decorator.func if isinstance(decorator, ast.Call) else decorator
    return isinstance(call, ast.Attribute) and call.attr == "skip"


def _many(node: ast.stmt) -> bool:
    """Whether a number of IPUs or replicas above 1 is given: as a keyword, an assignment, a default or an entry of a dictionary."""
    for inner in ast.walk(node):
        match inner:
            case ast.keyword(arg=str(name), value=value):
                pairs = [(name, value)]
            case ast.Assign(targets=[ast.Name(id=name) | ast.Attribute(attr=name)], value=value):
                pairs = [(name, value)]
            case ast.Dict(keys=keys, values=values):
                pairs = [(key.value, value) for key, value in zip(keys, values, strict=True) if isinstance(key, ast.Constant)]
            case ast.arguments(args=arguments, defaults=defaults) if defaults:
                pairs = [(argument.arg, value) for argument, value in zip(arguments[-len(defaults) :], defaults, strict=True)]
            case ast.Call(func=ast.Attribute(attr="parametrize"), args=[ast.Constant(value=str(names)), values, *_]):
                pairs = [(name.strip(), values) for name in names.split(",")]
            case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name), args=[count, *_]) if name in TAKE_A_COUNT:
                pairs = [("num_ipus", count)]
            case _:
                continue
        if any(isinstance(name, str) and COUNTS.fullmatch(name) and _above_one(value) for name, value in pairs):
            return True
    return False


def _above_one(value: ast.expr) -> bool:
    return any(isinstance(inner, ast.Constant) and isinstance(inner.value, int) and inner.value > 1 for inner in ast.walk(value))
