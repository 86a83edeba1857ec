"""Makes the programs of one stage of a pipeline: forward, backward, or both at once.

A forward program returns the stage's outputs and the values that its backward needs (residuals.py).
"""

import functools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import jax
from jax.extend.core import JaxprEqn
from jax.sharding import Sharding

from tilestep.train.gradients.accumulation import Reduction, added
from tilestep.train.jaxprs import flat_jaxpr, gradient_of, halves, is_real
from tilestep.train.offload import HOST_KIND, on_device, placed_like, sharding_on_device
from tilestep.train.pipeline.compile.packing import Packing, packed, unpacked
from tilestep.train.pipeline.compile.placement import StagePlacement
from tilestep.train.pipeline.compile.residuals import residuals
from tilestep.train.pipeline.compile.watched.marks import extracted
from tilestep.train.pipeline.compile.watched.stage_watch import NOTHING, StageWatch, WatchedValue, given, totals_of
from tilestep.train.untyped import Pytree
from tilestep.train.untyped import jax as _jax
from tilestep.train.untyped import jnp as _jnp

Program = Callable[..., Any]
Arrays = Sequence[jax.Array]
Hidden = frozenset[int]  # indices of a stage's outputs' leaves that its programs do not return, see hidden.py
Call = Callable[
    [Any, Sequence[Any]], tuple[tuple[Any, ...], Any]
]  # (parameters, argument leaves) -> (outputs, spread; new auxiliary state)


@dataclass(frozen=True, kw_only=True)
class Stage:
    """A stage as traced for certain parameters and arguments. Specs are shapes and dtypes of one replica."""

    number: int  # number of the stage
    placement: StagePlacement  # its devices
    call: Call  # its function of parameters and the leaves of its arguments
    params: Pytree  # the tree of its parameters' specs
    param_shardings: tuple[Any, ...]  # the shardings of the parameters' leaves
    # specs of its arguments' leaves: values from the level before, then auxiliary state, then values that all replicas share
    args: tuple[Any, ...]
    axes: tuple[int | None, ...]  # for each argument the axis that counts replicas
    aux: Pytree  # the tree of the auxiliary state's specs
    needs_gradient: tuple[int, ...]  # indices of the arguments' leaves whose gradients another stage needs
    outputs: Pytree  # the tree of its outputs' specs
    text: str  # its traced function as JAX writes it
    own_gradients: tuple[JaxprEqn, ...] = ()  # its calls of functions whose gradient is their author's
    watch: StageWatch = NOTHING
    # for each real parameter whether its accumulator is in the host's memory between microbatches; () for none
    accumulators_away: tuple[bool, ...] = ()

    def watched_call(self, params: Pytree, args: Sequence[Any], slots: Arrays) -> tuple[tuple[Any, ...], Any, list[jax.Array]]:
        """`call`, and the marked values that are watched. Args: slots: for the gradients that are, see marks.py."""
        watch = self.watch
        if not (watch.values or watch.gradients):
            return *self.call(params, args), []
        (outputs, aux), seen = extracted(self.call, watch.names)(params, args, watch.by_name(slots))
        return outputs, aux, [_jax.lax.convert_element_type(seen[own.name], own.dtype) for own in watch.values]  # without weak types

    @functools.cached_property
    def params_structure(self) -> Any:
        """The structure of the parameters' tree."""
        return _jax.tree.structure(self.params)

    @functools.cached_property
    def aux_structure(self) -> Any:
        """The structure of the auxiliary state's tree."""
        return _jax.tree.structure(self.aux)

    @property
    def real_params(self) -> tuple[int, ...]:
        """Places of the parameters' leaves that have gradients."""
        return tuple(index for index, leaf in enumerate(_jax.tree.leaves(self.params)) if is_real(leaf))

    @functools.cached_property
    def shardings_on_device(self) -> tuple[Any, ...]:
        """The shardings of the parameters' leaves where programs compute with them."""
        return tuple(map(sharding_on_device, self.param_shardings))

    @functools.cached_property
    def gradient_text(self) -> str:
        """The gradients that its authors have written, as JAX writes them: `text` does not have them."""
        traced = (self.placement.traced(function, *specs) for function, specs in map(gradient_of, self.own_gradients))
        return "\n".join(str(closed) for closed, _ in traced)

    @property
    def accumulator_shardings(self) -> list[Sharding] | None:
        """The shardings of the accumulators on a mesh; None elsewhere, because JAX finds them."""
        if not self.placement.is_mesh:
            return None
        found = [self.placement.accumulator_sharding(self.shardings_on_device[index]) for index in self.real_params]
        away = self.accumulators_away or (False,) * len(found)
        return [own.with_memory_kind(HOST_KIND) if is_away else own for own, is_away in zip(found, away, strict=True)]


