"""Advice on limits: what the longest program spends its supersteps on, IPUs that nothing used, operations that were priced roughly."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final, NamedTuple, get_args

from tilestep.advice.evidence import Evidence
from tilestep.advice.finding import LEAST_SHARE, Finding, Line
from tilestep.advice.phrases import named, one_or
from tilestep.advice.proposal import Proposal, Way
from tilestep.advice.user_code.lines import line_of
from tilestep.advice.user_code.source_lines import called_at
from tilestep.figures.quantities import count_text, names_text, share_text
from tilestep.figures.records import PINNED_HOST, FamilyCycles, Figures, ProgramProfile
from tilestep.figures.scopes import told_scope
from tilestep.machine.catalog import DEFAULT_MACHINE, named_machine
from tilestep.plan.steps import Collective, CollectiveKind, HostCall, Program, Superstep, leaves
from tilestep.recording.edits.programs import Leaf, shorter, with_leaves
from tilestep.recording.edits.script import with_changed

MOST_TEXT: Final = 400_000  # characters of the HLO of a program that is planned again for advice: a second of planning
PRODUCTS: Final = ("matmul", "convolution")  # families on the matrix unit


def superstep_cycles(program: ProgramProfile) -> int:
    """Cycles of all runs in supersteps, collectives and calls of the host."""
    return sum(family.total for family in program.families)


def longest_program(figures: Figures, evidence: Evidence | None) -> ProgramProfile | None:
    """The program with the longest supersteps; None if that is JAX's own, or its HLO was not kept or is long."""
    longest = max(figures.programs, key=superstep_cycles, default=None)
    if evidence is None or longest is None or longest.origin == "jax" or longest.key not in evidence.programs:
        return None
    source = evidence.sources.get(longest.key)
    return longest if source is not None and 0 < len(source.text()) <= MOST_TEXT else None


class LimitWords(NamedTuple):
    """How a program says what its supersteps need.

    Attributes:
        larger: what makes operations larger.
        denser: what makes less of them move between tiles.
        memory: what the memory is called in which values wait beside the tiles.
        origin: what a superstep of a scope is from; '' if that says nothing.
    """

    larger: str
    denser: str
    memory: str
    origin: Callable[[str], str]


JAX: Final = LimitWords(
    larger="a larger batch, fewer and larger operations",
    denser="larger operands per operation, smaller dtypes",
    memory=PINNED_HOST,
    origin=told_scope,
)


def limit(figures: Figures, evidence: Evidence | None, words: LimitWords = JAX, call: Line | None = None) -> Iterator[Proposal]:
    """What the supersteps of the program with the longest ones are limited by, and what the half of that would save.

    Args: call: where the user calls all programs; None: where the program's steps tell.
    """
    longest = max(figures.programs, key=superstep_cycles, default=None)
    if longest is None or not longest.families or not longest.families[0].total:
        return
    whole = superstep_cycles(longest)
    if whole < LEAST_SHARE * figures.rest_cycles:
        return
    family = longest.families[0]
    if family.family == "host call" and _of_interpreter(evidence, longest.key) is not None:
        return
    name = words.memory if family.family == PINNED_HOST else family.family
    steps = [step for step in figures.supersteps if step.key == longest.key and step.family == family.family]
    is_slowest = longest.cycles.total == max(program.cycles.total for program in figures.programs)
    which = "" if len(figures.programs) == 1 else ", the slowest program," if is_slowest else ", the longest of any program,"
    text = (
        f"The supersteps of {named(figures, evidence, longest.key)}{which} take {share_text(whole, figures.emulated_cycles)} of "
        f"emulated time; {share_text(family.total, whole)} of that is {name}, limited by {_limited_by(family, words)}."
    )
    if steps:
        origin = words.origin(steps[0].scope)
        text += f" Largest: {steps[0].name}{f' from {origin}' if origin else ''} ({share_text(steps[0].total, whole)})."
    finding = Finding(kind="limit", text=text)
    if evidence is None:
        yield Proposal(finding=finding)
        return
    program = evidence.programs[longest.key]
    line = next((line_of(program, leaf.frame) for leaf in leaves(program.body) if steps and leaf.name == steps[0].name), None)
    line = line or call or evidence.line_of_call(longest.key)
    calls_host = family.family in (PINNED_HOST, "host call")
    way = Way(
        edit=f"if {name} in {figures.label(longest.key)} took half",
        change=with_changed([longest.key], lambda program: _halved(program, family.family)),
        how="about" if calls_host else "replayed",
        basis="half of what it takes" if calls_host else "",
        part=0.5 if calls_host else 1.0,
    )
    yield Proposal(finding=replace(finding, line=line), ways=(way,))


