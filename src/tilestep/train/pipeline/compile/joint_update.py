"""Updates by an optimiser that looks across stages, such as one that clips by the global norm.

JAX traces the update of all stages at once. The operands of an equation decide on which devices it is computed: operands from one stage, on
that stage's devices; operands from several (a sum of their norms), on the first stage's; such a result and one stage's arrays, on that
stage's again. So arrays stay on their devices, and only values that depend on several stages cross. Each part donates the memory of values
that no later part reads: parameters, the state and gradients turn into their successors in place.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, final

import jax
from jax.extend.core import Jaxpr, JaxprEqn

from tilestep.train.gradients.accumulation import finished, promoted, zeros_for
from tilestep.train.jaxprs import computed, flat_jaxpr, is_variable, needed, read_by
from tilestep.train.pipeline.compile.packing import Packing
from tilestep.train.pipeline.compile.pipeline_spec import PipelineSpec
from tilestep.train.pipeline.compile.placement import Placement
from tilestep.train.pipeline.compile.stage import Stage
from tilestep.train.processes.remote import Put, put_local, remote_array
from tilestep.train.replicas.collectives import cross_replica_mean
from tilestep.train.untyped import Atom, Pytree
from tilestep.train.untyped import jax as _jax

_TOGETHER: Final = -1  # the home of what comes from several stages
_MOST_ROUNDS: Final = 100  # in which the homes of the state must become stable

Home = int | None  # a stage, _TOGETHER, or None: constants have none


@final
class Joint:
    """The update of all stages as one.

    Args:
        trained: for each stage the indices of the parameters' leaves that it updates.
        outputs: the tree of the last stage's outputs' specs.
        packings: of the stages' accumulators, if the update is applied.
    Raises:
        Exception: of the optimiser, for the list of all stages' parameters.
    """

    def __init__(
        self,
        spec: PipelineSpec,
        stages: Sequence[Stage],
        trained: Sequence[Sequence[int]],
        outputs: Pytree,
        packings: Sequence[Packing] = (),
    ) -> None:
        plan = spec.optimizer
        assert plan is not None  # it trains
        self._stages, self._trained, self._plan, self._nest = stages, trained, plan, spec.nest
        self._outputs, self._outputs_structure = _jax.tree.flatten(outputs if plan.is_function else ())
        self._owner = [stage.number for stage, own in zip(stages, trained, strict=True) for _ in own]
        params = [_jax.tree.leaves(stage.params)[index] for stage, own in zip(stages, trained, strict=True) for index in own]
        specs = [_jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for leaf in params]
        self._init = flat_jaxpr(self._first_state, specs, self._outputs)
        self._state_structure = _jax.tree.structure(_jax.eval_shape(self._state_tree, specs, self._outputs))
        gradients = _jax.tree.leaves(_jax.eval_shape(lambda: zeros_for(self._tree(specs), plan.accumulator_dtype)))
        self._update = flat_jaxpr(self._updated, gradients, specs, [variable.aval for variable in self._init.jaxpr.outvars], self._outputs)
        self._state_homes: list[Home] = []
        self._programs: tuple[_Part, ...] | None = None
        self._finish = [self._finisher(*of_stage) for of_stage in zip(stages, trained, packings, strict=False)]
        self._in_place = [_alone_in(*of_stage) for of_stage in zip(stages, trained, packings, strict=False)]

    @property
    def extras(self) -> tuple[int, ...]:
        """Of the last stage's outputs' leaves, the indices of those that it is given."""
        return tuple(range(len(self._outputs)))

    @property
    def flow(self) -> Any:
        """The update's equations, over gradients, parameters, state and outputs of the last stage."""
        return self._update

    # ------------------------------------------------------------------------------------------------------- the whole

    def _tree(self, leaves: Sequence[jax.Array]) -> Any:
        """The trained leaves as the tree of all parameters, with None for the others."""
        rest = iter(leaves)
        trees: list[Any] = []
        for stage, own in zip(self._stages, self._trained, strict=True):
            structure = stage.params_structure
            mine = {index: next(rest) for index in own}
            trees.append(_jax.tree.unflatten(structure, [mine.get(index) for index in range(structure.num_leaves)]))
        return self._nest(trees)

    def _transformation(self, extras: Sequence[jax.Array]) -> Any:
        return self._plan.transformation(_jax.tree.unflatten(self._outputs_structure, extras))

    def _state_tree(self, params: Sequence[jax.Array], extras: Sequence[jax.Array]) -> Any:
        tree = self._tree(params)
        return self._transformation(extras).init(promoted(tree, zeros_for(tree, self._plan.accumulator_dtype)))

    def _first_state(self, params: Sequence[jax.Array], extras: Sequence[jax.Array]) -> list[jax.Array]:
        return [_jax.numpy.asarray(leaf) for leaf in _jax.tree.leaves(self._state_tree(params, extras))]

    def _updated(
        self, gradients: Sequence[jax.Array], params: Sequence[jax.Array], state: Sequence[Any], extras: Sequence[jax.Array]
    ) -> list[jax.Array]:
        tree = self._tree(params)
        seen = promoted(tree, zeros_for(tree, self._plan.accumulator_dtype))
        changes, new = self._transformation(extras).update(self._tree(gradients), _jax.tree.unflatten(self._state_structure, state), seen)
        leaves = [(p + u.astype(p.dtype)).astype(p.dtype) for p, u in zip(params, _jax.tree.leaves(changes), strict=True)]
        return [*leaves, *_jax.tree.leaves(new)]

    # ------------------------------------------------------------------------------------------------ is it one at all

    def is_separable(self, alone: Callable[[int], Joint]) -> bool:
        """Whether each stage's update is the same if the optimiser sees this stage alone. Args: alone: the update of one stage."""
        count = len(self._owner)
        taints = _taints(self._update.jaxpr, self._owner, count)
        outputs = self._update.jaxpr.outvars
        of_params = [taints(atom) <= {owner} for atom, owner in zip(outputs, self._owner, strict=False)]
        if not all(of_params) or any(len(taints(atom)) > 1 for atom in outputs):
            return False
        whole = _work(self._update.jaxpr, taints)
        for stage, own in zip(self._stages, self._trained, strict=True):
            try:
                closed = alone(stage.number).flow
            except Exception:  # what it does for all of them it cannot do for one
                return False
            work = _work(closed.jaxpr, _taints(closed.jaxpr, [stage.number] * len(own), len(own)))
            if work.get(stage.number, Counter()) != whole.get(stage.number, Counter()):
                return False
        return True

    # --------------------------------------------------------------------------------------------------- in its parts

    def _divide(self) -> tuple[_Part, ...]:
        if self._programs is None:
            jaxpr, count = self._update.jaxpr, len(self._owner)
            homes = _homes(jaxpr, self._owner, count)
            self._state_homes = [homes(variable) for variable in jaxpr.invars[2 * count : 2 * count + len(self._init.jaxpr.outvars)]]
            held = jaxpr.invars[2 * count + len(self._init.jaxpr.outvars) :]  # the last stage's outputs are given out, too
            self._programs = tuple(_giving_up(list(_parts(jaxpr, homes)), jaxpr, held))
        return self._programs

    def _placement(self, home: Home) -> Placement:
        return self._stages[home if home is not None and home != _TOGETHER else 0].placement

    def init(self, params: Sequence[Sequence[jax.Array]], extras: Sequence[jax.Array], put: Put = _jax.device_put) -> Any:
        """The optimiser's state for all stages, each array of it where it is used.

        Args: params: each stage's trained leaves. put: brings arrays to placements.
        """
        self._divide()
        jaxpr = self._init.jaxpr
        given = dict(zip(jaxpr.invars, [*(leaf for own in params for leaf in own), *extras], strict=True))
        constants = dict(zip(jaxpr.constvars, self._init.consts, strict=True))
        leaves: list[Any] = [None] * len(jaxpr.outvars)
        for home in dict.fromkeys(self._state_homes):
            mine = [index for index, other in enumerate(self._state_homes) if other == home]
            part = _part(jaxpr.eqns, [jaxpr.outvars[index] for index in mine], home)
            for index, value in zip(mine, self._run(part, given, constants, put), strict=True):
                leaves[index] = value
        return _jax.tree.unflatten(self._state_structure, leaves)

    def apply(
        self,
        params: Sequence[Sequence[jax.Array]],
        state: Pytree,
        accumulators: Sequence[Sequence[jax.Array]],
        extras: Sequence[jax.Array],
        put: Put = _jax.device_put,
    ) -> tuple[list[list[jax.Array]], Any]:
        """(each stage's new trained leaves, the new state). Donates parameters, state, and accumulators that have a gradient's shape."""
        gradients = [
            finish(*self._parted(stage, own))[0] for stage, (finish, own) in enumerate(zip(self._finish, accumulators, strict=True))
        ]
        jaxpr = self._update.jaxpr
        given = itertools.chain(*gradients, *params, _jax.tree.leaves(state), extras)
        values: dict[Atom, Any] = dict(zip(jaxpr.invars, given, strict=True))
        del gradients, given  # which would keep what is over
        constants = dict(zip(jaxpr.constvars, self._update.consts, strict=True))
        for part in self._divide():
            values.update(zip(part.makes, self._run(part, values, constants, put), strict=True))
            for variable in part.spent:
                values.pop(variable, None)
        results = [values[atom] if is_variable(atom) else atom.val for atom in jaxpr.outvars]
        rest = iter(results)
        new = [[next(rest) for _ in own] for own in self._trained]
        return new, _jax.tree.unflatten(self._state_structure, list(rest))

    def inline(
        self, params: Sequence[Sequence[jax.Array]], state: Pytree, accumulators: Sequence[Sequence[jax.Array]], extras: Sequence[jax.Array]
    ) -> tuple[list[list[jax.Array]], Any]:
        """`apply` within one program, where all is on one device."""
        plan, jaxpr = self._plan, self._update.jaxpr
        gradients = [finished(acc, plan.per_update, plan.reduction) for own in accumulators for acc in own]
        flat = [*gradients, *(leaf for own in params for leaf in own), *_jax.tree.leaves(state), *extras]
        values = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*self._update.consts, *flat], strict=True))
        rest = iter(computed(jaxpr.eqns, values, jaxpr.outvars))
        new = [[next(rest) for _ in own] for own in self._trained]
        return new, _jax.tree.unflatten(self._state_structure, list(rest))

    def _run(self, part: _Part, values: Mapping[Atom, Any], constants: Mapping[Atom, Any], put: Put) -> list[jax.Array]:
        placement = self._placement(part.home)
        there: list[Any] = [constants[v] if v in constants else values[v] for v in part.takes]
        known = [index for index, v in enumerate(part.takes) if v in constants]  # to every process
        moving = [index for index, v in enumerate(part.takes) if v not in constants and self._moves(there[index], part.home, placement)]
        for bring, indices in ((put_local, known), (put, moving)):
            if indices:
                for index, value in zip(indices, bring([there[i] for i in indices], [placement.whole] * len(indices)), strict=True):
                    there[index] = value
        if not placement.is_local:
            return [remote_array(variable.aval.shape, variable.aval.dtype, placement.whole) for variable in part.makes]
        return part.program([there[i] for i in part.donated], [value for i, value in enumerate(there) if i not in part.donated])

    def _moves(self, value: object, home: Home, placement: Placement) -> bool:
        """A stage's own arrays may be divided over its mesh, and stay so."""
        return home == _TOGETHER or not (isinstance(value, jax.Array) and value.sharding.device_set == set(placement.devices))

    def _finisher(self, stage: Stage, own: Sequence[int], packing: Packing) -> Any:
        plan, real = self._plan, stage.real_params
        is_several = stage.placement.replicas is not None

        def gradients(donated: Sequence[jax.Array], accumulators: Sequence[jax.Array]) -> tuple[list[jax.Array]]:
            leaves = packing.unpack([*donated, *accumulators])
            results = [finished(leaves[real.index(index)], plan.per_update, plan.reduction) for index in own]
            return ([cross_replica_mean(gradient) for gradient in results] if is_several else results,)

        shardings = ([stage.param_shardings[index] for index in own],) if stage.placement.is_mesh else None
        return stage.placement.jit(gradients, f"stage_{stage.number}_gradients", (0, 0), (None,), donate=(0,), out_shardings=shardings)

    def _parted(self, stage: int, accumulators: Sequence[jax.Array]) -> tuple[list[jax.Array], list[jax.Array]]:
        """(accumulators that turn into gradients in place, the others)."""
        count = self._in_place[stage]
        return list(accumulators[:count]), list(accumulators[count:])


