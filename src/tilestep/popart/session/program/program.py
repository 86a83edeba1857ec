"""The compiled programs of a session on one device: a step, a microbatch, an update."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tilestep.popart.dataflow import Anchor
from tilestep.popart.enums import AnchorReturnTypeId
from tilestep.popart.optimizers import UpdateRule
from tilestep.popart.session.model.analysis import Fetched
from tilestep.popart.session.model.graph import SessionGraph, Values, marking
from tilestep.popart.session.stale import Asked, Rings, StaleWeights

STATE_WORDS: Final = 3  # two of the key, and how many microbatches drew from it
_RANDOM: Final = "threefry2x32"


def key_of(seed: int) -> Any:
    """A random key. Args: seed: 0 to 2**64 - 1."""
    return _key([seed >> 32, seed & 0xFFFFFFFF])


def words_of(key: Any, count: Any) -> list[int]:
    """The numbers of a key and of its draws, of 32 bits each."""
    return [*(int(word) for word in np.asarray(jax.random.key_data(key))), int(count)]


def key_and_count(words: Sequence[int]) -> tuple[Any, Any]:
    """The opposite of `words_of`."""
    return _key(words[:2]), jax.numpy.uint32(words[2])


def _key(words: Sequence[int]) -> Any:
    return jax.random.wrap_key_data(jax.numpy.asarray(np.array(list(words), np.uint32)), impl=_RANDOM)


class SessionCarry(NamedTuple):
    """What stays on the device from microbatch to microbatch.

    Attributes:
        variables: by name.
        optimizer: the optimiser's state; None in inference.
        key: the random key of the session.
        count: microbatches since the key was set, uint32.
        old: within a run of a pipeline without accumulation, older versions of the weights.
    """

    variables: Values
    optimizer: Any
    key: Any
    count: Any
    old: Rings | None = None


@dataclass(frozen=True, kw_only=True)
class Gradients:
    """What is differentiated.

    Attributes:
        loss: the tensor.
        rule: of the optimiser.
        trained: variables that get gradients.
        taps: other tensors whose gradient is anchored or looked at: shape and dtype by name.
        observed: tensors whose gradients automatic loss scaling looks at.
    """

    loss: str
    rule: UpdateRule
    trained: Sequence[str]
    taps: Mapping[str, jax.ShapeDtypeStruct]
    observed: Sequence[str] = ()


@final
class SessionProgram:
    """Pure functions of one device. `step` runs all microbatches of a call of `session.run`.

    Attributes:
        anchors: that are returned.
        batches, accumulation: batches of a step, microbatches of a batch.
        resident: whether inputs stay on the device, and are the same for each microbatch.
    """

    def __init__(
        self,
        graph: SessionGraph,
        *,
        anchors: Sequence[Anchor],
        fetched: Fetched,
        gradients: Gradients | None,
        batches: int,
        accumulation: int,
        stale: StaleWeights | None = None,
        resident: bool = False,
    ) -> None:
        """Args: stale: in a pipeline that trains without accumulation."""
        self._graph, self._fetched, self._gradients, self._stale = graph, fetched, gradients, stale
        self.anchors, self.batches, self.accumulation, self.resident = anchors, batches, accumulation, resident

    def begin(self, carry: SessionCarry) -> SessionCarry:
        """The carry at the begin of a run."""
        return carry if self._stale is None else carry._replace(old=self._stale.versions.begin(carry.variables))

    def end(self, carry: SessionCarry) -> SessionCarry:
        """The carry after a run: the next one begins with the newest weights."""
        return carry._replace(old=None)

    def microbatch(self, carry: SessionCarry, inputs: Values) -> tuple[SessionCarry, Values]:
        """Runs the model and, in training, adds the gradients to the accumulators.

        Args: inputs: of one microbatch.

        Returns: the carry, and the values of the anchors before an update.
        """
        key = jax.random.fold_in(carry.key, carry.count)
        captured: Values = {}
        if self._gradients is None:
            state = self._graph.run(carry.variables, inputs, key, marking(captured, {}, {}, tensors=self._wanted()))
            optimizer = carry.optimizer
        else:
            captured, state, grads, seeds = self._differentiated(self._gradients, carry, inputs, key)
            of_all = {**grads, **seeds}
            looked_at = self._gradients.rule.observe(carry.optimizer, [of_all[name] for name in self._gradients.observed])
            optimizer = self._gradients.rule.accumulate(looked_at, grads)
            captured.update((anchor, of_all[name]) for anchor, name in self._fetched.gradients.items())
        new = carry._replace(variables={**carry.variables, **state}, optimizer=optimizer, count=carry.count + np.uint32(1))
        captured |= {anchor: captured[name] for anchor, name in self._fetched.restored.items()}
        return new, captured | self._kept(new, (*self._fetched.variables, *self._fetched.accumulators))

    def update(self, carry: SessionCarry) -> SessionCarry:
        """Changes the variables by the accumulated gradients. In inference there is nothing to do."""
        if self._gradients is None:
            return carry
        trained = {name: carry.variables[name] for name in self._gradients.trained}
        changed, optimizer = self._gradients.rule.update(carry.optimizer, trained)
        new = carry._replace(variables={**carry.variables, **changed}, optimizer=optimizer)
        if self._stale is None or carry.old is None:
            return new
        return new._replace(old=self._stale.versions.pushed(carry.old, new.variables))

    def batch(self, carry: SessionCarry, inputs: Values) -> tuple[SessionCarry, Values]:
        """All microbatches between two updates, and the update.

        Args: inputs: of the microbatches; with more than one of them the first dimension counts them, unless they are resident.

        Returns: the carry, and the anchors' values with the same first dimension.
        """
        if self.accumulation == 1:
            new, values = self.microbatch(carry, inputs)
            new = self.update(new)
            return new, values | self.after_update(new)
        new, values = self._repeated(self.microbatch, carry, inputs, self.accumulation)
        new = self.update(new)
        after = self.after_update(new)
        return new, values | {name: jnp.broadcast_to(value, (self.accumulation, *value.shape)) for name, value in after.items()}

    def after_update(self, carry: SessionCarry) -> Values:
        """Anchors that a batch returns as they are after its update, for each of its microbatches. A batch of one returns all so."""
        variables = self._fetched.variables if self.accumulation == 1 else ()
        return self._kept(carry, variables) | {name: carry.variables[of] for name, of in self._fetched.updated.items()}

    def step(self, carry: SessionCarry, inputs: Values) -> tuple[SessionCarry, Values]:
        """All batches of a step.

        Args: inputs: first the dimension of batches, then that of microbatches; a dimension of one element is left out, and both of
            resident inputs.

        Returns: the carry, and the anchors' values. "All" has the dimensions of the inputs in front, "EveryN" fewer batches.
        """
        carry = self.begin(carry)
        if self.batches == 1:
            new, values = self.batch(carry, inputs)
            totals = {anchor.name: self._total(anchor, values[anchor.name]) for anchor in self.anchors if not anchor.is_stacked}
            stacked = {anchor.name: values[anchor.name] for anchor in self.anchors if anchor.is_stacked}
        else:
            first = {anchor.name: jnp.zeros(shape.shape, shape.dtype) for anchor, shape in self._total_types(carry, inputs)}

            def body(state: tuple[SessionCarry, Values], batch: Values) -> tuple[tuple[SessionCarry, Values], Values]:
                inner, values = self.batch(state[0], batch)
                totals = {
                    anchor.name: self._total(anchor, values[anchor.name], state[1][anchor.name])
                    for anchor in self.anchors
                    if not anchor.is_stacked
                }
                return (inner, totals), {anchor.name: values[anchor.name] for anchor in self.anchors if anchor.is_stacked}

            (new, totals), stacked = self._repeated(body, (carry, first), inputs, self.batches)
            stacked = {anchor.name: self._selected(anchor, stacked[anchor.name]) for anchor in self.anchors if anchor.is_stacked}
        return self.end(new), stacked | totals | self.at_end(new)

    def _repeated(self, function: Callable[[Any, Values], Any], carry: Any, inputs: Values, count: int) -> Any:
        """Calls a function for each element that the inputs' first dimension counts, or so often with resident inputs."""
        if not self.resident:
            return lax.scan(function, carry, inputs, length=count)

        def again(carry: Any, _: None) -> Any:
            number = (carry if isinstance(carry, SessionCarry) else carry[0]).count
            return function(carry, lax.optimization_barrier((number, inputs))[1])  # else XLA computes once what is always the same

        return lax.scan(again, carry, None, length=count)

    def _selected(self, anchor: Anchor, values: Any) -> Any:
        """Every N-th microbatch of a step. Args: values: first the dimension of batches, then that of microbatches if there are several."""
        if anchor.period == 1:
            return values
        flat = values.reshape(-1, *values.shape[2:]) if self.accumulation > 1 else values
        return flat[anchor.period - 1 :: anchor.period]

    def at_end(self, carry: SessionCarry) -> Values:
        """Anchors of variables that are returned once, at the end of a step."""
        final = {anchor.name for anchor in self.anchors if anchor.kind == AnchorReturnTypeId.Final}
        return self._kept(carry, [name for name in self._fetched.variables if name in final])

    def _total_types(self, carry: SessionCarry, inputs: Values) -> list[tuple[Anchor, Any]]:
        one = {name: value if self.resident else jax.ShapeDtypeStruct(value.shape[1:], value.dtype) for name, value in inputs.items()}
        _, values = jax.eval_shape(self.batch, carry, one)
        leading = 1 if self.accumulation > 1 else 0
        return [
            (anchor, jax.ShapeDtypeStruct(values[anchor.name].shape[leading:], values[anchor.name].dtype))
            for anchor in self.anchors
            if not anchor.is_stacked
        ]

    def _total(self, anchor: Anchor, values: Any, so_far: Any = None) -> Any:
        """The sum or the last of a batch's microbatches, with what batches before have given."""
        if anchor.kind == AnchorReturnTypeId.Final:
            return values[-1] if self.accumulation > 1 else values
        total = values.sum(0, dtype=values.dtype) if self.accumulation > 1 else values
        return total if so_far is None else so_far + total

    def _differentiated(self, of: Gradients, carry: SessionCarry, inputs: Values, key: Any) -> tuple[Values, Values, Values, Values]:
        """(captured values, new statistics, gradients of variables, gradients of taps)."""
        if self._stale is not None and carry.old is not None:
            asked = Asked(tensors=self._wanted(), taps=of.taps)
            return self._stale.differentiated(carry.old, carry.variables, inputs, key, lambda loss: self._seed(of, carry, loss), asked)
        others = {name: value for name, value in carry.variables.items() if name not in of.trained}

        def forward(trained: Values, taps: Values) -> tuple[Any, tuple[Values, Values]]:
            captured: Values = {}
            marked: Values = {}
            mark = marking(captured, marked, taps, tensors=self._wanted(), loss=of.loss)
            state = self._graph.run({**others, **trained}, inputs, key, mark)
            return marked[of.loss], (captured, state)

        trained = {name: carry.variables[name] for name in of.trained}
        taps = {name: jnp.zeros(spec.shape, spec.dtype) for name, spec in of.taps.items()}
        loss, backward, (captured, state) = jax.vjp(forward, trained, taps, has_aux=True)
        grads, seeds = backward(self._seed(of, carry, loss))
        return captured, state, grads, seeds

    def _seed(self, of: Gradients, carry: SessionCarry, loss: Any) -> Any:
        """The gradient of the loss, with which backward begins."""
        largest = float(jnp.finfo(loss.dtype).max)  # an IPU's conversion stays finite
        return jnp.clip(of.rule.loss_scale(carry.optimizer), -largest, largest).astype(loss.dtype).reshape(loss.shape)

    def _wanted(self) -> set[str]:
        return {*self._fetched.tensors, *self._fetched.restored.values()}

    def _kept(self, carry: SessionCarry, names: Sequence[str]) -> Values:
        state = {} if self._gradients is None else self._gradients.rule.values(carry.optimizer)
        return {name: carry.variables[name] if name in carry.variables else state[name] for name in names}
