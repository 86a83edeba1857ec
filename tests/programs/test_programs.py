"""Programs as people write them, unmodified: on `ipu` they print what they print on CPU, and the profile names what they did.

Both compute by XLA:CPU. What is optimised otherwise, since trips of loops are counted, may round otherwise, so values are compared to
1e-4 of the largest of each kind; most are equal. `make test-all` installs what the programs import.
"""

import json
import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from tests.processes import run_python

FOLDER = Path(__file__).parent
TOLERANCE = 1e-4  # of the largest value of a kind


class Expected(NamedTuple):
    """What a profile has to name."""

    program: str  # the one that matters
    runs: int
    families: frozenset[str]  # among those that take its time
    falls: str | None  # what the program prints that has to become smaller


PROGRAMS = {
    "nnx_transformer": Expected("jit_train_step", 30, frozenset({"matmul", "reduce", "elementwise"}), "losses"),
    "equinox_cnn": Expected("jit_train_step", 20, frozenset({"convolution", "matmul", "elementwise"}), "losses"),
    "optax_schedules": Expected("jit_step", 60, frozenset({"matmul", "elementwise"}), "losses"),
    "diffrax_neural_ode": Expected("jit_train_step", 8, frozenset({"matmul", "elementwise"}), "losses"),
    "numpyro_nuts": Expected("jit__fori_collect_loop", 1, frozenset({"elementwise"}), None),
    "orbax_async_save": Expected("jit_train_step", 12, frozenset({"matmul", "elementwise"}), "losses"),
    "haiku_images": Expected("jit_train_step", 12, frozenset({"convolution", "elementwise"}), "losses"),
}


def printed(stdout: str) -> dict[str, Any]:
    return json.loads(stdout.splitlines()[-1])


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_gives_on_ipu_what_it_gives_on_cpu(name: str, tmp_path: Path) -> None:
    expected, script, file = PROGRAMS[name], str(FOLDER / f"{name}.py"), tmp_path / "profile.json"
    on_cpu = run_python(script, environ={"JAX_PLATFORMS": "cpu"})
    assert on_cpu.returncode == 0, on_cpu.stderr
    on_ipu = run_python("-m", "tilestep", "run", "--json", str(file), script, environ={"PYTHONFAULTHANDLER": "1"})
    assert on_ipu.returncode == 0, on_ipu.stderr

    here, there = printed(on_ipu.stdout), printed(on_cpu.stdout)
    assert here.keys() == there.keys()
    for kind, values in there.items():
        if isinstance(values, str):
            assert here[kind] == values
        else:
            np.testing.assert_allclose(here[kind], values, rtol=0, atol=TOLERANCE * np.abs(values).max(), err_msg=kind)
    if expected.falls is not None:
        losses = here[expected.falls]
        assert np.mean(losses[-3:]) < np.mean(losses[:3])

    profile = json.loads(file.read_text())
    (main,) = (program for program in profile["programs"] if program["name"] == expected.program and program["runs"] == expected.runs)
    assert main["cycles"]["compute"] > 0
    assert {family["family"] for family in main["families"]} >= expected.families
    assert main["fallback_ops"] == []
    _, _, summary = on_ipu.stderr.partition("\ntilestep: ")
    assert expected.program in summary
    assert summary.index("What to do") < summary.index("Time of IPU 0, the busiest") < summary.index("Largest supersteps")
    advice = summary[: summary.index("Time of IPU 0")]
    assert len([line for line in advice.splitlines() if line.lstrip()[:2].rstrip(".").isdigit()]) <= 10, advice
    assert os.linesep not in on_ipu.stdout.rstrip("\n"), "the program prints one line"
