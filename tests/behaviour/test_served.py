"""Exported functions: from `ipu` to a process without tilestep, and from there to `ipu`."""

import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import export

import tilestep
from tests.processes import PROCESS_TIMEOUT_WALL_S, clean_environ
from tilestep.train import InfeedQueue, repeat, tuned

X = np.linspace(-1, 1, 24, dtype=np.float32).reshape(8, 3)
ELSEWHERE = """
import importlib.util
from pathlib import Path
import jax, jax.numpy as jnp, numpy as np
from jax import export

assert importlib.util.find_spec("tilestep") is None
x = np.load("x.npy")
for name in ("model", "step"):
    there = export.deserialize(bytearray(Path(name).read_bytes()))
    assert there.platforms == ("cpu",), there.platforms
    np.save(f"{name}.there.npy", jax.jit(there.call)(np.load("w.npy"), x))

def made(x):
    factor = jnp.linalg.cholesky(x.T @ x + jnp.eye(3))
    return jax.lax.scan(lambda c, row: (c + factor @ row, jnp.sin(c)), jnp.zeros(3), x)[1]

Path("made").write_bytes(export.export(jax.jit(made), platforms=("cpu",))(x).serialize())
np.save("made.npy", jax.jit(made)(x))
"""


def without_tilestep(code: str, folder: Path) -> None:
    """Runs code where every installed package is but tilestep. Raises: AssertionError if it fails."""
    packages = folder / "packages"
    packages.mkdir()
    for place in {sysconfig.get_path(name) for name in ("purelib", "platlib")}:
        for entry in Path(place).iterdir():
            if "tilestep" not in entry.name:
                (packages / entry.name).symlink_to(entry)
    environ = clean_environ({"PYTHONPATH": str(packages), "JAX_PLATFORMS": "cpu"})
    command = [sys.executable, "-S", "-W", "error", "-c", code]
    done = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, timeout=PROCESS_TIMEOUT_WALL_S, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_trained_model_goes_to_a_process_without_tilestep_and_another_comes_back(
    ipu: jax.Device, cpu: jax.Device, tmp_path: Path
) -> None:
    def model(w: Any, x: Any) -> Any:
        with tuned(partials_type="half"):  # hints for an emulator that is not there
            return jnp.tanh(x @ w)

    def step(w: Any, x: Any) -> Any:
        return w - 0.1 * jax.grad(lambda w: jnp.mean((model(w, x) - 1) ** 2))(w)

    with jax.default_device(ipu):
        w = repeat(7, step, np.zeros(3, np.float32), InfeedQueue([X] * 7), chunk=3)
    assert w.device == ipu
    np.save(tmp_path / "w.npy", w)
    np.save(tmp_path / "x.npy", X)
    for name, fn in (("model", model), ("step", step)):
        (tmp_path / name).write_bytes(export.export(jax.jit(fn), platforms=("cpu",))(w, X).serialize())
    without_tilestep(ELSEWHERE, tmp_path)
    for name, fn in (("model", model), ("step", step)):
        np.testing.assert_array_equal(np.load(tmp_path / f"{name}.there.npy"), jax.jit(fn)(w, jax.device_put(X, ipu)))

    back = export.deserialize(bytearray((tmp_path / "made").read_bytes()))
    with tilestep.profile() as profile:
        found = jax.jit(back.call)(jax.device_put(X, ipu))
    assert found.device == ipu
    np.testing.assert_array_equal(found, np.load(tmp_path / "made.npy"))
    assert profile.emulated_s > 0


def test_one_file_runs_on_both(ipu: jax.Device, cpu: jax.Device) -> None:
    batch = jax.ShapeDtypeStruct(export.symbolic_shape("batch, 3"), np.float32)
    there = export.deserialize(bytearray(export.export(jax.jit(lambda x: jnp.sin(x @ x.T)), platforms=("cpu", "ipu"))(batch).serialize()))
    for rows in (8, 2):
        on_ipu, on_cpu = (jax.jit(there.call)(jax.device_put(X[:rows], device)) for device in (ipu, cpu))
        assert (on_ipu.device, on_cpu.device) == (ipu, cpu)
        np.testing.assert_array_equal(on_ipu, on_cpu)
