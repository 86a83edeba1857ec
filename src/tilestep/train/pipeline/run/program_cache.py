"""Finds the programs for a state and its elements: compiles them for new shapes, and recognises the arrays of the run before."""

import weakref
from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple, final

import jax

from tilestep.train.jax_private.compiled_call import are_plain, may_start, options
from tilestep.train.pipeline.compile.executables import Report, compile_all, started_directly
from tilestep.train.pipeline.compile.heap import Pieces, hold_pieces
from tilestep.train.pipeline.compile.pipeline_spec import PipelineSpec
from tilestep.train.pipeline.compile.programs import CompiledPipeline, KnownPrograms, make_all
from tilestep.train.pipeline.compile.tracing import Element, spec_of, trace
from tilestep.train.pipeline.compile.updates.tied import leaves_tied
from tilestep.train.pipeline.run.batches import Batch
from tilestep.train.pipeline.run.processes import Processes
from tilestep.train.pipeline.run.state import RunState
from tilestep.train.untyped import Pytree
from tilestep.train.untyped import jax as _jax


class Runnable(NamedTuple):
    """The programs for certain shapes."""

    looked_up: CompiledPipeline  # as JAX finds them
    direct: CompiledPipeline  # started without that (jax_private/compiled_call.py); the same programs where that is impossible


class Latest(NamedTuple):
    """The arguments of the latest run, as far as programs depend on them."""

    element: Pytree  # structures, specs and shardings of its first element, and JAX's options
    looks: Any  # specs and shardings of the state's arrays
    runnable: Runnable  # its programs


@final
class ProgramCache:
    """The programs of one pipeline, for each set of shapes.

    Args:
        direct: whether programs may be started directly at all.
    """

    def __init__(self, spec: PipelineSpec, processes: Processes | None, *, direct: bool) -> None:
        self._spec, self._processes, self._may_be_direct = spec, processes, direct
        self._known: dict[object, KnownPrograms] = {}  # by JAX's options
        self._runnables: dict[Hashable, Runnable] = {}
        self._latest: Latest | None = None
        self._plain: list[weakref.ref[jax.Array]] = []  # the state's arrays after the latest run, if that started programs directly
        self._pieces: list[Pieces | None] = []  # for each entry of `_runnables` the memory that compiling it has left

    def find(
        self, state: RunState, first: Element, batch: Batch, key: jax.Array | None, report: Report | None
    ) -> tuple[CompiledPipeline, bool]:
        """(the programs for such a state and such elements, whether they are started directly).

        Programs are started directly if all arrays are as programs were compiled for them. That is so of the arrays that such a run has
        returned, so nobody looks at them again: programs whose results differ from their arguments are not started directly.

        Args:
            first: the first element. Others are like it.
        """
        impl = key_impl_of(key)
        leaves, structure = _jax.tree.flatten(state)
        arrays, element_structure = _jax.tree.flatten(first)
        element = structure, element_structure, impl, options(), _looks(arrays)
        plain, self._plain = self._plain, []  # none after a run that fails
        is_own = len(plain) == len(leaves) and all(ref() is leaf and not leaf.is_deleted() for ref, leaf in zip(plain, leaves, strict=True))
        if is_own and len(self._pieces) < len(self._runnables):  # after a first run, which compiles a little too
            self._pieces.append(hold_pieces())
        direct = self._may_be_direct and may_start() and batch.are_plain(first)
        latest = self._latest if self._latest is not None and self._latest.element == element else None
        if not is_own or latest is None or latest.runnable.direct is latest.runnable.looked_up:
            looks = _looks(leaves)
            if latest is None or latest.looks != looks:
                self._latest = latest = Latest(element, looks, self._runnable(state, first, impl, report))
            direct = direct and latest.runnable.direct is not latest.runnable.looked_up and (is_own or self._are_plain(state))
        return (latest.runnable.direct, True) if direct else (latest.runnable.looked_up, False)

    def remember(self, state: RunState, *, direct: bool) -> None:
        """A run has returned this state. Args: direct: whether it has started its programs directly."""
        self._plain = [weakref.ref(leaf) for leaf in _jax.tree.leaves(state)] if direct else []

    def make(self, state: RunState, element: Element, key_impl: str | None) -> CompiledPipeline:
        """The programs for such a state and such elements, none of which is compiled yet."""
        spec, params = self._spec, [stage.params for stage in state.stages]
        traced = trace(
            spec.functions,
            spec.schedule.levels,
            params,
            [stage.aux for stage in state.stages],
            element,
            training=spec.optimizer is not None,
            key_impl=key_impl,
            watch=spec.watch,
        )
        if spec.optimizer is not None:
            spec.optimizer.require_loss(spec.functions[-1].name, traced.stages[-1].outputs)
        return make_all(spec, traced, leaves_tied(spec.ties, params), self.known())

    def known(self) -> KnownPrograms:
        """What was made for any shapes, with JAX's options as they are now."""
        return self._known.setdefault(options(), {})

    def _are_plain(self, state: RunState) -> bool:
        return all(
            are_plain(_jax.tree.leaves(own), function.placement.whole)
            for function, own in zip(self._spec.functions, state.stages, strict=True)
        )

    def _runnable(self, state: RunState, element: Element, impl: str | None, report: Report | None) -> Runnable:
        stages = state.stages
        _require_on_devices(state)
        shardings = tuple(leaf.sharding for stage in stages for leaf in _jax.tree.leaves((stage.params, stage.optimizer_state)))
        of_stages = [(stage.params, stage.aux, stage.optimizer_state) for stage in stages]
        key = shapes_of((of_stages, element)), impl, shardings, options()
        runnable = self._runnables.get(key)
        if runnable is None:
            looked_up = self.make(state, element, impl)
            states = [stage.optimizer_state for stage in stages]
            executables = compile_all(looked_up, self._spec.functions, states, report)
            if self._processes is not None:
                self._processes.agree("has compiled")
            runnable = self._runnables[key] = Runnable(looked_up, started_directly(looked_up, executables, states))
        return runnable


def key_impl_of(key: jax.Array | None) -> str | None:
    """The name of a random key's implementation."""
    return None if key is None else str(_jax.random.key_impl(key))


def shapes_of(tree: Pytree) -> Hashable:
    """Structure, shapes and dtypes of a tree."""
    leaves, structure = _jax.tree.flatten(tree)
    return structure, tuple((leaf.shape, leaf.dtype) if hasattr(leaf, "dtype") else _shape_and_dtype(leaf) for leaf in leaves)


def _shape_and_dtype(leaf: Any) -> tuple[Any, Any]:
    spec = spec_of(leaf)
    return spec.shape, spec.dtype


def _looks(leaves: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Specs and shardings. The results of one program have the same `aval` objects each time, so lists of them compare fast."""
    return [getattr(leaf, "aval", None) or spec_of(leaf) for leaf in leaves], [getattr(leaf, "sharding", None) for leaf in leaves]


def _require_on_devices(state: RunState) -> None:
    """Raises: TypeError for a leaf that is on no device."""
    for number, own in enumerate(state.stages):
        for keys, leaf in _jax.tree_util.tree_flatten_with_path(own)[0]:
            if not isinstance(leaf, jax.Array):
                path = _jax.tree_util.keystr(keys, simple=True, separator="/")
                raise TypeError(
                    f"the state of stage {number} has a {type(leaf).__name__} in {path}, which is on no device: put all where init() does, "
                    "such as by jax.tree.map(lambda new, old: jax.device_put(new, old.sharding), restored, pipeline.init(params))"
                )
