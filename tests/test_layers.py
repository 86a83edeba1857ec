"""The source tree is the architecture: who may import whom is checked over the imports themselves."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SRC = Path(__file__).resolve().parent.parent / "src" / "tilestep"

LAYERS = ("machine", "program", "cost", "plan", "sim", "report", "pjrt")  # an import may point up this list, never down
SHARED = ("errors", "units", "hints", "messages", "files", "options", "settings")  # any layer may import these
RUNTIME = ("train", "legacy")  # for any JAX platform: imports nothing of the emulator
DOORS = ("__init__", "__main__", "cli", "profiling")  # these may import anything
SETTINGS_IMPORTS = ("errors", "messages", "options", "machine")
UNITS = (*LAYERS, *SHARED, *RUNTIME, *DOORS)
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
        return ("errors", "messages")
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
