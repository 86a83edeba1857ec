"""Programs with other steps: cheaper families, fewer exchanges between IPUs, feeds beside compute, values that stay in the tiles."""

from collections.abc import Callable
from dataclasses import replace

from tilestep.plan.steps import Branch, Collective, HostCall, Loop, Node, Program, Series, Superstep
from tilestep.units import ceil_div

Leaf = Superstep | Collective | HostCall


def with_leaves(program: Program, change: Callable[[Leaf], Leaf | None]) -> Program:
    """The program with changed leaves; those that become None are gone."""
    body = _changed(program.body, change)
    return replace(program, body=body if isinstance(body, Series) else Series())


def scaled(program: Program, family: str, numerator: int, denominator: int) -> Program:
    """The program in which steps of one family take a part of their cycles, in whole cycles, rounded up."""

    def change(leaf: Leaf) -> Leaf:
        return shorter(leaf, numerator, denominator) if isinstance(leaf, Superstep) and leaf.family == family else leaf

    return with_leaves(program, change)


def shorter(step: Superstep, numerator: int, denominator: int, *, sync: bool = True) -> Superstep:
    """A superstep that takes a part of its cycles, with its syncs or without."""

    def part(cycles: int) -> int:
        return ceil_div(cycles * numerator, denominator)

    step = replace(step, compute_cycles=part(step.compute_cycles), exchange_cycles=part(step.exchange_cycles))
    return replace(step, sync_cycles=part(step.sync_cycles), overhead_cycles=part(step.overhead_cycles)) if sync else step


def _changed(node: Node, change: Callable[[Leaf], Leaf | None]) -> Node | None:
    match node:
        case Series():
            return Series(nodes=tuple(kept for child in node.nodes if (kept := _changed(child, change)) is not None))
        case Loop():
            body = _changed(node.body, change)
            return replace(node, body=body if isinstance(body, Series) else Series())
        case Branch():
            arms = (_changed(arm, change) for arm in node.arms)
            return replace(node, arms=tuple(arm if isinstance(arm, Series) else Series() for arm in arms))
        case _:
            return change(node)


def on_fewer_tiles(program: Program, num_io_tiles: int, num_tiles: int) -> Program:
    """The program with so many I/O tiles, whose supersteps take as much longer as the other tiles are fewer."""

    def change(leaf: Leaf) -> Leaf:
        return shorter(leaf, num_tiles, num_tiles - num_io_tiles, sync=False) if isinstance(leaf, Superstep) else leaf

    return replace(with_leaves(program, change), num_io_tiles=num_io_tiles)


def in_tiles(program: Program) -> Program:
    """The program whose values in pinned_host stay in the tiles."""
    stays = with_leaves(program, lambda leaf: None if isinstance(leaf, HostCall) and leaf.in_memory else leaf)
    return replace(
        stays,
        arguments=tuple(replace(argument, on_host=False) for argument in program.arguments),
        results=tuple(replace(result, on_host=False) for result in program.results),
        parked_bytes=0,
    )


def with_collectives(program: Program, change: Callable[[Collective], Collective | None]) -> Program:
    """The program with other exchanges between IPUs; those that become None are gone."""
    return with_leaves(program, lambda leaf: change(leaf) if isinstance(leaf, Collective) else leaf)
