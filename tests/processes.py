"""Runs Python in a process of its own, free of this one's settings."""

import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SETTINGS = re.compile(r"(JAX|TILESTEP|XLA|POPLAR|PVTI)_.*")
# LLVM improves no program, and operations are compiled one by one, without MLIR and as one module, where XLA would divide a program among
# threads: most programs of tests run once, and take longer to compile than to run. A flag that XLA does not know ends a process, and newer
# versions may have dropped the last two.
QUICKLY_COMPILED = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true" + (
    " --xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1" if version("jaxlib").startswith("0.10.") else ""
)
AS_USERS_COMPILE = {"XLA_FLAGS": ""}
PROCESS_TIMEOUT_WALL_S = 540  # below pytest's own limit, which does not say what the process printed


def clean_environ(settings: Mapping[str, str] | None = None) -> dict[str, str]:
    """This process's environment without what sets JAX, XLA and tilestep, wide enough that tables are not wrapped, and with `settings`.

    Programs are compiled as the tests' own are.
    """
    kept = {name: value for name, value in os.environ.items() if not SETTINGS.fullmatch(name)}
    return kept | {"COLUMNS": "140", "XLA_FLAGS": os.environ.get("XLA_FLAGS", "")} | dict(settings or {})


def run_python(
    *words: str, environ: Mapping[str, str] | None = None, text_in: str | None = None, folder: Path = ROOT, strict: bool = False
) -> subprocess.CompletedProcess[str]:
    """Runs `python WORDS...` in a folder, by default the project's root, in a clean environment to which `environ` is added.

    Args: strict: whether warnings are errors.
    """
    options = ["-W", "error"] if strict else []
    return subprocess.run(
        (sys.executable, *options, "-X", "faulthandler", *words),
        cwd=folder,
        env=clean_environ(environ),
        input=text_in,
        capture_output=True,
        text=True,
        timeout=PROCESS_TIMEOUT_WALL_S,
        check=False,
    )


def attempt(code: str, *, strict: bool = True, folder: Path = ROOT, **settings: str) -> subprocess.CompletedProcess[str]:
    """How `code` ends in a folder with environment variables `settings`; with `strict`, warnings are errors."""
    return run_python("-c", textwrap.dedent(code), environ=settings, folder=folder, strict=strict)


def python(code: str, *, strict: bool = True, folder: Path = ROOT, **settings: str) -> subprocess.CompletedProcess[str]:
    """As `attempt`, but the program has to end well."""
    return ended_well(attempt(code, strict=strict, folder=folder, **settings))


def ended_well(result: subprocess.CompletedProcess[str]) -> subprocess.CompletedProcess[str]:
    """The same. Raises: AssertionError, which tells what was printed, if the exit status is not 0."""
    assert result.returncode == 0, f"exit status {result.returncode}\n{result.stdout}\n{result.stderr}"
    return result
