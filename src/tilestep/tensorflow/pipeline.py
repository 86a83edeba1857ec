"""A pipeline of a program: its stages are lowered one by one, and `tilestep.train.Pipeline` runs them.

A stage's graph is cut into forward and backward, which are one JAX function with a derivative. TensorFlow differentiates the stage once.
What backward reads of forward are its residuals, so a dropout has one mask in both. Parameters are no residuals: backward reads them by
itself.
"""

import dataclasses
import functools
import weakref
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np
import optax

from tilestep import train
from tilestep.errors import UnsupportedError
from tilestep.tensorflow.ipu.config import Placement, offloads, placement, system
from tilestep.tensorflow.ipu.optimizers import changes
from tilestep.tensorflow.jax_private.primitive import Program
from tilestep.tensorflow.residency import Home
from tilestep.tensorflow.tf_private import graphs
from tilestep.tensorflow.tracing import Traced, lower
from tilestep.tensorflow.untyped import Operation, Tensor, tf, v1
from tilestep.train.untyped import Pytree, jax

Levels = list[list[Traced]]  # stages, concurrent ones together


@dataclass(frozen=True, kw_only=True, eq=False)
class Stage:
    """A stage as the runtime takes it."""

    function: Callable[..., Any]  # (params, *args) -> outputs; with `aux` (params, aux, *args) -> (outputs, aux)
    params: Sequence[str]  # names of the variables that have gradients
    aux: Sequence[str]  # names of those that the stage itself changes, or that are no real numbers


def stage_of(traced: Traced, *, training: bool) -> Stage:
    """Args: traced: the stage's function. training: whether it has a derivative. Raises: UnsupportedError for what XLA cannot lower."""
    plain = lower(traced, traced.arguments, traced.results, traced.operations)
    aux = [name for name, handle in traced.handles.items() if name in plain.written or not graphs.variable_spec(handle).dtype.is_floating]
    params = [name for name in traced.handles if name not in aux]

    def run(program: Program, own: Any, state: Any, args: Any) -> tuple[list[Any], Any]:
        outputs, new = program(args, {**own, **state})
        return outputs, {name: new.get(name, state[name]) for name in aux}

    def call(own: Any, state: Any, args: Any) -> Any:
        outputs, state = run(plain, own, state, args)
        return tuple(outputs), state

    call = _differentiable(call, run, traced, params) if training else call

    def function(own: Any, *rest: Any) -> Any:
        if not aux:
            return call(own, {}, rest)[0]
        return call(own, rest[0], rest[1:])

    function.__name__ = traced.name
    return Stage(function=function, params=params, aux=aux)


def _differentiable(call: Callable[..., Any], run: Callable[..., Any], traced: Traced, params: Sequence[str]) -> Callable[..., Any]:
    graph, inputs, results = traced.graph, traced.arguments, traced.results
    floats = [index for index, tensor in enumerate(results) if tensor.dtype.is_floating]
    wanted = [index for index, tensor in enumerate(inputs) if tensor.dtype.is_floating]
    before = set(graph.get_operations())
    with graph.as_default():
        given = [v1.placeholder(results[index].dtype, results[index].shape) for index in floats]
        sources = [*(inputs[index] for index in wanted), *(traced.handles[name] for name in params)]
        found = tf.gradients([results[index] for index in floats], sources, grad_ys=given)
        gradients = [None if each is None else tf.convert_to_tensor(each) for each in found]
    some = [each for each in gradients if each is not None]
    residuals = graphs.boundary(some, before, [*given, *traced.handles.values()])
    forward = lower(traced, inputs, [*results, *residuals], traced.operations)
    backward = lower(traced, [*residuals, *given], some, [])

    def ahead(own: Any, state: Any, args: Any) -> Any:
        outputs, new = run(forward, own, state, args)
        kept = {name: value for name, value in {**own, **state}.items() if name in backward.variables}
        return (tuple(outputs[: len(results)]), new), (outputs[len(results) :], kept, own, state, args)

    def back(kept: Any, cotangents: Any) -> Any:
        values, variables, own, state, args = kept
        made, _ = backward([*values, *(cotangents[0][index] for index in floats)], variables)
        rest = iter(made)
        made = [None if each is None else next(rest) for each in gradients]
        of_args = dict(zip(wanted, made, strict=False))
        of_params = {name: _cotangent(own[name], value) for name, value in zip(params, made[len(wanted) :], strict=True)}
        of_state = {name: _cotangent(each, None) for name, each in state.items()}
        return of_params, of_state, tuple(_cotangent(each, of_args.get(index)) for index, each in enumerate(args))

    differentiable = jax.custom_vjp(call)
    differentiable.defvjp(ahead, back)
    return differentiable