@dataclass(frozen=True, kw_only=True)
class _Part:
    """What is computed at one place, from what is there and what comes.

    Attributes:
        takes, makes: variables.
        compute: values of `takes` -> values of `makes`.
        program: the same compiled, of (those that are donated, the others).
        donated: indices in `takes`.
        spent: variables that no later part reads.
    """

    home: Home
    takes: tuple[Atom, ...]
    makes: tuple[Atom, ...]
    compute: Callable[[list[Any]], list[Any]]
    program: Callable[[list[Any], list[Any]], list[Any]]
    donated: tuple[int, ...] = ()
    spent: tuple[Atom, ...] = ()


def _part(equations: Sequence[JaxprEqn], outputs: Sequence[Atom], home: Home) -> _Part:
    own = needed(equations, outputs)
    return _of(own, outputs, home)


def _of(equations: Sequence[JaxprEqn], outputs: Sequence[Atom], home: Home) -> _Part:
    takes = tuple(read_by(equations, outputs))

    def run(values: list[jax.Array]) -> list[jax.Array]:
        return computed(equations, dict(zip(takes, values, strict=True)), outputs)

    return _Part(home=home, takes=takes, makes=tuple(outputs), compute=run, program=_compiled(home, run, ()))


def _compiled(home: Home, compute: Callable[[list[Any]], list[Any]], donated: Collection[int]) -> Any:
    def run(given_up: list[jax.Array], kept: list[jax.Array]) -> list[jax.Array]:
        count, first, rest = len(given_up) + len(kept), iter(given_up), iter(kept)
        return compute([next(first) if index in donated else next(rest) for index in range(count)])

    run.__name__ = run.__qualname__ = f"update_{'together' if home in (None, _TOGETHER) else f'stage_{home}'}"
    return _jax.jit(run, donate_argnums=(0,) if donated else ())


