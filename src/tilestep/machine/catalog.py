"""The catalogue: machines that have a name."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from tilestep.errors import SpecError
from tilestep.machine.assemble import assemble
from tilestep.machine.fields import Basis
from tilestep.machine.sources import BOW, C600, GC2, GC200, Figures, figures
from tilestep.machine.spec import MachineSpec
from tilestep.messages import nearest, shown

DEFAULT_MACHINE = "bow-2000"
"""The machine that is emulated unless a setting names another."""


@dataclass(frozen=True, kw_only=True)
class _Entry:
    description: str
    num_ipus: int
    basis: Basis
    source: str
    figures: Figures


def _pods(family: str, prefix: str, chip: Figures, sources: Mapping[int, tuple[Basis, str]]) -> dict[str, _Entry]:
    """Systems of 4 to 256 IPUs; `sources` says for each size where it comes from."""

    def entry(num_ipus: int) -> _Entry:
        machines, racks = num_ipus // 4, num_ipus // 64
        size = ("one IPU-Machine" if machines == 1 else f"{machines} IPU-Machines") + (f" in {racks} racks" if racks > 1 else "")
        basis, source = sources[num_ipus]
        return _Entry(description=f"{family}{num_ipus}: {size}", num_ipus=num_ipus, basis=basis, source=source, figures=chip)

    return {f"{prefix}{num_ipus}": entry(num_ipus) for num_ipus in sources}


_POD128_SHEET = "IPU-POD128 datasheet, docs.graphcore.ai"
_POD256_SHEET = "Bow Pod256 datasheet, docs.graphcore.ai"
_M2000_PODS: Mapping[int, tuple[Basis, str]] = {
    4: ("documented", "IPU-M2000 datasheet, docs.graphcore.ai: one IPU-M2000 and its host"),
    16: ("documented", "IPU-POD16 datasheet, docs.graphcore.ai: four IPU-M2000s"),
    64: ("documented", f"{_POD128_SHEET}: sixteen IPU-M2000s per IPU-POD64"),
    128: ("documented", f"{_POD128_SHEET}: two IPU-POD64 racks, 32 IPU-M2000s"),
    256: ("documented", f"{_POD128_SHEET}: IPU-POD256 of 256 GC200 IPUs"),
}
_BOW_PODS: Mapping[int, tuple[Basis, str]] = {
    4: ("documented", "Bow-2000 datasheet, docs.graphcore.ai: one Bow-2000 and its host"),
    16: ("documented", "Bow Pod64 datasheet, docs.graphcore.ai: four Bow-2000s per Bow Pod16"),
    64: ("documented", f"{_POD256_SHEET}: sixteen Bow-2000s per Bow Pod64"),
    128: ("derived", f"{_POD256_SHEET}: two of its Bow Pod64 racks"),
    256: ("documented", f"{_POD256_SHEET}: four Bow Pod64 racks, 64 Bow-2000s"),
}

_CATALOG: Mapping[str, _Entry] = MappingProxyType(
    {
        "c2-card": _Entry(
            description="C2: PCIe card with two Mk1 GC2 IPUs",
            num_ipus=2,
            basis="documented",
            source="graphcore/legacy_drivers_and_tools README.md: dual IPU PCIe card",
            figures=GC2,
        ),
        "m2000": _Entry(
            description="IPU-M2000: IPU-Machine with four Mk2 GC200 IPUs",
            num_ipus=4,
            basis="documented",
            source="IPU-M2000 datasheet, docs.graphcore.ai",
            figures=GC200,
        ),
        "bow-2000": _Entry(
            description="Bow-2000: IPU-Machine with four Bow IPUs",
            num_ipus=4,
            basis="documented",
            source="Bow-2000 datasheet, docs.graphcore.ai",
            figures=BOW,
        ),
        "c600": _Entry(
            description="C600: PCIe card with one Mk2 IPU that has FP8",
            num_ipus=1,
            basis="documented",
            source="C600 datasheet, docs.graphcore.ai",
            figures=C600,
        ),
        **_pods("IPU-POD", "m2000-pod", GC200, _M2000_PODS),
        **_pods("Bow Pod", "bow-pod", BOW, _BOW_PODS),
    }
)


def machine_names() -> tuple[str, ...]:
    """Names of the machines in the catalogue, in its order."""
    return tuple(_CATALOG)


@functools.cache
def named_machine(name: str) -> MachineSpec:
    """The machine of the catalogue that is called `name`.

    Raises: SpecError if there is none; the message names the nearest and all others.
    """
    entry = _CATALOG.get(name)
    if entry is None:
        near = nearest(name.lower(), _CATALOG)
        hint = f" (did you mean '{near}'?)" if near else ""
        raise SpecError(
            f"no machine is called {shown(name)}{hint}; there are {', '.join(_CATALOG)}; or name a TOML file that describes one"
        )
    count = figures(("num_ipus", entry.num_ipus, entry.basis, entry.source))
    return assemble(name=name, description=entry.description, sources={**entry.figures, **count})
