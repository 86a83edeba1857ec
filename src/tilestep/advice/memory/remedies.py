"""What would make a program fit: one list for what was refused, for a dry run, and for a run that was allowed to need too much."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil
from typing import Final

from tilestep.advice.evidence import Evidence
from tilestep.advice.finding import Finding
from tilestep.advice.memory.batch import smaller
from tilestep.advice.memory.savings import Freed, freed_of
from tilestep.advice.proposal import Proposal
from tilestep.advice.user_code.jits import jit_of
from tilestep.advice.user_code.lines import line_of, line_of_call
from tilestep.errors import TilestepError
from tilestep.figures.donation_pairs import may_be_states
from tilestep.figures.gradients import could_recompute
from tilestep.figures.quantities import bytes_text
from tilestep.figures.records import Figures
from tilestep.machine.catalog import machine_names, named_machine
from tilestep.machine.spec import MachineSpec
from tilestep.plan.memory.liveness import fits
from tilestep.plan.steps import Program, leaves
from tilestep.recording.sources import Source

_TRY: Final = "Try: arrays divided over more IPUs (jax.sharding), {less}or a smaller dtype."
GENERAL: Final = _TRY.format(less="a smaller batch, jax.checkpoint, ")
OF_CODE: Final = "Try: a loop over equal parts (jax.lax.scan over layers), several programs, or more IPUs."
_MOST_TEXT: Final = 400_000  # characters of the HLO of a program that is planned again with some batches
_NOTHING: Final = "the recording has no HLO of it, so it cannot be planned again"
_ORDER: Final = ("recompute", "make", "keep", "divide")  # the first change no result, the last takes more IPUs


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
        return Remedies(text=_general(program, could_recompute), unknown=_NOTHING)
    ways = list(freed_of(program, source, machine, could_recompute=could_recompute))
    batch = smaller(program, source, machine, again=may_be_states(program)) if len(source.text()) <= _MOST_TEXT else None
    if batch is not None:
        now, then = batch
        sizes = f"{then.batch:,} in place of {now.batch:,}{' on each IPU' if program.num_ipus > 1 else ''}"
        way = f"a batch of {sizes}, with which it fits"
        ways.append(Freed(way, f"make the batch {sizes}", now.peak_bytes - then.peak_bytes, "within 2 %"))
    if not ways:
        return Remedies(text=_general(program, could_recompute), unknown="no change that this report can plan frees memory of it")
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


def _general(program: Program, could_recompute: bool) -> str:
    """What may help where nothing is planned. What makes weights has neither a batch nor a forward pass."""
    states = may_be_states(program)
    batch = any(argument.index not in states and "," in argument.shape for argument in program.arguments)
    less = ("a smaller batch, " if batch else "") + ("jax.checkpoint, " if could_recompute else "")
    return _TRY.format(less=less)


def _out_of_reach(count: int, machine: MachineSpec) -> str:
    """Where nothing on this machine makes a program fit: what would. Args: count: of IPUs that hold all of it, if it is divided."""
    alike = (named for name in machine_names() if (named := named_machine(name)).ipu == machine.ipu)
    found = next((each for each in alike if count <= each.num_ipus), None)
    where = f"all of it divided needs {count:,} IPUs or more ({'no listed machine has them' if found is None else found.name})"
    return f"All together neither: {where}; or a Pipeline of tilestep.train, with a part of the layers on each IPU, or smaller arrays."


MOST_PLANNED: Final = 1_000_000  # characters of HLO that are planned again: some seconds
_LARGEST: Final = 4  # parts that are named
_PLANS_OF_A_PROGRAM: Final = 12  # about


def refused(figures: Figures, _evidence: Evidence | None) -> Iterator[Proposal]:
    """Programs that did not fit, so that they never ran, those that miss most first."""
    left = MOST_PLANNED
    for unfit in sorted(figures.unfit, key=lambda unfit: -unfit.program.memory.peak_bytes):
        work = _PLANS_OF_A_PROGRAM * len(unfit.source.text()) if unfit.source else 0
        source = unfit.source if work <= left else None
        left -= work if source else 0
        try:
            finding = did_not_fit(unfit.program, source, unfit.machine)
        except TilestepError:
            finding = did_not_fit(unfit.program, None, unfit.machine)
        if finding is not None:
            yield Proposal(finding=finding)


def did_not_fit(program: Program, source: Source | None, machine: MachineSpec) -> Finding | None:
    """The finding about a program that did not fit; None if it fits.

    Args:
        program: as it was planned.
        source: what it was planned from; None: it is not to be planned again.
        machine: that it was planned for.
    """
    memory, tile = program.memory, machine.ipu.tile
    if fits(memory, tile):
        return None
    over, code_over = memory.peak_bytes - tile.sram_bytes, memory.instruction_bytes - tile.executable_bytes
    parts: list[str] = []
    if over > 0:
        parts.append(
            f"tile {memory.tile:,} needs {bytes_text(memory.peak_bytes)} in superstep '{memory.peak_step}' and has "
            f"{bytes_text(tile.sram_bytes)}: {over:,} B too many"
        )
    if code_over > 0:
        parts.append(f"its code is {bytes_text(memory.instruction_bytes)} a tile, which can execute {bytes_text(tile.executable_bytes)}")
    lines = {name: line_of(program, leaf.frame) for leaf in leaves(program.body) for name in (leaf.scope, f"temporaries of {leaf.name}")}
    named = [(name, size, lines.get(name)) for name, size in memory.largest[:_LARGEST]]
    values = [f"{name} {bytes_text(size)}{f' ({line})' if line else ''}" for name, size, line in named]
    text = f"{program.name} does not fit, so it never ran: {', and '.join(parts)}. Largest on that tile: {', '.join(values)}."
    scopes = {leaf.scope for leaf in leaves(program.body)}
    found = remedies(program, source, machine, could_recompute=could_recompute(scopes))
    line = jit_of(program).line or line_of_call(program)
    text, best = f"{text} {found.text}", found.best
    if best is None:
        return Finding(kind="memory", text=text, line=line, unknown=found.unknown, urgent=True)
    return Finding(kind="memory", text=text, edit=best.edit, line=best.line or line, gain=best.gain, urgent=True)