def _giving_up(parts: Sequence[_Part], jaxpr: Jaxpr, held: Sequence[jax.Array]) -> Iterator[_Part]:
    """The parts, each of which donates what is read for the last time and has the shape of something that it makes.

    Args: held: variables that others have, too.
    """
    results = {atom for atom in jaxpr.outvars if is_variable(atom)}
    given = set(jaxpr.invars)
    for index, part in enumerate(parts):
        needed_later = results.union(held, jaxpr.constvars, *(later.takes for later in parts[index + 1 :]))
        spent = [variable for variable in part.takes if variable not in needed_later]
        room = Counter((variable.aval.shape, variable.aval.dtype) for variable in part.makes)
        donated: set[int] = set()
        for variable in sorted(spent, key=lambda variable: variable not in given):  # what the caller holds, too, before what only this does
            spec = variable.aval.shape, variable.aval.dtype
            if room[spec]:
                room[spec] -= 1
                donated.add(part.takes.index(variable))
        indices = tuple(sorted(donated))
        yield replace(part, donated=indices, spent=tuple(spent), program=_compiled(part.home, part.compute, indices))


def _alone_in(stage: Stage, own: Sequence[int], packing: Packing) -> int:
    """How many of a stage's accumulators, the first ones, have the shapes of gradients: all that are by themselves, or none."""
    is_alike = stage.placement.replicas is None and all(stage.real_params[index] in own for index in packing.alone)
    return len(packing.alone) if is_alike else 0