def _cotangent(array: Any, value: Any) -> Any:
    """Args: value: what backward has made; None: nothing."""
    if value is not None:
        return value.astype(array.dtype)
    return jax.numpy.zeros_like(array) if jax.numpy.issubdtype(array.dtype, jax.numpy.inexact) else np.zeros(array.shape, jax.dtypes.float0)


@dataclass(frozen=True, kw_only=True, eq=False)
class TracedOptimizer:
    """What an optimizer function does with the last stage's outputs."""

    traced: Traced  # its arguments are the outputs, then the gradients
    updates: Mapping[str, tuple[Tensor, Operation]]  # name of a variable -> its gradient, and the node that updates it
    loss: int  # its index among the outputs


@final
@dataclass(kw_only=True, eq=False)
class Pipeline:
    """A pipeline in a program."""

    levels: Levels
    inputs: list[Tensor]  # arguments of the first stage before the infeed's element
    optimizer: TracedOptimizer | None
    infeed: Any
    outfeed: Any
    repeat_count: int  # updates of each call
    shards: int  # IPUs of a replica
    options: Mapping[str, Any]  # for `tilestep.train.Pipeline`, but for those that the configuration decides
    results: list[Tensor] = field(default_factory=list)
    first: Sequence[Operation] = ()

    def __post_init__(self) -> None:
        traced = [*(each for level in self.levels for each in level), *([self.optimizer.traced] if self.optimizer is not None else [])]
        for each in traced:
            if each.captured:
                raise UnsupportedError(
                    f"stage {each.name} uses tensor {each.captured[0][0].name} from outside of it: give it to pipeline(inputs=...), and "
                    "let each stage pass it on"
                )
        self.handles: Mapping[str, Tensor] = {name: handle for each in traced for name, handle in each.handles.items()}
        self._states: weakref.WeakKeyDictionary[Home, Any] = weakref.WeakKeyDictionary()
        self._shown: dict[str, Any] = {}  # auxiliary state as the session has it
        self._initial: dict[str, Any] = {}  # slots, when the first update asks
        training = self.optimizer is not None
        self._stages = [[stage_of(each, training=training) for each in level] for level in self.levels]
        self._updates: dict[str, Program] = {}
        if self.optimizer is not None:
            traced, updates = self.optimizer.traced, self.optimizer.updates
            outputs = traced.arguments[: len(traced.arguments) - len(updates)]
            for name, (gradient, node) in updates.items():
                self._updates[name] = lower(traced, [*outputs, gradient], [], [node])

    def place(self, where: Placement) -> None:
        """Args: where: that of a program without stages."""
        options = dict(self.options)
        if system().recompute:
            options["recompute"] = "full"
        if self.optimizer is not None:
            options["offload_optimizer_state"] = offloads(options["offload_optimizer_state"])
        where = placement(self.shards)
        self._replicas = where.count
        if self.outfeed is not None:
            self.outfeed.replicas = self._replicas
        homes: dict[str, list[Any]] = {}
        for level, stages in enumerate(self._stages):
            for member, stage in enumerate(stages):
                for name in stage.params:
                    homes.setdefault(name, []).append(((level, member) if len(stages) > 1 else level, name))
        options |= {"devices": where.devices, "replicas": self._replicas, "plan_options": system().plan_options or None}
        options["tied"] = [paths for paths in homes.values() if len(paths) > 1]
        stages = [_level(stage.function for stage in level) for level in self._stages]
        try:
            self._pipeline = train.Pipeline(stages, None if self.optimizer is None else self._transformation, **options)
        except ValueError as error:
            error.args = (str(error).replace("; or strict=False", ""),)  # an option that the original has not
            raise

    def run(self, home: Home, inputs: Sequence[Any], variables: MutableMapping[str, Any]) -> Sequence[Any]:
        state = self._state_of(home, variables)
        self._initial = dict(variables)
        infeed = None if self.infeed is None else self.infeed.opened(self._replicas)
        outfeed = None if self.outfeed is None else self.outfeed.queue
        try:
            state = self._pipeline.run(state, infeed, outfeed, inputs=list(inputs), repeat_count=self.repeat_count)
        except BaseException as error:
            state = getattr(error, "state", None) or state
            raise
        finally:
            self._initial = {}
            self._states[home] = state
            aux = state.aux  # each replica has its own: the session gets one
            if self._replicas > 1:
                aux = [_of_first_replica(each) for each in jax.tree.leaves(aux, is_leaf=lambda tree: isinstance(tree, dict))]
            self._shown.update(_by_name(aux))
            variables.update(_by_name((state.params, state.optimizer_state, aux)))
        return []

    def _state_of(self, home: Home, variables: Mapping[str, Any]) -> Any:
        kept = self._states.get(home)
        if kept is None or any(isinstance(each, jax.Array) and each.is_deleted() for each in jax.tree.leaves(kept)):
            params = [_level({name: variables[name] for name in stage.params} for stage in level) for level in self._stages]
            aux = [_level({name: variables[name] for name in stage.aux} or None for stage in level) for level in self._stages]
            return self._pipeline.init(params, aux if _by_name(aux) else None)

        def newest(path: Any, leaf: Any, is_aux: bool = False) -> Any:
            name = str(getattr(path[-1], "key", ""))
            value = variables.get(name, leaf)
            if value is (self._shown.get(name) if is_aux else leaf):
                return leaf
            return jax.device_put(np.broadcast_to(np.asarray(value, leaf.dtype), leaf.shape), leaf.sharding)

        params, optimizer_state = (jax.tree_util.tree_map_with_path(newest, tree) for tree in (kept.params, kept.optimizer_state))
        aux = jax.tree_util.tree_map_with_path(functools.partial(newest, is_aux=True), kept.aux)
        return dataclasses.replace(kept, params=params, optimizer_state=optimizer_state, aux=aux)

    def _transformation(self, *outputs: Any) -> Any:
        """The optimizer function, as the runtime takes it: each variable has an update of its own."""
        assert self.optimizer is not None

        def init(params: Pytree) -> Pytree:
            slots = {name: self._updates[name].variables for name in _by_name(params) if name in self._updates}
            return {name: {slot: self._first(slot) for slot in own if slot != name} for name, own in slots.items()}

        def update(updates: Pytree, state: Pytree, params: Pytree = None) -> Any:
            own, new_state = _by_name(params), {}
            changed = {name: jax.numpy.zeros_like(value) for name, value in own.items() if name not in self._updates}
            for name, slots in state.items():
                given = [*outputs, _by_name(updates)[name]]
                change, new_state[name] = changes(self._updates[name], given, {name: own[name]}, slots)
                changed |= change
            return jax.tree_util.tree_map_with_path(lambda path, _: changed[path[-1].key], params), new_state

        return optax.GradientTransformation(init, update), outputs[self.optimizer.loss]

    def _first(self, slot: str) -> Any:
        value = np.asarray(self._initial[slot])
        return jax.numpy.zeros(value.shape, jax.dtypes.canonicalize_dtype(value.dtype)) if not value.any() else jax.numpy.asarray(value)


def _level(items: Iterable[Any]) -> Any:
    """The item of a level's stage, or a list of those of concurrent ones."""
    given = list(items)
    return given[0] if len(given) == 1 else given


def _by_name(tree: Pytree) -> dict[str, Any]:
    return {path[-1].key: leaf for path, leaf in jax.tree_util.tree_flatten_with_path(tree)[0] if hasattr(path[-1], "key")}


@jax.jit
def _of_first_replica(tree: Pytree) -> Pytree:
    return jax.tree.map(lambda leaf: leaf[0], tree)
