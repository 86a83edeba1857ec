"""Forward of a microbatch with old weights, and backward with new ones and the activations of that forward.

Each stage keeps for backward what depends on its inputs. What depends on its weights alone is computed again in backward, from the weights
that backward reads, so no old weight gets into the gradient of the stage's input.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, final

import jax
import jax.numpy as jnp
from jax.sharding import SingleDeviceSharding

from tilestep.popart.session.model.analysis import Types
from tilestep.popart.session.model.graph import SessionGraph, Values, marking
from tilestep.popart.session.recompute import Policy
from tilestep.popart.session.staging import SessionStage, Staging
from tilestep.popart.session.stale.versions import Rings, Versions
from tilestep.train.pipeline.compile.placement import StagePlacement
from tilestep.train.pipeline.compile.residuals import Residuals, residuals

_Call = Callable[[Values, Values, Values, Any], tuple[Values, Values, Values]]
_ACTING: Final = frozenset({"Abort", "PrintTensor"})  # computed again, they would act twice


class Differentiated(NamedTuple):
    """What a microbatch gives, by name.

    Attributes:
        captured: values of tensors.
        state: new statistics.
        gradients: of the trained variables.
        taps: gradients of other tensors.
    """

    captured: Values
    state: Values
    gradients: Values
    taps: Values


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What a microbatch must give besides gradients.

    Attributes:
        tensors: whose values are captured.
        taps: tensors whose gradients are wanted.
    """

    tensors: Collection[str]
    taps: Types


@dataclass(frozen=True, kw_only=True)
class _Forward:
    """What forward of a stage has left for its backward.

    Attributes:
        parts: how the two share their work.
        args: leaves of what forward read.
        kept: values that it has computed.
        outputs: its outputs that have gradients, by name.
    """

    stage: SessionStage
    parts: Residuals
    args: list[Any]
    kept: list[Any]
    outputs: Values


