"""Advice on exchanges between IPUs: fewer of them, or smaller ones."""

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final, NamedTuple

from tilestep.advice.evidence import Evidence
from tilestep.advice.finding import LEAST_SHARE, Finding
from tilestep.advice.phrases import named, one_or
from tilestep.advice.proposal import Proposal, Way
from tilestep.advice.user_code.lines import line_of
from tilestep.figures.gradients import goes_backward
from tilestep.figures.quantities import bytes_text, names_text, share_text
from tilestep.figures.records import Figures
from tilestep.figures.scopes import short_scope
from tilestep.plan.collectives import groups_of
from tilestep.plan.steps import Collective, Program, leaves
from tilestep.program.hlo import HloModule, Instruction
from tilestep.recording.edits.larger_dimension import arguments_with
from tilestep.recording.edits.links import numbers
from tilestep.recording.edits.programs import with_collectives
from tilestep.recording.edits.script import ImpossibleEditError, with_changed
from tilestep.recording.sources import module_of

_LEAST_SHARE: Final = 0.05  # less of emulated time, or of a step behind other edits, is not worth another exchange
_STEPS: Final = (2, 4, 8, 16, 32, 64)  # gradients would be exchanged after so many
_PRODUCTS: Final = frozenset({"dot", "convolution"})
_SUMS: Final = ("all-reduce", "reduce-scatter", "all-gather")
_ALONG: Final = frozenset({"convert", "copy", "bitcast", "reshape", "transpose", "add", "multiply", "tuple"})  # from products to their sum
_TILED: Final = re.compile(r"devices=\[([\d,]+)\]")


