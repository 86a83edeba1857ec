"""Advice on loads: programs that evict each other, single operations outside of jit, functions that are called with other shapes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Final, NamedTuple

from tilestep.advice.evidence import Evidence
from tilestep.advice.finding import Finding, Line
from tilestep.advice.host.single_operations import (
    DIVIDES,
    LoadedUnit,
    Shares,
    loaded,
    shares_of,
    single_text,
    single_ways,
    staged,
    staged_text,
    staged_ways,
    taking_turns,
)
from tilestep.advice.phrases import AS_ONE, CPU_DEFAULT, STAGE, group_text, is_loop, one_or, times_text
from tilestep.advice.proposal import Proposal, Way
from tilestep.advice.user_code.jits import jit_of
from tilestep.advice.user_code.source_lines import in_loop
from tilestep.figures.quantities import count_text, names_text, share_text
from tilestep.figures.records import Figures, Loading, ShapesProfile
from tilestep.plan.frames import user_frames
from tilestep.plan.steps import Program, leaves
from tilestep.program.shapes import array_of
from tilestep.recording.edits.relocate import called_as, merged, of_one_loop
from tilestep.recording.edits.script import Script
from tilestep.recording.sources import MOST_TEXT, Source

_METADATA: Final = re.compile(r", metadata=\{[^}]*\}")
_DOMINATING_SHARE: Final = 0.1  # share of emulated time
_MOST_IPUS: Final = 4  # beside the busiest one, that are looked at
_SINGLE: Final = "single operations outside of jit"
_TURNING: Final = "single operations between jitted functions"
_JITTED: Final = "jitted functions"
_COPIES: Final = "copies of arrays of the host"
_REPEAT_PREFIX: Final = "jit_repeat_"
_ONE_PROGRAM: Final = "arrays in place of static arguments, one dtype, one jit"


class _Part(NamedTuple):
    """Programs that one edit spares."""

    units: list[LoadedUnit]
    what: str
    users: Sequence[LoadedUnit] = ()  # functions with which they take turns

    @property
    def cycles(self) -> int:
        """Of their loads."""
        return sum(unit.cycles for unit in self.units)


def loads(figures: Figures, evidence: Evidence | None) -> Iterator[Proposal]:
    """Of the busiest IPU, and of others on which programs evict each other, because the others may wait for them."""
    saving = figures.cycles_by_kind.get("save", 0)
    spent = figures.cycles_by_kind.get("load", 0) + saving
    if spent > _DOMINATING_SHARE * figures.emulated_cycles:
        yield from _on_busiest(figures, evidence, spent, saving)
    told = set(figures.loaded_on_busiest)
    for loading in figures.loaded_elsewhere[:_MOST_IPUS]:
        if evidence is not None and loading.load_cycles + loading.save_cycles > _DOMINATING_SHARE * figures.emulated_cycles:
            yield from _elsewhere(figures, evidence, loading, told)
            told.update(loading.keys)


def _elsewhere(figures: Figures, evidence: Evidence, loading: Loading, told: AbstractSet[int]) -> Iterator[Proposal]:
    """Of an IPU that is not the busiest: programs that it loads again and again, and nobody has been told of, if an edit spares that."""
    units = loaded(figures, loading.keys)
    total = sum(unit.loads for unit in units)
    saved = "and the values saved for them " if loading.save_cycles else ""
    share = share_text(loading.load_cycles + loading.save_cycles, figures.emulated_cycles)
    head = f"{count_text(total, 'program load')} {saved}on IPU {loading.ipu} took {share} of emulated time, though it is not the busiest"
    again = [unit for unit in units if unit.loads > 1 and told.isdisjoint(unit.keys)]
    for part in _parts(figures, again, evidence):
        text, shares, ways = _said(figures, part, evidence)
        count = sum(unit.loads for unit in part.units)
        of = f", all of {part.what}" if count == total else f"; {count:,} of them are of {part.what}"
        yield replace(_proposal(f"{head}{of}: {text}", part.units, shares, ways, evidence), only_with_gain=True)


def _on_busiest(figures: Figures, evidence: Evidence | None, spent: int, saving: int) -> Iterator[Proposal]:
    """The larger part of the loads first, of operations outside of jit or of the others; the smaller part if it matters as well."""
    units = loaded(figures, figures.loaded_on_busiest)
    parts = list(_parts(figures, units, evidence))
    most = max((part.cycles for part in parts), default=0)
    if any(part.users or (part.what == _SINGLE and (part.cycles == most or _may_go(figures, part.units, evidence))) for part in parts):
        parts = [  # without a function that is loaded again because they evict it
            part
            for part in parts
            if part.what != _JITTED or sum(unit.loads > 1 for unit in part.units) != 1 or _ways(figures, part.units, evidence)
        ]
    total = sum(unit.loads for unit in units)
    if units and not total:
        brought = sorted((p for p in figures.programs if p.key in figures.loaded_on_busiest), key=lambda p: -p.cycles.load)
        joined = names_text([figures.label(program.key) for program in brought], most=3)
        text = f"loading code took {share_text(spent, figures.emulated_cycles)} of emulated time: {joined} joined a group that was loaded. "
        text += "A program is loaded once and pays for it by running often."
        yield Proposal(finding=Finding(kind="fixed", text=text[0].upper() + text[1:]))
        return
    saved = "and the values saved for them " if saving else ""
    head = f"{count_text(total, 'program load')} {saved}took {share_text(spent, figures.emulated_cycles)} of emulated time"
    for part in sorted(parts, key=lambda part: -part.cycles):
        what, count = part.what, sum(unit.loads for unit in part.units)
        are = "is" if count == 1 else "are"
        text, shares, ways = _said(figures, part, evidence)
        if count == total:
            text = f"{head}: {text}" if what == _JITTED else f"{head}, all of {what}: {text}"
        elif part.cycles == most:
            text = f"{head}; {count:,} of them {are} of {what}: {text}"
        elif ways or (
            part.cycles > _DOMINATING_SHARE * figures.emulated_cycles
            and (what != _JITTED or len({unit.function for unit in part.units}) < count)
        ):
            text = f"{count:,} of the {total:,} program loads {are} of {what}: {text}"
        else:
            continue
        yield _proposal(text, part.units, shares, ways, evidence)


def _may_go(figures: Figures, single: Sequence[LoadedUnit], evidence: Evidence | None) -> bool:
    """Whether single operations may leave the IPU, so that a program whose place they take is not loaded again."""
    return evidence is not None and any(CPU_DEFAULT in way.edit for way in single_ways(figures, single, (), evidence))


def _parts(figures: Figures, units: Sequence[LoadedUnit], evidence: Evidence | None) -> Iterator[_Part]:
    copies = staged(figures, units, evidence)
    single = [unit for unit in units if unit.origin == "jax" and unit not in copies]
    turning, users = taking_turns(figures, single, evidence)
    once = [unit for unit in single if unit not in turning]
    others = [unit for unit in units if unit.origin != "jax"]
    parts = _Part(turning, _TURNING, users), _Part(once, _SINGLE), _Part(others, _JITTED), _Part(copies, _COPIES)
    yield from (part for part in parts if part.units)


def _said(figures: Figures, part: _Part, evidence: Evidence | None) -> tuple[str, Shares, tuple[Way, ...]]:
    """What a sentence goes on with about a part, the lines that make it with their shares, and the edits."""
    units = part.units
    if part.what == _JITTED:
        return _switching(figures, units, evidence), (), _ways(figures, units, evidence)
    shares = shares_of(units, evidence)
    if part.what == _COPIES:
        return staged_text(units, shares), shares, staged_ways(units)
    ways = single_ways(figures, units, part.users, evidence) if evidence else ()
    on_cpu = evidence is None or _may_go(figures, units, evidence)
    return single_text(figures, units, part.users, shares, evidence, on_cpu=on_cpu, copies=_copies_arrays(units, evidence)), shares, ways


def _copies_arrays(units: Sequence[LoadedUnit], evidence: Evidence | None) -> bool:
    """Whether one of them copies an array of the host. That of a number is what `jax.random.key` needs."""
    keys = [key for unit in units if unit.name == STAGE for key in unit.keys]
    return evidence is not None and any(_sizes(argument.shape) for key in keys for argument in evidence.programs[key].arguments)


def _proposal(text: str, units: Sequence[LoadedUnit], shares: Shares, ways: tuple[Way, ...], evidence: Evidence | None) -> Proposal:
    if shares:
        return Proposal(finding=Finding(kind="loads", text=text, line=shares[0][0], shares=shares), ways=ways)
    lines = () if evidence is None else (evidence.line_of_call(key) for unit in units for key in unit.keys)
    line = next((line for line in lines if line is not None), None)
    if not ways and all(unit.loads == 1 and unit.origin != "jax" for unit in units):
        return Proposal(finding=Finding(kind="fixed", text=text, line=line))  # nobody is spared the first load of a program
    unknown = "" if ways or evidence is None else "it depends on how often the programs change places, which only your program knows"
    return Proposal(finding=Finding(kind="loads", text=text, line=line, unknown=unknown), ways=ways)


def _ways(figures: Figures, units: Sequence[LoadedUnit], evidence: Evidence | None) -> tuple[Way, ...]:
    """The edits that spare loads: fewer shapes, or one program in place of several that are loaded by turns."""
    alone = [unit for unit in units if unit.origin != "group"]
    keys = [key for unit in alone for key in unit.keys]
    if evidence is None:
        return ()
    ways: list[Way] = []
    for copies in _copies(_loops(figures, units, evidence), evidence):
        first, *others = sorted(copies, key=lambda unit: -len(unit.keys))  # one with a helper that its first call needs
        change = of_one_loop([unit.keys[0] for unit in others], first.keys[0], _group_of(figures, first))
        line = evidence.line_of_call(first.keys[0])
        ways.append(Way(edit="give repeat the same function at each call", change=change, how="about", basis="as one loop", line=line))
    for function in figures.reshaped:
        largest = _largest(function, evidence)
        others = [key for key in function.keys if key != largest]
        if set(function.keys) & set(keys):
            mask = _needs_mask(function, evidence)
            exact = function.differs == "batch" and not mask
            basis = "without the mask's own work" if mask and function.differs == "batch" else "as if all calls had the largest shapes"
            names = names_text(_differing(evidence, function), most=3)
            edits = {"batch": f"pad {names} of {function.name}", "dtype": f"call {function.name} with one dtype"}
            edit = edits.get(function.differs, f"pad {names} of {function.name} to one shape")
            if any(not set(function.keys).isdisjoint(unit.keys) for copies in _copies(alone, evidence) for unit in copies):
                edit = f"{edit}, with {_ONE_PROGRAM}"  # which of them have equal static arguments is unknown
            ways.append(
                Way(
                    edit=edit,
                    change=called_as(others, largest),
                    how="replayed" if exact else "about",
                    basis="" if exact else basis,
                    line=evidence.line_of_call(largest),
                )
            )
    for copies in _copies(alone, evidence):
        first, *others = copies
        names = _resharded(copies, evidence)
        edit = f"make {first.name} one program: {_ONE_PROGRAM}"
        line = _made_at(evidence, first.keys[0])
        if names:
            named = names_text(_as_written(evidence, first, names), most=3)
            line = None
            its = one_or(names, "its", "their")
            edit = f"put {named} with {its} sharding before the first call (jax.device_put(…, NamedSharding(mesh, spec)))"
        change = called_as([key for unit in others for key in unit.keys], first.keys[0])
        ways.append(Way(edit=edit, change=change, how="about", basis="as if all calls were of one program", line=line))
    alone = [unit for unit in _distinct(figures, alone, evidence) if unit.loads > 1]  # turns spare no single load
    keys = [key for unit in alone for key in unit.keys]
    if len({unit.function for unit in alone}) > 1:
        names = names_text([unit.label for unit in alone], most=3)
        turn, loop = merged(keys, by_turns=True), merged(keys)
        script = Script(calls=evidence.calls, programs=evidence.programs)
        ways.append(Way(edit=f"put {names} into one jitted function", change=turn, how="about", basis=AS_ONE))
        if turn(script).calls != loop(script).calls:
            edit = f"put {names} into one jitted function that loops over all turns on the IPU (lax.fori_loop, lax.scan)"
            ways.append(Way(edit=edit, change=loop, how="about", basis=f"{AS_ONE} over all turns"))
    return tuple(ways)


def _group_of(figures: Figures, unit: LoadedUnit) -> str:
    return next(program.group for program in figures.programs if program.key == unit.keys[0])


def _loops(figures: Figures, units: Sequence[LoadedUnit], evidence: Evidence | None) -> list[LoadedUnit]:
    """Those that are loops of this package, whose chunks all have one program. It is the first of the unit's, before helpers."""
    if evidence is None:
        return []
    found: list[LoadedUnit] = []
    for unit in units:
        if unit.origin == "group" and is_loop(_group_of(figures, unit)):
            keys = sorted(unit.keys, key=lambda key: not evidence.programs[key].name.startswith(_REPEAT_PREFIX))
            if sum(evidence.programs[key].name.startswith(_REPEAT_PREFIX) for key in keys) == 1:
                found.append(replace(unit, keys=tuple(keys)))
    return found


