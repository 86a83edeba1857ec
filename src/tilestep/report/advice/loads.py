"""Advice on loads: programs that evict each other, single operations outside of jit, functions that are called with other shapes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from tilestep.plan.frames import user_frame
from tilestep.plan.steps import Program
from tilestep.record.edits.moved import called_as, merged, on_cpu
from tilestep.report.advice.evidence import Evidence
from tilestep.report.advice.finding import Finding
from tilestep.report.advice.lines import leaves, line_of_call
from tilestep.report.advice.phrases import AS_ONE, CPU_DEFAULT, CPU_FREE, lines_text, times_text
from tilestep.report.advice.proposal import Proposal, Way
from tilestep.report.figures import Figures, Origin, ShapesProfile
from tilestep.report.quantities import count_text, names_text, share_text

LOADS_DOMINATE: Final = 0.1  # of emulated time


@dataclass(frozen=True, kw_only=True)
class _Loaded:
    """What an IPU keeps as one program: a program, or a group of them."""

    label: str
    function: str  # the same for programs that are one function, called with other shapes
    origin: Origin
    loads: int
    runs: int
    cycles: int  # of its loads
    work: int  # cycles of its runs
    keys: tuple[int, ...]  # of its programs


def loads(figures: Figures, evidence: Evidence | None) -> Iterator[Proposal]:
    """The larger part of the loads first, of operations outside of jit or of the others; the smaller part if it matters as well."""
    saving = figures.cycles_by_kind.get("save", 0)
    spent = figures.cycles_by_kind.get("load", 0) + saving
    if spent <= LOADS_DOMINATE * figures.emulated_cycles:
        return
    units = _loaded(figures)
    single, others = [unit for unit in units if unit.origin == "jax"], [unit for unit in units if unit.origin != "jax"]
    parts = [(part, _cycles(part)) for part in (single, others) if part]
    total = sum(unit.loads for unit in units)
    if units and not total:
        brought = sorted((p for p in figures.programs if p.key in figures.loaded_on_busiest), key=lambda p: -p.cycles.load)
        joined = names_text([figures.label(program.key) for program in brought], most=3)
        text = f"loading code took {share_text(spent, figures.emulated_cycles)} of emulated time: {joined} joined a group that was loaded. "
        yield Proposal(finding=Finding(kind="loads", text=text + "A program is loaded once and pays for it by running often."))
        return
    saved = "and the values saved for them " if saving else ""
    head = f"{count_text(total, 'program load')} {saved}took {share_text(spent, figures.emulated_cycles)} of emulated time"
    for part, cycles in sorted(parts, key=lambda part: -part[1]):
        count = sum(unit.loads for unit in part)
        are = "is" if count == 1 else "are"
        what = "single operations outside of jit" if part is single else "jitted functions"
        text = _single_operations(part, evidence) if part is single else _switching(figures, part, evidence)
        ways = _ways(figures, part, evidence, is_single=part is single)
        if len(parts) == 1:
            yield _proposal(f"{head}, all of {what}: {text}" if part is single else f"{head}: {text}", part, ways, evidence)
        elif cycles == max(of for _, of in parts):
            yield _proposal(f"{head}; {count:,} of them {are} of {what}: {text}", part, ways, evidence)
        elif cycles > LOADS_DOMINATE * figures.emulated_cycles and (part is single or len({unit.function for unit in part}) < count):
            yield _proposal(f"{count:,} of the {total:,} program loads {are} of {what}: {text}", part, ways, evidence)


def _proposal(text: str, units: Sequence[_Loaded], ways: tuple[Way, ...], evidence: Evidence | None) -> Proposal:
    line = None
    if evidence is not None:
        lines = [line_of_call(evidence.programs[key]) for unit in units for key in unit.keys]
        line = next((line for line in lines if line is not None), None)
    return Proposal(finding=Finding(kind="loads", text=text, line=line), ways=ways)


def _ways(figures: Figures, units: Sequence[_Loaded], evidence: Evidence | None, *, is_single: bool) -> tuple[Way, ...]:
    """The edits that spare loads: fewer shapes, one program in place of several, or none on the IPU."""
    alone = [unit for unit in units if unit.origin != "group"]
    keys = [key for unit in alone for key in unit.keys]
    if evidence is None or not keys:
        return ()
    if is_single:
        count = f"{len(keys):,} operations" if len(keys) > 1 else alone[0].label
        return (
            Way(edit=f"put {count} into one jitted function", change=merged(keys), how="about", basis=AS_ONE),
            Way(edit=f"run {count} under {CPU_DEFAULT}", change=on_cpu(keys), how="about", basis=CPU_FREE),
        )[len(keys) < 2 :]
    ways: list[Way] = []
    for function in figures.reshaped:
        largest = max(function.keys, key=lambda key: sum(a.size_bytes for a in evidence.programs[key].arguments))
        others = [key for key in function.keys if key != largest]
        if set(function.keys) & set(keys):
            edit = {"batch": f"pad {function.argument} of {function.name}", "dtype": f"call {function.name} with one dtype"}
            ways.append(
                Way(
                    edit=edit.get(function.differs, f"pad {function.argument} of {function.name} to one shape"),
                    change=called_as(others, largest),
                    how="replayed" if function.differs == "batch" else "about",
                    basis="" if function.differs == "batch" else "as if all calls had the largest shapes",
                )
            )
    for copies in _copies(alone, evidence):
        first, *others = copies
        edit = f"make {_name(first)} one program: arrays in place of static arguments, one dtype, one jit"
        change = called_as([key for unit in others for key in unit.keys], first.keys[0])
        ways.append(Way(edit=edit, change=change, how="about", basis="as if all calls were of one program"))
    surplus = _surplus(alone, evidence)
    alone = [unit for unit in alone if unit not in surplus]
    keys = [key for unit in alone for key in unit.keys]
    if len({unit.function for unit in alone}) > 1:
        names = names_text([unit.label for unit in alone], most=3)
        short = [key for unit in sorted(alone, key=lambda unit: unit.work)[:-1] for key in unit.keys]
        labels = names_text([figures.label(key) for key in short], most=3)
        ways.append(Way(edit=f"put {names} into one jitted function", change=merged(keys), how="about", basis=AS_ONE))
        ways.append(Way(edit=f"run {labels} under {CPU_DEFAULT}", change=on_cpu(short), how="about", basis=CPU_FREE))
    return tuple(ways)


def _copies(units: Sequence[_Loaded], evidence: Evidence | None) -> list[list[_Loaded]]:
    """Programs that are one function: of one name, made by the same pieces of code, with arguments and results of equal shapes."""
    if evidence is None:
        return []
    found: dict[object, list[_Loaded]] = {}
    for unit in units:
        if unit.origin == "user" and len(unit.keys) == 1:
            program = evidence.programs[unit.keys[0]]
            shapes = (tuple(a.shape for a in program.arguments), tuple(r.shape for r in program.results), program.num_ipus)
            code = _code(program)
            if code:
                found.setdefault((_name(unit), shapes, code), []).append(unit)
    return [copies for copies in found.values() if len(copies) > 1]


def _code(program: Program) -> frozenset[tuple[str, int, int]]:
    """File, line and column of what the user wrote, of all steps. Two lambdas on a line differ in their columns."""
    numbers = {user_frame(program.frames, leaf.frame) for leaf in leaves(program.body)} - {0}
    return frozenset((program.frames[n - 1].file, program.frames[n - 1].line, program.frames[n - 1].column) for n in numbers)


def _surplus(units: Sequence[_Loaded], evidence: Evidence | None) -> list[_Loaded]:
    """All copies of functions but the first of each."""
    return [unit for copies in _copies(units, evidence) for unit in copies[1:]]


def _several(copies: Sequence[_Loaded]) -> str:
    return (
        f"{_name(copies[0])} is {len(copies)} programs, though its arguments have equal shapes: each new value of a static argument, a "
        "Python number where an array was, or a new jit makes another one. Pass such values as arrays of one dtype, and jit once."
    )


def _name(unit: _Loaded) -> str:
    return unit.label.partition(" #")[0]


def _cycles(units: list[_Loaded]) -> int:
    return sum(unit.cycles for unit in units)


def _loaded(figures: Figures) -> list[_Loaded]:
    """Of the busiest IPU, those with most loads first. The first member of a group that runs loads it; later ones bring their code."""
    brought = [program for program in figures.programs if program.key in figures.loaded_on_busiest]
    functions = {key: f"{function.name} {number}" for number, function in enumerate(figures.reshaped) for key in function.keys}
    units = [
        _Loaded(
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
            label = f"program group '{group.name}' with {names}"
            units.append(
                _Loaded(
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


def _single_operations(units: list[_Loaded], evidence: Evidence | None) -> str:
    lines = "" if evidence is None else lines_text([line_of_call(evidence.programs[key]) for unit in units for key in unit.keys])
    where = f" They are made by {lines}." if lines else ""
    if len(units) == 1:
        return (
            f"{units[0].label} is a program of its own. Put it into a jitted function with its neighbours, or run it under {CPU_DEFAULT}."
            + where.replace("They are", "It is")
        )
    names = names_text(list(dict.fromkeys(unit.label.partition(" #")[0] for unit in units)), most=2)
    return (
        f"each is a program of its own ({names}). Put those that belong together, such as a model's initialisation, into one jitted "
        f"function, or run them under {CPU_DEFAULT}.{where}"
    )


def _switching(figures: Figures, units: list[_Loaded], evidence: Evidence | None) -> str:
    alone = [unit for unit in units if unit.origin != "group"]  # a group is one program already
    most = names_text([f"{unit.label} ({unit.loads:,})" for unit in alone or units], most=3)
    labels = {unit.label for unit in alone}
    shapes = [f"{_other_shapes(function)} " for function in figures.reshaped if labels & {figures.label(key) for key in function.keys}]
    shapes += [f"{_several(copies)} " for copies in _copies(alone, evidence)]
    way_out = f"Run short functions under {CPU_DEFAULT}, or put them into one jitted function." if len(alone) > 1 else ""
    if shapes and len({unit.function for unit in alone}) == 1 + len(_surplus(alone, evidence)):
        way_out = ""  # they are one jitted function
    if any(unit.loads > 1 for unit in units):
        text = f"an IPU keeps one program and switching reloads. Most loads: {most}. {''.join(shapes)}{way_out}".rstrip()
        return text if alone else f"{text} Run more steps between two switches."
    if len(alone) > 1:
        each = "" if shapes and not way_out else "Each function is a program of its own. "
        return f"{most}. {''.join(shapes)}{each}{way_out}".rstrip()
    ran = f"; {units[0].label} ran {times_text(units[0].runs)}" if len(units) == 1 else ""
    return f"a program is loaded once and pays for it by running often{ran}."


def _other_shapes(function: ShapesProfile) -> str:
    shapes = list(dict.fromkeys(function.shapes))
    way_out = {
        "batch": "pad or drop the smaller batch",
        "dtype": "call it with one dtype",
        "shape": "pad to one shape, or make these calls in one jitted function",
    }[function.differs]
    was = " and ".join(shapes) if len(shapes) == 2 else names_text(shapes, most=3)
    return f"{function.name} is {len(function.keys)} programs, because its argument {function.argument} was {was}: {way_out}."
