"""A model as a function of JAX: what it computes, traced, compiled or node by node."""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Self

import jax
import jax.numpy as jnp
import numpy as np

from tilestep.messages import plain
from tilestep.onnx import ops as _ops  # registers the operators  # noqa: F401
from tilestep.onnx.errors import DynamicShapeError, OnnxError
from tilestep.onnx.freezing import with_known_weights
from tilestep.onnx.interpreter.demand import demanded, draws, ratios, statistics
from tilestep.onnx.interpreter.graph import Graph, Node
from tilestep.onnx.interpreter.interpret import NO_PROGRAM, GraphRun, run_graph
from tilestep.onnx.interpreter.values import Array, SequenceValue, node_by_node
from tilestep.onnx.reading.load import Loaded
from tilestep.onnx.reading.specs import ValueSpec, narrowed, specs_of
from tilestep.onnx.weights import not_finite, weights_of

Trainable = Callable[[str], bool] | Collection[str]


def fixed_values(static: Collection[str] | Mapping[str, Any], declared: Mapping[str, ValueSpec]) -> dict[str, Any]:
    """Values of inputs that the caller gives once and for all. Raises: TypeError, OnnxError for names that the model does not have."""
    if isinstance(static, str):
        raise TypeError(f"static is the text {static!r}: it must be a list of inputs' names, such as [{static!r}]")
    unknown = set(static) - declared.keys()
    if unknown:
        raise OnnxError(f"static names '{min(unknown, key=str)}', and the model's inputs are {', '.join(declared) or 'none'}")
    if not isinstance(static, Mapping):
        return {}
    return {name: declared[name].checked(value, known=True) for name, value in static.items()}


def chooser(trainable: Trainable | None, initializers: Collection[str], excluded: Mapping[str, str]) -> Callable[[str], bool]:
    """Whether an initialiser may be a parameter, by its name.

    Args: excluded: name -> why it can be none.

    Raises: TypeError; OnnxError for a list with a name that is no initialiser or can be no parameter.
    """
    if trainable is None:
        return lambda _: True
    if callable(trainable):
        return trainable
    if isinstance(trainable, str):
        raise TypeError(f"trainable is the text {trainable!r}: it must be a list of names, or a function of a name")
    names = frozenset(trainable)
    if unknown := names.difference(initializers):
        raise OnnxError(f"trainable names {min(unknown, key=str)!r}, which is no initialiser of the model")
    if wrong := names & excluded.keys():
        raise OnnxError(f"trainable names '{min(wrong)}', which can be no parameter, because {excluded[min(wrong)]}")
    return names.__contains__


def require_names(what: str, given: Mapping[str, Any], own: Mapping[str, Any]) -> None:
    """Raises: OnnxError unless `given` has the names of `own`. Args: what: "params" or "state"."""
    if not isinstance(given, Mapping):  # a caller's mistake
        raise OnnxError(f"{what} is a {type(given).__name__}: it must be a mapping of names to arrays, such as model.{what}")
    if given.keys() != own.keys():
        lacking, unknown = sorted(own.keys() - given.keys()), sorted(given.keys() - own.keys())
        which = f"lacks '{lacking[0]}'" if lacking else f"has '{unknown[0]}', which the model does not have"
        raise OnnxError(f"{what} {which}: it must have the names of model.{what}")


def require_bounds(bounds: Mapping[str, int] | None, graph: Graph) -> dict[str, int]:
    """The bounds by name. Raises: TypeError; OnnxError for a bound that is no size, or of a node that the model does not have."""
    if bounds is not None and not isinstance(bounds, Mapping):  # a caller's mistake
        raise TypeError(f"bounds is a {type(bounds).__name__}: it must be a mapping of names to numbers of elements")
    names = set(_names_of(graph)) if bounds else set[str]()
    for name, bound in (bounds or {}).items():
        if isinstance(bound, bool) or not isinstance(bound, int) or bound < 0:
            raise OnnxError(f"bounds['{name}'] is {bound!r}: it must be a whole number of elements")
        if name not in names:
            raise OnnxError(f"bounds names '{name}', and the model has no such node or value")
    return dict(bounds or {})


def _names_of(graph: Graph) -> list[str]:
    names: list[str] = []
    for node in graph.nodes:
        names += [node.name, *node.outputs]
        for inner in (*node.subgraphs, *((node.function,) if node.function is not None else ())):
            names += _names_of(inner)
    return names


