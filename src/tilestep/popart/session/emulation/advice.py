"""What to do about a session, in PopART's words. Findings that no PopART program can follow stay away."""

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from tilestep.advice.evidence import Evidence
from tilestep.advice.finding import Finding, Line
from tilestep.advice.host.set_up import set_up
from tilestep.advice.host.small_steps import small
from tilestep.advice.host.streaming import IO_TILES, halved_arguments, longest_streaming
from tilestep.advice.ipus.limits import fallbacks, limit
from tilestep.advice.ipus.pipelines import PipelineWords, bubbles, unbalanced
from tilestep.advice.ipus.precision import halves
from tilestep.advice.phrases import times_text
from tilestep.advice.proposal import Proposal, Rule, Way
from tilestep.figures.quantities import bytes_text, names_text
from tilestep.figures.records import Figures
from tilestep.popart.session.emulation.advice_words import LIMITS, PRECISION, anchors, at_line, full_tiles, half_partials
from tilestep.popart.session.emulation.program import EmulatedProgram
from tilestep.popart.session.emulation.session_labels import ANCHORS, RUN
from tilestep.recording.edits.programs import on_fewer_tiles
from tilestep.recording.edits.reads import last_state_reads, state_bytes_read
from tilestep.recording.edits.script import Script, with_changed


class WeightReads(NamedTuple):
    """How often the host has read the weights, and where a program asks for it last."""

    times: int
    line: Line | None


def weights(reads: WeightReads) -> Rule:
    """The rule about weights that the host reads more than once."""

    def rule(figures: Figures, evidence: Evidence | None) -> Iterator[Proposal]:
        if evidence is None or reads.times < 2:
            return
        size = state_bytes_read(Script(calls=evidence.calls, programs=evidence.programs))
        if not size:
            return
        text = (
            f"The host reads the weights, and the optimiser's state if there is one, {times_text(reads.times)} (weightsToHost or "
            f"modelToHost, {bytes_text(size)} each time), and the IPUs wait until it has them. Read them when the training ends, or at the "
            "calls that a checkpoint is for."
        )
        way = Way(edit="call session.weightsToHost() once, after the last session.run(...)", change=last_state_reads, how="replayed")
        yield Proposal(finding=Finding(kind="reads", text=text, line=reads.line), ways=(way,), only_with_gain=True)

    return rule


def rules_of(program: EmulatedProgram, line: Line | None, reads: WeightReads) -> tuple[Rule, ...]:
    """The rules for a session. Args: line: of the user's program, where findings are that are of no operator. reads: of the weights."""
    words, is_staged = words_of(program), program.kind != "one"

    def limits(figures: Figures, evidence: Evidence | None) -> Iterator[Proposal]:
        return limit(figures, evidence, LIMITS, line)

    def batches(figures: Figures, evidence: Evidence | None) -> Iterator[Proposal]:
        for proposal in small(figures, evidence) if program.kind in ("one", "pipelined") else ():
            yield replace(proposal, finding=replace(proposal.finding, line=line or proposal.finding.line))

    rules: tuple[Rule, ...] = (
        lambda figures, evidence: full_tiles(figures, evidence, is_staged=is_staged),
        lambda figures, evidence: unbalanced(figures, evidence, words),
        lambda figures, evidence: bubbles(figures, evidence, words),
        lambda figures, evidence: _inputs(figures, evidence, frozenset(program.stages.inputs)),
        lambda figures, evidence: halves(figures, evidence, PRECISION),
        half_partials,
        set_up,
        limits,
        fallbacks,
    )
    return (
        *(at_line(rule, line, of_operators=rule is limits) for rule in rules),
        anchors(program.returned, line, program=RUN if program.is_single else ANCHORS),
        weights(reads),
        batches,
    )


def words_of(program: EmulatedProgram) -> PipelineWords:
    """How a PopART program says what its pipeline needs. Stages without pipelining take turns, and phases always do."""
    overlapped = "with pipelining the stages work at once"
    if program.kind == "sharded":
        return PipelineWords(cut=None, more=None, overlap="SessionOptions.enablePipelining = True", overlapped=overlapped)
    if program.kind != "pipelined":
        return PipelineWords(cut=None, more=None, overlap=None, overlapped="")
    more = "SessionOptions.accumulationFactor" if program.accumulates else "batchesPerStep of DataFlow"
    cut = "tilestep run --popart --propose-stages {count} would, which measures operators"
    return PipelineWords(cut=cut, more=more + ": {more:,} in place of {now:,}", overlap=None, overlapped="")


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
