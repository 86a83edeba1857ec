"""Updates by an optimiser that looks across stages, such as one that clips by the global norm.

JAX traces the update of all stages at once. The operands of an equation decide on which devices it is computed: operands from one stage, on
that stage's devices; operands from several (a sum of their norms), on the first stage's; such a result and one stage's arrays, on that
stage's again. So arrays stay on their devices, and only values that depend on several stages cross. Each part donates the memory of values
that no later part reads: parameters, the state and gradients turn into their successors in place.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, final

import jax
from jax.extend.core import Jaxpr, JaxprEqn

from tilestep.train.gradients.accumulation import finished, promoted, zeros_for
from tilestep.train.jaxprs import computed, flat_jaxpr, flat_jaxpr_and_structure, is_variable, needed
from tilestep.train.offload import in_memory, is_on_host, on_device, placed
from tilestep.train.optimizers.sharded import LEAST_ELEMENTS, require_groups, unsharded
from tilestep.train.pipeline.compile.packing import Packing
from tilestep.train.pipeline.compile.pipeline_spec import PipelineSpec
from tilestep.train.pipeline.compile.placement import StagePlacement
from tilestep.train.pipeline.compile.stage import Stage
from tilestep.train.pipeline.compile.updates.joint_part import (
    NO_FORMS,
    TOGETHER,
    Forms,
    Home,
    JointPart,
    compiled,
    giving_up,
    homes_of,
    part_for,
    part_of,
    taints_of,
    work_of,
)
from tilestep.train.processes.remote import Put, put_local, remote_array
from tilestep.train.replicas.collectives import reduced_gradients
from tilestep.train.replicas.shards import Shard
from tilestep.train.simulated import put_shards
from tilestep.train.untyped import Atom, Pytree
from tilestep.train.untyped import jax as _jax


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
        self._init, self._state_structure = flat_jaxpr_and_structure(self._first_state, specs, self._outputs)
        gradients = _jax.tree.leaves(_jax.eval_shape(lambda: zeros_for(self._tree(specs), plan.accumulator_dtype)))
        # The update's equations, over gradients, parameters, state and outputs of the last stage.
        self.flow = flat_jaxpr(self._updated, gradients, specs, [variable.aval for variable in self._init.jaxpr.outvars], self._outputs)
        self._state_homes: list[Home] = []
        self._parts: tuple[JointPart, ...] | None = None
        self._divided: dict[int, tuple[int, ...]] = {}  # leaf of the state -> its shape, if replicas divide it
        self._programs: dict[frozenset[int], tuple[tuple[JointPart, ...], Forms]] = {}  # by what is in the host's memory
        self._finish = [self._finisher(*of_stage) for of_stage in zip(stages, trained, packings, strict=False)]
        stay = not (isinstance(plan.offload, Mapping) and plan.offload.get("accumulators"))  # on the device
        self._in_place = [_alone_in(*of_stage) if stay else 0 for of_stage in zip(stages, trained, packings, strict=False)]

    @property
    def extras(self) -> tuple[int, ...]:
        """Of the last stage's outputs' leaves, the indices of those that it is given."""
        return tuple(range(len(self._outputs)))

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

    def _first_state(self, params: Sequence[jax.Array], extras: Sequence[jax.Array]) -> Any:
        tree = self._tree(params)
        state = self._transformation(extras).init(promoted(tree, zeros_for(tree, self._plan.accumulator_dtype)))
        return _jax.tree.map(_jax.numpy.asarray, state)

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
        taints = taints_of(self.flow.jaxpr, self._owner, count)
        outputs = self.flow.jaxpr.outvars
        of_params = [taints(atom) <= {owner} for atom, owner in zip(outputs, self._owner, strict=False)]
        if not all(of_params) or any(len(taints(atom)) > 1 for atom in outputs):
            return False
        whole = work_of(self.flow.jaxpr, taints)
        known: dict[Hashable, Counter[Any]] = {}  # stages with equal parameters have equal updates
        for stage, own in zip(self._stages, self._trained, strict=True):
            leaves = _jax.tree.leaves(stage.params)
            key = stage.params_structure, own, tuple((leaf.shape, leaf.dtype) for leaf in leaves)
            if key not in known:
                try:
                    closed = alone(stage.number).flow
                except Exception:  # the optimiser may need all stages
                    return False
                work = work_of(closed.jaxpr, taints_of(closed.jaxpr, [stage.number] * len(own), len(own)))
                known[key] = work.get(stage.number, Counter())
            if known[key] != whole.get(stage.number, Counter()):
                return False
        return True

    # --------------------------------------------------------------------------------------------------- in its parts

    def _divide(self) -> tuple[JointPart, ...]:
        """The parts, not yet compiled."""
        if self._parts is None:
            jaxpr, count = self.flow.jaxpr, len(self._owner)
            homes = homes_of(jaxpr, self._owner, count)
            state = jaxpr.invars[2 * count : 2 * count + len(self._init.jaxpr.outvars)]
            self._state_homes = [homes(variable) for variable in state]
            self._divided = {index: tuple(v.aval.shape) for index, v in enumerate(state) if self._is_divided(v, self._state_homes[index])}
            self._parts = tuple(_parts(jaxpr, homes))
        return self._parts

    def _is_divided(self, variable: Atom, home: Home) -> bool:
        """Whether replicas divide an array of the state: one that belongs to a stage, as `sharded` does."""
        if not self._plan.shard or home in (None, TOGETHER) or self._placement(home).replicas is None:
            return False
        is_key = _jax.dtypes.issubdtype(variable.aval.dtype, _jax.dtypes.extended)
        return bool(variable.aval.shape) and variable.aval.size >= LEAST_ELEMENTS and not is_key

    def _forms(self, away: frozenset[int]) -> Forms:
        """Args: away: which parameters' and state's leaves, in this order, are in the host's memory."""
        jaxpr, count = self.flow.jaxpr, len(self._owner)
        old, new = jaxpr.invars[count:], jaxpr.outvars
        times = Counter(atom for atom in new if is_variable(atom))
        read = {variable for part in self._divide() for variable in part.takes}
        made = {variable: part.home for part in self._divide() for variable in part.makes}

        def follows(index: int) -> bool:
            """Whether a new value is made in the form of the old one: it has no other use."""
            atom = new[index]
            return is_variable(atom) and atom in made and times[atom] == 1 and atom not in read

        divided: dict[Atom, tuple[int, ...]] = {}
        for index, shape in self._divided.items():
            divided[old[count + index]] = shape
            if follows(count + index) and made[new[count + index]] == self._state_homes[index]:
                divided[new[count + index]] = shape
        sent = frozenset([old[i] for i in away] + [new[i] for i in away if follows(i)])
        return Forms(divided=divided, away=sent, group_size=self._plan.group_size)

    def _compiled(self, away: frozenset[int]) -> tuple[tuple[JointPart, ...], Forms]:
        """(The parts with their programs, the forms of the values). Args: away: as for `_forms`."""
        if away not in self._programs:
            jaxpr, count = self.flow.jaxpr, len(self._owner)
            held = jaxpr.invars[2 * count + len(self._init.jaxpr.outvars) :]  # the last stage's outputs are given out, too
            forms = self._forms(away)
            parts = giving_up(self._divide(), jaxpr, jaxpr.invars[count:], held, forms)
            self._programs[away] = tuple(compiled(part, self._placement(part.home), forms) for part in parts), forms
        return self._programs[away]

    def _placement(self, home: Home) -> StagePlacement:
        return self._stages[home if home is not None and home != TOGETHER else 0].placement

    def init(self, params: Sequence[Sequence[jax.Array]], extras: Sequence[jax.Array], put: Put = put_shards) -> Any:
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
            part = _flattening(part_for(jaxpr.eqns, [jaxpr.outvars[index] for index in mine], home), [i in self._divided for i in mine])
            part = compiled(part, self._placement(home), NO_FORMS, is_first=True)
            for index, value in zip(mine, self._run(part, given, constants, put), strict=True):
                leaves[index] = self._in_parts(index, value) if index in self._divided else value
        return self._away(_jax.tree.unflatten(self._state_structure, leaves))

    def _in_parts(self, index: int, flat: jax.Array) -> Shard:
        """A leaf of the state, divided over the replicas. Args: flat: [n], on each of them."""
        replicas = self._placement(self._state_homes[index]).replicas
        assert replicas is not None  # nothing else is divided
        return replicas.place(self._shard(index, flat))

    def _shard(self, index: int, values: jax.Array) -> Shard:
        return Shard(values=values, shape=self._divided[index], group_size=self._plan.group_size)

    def _away(self, state: Pytree) -> Pytree:
        """The state, with those of its leaves in the host's memory that the author wants there. Without a word of his they stay."""
        offload = self._plan.offload
        choice = offload.get("optimizer_state") if isinstance(offload, Mapping) else offload
        if choice is None:
            return state
        return placed(state, choice, kind="optimizer_state", platform=self._stages[0].placement.devices[0].platform)

    def apply(
        self,
        params: Sequence[Sequence[jax.Array]],
        state: Pytree,
        accumulators: Sequence[Sequence[jax.Array]],
        extras: Sequence[jax.Array],
        put: Put = put_shards,
    ) -> tuple[list[list[jax.Array]], Any]:
        """(each stage's new trained leaves, the new state). Donates parameters, state, and accumulators that have a gradient's shape."""
        self._require_groups(state)
        held = [*(leaf for own in params for leaf in own), *_jax.tree.leaves(state)]
        away = frozenset(index for index, leaf in enumerate(held) if is_on_host(leaf))
        gradients = [
            finish(*self._parted(stage, own))[0] for stage, (finish, own) in enumerate(zip(self._finish, accumulators, strict=True))
        ]
        jaxpr = self.flow.jaxpr
        given = itertools.chain(*gradients, held, extras)
        values: dict[Atom, Any] = dict(zip(jaxpr.invars, given, strict=True))
        del gradients, given, held  # which would keep what is over
        constants = dict(zip(jaxpr.constvars, self.flow.consts, strict=True))
        parts, forms = self._compiled(away)
        for part in parts:
            values.update(zip(part.makes, self._run(part, values, constants, put), strict=True))
            for variable in part.spent:
                values.pop(variable, None)
        rest = iter([self._in_form(index, atom, values, forms, away) for index, atom in enumerate(jaxpr.outvars)])
        new = [[next(rest) for _ in own] for own in self._trained]
        return new, _jax.tree.unflatten(self._state_structure, list(rest))

    def _require_groups(self, state: Pytree) -> None:
        """Raises: ValueError for a state that is divided within groups of another size."""
        replicas = self._stages[0].placement.replicas
        require_groups(state, self._plan.group_size, 1 if replicas is None else replicas.count)

    def _in_form(self, place: int, atom: Atom, values: Mapping[Atom, Any], forms: Forms, away: frozenset[int]) -> Any:
        """A new parameter or leaf of the state, divided and in the memory as the old one was. Args: place: among these."""
        value: Any = values[atom] if is_variable(atom) else atom.val
        index, shape = place - len(self._owner), forms.shape(atom)
        if index in self._divided:
            value = self._in_parts(index, value.reshape(-1)) if shape is None else self._shard(index, value)
        elif shape is not None:  # an optimiser has passed a divided leaf on as another one
            value = unsharded(Shard(values=value, shape=shape))
        return in_memory(value, host=place in away)

    def inline(
        self, params: Sequence[Sequence[jax.Array]], state: Pytree, accumulators: Sequence[Sequence[jax.Array]], extras: Sequence[jax.Array]
    ) -> tuple[list[list[jax.Array]], Any]:
        """`apply` within one program, where all is on one device."""
        plan, jaxpr = self._plan, self.flow.jaxpr
        gradients = [finished(acc, plan.per_update, plan.reduction) for own in accumulators for acc in own]
        flat = [*gradients, *(leaf for own in params for leaf in own), *_jax.tree.leaves(state), *extras]
        values = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*self.flow.consts, *flat], strict=True))
        rest = iter(computed(jaxpr.eqns, values, jaxpr.outvars))
        new = [[next(rest) for _ in own] for own in self._trained]
        return new, _jax.tree.unflatten(self._state_structure, list(rest))

    def _run(self, part: JointPart, values: Mapping[Atom, Any], constants: Mapping[Atom, Any], put: Put) -> list[jax.Array]:
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
        assert part.program is not None  # all parts that run are compiled
        return part.program([there[i] for i in part.donated], [value for i, value in enumerate(there) if i not in part.donated])

    def _moves(self, value: object, home: Home, placement: StagePlacement) -> bool:
        """A stage's own arrays may be divided over its mesh, and stay so."""
        return home == TOGETHER or not (isinstance(value, jax.Array) and value.sharding.device_set == set(placement.devices))

    def _finisher(self, stage: Stage, own: Sequence[int], packing: Packing) -> Any:
        plan, real = self._plan, stage.real_params
        is_several = stage.placement.replicas is not None

        def gradients(donated: Sequence[jax.Array], accumulators: Sequence[jax.Array]) -> tuple[list[jax.Array]]:
            leaves = packing.unpack(on_device([*donated, *accumulators]))
            results = [finished(leaves[real.index(index)], plan.per_update, plan.reduction) for index in own]
            return (reduced_gradients(results, plan.replica_reduction) if is_several else results,)

        shardings = ([stage.shardings_on_device[index] for index in own],) if stage.placement.is_mesh else None
        return stage.placement.jit(gradients, f"stage_{stage.number}_gradients", (0, 0), (None,), donate=(0,), out_shardings=shardings)

    def _parted(self, stage: int, accumulators: Sequence[jax.Array]) -> tuple[list[jax.Array], list[jax.Array]]:
        """(accumulators that turn into gradients in place, the others)."""
        count = self._in_place[stage]
        return list(accumulators[:count]), list(accumulators[count:])


