"""A model as the planner knows it: layers, shapes between them, what each must compute, and what each takes by itself."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from math import prod
from typing import Any, Final, cast, final

import jax
from jax.interpreters import partial_eval
from jax.sharding import PartitionSpec

from tilestep.machine.spec import IpuSpec, MachineSpec
from tilestep.messages import shown
from tilestep.options import PlanOptions
from tilestep.pjrt.programs.planning import plan_for
from tilestep.planner.products import least_macs, macs_per_cycle
from tilestep.planner.sharding import Specs, on_mesh, share, within
from tilestep.profiling.plugin import initialize
from tilestep.sim.cycles.body import body_cost
from tilestep.train.jaxprs import is_real
from tilestep.train.other_arguments import name_of
from tilestep.train.pipeline.compile.updates.tied import leaves_tied
from tilestep.train.planned import plan_options_of
from tilestep.train.untyped import Pytree, Spec
from tilestep.train.untyped import jax as _jax

Layer = Callable[..., Any]
Path = tuple[int, tuple[Any, ...]]  # a layer, and keys below its parameters


@dataclass(frozen=True, kw_only=True)
class Least:
    """What no program of a layer can do without, for one microbatch.

    Attributes:
        forward: cycles of products at the matrix units' peak.
        backward: the same, beside forward.
        again: the same, of a backward that has nothing but the layer's arguments, so that it computes some of forward again.
    """

    forward: float
    backward: float
    again: float


@dataclass(frozen=True, kw_only=True)
class Alone:
    """What a layer takes by itself, for one microbatch: a guess of what it takes in a stage.

    Attributes:
        forward: cycles.
        backward: cycles beside forward.
        code_bytes: on a tile, of both.
        transient_bytes: on the fullest tile.
        stash_bytes: on all tiles of an IPU: what backward needs of forward, beside the parameters.
        input_bytes: on all tiles: its arguments.
        output_bytes: that it passes on.
    """

    forward: float
    backward: float
    code_bytes: float
    transient_bytes: float
    stash_bytes: float
    input_bytes: float
    output_bytes: float


@final
class Model:
    """A list of layers whose last one returns the loss.

    Args:
        layers: functions (params, *args) -> outputs.
        params: for each layer a pytree of shapes.
        sample: arguments of the first layer, whose first dimension counts samples.
        loss: of the last layer's outputs; None: the last layer returns it.
        specs: of each layer's leaves how they are divided over the IPUs of a stage; None: they are not.
        options: of programs' plans, as `Pipeline` takes them.
        ties: (layer, path below it) of parameters that are one.

    Attributes:
        layers: with the loss.
        params: as given.
        specs: as given.
        options: as given.
        ties: as given.
        copies: leaves (layer, index) that are copies of another, and this one.

    Raises:
        TypeError, ValueError: where layers do not fit together, with a note of the layer.
    """

    def __init__(
        self,
        layers: Sequence[Layer],
        params: Sequence[Pytree],
        sample: Sequence[Any],
        loss: Layer | None,
        specs: Sequence[Specs] | None = None,
        options: Mapping[str, Any] | None = None,
        ties: Sequence[Sequence[Path]] = (),
    ) -> None:
        self.layers: Final = (*layers[:-1], layers[-1] if loss is None else _with_loss(layers[-1], loss))
        self.params: Final = tuple(params)
        self.specs: Final = specs
        self.options: Final = options
        self.ties: Final = ties
        self.copies: Final = {leaf: first for first, *others in leaves_tied(ties, self.params) for leaf in others}
        self._plan: Final = PlanOptions().changed(dict(plan_options_of(options)))
        self._sample: Final = tuple(sample)
        self._arguments: Final[dict[int, list[tuple[Spec, ...]]]] = {}
        self._bodies: Final[dict[Any, _Body]] = {}
        self._alone: Final[dict[tuple[_Traced, MachineSpec], Alone]] = {}  # a traced layer is one of so many shards

    def arguments(self, samples: int) -> list[tuple[Spec, ...]]:
        """Of each layer its arguments for so many samples, and the last layer's outputs behind them."""
        if samples not in self._arguments:

            def resized(leaf: Any) -> Spec:
                return _spec(leaf, (samples, *leaf.shape[1:]))

            given = tuple(_jax.tree.map(resized, each) for each in self._sample)
            found = [given]
            for number, (layer, own) in enumerate(zip(self.layers, self.params, strict=True)):
                try:
                    with self._within(1):
                        given = _spread(_jax.eval_shape(layer, own, *given))
                except Exception as error:
                    types = [str(jax.typeof(leaf)) for leaf in _jax.tree.leaves(given)]
                    error.add_note(f"raised by layer {number} ({name_of(layer)}), with arguments {shown(types)}")
                    raise
                found.append(given)
            if getattr(_first(given), "shape", None) != ():
                raise ValueError(
                    f"the last layer ({name_of(self.layers[-1])}) returns {shown(str(_first(given)))} first: it must return the loss, a "
                    "scalar, or give plan_training a function `loss` of its outputs"
                )
            self._arguments[samples] = found
        return self._arguments[samples]

    def read(self, samples: int) -> list[Spec]:
        """Arguments of so many samples that the first layer reads."""
        with self._within(1):
            body = _Body(self.layers[0], self.params[0], self.arguments(samples)[0])
        leaves = _jax.tree.leaves(self.arguments(samples)[0])
        return [leaf for index, leaf in enumerate(leaves) if any(body.reads(out, index) for out in range(body.outputs))]

    def least(self, samples: int, ipu: IpuSpec) -> list[Least]:
        """Of each layer what no program can do without."""
        traced = self._traced(samples, 1)
        return [_least(each, ipu) for each in traced]

    def alone(self, samples: int, machine: MachineSpec, shards: int) -> list[Alone]:
        """Of each layer what it takes by itself on so many IPUs. Layers of one kind are planned once."""
        arguments = self.arguments(samples)
        found: list[Alone] = []
        for number, each in enumerate(self._traced(samples, shards)):
            if (each, machine) not in self._alone:
                specs = () if self.specs is None else self.specs[number]
                forward, _, _ = _planned(each.forward, machine, specs, shards, self._plan)
                both, code, transient = _planned(each.both, machine, specs, shards, self._plan)
                self._alone[each, machine] = Alone(
                    forward=forward,
                    backward=max(0, both - forward),
                    code_bytes=code,
                    transient_bytes=transient,
                    stash_bytes=max(0, sum(bytes_of(out.aval) for out in each.kept.jaxpr.outvars) - bytes_of(self.params[number])) / shards,
                    input_bytes=bytes_of(arguments[number]),
                    output_bytes=bytes_of(arguments[number + 1]),
                )
            found.append(self._alone[each, machine])
        return found

    def held(self, tree: Sequence[Any], layer: int, shards: int) -> int:
        """Bytes of a layer's leaves on each of so many IPUs. Args: tree: for each leaf a spec, or None for one that does not count."""
        specs = [PartitionSpec()] * len(tree) if self.specs is None else self.specs[layer]
        return sum(0 if leaf is None else bytes_of(leaf) // share(spec, shards) for leaf, spec in zip(tree, specs, strict=True))

    def copied(self, layers: Collection[int], shards: int) -> int:
        """Bytes of parameters of these layers that are copies of others of them, on each of so many IPUs."""
        found = 0
        for (layer, index), (original, _) in self.copies.items():
            if layer in layers and original in layers:
                leaves = _jax.tree.leaves(self.params[layer])
                found += self.held([leaf if number == index else None for number, leaf in enumerate(leaves)], layer, shards)
        return found

    def _within(self, shards: int) -> AbstractContextManager[Any]:
        return nullcontext() if self.specs is None else within(shards)

    def _traced(self, samples: int, shards: int) -> list[_Traced]:
        arguments = self.arguments(samples)
        bodies: list[_Body] = []
        with self._within(shards):
            for layer, own, given in zip(self.layers, self.params, arguments, strict=False):
                leaves, structure = _jax.tree.flatten((own, given))
                kind = (layer, shards, structure, tuple((leaf.shape, leaf.dtype) for leaf in leaves))
                if kind not in self._bodies:
                    self._bodies[kind] = _Body(layer, own, given)
                bodies.append(self._bodies[kind])
            differ: list[tuple[bool, ...]] = []  # by layer: which arguments depend on parameters that are trained
            ahead = (False,) * bodies[0].count
            for body in bodies:
                differ.append(ahead)
                ahead = tuple(body.is_real_output(out) and body.depends(out, ahead) for out in range(body.outputs))
            wanted: list[tuple[int, ...]] = []  # by layer, last first: which outputs the loss needs
            own_wanted: tuple[int, ...] = (0,)
            for body in reversed(bodies):
                wanted.append(own_wanted)
                own_wanted = tuple(index for index in range(body.count) if any(body.reads(out, index) for out in own_wanted))
            return [body.traced(inputs, outputs) for body, inputs, outputs in zip(bodies, differ, reversed(wanted), strict=True)]


@dataclass(frozen=True, kw_only=True, eq=False)
class _Traced:
    """A layer's programs, which layers of one kind share.

    Attributes: forward: alone. both: with backward. backward: of the arguments alone. kept: what backward needs of forward.
    """

    forward: Any
    both: Any
    backward: Any
    kept: Any


@final
class _Body:
    """One layer as a function of flat arguments: its parameters, then what comes from the layer before."""

    def __init__(self, layer: Layer, params: Pytree, given: tuple[Spec, ...]) -> None:
        own, structure = _jax.tree.flatten(params)
        leaves, of_args = _jax.tree.flatten(given)
        self.count, self._own, self._leaves = len(leaves), len(own), [*own, *leaves]

        def flat(*values: Any) -> list[Any]:
            args = _jax.tree.unflatten(of_args, values[len(own) :])
            return _jax.tree.leaves(_spread(layer(_jax.tree.unflatten(structure, values[: len(own)]), *args)))

        self._flat = flat
        self._jaxpr = _jax.make_jaxpr(flat)(*self._leaves).jaxpr
        self.outputs = len(self._jaxpr.outvars)
        self._reads = [
            partial_eval.dce_jaxpr(self._jaxpr, [number == out for number in range(self.outputs)])[1] for out in range(self.outputs)
        ]

    def reads(self, out: int, argument: int) -> bool:
        """Whether an output depends on an argument."""
        return self._reads[out][self._own + argument]

    def depends(self, out: int, differ: Sequence[bool]) -> bool:
        """Whether an output depends on this layer's trained parameters, or on arguments that depend on others'."""
        trained = [is_real(leaf) for leaf in self._leaves[: self._own]]
        return any(reads and slope for reads, slope in zip(self._reads[out], (*trained, *differ), strict=True))

    def is_real_output(self, out: int) -> bool:
        """Whether an output is of real numbers."""
        return is_real(self._jaxpr.outvars[out].aval)

    @functools.cache  # noqa: B019 - a body lives as long as its model
    def traced(self, differ: tuple[bool, ...], wanted: tuple[int, ...]) -> _Traced:
        """Its programs. Args: differ: arguments that have a gradient. wanted: outputs that are used."""
        sloped = [out for out in wanted if self.is_real_output(out) and self.depends(out, differ)]
        real = [number < self._own or differ[number - self._own] for number in range(len(self._leaves))]
        chosen = [number for number, (leaf, slopes) in enumerate(zip(self._leaves, real, strict=True)) if slopes and is_real(leaf)]
        slopes = [_spec(self._jaxpr.outvars[out].aval, self._jaxpr.outvars[out].aval.shape) for out in sloped]

        def forward(values: Sequence[Any]) -> list[Any]:
            results = self._flat(*values)
            return [results[out] for out in wanted]

        def pulled(values: Sequence[Any]) -> tuple[Any, list[Any]]:
            def some(own: Sequence[Any]) -> tuple[list[Any], list[Any]]:
                every = list(values)
                for index, value in zip(chosen, own, strict=True):
                    every[index] = value
                results = self._flat(*every)
                return [results[out] for out in sloped], [results[out] for out in wanted]

            _, pull, results = _jax.vjp(some, [values[index] for index in chosen], has_aux=True)
            return pull, results

        def both(values: Sequence[Any], back: Sequence[Any]) -> tuple[list[Any], list[Any]]:
            pull, results = pulled(values)
            return results, pull(list(back))[0] if sloped and chosen else []

        def backward(values: Sequence[Any], back: Sequence[Any]) -> list[Any]:
            return both(values, back)[1]

        def kept(values: Sequence[Any]) -> list[Any]:
            return _jax.tree.leaves(pulled(values)[0])

        return _Traced(
            forward=_jax.make_jaxpr(forward)(self._leaves),
            both=_jax.make_jaxpr(both)(self._leaves, slopes),
            backward=_jax.make_jaxpr(backward)(self._leaves, slopes),
            kept=_jax.make_jaxpr(kept)(self._leaves),
        )


def _least(traced: _Traced, ipu: IpuSpec) -> Least:
    rate = ipu.num_tiles * macs_per_cycle(ipu, traced.both.jaxpr)
    programs = (traced.forward.jaxpr, traced.both.jaxpr, traced.backward.jaxpr)
    needed = (partial_eval.dce_jaxpr(each, [True] * len(each.outvars))[0] for each in programs)
    forward, both, again = map(least_macs, needed)
    return Least(forward=forward / rate, backward=max(0, both - forward) / rate, again=max(both - forward, again, 0) / rate)


def _planned(closed: Any, machine: MachineSpec, specs: Specs, shards: int, options: PlanOptions) -> tuple[int, int, int]:
    """(cycles, bytes of code, bytes of values on the fullest tile) of a program whose arguments are in the tiles."""
    initialize()  # JAX lowers for the emulated machine whether or not the process uses it as a platform
    given = on_mesh([variable.aval for variable in closed.jaxpr.invars], specs, shards)
    lowered = _jax.jit(_jax.extend.core.jaxpr_as_fun(closed)).trace(*given).lower(lowering_platforms=("ipu",))
    program = plan_for(machine, lowered, resident=True, options=options)
    body, memory = body_cost(program, machine, range(program.num_ipus)), program.memory
    return sum(part.total for part in (body.fixed, *body.counted.values())), memory.code_bytes, memory.transient_bytes


def _with_loss(layer: Layer, loss: Layer) -> Layer:
    @functools.wraps(layer)
    def last(params: Pytree, *args: Any) -> Any:
        return loss(*_spread(layer(params, *args)))

    return last


def _spread(result: Any) -> tuple[Any, ...]:
    return cast("tuple[Any, ...]", result) if isinstance(result, tuple) else (result,)


def _first(outputs: tuple[Any, ...]) -> Any:
    return outputs[0] if outputs else None


def _spec(leaf: Any, shape: tuple[int, ...]) -> Spec:
    return jax.ShapeDtypeStruct(shape, leaf.dtype)


def bytes_of(tree: Pytree) -> int:
    """Bytes of all arrays of a pytree."""
    return sum(prod(leaf.shape) * leaf.dtype.itemsize for leaf in _jax.tree.leaves(tree) if hasattr(leaf, "shape"))
