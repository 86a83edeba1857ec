"""The space of plans: every way to divide a model that is considered, as data."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Literal, get_args

from tilestep.train.schedules.standard import MOST_FORWARDS

ScheduleName = Literal["sequential", "grouped", "interleaved", "zero_bubble"]
Recomputed = Literal["full"] | None
_Away = Literal["state", "activations", "state+activations", "accumulators", "state+accumulators", "state+activations+accumulators"]
Offloaded = _Away | None

SCHEDULES: Final[tuple[ScheduleName, ...]] = get_args(ScheduleName)
RECOMPUTE: Final[tuple[Recomputed, ...]] = (None, "full")
OFFLOAD: Final[tuple[Offloaded, ...]] = (None, *get_args(_Away))
Cut = tuple[tuple[int, ...], bool]  # for each stage its first layer, and the number of layers; whether the last is on the first's IPUs
_MOST_COUNTS: Final = 8  # stages whose layers a text counts


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """One way to train a model.

    Attributes:
        stages: for each stage the number of its first layer, and at the end the number of layers.
        shards: IPUs of each stage of each replica.
        replicas: copies of the pipeline.
        microbatch: samples of a microbatch, of each replica.
        accumulation: microbatches of an update, of each replica.
        schedule: name of the order of tasks.
        recompute: what backward computes again.
        offload: what is in the host's memory while it is not used.
        folded: whether the last stage is on the IPUs of the first.
        divides_state: whether each replica keeps only its part of the optimiser's state.
    """

    stages: tuple[int, ...]
    shards: int
    replicas: int
    microbatch: int
    accumulation: int
    schedule: ScheduleName
    recompute: Recomputed
    offload: Offloaded
    folded: bool = False
    divides_state: bool = False

    @property
    def num_stages(self) -> int:
        """Of one replica."""
        return len(self.stages) - 1

    @property
    def num_ipus(self) -> int:
        """IPUs in use."""
        return (self.num_stages - self.folded) * self.shards * self.replicas

    @property
    def homes(self) -> tuple[int, ...]:
        """Of each stage the number of its IPUs' group in a replica."""
        return tuple(stage % (self.num_stages - self.folded) for stage in range(self.num_stages))

    @property
    def offloads_state(self) -> bool:
        """Whether the optimiser's state is in the host's memory."""
        return "state" in self._offloaded

    @property
    def offloads_activations(self) -> bool:
        """Whether values wait for backward in the host's memory."""
        return "activations" in self._offloaded

    @property
    def offloads_accumulators(self) -> bool:
        """Whether sums of gradients are in the host's memory between microbatches."""
        return "accumulators" in self._offloaded

    @property
    def _offloaded(self) -> Sequence[str]:
        return (self.offload or "").split("+")

    def spans(self) -> Iterator[tuple[int, int]]:
        """Of each stage (its first layer, the layer behind its last)."""
        return pairwise(self.stages)

    def spans_of_ipus(self) -> list[list[tuple[int, int]]]:
        """Of each group of a replica's IPUs the spans of its stages."""
        spans, groups = list(self.spans()), self.num_stages - self.folded
        return [spans[group::groups] for group in range(groups)]

    @property
    def text(self) -> str:
        """'2 stages (5+4 layers) of 4 IPUs x 2 replicas, 16 microbatches of 8, grouped, recompute full'."""
        layers = f" ({'+'.join(str(after - first) for first, after in self.spans())} layers)" if 1 < self.num_stages <= _MOST_COUNTS else ""
        stages, replicas = _counted(self.num_stages, "stage"), _counted(self.replicas, "replica")
        batch = f"{_counted(self.accumulation, 'microbatch', 'es')} of {self.microbatch}"
        recompute = "" if self.recompute is None else f", recompute {self.recompute}"
        offload = "" if self.offload is None else f", {' and '.join(self._offloaded)} offloaded"
        shards = f" of {self.shards} IPUs" if self.shards > 1 else ""
        folded = ", the last on the first's IPUs" if self.folded else ""
        divided = ", state divided" if self.divides_state else ""
        return f"{stages}{layers}{shards}{folded} x {replicas}, {batch}, {self.schedule}{recompute}{offload}{divided}"


def candidates(
    cuts: Mapping[int, Sequence[Cut]],
    *,
    num_ipus: int,
    global_batch: int,
    microbatches: Sequence[int],
    schedules: Sequence[ScheduleName],
    recompute: Sequence[Recomputed],
    offload: Sequence[Offloaded],
    divides_state: bool = False,
) -> list[Candidate]:
    """All candidates, in a fixed order.

    Args:
        cuts: for each number of IPUs that a stage may have the cuts of the layers, each once.
        num_ipus: of the machine.
        microbatches: sizes of a microbatch that are allowed.
        divides_state: whether replicas divide the optimiser's state.
    """
    found: list[Candidate] = []
    for shards, (cut, folded) in ((shards, cut) for shards, own in cuts.items() for cut in own):
        stages = len(cut) - 1
        for replicas in (count for count in range(1, num_ipus // ((stages - folded) * shards) + 1) if global_batch % count == 0):
            own = global_batch // replicas
            for microbatch in (size for size in microbatches if own % size == 0 and stages * (own // size) <= MOST_FORWARDS):
                found += (
                    Candidate(
                        stages=cut,
                        shards=shards,
                        replicas=replicas,
                        microbatch=microbatch,
                        accumulation=own // microbatch,
                        schedule=schedule,
                        recompute=again,
                        offload=away,
                        folded=folded,
                        divides_state=divides_state and replicas > 1,
                    )
                    for schedule in _different(schedules, stages=stages, accumulation=own // microbatch)
                    for again in recompute
                    for away in (_of_one_stage(offload) if stages == 1 else offload)
                )
    return found


def _different(schedules: Sequence[ScheduleName], *, stages: int, accumulation: int) -> Sequence[ScheduleName]:
    """Those that are another order: a single stage has one, and a single microbatch has one if its backward is in one piece."""
    if stages == 1:
        return schedules[:1]
    whole = [schedule for schedule in schedules if schedule != "zero_bubble"]
    return schedules if accumulation > 1 else [schedule for schedule in schedules if schedule not in whole[1:]]


def _of_one_stage(offload: Sequence[Offloaded]) -> Sequence[Offloaded]:
    """A single stage has forward and backward in one program, in which no activations wait."""
    same: dict[Offloaded, Offloaded] = {
        "activations": None,
        "state+activations": "state",
        "state+activations+accumulators": "state+accumulators",
    }
    return list(dict.fromkeys(same.get(away, away) for away in offload))


def divisors(number: int) -> list[int]:
    """All of them, ascending."""
    small = [divisor for divisor in range(1, int(number**0.5) + 1) if number % divisor == 0]
    return sorted({*small, *(number // divisor for divisor in small)})


def _counted(number: int, noun: str, plural: str = "s") -> str:
    return f"{number:,} {noun}{'' if number == 1 else plural}"
