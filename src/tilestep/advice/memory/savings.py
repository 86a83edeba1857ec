"""What would free memory of a program's fullest tile, and how many bytes: recomputation, division over IPUs, pinned_host."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Final, NamedTuple

from tilestep.advice.finding import LEAST_SHARE, Gain, How, Line
from tilestep.advice.memory.batch import batches, with_batch
from tilestep.advice.user_code.lines import line_of
from tilestep.errors import TilestepError
from tilestep.figures.donation_pairs import may_be_states
from tilestep.figures.gradients import goes_backward, of_gradient
from tilestep.figures.quantities import bytes_text, names_text, time_text
from tilestep.machine.spec import MachineSpec
from tilestep.plan.lower import lower_in_detail
from tilestep.plan.memory.liveness import Life, Liveness
from tilestep.plan.steps import Argument, Branch, HostCall, Loop, Node, Program, Series, leaves
from tilestep.program.hlo import HloModule, Instruction
from tilestep.program.shapes import array_of
from tilestep.recording.edits.donation import pairs_of
from tilestep.recording.sources import Source, module_of
from tilestep.sim.cycles.body import body_cost
from tilestep.units import ceil_div, seconds_from_cycles

_SILENT: Final = ("tuple", "copy", "bitcast", "get-tuple-element", "opt-barrier")
_NAMED: Final = 2  # values
_LONG_LIFE: Final = 0.25  # a life of fewer of a program's ticks is not worth a recomputation


class Freed(NamedTuple):
    """One way to free memory of the fullest tile."""

    way: str  # as the sentence has it
    edit: str
    tile_bytes: int
    how: How
    line: Line | None = None
    price: str = ""  # in time; '' if that is small or unknown

    def __str__(self) -> str:
        """'jax.checkpoint (-12 KiB a tile)', 'm in pinned_host (-12 KiB a tile, for transfers of 3 ms a run)'."""
        price = f", for {self.price}" if self.price else ""
        return f"{self.way} (-{bytes_text(self.tile_bytes)} a tile{' or more' if self.how == 'at least' else ''}{price})"

    @property
    def gain(self) -> Gain:
        """What it frees, and how that is known."""
        basis = "planned again" if self.how == "within 2 %" else "added up from the sizes of the values that go"
        basis += "; gradients and what else is computed of them are divided as well" if self.how == "at least" else ""
        basis += f"; for {self.price}" if self.price else ""
        return Gain(tile_bytes=self.tile_bytes, how=self.how, basis=basis)


def freed_of(program: Program, source: Source, machine: MachineSpec, *, could_recompute: bool) -> tuple[Freed, ...]:
    """The ways that free a hundredth of the fullest tile of a program or more, the one that frees most first; () without its HLO.

    Donation is none: an argument that is not donated streams in anew at each run, so results may be written over it anyway.

    Args:
        program: as it was planned.
        source: what it was planned from.
        machine: that it was planned for.
        could_recompute: whether it goes backward and recomputes nothing.
    """
    module = module_of(source)
    if module is None:
        return ()
    try:
        _, detail = lower_in_detail(module, machine, name=program.name, num_ipus=program.num_ipus, options=source.options)
        found = [
            *(_recomputed(machine, program, detail) if could_recompute else ()),
            *_divided(machine, program, source, detail),
            *_offloaded(machine, program, module, detail),
        ]
    except TilestepError:  # a text of another version
        return ()
    least = LEAST_SHARE * program.memory.peak_bytes
    return tuple(sorted((way for way in found if way.tile_bytes >= least), key=lambda way: -way.tile_bytes))


def _recomputed(machine: MachineSpec, program: Program, detail: Liveness) -> Iterator[Freed]:
    """Values of forward that wait at the peak until backward takes them. One of them stays, from which the others are computed again."""
    peak, scopes = _peak(program, detail), ["", *_scopes(program.body), ""]
    waiting = [
        life
        for life in detail.lives
        if life.category == "temporary" and life.first <= peak <= life.last and life.last - life.first > _LONG_LIFE * len(detail.steps)
        if goes_backward(scopes[life.last]) and not goes_backward(scopes[life.first])
    ]
    sizes = [life.tile_bytes for life in _on_tile(waiting, program.memory.tile, detail.num_tiles)]
    if len(sizes) > 1:
        edit = "recompute the forward pass (jax.checkpoint)"
        lines = (line_of(program, life.frame) for life in sorted(waiting, key=lambda life: -life.tile_bytes))
        line = next((line for line in lines if line is not None), None)  # the largest value comes first
        uses = body_cost(program, machine, range(program.num_ipus)).uses
        again = sum(use.times * use.cycles.total for use in uses if of_gradient(use.leaf.scope) and not goes_backward(use.leaf.scope))
        price = f"at most {_time(machine, again)} more work a run"
        yield Freed("jax.checkpoint", edit, sum(sizes) - max(sizes), "about", line, price=price)


def _divided(machine: MachineSpec, program: Program, source: Source, detail: Liveness) -> Iterator[Freed]:
    """The batch of a program of one IPU over several, which is planned as a part of it; and parameters, or what else may be states.

    Of states their own bytes are sure. Which of their gradients and activations get smaller is the partitioner's choice.
    """
    count, states = machine.num_ipus, may_be_states(program)
    if count < 2 or program.num_ipus > 1:
        return
    for batch, dims in batches(program, states) if len(program.arguments) > 1 else ():
        planned = None if batch % count else with_batch(program, source, machine, dims, Fraction(1, count))
        if planned is not None:
            named = [f"{a.name} along axis {dims[a.index]}" for a in program.arguments if a.index in dims]
            way = f"{names_text(named, most=_NAMED)} over {count} IPUs"
            yield Freed(f"the batch divided: {way}", f"divide {way}", program.memory.peak_bytes - planned.memory.peak_bytes, "within 2 %")
            break
    axes = {
        a.name: axis
        for a in program.arguments
        if (axis := _axis(a, count)) is not None and (a.index in states or len(program.arguments) == 1)
    }
    peak = _peak(program, detail)
    lives = [life for life in detail.lives if life.name in axes and life.category in ("argument", "resident")]
    lives = [life for life in _on_tile(lives, program.memory.tile, detail.num_tiles) if life.first <= peak <= life.last]
    lives.sort(key=lambda life: -life.tile_bytes)
    size = sum(life.tile_bytes - ceil_div(life.tile_bytes, count) for life in lives)
    named = [f"{life.name} along axis {axes[life.name]}" for life in lives]
    way = f"{names_text(named, most=_NAMED)} over {count} IPUs"
    yield Freed(f"divided: {way}", f"divide {way}", size, "about" if len(program.arguments) == 1 else "at least")


def _axis(argument: Argument, count: int) -> int | None:
    """The longest axis of an array that so many IPUs can divide evenly, the last of equal ones; None: there is none."""
    shape = array_of(argument.shape)
    dims = () if shape is None else shape.dims
    axes = [axis for axis, size in enumerate(dims) if size and size % count == 0]
    return max(axes, key=lambda axis: (dims[axis], axis), default=None)


def _offloaded(machine: MachineSpec, program: Program, module: HloModule, detail: Liveness) -> Iterator[Freed]:
    """Arguments that neither forward nor backward reads, such as an optimiser's state."""
    users = module.entry.users
    apart = [
        argument
        for argument, parameter in zip(program.arguments, module.entry.parameters, strict=True)
        if not argument.on_host and not any(of_gradient(reader.op_name) for reader in _readers(users, parameter))
    ]
    if not any(goes_backward(leaf.scope) for leaf in leaves(program.body)):
        return
    names = {argument.name for argument in apart}
    lives = [life for life in detail.lives if life.name in names and life.category in ("argument", "resident")]
    peak = _peak(program, detail)
    size = sum(life.tile_bytes for life in _on_tile(lives, program.memory.tile, detail.num_tiles) if life.first <= peak <= life.last)
    roots = names_text(list(dict.fromkeys(life.name for life in sorted(lives, key=lambda life: -life.size_bytes))), most=_NAMED)
    moved = _transfers(machine, program, [argument for argument in apart if argument.name in {life.name for life in lives}])
    price = f"transfers of {_time(machine, moved)} a run"
    yield Freed(f"{roots} in pinned_host", f"keep {roots} in pinned_host", size, "about", price=price)


