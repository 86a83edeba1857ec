"""Cuts a list of layers into stages of a pipeline: measures what each layer costs, and finds the best cuts for these costs."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, final

import jax

from tilestep import hints
from tilestep.cuts import best_cuts, stage_costs
from tilestep.messages import plain, shown
from tilestep.train.backward import with_backward
from tilestep.train.numbers import real_number, whole_number
from tilestep.train.other_arguments import devices_of, items_of, require_bools, require_function, require_kind, require_tree
from tilestep.train.untyped import Device, Pytree
from tilestep.train.untyped import jax as _jax

if TYPE_CHECKING:
    from rich.table import Table

_MEASURED_REPETITIONS: Final = 5  # in real time; the shortest counts
_LAYER_KINDS: Final = ("compute", "exchange", "sync")  # the other kinds of an emulated run are the host's

_HOW_COST: Final = 'a LayerCost, such as LayerCost(name="embed", work=3.0, passing=0.1)'
_HOW_COSTS: Final = 'a list with a LayerCost for each layer, such as [LayerCost(name="embed", work=3.0)]'
_HOW_LAYERS: Final = "a list of functions (params, *args) -> outputs"

Layer = Callable[..., Any]


@dataclass(frozen=True, kw_only=True)
class LayerCost:
    """The cost of one layer for one microbatch. All layers have the same unit.

    Attributes:
        name: for the table.
        work: of forward and, in training, backward.
        passing: of the transfer of its outputs to another device, and in training of their gradients back.

    Raises:
        TypeError: for a cost that is no number.
        ValueError: for a cost that is below 0 or not finite.
    """

    name: str
    work: float
    passing: float = 0.0

    def __post_init__(self) -> None:
        for name, value in (("work", self.work), ("passing", self.passing)):
            real_number(f"{name} of the layer {plain(self.name)}", value)


@final
@dataclass(frozen=True, kw_only=True)
class Partition:
    """Layers cut into stages.

    Attributes:
        cuts: for each stage the number of its first layer, and at the end the number of layers: (0, 3, 5) are layers 0-2 and 3-4.
        costs: for each layer its cost.
        unit: of the costs, in words such as "cycles" or "s".

    Raises:
        TypeError: for costs and cuts of another kind.
        ValueError: for cuts that do not rise from 0 to the number of layers.
    """

    cuts: tuple[int, ...]
    costs: tuple[LayerCost, ...]
    unit: str = ""

    def __post_init__(self) -> None:
        costs = items_of("costs", self.costs, _HOW_COSTS)
        for index, cost in enumerate(costs):
            require_kind(f"costs[{index}]", cost, LayerCost, _HOW_COST)
        cuts = items_of("cuts", self.cuts, "a list of the stages' first layers and, at the end, the number of layers, such as (0, 3, 5)")
        cuts = tuple(whole_number(f"cuts[{index}]", cut, least=0) for index, cut in enumerate(cuts))
        if len(cuts) < 2 or cuts[0] != 0 or cuts[-1] != len(costs) or any(first >= after for first, after in pairwise(cuts)):
            raise ValueError(
                f"cuts is {shown(cuts)}: it must rise from 0 to the {len(costs)} layers of costs, such as (0, {len(costs)}); "
                "best_partition finds the best"
            )
        object.__setattr__(self, "costs", costs)  # a generator has been read, and a list may change
        object.__setattr__(self, "cuts", cuts)

    @property
    def stage_costs(self) -> tuple[float, ...]:
        """For each stage its cost for a microbatch: that of its layers and of transfers at both ends."""
        return stage_costs([cost.work for cost in self.costs], [cost.passing for cost in self.costs], self.cuts)

    @property
    def largest(self) -> float:
        """The cost of the most expensive stage, for which the others wait."""
        return max(self.stage_costs)

    @property
    def balance(self) -> float:
        """The mean share of time in which devices work, if the slowest always does: from 0 to 1."""
        costs = self.stage_costs
        return sum(costs) / (len(costs) * max(costs)) if max(costs) else 1.0

    def stages(self, layers: Sequence[Layer]) -> list[Layer]:
        """A function for each stage, for `Pipeline`: its layers one after the other.

        Args:
            layers: functions (params, *args) -> outputs.

        Returns:
            For each stage a function (list of its layers' params, *args) -> outputs.

        Raises:
            ValueError: for another number of layers.
        """
        return [_chained(tuple(own)) for own in self.split(layers)]

    def split(self, per_layer: Sequence[Any]) -> list[list[Any]]:
        """Divides a list with an entry for each layer, such as parameters, among the stages.

        Args:
            per_layer: an entry for each layer.

        Returns:
            For each stage the list of its layers' entries.

        Raises:
            ValueError: for another number of entries.
        """
        per_layer = items_of("per_layer", per_layer, "a list with an entry for each layer")
        if len(per_layer) != len(self.costs):
            raise ValueError(f"there are {len(per_layer)} entries, but the partition is of {len(self.costs)} layers: give one for each")
        return [list(per_layer[first:after]) for first, after in pairwise(self.cuts)]

    def __rich__(self) -> Table:
        from rich.table import Table

        table = Table(title=f"{len(self.cuts) - 1} stages, balance {self.balance:.1%}")
        for heading in ("stage", "layers"):
            table.add_column(heading)
        for heading in (f"cost{f' ({self.unit})' if self.unit else ''}", "of the largest"):
            table.add_column(heading, justify="right")
        table.add_column("")
        for stage, ((first, after), cost) in enumerate(zip(pairwise(self.cuts), self.stage_costs, strict=True)):
            names = ", ".join(layer.name for layer in self.costs[first:after])
            part = cost / self.largest if self.largest else 1.0
            table.add_row(str(stage), f"{first}-{after - 1}: {names}", f"{cost:,.6g}", f"{part:.1%}", "#" * round(20 * part))
        return table


def best_partition(costs: Sequence[LayerCost], stages: int, *, unit: str = "") -> Partition:
    """The cuts into at most so many stages whose largest stage is the smallest; exact, by dynamic programming.

    Of several such cuts it takes those with the fewest stages, and of these the ones with the least sum of squares over stages. The cost of
    a stage is the work of its layers, and the passing at both ends.

    Args:
        costs: for each layer its cost, in one unit.
        stages: the largest number of stages.
        unit: of the costs, in words such as "cycles" or "s".

    Returns:
        The partition.

    Raises:
        ValueError: if there are no layers, or no stages.
    """
    most = whole_number("stages", stages, least=1)
    costs = items_of("costs", costs, _HOW_COSTS)
    for index, cost in enumerate(costs):
        require_kind(f"costs[{index}]", cost, LayerCost, _HOW_COST)
    if not costs:
        raise ValueError("costs is empty, so there are no layers: a partition has at least one")
    work, passing = [cost.work for cost in costs], [cost.passing for cost in costs]
    if not math.isfinite(sum(work) + sum(passing)):
        raise ValueError("the costs of the layers add up to more than a float holds: give them in a larger unit")
    return Partition(cuts=best_cuts(work, passing, most), costs=tuple(costs), unit=unit)


def pipeline_partition(
    layers: Sequence[Layer],
    params: Sequence[Pytree],
    args: Sequence[Pytree],
    devices: Sequence[Device],
    *,
    training: bool = True,
    profile: Callable[[], AbstractContextManager[Any]] | None = None,
) -> Partition:
    """Cuts a list of layers into stages, one for each device at most, by the cost of each layer by itself.

    Each layer is compiled and run on the first device: forward and, in training, backward. Its outputs are passed to the second device.
    In a pipeline the layers of a stage are one program, so they take less; only the proportions count.

    Args:
        layers: functions (params, *args) -> outputs, as stages of a pipeline. The outputs of each are the arguments of the next. In
            training the last one returns the loss first.
        params: for each layer a pytree of arrays.
        args: arguments of the first layer, for one microbatch: arrays, numbers.
        devices: of the pipeline.
        training: whether costs include backward.
        profile: None: wall time on the devices in seconds, the shortest of five runs. `tilestep.profile`: emulated cycles, for devices of
            `ipu`; within `tilestep.dry_run()` nothing is computed.

    Returns:
        The partition, with costs in seconds or cycles.

    Raises:
        ValueError: if there are no layers or devices, another number of params, or a profile without runs on `ipu`.
        Exception: of a layer, with a note that names its number.
    """
    layers = items_of("layers", layers, _HOW_LAYERS)
    for number, layer in enumerate(layers):
        require_function(f"layers[{number}]", layer, "(params, *args) -> outputs")
    params = items_of("params", params, "a list with an entry for each layer")
    args = items_of("args", args, "a list with the first layer's arguments, such as (x,)")
    require_tree("params", params)
    require_tree("args", args)
    require_bools(training=training)
    if profile is not None:
        require_function("profile", profile, "() -> context, such as tilestep.profile; None measures real time")
    if not layers or len(params) != len(layers):
        raise ValueError(f"there are {len(layers)} layers and {len(params)} entries of params: give one for each layer, and at least one")
    chosen = list(devices_of(devices))
    if not chosen:
        raise ValueError("devices is empty: a pipeline has at least one")
    clock = _emulated if profile is not None else _measured
    costs: list[LayerCost] = []
    given: Any = _jax.device_put(tuple(args), chosen[0])
    for number, (layer, own) in enumerate(zip(layers, params, strict=True)):
        name = getattr(layer, "__name__", type(layer).__name__)
        try:
            work, outputs = _work(layer, _jax.device_put(own, chosen[0]), given, clock, profile, training=training)
        except Exception as error:
            error.add_note(
                f"raised by layer {number} ({name}), with arguments {shown([str(jax.typeof(leaf)) for leaf in _jax.tree.leaves(given)])}"
            )
            raise
        passing = 0.0
        if number < len(layers) - 1 and len(chosen) > 1:
            passing = _passing(outputs, chosen[0], chosen[1], clock, profile) * (2 if training else 1)
        costs.append(LayerCost(name=name, work=work, passing=passing))
        given = outputs
    return best_partition(costs, len(chosen), unit="s" if profile is None else "cycles")


def _chained(layers: tuple[Layer, ...]) -> Layer:
    def stage(params: Sequence[Any], *args: Any, **words: Any) -> Any:
        result: Any = layers[0](params[0], *args, **words)
        for layer, own in zip(layers[1:], params[1:], strict=True):
            result = layer(own, *_spread(result))
        return result

    stage.__name__ = "+".join(getattr(layer, "__name__", type(layer).__name__) for layer in layers)
    return stage


def _spread(result: Any) -> tuple[Any, ...]:
    return tuple(result) if isinstance(result, tuple) else (result,)


# ------------------------------------------------------------------------------------------------------------------ costs

_Clock = Callable[[Callable[[], Any], Callable[[], AbstractContextManager[Any]] | None, Iterable[str]], float]


def _work(layer: Layer, params: Pytree, args: Pytree, clock: _Clock, profile: Any, *, training: bool) -> tuple[float, Pytree]:
    """(the cost of a layer, its outputs)."""
    forward = _jax.jit(lambda own, given: _spread(layer(own, *given)))
    outputs = forward(params, args)
    if not training:
        return clock(lambda: forward(params, args), profile, _LAYER_KINDS), outputs
    program = _jax.jit(with_backward(lambda own, given: layer(own, *given)))
    return clock(lambda: program(params, args), profile, _LAYER_KINDS), outputs


_serial = iter(range(1, 1 << 62))


def _passing(outputs: Pytree, source: Device, destination: Device, clock: _Clock, profile: Any) -> float:
    """The cost of passing a layer's outputs from one device to another."""
    make = _jax.jit(lambda values: _jax.tree.map(lambda leaf: leaf + _jax.numpy.ones_like(leaf), values), donate_argnums=0)
    take = _jax.jit(lambda values: [leaf.ravel()[:1] for leaf in _jax.tree.leaves(values)])

    def passed() -> Any:
        if profile is None:
            return _jax.device_put(outputs, destination)
        with hints.program_group(f"passing {next(_serial)}"):  # members of a group pass their values on over the links
            mine = _jax.tree.map(lambda leaf: _jax.device_put(leaf, source, may_alias=False), outputs)
            return take(_jax.device_put(make(mine), destination))

    return clock(passed, profile, ("collective",))


def _measured(act: Callable[[], Any], profile: object, kinds: Iterable[str]) -> float:
    """Seconds of real time."""
    _jax.block_until_ready(act())
    times: list[float] = []
    for _ in range(_MEASURED_REPETITIONS):
        start = time.perf_counter()
        _jax.block_until_ready(act())
        times.append(time.perf_counter() - start)
    return min(times)


def _emulated(act: Callable[[], Any], profile: Any, kinds: Iterable[str]) -> float:
    """Cycles that one IPU spends on such kinds of events."""
    with profile() as recording:
        _jax.block_until_ready(act())
    by_ipu: dict[int, float] = {}
    for event in recording.timeline:
        if event.kind in kinds:
            by_ipu[event.ipu] = by_ipu.get(event.ipu, 0.0) + event.end_cycle - event.start_cycle
    if not recording.timeline:
        raise ValueError("the profile has no runs on platform 'ipu': give its devices, jax.devices('ipu'), or no profile")
    return max(by_ipu.values(), default=0.0)