_NO_NAMES: Final = frozenset({"", "main_graph", "torch_jit", "torch-jit-export"})  # which PyTorch gives to every graph
_MOST_RUN_PROGRAMS: Final = 16  # one for each set of static inputs


class ModelFunction:
    """What computes an `OnnxModel`; see there."""

    def __init__(
        self,
        loaded: Loaded,
        *,
        training: bool,
        static: Collection[str] | Mapping[str, Any],
        bounds: Mapping[str, int],
        trainable: Trainable | None,
        frozen: bool = False,
    ) -> None:
        self._loaded, self._training, self._bounds, self._trainable = loaded, training, bounds, trainable
        self._static = static
        graph = loaded.graph
        declared = {spec.name: spec for spec in specs_of(loaded.proto.graph.input)}
        if len(set(graph.inputs)) < len(graph.inputs):
            raise OnnxError("the model has two inputs of one name")
        fixed = fixed_values(static, {name: declared[name] for name in graph.inputs})
        needed = demanded(graph, bounds=bounds)
        self.inputs = tuple(declared[name] for name in graph.inputs if name not in fixed)
        self.outputs = specs_of(loaded.proto.graph.output)
        self.static_inputs = tuple(spec.name for spec in self.inputs if spec.name in needed or spec.name in static or spec.is_text)
        self.opset = dict(loaded.opset)
        kept = statistics(graph) if training else frozenset[str]()
        never = {
            **{name: f"it is {array.dtype}" for name, array in loaded.initializers.items() if not jnp.issubdtype(array.dtype, jnp.inexact)},
            **dict.fromkeys(not_finite(graph, loaded.initializers), "it has NaN or infinities"),
            **dict.fromkeys(ratios(graph), "it is the ratio of a dropout"),
            **dict.fromkeys(needed, "a shape or a choice of the program depends on its value"),
        }
        self.params: dict[str, Array] = {}
        self.state: dict[str, Array] = {}
        self.constants: dict[str, Any] = dict(fixed)
        statistic = "it is a statistic of a batch norm, which is state in training"
        is_trainable = chooser(trainable, loaded.initializers, {**dict.fromkeys(kept, statistic), **never})
        weights = weights_of(replace(graph, initializers=loaded.initializers)) if trainable is None else loaded.initializers
        for name, array in loaded.initializers.items():
            if frozen or name in never or (name not in weights and name not in kept):
                self.constants[name] = array
            elif name not in kept and is_trainable(name):
                self.params[name] = array
            else:
                (self.state if training else self.constants)[name] = array
        if frozen:
            graph, more = with_known_weights(replace(graph, initializers=self.constants), self.opset)
            self.constants.update(more)
        self._graph = replace(graph, inputs=(*(spec.name for spec in self.inputs), *self.params, *self.state), initializers=self.constants)
        self._programs: dict[Any, Callable[..., Any]] = {}
        self._on_device: tuple[Any, Any] | None = None
        self._is_dynamic = any(spec.is_text for spec in self.outputs)  # whether no program can be made
        self.fn = self._function()

    def __repr__(self) -> str:
        inputs = ", ".join(f"{spec.name}: {spec}" for spec in self.inputs)
        return plain(f"<OnnxModel {self.name}: {inputs} -> {', '.join(spec.name for spec in self.outputs)}; {len(self.params)} parameters>")

    @property
    def name(self) -> str:
        """Of the model's graph; of its file where the graph has none, or one that exporters give to every graph."""
        path = self._loaded.path
        return path.stem if self._graph.name in _NO_NAMES and path is not None else self._graph.name or "model"

    @property
    def training(self) -> bool:
        """Whether it is for training."""
        return self._training

    @property
    def loaded(self) -> Loaded:
        """What was read."""
        return self._loaded

    @property
    def graph(self) -> Graph:
        """The prepared graph. Its inputs are those of the model, then the parameters, then the state."""
        return self._graph

    @property
    def run_options(self) -> GraphRun:
        """How the graph is run, without a random key."""
        return GraphRun(training=self._training, bounds=self._bounds, sources=self._sources)

    @property
    def draws(self) -> bool:
        """Whether it may draw random numbers, so that it may need a key."""
        return draws(self._graph)

    def __call__(self, *inputs: Any, key: Any = None) -> tuple[Any, ...]:
        """Runs the model node by node, with its own parameters and 64-bit types: exact, and shapes may depend on values.

        Args:
            inputs: arrays by position.
            key: a random key, where the model draws random numbers.

        Returns:
            NumPy arrays with the model's own dtypes; lists for sequences, None for absent optionals.

        Raises: OnnxError for inputs that do not fit, or a node that cannot be computed.
        """
        with jax.enable_x64(True), node_by_node():
            values = [_for_eager(value) for value in self._checked(inputs)]
            outputs = run_graph(self._graph, [*values, *self._weights()], replace(self.run_options, key=key, state={}))
        return tuple(_given_out(output, spec) for output, spec in zip(outputs, self.outputs, strict=True))

    def run(self, inputs: Mapping[str, Any], *, key: Any = None, compiled: bool = True) -> dict[str, Any]:
        """Runs the model with its own parameters as a compiled program with 64-bit types.

        A model whose shapes depend on values runs node by node, as calling it does.

        Args:
            inputs: by name. An input that has an initialiser may be left out.
            key: a random key, where the model draws random numbers.
            compiled: False: it runs node by node in any case.

        Returns:
            Outputs by name: NumPy arrays with the model's own dtypes.

        Raises: OnnxError for inputs that do not fit, are missing or unknown, or a node that cannot be computed.
        """
        names = [spec.name for spec in self.inputs]
        defaults = {value.name for value in self._loaded.proto.graph.input} & self._loaded.initializers.keys()
        unknown = set(inputs) - {*names, *defaults}
        if unknown:
            raise OnnxError(f"the model has no input '{min(unknown)}': it has {', '.join(names) or 'none'}")
        if changed := inputs.keys() & defaults:
            return self._with_initializers({name: inputs[name] for name in changed}).run(
                {name: value for name, value in inputs.items() if name not in changed}, key=key, compiled=compiled
            )
        given = [inputs.get(name) for name in names]
        return {
            spec.name: output
            for spec, output in zip(self.outputs, self._run(given, key) if compiled else self(*given, key=key), strict=True)
        }

    def _function(self) -> Callable[..., Any]:
        def inference(params: Mapping[str, Any], *inputs: Any, key: Any = None) -> tuple[Any, ...]:
            return self._traced(params, {}, inputs, key)[0]

        def training(params: Mapping[str, Any], state: Mapping[str, Any], *inputs: Any, key: Any = None) -> tuple[Any, Any]:
            return self._traced(params, state, inputs, key)

        function = training if self._training else inference
        function.__name__ = function.__qualname__ = re.sub(r"\W+", "_", self.name).strip("_")[:60] or "model"
        return function

    def _sources(self, node: Node, positions: Sequence[int]) -> tuple[str, ...]:
        """Names of the inputs that values at these positions of a node come from, but for those that are static."""
        found = demanded(self._graph, bounds=self._bounds, besides=(node, positions))
        return tuple(spec.name for spec in self.inputs if spec.name in found and spec.name not in self.static_inputs)

    def _traced(self, params: Mapping[str, Any], state: Mapping[str, Any], inputs: Sequence[Any], key: Any) -> tuple[tuple[Any, ...], Any]:
        """(outputs, new state) as JAX's arrays."""
        require_names("params", params, self.params)
        require_names("state", state, self.state)
        values = self._checked(inputs)
        arrays = [
            value if spec.name in self.static_inputs else narrowed(f"input '{spec.name}'", value)
            for value, spec in zip(values, self.inputs, strict=True)
        ]
        weights = [jnp.asarray(params[name]) for name in self.params]
        statistics = [jnp.asarray(state[name]) for name in self.state]
        run = replace(self.run_options, key=key, state={})
        outputs = run_graph(self._graph, [*arrays, *weights, *statistics], run)
        results = tuple(narrowed(f"output '{spec.name}'", output) for output, spec in zip(outputs, self.outputs, strict=True))
        return results, {name: run.state.get(name, state[name]) for name in self.state}

    def _checked(self, inputs: Sequence[Any]) -> list[Any]:
        if len(inputs) != len(self.inputs):
            declared = ", ".join(f"{spec.name} {spec}" for spec in self.inputs)
            raise OnnxError(f"{len(inputs)} inputs are given, and the model takes {len(self.inputs)}: {declared}")
        return [spec.checked(value, known=spec.name in self.static_inputs) for value, spec in zip(inputs, self.inputs, strict=True)]

    def _weights(self) -> list[Any]:
        """Its own parameters and state on the default device, where they stay. 64-bit types are on."""
        device = jax.config.jax_default_device  # pyrefly: ignore[missing-attribute]
        if self._on_device is None or self._on_device[0] != device:
            with jax.ensure_compile_time_eval():  # a program may be traced around this
                self._on_device = (
                    device,
                    [_on_device(f"initialiser '{name}'", array) for name, array in (*self.params.items(), *self.state.items())],
                )
        return self._on_device[1]

    def _run(self, inputs: Sequence[Any], key: Any) -> tuple[Any, ...]:
        if not self._is_dynamic:
            try:
                return self._run_program(inputs, key)
            except DynamicShapeError:
                self._is_dynamic = True
        return self(*inputs, key=key)

    def _run_program(self, inputs: Sequence[Any], key: Any) -> tuple[Any, ...]:
        with jax.enable_x64(True):
            values = self._checked(inputs)
            known = {spec.name: value for spec, value in zip(self.inputs, values, strict=True) if spec.name in self.static_inputs}
            traced = [value for spec, value in zip(self.inputs, values, strict=True) if spec.name not in known]
            outputs = self._program(known)(traced, self._weights(), key)
        return tuple(_given_out(output, spec) for output, spec in zip(outputs, self.outputs, strict=True))

    def _program(self, known: Mapping[str, Array]) -> Callable[..., Any]:
        """The compiled model for values of its static inputs."""
        key = tuple((name, _by_value(value)) for name, value in known.items())
        if key not in self._programs:

            def program(traced: Sequence[Any], weights: Sequence[Any], key: Any) -> list[Any]:
                rest = iter(traced)
                values = [known[spec.name] if spec.name in known else next(rest) for spec in self.inputs]
                return run_graph(self._graph, [*values, *weights], replace(self.run_options, key=key, state={}))

            program.__name__ = self.fn.__name__
            while len(self._programs) >= _MOST_RUN_PROGRAMS:
                self._programs.pop(next(iter(self._programs)))
            self._programs[key] = jax.jit(program)
        return self._programs[key]

    def _with_initializers(self, changed: Mapping[str, Any]) -> Self:
        """The same model with other initialisers, which are inputs as well."""
        declared = {spec.name: spec for spec in specs_of(self._loaded.proto.graph.input)}
        arrays = {name: np.asarray(declared[name].checked(value, known=False)) for name, value in changed.items()}
        loaded = replace(self._loaded, initializers={**self._loaded.initializers, **arrays})
        return type(self)(loaded, training=self._training, static=self._static, bounds=self._bounds, trainable=self._trainable)


