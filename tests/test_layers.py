"""The source tree is the architecture: who may import whom is checked over the imports themselves."""

import ast
import re
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

SRC = Path(__file__).resolve().parent.parent / "src" / "tilestep"

LAYERS = (
    "machine",
    "program",
    "cost",
    "plan",
    "sim",
    "recording",
    "tracing",
    "pjrt",
    "figures",
    "advice",
    "views",
)  # an import may point up this list, never down
# any layer may import these
SHARED = (
    "errors",
    "units",
    "hints",
    "messages",
    "files",
    "protobuf",
    "options",
    "poplar_keys",
    "engine_options",
    "settings",
    "typed_json",
    "cuts",
    "within",
    "collection",
)
RUNTIME = ("train", "legacy")  # for any JAX platform: imports nothing of the emulator
FRONTENDS = ("onnx", "popart", "tensorflow")  # on top of JAX, for any platform; only the doors import them
POPART = ("machine", "profiling", "tracing")  # and what other front ends may import
EMULATION = "popart/session/emulation"  # the machine of a session: may import anything
DOORS = ("__init__", "__main__", "cli", "planner", "profiling")  # these may import anything
SETTINGS_IMPORTS = ("errors", "messages", "options", "engine_options", "machine")
UNITS = (*LAYERS, *SHARED, *RUNTIME, *FRONTENDS, *DOORS)
PICKLERS = ("pickle", "_pickle", "pickletools", "cloudpickle", "dill", "marshal", "shelve", "joblib", "jsonpickle")
MAY_UNPICKLE = re.compile("allow_pickle|recv|send")  # a file with none of these words is not parsed again
PICKLE_NOTHING = (
    "multiprocessing.connection.Connection",
    "multiprocessing.connection.wait",
    "concurrent.futures.Future",
    "concurrent.futures.ThreadPoolExecutor",
    "concurrent.futures.as_completed",
)
USES_JAX = ("pjrt", "settings", "tracing", *RUNTIME, *FRONTENDS, *DOORS)

PJRT_ROOMS = ("jax_private", "running", "table", "programs")  # an import may point up this list, never down
PJRT_SHARED = ("_native", "platform")  # any room may import these; `plugin` may import anything, and no file imports it
TRAIN_TOP = (
    "ctrl_c",
    "datasets",
    "jaxprs",
    "convolutions",
    "numbers",
    "offload",
    "other_arguments",
    "patience",
    "planned",
    "progress_bar",
    "resume",
    "simulated",
    "tuned",
    "backward",
    "untyped",
    "_feeds",
)
TRAIN_ROOMS = ("jax_private", "processes", "schedules", "replicas", "optimizers", "feeds", "checkpoints", "gradients", "loop", "pipeline")
PIPELINE_ROOMS = ("compile", "run")
ONNX_ROOMS = ("interpreter", "reading", "ops")  # files beside them may import any
POPART_TOP = ("dataflow", "enums", "exceptions", "former", "names", "patterns", "stepio", "tensors", "variables", "whole_numbers")
POPART_ROOMS = ("diagnostics", "devices", "options", "optimizers", "builder", "ops", "session")
# the former must not import the latter, though its room is earlier
NEVER = (("tilestep.train.pipeline", "tilestep.train.loop"), ("tilestep.onnx.ops", "tilestep.onnx.reading"))

PRIVATE = ("jax._src", "jaxlib")  # private parts of JAX
PRIVATE_ROOM = "jax_private"
EXTENSIONS = ("tilestep.pjrt._native", "tilestep.train._feeds")  # modules in C, which import nothing of the package
NATIVE = ("pjrt/native", "train/native")


def unit_of(path: Path, root: Path) -> str:
    """The folder or module directly below the package to which a file belongs."""
    return path.relative_to(root).with_suffix("").parts[0]


def imports(path: Path) -> tuple[tuple[int, str], ...]:
    """(line, absolute module name) of every import in a file, wherever in it; `from a import b` gives a.b."""
    return _imports_in(path.read_text(encoding="utf-8"))


