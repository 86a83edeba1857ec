"""The source tree is the architecture: who may import whom is checked over the imports themselves."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SRC = Path(__file__).resolve().parent.parent / "src" / "tilestep"

LAYERS = ("machine", "program", "cost", "plan", "sim", "report", "pjrt")  # an import may point up this list, never down
SHARED = ("errors", "units", "hints", "options", "settings")  # any layer may import these
RUNTIME = ("train", "legacy")  # for any JAX platform: imports nothing of the emulator
DOORS = ("__init__", "__main__", "cli", "profiling")  # these may import anything
SETTINGS_IMPORTS = ("errors", "options", "machine")
UNITS = (*LAYERS, *SHARED, *RUNTIME, *DOORS)
PICKLERS = ("pickle", "_pickle", "pickletools", "cloudpickle", "dill", "marshal", "shelve", "joblib", "jsonpickle")
PICKLE_NOTHING = (
    "multiprocessing.connection.Connection",
    "multiprocessing.connection.wait",
    "concurrent.futures.ThreadPoolExecutor",
    "concurrent.futures.as_completed",
)
USES_JAX = ("pjrt", "settings", *RUNTIME, *DOORS)


def unit_of(path: Path, root: Path) -> str:
    """The folder or module directly below the package to which a file belongs."""
    return path.relative_to(root).with_suffix("").parts[0]


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """(line, absolute module name) of every import in a file, wherever in it; `from a import b` gives a.b."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Import(names=names):
                yield from ((node.lineno, alias.name) for alias in names)
            case ast.ImportFrom(level=0, module=str(module), names=names):
                yield from ((node.lineno, f"{module}.{alias.name}") for alias in names)
            case ast.ImportFrom():
                yield node.lineno, "relative"
            case _:
                pass


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
    if unit == "options":
        return ("errors",)
    if unit in SHARED:
        return ()
    if unit in RUNTIME:
        return (*SHARED, *RUNTIME)
    return (*SHARED, *layers[: layers.index(unit) + 1])


def upward_imports(root: Path, layers: tuple[str, ...]) -> list[str]:
    """Every import that points down the list of layers, or from a shared module to another, as 'file:line imports unit'."""
    found: list[str] = []
    for path in sorted(root.rglob("*.py")):
        allowed = allowed_units(unit_of(path, root), layers)
        if allowed is not None:
            found += [f"{path.relative_to(root)}:{line} imports {unit}" for line, unit in imported_units(path) if unit not in allowed]
    return found


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
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
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


def test_what_computes_values_does_not_import_what_computes_costs() -> None:
    assert [(path.name, line) for path in (SRC / "pjrt").rglob("*.py") for line, unit in imported_units(path) if unit == "cost"] == []


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
        ("cost/amp.py", "import tilestep", "cost/amp.py:1 imports __init__"),
        ("report/summary.py", "from tilestep.profiling import profile", "report/summary.py:1 imports profiling"),
        ("train/loop.py", "from tilestep.sim import System", "train/loop.py:1 imports sim"),
    ],
)
def test_an_import_down_the_list_is_found(tmp_path: Path, file: str, statement: str, found: str) -> None:
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_text(statement)
    assert upward_imports(tmp_path, LAYERS) == [found]


def test_an_import_of_jax_is_found(tmp_path: Path) -> None:
    (tmp_path / "sim").mkdir()
    (tmp_path / "sim" / "engine.py").write_text("from jax import numpy")
    assert foreign_imports(tmp_path, packages=("jax",), only=USES_JAX) == ["sim/engine.py:1 imports jax.numpy"]
