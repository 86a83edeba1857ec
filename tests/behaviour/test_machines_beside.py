"""A machine beside the process's and the process's own work at once."""

import jax
import jax.numpy as jnp
import numpy as np

from tilestep.machine import load_machine
from tilestep.options import PlanOptions
from tilestep.pjrt.programs.other_machines import machine_beside


def _own(values: np.ndarray[tuple[int, ...], np.dtype[np.float32]]) -> float:
    x = jax.device_put(values, jax.devices("ipu")[0])
    return float(jax.jit(lambda x: jnp.tanh(x @ x).sum())(x))


def test_values_of_a_machine_beside_do_not_slow_the_process_to_wrong_answers() -> None:
    machine = machine_beside(load_machine("m2000"), PlanOptions())
    with machine.running(machine.player()):
        held = jax.device_put(np.ones((4, 4), np.float32), machine.devices[0])
        assert _own(np.full((8, 8), 0.5, np.float32)) > 60
    assert held.shape == (4, 4)
