"""The tests of pipelines, in a process that has several CPU devices: how many there are is decided when it starts."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.processes import run_python

HERE = Path(__file__).resolve().parent


CPUS = {"XLA_FLAGS": f"{os.environ['XLA_FLAGS']} --xla_force_host_platform_device_count=8", "JAX_PLATFORMS": "cpu"}
IPUS = {"TILESTEP_MACHINE": "bow-2000", "JAX_PLATFORMS": "ipu,cpu"}


def run(names: str, *options: str, environ: Mapping[str, str] = CPUS) -> None:
    result = run_python(
        *("-m", "pytest", "-q", "-p", "no:cacheprovider", *options, *(str(HERE / name) for name in names.split())), environ=environ
    )
    assert result.returncode == 0, f"{result.stdout}\n{result.stderr}"
    assert "skipped" not in result.stdout


@pytest.mark.parametrize(
    "names",
    [
        "device_put.py compiled_call.py pipelines.py pipelines_random.py pipelines_interrupts.py pipelines_resumed.py",
        "pipelines_options.py pipelines_optimizers.py pipelines_outputs.py pipelines_failures.py pipelines_watch.py",
    ],
)
def test_pipelines_on_several_devices_of_cpu(names: str) -> None:
    run(names, "-m", "not slow")


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "pipelines_options.py",
        "pipelines_optimizers.py",
        "pipelines_outputs.py",
        "pipelines_failures.py",
        "pipelines_random.py",
        "pipelines_interrupts.py",
        "pipelines_resumed.py",
        "pipelines_watch.py",
    ],
)
def test_more_of_them(name: str) -> None:
    run(name, "-m", "slow")


@pytest.mark.slow
def test_ctrl_c_on_emulated_ipus() -> None:
    run("pipelines_interrupts.py", "-m", "not slow", environ=IPUS)