def _differing(evidence: Evidence, function: ShapesProfile) -> tuple[str, ...]:
    """The arguments whose shapes differ from call to call."""
    columns = zip(*(evidence.programs[key].arguments for key in function.keys), strict=True)
    return tuple(column[0].name for column in columns if len({argument.shape for argument in column}) > 1)


def _made_at(evidence: Evidence, key: int) -> Line | None:
    """The line that makes several programs of one function: what jits it, with static arguments or in a loop, or what calls it."""
    jit, line = jit_of(evidence.programs[key]), evidence.line_of_call(key)
    looped = jit.call is not None and not jit.is_decorator and jit.line is not None and in_loop(jit.line, jit.call)
    return jit.line if looped or jit.has_static else line


def _largest(function: ShapesProfile, evidence: Evidence) -> int:
    """The program of a function whose arguments have most bytes."""
    return max(function.keys, key=lambda key: sum(a.size_bytes for a in evidence.programs[key].arguments))


def _distinct(figures: Figures, units: Sequence[LoadedUnit], evidence: Evidence) -> list[LoadedUnit]:
    """Without copies of functions, and without those for a smaller batch, which is to be padded or dropped."""
    batches = [function for function in figures.reshaped if function.differs == "batch"]
    smaller = {key for function in batches for key in function.keys if key != _largest(function, evidence)}
    surplus = _surplus(units, evidence)
    return [unit for unit in units if unit not in surplus and smaller.isdisjoint(unit.keys)]


