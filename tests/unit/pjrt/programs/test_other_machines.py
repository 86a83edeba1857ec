"""Machines beside the process's: their time and memory, and that neither notices the other."""

import threading
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.sharding import SingleDeviceSharding

from tilestep import hints
from tilestep.machine import changed_machine, load_machine
from tilestep.options import PlanOptions
from tilestep.pjrt.programs.other_machines import MachineBeside, machine_beside
from tilestep.pjrt.running.dry import current_mode
from tilestep.pjrt.table import client
from tilestep.profiling.plugin import initialize
from tilestep.sim import System
from tilestep.train import Pipeline


def _machine(num_ipus: int = 4, num_tiles: int = 16) -> MachineBeside:
    initialize()
    return machine_beside(changed_machine(load_machine("m2000"), num_ipus=num_ipus, num_tiles=num_tiles), PlanOptions())


def _stage(params: Any, x: Any) -> Any:
    return jnp.tanh(x @ params["w"])


def _loss(params: Any, x: Any) -> Any:
    return jnp.sum(_stage(params, x) ** 2)


def _trained(machine: MachineBeside, steps: int = 2) -> tuple[int, System]:
    """Trains three stages. Returns: the cycle at the end, and the system."""
    player = machine.player()
    with machine.running(player):
        pipeline = Pipeline([_stage, _stage, _loss], optax.sgd(0.1), 4, devices=machine.devices, device_mapping=[0, 1, 0], strict=False)
        state = pipeline.init([{"w": np.zeros((8, 8), np.float32)}] * 3)
        for _ in range(steps):
            state, losses = pipeline.step(state, np.zeros((4, 2, 8), np.float32))
            assert np.asarray(losses).tolist() == [0.0] * 4  # nothing is computed
    return player.mark().cycle, player.system


def test_equal_machines_are_one() -> None:
    assert _machine() is _machine()
    assert _machine() is not _machine(num_tiles=17)


def test_its_devices_are_those_of_its_figures() -> None:
    machine = _machine(num_ipus=3, num_tiles=20)
    assert [device.id for device in machine.devices] == [0, 1, 2]
    assert {device.platform for device in machine.devices} == {"ipu"}
    assert machine.devices[0].num_tiles == 20
    assert machine.devices[0].client is not _machine().devices[0].client


def test_two_machines_have_times_of_their_own() -> None:
    small, large = _machine(num_tiles=16), _machine(num_tiles=256)
    alone = _trained(small)[0], _trained(large)[0]
    assert alone[0] != alone[1]
    assert (_trained(small)[0], _trained(large)[0]) == alone


def test_the_process_has_no_client_and_no_dry_run_because_of_it() -> None:
    before = client.started_client()
    machine = _machine()
    player = machine.player()
    with machine.running(player):
        held = jax.device_put(np.ones((4, 4), np.float32), machine.devices[0])
        assert current_mode() is None
        assert np.asarray(held).tolist() == [[0.0] * 4] * 4
        assert float(jnp.ones(3).sum()) == 3.0  # on the process's own devices
    assert client.started_client() is before
    assert held.shape == (4, 4)


def test_waits_for_values_end() -> None:
    machine = _machine()
    with machine.running(machine.player()):
        for kind in ("device", "pinned_host"):
            where = SingleDeviceSharding(machine.devices[1], memory_kind=kind)
            jax.block_until_ready([jax.device_put(np.zeros(4, np.float32), where) for _ in range(2)])


def test_a_wait_takes_the_hosts_time() -> None:
    machine = _machine()
    player = machine.player()
    with machine.running(player):
        result = jax.jit(_stage)({"w": jax.device_put(np.zeros((64, 64), np.float32), machine.devices[0])}, np.zeros((8, 64), np.float32))
        sent = player.mark()
        result.block_until_ready()
        waited = player.mark()
    assert sent.host_cycle < sent.cycle == waited.host_cycle


def test_hints_go_to_its_journal_alone() -> None:
    machine = _machine()
    seen: list[bool] = []
    with machine.running(machine.player()):
        assert hints.listens("ipu")
        other = threading.Thread(target=lambda: seen.append(hints.listens("ipu")))
        other.start()
        other.join()
    assert seen == [client.started_client() is not None]


def test_a_run_of_another_thread_waits() -> None:
    machine = _machine()
    ends: list[int] = []
    threads = [threading.Thread(target=lambda: ends.append(_trained(machine)[0])) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ends == [ends[0]] * 2


def test_a_program_that_does_not_fit_runs_and_says_so() -> None:
    machine = _machine()
    player = machine.player()
    with machine.running(player):
        jax.jit(lambda x: x + 1)(jax.device_put(np.zeros((2048, 2048), np.float32), machine.devices[0]))
    player.mark()
    (program,) = player.system.programs.values()
    assert program.memory.peak_bytes > machine.spec.ipu.tile.sram_bytes


@pytest.mark.parametrize("end", [0, 3])
def test_a_loop_whose_end_depends_on_data_counts_once(end: int) -> None:
    machine = _machine()
    player = machine.player()
    with machine.running(player):
        jax.jit(lambda x: jax.lax.while_loop(lambda y: y[0] < end, lambda y: y + 1, x))(
            jax.device_put(np.zeros(4, np.float32), machine.devices[0])
        )
    player.mark()
    (program,) = player.system.programs.values()
    assert any("trip_count" in assumption for assumption in program.assumptions)
