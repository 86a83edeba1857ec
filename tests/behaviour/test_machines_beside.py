"""A machine beside the process's and the process's own work at once."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tilestep
from tilestep.machine import load_machine
from tilestep.options import PlanOptions
from tilestep.pjrt.programs.other_machines import MachineBeside, machine_beside
from tilestep.views.profile import Profile


def _own(values: np.ndarray[tuple[int, ...], np.dtype[np.float32]]) -> float:
    x = jax.device_put(values, jax.devices("ipu")[0])
    return float(jax.jit(lambda x: jnp.tanh(x @ x).sum())(x))


def _beside(machine: MachineBeside) -> int:
    player = machine.player()
    with machine.running(player):
        x = jax.device_put(np.ones((64, 64), np.float32), machine.devices[1])
        jax.jit(lambda x: x @ x)(x).block_until_ready()
    return player.mark().cycle


def _profiled(machine: MachineBeside | None) -> tuple[Profile, float]:
    with tilestep.profile() as recording:
        if machine is not None:
            _beside(machine)
        value = _own(np.full((8, 8), 0.5, np.float32))
        if machine is not None:
            _beside(machine)
    return recording.profile, value


@pytest.mark.slow
def test_neither_notices_the_other() -> None:
    _own(np.zeros((8, 8), np.float32))
    alone, value = _profiled(None)
    machine = machine_beside(load_machine("m2000"), PlanOptions())
    took = _beside(machine)
    both, same = _profiled(machine)
    assert value == same == pytest.approx(64 * np.tanh(2.0), rel=1e-6)
    assert [program.name for program in both.programs] == [program.name for program in alone.programs]
    assert both.emulated_cycles == alone.emulated_cycles
    with tilestep.dry_run():
        assert _beside(machine) == took


def test_values_of_a_machine_beside_do_not_slow_the_process_to_wrong_answers() -> None:
    machine = machine_beside(load_machine("m2000"), PlanOptions())
    with machine.running(machine.player()):
        held = jax.device_put(np.ones((4, 4), np.float32), machine.devices[0])
        assert _own(np.full((8, 8), 0.5, np.float32)) > 60
    assert held.shape == (4, 4)
