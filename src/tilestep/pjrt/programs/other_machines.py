"""Machines beside the process's: JAX's devices on which all runs are dry, with a player for each program that somebody times.

    machine = machine_beside(load_machine("m2000"))
    player = machine.player()
    with machine.running(player):
        jax.jit(f, device=...)(jax.device_put(x, machine.devices[0]))
    player.mark().cycle

The process need not use platform `ipu`, and if it does, neither notices the other.
"""

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator
from typing import Final, final

from tilestep import hints
from tilestep.engine_options import EngineOptions
from tilestep.machine.spec import MachineSpec
from tilestep.options import PlanOptions
from tilestep.pjrt import _native
from tilestep.pjrt.running.dry import DryMode
from tilestep.pjrt.running.entries import PlannedRun
from tilestep.pjrt.running.player import Player
from tilestep.pjrt.table.client import client_beside
from tilestep.plan.steps import Program
from tilestep.settings import Settings

_MODE: Final = DryMode(values="zeros", trip_count=1)  # a loop whose end depends on data counts once, as in a plan alone
_one_at_a_time = threading.RLock()  # a machine has one player at a time


@final
class MachineBeside:
    """One machine beside the process's.

    Attributes:
        spec: its figures.
        devices: its IPUs, for JAX.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings, self.spec = settings, settings.machine
        self._client, self.devices = client_beside(settings, _MODE)

    def player(self, renamed: Callable[[PlannedRun], Program] | None = None) -> Player:
        """A new player, on which nothing has happened. Args: renamed: gives programs the names of a front end."""
        player = Player(self._settings, looks=False, renamed=renamed)
        player.journal.set_apart(True)
        return player

    @contextlib.contextmanager
    def running(self, player: Player) -> Iterator[None]:
        """What this thread does with the machine's devices inside happens on that player. Other threads wait with theirs."""
        with _one_at_a_time, hints.listening(player.journal), hints.with_devices(tuple(self.devices)):
            before = self._client.player
            self._client.use(player)
            _native.count_dry(1)
            try:
                yield
            finally:
                _native.count_dry(-1)
                self._client.use(before)


@functools.cache
def machine_beside(machine: MachineSpec, plan: PlanOptions) -> MachineBeside:
    """The machine beside the process's with these figures, and with these options for its programs. Equal machines are one.

    The platform must be registered (`pjrt.plugin.initialize`), and need not be started.
    """
    settings = Settings(
        machine=machine,
        hardware_ids=tuple(range(machine.num_ipus)),
        allow_out_of_memory=True,
        plan_options=plan,
        engine=EngineOptions(retain_debug_information=True),
    )
    return MachineBeside(settings)
