"""The tests of pipelines, in a process that has several CPU devices: how many there are is decided when it starts."""

from __future__ import annotations

from pathlib import Path

from tests.processes import run_python

HERE = Path(__file__).resolve().parent


def test_pipelines_on_several_devices_of_cpu() -> None:
    result = run_python(
        *("-m", "pytest", "-q", "-p", "no:cacheprovider", str(HERE / "pipelines.py")),
        environ={"XLA_FLAGS": "--xla_force_host_platform_device_count=4", "JAX_PLATFORMS": "cpu"},
    )
    assert result.returncode == 0, f"{result.stdout}\n{result.stderr}"
    assert "skipped" not in result.stdout
