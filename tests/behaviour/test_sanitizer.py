"""The C parts, built with AddressSanitizer and the undefined behaviour sanitizer, under what it does all day.

The build lies in a folder of its own beside a copy of the package. Python allocates by malloc then, so that a use of a freed object shows.
Leaks are not looked for: Python, jaxlib and XLA keep much until the process ends, and so does the platform (memories, layouts, clients).
"""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.processes import ROOT

pytestmark = pytest.mark.slow

PACKAGE = ROOT / "src" / "tilestep"
EXTENSIONS = {"pjrt/native": "pjrt/_native.abi3.so", "train/native": "train/_feeds.abi3.so"}  # sources and what is made of them
FLAGS = ("-std=c11", "-pthread", "-O1", "-g", "-fno-omit-frame-pointer", "-Wall", "-Wextra", "-Werror", "-DPy_LIMITED_API=0x030B0000")
LIBRARIES = ("libasan.so", "libubsan.so")
REPORTS = ("ERROR: AddressSanitizer", "runtime error:")
SMOKE = (
    "test_devices.py", "test_donation.py", "test_errors.py", "test_feeds.py", "test_like_cpu.py", "test_profiler.py", "test_puts.py",
    "test_robust.py", "test_semantics.py", "test_sizes.py", "test_stored.py",
)  # fmt: skip
LIMIT_WALL_S = 2400
KEPT_MIB = 16  # of freed memory: full before a test of what steps leave behind begins to measure


def sources(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.c"))


def compiler(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["gcc", *arguments], capture_output=True, text=True, check=False)


def includes(folder: Path) -> tuple[str, ...]:
    return ("-isystem", sysconfig.get_paths()["include"], f"-I{folder}")


def preloads() -> str:
    found = [compiler(f"-print-file-name={name}").stdout.strip() for name in LIBRARIES]
    missing = [name for name, path in zip(LIBRARIES, found, strict=True) if not os.path.isabs(path)]
    if missing:
        pytest.skip(f"the compiler has no {', '.join(missing)}")
    return ":".join(found)


@pytest.fixture(scope="module")
def environ(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Of a process that takes the sanitized build; reports go to files whose names begin with `report`."""
    home = tmp_path_factory.mktemp("sanitized")
    package = home / "src" / "tilestep"
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
    for found in (ROOT / "src").glob("*.egg-info"):  # JAX finds the platform by the entry point
        shutil.copytree(found, home / "src" / found.name)
    for folder, made in EXTENSIONS.items():
        built = compiler(
            "-shared", "-fPIC", *FLAGS, "-fsanitize=address,undefined", *includes(package / folder), *map(str, sources(package / folder)),
            "-o", str(package / made),
        )  # fmt: skip
        assert built.returncode == 0, built.stderr
    return os.environ | {
        "PYTHONPATH": str(home / "src"),
        "PYTHONMALLOC": "malloc",
        "PYTHONDONTWRITEBYTECODE": "1",
        "LD_PRELOAD": preloads(),
        "ASAN_OPTIONS": (
            f"detect_leaks=0:abort_on_error=1:allocator_may_return_null=1:quarantine_size_mb={KEPT_MIB}:log_path={home / 'report'}"
        ),
        "UBSAN_OPTIONS": f"print_stacktrace=1:halt_on_error=1:log_path={home / 'report'}",
    }


def reports(environ: dict[str, str]) -> str:
    home = Path(environ["PYTHONPATH"]).parent
    return "\n".join(file.read_text() for file in sorted(home.glob("report*")))


def test_a_fault_is_found(environ: dict[str, str]) -> None:
    """The build is the one that runs, and what it finds ends the process."""
    code = "from tilestep.pjrt import _native; print(_native.__file__, flush=True); _native.object_at(64)"
    ended = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, timeout=LIMIT_WALL_S, check=False)
    assert ended.stdout.startswith(environ["PYTHONPATH"])
    assert ended.returncode != 0
    assert REPORTS[0] in reports(environ)
    for file in Path(environ["PYTHONPATH"]).parent.glob("report*"):
        file.unlink()


@pytest.mark.timeout(LIMIT_WALL_S)
def test_the_smoke_tests_find_no_fault(environ: dict[str, str]) -> None:
    tests = [str(Path(__file__).with_name(name)) for name in SMOKE]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not slow", *tests]
    ended = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=LIMIT_WALL_S, check=False)
    assert (ended.returncode, reports(environ)) == (0, ""), ended.stdout[-6000:] + ended.stderr[-2000:]


@pytest.mark.parametrize("source", [source.name for source in sources(PACKAGE / "pjrt" / "native")])
def test_the_compiler_finds_no_fault_on_any_path(source: str) -> None:
    """The platform's; of the feeds' it says that a type's code might be unknown, which is checked where an element is made."""
    checks = ("-fanalyzer", "-Wshadow", "-Wconversion", "-Wstrict-prototypes")
    folder = PACKAGE / "pjrt" / "native"
    checked = compiler("-c", "-fPIC", *FLAGS, "-O2", *checks, *includes(folder), str(folder / source), "-o", os.devnull)
    assert (checked.returncode, checked.stderr) == (0, "")
