"""A session's figures: cycles, summaries, reports."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilestep.popart.exceptions import popart_runtime_error
from tilestep.popart.session.calls.prepared import Prepared

if TYPE_CHECKING:
    from tilestep.popart.session.emulation import Report


class FigureCalls(Prepared):
    """Methods about figures."""

    def getCycleCount(self, id: str = "") -> int:
        """Cycles of the last run on the device's machine. Args: id: "" for the whole run, "inner_ipu_0" for its computation alone.

        Raises: popart_runtime_error before a run, or without `instrumentWithHardwareCycleCounter`; poplar_exception for a Cpu device.
        """
        return self._figures.cycles(id)

    def getSummaryReport(self, resetProfile: bool = True) -> str:
        """Figures of the session as text. Raises: popart_runtime_error before `prepareDevice`, poplar_exception for a Cpu device."""
        self._require_report()
        return self._figures.summary(reset=resetProfile)

    def getReport(self) -> Report:
        """The recording of the session so far, as `tilestep.open_report` gives it. Raises: as `getSummaryReport`."""
        self._require_report()
        return self._figures.report()

    def getSerializedGraph(self) -> bytes:
        """The session's program as StableHLO, in text. Raises: popart_runtime_error before `prepareDevice`."""
        self._require_report()
        return self._engine.text().encode()

    def _require_report(self) -> None:
        if self._carry is None or not self._options.compileEngine:
            raise popart_runtime_error("Session must have been prepared before a report can be fetched")
        if self._engine.from_file is not None:
            raise popart_runtime_error(
                f"Unable to get reports when using a cached executable.\nEither remove the cache file ({self._engine.from_file}), or \n"
                "disable engine caching (userOptions.enableEngineCaching = false)"
            )