def _copies(units: Sequence[LoadedUnit], evidence: Evidence | None) -> list[list[LoadedUnit]]:
    """Programs that are one function: of one name, made by the same pieces of code, with arguments and results of equal shapes.

    Of a group the first program counts.
    """
    if evidence is None:
        return []
    found: dict[object, list[LoadedUnit]] = {}
    for unit in units:
        if unit.origin == "group" or (unit.origin == "user" and len(unit.keys) == 1):
            program = evidence.programs[unit.keys[0]]
            shapes = (tuple(a.shape for a in program.arguments), tuple(r.shape for r in program.results), program.num_ipus)
            code = _code(program)
            if code:
                found.setdefault((program.name, shapes, code), []).append(unit)
    return [copies for copies in found.values() if len(copies) > 1]


def _code(program: Program) -> frozenset[tuple[str, int, int]]:
    """File, line and column of what the user wrote, of all steps. Two lambdas on a line differ in their columns."""
    own = user_frames(program.frames)
    numbers = {own[leaf.frame] for leaf in leaves(program.body)} - {0}
    return frozenset((program.frames[n - 1].file, program.frames[n - 1].line, program.frames[n - 1].column) for n in numbers)


def _surplus(units: Sequence[LoadedUnit], evidence: Evidence | None) -> list[LoadedUnit]:
    """All copies of functions but the first of each."""
    return [unit for copies in _copies(units, evidence) for unit in copies[1:]]


