"""Runs Python in a process of its own, free of this one's settings."""

from __future__ import annotations

import os
import re
import subprocess
import sys
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
# Code that runs Python with the words behind it, where SIGHUP ends it: the tests may run under nohup.
WITHOUT_NOHUP = (
    "import os, signal, sys; signal.signal(signal.SIGHUP, signal.SIG_DFL); os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
)
PROCESS_TIMEOUT_WALL_S = 540  # below pytest's own limit, which does not say what the process printed


def clean_environ(environ: Mapping[str, str]) -> dict[str, str]:
    """`environ` without the settings of JAX, XLA and tilestep, and wide enough that tables are not wrapped.

    Programs are compiled as the tests' own are.
    """
    kept = {name: value for name, value in environ.items() if not SETTINGS.fullmatch(name)}
    return kept | {"COLUMNS": "140", "XLA_FLAGS": os.environ.get("XLA_FLAGS", "")}


def run_python(
    *arguments: str, environ: Mapping[str, str] | None = None, text_in: str | None = None, folder: Path = ROOT
) -> subprocess.CompletedProcess[str]:
    """Runs `python ARGUMENTS...` in a folder, by default the project's root, in a clean environment to which `environ` is added."""
    return subprocess.run(
        (sys.executable, *arguments),
        cwd=folder,
        env=clean_environ(os.environ) | dict(environ or {}),
        input=text_in,
        capture_output=True,
        text=True,
        timeout=PROCESS_TIMEOUT_WALL_S,
        check=False,
    )
