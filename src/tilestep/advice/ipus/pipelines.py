"""Advice on pipelines: stages that differ in what they cost for a microbatch, and IPUs that wait while one fills and empties."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, inf
from typing import Final, NamedTuple, get_args

from tilestep.advice.evidence import Evidence
from tilestep.advice.finding import LEAST_SHARE, Finding, Gain, Line
from tilestep.advice.ipus.limits import MOST_TEXT, PRODUCTS
from tilestep.advice.proposal import Proposal, Way
from tilestep.cuts import best_cuts, stage_costs
from tilestep.figures.gradients import goes_backward
from tilestep.figures.quantities import share_text, time_text
from tilestep.figures.records import Figures
from tilestep.plan.steps import CollectiveKind, Loop, Node, Program, Series, Superstep
from tilestep.recording.edits.programs import Leaf, shorter, with_leaves
from tilestep.recording.edits.script import Change, Script
from tilestep.recording.sources import Source, module_of
from tilestep.sim.calls import Dispatch
from tilestep.sim.state.ledger import ProgramTotals
from tilestep.sim.trace import BESIDE, PipelineTask

MOST_STAGE_PARTS: Final = 200
_BETWEEN_IPUS: Final = get_args(CollectiveKind)
_NO_WORK: Final = (*BESIDE, "load", "read")
_COPIES: Final = ("store", "load", "store parameters", "load parameters")  # tasks that run a program for each array


class _Task(NamedTuple):
    """One dispatch of a pipeline. A step is an update, or a round of inference: one entry into the group may have several."""

    step: int
    stage: int
    microbatch: int
    key: int


@dataclass(frozen=True, kw_only=True)
class ObservedPipeline:
    """A pipeline, of which a history has several steps.

    Attributes:
        group: name of its program group.
        microbatches: of a step.
        steps: that it did.
        keys: by stage, of the programs that do its tasks.
        costs: by stage, cycles of supersteps for a microbatch.
        busy: by stage, the same with what its IPU passes on and streams once the system is warm, if the history tells that.
        in_turn: whether a microbatch is through all stages before the next begins.
        starts: positions in the calls at which the host enters the group.
        steps_each: of such an entry: a call of a PopART session has several updates.
        line: where the user calls it.
    """

    group: str
    microbatches: int
    steps: int
    keys: tuple[frozenset[int], ...]
    costs: tuple[float, ...]
    busy: tuple[float, ...]
    in_turn: bool
    starts: tuple[int, ...]
    steps_each: float
    line: Line | None


def pipelines(figures: Figures, evidence: Evidence) -> Iterator[ObservedPipeline]:
    """The pipelines of a profile: program groups whose dispatches are tasks of stages."""
    ran = [p for p in figures.programs if p.runs]
    own = {p.key: sum(f.total for f in p.families if f.family not in _BETWEEN_IPUS) / p.runs for p in ran}
    all_runs = {p.key: (p.cycles.total - p.cycles.load - p.cycles.read) / p.runs for p in ran}
    for group, steps in _tasks(evidence).items():
        tasks, starts = steps.tasks, tuple(steps.starts)
        count = max(task.stage for task in tasks) + 1
        keys = tuple(frozenset(task.key for task in tasks if task.stage == stage) for stage in range(count))
        microbatches = max(task.microbatch for task in tasks) + 1
        if count < 2 or microbatches < 1 or not all(keys) or not frozenset().union(*keys) <= own.keys():
            continue
        done = steps.count * microbatches
        seen = sum(task.stage == 0 and task.microbatch >= 0 for task in tasks)
        runs = sum(p.runs for p in ran if any(task.key == p.key and task.stage == 0 and task.microbatch >= 0 for task in tasks))
        first = [task.microbatch for task in tasks if not task.step and task.microbatch >= 0]
        warm = evidence.turns(starts, sums=True)  # before, parameters come, which a short run would take for work of each microbatch
        sums: Mapping[int, ProgramTotals] = {} if warm is None or warm.sums is None else warm.sums
        whole = {**all_runs, **{key: _busy(totals) for key, totals in sums.items() if totals.runs}}
        lines = (evidence.line_of_call(key) for of_stage in keys for key in sorted(of_stage))
        yield ObservedPipeline(
            group=group,
            microbatches=microbatches,
            steps=done // microbatches * runs // seen if seen else 0,
            keys=keys,
            costs=_of_microbatch(tasks, own, count, done),
            busy=_of_microbatch(tasks, whole, count, done),
            in_turn=microbatches > 1 and all(before <= after for before, after in pairwise(first)),
            starts=starts,
            steps_each=steps.count / len(starts),
            line=next((line for line in lines if line is not None), None),
        )


def steps_each(evidence: Evidence, group: str) -> float:
    """Steps of an entry into a program group: 1 if it is no pipeline."""
    steps = _tasks(evidence).get(group)
    return 1.0 if steps is None else steps.count / len(steps.starts)


class StagePart(NamedTuple):
    """A part of a stage, which begins with a product of forward: its cycles, and the size of the result that a cut behind it passes on."""

    cycles: int
    size_bytes: int  # 0: unknown


NO_PART: Final = StagePart(cycles=0, size_bytes=0)


def parts_of(evidence: Evidence, keys: frozenset[int]) -> list[StagePart]:
    """The parts of a stage, of a loop one for each trip."""
    products = {key: _of_node(evidence.programs[key].body) for key in sorted(keys)}
    key = max(products, key=lambda key: len(products[key]))
    sizes = _sizes(evidence.sources.get(key)) if products[key] else {}
    return [StagePart(_cycles(product), sizes.get(product.name, 0)) for product in products[key]]


def _cycles(product: Superstep) -> int:
    return product.compute_cycles + product.exchange_cycles + product.sync_cycles


def _sizes(source: Source | None) -> dict[str, int]:
    """Bytes of what each instruction of a program makes; {} if its HLO was not kept, is long, or of another version."""
    module = module_of(source, most=MOST_TEXT)
    computations = () if module is None else module.computations.values()
    return {each.name: each.shape.size_bytes for computation in computations for each in computation.instructions}


def _tasks(evidence: Evidence) -> dict[str, _Steps]:
    """By program group that has any."""
    found: dict[str, _Steps] = {}
    for position, call in enumerate(evidence.calls):
        if isinstance(call, Dispatch) and call.group is not None:
            steps = found.setdefault(call.group[0], _Steps())
            steps.enter(call.group[1], position)
            if call.task is not None and call.task.stage >= 0:
                steps.add(call.task, call.key)
    return {group: steps for group, steps in found.items() if steps.tasks}


class _Steps:
    """The steps of a group, as its dispatches tell them: within an entry a task that comes again begins another one.

    Attributes:
        tasks: in the order of dispatch.
        starts: positions in the calls at which the entries begin that have tasks.
        count: of steps.
    """

    def __init__(self) -> None:
        self.tasks: list[_Task] = []
        self.starts: list[int] = []
        self.count = 0
        self._entry: int | None = None
        self._begin_without_task: int | None = None
        self._seen: set[tuple[PipelineTask, int]] = set()

    def enter(self, entry: int, position: int) -> None:
        if entry != self._entry:
            self._entry, self._begin_without_task = entry, position

    def add(self, task: PipelineTask, key: int) -> None:
        if self._begin_without_task is not None:
            self.starts.append(self._begin_without_task)
        comes_again = task.microbatch >= 0 and task.kind not in _COPIES and (task, key) in self._seen
        if self._begin_without_task is not None or comes_again:
            self._begin_without_task = None
            self._seen.clear()
            self.count += 1
        self._seen.add((task, key))
        self.tasks.append(_Task(self.count - 1, task.stage, task.microbatch, key))


def _busy(totals: ProgramTotals) -> float:
    """Mean cycles of a run on the slowest IPU, without loads and what the host reads."""
    return max(sum(cycles for kind, cycles in kinds.items() if kind not in _NO_WORK) for kinds in totals.cycles.values()) / totals.runs


def _of_microbatch(tasks: Sequence[_Task], cycles: Mapping[int, float], count: int, microbatches: int) -> tuple[float, ...]:
    """By stage, the mean cycles of its tasks that are of one microbatch."""
    spent = [0.0] * count
    for task in tasks:
        if task.microbatch >= 0:
            spent[task.stage] += cycles[task.key]
    return tuple(cycles / microbatches for cycles in spent)


def _of_node(node: Node) -> list[Superstep]:
    """The products of forward."""
    match node:
        case Series():
            return [part for child in node.nodes for part in _of_node(child)]
        case Loop():
            return _of_node(node.body) * min(node.trips or 1, MOST_STAGE_PARTS)
        case Superstep() if node.family in PRODUCTS and not goes_backward(node.scope):
            return [node]
        case _:
            return []


_MOST_OF_LONGEST_STAGE: Final = 0.9  # a cut that is not as much better is not worth a sentence
_MIN_BUBBLE_SHARE: Final = 0.25  # share of a step in which the longest stage idles
_TARGET_BUBBLE_SHARE: Final = 0.1  # the same with more microbatches
_DENSE: Final = 1.2  # times as long as stages that only wait for the first and the last microbatch: others wait in between as well
_FACTORS: Final = (2, 4, 8, 16)
_FINE: Final = 1000  # parts of a whole in which costs are scaled


class PipelineWords(NamedTuple):
    """How a program says what pipelines need.

    Attributes:
        cut: who cuts a model into {count} stages; None: nothing does.
        more: an edit to have {more} microbatches in place of {now} in {group}; None: there is none.
        overlap: an edit that lets the stages of {group} work at once; None: there is none.
        overlapped: what that does.
    """

    cut: str | None
    more: str | None
    overlap: str | None
    overlapped: str


TRAIN: Final = PipelineWords(
    cut="tilestep.train.pipeline_partition would, which measures layers",
    more="use {more:,} microbatches in place of {now:,} in {group}",
    overlap="use pipeline_schedule='grouped' in {group}",
    overlapped="in the schedule 'grouped' the stages work at once",
)


def unbalanced(figures: Figures, evidence: Evidence | None, words: PipelineWords = TRAIN) -> Iterator[Proposal]:
    """Stages that another cut would make more alike."""
    for pipeline in () if evidence is None or words.cut is None else pipelines(figures, evidence):
        assert evidence is not None  # else there would be no pipeline
        found = _cut(pipeline, evidence, words)
        if found is not None:
            yield found


def _cut(pipeline: ObservedPipeline, evidence: Evidence, words: PipelineWords) -> Proposal | None:
    """Another cut of the stages' products, whose longest stage is clearly shorter, and that passes no larger arrays than this one.

    A stage without products stays whole.
    """
    parts = [parts_of(evidence, keys) for keys in pipeline.keys]
    counts = [len(of_stage) for of_stage in parts]
    if words.cut is None or not len(counts) < sum(counts) <= MOST_STAGE_PARTS:
        return None
    pairs = zip(pipeline.costs, parts, strict=True)
    shares = [(cost, [part.cycles for part in of_stage] or [1]) for cost, of_stage in pairs]
    work = [cost * part / max(sum(of_stage), 1) for cost, of_stage in shares for part in of_stage]  # backward goes with forward
    products = [product for of_stage in parts for product in [1] * len(of_stage) or [0]]
    passed = [part.size_bytes for of_stage in parts for part in of_stage or [NO_PART]]
    most = max((of_stage[-1].size_bytes for of_stage in parts[:-1] if of_stage), default=0)
    passing = [0.0 if size <= most else inf for size in passed]
    cuts = best_cuts(work, passing, len(counts))
    costs, sizes = stage_costs(work, passing, cuts), [sum(products[first:after]) for first, after in pairwise(cuts)]
    if len(costs) < len(counts) or sizes == counts or max(costs) > _MOST_OF_LONGEST_STAGE * max(pipeline.costs):
        return None
    now, better = (", ".join(map(str, numbers)) for numbers in (counts, sizes))
    text = f"{_longest(evidence, pipeline)}: cut the {sum(counts)} products into {better} in place of {now}, as "
    way = Way(
        edit=f"cut {pipeline.group} into stages of {better} products in place of {now}",
        change=_scaled(pipeline, costs),
        how="about",
        warm_only=True,  # other parameters come to other stages, with all microbatches of the first step
        basis="the supersteps of each stage in proportion to its products; what the longest stage streams gets less as well",
    )
    finding = Finding(kind="pipeline", text=f"{text}{words.cut.format(count=len(counts))}.", line=pipeline.line)
    return Proposal(finding=finding, ways=(way,), only_with_gain=True)


def bubbles(figures: Figures, evidence: Evidence | None, words: PipelineWords = TRAIN) -> Iterator[Proposal]:
    """Steps of a pipeline that are too short for it to fill, or in which one microbatch follows the other."""
    for pipeline in () if evidence is None else pipelines(figures, evidence):
        assert evidence is not None  # else there would be no pipeline
        warm = evidence.turns(pipeline.starts)
        if warm is None:
            continue
        step = warm.cycles / (warm.count * pipeline.steps_each)
        found = _overlapped(pipeline, step, words) if pipeline.in_turn else _filled(pipeline, step, evidence, words)
        if found is None:
            continue
        saved = round(pipeline.steps * (step - found.step) - found.once)
        share = share_text(pipeline.microbatches * max(pipeline.busy), step)
        takes = time_text(evidence.seconds(step))
        text = f"A step of {pipeline.group} takes {takes}, and its longest stage works for {share} of that: {found.way_out}."
        gain = Gain(
            cycles=saved,
            share=saved / figures.emulated_cycles,
            seconds=evidence.seconds(saved),
            step_cycles=round(step - found.step),
            step_share=(step - found.step) / step,
            step_seconds=evidence.seconds(step - found.step),
            how="about",
            basis=found.basis,
        )
        if found.once and gain.share < LEAST_SHARE:
            least = ceil(found.once / (step - found.step))
            text += (
                " The first step takes longer then, because parameters come with each of its microbatches: that pays off after about "
                f"{least:,} steps of {pipeline.microbatches:,}."
            )
            finding = Finding(kind="bubbles", text=text, edit=found.edit, line=pipeline.line, unknown="it depends on how many steps follow")
        else:
            finding = Finding(kind="bubbles", text=text, edit=found.edit, line=pipeline.line, gain=gain)
        yield Proposal(finding=finding)


class _Shorter(NamedTuple):
    """What makes the steps of a pipeline shorter."""

    edit: str
    way_out: str
    step: float  # its cycles, for as many microbatches as before
    basis: str
    once: float = 0.0  # cycles that the first step takes longer


def _filled(pipeline: ObservedPipeline, step: float, evidence: Evidence, words: PipelineWords) -> _Shorter | None:
    """More microbatches; None if the pipeline is hardly empty."""
    work, now = pipeline.microbatches * max(pipeline.busy), pipeline.microbatches
    empty = step - work
    if words.more is None or empty < _MIN_BUBBLE_SHARE * step or step > _DENSE * (now + len(pipeline.busy) - 1) * max(pipeline.busy):
        return None
    factor = next((factor for factor in _FACTORS if empty / factor < _TARGET_BUBBLE_SHARE * (work + empty / factor)), _FACTORS[-1])
    way_out = (
        f"it fills and empties, and updates, for {now:,} microbatches; with {now * factor:,} in a step it does so less often for as many "
        "samples"
    )
    edit = words.more.format(more=now * factor, now=now, group=pipeline.group)
    basis = "for as many samples, by the time in which the longest stage does not work"
    longer = max(evidence.without_loads(*pipeline.starts[:2]) - pipeline.steps_each * step, 0.0)  # the first step, in which parameters come
    return _Shorter(edit, way_out, work + empty / factor, basis, once=(factor - 1) * longer)


def _overlapped(pipeline: ObservedPipeline, step: float, words: PipelineWords) -> _Shorter | None:
    """A schedule in which the stages work at once; None if it would save little."""
    longest, count = max(pipeline.busy), len(pipeline.busy)
    beside = step - pipeline.microbatches * sum(pipeline.busy)  # updates
    overlapped = (pipeline.microbatches + count - 1) * longest + max(beside, 0.0)
    is_overlapped = beside < -_TARGET_BUBBLE_SHARE * step  # as in inference, where nothing comes back to a stage
    if words.overlap is None or is_overlapped or overlapped > (1 - _TARGET_BUBBLE_SHARE) * step:
        return None
    way_out = f"each microbatch goes through all stages before the next begins; {words.overlapped}"
    return _Shorter(words.overlap.format(group=pipeline.group), way_out, overlapped, "by the work of the longest stage")


def _longest(evidence: Evidence, pipeline: ObservedPipeline) -> str:
    costs = pipeline.costs
    longest = max(range(len(costs)), key=lambda stage: costs[stage])
    mean = (sum(costs) - costs[longest]) / (len(costs) - 1)
    times = [time_text(evidence.seconds(cycles)) for cycles in (costs[longest], mean)]
    return (
        f"The supersteps of stage {longest} of {pipeline.group} take {times[0]} for a microbatch, those of the others {times[1]} on "
        "average, and they wait for it"
    )


def _scaled(pipeline: ObservedPipeline, costs: Sequence[float]) -> Change:
    stages = zip(pipeline.keys, costs, pipeline.costs, strict=True)
    ratios = {key: cost / before for keys, cost, before in stages for key in keys if before}

    def change(script: Script) -> Script:
        return script.with_programs({key: _longer(script.programs[key], ratio) for key, ratio in ratios.items()})

    return change


def _longer(program: Program, ratio: float) -> Program:
    def change(leaf: Leaf) -> Leaf:
        return shorter(leaf, round(_FINE * ratio), _FINE) if isinstance(leaf, Superstep) else leaf

    return with_leaves(program, change)
