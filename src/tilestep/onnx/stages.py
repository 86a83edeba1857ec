"""Cuts a model into stages for `tilestep.train.Pipeline`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np

from tilestep.onnx.demand import statistics
from tilestep.onnx.errors import OnnxError
from tilestep.onnx.function import ModelFunction
from tilestep.onnx.graph import reads
from tilestep.onnx.parts import Finish, Part, evaluated, parts_of
from tilestep.onnx.values import is_known

if TYPE_CHECKING:
    from tilestep.train import Partition

Cuts = Sequence[str | Sequence[str]]
Loss = str | Callable[..., Any] | None
Weights = dict[str, np.ndarray[Any, Any]]


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Stages:
    """A model in stages. It unpacks into what `Pipeline` and its `init` take: `stages, params, tied = model.stages(...)`.

    Attributes:
        stages: functions (params, *values) -> values for the next stage. What the microbatch has beyond the model's inputs is passed on.
        params: for each stage its parameters by name.
        tied: paths of parameters that several stages have, for `Pipeline(tied=...)`.
        aux: for each stage its state in training, or None; for `init`.
        passed: names of the values that each stage but the last passes on.
        partition: the costs, where stages have been balanced; None where they have been named.
    """

    stages: list[Callable[..., Any]]
    params: list[Weights]
    tied: list[list[tuple[int, str]]]
    aux: list[Weights | None]
    passed: tuple[tuple[str, ...], ...]
    partition: Partition | None

    def __iter__(self) -> Iterator[Any]:
        return iter((self.stages, self.params, self.tied))


def stages_of(
    model: ModelFunction,
    cuts: int | Cuts,
    *,
    sizes: Mapping[str, int],
    loss: Loss,
    machine: str | None,
    training: bool | None,
) -> Stages:
    """The model in stages; see `OnnxModel.stages`."""
    names = [spec.name for spec in model.outputs]
    if isinstance(loss, str):
        if loss not in names:
            raise OnnxError(f"loss is '{loss}', and the model's outputs are {', '.join(names)}")
        names = [loss, *(name for name in names if name != loss)]
    values = evaluated(model, sizes)
    partition = None
    if isinstance(cuts, int):
        from tilestep.onnx.balance import balanced  # it brings the training runtime with it

        gradients = (model.training or loss is not None) if training is None else training
        homes, partition = balanced(model, values, cuts, outputs=names, machine=machine, training=gradients)
    else:
        homes = _homes(model, values, cuts)
    parts = parts_of(model, values, homes, names)
    _require_one_home(model, parts)
    last = len(parts) - 1
    return Stages(
        stages=[part.function(_finish(loss) if number == last else None) for number, part in enumerate(parts)],
        params=[dict(part.params) for part in parts],
        tied=[
            [(number, name) for number, part in enumerate(parts) if name in part.params]
            for name in model.params
            if sum(name in part.params for part in parts) > 1
        ],
        aux=[dict(part.state) or None for part in parts],
        passed=tuple(tuple(part.graph.outputs) for part in parts[:-1]),
        partition=partition,
    )


def _homes(model: ModelFunction, values: Mapping[str, Any], cuts: Cuts) -> list[int]:
    """For each node the number of its stage: the first whose cut depends on it, else the last.

    Raises: OnnxError for a value that no node computes, or a cut that no node leads to after the one before.
    """
    if isinstance(cuts, str):
        raise OnnxError(f"cuts is the text '{cuts}': it must be a list of values' names, such as ['{cuts}'], or a number of stages")
    makers = {name: number for number, node in enumerate(model.graph.nodes) for name in node.outputs if name}
    homes = [len(cuts)] * len(model.graph.nodes)
    for stage, cut in enumerate(cuts):
        ends = [cut] if isinstance(cut, str) else list(cut)
        for name in ends:
            if name not in makers or is_known(values[name]):
                why = "its value depends on shapes alone" if name in makers else "no node makes it"
                raise OnnxError(f"cuts names '{name}', at which the model can't be cut: {why}")
        waiting = [makers[name] for name in ends]
        if all(homes[number] < stage for number in waiting):
            raise OnnxError(f"cuts has '{ends[0]}' in place {stage}, but stages before it compute that already: change the order")
        while waiting:
            number = waiting.pop()
            if homes[number] > stage:
                homes[number] = stage
                waiting += [makers[name] for name in reads(model.graph.nodes[number]) if name in makers]
    return homes


def _require_one_home(model: ModelFunction, parts: Sequence[Part]) -> None:
    """Raises: OnnxError for statistics that several stages would change."""
    for name in statistics(model.graph) & model.state.keys():
        homes = [number for number, part in enumerate(parts) if name in part.state]
        if len(homes) > 1:
            raise OnnxError(f"state '{name}' would be changed in stages {homes[0]} and {homes[1]}: cut so that one has it")


def _finish(loss: Loss) -> Finish:
    """What the last stage returns: the loss alone or before all others; without `loss` the outputs, a single one by itself."""

    def finish(outputs: Sequence[Any], others: Sequence[Any]) -> Any:
        if callable(loss):
            return loss(*outputs, *others)
        results = (*outputs, *others)
        return results[0] if len(results) == 1 else results

    return finish
