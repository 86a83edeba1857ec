"""Blocks: the parts of a program that `jax.named_scope` names, with the cycles of each time that they ran."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from tilestep.errors import RecordingError
from tilestep.figures.reader.programs.nodes import ProgramLeaf
from tilestep.figures.reader.runs.layout import Laid, executions
from tilestep.figures.reader.runs.run import Run, RunOnIpu
from tilestep.figures.scopes import parts_of
from tilestep.messages import plain, shown

MOST_BLOCKS: Final = 200_000
LONGEST_SCOPE: Final = 10_000  # characters
BLOCKS: Final = "blocks"  # note in a manifest: names of the scopes that are blocks, if the process had a filter
BLOCK_PROGRAMS: Final = "block_programs"  # likewise of programs
_WRAPPED: Final = re.compile(r"(?:jvp|transpose|vmap|pmap|remat|checkpoint|rematted_computation)\((.*)\)")
_SCOPE_OF_JAX: Final = re.compile(
    r"|p?jit(\(.*\))?|while|body|cond|scan|closed_call|core_call|xla_call|remat\d?|checkpoint|rematted_computation|branch_\d+_fun"
    r"|custom_[jv][jv]p_call(_jaxpr)?|shard_map|xla_pmap"
)


Wanted = Callable[[str], bool]


@dataclass(frozen=True, kw_only=True)
class BlockProgram:
    """What a block is a block of.

    Attributes:
        name: of the scope.
        path: names of the scopes around it, and its own.
    """

    name: str
    path: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Block:
    """One time that a named scope, or a whole program, ran on one IPU.

    Attributes:
        program: what ran.
        cycles_from: first cycle.
        cycles_to: the cycle behind the last.
        run: that it is a part of.
    """

    program: BlockProgram
    cycles_from: int
    cycles_to: int
    run: Run

    @property
    def name(self) -> str:
        """Of the scope, or of the program."""
        return self.program.name

    @property
    def cycles(self) -> int:
        """How long it took."""
        return self.cycles_to - self.cycles_from


def blocks_of(runs: Iterator[RunOnIpu], *, wanted: Wanted, wanted_programs: Wanted) -> Iterator[Block]:
    """The blocks of some runs on one IPU, in order of their begins, outer ones first.

    Args:
        wanted: whether scopes of a name are blocks.
        wanted_programs: whether runs of programs of a name are.
    Raises: RecordingError after MOST_BLOCKS.
    """
    count = 0
    for run in runs:
        found: list[Block] = []
        if wanted_programs(run.run.program.name):
            name = run.run.program.name
            found.append(
                Block(program=BlockProgram(name=name, path=(name,)), cycles_from=run.cycles_from, cycles_to=run.cycles_to, run=run.run)
            )
        for block in _scopes(run, wanted):
            count += 1
            if count > MOST_BLOCKS:
                raise RecordingError(f"there are more than {MOST_BLOCKS:,} blocks on an IPU: filter for fewer")
            found.append(block)
        yield from sorted(found, key=lambda block: (block.cycles_from, -block.cycles_to))


@lru_cache(maxsize=4096)
def scopes_of(scope: str) -> tuple[str, ...]:
    """The named scopes around an operation, outermost first: ('encoder', 'layer_0') of 'jit(f)/jvp(encoder)/layer_0/dot_general'.

    Raises: RecordingError if it is longer than any that a program has.
    """
    if len(scope) > LONGEST_SCOPE:
        raise RecordingError(f"an operation has the scope {shown(scope)} of {len(scope):,} characters: at most {LONGEST_SCOPE:,} are read")
    names = (name for part in parts_of(scope)[:-1] for name in _bare(part).split("/"))
    return tuple(name for name in names if not _SCOPE_OF_JAX.fullmatch(name))


def _bare(part: str) -> str:
    """A part of a path without the transformations around it."""
    while (inner := _WRAPPED.fullmatch(part)) is not None:
        part = inner[1]
    return part


def matching(pattern: str) -> Wanted:
    """Whether some part of a name matches a regular expression. Raises: RecordingError if it is none."""
    try:
        found = re.compile(pattern)
    except re.error as error:
        raise RecordingError(f"{shown(pattern)} is no regular expression: {plain(error)}") from None
    return lambda name: found.search(name) is not None


def _scopes(run: RunOnIpu, wanted: Wanted) -> Iterator[Block]:
    """The named scopes of one run, as they end."""

    def is_wanted(leaf: ProgramLeaf) -> bool:
        return any(wanted(name) for name in scopes_of(leaf.scope))

    def depth(scope: str) -> int:
        return len(scopes_of(scope))

    def closed(keep: int) -> Iterator[Block]:
        while len(names) > keep:
            program = BlockProgram(name=names[-1], path=tuple(names))
            names.pop()
            begin = begins.pop()
            if wanted(program.name) and end > begin:
                yield Block(program=program, cycles_from=begin, cycles_to=end, run=run.run)

    names: list[str] = []  # open scopes, from the outermost
    begins: list[int] = []
    end = -1

    def lay(cycles: Callable[[ProgramLeaf], int]) -> Iterator[Laid]:
        return executions(run.tree, run.trips, cycles=cycles, wanted=is_wanted, depth=depth, most=MOST_BLOCKS)

    for span in run.spans_of(lay):
        if span.leaf is None or not is_wanted(span.leaf):
            continue
        path = scopes_of(span.leaf.scope)
        same = next((place for place, (a, b) in enumerate(zip(names, path, strict=False)) if a != b), min(len(names), len(path)))
        yield from closed(0 if span.cycles_from != end else min(same, span.cut))
        names += path[len(names) :]
        begins += [span.cycles_from] * (len(names) - len(begins))
        end = span.cycles_to
    yield from closed(0)
