"""How a PopART program says what the rules propose, at which line; and advice on anchors that leave after each microbatch."""

import ast
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Final

from tilestep.advice import NEARLY_FULL
from tilestep.advice.evidence import Evidence
from tilestep.advice.finding import Finding, Line
from tilestep.advice.ipus.limits import LimitWords, longest_program
from tilestep.advice.ipus.precision import PrecisionWords, partials
from tilestep.advice.phrases import one_or
from tilestep.advice.proposal import Proposal, Rule, Way
from tilestep.advice.user_code.source_lines import last_name, nodes_of
from tilestep.figures.quantities import bytes_text, count_text, names_text, share_text
from tilestep.figures.records import Figures
from tilestep.figures.scopes import parts_of, short_scope
from tilestep.plan.steps import Program, Result
from tilestep.popart.enums import AnchorReturnTypeId
from tilestep.popart.session.plan import SessionPlan
from tilestep.recording.edits.reads import leaving_seldom
from tilestep.recording.edits.script import Change, Script, with_changed
from tilestep.recording.source_lines import source_text

_LEAST_VALUE_BYTES: Final = 1024  # a loss of each microbatch is what people train with
_LEAST_SHARE_OF_LARGEST: Final = 0.1


@dataclass(frozen=True, kw_only=True)
class Returned:
    """An anchor of which each microbatch's value leaves.

    Attributes:
        name: of the tensor.
        size_bytes: of one value, on one IPU.
        rows: values that one run of the model's program gives.
        calls_rows: values of a call of the session, of each replica.
        replicas: that have values of their own.
    """

    name: str
    size_bytes: int
    rows: int
    calls_rows: int
    replicas: int = 1


def returned_of(plan: SessionPlan, *, rows: int) -> tuple[Returned, ...]:
    """The anchors of a session with AnchorReturnType "All". Args: rows: microbatches that its program runs for."""
    found: list[Returned] = []
    for anchor in () if plan.synthetic else plan.anchors:
        kind = plan.type_of(anchor.name)
        if anchor.kind is AnchorReturnTypeId.All and kind is not None:
            size = prod(kind.shape) * kind.dtype.itemsize
            each = plan.batches * plan.accumulation
            found.append(
                Returned(
                    name=anchor.name,
                    size_bytes=size,
                    rows=rows,
                    calls_rows=each,
                    replicas=plan.replication.count,
                )
            )
    return tuple(found)


def anchors(returned: Iterable[Returned], line: Line | None, *, program: str) -> Rule:
    """The rule about anchors that leave with each microbatch.

    Args: line: of the user's program that prepared the session. program: the name of those from which they leave.
    """
    large = [each for each in returned if each.calls_rows > 1 and each.size_bytes >= _LEAST_VALUE_BYTES]
    largest = max((each.size_bytes for each in large), default=0)
    told = sorted((each for each in large if each.size_bytes >= _LEAST_SHARE_OF_LARGEST * largest), key=lambda each: -each.size_bytes)

    def rule(figures: Figures, evidence: Evidence | None) -> Iterator[Proposal]:
        if evidence is None or not told:
            return
        rows = {each.size_bytes * each.rows: each.rows for each in told}
        named = {key: each for key, each in evidence.programs.items() if each.name == program}
        keys = [key for key, each in named.items() if any(_is_one(result, rows) for result in each.results)]
        if not keys:
            return
        names, count = names_text([each.name for each in told], most=3), told[0].calls_rows * told[0].replicas
        size = bytes_text(sum(each.size_bytes for each in told) * count)
        text = (
            f"{names} of each microbatch {one_or(told, 'leaves', 'leave')} the IPU (AnchorReturnType All: {count_text(count, 'value')}, "
            f"{size} a call). Where the last value or the sum is enough, return that: Final or Sum; EveryN returns one of N batches."
        )
        way = Way(
            edit=f"return {names} as Final in place of All",
            change=_last_value(keys, told),
            how="about",
            basis="with the bytes of one value",
        )
        finding = Finding(kind="results", text=text, line=said_at(line))
        yield Proposal(finding=finding, ways=(way,), only_with_gain=True)

    return rule


def said_at(line: Line | None) -> Line | None:
    """The only line of the user's file that says "All", or else the only one with a DataFlow; `line` if there is none."""
    if line is None:
        return None
    calls = [node for node in nodes_of(source_text(line.file) or "") if isinstance(node, ast.Call)]
    all_of = [node for node in calls if last_name(node.func) == "AnchorReturnType" and _is_all(node)]
    flows = [node for node in calls if last_name(node.func) == "DataFlow"]
    for found in (all_of, flows):
        if len(found) == 1:
            return Line(file=line.file, number=found[0].lineno)
    return line


def _is_all(node: ast.Call) -> bool:
    first = node.args[0] if node.args else None
    return first is None or (isinstance(first, ast.Constant) and str(first.value).lower() == "all")


