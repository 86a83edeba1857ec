"""What would make a program fit: one list for what was refused, for a dry run, and for a run that was allowed to need too much."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Final

from tilestep.advice.batch import smaller
from tilestep.advice.memory_savings import Freed, freed_of
from tilestep.figures.donation_pairs import may_be_states
from tilestep.figures.quantities import bytes_text
from tilestep.machine.catalog import machine_names, named_machine
from tilestep.machine.spec import MachineSpec
from tilestep.plan.steps import Program
from tilestep.recording.sources import Source

GENERAL: Final = "Try: arrays divided over more IPUs (jax.sharding), a smaller batch, jax.checkpoint, or a smaller dtype."
OF_CODE: Final = "Try: a loop over equal parts (jax.lax.scan over layers), several programs, or more IPUs."
_MOST_TEXT: Final = 400_000  # characters of the HLO of a program that is planned again with some batches
_NOTHING: Final = "the recording has no HLO of it, so it cannot be planned again"
_ORDER: Final = ("recompute", "make", "keep", "divide")  # what changes no result first, then a smaller batch, then more IPUs


@dataclass(frozen=True, kw_only=True)
class Remedies:
    """What would make a program fit.

    Attributes:
        text: sentences.
        best: the first that is enough by itself, else what frees most; None: nothing is known.
        unknown: why nothing is known; '' if something is.
    """

    text: str
    best: Freed | None = None
    unknown: str = ""


def remedies(program: Program, source: Source | None, machine: MachineSpec, *, could_recompute: bool) -> Remedies:
    """What would make a program fit that needs too much of a tile.

    Args: as for `freed_of`. source: None: it is not to be planned again.
    """
    tile, memory = machine.ipu.tile, program.memory
    over, code_fits = memory.peak_bytes - tile.sram_bytes, memory.instruction_bytes <= tile.executable_bytes
    if over <= 0 and not code_fits:
        return Remedies(text=OF_CODE)
    if source is None:
        return Remedies(text=GENERAL, unknown=_NOTHING)
    ways = list(freed_of(program, source, machine, could_recompute=could_recompute))
    batch = smaller(program, source, machine, again=may_be_states(program)) if len(source.text()) <= _MOST_TEXT else None
    if batch is not None:
        now, then = batch
        way = f"a batch of {then.batch:,} in place of {now.batch:,}, with which it fits"
        ways.append(Freed(way, f"make the batch {then.batch:,} in place of {now.batch:,}", now.peak_bytes - then.peak_bytes, "within 2 %"))
    if not ways:
        return Remedies(text=GENERAL, unknown="no change that this report can plan frees memory of it")
    ways.sort(key=lambda way: _ORDER.index(way.edit.partition(" ")[0]))
    would_do = [way for way in ways if over > 0 and code_fits and way.tile_bytes >= over]
    enough = [way for way in would_do if way.how == "within 2 %"]
    best = enough[0] if enough else max(ways, key=lambda way: way.tile_bytes)
    text = f"What frees some: {', '.join(f'{way}, enough' if way in enough and 'it fits' not in way.way else str(way) for way in ways)}."
    if would_do and not enough:
        text += f" Whether it is enough to {best.edit} is not planned."
    elif not enough:
        more = any(way.how == "at least" for way in ways)
        first = "the first" if best is ways[0] else f"to {best.edit}"
        left = f"{'at most ' if best.how == 'at least' else ''}{bytes_text(memory.peak_bytes - best.tile_bytes)}"
        text += (
            f" None of them is {'known to be ' if more else ''}enough by itself: {first} leaves {left} of {bytes_text(tile.sram_bytes)}."
        )
        count = ceil(memory.peak_bytes / tile.sram_bytes) * program.num_ipus
        out_of_reach = sum(way.tile_bytes for way in ways) < over and not (more and count <= machine.num_ipus)
        text += f" {_out_of_reach(count, machine)}" if out_of_reach else " Join them, make the arrays smaller, or use a smaller dtype."
    return Remedies(text=text, best=best)


def _out_of_reach(count: int, machine: MachineSpec) -> str:
    """Where nothing on this machine makes a program fit: what would. Args: count: of IPUs that hold all of it, if it is divided."""
    alike = (named for name in machine_names() if (named := named_machine(name)).ipu == machine.ipu)
    found = next((each for each in alike if count <= each.num_ipus), None)
    where = f"all of it divided needs {count:,} IPUs or more ({'no listed machine has them' if found is None else found.name})"
    return f"All together neither: {where}; or a Pipeline of tilestep.train, with a part of the layers on each IPU, or smaller arrays."
