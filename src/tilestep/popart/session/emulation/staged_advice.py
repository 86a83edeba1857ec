"""What to do about a session of several stages, in PopART's words. Findings that no PopART program can follow stay away."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from tilestep.popart.session.emulation.staged_program import StagedProgram
from tilestep.record.edits.programs import on_fewer_tiles
from tilestep.record.edits.script import with_changed
from tilestep.record.source_lines import source_text
from tilestep.report.advice import NEARLY_FULL
from tilestep.report.advice.evidence import Evidence
from tilestep.report.advice.finding import Finding, Line
from tilestep.report.advice.limits import LimitWords, fallbacks, limit
from tilestep.report.advice.longest import longest_program
from tilestep.report.advice.pipelines import PipelineWords, bubbles, unbalanced
from tilestep.report.advice.precision import PrecisionWords, halves, partials
from tilestep.report.advice.proposal import Proposal, Rule, Way
from tilestep.report.advice.streaming import IO_TILES, halved_arguments, longest_streaming
from tilestep.report.advice.written import last_name, nodes_of
from tilestep.report.figures import Figures
from tilestep.report.quantities import bytes_text, names_text, share_text

_CALL: Final = re.compile(r"[a-z_]+\((.*)\)")  # of a scope's part: transpose(jvp(loss)), jit(step)


def operator_of(scope: str) -> str:
    """The operator of a scope: 'gradient of loss' for 'jit(stage_1_forward_and_backward)/transpose(jvp(loss))/div'; '' if there is none."""
    for part in scope.split("/")[:-1]:
        if part.startswith("jit("):
            continue
        name = part
        while found := _CALL.fullmatch(name):
            name = found[1]
        if name:
            return f"gradient of {name}" if part.startswith("transpose(") else name
    return ""


_OPTION: Final = re.compile(r"SessionOptions\.(\w+)(?: = (.+)|: ([\d,]+) in place of .+)")
_BATCHES: Final = re.compile(r"batchesPerStep of DataFlow: ([\d,]+) in place of .+")
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


def rules_of(program: StagedProgram, line: Line | None) -> tuple[Rule, ...]:
    """The rules for a session. Args: line: of the user's program, where all findings are."""
    words = words_of(program)

    def at(rule: Rule) -> Rule:
        def placed(figures: Figures, evidence: Evidence | None) -> Iterator[Proposal]:
            for proposal in rule(figures, evidence):
                finding = replace(proposal.finding, line=line, code=code_of(proposal.finding.edit, line))
                ways = tuple(replace(way, code=code_of(way.edit, line)) for way in proposal.ways)
                yield replace(proposal, finding=finding, ways=ways)

        return placed

    rules: tuple[Rule, ...] = (
        _full,
        lambda figures, evidence: unbalanced(figures, evidence, words),
        lambda figures, evidence: bubbles(figures, evidence, words),
        lambda figures, evidence: _inputs(figures, evidence, frozenset(program.stages.inputs)),
        lambda figures, evidence: halves(figures, evidence, PRECISION),
        _partials,
        lambda figures, evidence: limit(figures, evidence, LIMITS),
        fallbacks,
    )
    return tuple(map(at, rules))


def code_of(edit: str, line: Line | None) -> str:
    """An edit as a line of the user's program; '' if it is no option. Args: line: of the program."""
    found = _OPTION.fullmatch(edit)
    if found is not None:
        return f"{_options_at(line)}.{found[1]} = {(found[2] or found[3]).replace(',', '')}"
    found = _BATCHES.fullmatch(edit)
    return "" if found is None else f"popart.DataFlow({found[1].replace(',', '')}, ...)"


def _options_at(line: Line | None) -> str:
    """What the user calls the session's options: the only name that the file gives some."""
    nodes = nodes_of(source_text(line.file) or "") if line is not None else ()
    names = {
        last_name(node.targets[0])
        for node in nodes
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and last_name(node.value.func) == "SessionOptions"
    }
    return names.pop() if len(names) == 1 else "options"


