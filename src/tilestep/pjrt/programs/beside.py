"""Machines beside the process's: JAX's devices on which all runs are dry, with a journal for each program that somebody times.

    machine = machine_beside(load_machine("m2000"))
    journal = machine.journal()
    with machine.running(journal):
        jax.jit(f, device=...)(jax.device_put(x, machine.devices[0]))
    journal.mark().cycle

The process need not use platform `ipu`, and if it does, neither notices the other.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Iterator
from typing import Final, final

from tilestep import hints
from tilestep.engine_options import EngineOptions
from tilestep.machine.spec import MachineSpec
from tilestep.options import PlanOptions
from tilestep.pjrt import _native
from tilestep.pjrt.running.dry import DryMode
from tilestep.pjrt.running.journal import Journal
from tilestep.pjrt.table.client import client_beside
from tilestep.settings import Settings

_MODE: Final = DryMode(values="zeros", trip_count=1)  # a loop whose end depends on data counts once, as in a plan alone
_one_at_a_time = threading.RLock()  # a machine has one journal at a time


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

    def journal(self) -> Journal:
        """A new journal, in which nothing has happened on the machine."""
        journal = Journal(self._settings, looks=False)
        journal.set_apart(True)
        return journal

    @contextlib.contextmanager
    def running(self, journal: Journal) -> Iterator[None]:
        """What this thread does with the machine's devices inside is noted in that journal. Other threads wait with theirs."""
        with _one_at_a_time, hints.listening(journal), hints.with_devices(tuple(self.devices)):
            before = self._client.journal
            self._client.use(journal)
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
