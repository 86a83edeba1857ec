"""What a session would have taken on its device's machine. A session on a Cpu device has no machine, and no figures."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Final, final

from tilestep.messages import plain
from tilestep.options import PlanOptions
from tilestep.popart.devices.device_info import DeviceInfo
from tilestep.popart.enums import Instrumentation
from tilestep.popart.exceptions import popart_exception, popart_runtime_error, poplar_exception
from tilestep.popart.optimizers import Optimizer
from tilestep.popart.options import SessionOptions
from tilestep.popart.session.plan import SessionPlan

if TYPE_CHECKING:
    from tilestep.popart.session.emulation import Emulation, Report

_INNER: Final = "inner_ipu_"  # how the names of counters of single IPUs begin


@final
class SessionFigures:
    """The emulated machine of a session, told what the session does."""

    def __init__(
        self, plan: SessionPlan, device: DeviceInfo, options: SessionOptions, name: str, optimizer: Optimizer | None = None
    ) -> None:
        self._plan, self._options, self._optimizer = plan, options, optimizer
        self._machine = device.machine()
        self._emulation: Emulation | None = None
        self._name = plain(name)
        self._has_run = False

    def prepare(self) -> None:
        """Plans the step. Raises: OutOfMemoryException if it does not fit the machine, popart_exception if it has too few tiles."""
        if self._machine is None:
            return
        from tilestep.popart.session.emulation import Emulation, emulated_program, emulation_options

        tiles, own = self._options.numIOTiles, self._machine.ipu.num_tiles
        if tiles >= own:
            raise popart_exception(f"numIOTiles is {tiles}: it must be less than the {own:,} tiles of an IPU")
        options = emulation_options(self._options.engineOptions, PlanOptions(num_io_tiles=max(0, tiles), fusion="none"))
        emulation = Emulation(self._machine, name=self._name, options=options)
        emulation.prepare(emulated_program(self._plan, self._options, self._optimizer))
        if self._emulation is not None:
            self._emulation.forget()
        weakref.finalize(self, emulation.forget).atexit = False  # a report may need its plays again
        self._emulation = emulation

    def weights_from_host(self) -> None:
        """The weights were sent."""
        if self._emulation is not None:
            self._emulation.weights_from_host()

    def weights_to_host(self) -> None:
        """The weights were received."""
        if self._emulation is not None:
            self._emulation.weights_to_host()

    def ran(self, name: str, *, forward: bool = False) -> None:
        """A step ran. Args: name: of the run, in reports. forward: whether it was the forward part of a pipeline alone."""
        self._has_run = True
        if self._emulation is not None:
            self._emulation.ran(name=plain(name), forward=forward)

    def cycles(self, counter: str) -> int:
        """Cycles of the last run. Args: counter: "" for the whole run, "inner_ipu_0" for the programs of an IPU.

        Raises: popart_runtime_error before a run, without the option, and for a counter that the options do not ask for.
        """
        if not self._has_run:
            raise popart_runtime_error("Must call run before getCycleCount.")
        if not self._options.instrumentWithHardwareCycleCounter:
            raise popart_runtime_error(
                "SessionOption 'instrumentWithHardwareCycleCounter' must be set to true in order to measure cycle count"
            )
        counters = self._options.hardwareInstrumentations
        ipus = 1 if self._machine is None else self._machine.num_ipus
        known = {"": Instrumentation.Outer, **{f"{_INNER}{ipu}": Instrumentation.Inner for ipu in range(ipus)}}
        if counter not in known or known[counter] not in counters:
            raise popart_runtime_error(
                f"Invalid id for cycle counter, '{counter}'. Make sure you have set SessionOption::hardwareInstrumentations correctly."
            )
        emulation = self._emulated()
        return emulation.inner_cycles(int(counter.removeprefix(_INNER))) if counter else emulation.cycles()

    def report(self) -> Report:
        """The recording of the session so far. Raises: poplar_exception for a Cpu device."""
        return self._emulated().report()

    def summary(self, *, reset: bool) -> str:
        """Figures as text. Args: reset: whether the next summary begins here. Raises: poplar_exception for a Cpu device."""
        emulation = self._emulated()
        text = emulation.summary()
        if reset:
            emulation.reset_profile()
        return text

    def _emulated(self) -> Emulation:
        if self._emulation is None:
            raise poplar_exception(
                "A Cpu device has no tiles and no cycles: use createIpuModelDevice, or acquire a device. "
                "Profiling is disabled for current device type."
            )
        return self._emulation
