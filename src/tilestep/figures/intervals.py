"""How sure the figures are: 80 % intervals of a profile's time and of its fullest tile.

An error is that of a kind of work: of a family of operations for what computes, and of what else takes time. The errors of kinds come from
measurements (`model_errors.json`), unless a figure of the machine is less sure than that. Without errors of kinds nobody says how sure a
figure is. The error of a time is that of the kinds of work by their shares of it: those of one program err in the same direction, so
nothing cancels out. A network to which no number of the cost model was fitted has an error of its own beside them, and all of users are.
"""

import functools
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

from tilestep.cost import COLLECTIVES
from tilestep.figures.records import Interval, ProgramProfile
from tilestep.machine.assemble import describe
from tilestep.machine.spec import MachineSpec

MODEL_ERRORS: Final = Path(__file__).with_name("model_errors.json")
_FIGURES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(  # kind of work -> figures of the machine that its time follows
    {
        "matmul": ("ipu.macs_per_cycle_half_float", "ipu.macs_per_cycle_float"),
        "convolution": ("ipu.macs_per_cycle_half_float", "ipu.macs_per_cycle_float"),
        "exchange": ("ipu.tile.exchange_bytes_per_cycle",),
        "sync": ("ipu.sync_cycles",),
        "links": ("link.bytes_per_second",),
        "host": ("host.to_ipus_bytes_per_second", "host.to_host_bytes_per_second"),
        "load": ("host.load_seconds",),
        "dispatch": ("host.dispatch_seconds",),
        "call": (),
        "unseen": (),
    }
)
UNSEEN: Final = "unseen"  # a kind of which a network outside the fit has a share of 1
_RATES_OF_OTHER_FAMILIES: Final = ("ipu.tile.load_store_bytes_per_cycle",)
_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "exchange": "exchange between tiles",
        "sync": "synchronisation",
        "links": "links between IPUs",
        "host": "the host's link",
        "load": "loading of programs",
        "dispatch": "the host's dispatches",
        "call": "what else a call waits for",
        "unseen": "a network that nothing was fitted to",
    }
)


@dataclass(frozen=True, kw_only=True)
class ModelErrors:
    """Relative errors of the cost model: eight of ten are smaller.

    Attributes:
        kinds: of work, to the error of its time.
        other: of kinds that no measurement has.
        tile: what the fullest tile needs is from less to more than predicted, as parts of that.
    """

    kinds: Mapping[str, float]
    other: float
    tile: tuple[float, float]

    def of_time(self, shares: Mapping[str, float], machine: MachineSpec) -> tuple[float, str]:
        """The error of a time that kinds of work have these shares of, and the kind that has most of it; '' of no time."""
        doubts = {source.path: source.uncertainty for source in describe(machine)}
        parts = {
            kind: share * max([self.kinds.get(kind, self.other), *(doubts[path] for path in _FIGURES.get(kind, _RATES_OF_OTHER_FAMILIES))])
            for kind, share in shares.items()
        }
        return max(sum(parts.values()), doubts["ipu.clock_hz"]), max(parts, key=parts.__getitem__, default="")


@functools.cache
def model_errors() -> ModelErrors:
    """Those of this version of the package."""
    document = json.loads(MODEL_ERRORS.read_text(encoding="utf-8"))
    return ModelErrors(kinds=document["kinds"], other=document["other"], tile=tuple(document["tile"]))


def interval_of(
    programs: Iterable[ProgramProfile], emulated_s: float, machine: MachineSpec, *, tile_bytes: int, waited_cycles: int
) -> Interval | None:
    """How sure the time and the fullest tile are; None if nothing ran or was refused, or no errors are known.

    Args: tile_bytes: of the fullest tile. waited_cycles: of an IPU for the host's dispatches.
    """
    found = error_of(((program, 1) for program in programs if program.runs), machine, waited_cycles=waited_cycles)
    if not tile_bytes or found is None:
        return None
    error, widest = found
    full = tile_bytes / machine.ipu.tile.sram_bytes
    less, more = model_errors().tile
    return Interval(
        time_s=emulated_s,
        low_s=emulated_s / (1 + error),
        high_s=emulated_s * (1 + error),
        widest=widest,
        tile=full,
        low_tile=full * less,
        high_tile=full * more,
    )


def error_of(programs: Iterable[tuple[ProgramProfile, float]], machine: MachineSpec, *, waited_cycles: float) -> tuple[float, str] | None:
    """The relative error of the time of programs, and what has most of it, in words; None if no errors are known.

    Args: programs: each with how often its cycles count. waited_cycles: of an IPU for the host's dispatches.
    """
    errors = model_errors()
    if not errors.kinds:
        return None
    error, widest = errors.of_time({**shares(programs, waited_cycles=waited_cycles), UNSEEN: 1.0}, machine)
    return error, _NAMES.get(widest, f"{widest} rates")


def shares(programs: Iterable[tuple[ProgramProfile, float]], *, waited_cycles: float = 0) -> dict[str, float]:
    """Kind of work -> its part of all cycles, which add up to 1: families of operations for what computes, and 'exchange', 'sync',
    'links' (between IPUs), 'host', 'load' and 'dispatch'.

    Args: programs: each with how often its cycles count. waited_cycles: of an IPU for the host's dispatches.
    """
    spent: dict[str, float] = {"dispatch": waited_cycles}

    def add(kind: str, cycles: float) -> None:
        spent[kind] = spent.get(kind, 0) + cycles

    for program, times in programs:
        for family in program.families:
            links = family.family in COLLECTIVES
            add("links" if links else family.family, family.compute * times)
            add("links" if links else "exchange", family.exchange * times)
            add("sync", family.sync * times)
        add("host", (program.cycles.host + program.cycles.read) * times)
        add("load", program.cycles.load * times)
    whole = sum(spent.values())
    return {kind: cycles / whole for kind, cycles in spent.items() if cycles} if whole else {}
