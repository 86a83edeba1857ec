"""A part of an update that looks across stages: what is computed at one place, and the program that does so.

State may be divided over the replicas of a stage, and parameters and state may be in the host's memory. Such a part's program runs on
each replica: it brings what is away, computes elementwise operations on its share of what is divided, and sends new values where the old
ones were.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, final

import jax
from jax.extend.core import Jaxpr, JaxprEqn
from jax.sharding import PartitionSpec

from tilestep.train.jaxprs import computed, is_variable, needed, read_by, spec_of
from tilestep.train.offload import on_device
from tilestep.train.pipeline.compile.placement import StagePlacement
from tilestep.train.planned import planned
from tilestep.train.replicas.groups import Division
from tilestep.train.replicas.replicas import Replicas
from tilestep.train.replicas.shards import Shard, on_parts
from tilestep.train.untyped import Atom
from tilestep.train.untyped import jax as _jax

TOGETHER: Final = -1  # the home of what comes from several stages

Home = int | None  # a stage, TOGETHER, or None: constants have none


@dataclass(frozen=True, kw_only=True)
class JointPart:
    """What is computed at one place, from what is there and what comes."""

    home: Home
    takes: tuple[Atom, ...]  # takes, makes: variables
    makes: tuple[Atom, ...]
    compute: Callable[[list[Any]], list[Any]]  # values of `takes` -> values of `makes`
    # the same compiled, of (those that are donated, the others); None until then
    program: Callable[[list[Any], list[Any]], list[Any]] | None = None
    donated: tuple[int, ...] = ()  # indices in `takes`
    spent: tuple[Atom, ...] = ()  # variables that no later part reads


@final
@dataclass(frozen=True, kw_only=True)
class Forms:
    """Which variables of an update are no whole arrays on a device."""

    divided: Mapping[Atom, tuple[int, ...]]  # divided over the replicas of the stage that they belong to -> the shape of the whole
    away: frozenset[Atom]  # in the host's memory
    group_size: int | None = None  # as of a Shard

    def shape(self, atom: Atom) -> tuple[int, ...] | None:
        """The shape of the whole, if a value is divided."""
        return self.divided.get(atom) if is_variable(atom) else None

    def is_away(self, atom: Atom) -> bool:
        """Whether a value is in the host's memory."""
        return is_variable(atom) and atom in self.away

    def form(self, atom: Atom, home: Home, *, is_taken: bool) -> tuple[Any, ...]:
        """What must be equal for one array to take another's place. What comes to several stages' home comes whole, to the device."""
        form = tuple(atom.aval.shape), atom.aval.dtype, self.shape(atom) is not None, self.is_away(atom)
        return (*form, is_taken) if home == TOGETHER and (form[2] or form[3]) else form

    def concern(self, part: JointPart) -> bool:
        """Whether one of a part's values is such a one."""
        return any(self.shape(atom) is not None or self.is_away(atom) for atom in (*part.takes, *part.makes))


NO_FORMS: Final = Forms(divided={}, away=frozenset())


def part_for(equations: Sequence[JaxprEqn], outputs: Sequence[Atom], home: Home) -> JointPart:
    """A part that computes `outputs` by those of the equations that they need."""
    return part_of(needed(equations, outputs), outputs, home)


def part_of(equations: Sequence[JaxprEqn], outputs: Sequence[Atom], home: Home) -> JointPart:
    """A part that computes `outputs` by all of these equations."""
    takes = tuple(read_by(equations, outputs))

    def run(values: list[jax.Array]) -> list[jax.Array]:
        return computed(equations, dict(zip(takes, values, strict=True)), outputs)

    return JointPart(home=home, takes=takes, makes=tuple(outputs), compute=run)


def giving_up(parts: Sequence[JointPart], jaxpr: Jaxpr, given: Sequence[Atom], held: Sequence[Atom], forms: Forms) -> Iterator[JointPart]:
    """The parts, each of which donates what is read for the last time and has the form of something that it makes.

    Args: given: variables that the caller gives up. held: variables that others have, too.
    """
    results = {atom for atom in jaxpr.outvars if is_variable(atom)}
    theirs = set(given)
    for index, part in enumerate(parts):
        needed_later = results.union(held, jaxpr.constvars, *(later.takes for later in parts[index + 1 :]))
        spent = [variable for variable in part.takes if variable not in needed_later]
        room = Counter(forms.form(variable, part.home, is_taken=False) for variable in part.makes)
        donated: set[int] = set()
        # Variables that the caller holds, too, come before gradients.
        for variable in sorted(spent, key=lambda variable: variable not in theirs):
            form = forms.form(variable, part.home, is_taken=True)
            if room[form]:
                room[form] -= 1
                donated.add(part.takes.index(variable))
        yield replace(part, donated=tuple(sorted(donated)), spent=tuple(spent))


def compiled(part: JointPart, placement: StagePlacement, forms: Forms, *, is_first: bool = False) -> JointPart:
    """The part with its program. Args: is_first: whether it makes the first state, which may depend on no array that is there."""
    compute = part.compute
    if forms.concern(part):
        compute = _on_replicas(part, placement.replicas, forms) if placement.replicas is not None else _computed_there(part, None, forms)

    def run(given_up: list[jax.Array], kept: list[jax.Array]) -> list[jax.Array]:
        count, first, rest = len(given_up) + len(kept), iter(given_up), iter(kept)
        return compute([next(first) if index in part.donated else next(rest) for index in range(count)])

    run.__name__ = run.__qualname__ = f"update_{'together' if part.home in (None, TOGETHER) else f'stage_{part.home}'}"
    donated = (0,) if part.donated else ()
    given: dict[str, Any] = {"out_shardings": placement.whole} if is_first and not placement.is_mesh else {}
    program = planned(lambda options: _jax.jit(run, donate_argnums=donated, compiler_options=options, **given), placement.plan_options)
    return replace(part, program=program)


def _on_replicas(part: JointPart, replicas: Replicas, forms: Forms) -> Callable[[list[Any]], list[Any]]:
    compute = _computed_there(part, replicas.axis, forms)

    def specs(atoms: Sequence[Atom]) -> list[PartitionSpec]:
        divided = part.home != TOGETHER
        return [PartitionSpec(replicas.axis) if divided and forms.shape(atom) is not None else PartitionSpec() for atom in atoms]

    mapped = replicas.shard_map(lambda values: compute(values), in_specs=(specs(part.takes),), out_specs=specs(part.makes))
    return lambda values: mapped(values)


def _computed_there(part: JointPart, axis: str | None, forms: Forms) -> Callable[[list[Any]], list[Any]]:
    """What a part computes on one replica. Args: axis: of replicas; None: there is one."""
    is_together = part.home == TOGETHER

    def taken(atom: Atom, value: jax.Array) -> Any:
        shape = forms.shape(atom)
        if shape is None:
            return value
        return value[: atom.aval.size].reshape(shape) if is_together else Shard(values=value, shape=shape, group_size=forms.group_size)

    def compute(values: list[Any]) -> list[Any]:
        nodes = [taken(atom, value) for atom, value in zip(part.takes, on_device(values), strict=True)]
        if axis is not None and not is_together:
            results, _ = on_parts(part.compute, (nodes,), Division.over(axis, forms.group_size))
            made = [own.whole() if forms.shape(atom) is None else own.part() for atom, own in zip(part.makes, results, strict=True)]
        else:
            made = part.compute(nodes)
        there = _jax.memory.Space.Host
        return [_jax.device_put(own, there) if forms.is_away(atom) else own for atom, own in zip(part.makes, made, strict=True)]

    return compute


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
