"""Where in a run each leaf of its program lies: loops unrolled, every execution with its own begin.

A simulation keeps sums per run, because equal steps take equal cycles. So the begin of each execution follows from the tree. Of a branch
that depends on data only the counts are known: its first arm is laid first. A loop in a loop whose trips depend on data gets equal shares.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Final, NamedTuple

from tilestep.errors import RecordingError
from tilestep.figures.reader.programs.nodes import ProgramLeaf, ProgramNode, ProgramSequence, Repeat, Switch
from tilestep.messages import shown
from tilestep.sim.cycles.body import Site

MOST_EXECUTIONS: Final = 1_000_000
NO_CUT: Final = 2**31


class Laid(NamedTuple):
    """Executions of a leaf, one after the other, and the cycles of all of them."""

    leaf: ProgramLeaf
    times: int
    begin: int  # cycles since the walk began
    cycles: int
    cut: int  # the smallest depth of scopes at which an iteration of a loop has begun since the leaf before


def executions(
    tree: ProgramSequence,
    counts: Mapping[Site, int],
    *,
    cycles: Callable[[ProgramLeaf], int],
    wanted: Callable[[ProgramLeaf], bool] = lambda _: True,
    depth: Callable[[str], int] = lambda _: 0,
    most: int = MOST_EXECUTIONS,
) -> Iterator[Laid]:
    """Every execution of the wanted leaves of a run, in order of time.

    Args:
        tree: of the program.
        counts: of its data-dependent loops and branches in this run: (site, arm) -> times.
        cycles: of one execution of a leaf.
        wanted: a loop without a wanted leaf is passed at once.
        depth: of scopes around a node with this scope, for `Laid.cut`.
        most: executions.

    Raises:
        RecordingError: if there are more, before the first.
    """
    return _Walk(tree, counts, cycles, wanted, depth, most).node(tree)


def summed(tree: ProgramSequence, counts: Mapping[Site, int], *, cycles: Callable[[ProgramLeaf], int]) -> Iterator[Laid]:
    """Each leaf once, with all its executions in this run one after the other. Leaves that never ran are left out."""
    begin = 0
    for leaf, times in _times(tree, 1, counts):
        if times:
            spent = times * cycles(leaf)
            yield Laid(leaf, times, begin, spent, NO_CUT)
            begin += spent


def _times(node: ProgramNode, times: int, counts: Mapping[Site, int]) -> Iterator[tuple[ProgramLeaf, int]]:
    """How often each leaf runs, as sim.body counts it."""
    if isinstance(node, ProgramLeaf):
        if node.cycles is not None:
            yield node, times
        return
    for child, inside in below(node, times, counts):
        yield from _times(child, inside, counts)


def _visits(node: ProgramNode, times: int, counts: Mapping[Site, int], passed: Collection[int]) -> int:
    """How often a walk comes to leaves, and to bodies of loops. Args: passed: ids of the nodes that it passes at once."""
    if id(node) in passed or isinstance(node, ProgramLeaf):
        return 0 if id(node) in passed else times
    inner = list(below(node, times, counts))
    own = sum(inside for _, inside in inner) if isinstance(node, Repeat) else 0
    return own + sum(_visits(child, inside, counts, passed) for child, inside in inner)


def below(node: ProgramNode, times: int, counts: Mapping[Site, int]) -> Iterator[tuple[ProgramNode, int]]:
    """(node, how often it runs) directly below a node that runs `times`. The count of a site is of the whole run."""
    match node:
        case Repeat(body=body, trips=int(trips)):
            yield body, times * trips
        case Repeat(body=body, site=int(site)):
            yield body, counts.get((site, 0), 0)
        case Switch(arms=arms, site=int(site)):
            yield from ((body, counts.get((site, arm), 0)) for arm, body in enumerate(arms))
        case _:
            yield from ((child, times) for child in node.children)


class _Walk:
    """One walk over a tree; it counts what is left of each site."""

    def __init__(
        self,
        tree: ProgramSequence,
        counts: Mapping[Site, int],
        cycles: Callable[[ProgramLeaf], int],
        wanted: Callable[[ProgramLeaf], bool],
        depth: Callable[[str], int],
        most: int,
    ) -> None:
        self._cycles, self._wanted, self._depth = cycles, wanted, depth
        self._left = dict(counts)
        self._visits: dict[int, int] = {}  # loop that depends on data -> how often the walk still comes to it
        self._lengths: dict[int, int | None] = {}  # node without a wanted leaf -> cycles of one pass, if they are always the same
        self._clock = 0
        self._cut = NO_CUT
        self._learn(tree, 1, counts)
        count = _visits(tree, 1, counts, self._lengths)
        if count > most:
            raise RecordingError(
                f"a run has {shown(count)} executions of steps to lay out one by one: at most {most:,} are; filter by scope, or take all "
                "executions of a step together"
            )

    def node(self, node: ProgramNode) -> Iterator[Laid]:
        passed = self._lengths.get(id(node))
        if passed is not None:
            self._clock += passed
            return
        match node:
            case ProgramLeaf():
                yield from self._leaf(node)
            case Repeat():
                yield from self._repeat(node)
            case Switch(arms=arms, site=int(site)):
                arm = next((arm for arm in range(len(arms)) if self._left.get((site, arm), 0) > 0), None)
                if arm is not None:
                    self._left[site, arm] -= 1
                    yield from self.node(arms[arm])
            case _:
                for child in node.children:
                    yield from self.node(child)

    def _leaf(self, leaf: ProgramLeaf) -> Iterator[Laid]:
        if leaf.cycles is None:
            return
        spent = self._cycles(leaf)
        if self._wanted(leaf):
            yield Laid(leaf, 1, self._clock, spent, self._cut)
            self._cut = NO_CUT
        self._clock += spent

    def _repeat(self, loop: Repeat) -> Iterator[Laid]:
        trips, depth = self._trips(loop), self._depth(loop.scope)
        for _ in range(trips):
            self._cut = min(self._cut, depth)
            yield from self.node(loop.body)
        self._cut = min(self._cut, depth)

    def _trips(self, loop: Repeat) -> int:
        if loop.trips is not None:
            return loop.trips
        if loop.site is None:
            return 1
        left, visits = self._left.get((loop.site, 0), 0), max(1, self._visits.get(id(loop), 1))
        trips = -(-left // visits)
        self._visits[id(loop)] = visits - 1
        self._left[loop.site, 0] = left - trips
        return trips

    def _learn(self, node: ProgramNode, visits: int, counts: Mapping[Site, int]) -> tuple[bool, int | None]:
        """(whether a node has a wanted leaf that runs, cycles of one pass if they are always the same). Notes both, and visits of loops."""
        match node:
            case ProgramLeaf(cycles=None):
                wanted, length = False, 0
            case ProgramLeaf():
                wanted, length = self._wanted(node), self._cycles(node)
            case Repeat():
                self._visits[id(node)] = visits
                [(body, inside)] = below(node, visits, counts)
                wanted, length = self._learn(body, inside, counts)
                fixed = node.trips if node.trips is not None else 1 if node.site is None else None
                length = None if length is None else 0 if length == 0 else None if fixed is None else fixed * length
            case Switch(arms=arms, site=int(site)):
                found = [self._learn(arm, counts.get((site, number), 0), counts) for number, arm in enumerate(arms)]
                wanted = any(has for has, _ in found)
                length = 0 if all(of_arm == 0 for _, of_arm in found) else None
            case _:
                found = [self._learn(child, visits, counts) for child in node.children]
                wanted = any(has for has, _ in found)
                lengths = [of_child for _, of_child in found]
                length = None if None in lengths else sum(each for each in lengths if each is not None)
        if not wanted and length is not None:
            self._lengths[id(node)] = length
        return wanted, length
