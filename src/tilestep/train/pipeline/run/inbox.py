"""The values on their way between the tasks of a run: elements to the first stages, outputs forward, gradients back."""

import functools
import operator
from collections.abc import Sequence
from typing import Any, Final, final

import jax
from jax.sharding import Sharding

from tilestep.train.jax_private.device_put import is_whole
from tilestep.train.pipeline.compile.placement import StagePlacement
from tilestep.train.pipeline.compile.tracing import Element
from tilestep.train.pipeline.run.request import RunRequest
from tilestep.train.processes.remote import Put, put_local
from tilestep.train.untyped import jax as _jax

Slots = list[list[Any]]  # for each stage and microbatch a list of arrays; None before the first has come, and after they are taken


@final
class Copies:
    """Copies between devices, which start together at the end of a phase.

    Attributes:
        add: takes (value, sharding, target, index): at the end of the phase `target[index]` becomes a copy of the value.
    """

    def __init__(self, put: Put) -> None:
        self._put = put
        self._moves: list[tuple[jax.Array, Sharding, list[Any], int]] = []
        self.add: Final = self._moves.append  # no function of its own, because the host calls it for each value

    def start(self) -> None:
        """Starts all copies."""
        if not self._moves:
            return
        moves = self._moves.copy()
        self._moves.clear()
        values = self._put([move[0] for move in moves], [move[1] for move in moves])
        for (_, _, target, index), value in zip(moves, values, strict=True):
            target[index] = value


@final
class ElementFeed:
    """Brings elements to the stages of the first level.

    Attributes:
        arrived: how many microbatches have their element.
    """

    def __init__(self, request: RunRequest, slots: Slots, copies: Copies) -> None:
        self.arrived = 0
        self._elements, self._slots, self._copies, self._put = request.elements, slots, copies, request.transport.put
        self._each = request.schedule.microbatches if request.compiled.traced.is_whole else 1  # microbatches of an element
        inputs = _jax.tree.leaves(request.first[0])
        self._first_level: list[tuple[int, StagePlacement, list[jax.Array]]] = []  # each with the run's inputs on its devices
        for stage in request.schedule.levels[0]:
            placement = request.compiled.traced.stages[stage].placement
            self._first_level.append((stage, placement, put_local(inputs, [placement.whole] * len(inputs)) if inputs else []))
        self._send(request.first, with_copies=False)

    def take(self, *, with_copies: bool = False) -> None:
        """Takes the next element. Args: with_copies: whether it may travel with the copies of the phase."""
        self._send(next(self._elements), with_copies=with_copies)

    def _send(self, element: Element, *, with_copies: bool) -> None:
        microbatch, self.arrived = self.arrived, self.arrived + self._each
        leaves = _jax.tree.leaves(element[1:])
        for stage, placement, inputs in self._first_level:
            sharding = placement.along(1)
            args = [*inputs, *leaves]
            self._slots[stage][microbatch : microbatch + self._each] = [args] * self._each
            if all(getattr(leaf, "sharding", None) == sharding for leaf in leaves):
                continue
            if with_copies and all(map(is_whole, leaves)):
                for index, leaf in enumerate(leaves, len(inputs)):
                    self._copies.add((leaf, sharding, args, index))
            else:
                args[len(inputs) :] = self._put(leaves, [sharding] * len(leaves))


@final
class Inbox:
    """The arguments and gradients of tasks that are still to come."""

    def __init__(self, request: RunRequest) -> None:
        compiled, count = request.compiled, request.schedule.microbatches
        traced, stages = compiled.traced, compiled.traced.stages
        self._args: Slots = [[None] * count for _ in stages]
        self._output_gradients: Slots = [[None] * count for _ in stages]  # each: (stage that read the outputs) -> gradients
        self._routes, self._copies = compiled.routes, Copies(request.transport.put_moves)
        self._feed = ElementFeed(request, self._args, self._copies)
        self._keys = _keys_on_devices(request)
        numbered = {*self._keys, *(request.schedule.levels[0] if traced.is_whole else ())}
        self._numbers = {stage: compiled.numbers[stage] for stage in numbered}
        self._is_local = [stage.placement.is_local for stage in stages]

    def arguments(self, stage: int, microbatch: int, aux: Sequence[jax.Array]) -> list[Any]:
        """All leaves of a stage's arguments. Args: aux: leaves of its auxiliary state."""
        slots = self._args[stage]
        args = slots[microbatch]
        if args is None:  # only a stage of the first level waits for its element
            while self._feed.arrived <= microbatch:
                self._feed.take()
            args = slots[microbatch]
        slots[microbatch] = None
        leaves = [*args, *aux]
        if stage in self._keys:
            leaves.append(self._keys[stage])
        if stage in self._numbers:
            leaves.append(self._numbers[stage][microbatch])
        return leaves

    def send(self, stage: int, microbatch: int, outputs: Sequence[jax.Array]) -> None:
        """Sends a stage's outputs to the stages that read them."""
        slots, add = self._args, self._copies.add
        for source, destination, index, sharding in self._routes.ways[stage]:
            args = slots[destination][microbatch]
            if args is None:
                args = slots[destination][microbatch] = list(self._routes.blank[destination])
            if sharding is None:
                args[index] = outputs[source]
            else:
                add((outputs[source], sharding, args, index))

    def send_back(self, stage: int, microbatch: int, gradients: Sequence[jax.Array]) -> None:
        """Sends gradients of a stage's arguments to the stages that made the arguments."""
        for destination, sources, sharding in self._routes.backs[stage]:
            values = [gradients[source] for source in sources]
            by_reader = self._output_gradients[destination][microbatch]
            if by_reader is None:
                by_reader = self._output_gradients[destination][microbatch] = {}
            by_reader[stage] = values
            if sharding is not None:
                for index, gradient in enumerate(values):
                    self._copies.add((gradient, sharding, values, index))

    def output_gradients(self, stage: int, microbatch: int) -> list[jax.Array]:
        """The gradients of a stage's real outputs, summed over all stages that read them, on its devices."""
        by_reader, self._output_gradients[stage][microbatch] = self._output_gradients[stage][microbatch], None
        rows = list(by_reader.values())  # each in the order of the outputs
        return rows[0] if len(rows) == 1 or not self._is_local[stage] else gradient_sum(rows)

    def end_phase(self, early: int) -> None:
        """Takes elements until so many microbatches have theirs, and starts the copies of the phase.

        Values for a stage on the same devices need no copy: a later task of the same phase can read them.
        """
        while self._feed.arrived < early:
            self._feed.take(with_copies=True)
        self._copies.start()


def _keys_on_devices(request: RunRequest) -> dict[int, jax.Array]:
    """The run's key on the devices of each stage that takes one."""
    traced = request.compiled.traced
    stages = [number for number, takes_key in enumerate(traced.keyed) if takes_key]
    if not stages:
        return {}
    data = _jax.random.key_data(request.key)
    shardings = [traced.stages[number].placement.whole for number in stages]
    return dict(zip(stages, put_local([data] * len(stages), shardings), strict=True))


@_jax.jit
def gradient_sum(rows: Sequence[Sequence[jax.Array]]) -> list[jax.Array]:
    """The gradients of outputs that several stages read. Traces of emulated machines have it by its name."""
    return [functools.reduce(operator.add, column) for column in zip(*rows, strict=True)]
