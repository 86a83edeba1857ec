"""What a session knows of its model before it compiles: every tensor's type, which variables are trained, where anchors come from."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Literal

from tilestep.onnx.interpreter.values import Array
from tilestep.popart.exceptions import popart_exception
from tilestep.popart.names import reservedGradientPrefix, reservedRestoredPrefix, reservedUpdatedVarPrefix
from tilestep.popart.session.model.graph import SessionGraph, Values
from tilestep.popart.session.model.replication import in_replica


@dataclass(frozen=True, kw_only=True)
class Fetched:
    """Where the values of anchors come from.

    Attributes:
        tensors: of the graph, also inputs.
        gradients: anchor -> the tensor whose gradient it is.
        variables: of the graph or the optimiser's state: their value changes with the update.
        accumulators: of the optimiser's state: their value changes with each microbatch.
        updated: anchor -> the variable whose value after the update it is.
        restored: anchor -> the tensor that a pipeline keeps for backward, and whose value it is.
    """

    tensors: Sequence[str] = ()
    gradients: Mapping[str, str] = field(default_factory=dict[str, str])
    variables: Sequence[str] = ()
    accumulators: Sequence[str] = ()
    updated: Mapping[str, str] = field(default_factory=dict[str, str])
    restored: Mapping[str, str] = field(default_factory=dict[str, str])


_ZERO_PRIMITIVES: Final = frozenset({"broadcast_in_dim", "convert_element_type", "reshape"})
_MOST_SHOWN: Final = 40  # names of tensors in an error

Types = Mapping[str, jax.ShapeDtypeStruct]


@dataclass(frozen=True, kw_only=True)
class Analysis:
    """What an abstract run of a model tells.

    Attributes:
        types: shape and dtype of each tensor, by name.
        known: names of tensors that do not depend on inputs or variables.
        differentiable: names of tensors whose gradient is computed, in training.
        values: of those of the known tensors that are arrays, by name.
    """

    types: dict[str, jax.ShapeDtypeStruct]
    known: frozenset[str]
    differentiable: frozenset[str]
    values: Mapping[str, Array] = field(default_factory=dict[str, Array], repr=False, compare=False)


def analyse(graph: SessionGraph, loss: str | None, asked: Collection[str] = ()) -> Analysis:
    """Runs a model without values.

    Args:
        loss: the tensor that is differentiated; None in inference.
        asked: tensors whose gradient is wanted, even if their value is known.

    Raises: popart_exception for a node that cannot be computed, and for a loss that is no scalar or no tensor of the model.
    """
    types: dict[str, jax.ShapeDtypeStruct] = {}
    known = set(graph.constants)
    values: dict[str, Array] = dict(graph.constants)
    variables = {name: jax.ShapeDtypeStruct(array.shape, array.dtype) for name, array in graph.variables.items()}
    key = jax.eval_shape(lambda: jax.random.key(0))

    def forward(variables: Values, inputs: Values, key: Any) -> None:
        def mark(name: str, value: Any) -> Any:
            array = jnp.asarray(value) if isinstance(value, np.ndarray | np.generic | int | float) else value
            if hasattr(array, "dtype"):
                types[name] = jax.ShapeDtypeStruct(array.shape, array.dtype)
            if not isinstance(value, jax.Array):
                known.add(name)
            if isinstance(value, np.ndarray | np.generic):
                values[name] = np.asarray(value)
            return value

        graph.run(variables, inputs, key, mark)

    jax.eval_shape(in_replica(forward, graph.replication.count), variables, dict(graph.inputs), key)
    types |= {name: jax.ShapeDtypeStruct(array.shape, jnp.asarray(array).dtype) for name, array in graph.constants.items()}
    if loss is None:
        return Analysis(types=types, known=frozenset(known), differentiable=frozenset(), values=values)
    if loss not in types:
        raise popart_exception(f"Could not find loss tensor '{loss}' in main graph tensors")
    if np.prod(types[loss].shape, dtype=int) != 1:
        raise popart_exception(
            f"The loss has shape {list(types[loss].shape)}: reduce it, for example with aiGraphcore.identityloss. Loss tensor, '{loss}', "
            "must be a scalar tensor"
        )
    differentiable = _differentiable(graph, loss, types, known - {*asked})
    return Analysis(types=types, known=frozenset(known), differentiable=differentiable, values=values)


def _differentiable(graph: SessionGraph, loss: str, types: Types, known: Collection[str]) -> frozenset[str]:
    """Tensors with a gradient that is no literal zero."""
    names = [name for name, kind in types.items() if jnp.issubdtype(kind.dtype, jnp.inexact) and name not in known]
    tapped = [name for name in names if name not in graph.statistics]

    def gradients(taps: Values, variables: Values, inputs: Values, key: Any) -> Any:
        def forward(taps: Values) -> Any:
            marked: Values = {}

            def mark(name: str, value: Any) -> Any:
                if name in taps:
                    value = value + taps[name]
                if name == loss:
                    marked[name] = value
                return value

            graph.run(variables, inputs, key, mark)
            return jnp.asarray(marked[loss])

        value, backward = jax.vjp(forward, taps)
        return backward(jnp.ones_like(value))[0]

    variables = {name: jax.ShapeDtypeStruct(array.shape, array.dtype) for name, array in graph.variables.items()}
    taps = {name: types[name] for name in tapped}
    key = jax.eval_shape(lambda: jax.random.key(0))
    traced = jax.make_jaxpr(in_replica(gradients, graph.replication.count))(taps, variables, dict(graph.inputs), key)
    zero = literal_zeros(traced)
    return frozenset(name for name, is_zero in zip(sorted(taps), zero, strict=True) if not is_zero)


def literal_zeros(traced: ClosedJaxpr) -> list[bool]:
    """For each output whether it is a zero that the program itself writes."""
    made: dict[Any, Any] = {}
    for equation in traced.jaxpr.eqns:
        if equation.primitive.name in _ZERO_PRIMITIVES and len(equation.invars) == 1:
            source = equation.invars[0]
            if _is_zero(source, made):
                made[equation.outvars[0]] = True
    return [_is_zero(variable, made) for variable in traced.jaxpr.outvars]


def _is_zero(variable: Any, made: Mapping[Any, Any]) -> bool:
    if isinstance(variable, Literal):
        return not np.any(np.asarray(variable.val))
    return variable in made


@dataclass(frozen=True, kw_only=True)
class Names:
    """Names that an anchor may have.

    Attributes:
        analysis: of the graph.
        variables: initialisers that programs take as arguments.
        state: of the optimiser: name -> type.
        accumulators: names of the state that change with each microbatch.
        trained: variables that get gradients.
        restored: tensors that a pipeline keeps for backward.
    """

    analysis: Analysis
    variables: Sequence[str]
    state: Types
    accumulators: frozenset[str]
    trained: Sequence[str]
    restored: frozenset[str] = frozenset()

    def type_of(self, name: str) -> jax.ShapeDtypeStruct | None:
        """A tensor's shape and dtype; None if there is no such tensor."""
        types = self.analysis.types
        if name in types:
            return types[name]
        if name in self.state:
            return self.state[name]
        for prefix in (reservedGradientPrefix(), reservedUpdatedVarPrefix(), reservedRestoredPrefix()):
            inner = name.removeprefix(prefix)
            if inner != name and inner in types and self._has(prefix, inner):
                return types[inner]
        return None

    def _has(self, prefix: str, inner: str) -> bool:
        if prefix == reservedRestoredPrefix():
            return inner in self.restored
        return inner in self.analysis.differentiable if prefix == reservedGradientPrefix() else inner in self.trained

    def fetched(self, anchors: Iterable[str]) -> Fetched:
        """Where anchors come from. Raises: popart_exception for names that the session does not have."""
        tensors: list[str] = []
        variables: list[str] = []
        accumulators: list[str] = []
        gradients: dict[str, str] = {}
        updated: dict[str, str] = {}
        restored: dict[str, str] = {}
        for name in anchors:
            if self.type_of(name) is None:
                raise popart_exception(self._missing(name))
            if name in self.accumulators:
                accumulators.append(name)
            elif name in self.variables or name in self.state:
                variables.append(name)
            elif name in self.analysis.types:
                tensors.append(name)
            elif name.startswith(reservedGradientPrefix()):
                gradients[name] = name.removeprefix(reservedGradientPrefix())
            elif name.startswith(reservedRestoredPrefix()):
                restored[name] = name.removeprefix(reservedRestoredPrefix())
            else:
                updated[name] = name.removeprefix(reservedUpdatedVarPrefix())
        return Fetched(
            tensors=tensors, gradients=gradients, variables=variables, accumulators=accumulators, updated=updated, restored=restored
        )

    def _missing(self, name: str) -> str:
        start = f"Anchor tensor `{name}' not in Ir Tensors. "
        inner = name.removeprefix(reservedGradientPrefix())
        if inner != name and inner in self.analysis.types:
            return (
                f"{start}`{inner}' is one. Only a tensor that leads to the loss has a gradient, and only in training: make the tensor lead "
                "to the loss, or anchor another one"
            )
        known = [*self.analysis.types, *self.state]
        shown = ", ".join(known[:_MOST_SHOWN]) + (", ..." if len(known) > _MOST_SHOWN else "")
        return f"{start}The tensors are: {shown}"
