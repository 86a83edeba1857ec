"""An update of a pipeline as one program on one device, for tasks so small that starting them takes most of the time."""

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Final, final

import jax
import numpy as np

from tilestep.train.patience import Aloud
from tilestep.train.pipeline.compile.executables import Report
from tilestep.train.pipeline.compile.pipeline_spec import PipelineSpec
from tilestep.train.pipeline.compile.placement import StagePlacement
from tilestep.train.pipeline.compile.programs import CompiledPipeline
from tilestep.train.pipeline.compile.stage import calls_python
from tilestep.train.pipeline.compile.tracing import Element
from tilestep.train.pipeline.compile.watched.watch_keys import Key
from tilestep.train.pipeline.run.program_cache import key_impl_of, shapes_of
from tilestep.train.pipeline.run.single.single_function import Data, SingleFunction, SingleState
from tilestep.train.pipeline.run.state import RunState
from tilestep.train.untyped import Pytree
from tilestep.train.untyped import jax as _jax

_MOST_KNOWN_SHARDINGS: Final = 256


def brought(leaves: Sequence[Any], placement: StagePlacement) -> list[jax.Array]:
    """Arrays on a placement's device. Arrays that are there stay the same; arrays in the host's memory stay in it."""
    arrays = list(leaves)
    away = [
        index
        for index, leaf in enumerate(leaves)
        if not (
            isinstance(leaf, jax.Array) and (leaf.sharding == placement.whole or leaf.sharding.device_set == placement.whole.device_set)
        )
    ]
    if away:
        memories: list[Any] = [getattr(getattr(arrays[index], "sharding", None), "memory_kind", None) for index in away]
        shardings = [placement.whole if memory is None else placement.whole.with_memory_kind(memory) for memory in memories]
        for index, leaf in zip(away, _jax.device_put([arrays[index] for index in away], shardings), strict=True):
            arrays[index] = leaf
    return arrays


class OtherShapesError(Exception):
    """A program gets other shapes than those for which it was made."""


@final
class Single:
    """One program for an update. It donates trained parameters and the optimiser's state.

    It donates nothing if a stage calls Python, which may raise after the program has started: the state must exist then. Such a program
    is waited for.
    """

    def __init__(self, compiled: CompiledPipeline, spec: PipelineSpec, structure: Any) -> None:
        self._spec, self.stages, self.structure = spec, compiled.traced.stages, structure
        is_training = spec.optimizer is not None
        self._may_fail = any(calls_python(stage, training=is_training) for stage in self.stages)
        self._state = SingleState(compiled, structure, is_training=is_training)
        self._function = SingleFunction(compiled, spec, self._state)
        self._shardings: dict[int, Any] = {}  # those of the program's device, by their id
        self._specs: list[tuple[Any, Any]] | None = None
        self._program: Any = _jax.jit(
            self._whole,
            donate_argnums=(0,) if is_training and not self._may_fail else (),
            compiler_options=self.stages[0].placement.compiler_options,
        )

    @property
    def trees(self) -> list[Pytree]:
        """For each stage of the last level the tree of its outputs' specs."""
        return [self.stages[stage].outputs for stage in self._spec.schedule.levels[-1]]

    def run(
        self, leaves: list[jax.Array], stacks: Sequence[Pytree], inputs: Pytree, key: jax.Array | None
    ) -> tuple[RunState, list[Any], dict[Key, jax.Array]]:
        """One run.

        Args:
            leaves: of the state.
            stacks: elements, each leaf with a leading axis of microbatches; one after the other they are those of the run.
        Returns:
            (the new state, for each stage of the last level its outputs' leaves stacked; in training then [the losses]; what is watched).
        Raises:
            OtherShapesError: if the shapes are not those of the program.
            Exception: of Python code that a stage calls, with a note.
        """
        donated, read = self._on_device(self._state.donated(leaves)), self._on_device(self._state.read(leaves))
        columns = [self._on_device(_jax.tree.leaves(stack), of_host=bool(leaves)) for stack in stacks]
        data = None if key is None else self._on_device([_jax.random.key_data(key)])
        new, outputs, watched = self._start(donated, read, columns, self._on_device(_jax.tree.leaves(inputs)), data)
        return self._state.successor(leaves, read, new), outputs, dict(zip(self._function.keys, watched, strict=True))

    def _start(self, *args: Any) -> tuple[list[jax.Array], list[Any], list[jax.Array]]:
        """The program's results. They are waited for if it may fail."""
        if not self._may_fail:
            return self._program(*args)
        try:
            with Aloud(lambda: "the device, which has not done the one program of all stages of a pipeline"):
                return _jax.block_until_ready(self._program(*args))
        except OtherShapesError:
            raise
        except Exception as error:
            error.add_note('raised in the one program of all stages; with program="stages" a note names stage and microbatch')
            raise

    def _on_device(self, leaves: list[Any], *, of_host: bool = False) -> list[Any]:
        """Arrays on the device. Args: of_host: whether arrays of NumPy may stay so, because the program takes them to the others."""
        known = self._shardings
        for leaf in leaves:
            if id(getattr(leaf, "sharding", None)) not in known and not (of_host and type(leaf) is np.ndarray):
                break
        else:
            return leaves
        arrays = brought(leaves, self.stages[0].placement)
        if len(known) > _MOST_KNOWN_SHARDINGS:
            known.clear()
        for leaf in arrays:
            known[id(leaf.sharding)] = leaf.sharding
        return arrays

    def _whole(
        self, donated: list[jax.Array], read: list[jax.Array], columns: list[Any], inputs: list[Any], key: list[jax.Array] | None
    ) -> tuple[list[jax.Array], Pytree, list[jax.Array]]:
        specs = [(leaf.shape, leaf.dtype) for leaf in _jax.tree.leaves((donated, read, columns, inputs))]
        if self._specs is not None and self._specs != specs:
            raise OtherShapesError
        self._specs = specs
        return self._function(donated, read, Data(columns, inputs, None if key is None else key[0]))


@final
class SingleCache:
    """The single programs of one pipeline, for each set of shapes.

    Args:
        make: (state, element, implementation of the random key) -> the programs of all stages.
    """

    def __init__(self, spec: PipelineSpec, make: Callable[[RunState, Element, str | None], CompiledPipeline]) -> None:
        self._spec, self._make = spec, make
        self._programs: dict[Hashable, Single] = {}
        self._latest: Single | None = None
        self._latest_key_impl: str | None = None

    @property
    def has_run(self) -> bool:
        """Whether a run may have left the state on the device of one program."""
        return bool(self._programs)

    def latest(self, structure: Any, key: jax.Array | None) -> Single | None:
        """The program of the latest run, if it takes such a state and such a key."""
        single = self._latest
        return single if single is not None and single.structure == structure and self._latest_key_impl == key_impl_of(key) else None

    def find(self, state: RunState, structure: Any, stacks: list[Element], key: jax.Array | None, report: Report | None) -> Single:
        """The program for such a state and such elements. Args: structure: of the state."""
        impl = key_impl_of(key)
        shapes = shapes_of((state, stacks)), impl
        single = self._programs.get(shapes)
        if single is None:
            if report is not None:
                report(0, 1)
            inputs, items, words = stacks[0]
            one = (inputs, *_jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((1, *leaf.shape[1:]), leaf.dtype), (items, words)))
            single = self._programs[shapes] = Single(self._make(state, one, impl), self._spec, structure)
        self._latest, self._latest_key_impl = single, impl
        return single
