"""A model as a list of layers for `tilestep.plan_training`, which work for any number of samples."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, Final, final

import jax
import jax.numpy as jnp
import numpy as np

from tilestep.onnx.errors import OnnxError
from tilestep.onnx.function import ModelFunction
from tilestep.onnx.interpreter.graph import reads
from tilestep.onnx.interpreter.values import Array, is_known
from tilestep.onnx.stages.parts import Finish, ModelPart, evaluated, parts_of

MOST_LAYERS: Final = 64  # each kind is planned by itself
_SAMPLES: Final = 3  # at which layers are compared: a size that is no other dimension's by chance
Loss = str | Callable[..., Any] | None


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Layers:
    """A model in layers, as `tilestep.plan_training` takes them.

    Attributes:
        layers: functions (params, *values) -> values. The last one returns the loss. Layers that compute alike are one function.
        params: for each layer its parameters, in the order of `names`.
        names: for each layer the names of its parameters.
        tied: paths (layer, index) of parameters that several layers have.
        microbatch: shapes of the inputs, and of what else the loss takes.
        microbatch_sizes: of a model that has one number of samples only; None for others.
    """

    layers: list[Callable[..., Any]]
    params: list[list[Array]]
    names: list[tuple[str, ...]]
    tied: list[list[tuple[int, int]]]
    microbatch: tuple[Any, ...]
    microbatch_sizes: list[int] | None


def layers_of(model: ModelFunction, *, loss: Loss, others: Sequence[Any], sizes: Mapping[str, int], most: int) -> Layers:
    """The model in layers; see `OnnxModel.layers`."""
    if model.training:
        raise OnnxError("layers have no state, and draw no random numbers: import the model without training=True")
    names = [spec.name for spec in model.outputs]
    if isinstance(loss, str) and loss not in names:
        raise OnnxError(f"loss is '{loss}', and the model's outputs are {', '.join(names)}")
    fixed = _fixed_samples(model, sizes)
    division = _Division(model, sizes, [loss] if isinstance(loss, str) else names, most)
    parts = division.parts(fixed or _SAMPLES)
    finish = _finish(loss)
    last = len(parts) - 1
    made: dict[Any, Callable[..., Any]] = {}
    layers = [
        made.setdefault((form, number if number in (0, last) else None), division.layer(number, finish))
        for number, form in enumerate(map(_form, parts))
    ]
    own = [tuple(part.params) for part in parts]
    return Layers(
        layers=layers,
        params=[list(part.params.values()) for part in parts],
        names=own,
        tied=[
            [(number, each.index(name)) for number, each in enumerate(own) if name in each]
            for name in model.params
            if sum(name in each for each in own) > 1
        ],
        microbatch=(*parts[0].shapes, *others),
        microbatch_sizes=None if fixed is None else [fixed],
    )


def _fixed_samples(model: ModelFunction, sizes: Mapping[str, int]) -> int | None:
    """The number of samples that the model or `sizes` says; None if it is free.

    Raises: OnnxError for an input without samples, and for unlike numbers of them.
    """
    found: dict[int, str] = {}
    if not model.inputs:
        raise OnnxError("the model has no inputs, so a microbatch has no samples: there is nothing to plan")
    for spec in model.inputs:
        if not spec.shape:
            raise OnnxError(
                f"input '{spec.name}' is {spec}, and samples are the first dimension of an input of layers: fix its value by "
                f"import_onnx(..., static={{'{spec.name}': ...}})"
            )
        first = spec.shape[0]
        size = first if isinstance(first, int) else sizes.get(f"{spec.name}[0]", sizes.get(first or ""))
        if size is not None:
            found[size] = spec.name
    if len(found) > 1:
        raise OnnxError(f"inputs have {', '.join(f'{size} ({name})' for size, name in found.items())} samples: they must have equally many")
    return next(iter(found), None)


def layer_ends(model: ModelFunction, values: Mapping[str, Any], most: int) -> list[int]:
    """Numbers of nodes at which a layer ends: where fewer bytes are passed on than just before and after. Args: values: of `evaluated`."""
    nodes = model.graph.nodes
    last_reader: dict[str, int] = {}
    for number, node in enumerate(nodes):
        last_reader.update((name, number) for name in reads(node))
    last_reader.update((name, len(nodes)) for name in model.graph.outputs)
    live_bytes_changes = [0] * (len(nodes) + 2)
    for number, node in enumerate(nodes):
        for name in node.outputs:
            if name and not is_known(values[name]):
                live_bytes_changes[number + 1] += _bytes(values[name])
                live_bytes_changes[last_reader.get(name, number) + 1] -= _bytes(values[name])
    passed = list(accumulate(live_bytes_changes))
    ends = [
        number for number in range(1, len(nodes)) if 0 < passed[number] <= min(passed[number + 1], passed[number - 1] or passed[number])
    ]
    return [*_spread(ends, len(nodes), most - 1), len(nodes)]


def _spread(ends: list[int], count: int, most: int) -> list[int]:
    """At most so many of `ends`, about equally far from each other."""
    if len(ends) <= most:
        return ends
    targets = np.linspace(0, count, most + 2)[1:-1]
    return sorted({min(ends, key=lambda end: abs(end - target)) for target in targets})


def _bytes(value: Any) -> int:
    return sum(int(np.prod(leaf.shape)) * np.dtype(leaf.dtype).itemsize for leaf in jax.tree.leaves(value) if hasattr(leaf, "shape"))


class _Division:
    """The model in parts, for each number of samples that somebody asks for."""

    def __init__(self, model: ModelFunction, sizes: Mapping[str, int], outputs: Sequence[str], most: int) -> None:
        self._model, self._sizes, self._outputs, self._most = model, sizes, outputs, most
        self._homes: list[int] | None = None
        self._parts: dict[int, list[ModelPart]] = {}
        self._functions: dict[tuple[int, int], Callable[..., Any]] = {}

    def parts(self, samples: int) -> list[ModelPart]:
        """The same parts for any number of samples. Raises: OnnxError for a size that is missing."""
        if samples not in self._parts:
            values = evaluated(self._model, self._sizes_for(samples))
            if self._homes is None:
                ends = layer_ends(self._model, values, self._most)
                self._homes = [layer for layer, (first, after) in enumerate(pairwise([0, *ends])) for _ in range(first, after)]
            self._parts[samples] = parts_of(self._model, values, self._homes, self._outputs)
        return self._parts[samples]

    def layer(self, number: int, finish: Finish) -> Callable[..., Any]:
        """A part as a function of its parameters in their order."""

        def layer(params: Sequence[Any], *values: Any) -> Any:
            samples = int(values[0].shape[0]) if number == 0 else self._samples(number, values)
            part = self.parts(samples)[number]
            if (samples, number) not in self._functions:
                is_last = number == len(self.parts(samples)) - 1
                self._functions[samples, number] = part.function(finish if is_last else None)
            return self._functions[samples, number](dict(zip(part.params, params, strict=True)), *values)

        part = next(iter(self._parts.values()))[number]
        layer.__name__ = layer.__qualname__ = part.graph.name
        return layer

    def _samples(self, number: int, values: Sequence[Any]) -> int:
        """Of values that a later layer gets: the first layer has got as many samples before."""
        for samples, parts in self._parts.items():
            shapes = [tuple(spec.shape) for spec in parts[number].shapes]
            if [tuple(value.shape) for value in values[: len(shapes)]] == shapes:
                return samples
        given = ", ".join(str(list(value.shape)) for value in values)
        raise OnnxError(f"layer {number} gets values of the shapes {given}, which the layer before does not make of any number of samples")

    def _sizes_for(self, samples: int) -> dict[str, int]:
        found = dict(self._sizes)
        for spec in self._model.inputs:
            first = (spec.shape or (samples,))[0]
            if not isinstance(first, int):
                alone = first is not None and spec.named().count(first) == 1  # a name that stands twice binds nothing
                found.setdefault(first if alone and first is not None else f"{spec.name}[0]", samples)
        return found


def _form(part: ModelPart) -> Any:
    """Equal for parts that compute the same with parameters and values of the same shapes, whatever their names are."""
    numbers: dict[str, int] = {}

    def known_as(names: Sequence[str]) -> tuple[int, ...]:
        return tuple(numbers.setdefault(name, len(numbers)) if name else -1 for name in names)

    def text(node: Any) -> Any:
        if node.subgraphs or node.function is not None:
            return node.proto.SerializeToString(deterministic=True)  # with the names inside
        attributes = sorted(attribute.SerializeToString(deterministic=True) for attribute in node.proto.attribute)
        return node.domain, node.op_type, node.version, tuple(attributes)

    graph = part.graph
    inputs = known_as(graph.inputs)
    nodes = tuple((text(node), known_as(node.inputs), known_as(node.outputs)) for node in graph.nodes)
    known = tuple(
        (known_as([name]), str(value.dtype), value.shape, value.tobytes())
        for name, value in sorted(graph.initializers.items(), key=lambda item: numbers.get(item[0], -1))
        if isinstance(value, np.ndarray)
    )
    shapes = tuple((each.shape, str(each.dtype)) for each in (*part.shapes, *part.params.values()))
    others = tuple(name for name, value in graph.initializers.items() if not isinstance(value, np.ndarray))
    return inputs, nodes, known, shapes, known_as(graph.outputs), others


def _finish(loss: Loss) -> Finish:
    """The loss of the last layer's outputs."""

    def finish(outputs: Sequence[Any], others: Sequence[Any]) -> Any:
        if callable(loss):
            return loss(*outputs, *others)
        real = [output for output in outputs if jnp.issubdtype(output.dtype, jnp.floating)]
        if not real:
            raise OnnxError("no output has floating-point numbers, so there is no gradient: name another loss")
        return sum(jnp.mean(output.astype(jnp.float32)) for output in real)

    return finish
