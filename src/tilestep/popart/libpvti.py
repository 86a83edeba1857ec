"""The names of PopVision's trace library on `tilestep.tracing`: under `tilestep run --popart`, `import libpvti` gives this module.

A process is traced if PVTI_OPTIONS says so. Else everything here does nothing.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from tilestep import tracing
from tilestep.tracing import Channel, Series
from tilestep.tracing.tracepoints import TracedSpan

_F = TypeVar("_F", bound=Callable[..., Any])

createTraceChannel = tracing.create_channel
enableTraceChannel = tracing.enable_channel
disableTraceChannel = tracing.disable_channel
checkTraceChannel = tracing.is_channel_enabled
closeTrace = tracing.close
HeatmapDouble = tracing.heat_map
traceDrivers: Final = createTraceChannel("Drivers")
tracePoplar: Final = createTraceChannel("Poplar")
traceFramework: Final = createTraceChannel("Framework")


class Tracepoint:
    """A span, as a context manager."""

    def __new__(cls, channel: Channel, label: str) -> TracedSpan:
        """Makes the span. Raises: ValueError for a channel's name that is empty."""
        return tracing.tracepoint(label, channel=channel)

    @staticmethod
    def begin(channel: Channel, label: str) -> None:
        """A span begins."""
        tracing.tracepoint.begin(label, channel=channel)

    @staticmethod
    def end(channel: Channel, label: str) -> None:
        """A span ends."""
        del channel  # it is that of the begin
        tracing.tracepoint.end(label)

    @staticmethod
    def event(channel: Channel, label: str) -> None:
        """Notes a moment."""
        tracing.event(label, channel=channel)


class Graph:
    """A graph over wall time. Args: name: of the graph. unit: of its values."""

    def __init__(self, name: str, unit: str = "") -> None:
        self._name, self._unit = name, unit

    def addSeries(self, name: str) -> Series:
        """A line of the graph, to which `add` adds values."""
        return tracing.series(name, self._unit, graph=self._name)


def instrument_fn(channel: Channel) -> Callable[[_F], _F]:
    """A decorator: each call of the function is a span of its name."""
    return lambda function: tracing.tracepoint(function, channel=channel)


def instrument(target: Any, methods: Sequence[str], channel: Channel) -> None:
    """Makes each call of methods of an object a span. Raises: AttributeError for one that the object's class lacks."""
    kind: Any = target.__class__
    traced = {name: tracing.tracepoint(getattr(kind, name), channel=channel) for name in methods}
    target.__class__ = type(kind.__name__, (kind,), {"__module__": kind.__module__, "__qualname__": kind.__qualname__, **traced})


def listTraceChannel() -> list[list[str | bool]]:
    """[name, whether it records] of each channel."""
    return [[name, enabled] for name, enabled in tracing.list_channels()]


def getCurrentTraceFilename() -> str:
    """The file of this process; '' in one that is not traced."""
    return str(tracing.current_file() or "")