@dataclass(frozen=True, kw_only=True)
class Packings:
    """Which arrays of a stage its programs take in packs."""

    params: Packing  # the packing of the parameters' leaves
    accumulators: Packing  # the packing of the accumulators
    values: bool  # whether small values for backward are packed, too, and elementwise values are computed again for it


@dataclass(frozen=True, kw_only=True)
class Programs:
    """Jitted functions over leaves. Parameters, accumulators and kept values are packed as `Packings` says."""

    # (params, args, totals) -> (leaves of the outputs that are sent, of the auxiliary state, and of the kept values; then rows and totals
    # of the marked values that are watched, see `StageWatch`). It donates totals, as all programs do.
    forward: Program
    kept_args: tuple[int, ...] = ()  # indices of the arguments that backward reads
    kept_params: tuple[int, ...] = ()  # indices of the parameters that it reads, among all leaves. It reads all if some are packed.
    keeps_away: bool = False  # whether some kept values are in the host's memory
    # (accumulators, these parameters, kept arguments, kept values, gradients of the outputs' real leaves, microbatch, totals) ->
    # (accumulators, gradients of the arguments that need one, rows and totals of the marked values' gradients that are watched). It donates
    # the accumulators.
    backward: Program | None = None
    # (these parameters, kept arguments, kept values, gradients of the outputs, totals) -> (gradients of the arguments that need one, values
    # for the weights' gradient, rows and totals as `backward` has them)
    input_gradient: Program | None = None
    # (accumulators, these parameters, kept arguments, kept values, gradients of the outputs, values of the input's gradient, microbatch) ->
    # (accumulators,). It donates the accumulators.
    weight_gradient: Program | None = None
    real_outputs: tuple[int, ...]  # indices of the outputs' leaves that have gradients


def make_programs(
    stage: Stage, packings: Packings | None, sent: Sequence[int], hidden: Hidden, *, split: bool, reduction: Reduction
) -> Programs:
    """The programs of a stage that is not the last one, or is in inference.

    Args: packings: None in inference. sent: indices of the outputs' leaves that forward returns.
    hidden: those of them of the last level, in inference, that are None in its place. split: whether its backward is in two.
    """
    leaves, structure = _jax.tree.leaves(stage.params), stage.params_structure
    real_outputs = tuple(index for index, leaf in enumerate(_jax.tree.leaves(stage.outputs)) if is_real(leaf))
    watch = stage.watch
    if packings is None:

        def forward_only(params: Arrays, args: Arrays, totals: Arrays) -> tuple[list[Any], ...]:
            outputs, aux, values = stage.watched_call(_jax.tree.unflatten(structure, on_device(list(params))), args, ())
            leaves = visible(_jax.tree.leaves(outputs), hidden)
            return [leaves[index] for index in sent], _jax.tree.leaves(aux), [], *given(watch.values, values, totals)

        return Programs(forward=_forward_program(stage, forward_only), real_outputs=real_outputs)
    real_params = stage.real_params

    def linearised(params: Arrays, args: Arrays) -> tuple[list[jax.Array], list[jax.Array], Any]:
        def function(some_params: Arrays, some_args: Arrays, slots: Arrays) -> tuple[list[jax.Array], tuple[list[Any], list[Any]]]:
            tree = _jax.tree.unflatten(structure, _replaced(params, real_params, some_params))
            results, aux, values = stage.watched_call(tree, _replaced(args, stage.needs_gradient, some_args), slots)
            outputs = _jax.tree.leaves(results)
            return [outputs[index] for index in real_outputs], ([*outputs, *values], _jax.tree.leaves(aux))

        wanted = [params[index] for index in real_params], [args[index] for index in stage.needs_gradient], watch.slots()
        _, pullback, (outputs, aux) = _jax.vjp(function, *wanted, has_aux=True)
        return outputs, aux, pullback

    wanted = [_jax.tree.leaves(stage.outputs)[index] for index in real_outputs]
    parts = residuals(stage.placement, linearised, leaves, stage.args, wanted, least=packings.values)
    kept_params = tuple(range(len(leaves))) if packings.params.packs else parts.kept_params
    packing = packed(parts.specs, but=parts.away) if packings.values else unpacked(parts.specs)

    def forward(params: Arrays, args: Arrays, totals: Arrays) -> tuple[list[jax.Array], ...]:
        outputs, aux, kept = parts.forward(packings.params.unpack(on_device(list(params))), args)
        values = outputs[len(outputs) - len(watch.values) :]
        return [outputs[index] for index in sent], aux, packing.pack(kept), *given(watch.values, values, totals)

    def pulled_back(params: Arrays, args: Arrays, kept: Arrays, gradients: Arrays) -> tuple[list[jax.Array], ...]:
        """Gradients of the real parameters, of the arguments that need one, and of slots. What a program does not return is dropped."""
        if packings.params.packs:
            every = packings.params.unpack(params)
            params = [every[index] for index in parts.kept_params]
        return parts.pullback(params, args, packing.unpack(kept))(gradients)

    def backward(
        accumulators: Arrays, params: Arrays, args: Arrays, kept: Arrays, gradients: Arrays, microbatch: jax.Array, totals: Arrays
    ) -> tuple[list[jax.Array], ...]:
        of_params, of_args, of_slots = pulled_back(on_device(list(params)), args, kept, gradients)
        new = accumulated(accumulators, packings.accumulators.pack(of_params), microbatch, reduction)
        return new, of_args, *given(watch.gradients, of_slots, totals)

    axes = [stage.axes[index] for index in parts.kept_args]
    programs = Programs(
        forward=_forward_program(stage, forward),
        kept_args=parts.kept_args,
        kept_params=kept_params,
        keeps_away=bool(parts.away),
        backward=stage.placement.jit(
            backward,
            f"stage_{stage.number}_backward",
            (0, None, axes, 0, 0, None, 0),
            (0, 0, 0, 0),
            donate=(0, *_donated_totals(stage, 6, watch.gradients)),
            out_shardings=_accumulators_first(stage, others=3),
        ),
        real_outputs=real_outputs,
    )
    return _split(stage, packings.accumulators, programs, pulled_back, axes, reduction) if split else programs