def words_of(program: StagedProgram) -> PipelineWords:
    """How a PopART program says what its pipeline needs. Stages without pipelining take turns, and phases always do."""
    overlapped = "with pipelining the stages work at once"
    if program.kind == "sharded":
        return PipelineWords(cut=None, more=None, overlap="SessionOptions.enablePipelining = True", overlapped=overlapped)
    if program.kind != "pipelined":
        return PipelineWords(cut=None, more=None, overlap=None, overlapped="")
    more = "SessionOptions.accumulationFactor" if program.accumulates else "batchesPerStep of DataFlow"
    cut = "tilestep run --popart --propose-stages {count} would, which measures operators"
    return PipelineWords(cut=cut, more=more + ": {more:,} in place of {now:,}", overlap=None, overlapped="")


def _full(figures: Figures, evidence: Evidence | None) -> Iterator[Proposal]:
    """IPUs whose tiles the session's programs fill."""
    tile_bytes = figures.machine.tile_sram_bytes
    for group in figures.groups:
        if group.peak_tile_bytes > NEARLY_FULL * tile_bytes:
            over = group.peak_tile_bytes > tile_bytes
            text = (
                f"The programs of IPU {group.ipu} {'do not fit: they need' if over else 'nearly fill it: they take'} "
                f"{share_text(group.peak_tile_bytes, tile_bytes)} of a tile ({bytes_text(group.peak_tile_bytes)} of "
                f"{bytes_text(tile_bytes)}). Try: a smaller microbatch, FLOAT16, recomputation (SessionOptions.autoRecomputation) in "
                "training, or optimiser state in streaming memory (SessionOptions.optimizerStateTensorLocationSettings)."
            )
            yield Proposal(finding=Finding(kind="memory", text=text, urgent=over))


def _inputs(figures: Figures, evidence: Evidence | None, inputs: frozenset[str]) -> Iterator[Proposal]:
    """The stage that waits for the model's inputs for longest."""
    found = None if evidence is None else longest_streaming(figures, evidence, "group")
    if evidence is None or found is None:
        return
    profile, size, share = found
    program, num_tiles = evidence.programs[profile.key], evidence.machine.ipu.num_tiles
    own = [argument for argument in program.arguments if argument.name in inputs]
    if not own:
        return
    ways: list[Way] = []
    if not program.num_io_tiles and num_tiles > 2 * IO_TILES:
        change = with_changed([profile.key], lambda program: on_fewer_tiles(program, IO_TILES, num_tiles))
        basis = "the other tiles computing as much longer as they are fewer"
        ways.append(Way(edit=f"SessionOptions.numIOTiles = {IO_TILES}", change=change, how="about", basis=basis))
    wide = sorted((argument for argument in own if argument.shape.startswith("f32")), key=lambda argument: -argument.size_bytes)
    if wide:
        edit = f"make {names_text([argument.name for argument in wide], most=3)} FLOAT16"
        change = halved_arguments(profile.key, [argument.index for argument in wide])
        ways.append(Way(edit=edit, change=change, how="about", basis="with half of the bytes"))
    tiles = f"let them come while it computes (SessionOptions.numIOTiles = {IO_TILES})" if not program.num_io_tiles else ""
    half = "make FLOAT inputs FLOAT16, and cast them on the IPU (builder.aiOnnx.cast)" if wide else ""
    label = figures.label(profile.key)
    text = (
        f"{label[0].upper()}{label[1:]} waits for its inputs ({bytes_text(size)} a microbatch, {share} of emulated time): "
        f"{', or '.join(words for words in (tiles, half) if words)}."
    )
    yield Proposal(finding=Finding(kind="feeds", text=text), ways=tuple(ways), only_with_gain=True)


def _partials(figures: Figures, evidence: Evidence | None) -> Iterator[Proposal]:
    longest = longest_program(figures, evidence)
    if longest is None or not any(family.family == "matmul" for family in longest.families):
        return  # the option is about matrix products
    yield from partials(figures, evidence, PRECISION)
