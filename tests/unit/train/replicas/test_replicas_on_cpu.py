"""The tests of replicas once more, on eight CPU devices: how many there are is decided when a process starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.processes import run_python

HERE = Path(__file__).resolve().parent


@pytest.mark.slow
@pytest.mark.parametrize("file", ["test_collectives.py", "test_replicas.py"])
def test_replicas_are_devices_of_cpu(file: str) -> None:
    result = run_python(
        "-m", "pytest", "-q", "-p", "no:cacheprovider", str(HERE / file), environ={"XLA_FLAGS": "--xla_force_host_platform_device_count=8"}
    )
    assert result.returncode == 0, f"{result.stdout}\n{result.stderr}"
    assert "skipped" not in result.stdout
