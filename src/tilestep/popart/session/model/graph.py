"""The model of a session as one function of variables and inputs that sees every tensor by its name."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import jax
import jax.numpy as jnp
import numpy as np
import onnx
from jax.ad_checkpoint import checkpoint_name

from tilestep.onnx import OnnxError
from tilestep.onnx import ops as _ops  # registers ONNX's operators  # noqa: F401
from tilestep.onnx.interpreter.demand import demanded, draws, statistics
from tilestep.onnx.interpreter.graph import Graph, schema_of, with_ends
from tilestep.onnx.interpreter.interpret import GraphRun, run_graph
from tilestep.onnx.interpreter.values import Array
from tilestep.onnx.reading.load import Loaded, load
from tilestep.onnx.reading.specs import ValueSpec, specs_of
from tilestep.popart import ops as _graphcore_ops  # registers Graphcore's  # noqa: F401
from tilestep.popart.builder import external
from tilestep.popart.builder.graph.graph_walk import nodes_of, tensors_of
from tilestep.popart.builder.graph.origins import Origin, origins_of
from tilestep.popart.builder.loading import GivenModel
from tilestep.popart.exceptions import popart_exception
from tilestep.popart.ops.checks import DIALECT
from tilestep.popart.ops.describing import kind_text
from tilestep.popart.options import SessionOptions
from tilestep.popart.session.model.replication import Replication, replication_of
from tilestep.popart.session.model.tuning import Tuning, around, tuning_by_output
from tilestep.popart.tensors import InputShapeInfo

if TYPE_CHECKING:
    from tilestep.popart.session.model.stages import SessionStage  # which is made of a graph

Values = dict[str, Any]  # by tensor name

_HIDDEN: Final = "__"  # how names of attributes begin that say where and how a node runs, not what it computes
_COLLECTIVE: Final = "__collective"  # how those begin that nevertheless say what collectives compute
_NARROW: Final = {
    np.dtype(np.int64): np.dtype(np.int32),
    np.dtype(np.uint64): np.dtype(np.uint32),
    np.dtype(np.float64): np.dtype(np.float32),
}


@dataclass(frozen=True, kw_only=True)
class SessionGraph:
    """A model, ready to run.

    Attributes:
        model: as it was given.
        inputs: shape and dtype of one microbatch, by name; 64-bit types are 32-bit ones.
        variables: initialisers that the program takes as arguments, as one replica has them; 64-bit types are 32-bit ones.
        given: the same as the host gives them: with the groups of replicas in front, if there are several.
        replication: the replicas.
        constants: initialisers on whose values shapes depend.
        statistics: variables that batch norms keep.
        draws: whether it draws random numbers.
        training: whether dropouts drop and batch norms keep statistics.
        tuning: operators that are planned in a way of their own.
        origins: of operators that a builder of this process has made.
    """

    model: GivenModel
    graph: Graph
    inputs: Mapping[str, jax.ShapeDtypeStruct]
    variables: Mapping[str, Array]
    given: Mapping[str, Array]
    replication: Replication
    constants: Mapping[str, Array]
    statistics: frozenset[str]
    draws: bool
    training: bool
    tuning: Tuning
    origins: Mapping[str, Origin]

    @property
    def read(self) -> frozenset[str]:
        """Names of tensors that operators read."""
        nodes = self.graph.nodes
        return frozenset(name for node in nodes for name in (*node.inputs, *(outer for inner in node.subgraphs for outer in inner.outer)))

    @property
    def proto(self) -> onnx.ModelProto:
        """The model as it was given."""
        return self.model.proto

    def run(self, variables: Values, inputs: Values, key: Any, mark: Callable[[str, Any], Any]) -> Values:
        """Runs the model for one microbatch.

        Args:
            variables, inputs: by name.
            key: a random key, if it draws.
            mark: gets each tensor's name and value, and returns the value that is read from there on.

        Returns:
            New values of the statistics, by name.

        Raises: popart_exception for a node that cannot be computed.
        """
        run = self._run(key, mark)
        given = {**inputs, **variables}
        with named_errors():
            run_graph(self.graph, [mark(name, given[name]) for name in self.graph.inputs], run)
        return run.state

    def run_stage(self, stage: SessionStage, values: Values, key: Any, mark: Callable[[str, Any], Any]) -> tuple[Values, Values]:
        """Runs one stage of the model for one microbatch. All stages one after the other compute what `run` does.

        Args:
            values: at least what the stage reads, its variables included, by name.
            key: a random key, if the model draws: the same for all stages, because each node makes its own key of it.
            mark: as for `run`. It gets the model's inputs and variables that the stage reads, and what its operators make.

        Returns:
            (what later stages read, new values of the statistics), by name.

        Raises: popart_exception for a node that cannot be computed.
        """
        run = self._run(key, mark)
        names = (*stage.reads, *stage.variables)
        part = replace(
            self.graph,
            inputs=names,
            outputs=stage.gives,
            nodes=with_ends([self.graph.nodes[position] for position in stage.nodes], stage.gives),
            initializers={**self.graph.initializers, **stage.known},
        )
        own = self.inputs.keys() | self.variables.keys()
        with named_errors():
            outputs = run_graph(part, [mark(name, values[name]) if name in own else values[name] for name in names], run)
        return dict(zip(stage.gives, outputs, strict=True)), run.state

    def _run(self, key: Any, mark: Callable[[str, Any], Any]) -> GraphRun:
        return GraphRun(training=self.training, key=key if self.draws else None, mark=mark, around=around(self.tuning, self.origins))


def session_graph(
    model: GivenModel,
    *,
    training: bool,
    shapes: InputShapeInfo,
    options: SessionOptions,
    change: Callable[[onnx.GraphProto], object] | None = None,
) -> SessionGraph:
    """Prepares a model for a session.

    Args:
        model: that was read.
        training: whether it is trained.
        shapes: of inputs whose shape the model leaves open.
        options: of the session: whether 64-bit types may become 32-bit ones, and how operators are planned.
        change: changes a copy of the graph before it is prepared.

    Raises:
        popart_exception: for a damaged model, an input without a shape, an operator without an implementation, or a value beyond 32 bits.
    """
    casts = options.enableSupportedDataTypeCasting
    plain = onnx.ModelProto()
    plain.CopyFrom(model.proto)
    _take_in(plain)
    _strip(plain.graph)
    if change is not None:
        change(plain.graph)
    with named_errors():
        loaded = load(plain, dialect=DIALECT)
    wanted = demanded(loaded.graph)
    _require_known_inputs(loaded, wanted)
    constants = {name: array for name, array in loaded.initializers.items() if name in wanted}
    given = {name: narrowed(name, array, casts=casts) for name, array in loaded.initializers.items() if name not in wanted}
    replication = replication_of(model.proto, options)
    variables = {name: replication.first_of(name, array) for name, array in given.items()}
    _require_shared(replication, constants)
    inputs = {
        spec.name: _input_type(spec, value, shapes, casts=casts)
        for spec, value in zip(specs_of(loaded.proto.graph.input), loaded.proto.graph.input, strict=True)
        if spec.name not in loaded.initializers
    }
    graph = replace(loaded.graph, inputs=(*inputs, *variables), initializers=constants)
    return SessionGraph(
        model=model,
        graph=graph,
        inputs=inputs,
        variables=variables,
        given=given,
        replication=replication,
        constants=constants,
        statistics=(statistics(loaded.graph) & variables.keys()) if training else frozenset(),
        draws=draws(loaded.graph),
        training=training,
        tuning=tuning_by_output(model.proto, options),
        origins=origins_of(model.proto.graph) if not model.from_file else {},
    )


def _require_shared(replication: Replication, constants: Collection[str]) -> None:
    """Raises: popart_exception for a value on which shapes depend, if groups of replicas have their own."""
    for name in constants:
        if replication.is_grouped(name):
            raise popart_exception(f"Shapes depend on '{name}', so all replicas must share it: leave out its VariableSettings")


def _take_in(plain: onnx.ModelProto) -> None:
    """Puts tensors that stand in files into the model. Raises: MissingDataError for a file that is not there or may not be read."""
    for tensor in tensors_of(plain.graph):
        if external.is_external(tensor):
            array = external.array_of(tensor)
            tensor.ClearField("data_location")
            del tensor.external_data[:]
            tensor.raw_data = np.ascontiguousarray(array).tobytes()


def narrow_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The type that an IPU has in place of one of 64 bits; other types are their own."""
    return _NARROW.get(dtype, dtype)


