"""The stages of a pipeline in a profile: which programs do their tasks, and what these cost for a microbatch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple, get_args

from tilestep.advice.evidence import Evidence
from tilestep.advice.finding import Line
from tilestep.advice.longest import MOST_TEXT, PRODUCTS
from tilestep.errors import TilestepError
from tilestep.figures.gradients import goes_backward
from tilestep.figures.records import Figures
from tilestep.plan.steps import CollectiveKind, Loop, Node, Series, Superstep
from tilestep.program.hlo import parse_hlo
from tilestep.recording.sources import Source
from tilestep.sim.calls import Dispatch
from tilestep.sim.ledger import ProgramTotals
from tilestep.sim.trace import BESIDE

MOST_PARTS: Final = 200  # of all stages together
_BETWEEN_IPUS: Final = get_args(CollectiveKind)
_NO_WORK: Final = (*BESIDE, "load", "read")


class _Task(NamedTuple):
    """One dispatch of a pipeline. A step is an update, or a round of inference: one entry into the group may have several."""

    step: int
    stage: int
    microbatch: int
    key: int


@dataclass(frozen=True, kw_only=True)
class Stages:
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


def pipelines(figures: Figures, evidence: Evidence) -> Iterator[Stages]:
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
        yield Stages(
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


class Part(NamedTuple):
    """A part of a stage, which begins with a product of forward."""

    cycles: int  # of the product
    size_bytes: int  # of its result, which a cut behind it passes on; 0: unknown


NO_PART: Final = Part(cycles=0, size_bytes=0)


def parts_of(evidence: Evidence, keys: frozenset[int]) -> list[Part]:
    """The parts of a stage, of a loop one for each trip."""
    products = {key: _of_node(evidence.programs[key].body) for key in sorted(keys)}
    key = max(products, key=lambda key: len(products[key]))
    sizes = _sizes(evidence.sources.get(key)) if products[key] else {}
    return [Part(_cycles(product), sizes.get(product.name, 0)) for product in products[key]]


def _cycles(product: Superstep) -> int:
    return product.compute_cycles + product.exchange_cycles + product.sync_cycles


def _sizes(source: Source | None) -> dict[str, int]:
    """Bytes of what each instruction of a program makes; {} if its HLO was not kept, is long, or of another version."""
    text = "" if source is None else source.text()
    if not 0 < len(text) <= MOST_TEXT:
        return {}
    try:
        module = parse_hlo(text)
    except TilestepError:
        return {}
    return {each.name: each.shape.size_bytes for computation in module.computations.values() for each in computation.instructions}


def _tasks(evidence: Evidence) -> dict[str, _Steps]:
    """By program group that has any."""
    found: dict[str, _Steps] = {}
    for position, call in enumerate(evidence.calls):
        if isinstance(call, Dispatch) and call.group is not None:
            steps = found.setdefault(call.group[0], _Steps())
            steps.enter(call.group[1], position)
            if call.task is not None and call.task.stage >= 0:
                steps.add(call.task.stage, call.task.microbatch, call.key)
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
        self._begin: int | None = None  # of an entry whose first task has not come
        self._seen: set[tuple[int, int, int]] = set()

    def enter(self, entry: int, position: int) -> None:
        if entry != self._entry:
            self._entry, self._begin = entry, position

    def add(self, stage: int, microbatch: int, key: int) -> None:
        task = (stage, microbatch, key)
        if self._begin is not None:
            self.starts.append(self._begin)
        if self._begin is not None or (microbatch >= 0 and task in self._seen):
            self._begin = None
            self._seen.clear()
            self.count += 1
        self._seen.add(task)
        self.tasks.append(_Task(self.count - 1, *task))


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
            return _of_node(node.body) * min(node.trips or 1, MOST_PARTS)
        case Superstep() if node.family in PRODUCTS and not goes_backward(node.scope):
            return [node]
        case _:
            return []