def _resharded(copies: Sequence[LoadedUnit], evidence: Evidence | None) -> tuple[str, ...]:
    """The arguments that one of some programs of equal code takes as they come, and the others as one of these has made them.

    Only their shardings differ then; () if that is not so.
    """
    keys = [key for unit in copies for key in unit.keys]
    if evidence is None or evidence.programs[keys[0]].num_ipus < 2:
        return ()
    codes = {_plain_hlo(evidence.sources[key]) if key in evidence.sources else "" for key in keys}
    if len(codes) > 1 or codes == {""}:
        return ()
    runs = Counter(call.key for call in evidence.dispatches)
    handed = [(key, each) for key in keys for each in evidence.handed_over.get(key, ())]
    own = Counter((key, each.index) for key, each in handed if each.maker in keys)
    others = [(key, each) for key, each in handed if each.maker not in keys]
    by_functions = {(key, each.index) for key, each in others if evidence.programs[each.maker].name != DIVIDES}
    surely: list[str] = []  # without those that another function made, perhaps with the same sharding
    perhaps: list[str] = []
    for argument in evidence.programs[keys[0]].arguments:
        given = {key: own[key, argument.index] for key in keys}
        if sum(not times for times in given.values()) == 1 and sum(times == runs[key] for key, times in given.items()) == len(keys) - 1:
            (perhaps if any((key, argument.index) in by_functions for key in keys) else surely).append(argument.name)
    return tuple(surely or perhaps)


def _as_written(evidence: Evidence, unit: LoadedUnit, names: Sequence[str]) -> list[str]:
    """Arguments by the names of the function's parameters, where those are known."""
    program = evidence.programs[unit.keys[0]]
    return list(dict.fromkeys(jit_of(program).parameters(names, len(program.arguments))))