def _halved(program: Program, family: str) -> Program:
    """With half of a family's cycles, and none of its calls of the host, whose latency no smaller call spares."""

    def change(leaf: Leaf) -> Leaf | None:
        match leaf:
            case Superstep() if leaf.family == family:
                return shorter(leaf, 1, 2)
            case Collective() if leaf.kind == family:
                return replace(leaf, size_bytes=leaf.size_bytes // 2, compute_cycles=leaf.compute_cycles // 2)
            case HostCall() if family == (PINNED_HOST if leaf.in_memory else "host call"):
                return None
            case _:
                return leaf

    return with_leaves(program, change)


def _limited_by(family: FamilyCycles, words: LimitWords) -> str:
    kind, cycles = max(
        (("compute", family.compute), ("exchange", family.exchange), ("sync", family.sync), ("host", family.host)), key=lambda part: part[1]
    )
    between_ipus = family.family in get_args(CollectiveKind)
    if kind == "exchange":
        name = "exchange between IPUs" if between_ipus else "exchange"
        way_out = "send less between IPUs (smaller dtypes; of gradients, an exchange after more steps)"
        way_out = way_out if between_ipus else f"move less between tiles ({words.denser})"
    elif kind == "sync":
        name, way_out = "sync", f"its operations are too small ({words.larger})"
        way_out = "its exchanges are too small (fewer and larger ones)" if between_ipus else way_out
    elif kind == "host" and family.family == PINNED_HOST:
        name, way_out = f"values in {words.memory}", "it stops for them (keep fewer values there, or use them less often)"
    elif kind == "host":
        name, way_out = "the host link", "it stops for the host"
    else:
        name, way_out = "compute", ""
    return f"{name} ({share_text(cycles, family.total)}){': ' if way_out else ''}{way_out}"


def _of_interpreter(evidence: Evidence | None, key: int) -> Line | None:
    """The line of a kernel of Pallas that is interpreted, whose loads and stores call the host; None if nothing of a program is."""
    program = None if evidence is None else evidence.programs.get(key)
    calls = [leaf for leaf in leaves(program.body) if isinstance(leaf, HostCall) and not leaf.in_memory] if program is not None else []
    lines = dict.fromkeys(line_of(program, call.frame) for call in calls) if program is not None else {}
    return next((line for line in lines if line is not None and "pallas_call" in called_at(line)), None)


def interpreted(figures: Figures, evidence: Evidence | None) -> Iterator[Proposal]:
    """Programs with a kernel of Pallas that is interpreted: what its host calls take says nothing of a kernel."""
    for profile in figures.programs:
        line = _of_interpreter(evidence, profile.key)
        spent = sum(family.total for family in profile.families if family.family == "host call")
        if line is not None and spent >= max(LEAST_SHARE * figures.rest_cycles, 1):
            text = (
                f"{figures.label(profile.key)} interprets a Pallas kernel at {line}, whose loads and stores call the host: these "
                f"{share_text(spent, figures.emulated_cycles)} of emulated time are an interpreter's, and no kernel's on an IPU."
            )
            yield Proposal(finding=Finding(kind="fallback", text=text, line=line))


def unused(figures: Figures, evidence: Evidence | None) -> Iterator[Proposal]:
    """Only of a machine that somebody asked for: the default one has several IPUs for programs that use one."""
    machine, used = figures.machine, figures.num_ipus_used
    default = named_machine(DEFAULT_MACHINE)
    if 0 < used < machine.num_ipus and (machine.name, machine.num_ipus) != (default.name, default.num_ipus):
        were = "was" if used == 1 else "were"
        text = (
            f"{used:,} of {machine.num_ipus:,} IPUs {were} used. Divide arrays over all of them (jax.sharding), or use Replicas or "
            "Pipeline of tilestep.train."
        )
        yield Proposal(finding=Finding(kind="unused", text=text))


def fallbacks(figures: Figures, evidence: Evidence | None) -> Iterator[Proposal]:
    ops = sorted({op for program in figures.programs for op in program.fallback_ops})
    if ops:
        text = (
            f"{count_text(len(ops), 'operation')} without an estimator of {one_or(ops, 'its', 'their')} own, priced roughly: "
            f"{names_text(ops, most=6)}."
        )
        yield Proposal(finding=Finding(kind="fallback", text=text))