def _parts(jaxpr: Jaxpr, homes: Callable[[Atom], Home]) -> Iterator[_Part]:
    """The equations in parts that can be computed one after the other; constants are made wherever they are used."""
    phases: dict[Atom, int] = {}
    groups: dict[tuple[int, int], list[Any]] = {}
    constants: list[Any] = []
    for equation in needed(jaxpr.eqns, jaxpr.outvars):
        home = homes(equation.outvars[0])
        if home is None:
            constants.append(equation)
            continue
        phase = 0
        for atom in equation.invars:
            if is_variable(atom) and homes(atom) is not None:
                phase = max(phase, phases.get(atom, 0) + (homes(atom) != home and atom in phases))
        phases.update(dict.fromkeys(equation.outvars, phase))
        groups.setdefault((phase, home), []).append(equation)
    wanted = {atom for atom in jaxpr.outvars if is_variable(atom)}
    made_alone = [atom for atom in dict.fromkeys(wanted) if atom not in phases and atom not in jaxpr.invars and atom not in jaxpr.constvars]
    if made_alone:
        yield _part(constants, made_alone, _TOGETHER)
    for (_, home), own in sorted(groups.items(), key=lambda entry: entry[0]):
        mine = {id(equation) for equation in own}
        read_by_others = {atom for other in jaxpr.eqns if id(other) not in mine for atom in other.invars if is_variable(atom)} | wanted
        outputs = [variable for equation in own for variable in equation.outvars if variable in read_by_others]
        yield _of([*needed(constants, _operands(own)), *own], outputs, home)