@final
class StaleWeights:
    """The gradients of a pipeline's microbatches, one after the other.

    Attributes:
        versions: of the weights.
    """

    def __init__(
        self,
        graph: SessionGraph,
        staging: Staging,
        *,
        loss: str,
        trained: Collection[str],
        types: Types,
        policies: Mapping[int, Policy] | None = None,
    ) -> None:
        """Args: types: of all tensors. policies: what a stage keeps, by its number; a stage without one computes nothing again.

        Raises: popart_exception for a weight that is also read after the stage of the loss.
        """
        self._graph, self._staging, self._loss, self._types = graph, staging, loss, types
        self._trained, self._policies = frozenset(trained), policies or {}
        self.versions = Versions(staging, trained)
        device = jax.devices("cpu")[0]
        self._placement = StagePlacement(devices=(device,), whole=SingleDeviceSharding(device))  # nothing is placed: stages are traced only

    def differentiated(
        self, rings: Rings, variables: Values, inputs: Values, key: Any, seed: Callable[[Any], Any], asked: Asked
    ) -> Differentiated:
        """Forward and backward of a microbatch.

        Args:
            variables: the newest ones.
            inputs: of the microbatch.
            key: a random key.
            seed: the loss -> its gradient, with which backward begins.
        """
        run = _Microbatch(rings=rings, variables=variables, key=key, asked=asked, values=dict(inputs))
        done = [forward for stage in self._staging.stages if (forward := self._forward(run, stage)) is not None]
        cotangents: Values = {self._loss: seed(run.values[self._loss])}
        gradients: Values = {}
        taps: Values = {name: jnp.zeros(spec.shape, spec.dtype) for name, spec in asked.taps.items()}
        for forward in reversed(done):
            of_weights, of_reads, of_taps = self._backward(run, forward, cotangents)
            _add(gradients, of_weights)
            _add(cotangents, of_reads)
            _add(taps, of_taps)
        return Differentiated(run.captured, run.state, gradients, taps)

    def _forward(self, run: _Microbatch, stage: SessionStage) -> _Forward | None:
        """Runs a stage's forward, and adds its outputs to the run's values. None for a stage after the loss, which has no backward."""
        call = self._call(stage, run.asked)
        weights, args = self._weights(run, stage, self.versions.forward), self._args(run, stage)
        if stage.number > self._staging.loss_stage:
            outputs, captured, state = call(*weights, *args)
            run.add(outputs, captured, state)
            return None
        real = [name for name in self._outputs(stage) if _is_real(self._types[name])]
        differentiated = self._differentiated_reads(stage)
        structure: Any = None

        def linearise(params: Any, leaves: Any) -> tuple[list[Any], list[Any], Any]:
            nonlocal structure
            trained, fixed = jax.tree.unflatten(jax.tree.structure(weights), params)
            values, taps, key = jax.tree.unflatten(jax.tree.structure(args), leaves)

            def function(trained: Values, reads: Values, taps: Values) -> tuple[list[Any], Any]:
                results = call(trained, fixed, {**values, **reads}, taps, key)
                return [results[0][name] for name in real], results

            reads = {name: values[name] for name in differentiated}
            outputs, pullback, results = jax.vjp(function, trained, reads, taps, has_aux=True)
            flat, structure = jax.tree.flatten(results)
            return outputs, flat, pullback

        params, leaves = jax.tree.leaves(weights), jax.tree.leaves(args)
        wanted = [self._types[name] for name in real]
        parts = residuals(self._placement, linearise, _specs(params), _specs(leaves), wanted, least=False)
        _, results, kept = parts.forward(params, leaves)
        outputs, captured, state = jax.tree.unflatten(structure, results)
        run.add(outputs, captured, state)
        return _Forward(stage=stage, parts=parts, args=leaves, kept=kept, outputs={name: outputs[name] for name in real})

    def _backward(self, run: _Microbatch, forward: _Forward, cotangents: Values) -> tuple[Values, Values, Values]:
        params = jax.tree.leaves(self._weights(run, forward.stage, self.versions.backward))
        parts = forward.parts
        given = [cotangents.pop(name, None) for name in forward.outputs]
        gradients = [
            jnp.zeros_like(output) if gradient is None else gradient
            for gradient, output in zip(given, forward.outputs.values(), strict=True)
        ]
        own = [params[index] for index in parts.kept_params], [forward.args[index] for index in parts.kept_args]
        return parts.pullback(*own, forward.kept)(gradients)

    def _weights(
        self, run: _Microbatch, stage: SessionStage, version: Callable[[Rings, Values, SessionStage], Values]
    ) -> tuple[Values, Values]:
        """(trained ones, others that nothing changes), of the variables that a stage reads."""
        fixed = {name: run.variables[name] for name in stage.variables if name not in self._trained | self._graph.statistics}
        return version(run.rings, run.variables, stage), fixed

    def _args(self, run: _Microbatch, stage: SessionStage) -> tuple[Values, Values, Any]:
        """(values that forward reads, zeros that are added to tensors whose gradients are wanted, the random key)."""
        values = {name: run.values[name] for name in stage.reads}
        values |= {name: run.variables[name] for name in stage.variables if name in self._graph.statistics}
        made = {name for position in stage.nodes for name in self._graph.graph.nodes[position].outputs}
        taps = {
            name: jnp.zeros(spec.shape, spec.dtype)
            for name, spec in run.asked.taps.items()
            if name in made or (name in stage.reads and name in self._graph.inputs)
        }
        return values, taps, run.key

    def _differentiated_reads(self, stage: SessionStage) -> list[str]:
        return [name for name in stage.reads if name not in self._graph.inputs and _is_real(self._types[name])]

    def _outputs(self, stage: SessionStage) -> list[str]:
        own = [self._loss] if stage.number == self._staging.loss_stage else []
        return list(dict.fromkeys([*stage.gives, *own]))

    def _call(self, stage: SessionStage, asked: Asked) -> Any:
        """The stage as (trained, fixed variables, values, taps, key) -> (outputs, captured values, new statistics)."""
        policy = self._policies.get(stage.number)
        outputs = self._outputs(stage)
        if any(self._graph.graph.nodes[position].op_type in _ACTING for position in stage.nodes):
            policy = None

        def call(trained: Values, fixed: Values, values: Values, taps: Values, key: Any) -> tuple[Values, Values, Values]:
            captured: Values = {}
            marked: Values = {}
            mark = marking(captured, marked, taps, tensors=asked.tensors, loss=self._loss, named=policy is not None)
            given, state = self._graph.run_stage(stage, {**values, **fixed, **trained}, key, mark)
            every = {**given, **marked}
            return {name: jnp.asarray(every[name]) for name in outputs}, captured, state

        return call if policy is None else jax.checkpoint(call, policy=policy, prevent_cse=False)


@dataclass(frozen=True, kw_only=True)
class _Microbatch:
    """One microbatch on its way.

    Attributes:
        variables: the newest ones.
        values: the inputs, and what stages have passed on.
        captured: values of anchors.
        state: new statistics.
    """

    rings: Rings
    variables: Values
    key: Any
    asked: Asked
    values: Values
    captured: Values = field(default_factory=dict[str, Any])
    state: Values = field(default_factory=dict[str, Any])

    def add(self, outputs: Values, captured: Values, state: Values) -> None:
        self.values.update(outputs)
        self.captured.update(captured)
        self.state.update(state)


def _specs(leaves: list[Any]) -> list[Any]:
    return [jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for leaf in leaves]


def _is_real(spec: jax.ShapeDtypeStruct) -> bool:
    return bool(jnp.issubdtype(spec.dtype, jnp.inexact))


def _add(to: Values, more: Values) -> None:
    for name, value in more.items():
        to[name] = to[name] + value if name in to else value
