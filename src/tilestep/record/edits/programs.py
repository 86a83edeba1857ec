"""Programs with other steps: cheaper families, smaller or no exchanges between IPUs, feeds beside compute, values that stay in the tiles."""

from __future__ import annotations

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


def shorter(step: Superstep, numerator: int, denominator: int) -> Superstep:
    """A superstep that takes a part of its cycles."""
    return replace(
        step,
        compute_cycles=ceil_div(step.compute_cycles * numerator, denominator),
        exchange_cycles=ceil_div(step.exchange_cycles * numerator, denominator),
        sync_cycles=ceil_div(step.sync_cycles * numerator, denominator),
    )


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