def narrowed(name: str, array: Array, *, casts: bool) -> Array:
    """An array with a type that an IPU has. Raises: popart_exception where a value does not fit, or casts are off."""
    target = narrow_dtype(array.dtype)
    if target == array.dtype:
        return array
    if not casts:
        raise popart_exception(
            f"Tensor '{name}' is {array.dtype}, which an IPU does not have: set enableSupportedDataTypeCasting, or give it as {target}"
        )
    if target.kind in "iu" and array.size:
        bounds = np.iinfo(np.dtype(target.name))
        if array.min() < bounds.min or array.max() > bounds.max:
            raise popart_exception(
                f"Tensor '{name}' has a value outside of {target}: it is from {array.min()} to {array.max()}, and an IPU has no "
                f"{array.dtype}"
            )
    if target.kind == "f" and array.size:
        largest = np.abs(array[np.isfinite(array)]).max(initial=0)
        if largest > np.finfo(np.dtype(target.name)).max:
            raise popart_exception(f"Tensor '{name}' has a value beyond {target}: {largest}, and an IPU has no {array.dtype}")
    return array.astype(target)


@contextlib.contextmanager
def named_errors() -> Iterator[None]:
    """Errors of the importer as PopART's."""
    try:
        yield
    except OnnxError as error:
        raise popart_exception(str(error)) from error


