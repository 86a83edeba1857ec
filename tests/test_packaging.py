"""The wheel holds what it should; and a machine that lacks something to build it is told what."""

import configparser
import importlib.metadata
import re
import runpy
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import tilestep
from tests.processes import ROOT, run_python
from tilestep.pjrt.jax_private import versions
from tilestep.views.page.assets import script, style

GENERATED = ("capi.py", "pjrt_layout.h")  # by the build
NOT_SOURCES = shutil.ignore_patterns(
    ".git", ".venv*", "build", "dist", "*.egg-info", "*.so", "__pycache__", ".*_cache", ".hypothesis", *GENERATED
)
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
prerequisites = runpy.run_path(str(ROOT / "scripts" / "prerequisites.py"))


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project without anything built, so that building it leaves the project alone."""
    return Path(shutil.copytree(ROOT, tmp_path_factory.mktemp("clone") / "tilestep", ignore=NOT_SOURCES))


# A compiler that reads its sources, warns of them, and writes empty files.
READS_ONLY = """#!/bin/sh
case " $* " in *" -c "*) cc "$@" -fsyntax-only || exit 1 ;; esac
while [ $# -gt 0 ]; do [ "$1" = -o ] && : > "$2"; shift; done
"""


def built_wheel(sources: Path, **environ: str) -> Path:
    """The wheel, built from a copy of the project by this environment's setuptools. The C sources compile without a warning."""
    folder = sources.parent / f"dist{len(list(sources.parent.iterdir()))}"
    build = ("-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder))
    done = run_python(*build, str(sources), environ={"CFLAGS": "-Werror", **environ})
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = folder.iterdir()
    return built


@pytest.fixture(scope="module")
def wheel(sources: Path) -> Path:
    """The wheel with empty extensions: to optimise them takes most of the time."""
    compiler = sources.parent / "reads_only.sh"
    compiler.write_text(READS_ONLY)
    compiler.chmod(0o755)
    return built_wheel(sources, CC=str(compiler))


@pytest.mark.slow
def test_one_wheel_serves_every_python_from_3_11(wheel: Path) -> None:
    assert wheel.name.startswith(f"tilestep-{PROJECT['version']}-cp311-abi3-")


def test_no_source_parses_a_length() -> None:
    """Formats such as "y#" call another function by version of Python: built on 3.13, they fail on 3.11."""
    sources = sorted((ROOT / "src" / "tilestep").glob("*/native/*.c"))
    assert sources
    assert [source.name for source in sources if re.search(r'"[^"\n]*[sy]#', source.read_text(encoding="utf-8"))] == []


def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    modules = {str(path.relative_to(ROOT / "src")) for path in (ROOT / "src").rglob("*.py")}
    assert modules | {"tilestep/py.typed", "tilestep/pjrt/_native.abi3.so", "tilestep/train/_feeds.abi3.so"} <= names
    assert {name.partition("/")[0] for name in names} == {"tilestep", f"tilestep-{PROJECT['version']}.dist-info"}
    licences = f"tilestep-{PROJECT['version']}.dist-info/licenses"
    assert f"{licences}/LICENSE" in names
    metadata = zipfile.ZipFile(wheel).read(f"tilestep-{PROJECT['version']}.dist-info/METADATA").decode()
    assert f"License-Expression: {PROJECT['license']}\n" in metadata


def test_the_wheel_holds_the_page_of_a_report(wheel: Path) -> None:
    built = zipfile.ZipFile(wheel)
    names = {Path(name).name: name for name in built.namelist() if name.startswith("tilestep/views/assets/")}
    assert set(names) == {"page.min.js", "page.min.css"}
    for name, text in (("page.min.js", script()), ("page.min.css", style())):
        assert 1000 < len(built.read(names[name]).decode()) < len(text), name


def test_the_wheel_registers_the_command_and_the_platform(wheel: Path) -> None:
    entry_points = configparser.ConfigParser()
    entry_points.read_string(zipfile.ZipFile(wheel).read(f"tilestep-{PROJECT['version']}.dist-info/entry_points.txt").decode())
    assert entry_points["console_scripts"]["tilestep"] == "tilestep.__main__:main"
    assert entry_points["jax_plugins"]["ipu"] == "tilestep.profiling.plugin"


@pytest.mark.slow
def test_an_installed_wheel_runs_the_quickstart(sources: Path, tmp_path: Path) -> None:
    shutil.rmtree(sources / "build", ignore_errors=True)
    wheel = built_wheel(sources)
    subprocess.run((sys.executable, "-m", "venv", tmp_path / "venv"), check=True)
    python = str(tmp_path / "venv" / "bin" / "python")
    subprocess.run((python, "-m", "pip", "install", "--quiet", "--constraint", ROOT / "constraints.txt", wheel), check=True)
    subprocess.run((python, "-m", "pip", "check"), check=True)
    done = subprocess.run((python, ROOT / "examples" / "quickstart.py"), cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "\n[ 2.  5. 10.] IpuDevice(id=0" in done.stdout


def test_the_version_is_written_once_and_known_to_both() -> None:
    assert tilestep.__version__ == PROJECT["version"] == importlib.metadata.version("tilestep")


def test_versions_of_jax_are_the_same_wherever_they_stand() -> None:
    oldest = ".".join(map(str, versions.OLDEST))
    assert f"jax>={oldest}" in PROJECT["dependencies"]
    assert f"\njax {oldest} or newer." in (ROOT / "docs" / "how-to" / "build.md").read_text(encoding="utf-8")
    newest = dict(line.split("<=") for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines() if "<=" in line)
    assert versions.parse(newest["jax"]) == versions.parse(newest["jaxlib"]) == versions.NEWEST_TESTED


def test_what_is_declared_is_used() -> None:
    extras = PROJECT["optional-dependencies"]
    declared = [*PROJECT["dependencies"], *(one for name, extra in extras.items() if name != "dev" for one in extra)]
    by_others = {"flatbuffers", "onnxscript", "tf_keras"}  # imported by jax.export, PyTorch's exporter and TensorFlow
    imported_as = {"dm-haiku": "haiku", "dm-pix": "dm_pix", "google-re2": "re2", "orbax-checkpoint": "orbax", "scikit-learn": "sklearn"}
    names = {re.split(r"[\[<>=]", requirement)[0] for requirement in declared}
    modules = {imported_as.get(name, name) for name in names}
    folders = ("src", "examples", "tests/conformance/from_torch", "tests/programs")
    sources = [path.read_text(encoding="utf-8") for folder in folders for path in (ROOT / folder).rglob("*.py")]
    used = {module for text in sources for module in re.findall(r"^ *(?:import|from) (\w+)", text, re.MULTILINE)}
    assert modules - used == by_others


def test_the_python_versions_agree() -> None:
    low, high = (".".join(map(str, prerequisites[name])) for name in ("OLDEST", "NEWEST"))
    assert PROJECT["requires-python"] == f">={low},<3.{prerequisites['NEWEST'][1] + 1}"
    named = {c.rpartition(" ")[2] for c in PROJECT["classifiers"] if c.startswith("Programming Language :: Python :: 3.")}
    assert {low, high} <= named
