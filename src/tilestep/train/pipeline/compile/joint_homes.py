"""Finds where the values of an update are that looks across stages: at one stage, or together at the first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from jax.extend.core import Jaxpr

from tilestep.train.jaxprs import is_variable, needed, spec_of
from tilestep.train.pipeline.compile.joint_part import TOGETHER, Home
from tilestep.train.untyped import Atom

_MOST_ROUNDS: Final = 100  # in which the homes of the state must become stable


def homes_of(jaxpr: Jaxpr, owner: Sequence[int], count: int) -> Callable[[Atom], Home]:
    """Where each variable is, given the stages of gradients and parameters, the first 2 * count arguments."""
    states = jaxpr.invars[2 * count : 2 * count + len(jaxpr.outvars) - count]
    known: dict[Atom, Home] = dict(zip(jaxpr.invars[: 2 * count], [*owner, *owner], strict=True))
    known |= dict.fromkeys(jaxpr.invars[2 * count + len(states) :], TOGETHER)
    of_state: dict[Atom, Home] = dict.fromkeys(states)
    reached = _reached(jaxpr, owner)
    for _ in range(_MOST_ROUNDS):  # a state is where its next value is made
        homes = _spread_homes(jaxpr, known | of_state, reached)
        after = {
            variable: homes.get(atom) if is_variable(atom) else None for variable, atom in zip(states, jaxpr.outvars[count:], strict=True)
        }
        if after == of_state:
            break
        of_state = after
    # A value that depends on no stage's arrays, such as a count of updates, is with those that depend on several.
    final = {variable: TOGETHER if home is None else home for variable, home in of_state.items()}
    homes = _spread_homes(jaxpr, known | final, reached)
    return lambda atom: homes.get(atom) if is_variable(atom) else None


def _spread_homes(jaxpr: Jaxpr, known: Mapping[Atom, Home], reached: Mapping[Atom, frozenset[int]]) -> dict[Atom, Home]:
    """Args: reached: the stages whose new parameters depend on a value."""
    homes = dict(known)
    for equation in jaxpr.eqns:
        origins = {homes.get(atom) for atom in equation.invars if is_variable(atom)} - {None}
        stages = origins - {TOGETHER}
        home: Home = TOGETHER if origins else None
        if len(stages) == 1:
            (home,) = stages
            # A sum over all stages takes up one number after the other. It must not move to a stage on the way, because others wait for it.
            if TOGETHER in origins and all(
                spec_of(out).size == 1 and not reached.get(out, frozenset()) <= stages for out in equation.outvars
            ):
                home = TOGETHER
        homes.update(dict.fromkeys(equation.outvars, home))
    return homes


def _reached(jaxpr: Jaxpr, owner: Sequence[int]) -> dict[Atom, frozenset[int]]:
    """For each value the stages whose new parameters, the first results, depend on it."""
    nothing: frozenset[int] = frozenset()
    reached: dict[Atom, frozenset[int]] = {}
    for atom, stage in zip(jaxpr.outvars, owner, strict=False):
        if is_variable(atom):
            reached[atom] = reached.get(atom, nothing) | {stage}
    for equation in reversed(jaxpr.eqns):
        union = nothing.union(*(reached.get(variable, nothing) for variable in equation.outvars))
        for atom in equation.invars:
            if is_variable(atom):
                reached[atom] = reached.get(atom, nothing) | union
    return reached


def taints_of(jaxpr: Jaxpr, owner: Sequence[int], count: int) -> Callable[[Atom], frozenset[int]]:
    """From which stages' gradients and parameters each value comes, in this update or through the state in one before."""
    nothing: frozenset[int] = frozenset()
    states = jaxpr.invars[2 * count : 2 * count + len(jaxpr.outvars) - count]
    of_state: dict[Atom, frozenset[int]] = dict.fromkeys(states, nothing)
    taints: dict[Atom, frozenset[int]] = {}
    for _ in range(_MOST_ROUNDS):
        taints = {variable: frozenset({stage}) for variable, stage in zip(jaxpr.invars, [*owner, *owner], strict=False)} | of_state
        for equation in jaxpr.eqns:
            union = nothing.union(*(taints.get(atom, nothing) for atom in equation.invars if is_variable(atom)))
            taints.update(dict.fromkeys(equation.outvars, union))
        after = {
            variable: of_state[variable] | (taints.get(atom, nothing) if is_variable(atom) else nothing)
            for variable, atom in zip(states, jaxpr.outvars[count:], strict=True)
        }
        if after == of_state:
            break
        of_state = after
    return lambda atom: taints.get(atom, nothing) if is_variable(atom) else nothing


def work_of(jaxpr: Jaxpr, taints: Callable[[Atom], frozenset[int]]) -> dict[int, Counter[Any]]:
    """What is computed for each stage alone, whatever the order."""
    work: dict[int, Counter[Any]] = {}
    for equation in needed(jaxpr.eqns, jaxpr.outvars):
        stages = taints(equation.outvars[0])
        if len(stages) == 1:
            operands = tuple(str(atom.aval) if is_variable(atom) else str(atom) for atom in equation.invars)
            what = (equation.primitive.name, operands, tuple(str(variable.aval) for variable in equation.outvars))
            work.setdefault(next(iter(stages)), Counter())[what] += 1
    return work