def collectives(figures: Figures, evidence: Evidence | None) -> Iterator[Proposal]:
    """The program that spends most on sums over IPUs, as data-parallel training does."""
    if evidence is None:
        return
    spent = {p.key: sum(family.total for family in p.families if family.family in _SUMS) for p in figures.programs}
    key = max(spent, key=lambda key: spent[key], default=None)
    if key is None or spent[key] < max(LEAST_SHARE * figures.rest_cycles, 1) or key not in evidence.programs:
        return
    program = evidence.programs[key]
    found = [leaf for leaf in leaves(program.body) if isinstance(leaf, Collective) and leaf.kind in _SUMS]
    largest = max(found, key=lambda leaf: leaf.size_bytes)
    label = figures.label(key)
    exchanges = (
        f"{named(figures, evidence, key)} spends {share_text(spent[key], figures.emulated_cycles)} of emulated time on {largest.kind} "
        f"between IPUs ({bytes_text(largest.size_bytes)} in the largest)"
    )
    module = module_of(evidence.sources.get(key))
    exchanged = None if module is None else _exchanged(module)
    gradients = None if exchanged is None else exchanged.gradients
    sizes = {leaf.name: leaf.size_bytes // 2 for leaf in found if exchanged is None or leaf.name in exchanged.singles}

    def halved(program: Program) -> Program:
        """Halves are exchanged. What another edit has made as small stays so."""
        return with_collectives(program, lambda leaf: replace(leaf, size_bytes=min(leaf.size_bytes, sizes.get(leaf.name, leaf.size_bytes))))

    half = Way(
        edit=f"exchange float16 in {label}",
        change=with_changed([key], halved),
        how="about",
        basis="half of the bytes",
        within=f"compute in float16 in {label}",
    )
    if gradients is not None and {leaf.name for leaf in found} <= gradients:
        rest = max(figures.rest_cycles - spent[key], 1)
        count = next((count for count in _STEPS if spent[key] / count < _LEAST_SHARE * (rest + spent[key] / count)), _STEPS[-1])
        smaller = ", or in a smaller dtype" if sizes else ""
        text = f"{exchanges}: exchange gradients after several steps (gradient accumulation){smaller}."
        seldom = Way(
            edit=f"accumulate {count} steps in {label} before an exchange",
            change=with_changed([key], lambda program: with_collectives(program, lambda leaf: None if leaf.kind in _SUMS else leaf)),
            how="about",
            basis=f"{count - 1} of {count} exchanges spared; a larger program takes longer to load, once",
            part=(count - 1) / count,
        )
        ways = (seldom, half) if sizes else (seldom,)
    elif not sizes:
        return  # they are as small as can be told, and none can wait
    else:
        operation = f" ({short_scope(largest.scope)})" if largest.scope else ""
        is_inside = gradients is not None and largest.name not in gradients
        why = (
            f"The result of the largest{operation} goes into further products of the same run, so it cannot wait for later runs"
            if is_inside
            else "What is no gradient cannot wait for later runs"
        )
        axes = None if module is None or largest.kind == "all-gather" else added_over(module, largest.name, program.num_ipus)
        if axes is None:
            text = f"{exchanges}. {why}: divide another dimension than the one that is added up, or exchange a smaller dtype."
        else:
            learns = any(goes_backward(leaf.scope) for leaf in leaves(program.body))
            other = "the batch, whose gradients can wait for several steps" if learns else "another axis, or the batch"
            text = f"{exchanges}. {why}. It is added up over {axes}. Divide {other}, or exchange a smaller dtype."
        ways = (half,)
    line = line_of(program, largest.frame) or evidence.line_of_call(key)
    yield Proposal(finding=Finding(kind="collectives", text=text, line=line), ways=ways, only_with_gain=True, least_share=_LEAST_SHARE)


class _Exchanged(NamedTuple):
    """The names of exchanges of two kinds."""

    gradients: frozenset[str]  # their results go into no product of the same run, as an update does with gradients
    singles: frozenset[str]  # they have float32


def added_over(module: HloModule, name: str, num_ipus: int) -> str | None:
    """The contracted axis of the products that an exchange adds up: 'axis 0 of layers[0][1], which is divided over 4 IPUs'.

    None if no argument is known to be divided along it. Since JAX 0.12 an argument does not say how it is divided. It has part of such an
    axis, because else there would be nothing to add up.
    """
    for computation in module.computations.values():
        waiting = [name] if name in computation.by_name else []
        while waiting:
            each = computation.by_name[waiting.pop()]
            if each.opcode != "dot":
                waiting += each.operands if each.name == name or each.opcode in _ALONG else ()
                continue
            for dim in numbers(each.attributes.get("lhs_contracting_dims", "")):
                try:
                    found = arguments_with(module, (computation.name, each.operands[0], 0, dim))
                except ImpossibleEditError:
                    continue
                exchange = computation.by_name[name]
                counts = [(parameter, axis, _parts(parameter, axis, exchange, num_ipus)) for parameter, axis in found]
                axes = [f"axis {axis} of {parameter.op_name}" for parameter, axis, count in counts if count > 1 and parameter.op_name]
                if axes:
                    ipus = max(count for _, _, count in counts)
                    return f"{names_text(axes, most=3)}, which {one_or(axes, 'is', 'are')} divided over {ipus:,} IPUs"
    return None


def _parts(parameter: Instruction, axis: int, exchange: Instruction, num_ipus: int) -> int:
    """Over how many IPUs an axis of an argument is divided that an exchange adds up; 1 if that is unknown."""
    if "sharding" not in parameter.attributes:
        return max(map(len, groups_of(exchange, num_ipus)), default=1)
    found = _TILED.search(parameter.attributes["sharding"])
    tiles = numbers(found[1]) if found is not None else []
    return tiles[axis] if axis < len(tiles) else 1


def _exchanged(module: HloModule) -> _Exchanged:
    """What a program's exchanges have."""
    multiplying: set[str] = set()  # computations; those that are called come first
    found: set[str] = set()
    singles: set[str] = set()
    for computation in module.computations.values():
        leading: set[str] = set()  # values that go into a product
        for instruction in reversed(computation.instructions):
            leads = instruction.name in leading
            if instruction.opcode in _SUMS and not leads:
                found.add(instruction.name)
            if instruction.opcode in _SUMS and any(array.dtype == "f32" for array in instruction.leaves):
                singles.add(instruction.name)
            if leads or instruction.opcode in _PRODUCTS or not multiplying.isdisjoint(instruction.calls):
                leading.update(instruction.operands)
                multiplying.add(computation.name)
    return _Exchanged(frozenset(found), frozenset(singles))
