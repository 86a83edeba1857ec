"""The programs of one stage of a pipeline: forward, backward, both at once, update.

A forward program returns what the stage's function returns and what its backward needs beside it. Of the latter nothing is kept that is
there anyway: not the stage's arguments, which the engine holds, and not what depends on its weights alone, which backward makes again
from the weights that it gets. So with weights that have changed meanwhile, backward computes with the new ones and with the activations
of the old.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from tilestep.train.accumulation import Reduction, added

_jax: Any = jax  # whose types say nothing of what is in a tree
_jnp: Any = jnp

Program = Callable[..., Any]
Call = Callable[[Any, Sequence[Any]], tuple[Any, ...]]  # (parameters, argument leaves) -> outputs, spread


@dataclass(frozen=True, kw_only=True)
class Stage:
    """A stage as traced for certain parameters and arguments.

    Attributes:
        number: of the stage.
        call: its function, of parameters and the leaves of its arguments.
        params: the tree of its parameters, shapes and dtypes.
        args: its arguments' leaves, shapes and dtypes.
        needs_gradient: of the arguments' leaves, the places of those for which a gradient is wanted.
        outputs: the tree of what `call` returns, shapes and dtypes.
    """

    number: int
    call: Call
    params: Any
    args: tuple[Any, ...]
    needs_gradient: tuple[int, ...]
    outputs: Any


@dataclass(frozen=True, kw_only=True)
class Programs:
    """Jitted functions over leaves.

    Attributes:
        forward: (params, args) -> (outputs' leaves, what is kept beside the arguments).
        kept_args: places of the arguments that backward reads.
        backward: (accumulators, params, kept arguments, kept values, gradients of the outputs' real leaves, microbatch) -> (accumulators,
            gradients of the arguments that need one). The accumulators are donated.
        input_gradient: (params, kept arguments, kept values, gradients of the outputs) -> gradients of the arguments that need one.
        weight_gradient: as `backward`, -> accumulators.
        real_outputs: places of the outputs' leaves that have gradients.
    """

    forward: Program
    kept_args: tuple[int, ...]
    backward: Program | None
    input_gradient: Program | None
    weight_gradient: Program | None
    real_outputs: tuple[int, ...]


def is_real(leaf: Any) -> bool:
    """Whether it has a gradient: real or complex numbers, not integers."""
    return bool(_jnp.issubdtype(leaf.dtype, _jnp.inexact))


def make_programs(stage: Stage, *, training: bool, reduction: Reduction) -> Programs:
    """The programs of a stage that is not the last one, or is in inference."""
    leaves, structure = _jax.tree.flatten(stage.params)
    out_leaves = _jax.tree.leaves(stage.outputs)
    real_outputs = tuple(place for place, leaf in enumerate(out_leaves) if is_real(leaf))
    name = f"stage_{stage.number}"
    if not training:

        def forward_only(params: Sequence[Any], args: Sequence[Any]) -> tuple[list[Any], list[Any]]:
            return _jax.tree.leaves(stage.call(_jax.tree.unflatten(structure, params), args)), []

        return Programs(
            forward=_jitted(forward_only, f"{name}_forward"),
            kept_args=(),
            backward=None,
            input_gradient=None,
            weight_gradient=None,
            real_outputs=real_outputs,
        )
    real_params = tuple(place for place, leaf in enumerate(leaves) if is_real(leaf))
    residuals: Any = None

    def linearised(params: Sequence[Any], args: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """(the outputs' leaves, the leaves of the function of the backward pass)."""
        nonlocal residuals

        def function(some_params: Sequence[Any], some_args: Sequence[Any]) -> tuple[list[Any], list[Any]]:
            tree = _jax.tree.unflatten(structure, _replaced(params, real_params, some_params))
            outputs = _jax.tree.leaves(stage.call(tree, _replaced(args, stage.needs_gradient, some_args)))
            return [outputs[place] for place in real_outputs], outputs

        wanted = [params[place] for place in real_params], [args[place] for place in stage.needs_gradient]
        _, pullback, outputs = _jax.vjp(function, *wanted, has_aux=True)
        kept, residuals = _jax.tree.flatten(pullback)
        return outputs, kept

    sources, again = _sources(linearised, leaves, stage.args)
    kept_args = tuple(sorted({place for kind, place in sources if kind == "arg"}))
    kept_places = [index for index, (kind, _) in enumerate(sources) if kind == "kept"]

    def forward(params: Sequence[Any], args: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        outputs, kept = linearised(params, args)
        return outputs, [kept[index] for index in kept_places]

    def pulled_back(
        params: Sequence[Any], args: Sequence[Any], kept: Sequence[Any], gradients: Sequence[Any]
    ) -> tuple[list[Any], list[Any]]:
        """Gradients of the real parameters, and of the arguments that need one. What of them a program does not return goes."""
        remade: list[Any] = []
        if again:  # what depends on the arguments is not used of this, and goes
            nothing = [_jnp.zeros(leaf.shape, leaf.dtype) for leaf in stage.args]
            remade = linearised(params, nothing)[1]
        held = dict(zip(kept_places, kept, strict=True))
        given = dict(zip(kept_args, args, strict=True))
        values: list[Any] = []
        for index, (kind, place) in enumerate(sources):
            match kind:
                case "param":
                    values.append(params[place])
                case "arg":
                    values.append(given[place])
                case "same":
                    values.append(values[place])
                case "weights":
                    values.append(remade[place])
                case _:
                    values.append(held[index])
        return _jax.tree.unflatten(residuals, values)(list(gradients))

    def weight_gradient(
        accumulators: Sequence[Any],
        params: Sequence[Any],
        args: Sequence[Any],
        kept: Sequence[Any],
        gradients: Sequence[Any],
        microbatch: Any,
    ) -> list[Any]:
        of_params, _ = pulled_back(params, args, kept, gradients)
        return added(list(accumulators), of_params, microbatch, reduction)

    def input_gradient(params: Sequence[Any], args: Sequence[Any], kept: Sequence[Any], gradients: Sequence[Any]) -> list[Any]:
        return pulled_back(params, args, kept, gradients)[1]

    def backward(
        accumulators: Sequence[Any],
        params: Sequence[Any],
        args: Sequence[Any],
        kept: Sequence[Any],
        gradients: Sequence[Any],
        microbatch: Any,
    ) -> tuple[list[Any], list[Any]]:
        of_params, of_args = pulled_back(params, args, kept, gradients)
        return added(list(accumulators), of_params, microbatch, reduction), of_args

    return Programs(
        forward=_jitted(forward, f"{name}_forward"),
        kept_args=kept_args,
        backward=_jitted(backward, f"{name}_backward", donate=(0,)),
        input_gradient=_jitted(input_gradient, f"{name}_input_gradient"),
        weight_gradient=_jitted(weight_gradient, f"{name}_weight_gradient", donate=(0,)),
        real_outputs=real_outputs,
    )


def make_last(stage: Stage, *, reduction: Reduction) -> Program:
    """Forward and backward of the stage that gives the loss.

    (accumulators, params, args, microbatch) -> (accumulators, outputs' leaves, the first of which is the loss, gradients of the arguments).
    """
    leaves, structure = _jax.tree.flatten(stage.params)
    real_params = tuple(place for place, leaf in enumerate(leaves) if is_real(leaf))

    def both(accumulators: Sequence[Any], params: Sequence[Any], args: Sequence[Any], microbatch: Any) -> tuple[Any, Any, Any]:
        def function(some_params: Sequence[Any], some_args: Sequence[Any]) -> tuple[Any, list[Any]]:
            tree = _jax.tree.unflatten(structure, _replaced(params, real_params, some_params))
            outputs = _jax.tree.leaves(stage.call(tree, _replaced(args, stage.needs_gradient, some_args)))
            return outputs[0], outputs

        wanted = [params[place] for place in real_params], [args[place] for place in stage.needs_gradient]
        loss, pullback, outputs = _jax.vjp(function, *wanted, has_aux=True)
        of_params, of_args = pullback(_jnp.ones((), loss.dtype))
        return added(list(accumulators), of_params, microbatch, reduction), outputs, of_args

    return _jitted(both, f"stage_{stage.number}_forward_and_backward", donate=(0,))


def _replaced(values: Sequence[Any], places: Sequence[int], new: Sequence[Any]) -> list[Any]:
    found = list(values)
    for place, value in zip(places, new, strict=True):
        found[place] = value
    return found


def _jitted(function: Program, name: str, donate: tuple[int, ...] = ()) -> Program:
    function.__name__ = function.__qualname__ = name
    return _jax.jit(function, donate_argnums=donate)


def _sources(linearised: Program, params: Sequence[Any], args: Sequence[Any]) -> tuple[list[tuple[str, int]], bool]:
    """Where each leaf of the backward pass's function comes from, and whether some are made again from the weights.

    Returns: ("param", place), ("arg", place), ("same", an earlier leaf), ("weights", its own place) for what depends on no argument,
        else ("kept", its own place).
    """
    outputs = 0

    def counted(params: Sequence[Any], args: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        nonlocal outputs
        found, kept = linearised(params, args)
        outputs = len(found)
        return found, kept

    jaxpr = _jax.make_jaxpr(counted)(list(params), list(args)).jaxpr
    place_of = {variable: ("param", place) for place, variable in enumerate(jaxpr.invars[: len(params)])}
    of_args = jaxpr.invars[len(params) :]
    place_of |= {variable: ("arg", place) for place, variable in enumerate(of_args)}
    moving = set(of_args)  # values that depend on an argument
    for equation in jaxpr.eqns:
        if any(_is_variable(variable) and variable in moving for variable in equation.invars):
            moving.update(equation.outvars)
    sources: list[tuple[str, int]] = []
    for index, variable in enumerate(jaxpr.outvars[outputs:]):
        if not _is_variable(variable):
            sources.append(("weights", index))
            continue
        source = place_of.setdefault(variable, ("same", index))
        if source == ("same", index):
            source = ("kept" if variable in moving else "weights", index)
        sources.append(source)
    return sources, any(kind == "weights" for kind, _ in sources)


def _is_variable(value: Any) -> bool:
    return not hasattr(value, "val")  # a literal has one