def _last_value(keys: Sequence[int], told: Sequence[Returned]) -> Change:
    """Of each call the last microbatch's value leaves. Args: keys: of the programs from which all leave."""
    rows = {each.size_bytes * each.rows: each.rows for each in told}

    def last_only(program: Program) -> Program:
        results = (replace(r, size_bytes=r.size_bytes // rows[r.size_bytes]) if _is_one(r, rows) else r for r in program.results)
        return replace(program, results=tuple(results))

    def change(script: Script) -> Script:
        runs = told[0].calls_rows // told[0].rows
        for key in keys if runs > 1 else ():
            results = [result.index for result in script.programs[key].results if _is_one(result, rows)]
            script = leaving_seldom(key, results, every=runs)(script)
        return with_changed(keys, last_only)(script)

    return change


def _is_one(result: Result, rows: Collection[int]) -> bool:
    """Whether a result is what all microbatches have given of an anchor. Args: rows: bytes of those that count."""
    return result.argument is None and result.size_bytes in rows


_SCOPE_CALL: Final = re.compile(r"[a-z_]+\((.*)\)")  # such as transpose(jvp(loss)), jit(step)
_JAX_STRUCTURE: Final = re.compile(r"while|body|cond|branch_\d+_fun|closed_call|shard_map|checkpoint|rematted_computation")


def operator_of(scope: str) -> str:
    """The operator of a scope, '' if there is none.

    'gradient of layer/MatMul' for 'jit(stage_1_forward_and_backward)/transpose(jvp(layer/MatMul))/dot_general'.
    """
    parts = [part for part in parts_of(scope)[:-1] if not part.startswith("jit(")]
    names = [name for part in parts for name in _bare(part).split("/") if name and not _JAX_STRUCTURE.fullmatch(name)]
    gradient = "gradient of " if names and any(part.startswith("transpose(") for part in parts) else ""
    return gradient + "/".join(names)


def operation_of(scope: str) -> str:
    """What a table calls a step of a scope: its operator, or else the end of the scope."""
    return operator_of(scope) or short_scope(scope).removeprefix("jit(_whole)/")


def _bare(part: str) -> str:
    """A part of a scope without the calls around it."""
    while found := _SCOPE_CALL.fullmatch(part):
        part = found[1]
    return part


_LARGER: Final = "more samples in an input, fewer and larger operators"
LIMITS: Final = LimitWords(larger=_LARGER, denser=_LARGER, memory="streaming memory", origin=operator_of)
PRECISION: Final = PrecisionWords(
    is_wide="The tensors of {label} are FLOAT",
    products="FLOAT16",
    way_out="give the model FLOAT16 inputs and weights",
    edit="FLOAT16 in place of FLOAT in {label}",
    single="FLOAT",
    half="FLOAT16",
    partials="SessionOptions.partialsTypeMatMuls = 'half'",
)


def at_line(rule: Rule, line: Line | None, *, of_operators: bool = False) -> Rule:
    """A rule whose findings are at a line of the user's program.

    Args: of_operators: whether findings are at the line of an operator where that is known.
    """

    def placed(figures: Figures, evidence: Evidence | None) -> Iterator[Proposal]:
        for proposal in rule(figures, evidence):
            where = (proposal.finding.line if of_operators else None) or line
            yield replace(proposal, finding=replace(proposal.finding, line=where))

    return placed


def full_tiles(figures: Figures, evidence: Evidence | None, *, is_staged: bool = True) -> Iterator[Proposal]:
    """IPUs whose tiles the session's programs fill. Args: is_staged: whether the session has several stages."""
    tile_bytes = figures.machine.tile_sram_bytes
    state = "optimiser state in streaming memory (SessionOptions.optimizerStateTensorLocationSettings)"
    last = state if is_staged else "several IPUs (builder.virtualGraph)"
    for group in figures.groups:
        if group.peak_tile_bytes > NEARLY_FULL * tile_bytes:
            over = group.peak_tile_bytes > tile_bytes
            text = (
                f"The programs of IPU {group.ipu} {'do not fit: they need' if over else 'nearly fill it: they take'} "
                f"{share_text(group.peak_tile_bytes, tile_bytes)} of a tile ({bytes_text(group.peak_tile_bytes)} of "
                f"{bytes_text(tile_bytes)}). Try: a smaller microbatch, FLOAT16, recomputation (SessionOptions.autoRecomputation) in "
                f"training, or {last}."
            )
            yield Proposal(finding=Finding(kind="memory", text=text, urgent=over))


def half_partials(figures: Figures, evidence: Evidence | None) -> Iterator[Proposal]:
    """Sums of FLOAT16 products, where the longest program has any: the option is about matrix products."""
    longest = longest_program(figures, evidence)
    if longest is None or not any(family.family == "matmul" for family in longest.families):
        return
    yield from partials(figures, evidence, PRECISION)