def _on_device(what: str, array: Any) -> Any:
    """An array of JAX. Raises: OnnxError for a type that XLA can't compile, such as one of 6 bits."""
    try:
        return jnp.asarray(array)
    except jax.errors.JaxRuntimeError as error:
        if not str(error).startswith(NO_PROGRAM):
            raise
        raise OnnxError(f"{what} is {array.dtype}, which XLA has no programs for: {error}") from error


def _for_eager(value: Any) -> Any:
    """Floats as JAX's arrays, which the nodes compute with; others as NumPy's, which are known."""
    if isinstance(value, SequenceValue):
        return SequenceValue(map(_for_eager, value))
    if not hasattr(value, "dtype"):
        return value
    return _on_device("an input", value) if jnp.issubdtype(value.dtype, jnp.inexact) else np.asarray(value)


def _given_out(value: Any, spec: ValueSpec) -> Any:
    """An output as its caller gets it."""
    if isinstance(value, SequenceValue):
        return [_given_out(element, spec) for element in value]
    if not hasattr(value, "dtype"):
        return value
    array = np.asarray(value)
    return array if spec.dtype is None or spec.is_text or array.dtype == spec.dtype else array.astype(spec.dtype)


def _by_value(value: Any) -> Any:
    if isinstance(value, SequenceValue):
        return tuple(map(_by_value, value))
    if not isinstance(value, np.ndarray):
        return repr(value)
    return value.dtype.str, value.shape, str(value.tolist()) if value.dtype == object else value.tobytes()