def _operands(equations: Sequence[JaxprEqn]) -> list[Atom]:
    return [atom for equation in equations for atom in equation.invars]


def _homes(jaxpr: Jaxpr, owner: Sequence[int], count: int) -> Callable[[Atom], Home]:
    """Where each variable is, given the stages of gradients and parameters, the first 2 * count arguments."""
    states = jaxpr.invars[2 * count : 2 * count + len(jaxpr.outvars) - count]
    known: dict[Atom, Home] = dict(zip(jaxpr.invars[: 2 * count], [*owner, *owner], strict=True))
    known |= dict.fromkeys(jaxpr.invars[2 * count + len(states) :], _TOGETHER)
    of_state: dict[Atom, Home] = dict.fromkeys(states)
    for _ in range(_MOST_ROUNDS):  # a state is where its next value is made
        homes = _spread_homes(jaxpr, known | of_state)
        after = {
            variable: homes.get(atom) if is_variable(atom) else None for variable, atom in zip(states, jaxpr.outvars[count:], strict=True)
        }
        if after == of_state:
            break
        of_state = after
    # A value that depends on no stage's arrays, such as a count of updates, is with those that depend on several.
    final = {variable: _TOGETHER if home is None else home for variable, home in of_state.items()}
    homes = _spread_homes(jaxpr, known | final)
    return lambda atom: homes.get(atom) if is_variable(atom) else None


def _spread_homes(jaxpr: Jaxpr, known: Mapping[Atom, Home]) -> dict[Atom, Home]:
    homes = dict(known)
    for equation in jaxpr.eqns:
        origins = {homes.get(atom) for atom in equation.invars if is_variable(atom)} - {None}
        stages = origins - {_TOGETHER}
        homes.update(dict.fromkeys(equation.outvars, next(iter(stages)) if len(stages) == 1 else _TOGETHER if origins else None))
    return homes


def _taints(jaxpr: Jaxpr, owner: Sequence[int], count: int) -> Callable[[Atom], frozenset[int]]:
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


def _work(jaxpr: Jaxpr, taints: Callable[[Atom], frozenset[int]]) -> dict[int, Counter[Any]]:
    """What is computed for each stage alone, whatever the order."""
    work: dict[int, Counter[Any]] = {}
    for equation in needed(jaxpr.eqns, jaxpr.outvars):
        stages = taints(equation.outvars[0])
        if len(stages) == 1:
            operands = tuple(str(atom.aval) if is_variable(atom) else str(atom) for atom in equation.invars)
            what = (equation.primitive.name, operands, tuple(str(variable.aval) for variable in equation.outvars))
            work.setdefault(next(iter(stages)), Counter())[what] += 1
    return work
