"""Plans for training, ranked, as records to show, save and run."""

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any, Final, final

from tilestep.figures.intervals import model_errors
from tilestep.figures.quantities import share_text, time_text
from tilestep.machine.spec import MachineSpec
from tilestep.messages import shown
from tilestep.planner.model import Model
from tilestep.planner.replay import PlayedCandidate, partition_of, pipeline_of, split
from tilestep.planner.space import Candidate
from tilestep.sim import EventKind
from tilestep.train import Partition, Pipeline
from tilestep.units import seconds_from_cycles
from tilestep.views.front import FORMS, Choice, draw

_NAMES: Final[Mapping[EventKind, str]] = {
    "compute": "computing",
    "exchange": "exchange between tiles",
    "sync": "synchronisation",
    "collective": "exchange between IPUs",
    "stream-in": "input from the host",
    "stream-out": "output to the host",
    "host-call": "offloaded values",
}
_WIDTH: Final = 200  # columns of a table
_WAITING: Final = "waiting for other IPUs and the host"


@final
@dataclass(frozen=True, kw_only=True)
class TrainingPlan:
    """One way to train a model, as the emulator has played it.

    Attributes:
        stages: for each stage the number of its first layer, and at the end the number of layers.
        shards: IPUs of each stage of each replica, over which its layers are divided.
        replicas: copies of the pipeline.
        microbatch: samples of a microbatch of each replica.
        accumulation: microbatches that a replica accumulates for an update.
        schedule: the order of tasks.
        recompute: "full": backward computes again what is between a stage's arguments and its outputs. None: it is kept.
        offload: what is in the host's memory while it is not used: "state", "activations", "accumulators", several joined by "+", or None.
        folded: whether the last stage is on the IPUs of the first.
        divides_state: whether each replica keeps only its part of the optimiser's state.
        machine: name of the machine.
        num_ipus: that it uses.
        step_cycles: of an update once programs are loaded, in cycles of the IPU's clock.
        step_s: the same in emulated seconds.
        samples_per_s: in emulated time.
        bubble: mean share of an update in which the IPUs in use wait for each other and the host, from 0 to 1.
        limit: what the busiest IPU spends most of an update on, in words.
        tile_bytes: (kind, bytes) on the fullest tile, which add up to what it needs.
        tile_available_bytes: that a tile has.
        fullest_ipu: which has this tile.
        surely_fits: whether it fits however wrong the model of memory is, as far as its errors are known.
        why_slower: in which it differs from the first plan; '' for the first.
    """

    stages: tuple[int, ...]
    shards: int
    replicas: int
    microbatch: int
    accumulation: int
    schedule: str
    recompute: str | None
    offload: str | None
    folded: bool
    divides_state: bool
    machine: str
    num_ipus: int
    step_cycles: int
    step_s: float
    samples_per_s: float
    bubble: float
    limit: str
    tile_bytes: Mapping[str, int]
    tile_available_bytes: int
    fullest_ipu: int
    surely_fits: bool
    why_slower: str
    _candidate: Candidate = field(repr=False)
    _model: Model = field(repr=False, compare=False)
    _optimizer: Any = field(repr=False, compare=False)

    @property
    def text(self) -> str:
        """'2 stages (5+4 layers) of 4 IPUs x 2 replicas, 16 microbatches of 8, grouped, recompute full'."""
        return self._candidate.text

    @property
    def partition(self) -> Partition:
        """The layers in stages."""
        return partition_of(self._model, self._candidate)

    def split(self, params: Sequence[Any], devices: Sequence[Any] | None = None) -> list[Any]:
        """What `Pipeline.init` takes: the layers' parameters by stages, each stage's divided over its IPUs.

        Args:
            params: for each layer a pytree of arrays.
            devices: as for `pipeline`.
        """
        return split(self._model, self._candidate, params, devices)

    def pipeline(self, devices: Sequence[Any] | None = None) -> Pipeline:
        """The pipeline of this plan. An update takes microbatches `[accumulation, replicas, microbatch, ...]`, without the second axis if
        there is one replica, and its gradient is their mean.

        Args:
            devices: at least `num_ipus` of them, such as `jax.devices("ipu")`; None: `jax.devices()`.

        Returns:
            A new pipeline. Its first state is `pipeline.init(plan.split(params, devices))`.

        Raises:
            ValueError: for fewer devices.
        """
        return pipeline_of(self._model, self._candidate, self._optimizer, devices)

    def as_dict(self) -> dict[str, Any]:
        """The plan as plain data."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__ if not name.startswith("_")}


@final
@dataclass(frozen=True, kw_only=True)
class TrainingPlans:
    """What `plan_training` has found.

    Attributes:
        plans: that fit, of those that the emulator has played, the fastest first.
        machine: name of the machine.
        global_batch: samples of an update.
        considered: plans of the space, before any was left out.
        impossible: of these, plans that cannot fit: their parameters are larger than the tiles.
        replayed: of these, plans that the emulator has played.
        gap: no plan of the space has a throughput higher than the first plan's by more than this share of it: 0.11 is 11 %. 0: the first
            plan is the fastest. None: no plan fits.
        nearest: where none fits, the plan that lacks least and what it lacks; '' otherwise.
    """

    plans: tuple[TrainingPlan, ...]
    machine: str
    global_batch: int
    considered: int
    impossible: int
    replayed: int
    gap: float | None
    nearest: str

    @property
    def best(self) -> TrainingPlan:
        """The first plan. Raises: ValueError if none fits, with what is nearest."""
        if not self.plans:
            raise ValueError(self.verdict)
        return self.plans[0]

    @property
    def verdict(self) -> str:
        """'best of 12,480: 31 replayed; none can be more than 11 % faster'."""
        if self.gap is None:
            return f"none of {self.considered:,} plans fits {self.machine}, as far as {self.replayed:,} replays show. {self.nearest}"
        if not self.gap:
            return f"the fastest of {self.considered:,}: {self.replayed:,} replayed, and no other can be faster"
        bound = f"{_rounded_up(100 * self.gap)} % faster" if self.gap < 1 else f"{_rounded_up(self.gap + 1)} times as fast"
        return f"best of {self.considered:,}: {self.replayed:,} replayed; none can be more than {bound}"

    def show(self, most: int = 10) -> str:
        """The verdict, and a row for each of the first plans, as text. Args: most: rows."""
        from rich import box
        from rich.console import Console
        from rich.table import Table

        table = Table(box=box.SIMPLE_HEAD)
        for heading in ("plan", "IPUs", "samples/s", "update", "tile", "bubble", "limited by", "against the first"):
            table.add_column(heading, justify="left" if heading in ("plan", "limited by", "against the first") else "right")
        for plan in self.plans[:most]:
            full = share_text(sum(plan.tile_bytes.values()), plan.tile_available_bytes)
            table.add_row(
                plan.text,
                str(plan.num_ipus),
                f"{plan.samples_per_s:,.4g}",
                time_text(plan.step_s),
                full if plan.surely_fits else f"{full}, likely fits",
                share_text(plan.bubble, 1),
                plan.limit,
                plan.why_slower,
            )
        console = Console(file=StringIO(), width=_WIDTH, highlight=False, markup=False, emoji=False)
        with console.capture() as text:
            console.print(table)
        return f"{self.verdict}\n{text.get().rstrip()}" if self.plans else self.verdict

    def plot(self, path: str | os.PathLike[str]) -> None:
        """Draws the time of an update against IPUs and against the fullest tile. A line joins the plans that no other beats in both.

        Args:
            path: of the file to write, which ends with .png or .svg.

        Raises:
            TypeError, ValueError: for another path.
            OSError: naming the file, if it cannot be written.
            ImportError: without Matplotlib, which `pip install 'tilestep[plots]'` brings.
        """
        file = Path(path)
        if file.suffix[1:].lower() not in FORMS:
            raise ValueError(f"path is {shown(str(file))}: its name must end with {' or '.join(f'.{form}' for form in FORMS)}")
        choices = [
            Choice(plan.num_ipus, sum(plan.tile_bytes.values()) / plan.tile_available_bytes, plan.step_s, True, name)
            for plan in self.plans
            for name in [f"{len(plan.stages) - 1} x {plan.shards} x {plan.replicas}"]
        ]
        draw(choices, file, time_of="time of an update", note="labels: stages x IPUs of a stage x replicas")

    def to_json(self) -> str:
        """A JSON document with the attributes, those of each plan, and the verdict."""
        own = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return json.dumps({**own, "verdict": self.verdict, "plans": [plan.as_dict() for plan in self.plans]}, indent=1)

    def __str__(self) -> str:
        return self.show()


@final
class PlanningInterrupt(KeyboardInterrupt):
    """Ctrl-C came in a search. Attributes: plans: what it had found until then."""

    def __init__(self, plans: TrainingPlans) -> None:
        self.plans = plans
        super().__init__(f"interrupted after {plans.replayed:,} replays; the exception's plans are what they have shown")


def ranked(
    replays: Sequence[tuple[Candidate, PlayedCandidate]], model: Model, optimizer: Any, machine: MachineSpec, global_batch: int
) -> tuple[TrainingPlan, ...]:
    """The plans that fit, the fastest first; of equally fast ones those that surely fit, and then those on fewer IPUs."""
    fitting = [each for each in replays if each[1].shown.fits]
    fitting.sort(key=lambda each: (each[1].cycles, not _surely_fits(each[1]), each[0].num_ipus))
    clock = machine.ipu.clock_hz
    return tuple(
        TrainingPlan(
            **vars(candidate),
            machine=machine.name,
            num_ipus=candidate.num_ipus,
            step_cycles=played.cycles,
            step_s=seconds_from_cycles(played.cycles, clock),
            samples_per_s=global_batch / seconds_from_cycles(played.cycles, clock),
            bubble=1 - played.works,
            limit=_limit(played),
            tile_bytes=played.parts,
            tile_available_bytes=machine.ipu.tile.sram_bytes,
            fullest_ipu=played.ipu,
            surely_fits=_surely_fits(played),
            why_slower=_why(played, fitting[0][1], clock) if number else "",
            _candidate=candidate,
            _model=model,
            _optimizer=optimizer,
        )
        for number, (candidate, played) in enumerate(fitting)
    )


def _surely_fits(played: PlayedCandidate) -> bool:
    return played.shown.fullness * model_errors().tile[1] <= 1


def _spent(played: PlayedCandidate) -> dict[str, int]:
    """What the busiest IPU does in an update, in words; it adds up to the update."""
    named: dict[str, int] = {}
    for kind, cycles in played.kinds.items():
        name = _NAMES.get(kind, kind)
        named[name] = named.get(name, 0) + cycles
    return {**named, _WAITING: max(played.cycles - sum(named.values()), 0)}


def _limit(played: PlayedCandidate) -> str:
    spent = _spent(played)
    name = max(spent, key=spent.__getitem__)
    return f"{name} ({share_text(spent[name], played.cycles)})"


def _why(played: PlayedCandidate, first: PlayedCandidate, clock_hz: float) -> str:
    """'3.1 % longer: computing takes 12.3 ms instead of 10.1 ms'."""
    own, others = _spent(played), _spent(first)
    name = max(own, key=lambda name: own[name] - others.get(name, 0))
    if played.cycles == first.cycles:
        return "as fast"
    now, then = (time_text(seconds_from_cycles(spent.get(name, 0), clock_hz)) for spent in (own, others))
    return f"{share_text(played.cycles - first.cycles, first.cycles)} longer: {name} takes {now} instead of {then}"


def _rounded_up(number: float) -> str:
    scale = 10 if number < 10 else 1
    return f"{math.ceil(number * scale) / scale:,g}"
