"""What to do about a program that did not fit, so that it never ran: how far it is from fitting, what fills it, what would free some."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from tilestep.machine.spec import MachineSpec
from tilestep.plan.liveness import fits
from tilestep.plan.steps import Program, leaves
from tilestep.record.sources import Source
from tilestep.report.advice.donation import donating
from tilestep.report.advice.finding import Finding, Line
from tilestep.report.advice.freeing import Freed, freed_of
from tilestep.report.advice.jits import jit_of
from tilestep.report.advice.lines import line_of_call
from tilestep.report.batch import smaller
from tilestep.report.gradients import could_recompute
from tilestep.report.quantities import bytes_text
from tilestep.report.replaceable import could_be_donated, may_be_states

_LARGEST: Final = 4  # parts that are named
_NOTHING: Final = "the recording has no HLO of it, so it cannot be planned again"
Named = tuple[str, int, Line | None]  # a value, its bytes on the fullest tile, and its line


def did_not_fit(
    program: Program,
    source: Source | None,
    machine: MachineSpec,
    *,
    largest: Sequence[Named] = (),
    text_of: Callable[[str], str | None] = lambda _: None,
) -> Finding | None:
    """The finding about a program that did not fit; None if it fits.

    Args:
        program: as it was planned.
        source: what it was planned from; None: it is not to be planned again.
        machine: that it was planned for.
        largest: values of the fullest tile with their lines; (): those of the plan.
        text_of: gives the text of the user's files; None: unknown.
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
    named = largest or [(name, size, None) for name, size in memory.largest]
    values = [f"{name} {bytes_text(size)}{f' ({line})' if line else ''}" for name, size, line in list(named)[:_LARGEST]]
    text = f"{program.name} does not fit, so it never ran: {', and '.join(parts)}. Largest on that tile: {', '.join(values)}."
    ways = [] if source is None else _ways(program, source, machine)
    would_do = [way for way in ways if over > 0 >= code_over and way.tile_bytes >= over]
    enough = [way for way in would_do if way.how == "within 2 %"]
    best = enough[0] if enough else max(ways, key=lambda way: way.tile_bytes, default=None)
    jit = jit_of(program, text_of)
    line = jit.line or line_of_call(program)
    if best is None:
        others = "divide its arrays over more IPUs (jax.sharding), make them smaller, or use a smaller dtype"
        unknown = _NOTHING if source is None else "no change that this report can plan frees memory of it"
        return Finding(kind="memory", text=f"{text} Try: {others}.", line=line, unknown=unknown, urgent=True)
    text += f" What frees some: {', '.join(f'{way}, enough' if way in enough and 'it fits' not in way.way else str(way) for way in ways)}."
    if would_do and not enough:
        text += f" Whether it is enough to {best.edit} is not planned: another need may grow."
    elif not enough:
        text += " None of them is enough by itself: join them, make the arrays smaller, or use a smaller dtype."
    code = donating(jit, could_be_donated(program)) if best.edit.startswith("donate ") else ""
    return Finding(kind="memory", text=text, edit=best.edit, code=code, line=best.line or line, gain=best.gain, urgent=True)


def _ways(program: Program, source: Source, machine: MachineSpec) -> list[Freed]:
    """What frees something, in the order in which one would try it: what changes no result first, then a smaller batch, then more IPUs."""
    scopes = {leaf.scope for leaf in leaves(program.body)}
    found = list(freed_of(program, source, machine, not_donated=could_be_donated(program), could_recompute=could_recompute(scopes)))
    batch = smaller(program, source, machine, again=may_be_states(program))
    if batch is not None:
        now, then = batch
        way = f"a batch of {then.batch:,} in place of {now.batch:,}, with which it fits"
        found.append(Freed(way, f"make the batch {then.batch:,} in place of {now.batch:,}", now.peak_bytes - then.peak_bytes, "within 2 %"))
    order = ("donate", "recompute", "make", "keep", "divide")
    return sorted(found, key=lambda way: order.index(way.edit.partition(" ")[0]))