def _plain_hlo(source: Source) -> str:
    """Its instructions, without the lines of the user's code; '' if it was not kept, or is too long."""
    text = source.text()
    return "\n".join(_METADATA.sub("", line) for line in text.splitlines() if " = " in line) if len(text) <= MOST_TEXT else ""


def _several(copies: Sequence[LoadedUnit], evidence: Evidence | None) -> str:
    names = _resharded(copies, evidence)
    if names and evidence is not None:
        named = names_text(_as_written(evidence, copies[0], names), most=3)
        it_has, it = one_or(names, "it has", "they have"), one_or(names, "it", "them")
        return (
            f"{copies[0].name} is {len(copies)} programs of equal code: {named} came first without the sharding that {it_has} later, and "
            f"each sharding makes another program. Put {it} with that sharding before the first call."
        )
    return (
        f"{copies[0].name} is {len(copies)} programs, though its arguments have equal shapes: each new value of a static argument, a "
        "Python number where an array was, or a new jit makes another one. Pass such values as arrays of one dtype, and jit once."
    )


def _switching(figures: Figures, units: list[LoadedUnit], evidence: Evidence | None) -> str:
    alone = [unit for unit in units if unit.origin != "group"]  # a group is one program already
    most = names_text([f"{unit.label} ({unit.loads:,})" for unit in alone or units], most=3)
    labels = {unit.label for unit in alone}
    shapes = [
        f"{_other_shapes(function, evidence)} " for function in figures.reshaped if labels & {figures.label(key) for key in function.keys}
    ]
    shapes += dict.fromkeys(f"{_several(copies, evidence)} " for copies in _copies(alone, evidence))
    way_out = "Put them into one jitted function." if sum(unit.loads > 1 for unit in alone) > 1 else ""
    shapes += [
        f"{group_text(_group_of(figures, copies[0]))} is {len(copies)} programs of equal code, because repeat got a new function at each "
        "call, such as a lambda: define it once, outside of the loop around repeat. "
        for copies in _copies(_loops(figures, units, evidence), evidence)
    ]
    surplus = _surplus(alone, evidence)
    if shapes and len({unit.function for unit in alone if unit not in surplus}) == 1:
        way_out = ""  # they are one jitted function
    if any(unit.loads > 1 for unit in units):
        text = f"an IPU keeps one program and switching reloads. Most loads: {most}. {''.join(shapes)}{way_out}".rstrip()
        return text if alone else f"{text} Run more steps between two switches."
    if len(alone) > 1:
        each = "" if shapes and not way_out else "Each function is a program of its own. "
        return f"{most}. {''.join(shapes)}{each}{way_out}".rstrip()
    if shapes:
        return "".join(shapes).rstrip()
    ran = f"; {units[0].label} ran {times_text(units[0].runs)}" if len(units) == 1 else ""
    return f"a program is loaded once and pays for it by running often{ran}."


def _needs_mask(function: ShapesProfile, evidence: Evidence | None) -> bool | None:
    """Whether a result has none of the sizes that differ from call to call, so that it sums over them; None if nobody knows."""
    if evidence is None or any(key not in evidence.programs for key in function.keys):
        return None
    sizes = [[_sizes(a.shape) for a in evidence.programs[key].arguments] for key in function.keys]
    for key, own in zip(function.keys, sizes, strict=True):
        differing = {size for other in sizes for one, two in zip(own, other, strict=False) for size in set(one) - set(two)}
        if differing and any(differing.isdisjoint(_sizes(result.shape)) for result in evidence.programs[key].results):
            return True
    return False


def _sizes(shape: str) -> tuple[int, ...]:
    found = array_of(shape)
    return () if found is None else found.dims


def _other_shapes(function: ShapesProfile, evidence: Evidence | None) -> str:
    shapes = list(dict.fromkeys(function.shapes))
    mask = {
        True: " (with a mask, because its results sum over what would be padded)",
        False: "",
        None: " (with a mask, where results sum over what would be padded)",
    }[_needs_mask(function, evidence)]
    way_out = {
        "batch": f"pad{mask} or drop the smaller batch",
        "dtype": "call it with one dtype",
        "shape": f"pad to one shape{mask}, or make these calls in one jitted function",
    }[function.differs]
    was = " and ".join(shapes) if len(shapes) == 2 else names_text(shapes, most=3)
    return f"{function.name} is {len(function.keys)} programs, because its argument {function.argument} was {was}: {way_out}."
