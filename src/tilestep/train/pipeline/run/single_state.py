"""The leaves of a pipeline's state, divided into those that one program donates, those that it reads, and copies of others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import jax

from tilestep.train.pipeline.compile.pipeline_spec import Leaf
from tilestep.train.pipeline.compile.programs import Compiled
from tilestep.train.pipeline.run.state import RunState
from tilestep.train.untyped import Pytree
from tilestep.train.untyped import jax as _jax

Rows = Sequence[Sequence[jax.Array]]  # for each stage some leaves of its parameters


@final
class SingleState:
    """Where the leaves of a state with this structure are among the arguments and results of one program.

    Donated are each stage's trained parameters and the optimiser's states. Read are the other parameters and auxiliary state. Of tied
    parameters only the first is an argument, because its memory is donated.

    Args:
        structure: of a `RunState`.
    """

    def __init__(self, compiled: Compiled, structure: Any, *, is_training: bool) -> None:
        stages = compiled.traced.stages
        self.structure = structure
        self._structures = [stage.params_structure for stage in stages]
        self._trained = [update.trained for update in compiled.updates] or [() for _ in stages]
        indices: RunState = _jax.tree.unflatten(structure, range(structure.num_leaves))
        params = [_jax.tree.leaves(stage.params) for stage in indices.stages]
        ties = {(stage, leaf): tie[0] for tie in compiled.ties for stage, leaf in tie[1:]} if is_training else {}
        self._copies = [(params[stage][leaf], params[owner][first]) for (stage, leaf), (owner, first) in ties.items()]
        self._ties: list[dict[int, Leaf]] = [
            {leaf: owner for (stage, leaf), owner in ties.items() if stage == number} for number in range(len(params))
        ]
        trained = [[own[index] for index in numbers] for own, numbers in zip(params, self._trained, strict=True)]
        rest = [
            [leaf for index, leaf in enumerate(own) if index not in numbers and index not in tied]
            for own, numbers, tied in zip(params, self._trained, self._ties, strict=True)
        ]
        states = [stage.optimizer_state for stage in indices.stages], indices.joint
        aux = [_jax.tree.leaves(stage.aux) for stage in indices.stages]
        self._donated, self._donated_structure = _jax.tree.flatten((trained, states))
        self._read, self._read_structure = _jax.tree.flatten((rest, aux))
        self._new = [*self._donated, *_jax.tree.leaves(aux)]

    def donated(self, leaves: Sequence[jax.Array]) -> list[jax.Array]:
        """The leaves of a state that the program donates."""
        return [leaves[index] for index in self._donated]

    def read(self, leaves: Sequence[jax.Array]) -> list[jax.Array]:
        """The leaves of a state that it reads."""
        return [leaves[index] for index in self._read]

    def trees(self, donated: Sequence[jax.Array], read: Sequence[jax.Array]) -> tuple[Pytree, Pytree, Pytree, Pytree]:
        """(trained parameters, the optimiser's states, other parameters, auxiliary state), from the program's arguments."""
        trained, states = _jax.tree.unflatten(self._donated_structure, donated)
        rest, aux = _jax.tree.unflatten(self._read_structure, read)
        return trained, states, rest, aux

    def successor(self, leaves: Sequence[jax.Array], read: Sequence[jax.Array], new: Sequence[jax.Array]) -> RunState:
        """The state after a run.

        Args:
            leaves: of the state before.
            read: of these, those that the program has read, on its device.
            new: the program's results.
        """
        new_leaves = list(leaves)
        for index, leaf in zip(self._read, read, strict=True):
            new_leaves[index] = leaf
        for index, leaf in zip(self._new, new, strict=True):
            new_leaves[index] = leaf
        for index, owner in self._copies:
            new_leaves[index] = new_leaves[owner]
        return _jax.tree.unflatten(self.structure, new_leaves)

    def params(self, trained: Rows, rest: Rows) -> list[list[jax.Array]]:
        """All leaves of each stage's parameters, from those that are trained and the others."""
        params: list[list[Any]] = []
        for structure, numbers, ties, own, others in zip(self._structures, self._trained, self._ties, trained, rest, strict=True):
            mine, left = dict(zip(numbers, own, strict=True)), iter(others)
            params.append(
                [None if index in ties else mine[index] if index in mine else next(left) for index in range(structure.num_leaves)]
            )
        for own, ties in zip(params, self._ties, strict=True):
            for index, (owner, leaf) in ties.items():
                own[index] = params[owner][leaf]
        return params