def _transfers(machine: MachineSpec, program: Program, arguments: Sequence[Argument]) -> int:
    """Cycles of a run that brings arguments from pinned_host, and takes those back that a result takes the place of."""
    changed = pairs_of(program, [argument.index for argument in arguments])
    calls = [
        HostCall(
            name=argument.name,
            scope="",
            bytes_to_host=argument.size_bytes if argument.result is not None or argument.index in changed else 0,
            bytes_from_host=argument.size_bytes,
            in_memory=True,
        )
        for argument in arguments
    ]
    moving = replace(program, body=Series(nodes=tuple(calls)))
    return body_cost(moving, machine, range(program.num_ipus)).fixed.total


def _time(machine: MachineSpec, cycles: int) -> str:
    return time_text(seconds_from_cycles(cycles, machine.ipu.clock_hz))


def _scopes(node: Node) -> Iterator[str]:
    """The scope of each tick: of each leaf, and in front of and behind a loop's or a branch's own."""
    match node:
        case Series(nodes=nodes):
            for child in nodes:
                yield from _scopes(child)
        case Loop(body=body):
            yield node.scope
            yield from _scopes(body)
            yield node.scope
        case Branch(arms=arms):
            yield node.scope
            for arm in arms:
                yield from _scopes(arm)
            if arms:
                yield node.scope
        case _:
            yield node.scope


def _readers(users: Mapping[str, list[Instruction]], parameter: Instruction) -> Iterator[Instruction]:
    """The operations that read a parameter, by itself or in a tuple."""
    waiting, seen = [parameter.name], {parameter.name}
    while waiting:
        for user in users.get(waiting.pop(), []):
            if user.name in seen:
                continue
            seen.add(user.name)
            if user.opcode in _SILENT:
                waiting.append(user.name)
            else:
                yield user


def _peak(program: Program, detail: Liveness) -> int:
    """The tick at which the program's fullest tile is fullest."""
    found = [tick for tick, step in enumerate(detail.steps) if step == program.memory.peak_step]
    return max(found, key=lambda tick: sum(life.tile_bytes for life in detail.lives if life.first <= tick <= life.last), default=0)


def _on_tile(lives: list[Life], tile: int, num_tiles: int) -> Iterator[Life]:
    return (life for life in lives if (tile - life.start_tile) % num_tiles < life.tiles)
