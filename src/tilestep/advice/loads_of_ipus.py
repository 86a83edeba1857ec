"""What an IPU loads: programs, and groups of them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from tilestep.advice.phrases import group_text
from tilestep.figures.quantities import names_text
from tilestep.figures.records import Figures, Origin


@dataclass(frozen=True, kw_only=True)
class Loaded:
    """What an IPU keeps as one program: a program, or a group of them."""

    label: str
    function: str  # the same for programs that are one function, called with other shapes
    origin: Origin
    loads: int
    runs: int
    cycles: int  # of its loads
    work: int  # cycles of its runs
    keys: tuple[int, ...]  # of its programs

    @property
    def name(self) -> str:
        """Without the key."""
        return self.label.partition(" #")[0]


def loaded(figures: Figures, keys: Collection[int]) -> list[Loaded]:
    """Those with most loads first. The first member of a group that runs loads it; later ones bring their code.

    Args: keys: of the programs that an IPU loaded.
    """
    brought = [program for program in figures.programs if program.key in keys]
    functions = {key: f"{function.name} {number}" for number, function in enumerate(figures.reshaped) for key in function.keys}
    units = [
        Loaded(
            label=figures.label(p.key),
            function=functions.get(p.key, figures.label(p.key)),
            origin=p.origin,
            loads=p.loads,
            runs=p.runs,
            cycles=p.cycles.load,
            work=p.cycles.total - p.cycles.load,
            keys=(p.key,),
        )
        for p in brought
        if p.origin != "group" and p.loads
    ]
    for group in figures.groups:
        members = [p for p in brought if p.group == group.name]
        members.sort(key=lambda p: p.cycles.load - p.cycles.total)  # the helper that is loaded first is not what the group is for
        if members:
            names = names_text(list(dict.fromkeys(p.name for p in members)), most=1)
            label = f"{group_text(group.name)} with {names}"
            units.append(
                Loaded(
                    label=label,
                    function=label,
                    origin="group",
                    loads=sum(p.loads for p in members),
                    runs=max(p.runs for p in members),
                    cycles=sum(p.cycles.load for p in members),
                    work=sum(p.cycles.total - p.cycles.load for p in members),
                    keys=tuple(p.key for p in members),
                )
            )
    return sorted(units, key=lambda unit: (-unit.loads, -unit.cycles))
