"""A model's graph in parts that run one after the other: what each reads, what it passes on, and its function."""

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tilestep.onnx.errors import OnnxError
from tilestep.onnx.function import ModelFunction
from tilestep.onnx.interpreter.demand import draws
from tilestep.onnx.interpreter.graph import Graph, Node, reads
from tilestep.onnx.interpreter.interpret import GraphRun, run_graph
from tilestep.onnx.interpreter.values import Array, is_known, jax_dtype
from tilestep.onnx.reading.specs import ValueSpec, narrowed

Finish = Callable[[Sequence[Any], Sequence[Any]], Any]  # (outputs, what else the microbatch has) -> what the last stage returns


@dataclass(frozen=True, kw_only=True, eq=False)
class ModelPart:
    """Some nodes of a model.

    Attributes:
        graph: its inputs are values of earlier parts or the model's inputs, then parameters, then state.
        shapes: of the values.
        params, state: by name.
        options: how the graph is run.
    """

    graph: Graph
    shapes: Sequence[Any]
    params: Mapping[str, Array]
    state: Mapping[str, Array]
    options: GraphRun

    def function(self, finish: Finish | None = None) -> Callable[..., Any]:
        """The part as a stage: (params, *values) -> values, with its state (params, state, *values) -> (values, new state).

        It has a keyword-only parameter `key` if a node draws random numbers. What is given beyond its values is passed on.

        Args: finish: makes the last stage's result.
        """
        call, count = self._without_captured(), len(self.shapes)

        def run(params: Mapping[str, Any], state: Mapping[str, Any], values: Sequence[Any], key: Any) -> tuple[Any, Any]:
            outputs, new_state = call(params, state, self._require(values[:count]), key)
            others = values[count:]
            return (*outputs, *others) if finish is None else finish(outputs, others), new_state

        def stage(params: Mapping[str, Any], *values: Any) -> Any:
            return run(params, {}, values, None)[0]

        def stage_with_state(params: Mapping[str, Any], state: Mapping[str, Any], *values: Any) -> Any:
            return run(params, state, values, None)

        def drawing(params: Mapping[str, Any], *values: Any, key: Any = None) -> Any:
            return run(params, {}, values, key)[0]

        def drawing_with_state(params: Mapping[str, Any], state: Mapping[str, Any], *values: Any, key: Any = None) -> Any:
            return run(params, state, values, key)

        plain, keyed = (stage_with_state, drawing_with_state) if self.state else (stage, drawing)
        function = keyed if draws(self.graph) else plain
        function.__name__ = function.__qualname__ = self.graph.name
        return function

    def _require(self, values: Sequence[Any]) -> list[Any]:
        """The values as JAX's arrays. Raises: OnnxError for missing values, and other shapes than the stage is made for."""
        names = self.graph.inputs[: len(self.shapes)]
        if len(values) < len(names):
            raise OnnxError(f"{self.graph.name} gets {len(values)} values, and takes {', '.join(names)}")
        for name, value, spec in zip(names, values, self.shapes, strict=True):
            if tuple(np.shape(value)) != spec.shape:
                raise OnnxError(
                    f"{self.graph.name} gets '{name}' of shape {list(np.shape(value))}, and is made for {list(spec.shape)}: give stages() "
                    "the sizes of one microbatch"
                )
        return [jnp.asarray(value, spec.dtype) for value, spec in zip(values, self.shapes, strict=True)]

    def _without_captured(self) -> Callable[..., Any]:
        """The part's call. A pipeline refuses arrays that a stage has captured, so one that has known arrays is a program of its own."""

        def call(params: Mapping[str, Any], state: Mapping[str, Any], values: Sequence[Any], key: Any) -> tuple[Any, Any]:
            run = replace(self.options, key=key, state={})
            weights = [*(params[name] for name in self.params), *(state[name] for name in self.state)]
            found = run_graph(self.graph, [*values, *weights], run)
            outputs = [narrowed(f"'{name}'", value) for name, value in zip(self.graph.outputs, found, strict=True)]
            return outputs, {name: run.state.get(name, state[name]) for name in self.state}

        params, state = (
            {name: jax.ShapeDtypeStruct(array.shape, jax_dtype(array.dtype)) for name, array in own.items()}
            for own in (self.params, self.state)
        )
        made = jax.make_jaxpr(lambda *given: call(given[0], given[1], given[2], jax.random.key(0)))(params, state, list(self.shapes))
        if not any(np.ndim(value) for value in made.consts):
            return call
        call.__name__ = f"{self.graph.name}_{self._digest()}"  # a pipeline takes programs of one name and text for the same
        return jax.jit(call)

    def _digest(self) -> str:
        """A text that is another one for another graph or other known values."""
        digest = hashlib.sha256()
        for node in self.graph.nodes:
            digest.update(node.proto.SerializeToString(deterministic=True))
        for name, value in self.graph.initializers.items():
            digest.update(f"{name} {value.dtype} {value.shape}".encode() + value.tobytes())
        return digest.hexdigest()[:16]