def _forward_program(stage: Stage, forward: Program) -> Program:
    donated = _donated_totals(stage, 2, stage.watch.values)
    return stage.placement.jit(forward, f"stage_{stage.number}_forward", (None, stage.axes, 0), (0, 0, 0, 0, 0), donate=donated)


def _donated_totals(stage: Stage, argument: int, seen: Sequence[WatchedValue]) -> tuple[int, ...]:
    """The argument that has totals, if there are any: it is donated. On a mesh JAX decides where results are."""
    return (argument,) if totals_of(seen) and not stage.placement.is_mesh else ()


def _split(
    stage: Stage, packing: Packing, programs: Programs, pulled_back: Program, axes: list[int | None], reduction: Reduction
) -> Programs:
    """The programs with backward in two. The second computes nothing that the first has computed.

    The cut is made when the first one is traced, because only then the shapes of kept values are known.
    """
    later: Callable[[Sequence[Any], Sequence[Any]], list[Any]] | None = None
    first, watched = len(stage.needs_gradient), stage.watch.gradients

    def input_gradient(params: Arrays, args: Arrays, kept: Arrays, gradients: Arrays, totals: Arrays) -> tuple[list[jax.Array], ...]:
        nonlocal later
        operands = [on_device(list(params)), list(args), list(kept), list(gradients)]

        def in_order(*operands: Any) -> list[jax.Array]:
            of_params, of_args, of_slots = pulled_back(*operands)
            return [*of_args, *of_slots, *of_params]

        now, later = halves(flat_jaxpr(in_order, *operands), first + len(watched))
        results, crossed = now(_jax.tree.leaves(operands))
        return results[:first], crossed, *given(watched, results[first:], totals)

    def weight_gradient(
        accumulators: Arrays, params: Arrays, args: Arrays, kept: Arrays, gradients: Arrays, crossed: Arrays, microbatch: jax.Array
    ) -> tuple[list[jax.Array]]:
        assert later is not None  # the other program was traced before, because this one reads its results
        of_params = later(_jax.tree.leaves([on_device(list(params)), list(args), list(kept), list(gradients)]), crossed)
        return (accumulated(accumulators, packing.pack(of_params), microbatch, reduction),)

    jit, name = stage.placement.jit, f"stage_{stage.number}"
    return replace(
        programs,
        input_gradient=jit(
            input_gradient,
            f"{name}_input_gradient",
            (None, axes, 0, 0, 0),
            (0, 0, 0, 0),
            donate=_donated_totals(stage, 4, watched),
        ),
        weight_gradient=jit(
            weight_gradient,
            f"{name}_weight_gradient",
            (0, None, axes, 0, 0, 0, None),
            (0,),
            donate=(0,),
            out_shardings=_accumulators_first(stage, others=0),
        ),
    )


