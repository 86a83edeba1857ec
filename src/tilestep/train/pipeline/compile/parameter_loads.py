"""Moves a stage's parameters between the host's memory, in which they stay, and the device, as tasks of their own."""

from collections.abc import Iterator, Sequence
from typing import Any, final

import jax

from tilestep import hints
from tilestep.train.offload import HOST_KIND, in_memory
from tilestep.train.pipeline.compile.stage import Stage
from tilestep.train.untyped import Pytree
from tilestep.train.untyped import jax as _jax


@final
class Mover:
    """Loads and stores one stage's parameters.

    They are transfers that start no program. On emulated machines they are programs, because there an access to streaming memory is a
    program's.
    """

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._away = [index for index, sharding in enumerate(stage.param_shardings) if sharding.memory_kind == HOST_KIND]
        self._changed = [index for index in self._away if index in stage.real_params]
        self._load: Any = None
        self._store: Any = None
        if self._away and stage.placement.is_local and hints.listens(stage.placement.devices[0].platform):
            self._load, self._store = self._programs()

    def _programs(self) -> tuple[Any, Any]:
        stage = self._stage
        jit, name = stage.placement.jit, f"stage_{stage.number}"

        def load(leaves: Sequence[jax.Array]) -> tuple[list[jax.Array]]:
            return (in_memory(list(leaves), host=False),)

        def store(leaves: Sequence[jax.Array]) -> tuple[list[jax.Array]]:
            return (in_memory(list(leaves), host=True),)

        near = [stage.shardings_on_device[index] for index in self._away]
        far = [stage.param_shardings[index] for index in self._changed]
        placed = [(shardings,) if stage.placement.is_mesh else None for shardings in (near, far)]
        return (
            jit(load, f"{name}_load_parameters", (None,), (None,), out_shardings=placed[0]),
            jit(store, f"{name}_store_parameters", (None,), (None,), out_shardings=placed[1]),
        )

    def calls(self, specs: Sequence[Any], *, is_training: bool) -> Iterator[tuple[str, Any, tuple[Pytree, ...]]]:
        """What is to be compiled: (what it does, the program, its arguments' specs). Args: specs: of all leaves, where they stay."""
        if self._load is None:
            return
        yield "load", self._load, ([specs[index] for index in self._away],)
        if is_training:
            kinds = self._stage.shardings_on_device
            near = [_jax.ShapeDtypeStruct(specs[index].shape, specs[index].dtype, sharding=kinds[index]) for index in self._changed]
            yield "store", self._store, (near,)

    def load(self, params: Sequence[jax.Array]) -> list[jax.Array] | None:
        """The parameters on the device; None if all are there."""
        if not self._away:
            return None
        far = [params[index] for index in self._away]
        near = in_memory(far, host=False) if self._load is None else self._load(far)[0]
        found = list(params)
        for index, leaf in zip(self._away, near, strict=True):
            found[index] = leaf
        return found

    def store(self, old: Sequence[jax.Array], new: Sequence[jax.Array]) -> list[jax.Array]:
        """New parameters where the old ones are, which they replace. What has no gradient stays."""
        near = [new[index] for index in self._changed]
        stored = in_memory(near, host=True) if self._store is None else self._store(near)[0]
        for index in self._changed:
            if not old[index].is_deleted():
                old[index].delete()  # as an update donates it
        found = list(old)
        for index in self._stage.real_params:
            found[index] = new[index]
        for index, leaf in zip(self._changed, stored, strict=True):
            found[index] = leaf
        return found