def _alone_in(stage: Stage, own: Sequence[int], packing: Packing) -> int:
    """How many of a stage's accumulators, the first ones, have the shapes of gradients: all that are by themselves, or none."""
    is_alike = stage.placement.replicas is None and all(stage.real_params[index] in own for index in packing.alone)
    return len(packing.alone) if is_alike else 0


def _flattening(part: JointPart, flat: Sequence[bool]) -> JointPart:
    """A part that makes some of its values as arrays of one axis."""

    def compute(values: list[Any]) -> list[Any]:
        return [value.reshape(-1) if is_flat else value for value, is_flat in zip(part.compute(values), flat, strict=True)]

    return replace(part, compute=compute) if any(flat) else part


def _parts(jaxpr: Jaxpr, homes: Callable[[Atom], Home]) -> Iterator[JointPart]:
    """The equations in parts that can be computed one after the other; constants are made wherever they are used.

    Each is computed as late as possible. So what is divided or in the host's memory is brought for one part alone.
    """
    phases: dict[Atom, int] = {}
    groups: dict[tuple[int, int], list[Any]] = {}
    constants: list[Any] = []
    equations: list[JaxprEqn] = []
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
        equations.append(equation)
    latest: dict[Atom, int] = {}  # the phase in which a value must be there
    for equation in reversed(equations):
        home, results = homes(equation.outvars[0]), equation.outvars
        phase = max(phases[results[0]], min((latest[variable] for variable in results if variable in latest), default=0))
        phases.update(dict.fromkeys(results, phase))
        for atom in equation.invars:
            if is_variable(atom):
                latest[atom] = min(latest.get(atom, phase), phase - (homes(atom) != home))
    for equation in equations:
        groups.setdefault((phases[equation.outvars[0]], homes(equation.outvars[0]) or 0), []).append(equation)
    wanted = {atom for atom in jaxpr.outvars if is_variable(atom)}
    made_alone = [atom for atom in dict.fromkeys(wanted) if atom not in phases and atom not in jaxpr.invars and atom not in jaxpr.constvars]
    if made_alone:
        yield part_for(constants, made_alone, TOGETHER)
    for (_, home), own in sorted(groups.items(), key=lambda entry: entry[0]):
        mine = {id(equation) for equation in own}
        read_by_others = {atom for other in jaxpr.eqns if id(other) not in mine for atom in other.invars if is_variable(atom)} | wanted
        outputs = [variable for equation in own for variable in equation.outvars if variable in read_by_others]
        yield part_of([*needed(constants, _operands(own)), *own], outputs, home)


def _operands(equations: Sequence[JaxprEqn]) -> list[Atom]:
    return [atom for equation in equations for atom in equation.invars]