def make_last(
    stage: Stage, packings: Packings, loss_of: Callable[..., Any], hidden: Hidden, *, loss_too: bool, reduction: Reduction
) -> Program:
    """Forward and backward of the stage that gives the loss.

    (accumulators, params, args, microbatch, totals) -> (accumulators, leaves of the outputs, of the auxiliary state, [the loss] or [],
    gradients of the arguments; then rows and totals of all marked values that are watched, and behind them of gradients).

    Args: loss_of: (outputs) -> loss. hidden: the outputs' leaves that are None in their place.
    loss_too: whether the loss is one more result, because it is no output of the stage.
    """
    structure, real_params, watch = stage.params_structure, stage.real_params, stage.watch
    watched = (*watch.values, *watch.gradients)

    def both(accumulators: Arrays, params: Arrays, args: Arrays, microbatch: jax.Array, totals: Arrays) -> tuple[Any, ...]:
        params = packings.params.unpack(on_device(list(params)))

        def function(some_params: Arrays, some_args: Arrays, slots: Arrays) -> tuple[Any, Any]:
            tree = _jax.tree.unflatten(structure, _replaced(params, real_params, some_params))
            outputs, aux, values = stage.watched_call(tree, _replaced(args, stage.needs_gradient, some_args), slots)
            return loss_of(*outputs), (_jax.tree.leaves(outputs), _jax.tree.leaves(aux), values)

        wanted = [params[index] for index in real_params], [args[index] for index in stage.needs_gradient], watch.slots()
        loss, pullback, (outputs, aux, values) = _jax.vjp(function, *wanted, has_aux=True)
        of_params, of_args, of_slots = pullback(_jnp.ones((), loss.dtype))
        new = accumulated(accumulators, packings.accumulators.pack(of_params), microbatch, reduction)
        return new, visible(outputs, hidden), aux, [loss] if loss_too else [], of_args, *given(watched, [*values, *of_slots], totals)

    return stage.placement.jit(
        both,
        f"stage_{stage.number}_forward_and_backward",
        (0, None, stage.axes, None, 0),
        (0, 0, 0, 0, 0, 0, 0),
        donate=(0, *_donated_totals(stage, 4, watched)),
        out_shardings=_accumulators_first(stage, others=6),
    )


def visible(outputs: Arrays, hidden: Hidden) -> list[jax.Array | None]:
    """Leaves of a stage's outputs, None for those that are hidden."""
    return [None if index in hidden else leaf for index, leaf in enumerate(outputs)]


def accumulated(accumulators: Arrays, gradients: Arrays, microbatch: jax.Array, reduction: Reduction) -> list[jax.Array]:
    """The accumulators plus one more microbatch's gradients, in the memory in which they are."""
    held = list(accumulators)
    return placed_like(added(on_device(held), list(gradients), microbatch, reduction), held)


def _accumulators_first(stage: Stage, *, others: int) -> tuple[list[Sharding] | None, ...] | None:
    """The shardings of a program's results: the accumulators, then others for which JAX finds one; None if it finds all."""
    placed = stage.accumulator_shardings
    return None if placed is None else (placed, *[None] * others)


def _replaced(values: Arrays, indices: Sequence[int], new: Arrays) -> list[jax.Array]:
    replaced = list(values)
    for index, value in zip(indices, new, strict=True):
        replaced[index] = value
    return replaced


_CALLS_PYTHON: Final = re.compile(r"(callback|debug_print)\[")  # in a program as JAX writes it: it may fail after it was started


def calls_python(stage: Stage, *, training: bool) -> bool:
    """Whether a stage calls Python, which may raise. Args: training: whether its gradient is computed, too."""
    return _is_call_in(stage.text) or (training and _is_call_in(stage.gradient_text))


@functools.lru_cache(maxsize=256)
def _is_call_in(text: str) -> bool:
    return bool(_CALLS_PYTHON.search(text))