def evaluated(model: ModelFunction, sizes: Mapping[str, int]) -> dict[str, Any]:
    """Each value of the model's main graph: known ones as they are, others as `jax.ShapeDtypeStruct`.

    Args: sizes: of named dimensions.
    Raises: OnnxError for static inputs, and for dimensions without a size.
    """
    if model.static_inputs:
        way = f"fix it by import_onnx(..., static={{'{model.static_inputs[0]}': ...}})"
        raise OnnxError(f"input '{model.static_inputs[0]}' is static, and a stage gets arrays only: {way}")
    found: dict[str, Any] = {}
    graph = model.graph
    names = tuple(dict.fromkeys(name for node in graph.nodes for name in node.outputs if name))
    whole = replace(graph, outputs=names, nodes=tuple(replace(node, ended=()) for node in graph.nodes))

    def note(arguments: Sequence[Any]) -> None:
        found.update(zip(graph.inputs, arguments, strict=True))
        found.update(zip(names, run_graph(whole, arguments, replace(model.run_options, key=jax.random.key(0), state={})), strict=True))

    arrays = [*model.params.values(), *model.state.values()]
    specs = [
        *input_shapes(model.inputs, model.static_inputs, sizes),
        *(jax.ShapeDtypeStruct(array.shape, jax_dtype(array.dtype)) for array in arrays),
    ]
    jax.eval_shape(note, specs)
    return {name: value if is_known(value) else jax.tree.map(_shape, value) for name, value in found.items()}


def input_shapes(specs: Sequence[ValueSpec], static: Collection[str], sizes: Mapping[str, int]) -> list[Any]:
    """Shape and dtype of each input that is not static.

    Args: sizes: of named dimensions by name, and of single ones as in 'x[2]', which come first.
    Raises: OnnxError for dimensions without a size, all at once, and for a name that is none's.
    """
    named = {name for spec in specs for name in spec.named()}
    if unknown := set(sizes) - named - {f"{spec.name}[{axis}]" for spec in specs for axis in spec.free()}:
        raise OnnxError(f"sizes names '{min(unknown)}', and the inputs' named dimensions are {', '.join(sorted(named)) or 'none'}")
    if missing := missing_sizes(specs, static, sizes):
        way = ", ".join(f"'{key}': ..." for key in missing)
        raise OnnxError(f"no size is known of {', '.join(missing.values())}: give sizes={{{way}}}")
    shapes: list[Any] = []
    for spec in specs:
        if spec.name in static:
            continue
        if spec.kind != "tensor" or spec.dtype is None or spec.shape is None:
            raise OnnxError(f"input '{spec.name}' is {spec}, so its shape is not known before it is given")
        shape = [_size(spec, axis, sizes) for axis in range(len(spec.shape))]
        shapes.append(jax.ShapeDtypeStruct(shape, jax_dtype(spec.dtype)))
    return shapes


def missing_sizes(specs: Sequence[ValueSpec], static: Collection[str], sizes: Mapping[str, int]) -> dict[str, str]:
    """Dimensions of inputs that have no size: by the key of `sizes` that gives one, what it is in words."""
    found: dict[str, str] = {}
    for spec in specs:
        for axis in spec.free() if spec.name not in static else ():
            if _size(spec, axis, sizes) is None:
                name = (spec.shape or ())[axis]
                which = f"'{name}'" if name else f"dimension {axis}"
                found.setdefault(str(name or f"{spec.name}[{axis}]"), f"{which} of input '{spec.name}' ({spec})")
    return found


def _size(spec: ValueSpec, axis: int, sizes: Mapping[str, int]) -> int | None:
    size = (spec.shape or ())[axis]
    return size if isinstance(size, int) else sizes.get(f"{spec.name}[{axis}]", None if size is None else sizes.get(size))


def parts_of(model: ModelFunction, values: Mapping[str, Any], homes: Sequence[int], outputs: Sequence[str]) -> list[ModelPart]:
    """The model in parts.

    Args:
        values: of `evaluated`. Nodes whose results are known are in no part, because parts have the results.
        homes: for each node the number of its part.
        outputs: of the last part.
    Raises: OnnxError for a value that cannot be passed on.
    """
    count = max(homes, default=0) + 1
    inputs = [spec.name for spec in model.inputs]
    nodes: list[list[Node]] = [[] for _ in range(count)]
    for node, home in zip(model.graph.nodes, homes, strict=True):
        if not all(name in values and is_known(values[name]) for name in node.outputs if name):
            nodes[home].append(node)
    wanted = [{name for node in own for name in reads(node)} for own in nodes]
    wanted[-1].update(outputs)
    order = [*inputs, *(name for own in nodes for node in own for name in node.outputs if name)]
    made = set(inputs)
    arguments = [inputs]
    for part in range(1, count):
        made.update(name for node in nodes[part - 1] for name in node.outputs)
        after = set[str]().union(*wanted[part:])
        arguments.append([name for name in order if name in made and name in after and not is_known(values[name])])
    _require_arrays(arguments, values)
    parts: list[ModelPart] = []
    for number, (own, names) in enumerate(zip(nodes, arguments, strict=True)):
        results = list(outputs) if number == count - 1 else arguments[number + 1]
        params = {name: array for name, array in model.params.items() if name in wanted[number]}
        state = {name: array for name, array in model.state.items() if name in wanted[number]}
        known = {name: values[name] for name in (*wanted[number], *results) if name in values and is_known(values[name])}
        constants = {name: value for name, value in model.constants.items() if name in wanted[number]}
        graph = Graph(
            name=f"{model.fn.__name__}_{number}",
            inputs=(*names, *params, *state),
            outputs=tuple(results),
            nodes=tuple(replace(node, ended=()) for node in own),
            initializers={**constants, **known},
            outer=frozenset(),
        )
        parts.append(ModelPart(graph=graph, shapes=[values[name] for name in names], params=params, state=state, options=model.run_options))
    return parts


def _require_arrays(arguments: Sequence[Sequence[str]], values: Mapping[str, Any]) -> None:
    for name in {name for names in arguments for name in names}:
        if not isinstance(values[name], jax.ShapeDtypeStruct):
            raise OnnxError(f"a stage would have to pass on '{name}', which is no array: cut elsewhere")


def _shape(value: Any) -> Any:
    return value if isinstance(value, np.ndarray) else jax.ShapeDtypeStruct(value.shape, value.dtype)