@cache
def _imports_in(text: str) -> tuple[tuple[int, str], ...]:
    """The same of a file's text: a dozen tests ask for those of every file."""
    found: list[tuple[int, str]] = []
    for node in statements(ast.parse(text)):
        match node:
            case ast.Import(names=names):
                found += ((node.lineno, alias.name) for alias in names)
            case ast.ImportFrom(level=0, module=str(module), names=names):
                found += ((node.lineno, f"{module}.{alias.name}") for alias in names)
            case ast.ImportFrom():
                found.append((node.lineno, "relative"))
            case _:
                pass
    return tuple(found)


def statements(node: ast.AST) -> Iterator[ast.stmt]:
    """The statements of a tree."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt):
            yield child
        if isinstance(child, ast.stmt | ast.ExceptHandler | ast.match_case):  # an expression has no statement in it
            yield from statements(child)


def imported_units(path: Path) -> Iterator[tuple[int, str]]:
    """(line, unit) of every import from the package itself; what is no unit is a name in '__init__'."""
    for line, name in imports(path):
        package, *rest = name.split(".")
        if package == "tilestep":
            yield line, rest[0] if rest and rest[0] in UNITS else "__init__"


def allowed_units(unit: str, layers: tuple[str, ...]) -> tuple[str, ...] | None:
    """What a unit may import from the package; None is anything."""
    if unit in DOORS:
        return None
    if unit == "settings":
        return SETTINGS_IMPORTS
    if unit in ("options", "typed_json"):
        return ("errors", "messages")
    if unit == "engine_options":
        return ("errors", "files", "messages", "poplar_keys", "regex")
    if unit == "hints":
        return ("within",)
    if unit == "errors":
        return ("messages",)
    if unit in SHARED:
        return ()
    if unit in RUNTIME:
        return (*SHARED, *RUNTIME)
    if unit in FRONTENDS:
        return (*SHARED, *RUNTIME, *FRONTENDS, *(POPART if unit == "popart" else ()))
    return (*SHARED, *layers[: layers.index(unit) + 1])


def upward_imports(root: Path, layers: tuple[str, ...]) -> list[str]:
    """Every import that points down the list of layers, or from a shared module to another, as 'file:line imports unit'."""
    found: list[str] = []
    for path in sorted(root.rglob("*.py")):
        is_emulation = path.relative_to(root).as_posix().startswith(f"{EMULATION}/")
        allowed = None if is_emulation else allowed_units(unit_of(path, root), layers)
        if allowed is not None:
            found += [f"{path.relative_to(root)}:{line} imports {unit}" for line, unit in imported_units(path) if unit not in allowed]
    return found


def imports_between_rooms(root: Path, package: str, *, rooms: tuple[str, ...], shared: tuple[str, ...]) -> list[str]:
    """Every import that points down the list of rooms, or from a shared module to a room, as 'file:line imports room'.

    Args: root: the folder of `package`. shared: modules beside the rooms. Any other module beside them may import anything.
    """
    errors: list[str] = []
    for path in sorted(root.rglob("*.py")):
        room = unit_of(path, root)
        if room not in (*rooms, *shared):
            continue
        allowed = (*shared, *rooms[: rooms.index(room) + 1]) if room in rooms else shared
        for line, name in imports(path):
            if name.startswith(f"{package}.") and (unit := name.removeprefix(f"{package}.").split(".")[0]) not in allowed:
                errors.append(f"{path.relative_to(root)}:{line} imports {unit}")
    return errors


def module_imports(root: Path, package: str) -> dict[str, set[str]]:
    """The modules of a package that each of its modules imports, wherever in a file, for types too. Args: root: the folder of `package`."""
    names = {path: ".".join((package, *path.relative_to(root).with_suffix("").parts)) for path in root.rglob("*.py")}
    paths = {name.removesuffix(".__init__"): path for path, name in names.items()}
    return {
        module: {name if name in paths else name.rpartition(".")[0] for _, name in imports(path) if name not in EXTENSIONS}
        & paths.keys() - {module}
        for module, path in paths.items()
    }


def cycles(graph: Mapping[str, Collection[str]]) -> list[list[str]]:
    """Groups of nodes that reach each other, each sorted."""

    def reached(start: str) -> set[str]:
        seen: set[str] = set()
        ahead = [start]
        while ahead:
            new = set(graph.get(ahead.pop(), ())) - seen
            seen |= new
            ahead += new
        return seen

    reach = {node: reached(node) for node in graph}
    groups = {frozenset(other for other in reach[node] if node in reach.get(other, ())) for node in graph if node in reach[node]}
    return sorted(sorted(group) for group in groups)


def c_includes(folder: Path) -> dict[str, set[str]]:
    """The C files of a folder that each of its C files includes, by their names without suffix: a header belongs to its source."""
    files: dict[str, set[str]] = {}
    for path in [*folder.glob("*.c"), *folder.glob("*.h")]:
        included = {name.removesuffix(".h") for name in re.findall(r'#include "(.+?)"', path.read_text(encoding="utf-8"))}
        files[path.stem] = files.get(path.stem, set()) | included - {path.stem}
    return files


def private_imports(root: Path, *, room: str) -> list[str]:
    """Every import of a private part of JAX outside of folders named `room`."""
    return [
        f"{path.relative_to(root)}:{line} imports {name}"
        for path in sorted(root.rglob("*.py"))
        if room not in path.relative_to(root).parts[:-1]
        for line, name in imports(path)
        if name.startswith(tuple(f"{private}." for private in PRIVATE)) or name in PRIVATE
    ]


def foreign_imports(root: Path, *, packages: tuple[str, ...], only: tuple[str, ...]) -> list[str]:
    """Every import of one of `packages` outside the units `only`."""
    return [
        f"{path.relative_to(root)}:{line} imports {name}"
        for path in sorted(root.rglob("*.py"))
        if unit_of(path, root) not in only
        for line, name in imports(path)
        if name.split(".")[0] in packages
    ]


def unpicklings(root: Path) -> list[str]:
    """Every place that could make more than data of bytes, as pickle does: 'file:line what'."""
    found: list[str] = []
    for path in sorted(root.rglob("*.py")):
        names = list(imports(path))
        found += [
            f"{path.relative_to(root)}:{line} imports {name}"
            for line, name in names
            if name.split(".")[0] in PICKLERS or (name.split(".")[0] in ("multiprocessing", "concurrent") and name not in PICKLE_NOTHING)
        ]
        has_connections = any(name.startswith("multiprocessing") for _, name in names)
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)) if MAY_UNPICKLE.search(text) else ():
            match node:
                case ast.keyword(arg="allow_pickle", value=value) if not (isinstance(value, ast.Constant) and value.value is False):
                    found.append(f"{path.relative_to(root)}:{node.lineno} allows pickle")
                case ast.Call(func=ast.Attribute(attr="recv"), args=[], keywords=[]):  # a socket's takes a size
                    found.append(f"{path.relative_to(root)}:{node.lineno} calls Connection.recv")
                case ast.Call(func=ast.Attribute(attr="send")) if has_connections:
                    found.append(f"{path.relative_to(root)}:{node.lineno} calls Connection.send")
                case _:
                    pass
    return found


def test_every_folder_and_module_has_its_place() -> None:
    units = {unit_of(path, SRC) for path in SRC.rglob("*.py")}
    assert units - set(UNITS) == set()


def test_layers_import_only_earlier_layers() -> None:
    assert upward_imports(SRC, LAYERS) == []


def test_only_the_door_and_the_settings_import_jax() -> None:
    assert foreign_imports(SRC, packages=("jax", "jaxlib"), only=USES_JAX) == []


def test_only_the_front_end_imports_onnx() -> None:
    assert foreign_imports(SRC, packages=("onnx", "google"), only=FRONTENDS) == []


def test_what_computes_values_does_not_import_what_computes_costs() -> None:
    assert [(path.name, line) for path in (SRC / "pjrt").rglob("*.py") for line, unit in imported_units(path) if unit == "cost"] == []


def test_the_rooms_of_the_platform_import_only_earlier_rooms() -> None:
    assert imports_between_rooms(SRC / "pjrt", "tilestep.pjrt", rooms=PJRT_ROOMS, shared=PJRT_SHARED) == []
    assert {unit_of(path, SRC / "pjrt") for path in (SRC / "pjrt").rglob("*.py")} == {*PJRT_ROOMS, "__init__", "platform", "plugin"}


def test_the_rooms_of_the_runtime_import_only_earlier_rooms() -> None:
    root = SRC / "train"
    assert imports_between_rooms(root, "tilestep.train", rooms=TRAIN_ROOMS, shared=TRAIN_TOP) == []
    assert {unit_of(path, root) for path in root.rglob("*.py")} == {*TRAIN_ROOMS, *TRAIN_TOP, "__init__"} - {"_feeds"}


def test_the_rooms_of_the_pipeline_import_only_earlier_rooms() -> None:
    root = SRC / "train" / "pipeline"
    assert imports_between_rooms(root, "tilestep.train.pipeline", rooms=PIPELINE_ROOMS, shared=()) == []
    assert {unit_of(path, root) for path in root.rglob("*.py")} == {
        *PIPELINE_ROOMS,
        "__init__",
        "arguments",
        "pipeline",
        "state",
    }


def test_the_rooms_of_the_front_ends_import_only_earlier_rooms() -> None:
    assert imports_between_rooms(SRC / "onnx", "tilestep.onnx", rooms=ONNX_ROOMS, shared=("errors",)) == []
    builder = SRC / "popart" / "builder"
    assert imports_between_rooms(builder, "tilestep.popart.builder", rooms=("graph", "opsets"), shared=()) == []
    assert imports_between_rooms(SRC / "popart", "tilestep.popart", rooms=POPART_ROOMS, shared=POPART_TOP) == []


@pytest.mark.parametrize(("importer", "imported"), NEVER)
def test_rooms_that_stand_beside_each_other_do_not_import_each_other(importer: str, imported: str) -> None:
    assert imports_of_package(module_imports(SRC, "tilestep"), importer, imported) == []


def test_no_module_imports_itself_through_others() -> None:
    assert cycles(module_imports(SRC, "tilestep")) == []


@pytest.mark.parametrize("package", ["advice", "cost", "figures.reader", "onnx.ops", "plan", "popart.session", "sim", "tensorflow"])
def test_no_room_imports_itself_through_other_rooms(package: str) -> None:
    root = SRC.joinpath(*package.split("."))
    rooms = {path.name for path in root.iterdir() if (path / "__init__.py").exists()}
    names = {room: f"tilestep.{package}.{room}" for room in rooms}
    graph = module_imports(SRC, "tilestep")
    imported = {a: {b for b in rooms - {a} if imports_of_package(graph, names[a], names[b])} for a in rooms}
    assert any(imported.values())
    assert cycles(imported) == []


def is_in(module: str, package: str) -> bool:
    """Whether a module is the package or lies in it."""
    return module == package or module.startswith(f"{package}.")


def imports_of_package(graph: Mapping[str, Collection[str]], importer: str, imported: str) -> list[str]:
    """Every import of a module of one package by a module of another."""
    return sorted(
        f"{module} imports {other}"
        for module, others in graph.items()
        if is_in(module, importer)
        for other in others
        if is_in(other, imported)
    )


@pytest.mark.parametrize("folder", NATIVE)
def test_no_c_file_includes_itself_through_others(folder: str) -> None:
    graph = c_includes(SRC / folder)
    assert len(graph) > 3
    assert cycles(graph) == []


def test_private_parts_of_jax_are_imported_in_the_private_rooms_only() -> None:
    assert private_imports(SRC, room=PRIVATE_ROOM) == []


def test_private_parts_of_tensorflow_are_imported_in_one_room_only() -> None:
    words = re.compile(r"import_module\(\"tensorflow\.(python|compiler|core)")
    found = {path.parent.name for path in SRC.rglob("*.py") if words.search(path.read_text(encoding="utf-8"))}
    assert found == {"tf_private"}


def test_no_import_is_relative() -> None:
    assert [f"{path}:{line}" for path in SRC.rglob("*.py") for line, name in imports(path) if name == "relative"] == []


def test_nothing_unpickles() -> None:
    assert unpicklings(SRC) == []


@pytest.mark.parametrize(
    ("program", "found"),
    [
        ("import pickle", ["1 imports pickle"]),
        ("def f():\n    from pickle import loads", ["2 imports pickle.loads"]),
        ("import os, shelve", ["1 imports shelve"]),
        ("from cloudpickle import load", ["1 imports cloudpickle.load"]),
        ("import numpy as np\nnp.load('file', allow_pickle=True)", ["2 allows pickle"]),
        ("np.load('file', allow_pickle=option)", ["1 allows pickle"]),
        ("np.load('file', allow_pickle=False)\nnp.load('file')", []),
        ("line.recv()", ["1 calls Connection.recv"]),
        ("socket.recv(3)\nsocket.send(b'')", []),
        ("from multiprocessing.connection import Connection\nline.send(3)", ["2 calls Connection.send"]),
        ("from multiprocessing.connection import Connection, wait\nline.send_bytes(b'')\nline.recv_bytes(9)", []),
        ("import multiprocessing", ["1 imports multiprocessing"]),
        ("from multiprocessing import Queue", ["1 imports multiprocessing.Queue"]),
        ("from concurrent.futures import ProcessPoolExecutor", ["1 imports concurrent.futures.ProcessPoolExecutor"]),
        ("from concurrent.futures import ThreadPoolExecutor", []),
    ],
)
def test_what_unpickles_is_found(tmp_path: Path, program: str, found: list[str]) -> None:
    (tmp_path / "feed.py").write_text(program)
    assert unpicklings(tmp_path) == [f"feed.py:{each}" for each in found]


@pytest.mark.parametrize(
    ("file", "statement", "found"),
    [
        ("machine/spec.py", "from tilestep.sim import System", "machine/spec.py:1 imports sim"),
        ("machine/spec.py", "def f():\n    import tilestep.plan.lower", "machine/spec.py:2 imports plan"),
        ("hints.py", "from tilestep import errors", "hints.py:1 imports errors"),
        ("cost/gather.py", "import tilestep", "cost/gather.py:1 imports __init__"),
        ("views/summary.py", "from tilestep.profiling import profile", "views/summary.py:1 imports profiling"),
        ("train/loop/loop.py", "from tilestep.sim import System", "train/loop/loop.py:1 imports sim"),
        ("train/loop/loop.py", "from tilestep.onnx import import_onnx", "train/loop/loop.py:1 imports onnx"),
        ("onnx/model.py", "from tilestep.profiling import profile", "onnx/model.py:1 imports profiling"),
        ("popart/session/session.py", "from tilestep.sim import System", "popart/session/session.py:1 imports sim"),
    ],
)
def test_an_import_down_the_list_is_found(tmp_path: Path, file: str, statement: str, found: str) -> None:
    (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / file).write_text(statement)
    assert upward_imports(tmp_path, LAYERS) == [found]


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({"a": "from p import b", "b": "from p.c import x", "c": "def f():\n    import p.a"}, [["p.a", "p.b", "p.c"]]),
        ({"a": "from p import b", "b": "from p import c", "c": "import jax"}, []),
        ({"a": "from p import b", "b": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from p import a"}, [["p.a", "p.b"]]),
        ({"__init__": "from p.a import x", "a": "from p.b import y", "b": "from p import x"}, [["p", "p.a", "p.b"]]),
        ({"a": "from p import b", "b": "from p.a import x", "d": "import p.e", "e": "import p.d"}, [["p.a", "p.b"], ["p.d", "p.e"]]),
    ],
)
def test_a_cycle_of_imports_is_found(tmp_path: Path, files: dict[str, str], found: list[list[str]]) -> None:
    for name, text in files.items():
        (tmp_path / f"{name}.py").write_text(text)
    assert cycles(module_imports(tmp_path, "p")) == found