def _strip(graph: onnx.GraphProto) -> None:
    """Removes attributes that do not change what a node computes."""
    for node in nodes_of(graph):
        kept = [
            attribute for attribute in node.attribute if not attribute.name.startswith(_HIDDEN) or attribute.name.startswith(_COLLECTIVE)
        ]
        if len(kept) < len(node.attribute):
            del node.attribute[:]
            node.attribute.extend(kept)


def _require_known_inputs(loaded: Loaded, wanted: frozenset[str]) -> None:
    for name in loaded.graph.inputs:
        if name in wanted:
            if any(node.op_type == "Tile" and name in node.inputs[1:2] for node in loaded.graph.nodes):
                raise popart_exception(f"The input '{name}' of a Tile, which has its repeats, must be of type Constant")
            raise popart_exception(
                f"Need the value of {_reader(loaded.graph, name)} to determine the output shape, but was unable because "
                f"[Tensor::getDataViaGraphTraversal] Could not work out tensor data for {name}."
            )


def _reader(graph: Graph, name: str) -> str:
    """The first input of an operator that needs the value of a tensor, in words."""
    for node in graph.nodes:
        for position in () if node.operator is None else sorted(node.operator.needs):
            if position < len(node.inputs) and node.inputs[position] == name:
                schema = schema_of(node.domain, node.op_type, node.version)
                known = schema.inputs[position].name if schema is not None and position < len(schema.inputs) else position
                return f"the {kind_text(node)} input '{known}'"
    return f"the tensor '{name}'"


def _input_type(spec: ValueSpec, value: onnx.ValueInfoProto, shapes: InputShapeInfo, *, casts: bool) -> jax.ShapeDtypeStruct:
    if shapes.has(spec.name):
        info = shapes.get(spec.name)
        return jax.ShapeDtypeStruct(tuple(info.shape()), _narrow_type(spec.name, np.dtype(info.data_type_lcase()), casts=casts))
    if spec.shape is None or spec.dtype is None:
        raise popart_exception(f"Could not find tensor {spec.name} in InputShapeInfo, but no shape is specified in the onnx model")
    sizes = [_size_text(size) for size in value.type.tensor_type.shape.dim]
    shape: list[int] = []
    for size, text in zip(spec.shape, sizes, strict=True):
        if not isinstance(size, int):
            raise popart_exception(
                f"Input tensor '{spec.name}' must be specified in InputShapeInfo, as it has shape [{', '.join(sizes)}], which uses an "
                f"unknown value '{text}'."
            )
        shape.append(size)
    return jax.ShapeDtypeStruct(tuple(shape), _narrow_type(spec.name, spec.dtype, casts=casts))


def _size_text(size: onnx.TensorShapeProto.Dimension) -> str:
    return str(size.dim_value) if size.HasField("dim_value") else size.dim_param or "?"


def _narrow_type(name: str, dtype: np.dtype[Any], *, casts: bool) -> np.dtype[Any]:
    return narrowed(name, np.zeros(0, dtype), casts=casts).dtype


def zeros(spec: Any) -> Any:
    """A traced or concrete array of zeros of a shape and dtype."""
    return jnp.zeros(spec.shape, spec.dtype)


Mark = Callable[[str, Any], Any]  # (name, value) -> the value in its place


def marking(captured: Values, marked: Values, taps: Values, *, tensors: Collection[str], loss: str = "", named: bool = False) -> Mark:
    """What each tensor of a model is given to.

    Args:
        captured: gets the values of `tensors`.
        marked: gets the value of `loss`.
        taps: zeros that are added to tensors whose gradients are wanted.
        tensors: that are looked at.
        loss: what is differentiated; '' in inference.
        named: whether tensors get the names by which `jax.checkpoint` knows them.
    """

    def mark(name: str, value: Any) -> Any:
        if name in tensors:
            captured[name] = jnp.asarray(value)
        if name in taps:
            value = value + taps[name]  # a zero whose gradient is that of the value
        if named and isinstance(value, jax.Array):  # else it is a constant, which may decide shapes
            value = checkpoint_name(value, name)
        if name == loss:
            marked[name] = jnp.asarray(value)
        return value

    return mark
