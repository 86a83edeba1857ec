"""What is known of a candidate before it is replayed: bounds that hold for every plan, and guesses that only order."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Final, final

from tilestep.cuts import best_cuts
from tilestep.machine.spec import MachineSpec
from tilestep.machine.topology import machine_of
from tilestep.planner.model import Alone, Least, Model, bytes_of
from tilestep.planner.search import Expected
from tilestep.planner.space import Candidate, Cut
from tilestep.train.jaxprs import is_real
from tilestep.train.untyped import jax as _jax
from tilestep.units import cycles_from_bytes, cycles_from_seconds

_SHARED_CODE_SHARE: Final = 0.5  # a guess: layers of one stage share code on a tile
_LAYER_TRANSFERS: Final = 4  # a guess, for each update
_SECOND: Final = 3  # places behind the smallest size of a microbatch, at which layers are planned a second time


_Work = list[tuple[float, float]]  # by stage: cycles of forward, of backward


@dataclass(frozen=True, kw_only=True)
class _Held:
    """Of each layer bytes on an IPU: of parameters, of those that are trained, and of the optimiser's state."""

    params: Sequence[int]
    trained: Sequence[int]
    state: Sequence[int]


@final
class Estimates:
    """Bounds and guesses for candidates of one model on one machine.

    Args:
        model: the layers.
        state_bytes: for each layer, of the optimiser's state.
        machine: to plan for.
        shards: numbers of IPUs that a stage may have.
        microbatches: sizes that candidates may have, ascending.
        global_batch: samples of an update.
    """

    def __init__(
        self,
        model: Model,
        state_bytes: Sequence[int],
        machine: MachineSpec,
        shards: Sequence[int],
        microbatches: Sequence[int],
        global_batch: int,
    ) -> None:
        self._shards = shards
        self._model, self._machine, self._batch = model, machine, global_batch
        self._given_state = list(state_bytes)
        self._held: dict[int, _Held] = {}
        self._sizes = (microbatches[0], microbatches[min(_SECOND, len(microbatches) - 1)])
        self._least: dict[int, list[Least]] = {}
        self._read_bytes = bytes_of(model.read(microbatches[0])) // microbatches[0]
        self._latency_cycles = cycles_from_seconds(machine.host.link_latency_seconds, machine.ipu.clock_hz)
        self._dispatch_cycles = cycles_from_seconds(machine.host.dispatch_seconds, machine.ipu.clock_hz)

    # ------------------------------------------------------------------------------------------------ cuts

    def cuts(self, besides: Sequence[tuple[int, ...]] = ()) -> dict[int, list[Cut]]:
        """Of each number of IPUs of a stage, for each number of stages the cuts that balance cycles, and those that balance bytes.

        Where the last layer is tied to another, it is a stage of its own on the first stage's IPUs, too. Args: besides: further cuts.
        """
        return {shards: list(dict.fromkeys([*self._cuts(shards, besides), *self._folded(shards, besides)])) for shards in self._shards}

    def _folded(self, shards: int, besides: Sequence[tuple[int, ...]]) -> list[Cut]:
        work, passing, held = self._costs(shards)
        last = len(work) - 1
        if not any(layer == last for layer, _ in self._model.copies):
            return []
        found = [cut for cut in besides if len(cut) > 3]
        for costs, links in ((work, passing), (held, [0.0] * len(work))):
            joint = [costs[0] + costs[last], *costs[1:last]]
            stages = range(2, min(last, self._machine.num_ipus // shards) + 1)
            found += [(*cut, last + 1) for cut in (best_cuts(joint, links[:last], count) for count in stages) if len(cut) > 2]
        return [(cut, True) for cut in found]

    def _cuts(self, shards: int, besides: Sequence[tuple[int, ...]]) -> list[Cut]:
        work, passing, held = self._costs(shards)
        found = list(besides)
        for stages in range(1, min(len(work), self._machine.num_ipus // shards) + 1):
            found += [best_cuts(work, passing, stages), best_cuts(held, [0.0] * len(work), stages)]
        return [(cut, False) for cut in found]

    def _costs(self, shards: int) -> tuple[list[float], list[float], list[float]]:
        """Of each layer its cycles, those of passing its outputs on, and its bytes."""
        alone = self._alone_at(self._sizes[1], shards)
        work = [each.forward + each.backward for each in alone]
        passing = [2 * self._link_cycles(each.output_bytes) for each in alone]
        on = self._on(shards)
        held = [float(params + state) for params, state in zip(on.params, on.state, strict=True)]
        return work, passing, held

    def _on(self, shards: int) -> _Held:
        """What each layer has on each IPU of a stage of so many. The state of a parameter is divided as the parameter is."""
        if shards not in self._held:
            leaves = [_jax.tree.leaves(own) for own in self._model.params]
            params = [self._model.held(own, layer, shards) for layer, own in enumerate(leaves)]
            trained = [
                self._model.held(
                    [leaf if is_real(leaf) and (layer, index) not in self._model.copies else None for index, leaf in enumerate(own)],
                    layer,
                    shards,
                )
                for layer, own in enumerate(leaves)
            ]
            whole = [bytes_of([leaf for leaf in own if is_real(leaf)]) for own in leaves]
            state = [size * own // max(every, 1) for size, own, every in zip(self._given_state, trained, whole, strict=True)]
            self._held[shards] = _Held(params=params, trained=trained, state=state)
        return self._held[shards]

    # ------------------------------------------------------------------------------------------------ bounds

    def least_fullness(self, candidate: Candidate) -> float:
        """What the fullest tile needs at least, as a part of what a tile has."""
        tile, tiles = self._machine.ipu.tile, self._machine.ipu.num_tiles
        stays = max(self._staying(candidate, spans) for spans in candidate.spans_of_ipus())
        return (stays / tiles + tile.stack_bytes + tile.reserved_bytes) / tile.sram_bytes

    def least_cycles(self, candidate: Candidate) -> float:
        """What an update takes at least, behind the host's dispatch."""
        work = self._least_work(candidate)
        path = _path(candidate, work, ramps=candidate.schedule != "zero_bubble")
        return self._dispatch_cycles + max(path, self._batch_cycles(candidate), self._offload_cycles(candidate))

    def _staying(self, candidate: Candidate, spans: Sequence[tuple[int, int]]) -> int:
        """What layers on the same IPUs have there at least. Parameters that are tied within them are there once."""
        on, layers = self._on(candidate.shards), [layer for span in spans for layer in range(*span)]
        stays = -self._model.copied(layers, candidate.shards)
        for layer in layers:
            accumulators = on.trained[layer] if candidate.accumulation > 1 and not candidate.offloads_accumulators else 0
            stays += on.params[layer] + max(accumulators, 0 if candidate.offloads_state else self._state(candidate)[layer])
        return stays

    def _state(self, candidate: Candidate) -> Sequence[int]:
        """Of each layer, bytes of the optimiser's state on an IPU."""
        state = self._on(candidate.shards).state
        return [size // candidate.replicas for size in state] if candidate.divides_state else state

    def _least_work(self, candidate: Candidate) -> _Work:
        if candidate.microbatch not in self._least:
            self._least[candidate.microbatch] = self._model.least(candidate.microbatch, self._machine.ipu)
        least, start = self._least[candidate.microbatch], self._machine.ipu.superstep_overhead_cycles
        work: _Work = []
        for first, after in candidate.spans():
            own = least[first:after]
            again = candidate.recompute is not None and after < len(least)  # the last stage may have both in one program
            products = sum(each.forward for each in own) / candidate.shards
            forward = (max(products, start) if products else 0.0) + (0.0 if first else self._latency_cycles)
            work.append((forward, sum(each.again if again else each.backward for each in own) / candidate.shards))
        return work

    def _batch_cycles(self, candidate: Candidate) -> float:
        """Of the global batch over the links of the IPU-Machines that work."""
        return self._over(candidate, self._batch * self._read_bytes, self._machine.host.to_ipus_bytes_per_second)

    def _offload_cycles(self, candidate: Candidate) -> float:
        """Of the offloaded state to the IPUs, and of accumulators for each microbatch."""
        host = self._machine.host
        size = (sum(self._state(candidate)) if candidate.offloads_state else 0) + (candidate.accumulation * self._streamed(candidate))
        rate = max(host.remote_buffer_bytes_per_second, host.streaming_memory_bytes_per_second, host.to_ipus_bytes_per_second)
        return self._over(candidate, size * candidate.shards * candidate.replicas, rate)

    def _streamed(self, candidate: Candidate) -> int:
        """Bytes of accumulators that an IPU of each stage has to have for each microbatch, all stages together."""
        return sum(self._on(candidate.shards).trained) if candidate.offloads_accumulators and candidate.accumulation > 1 else 0

    def _over(self, candidate: Candidate, size: int, rate: float) -> float:
        return cycles_from_bytes(size // self._machines(candidate), rate, self._machine.ipu.clock_hz)

    def _machines(self, candidate: Candidate) -> int:
        return len({machine_of(self._machine, ipu) for ipu in range(candidate.num_ipus)})

    # ------------------------------------------------------------------------------------------------ guesses

    def expected(self, candidate: Candidate) -> Expected:
        """All that is known of a candidate."""
        alone, tiles = self._alone(candidate.microbatch, candidate.shards), self._machine.ipu.num_tiles
        on = self._on(candidate.shards)
        spans, count = list(candidate.spans()), candidate.accumulation
        work: _Work = []
        for first, after in spans:
            own, passed = alone[first:after], self._link_cycles(alone[after - 1].output_bytes) if after < len(alone) else 0.0
            forward, again = sum(each.forward for each in own), candidate.recompute is not None
            work.append((forward + passed, sum(each.backward for each in own) + (forward if again else 0.0) + passed))
        cycles = _path(candidate, work, ramps=True)
        if candidate.schedule == "grouped":  # all stages take as long as the slowest
            slowest = max(f + b for f, b in work)
            cycles = max(cycles, slowest * (count + candidate.num_stages - 1))
        kept = self._kept(candidate, alone)
        if candidate.offloads_activations:
            cycles += 2 * count * max(self._remote_cycles(size) for size in kept)
        state = self._state(candidate)
        update = max(sum(on.trained[layer] + state[layer] for layer in range(*span)) for span in spans)
        cycles += 3 * update / (tiles * self._machine.ipu.tile.load_store_bytes_per_cycle)
        gradients = max(sum(on.trained[layer] for layer in range(*span)) for span in spans)
        cycles += 2 * self._link_cycles(gradients) if candidate.replicas > 1 else 0
        if candidate.offloads_state:
            size = sum(state) * candidate.shards * candidate.replicas // self._machines(candidate)
            cycles += 2 * self._remote_cycles(size) + _LAYER_TRANSFERS * self._latency_cycles * max(after - first for first, after in spans)
        streamed = self._streamed(candidate) * candidate.shards * candidate.replicas // self._machines(candidate)
        cycles += 2 * count * self._remote_cycles(streamed)
        cycles += self._batch_cycles(candidate) + count * self._latency_cycles + self._dispatch_cycles
        return Expected(
            cycles=cycles,
            fullness=self._fullness(candidate, alone, kept),
            least_cycles=self.least_cycles(candidate),
            family=(candidate.num_stages, candidate.shards, candidate.microbatch, candidate.recompute, candidate.offload),
        )

    def _kept(self, candidate: Candidate, alone: Sequence[Alone]) -> list[float]:
        """Of each stage the bytes that one microbatch leaves for backward."""
        if candidate.recompute:
            return [alone[first].input_bytes for first, _ in candidate.spans()]
        return [sum(alone[layer].stash_bytes for layer in range(*span)) for span in candidate.spans()]

    def _fullness(self, candidate: Candidate, alone: Sequence[Alone], kept: Sequence[float]) -> float:
        tile, tiles, count = self._machine.ipu.tile, self._machine.ipu.num_tiles, candidate.accumulation
        worst = 0.0
        state = [0] * len(alone) if candidate.offloads_state else self._state(candidate)
        held = [0.0] * (max(candidate.homes) + 1)
        for stage, home in enumerate(candidate.homes):
            behind = candidate.num_stages - 1 - stage
            waiting = {"sequential": 1, "grouped": 2 * behind + 1, "interleaved": behind + 1, "zero_bubble": candidate.num_stages}
            held[home] += kept[stage] * (1 if candidate.offloads_activations else min(count, waiting[candidate.schedule]))
        for waits, spans in zip(held, candidate.spans_of_ipus(), strict=True):
            numbers = [layer for span in spans for layer in range(*span)]
            layers = [alone[layer] for layer in numbers]
            values = waits + self._staying(candidate, spans) + sum(state[layer] for layer in numbers)
            values += sum(each.stash_bytes for each in layers) if candidate.recompute else 0
            code = max(each.code_bytes for each in layers) + _SHARED_CODE_SHARE * sum(each.code_bytes for each in layers)
            own = values / tiles + code + max(each.transient_bytes for each in layers)
            worst = max(worst, (own + tile.stack_bytes + tile.reserved_bytes) / tile.sram_bytes)
        return worst

    def _alone(self, samples: int, shards: int) -> list[Alone]:
        """Of each layer, between and beyond the two sizes that are planned."""
        small, large = self._sizes
        if small == large:
            return self._alone_at(small, shards)
        part = (samples - small) / (large - small)
        return [_between(a, b, part) for a, b in zip(self._alone_at(small, shards), self._alone_at(large, shards), strict=True)]

    def _alone_at(self, samples: int, shards: int) -> list[Alone]:
        return self._model.alone(samples, self._machine, shards)

    def _link_cycles(self, size: float) -> float:
        link, ipu = self._machine.link, self._machine.ipu
        return cycles_from_bytes(round(size), link.bytes_per_second, ipu.clock_hz) + ipu.sync_cycles if size else 0.0

    def _remote_cycles(self, size: float) -> float:
        return cycles_from_bytes(round(size), self._machine.host.remote_buffer_bytes_per_second, self._machine.ipu.clock_hz)


def _path(candidate: Candidate, work: _Work, *, ramps: bool) -> float:
    """The schedule's critical path if each task takes so long: a stage does all its tasks, behind those of the stages before.

    Args: ramps: whether the stages before do the last backward by themselves.
    """
    count = candidate.accumulation
    if candidate.schedule == "sequential" or len(work) == 1:
        return count * sum(f + b for f, b in work)
    longest = before = 0.0
    for f, b in work:
        longest = max(longest, before + count * (f + b))
        before += f + (b if ramps else 0.0)
    return max(longest, count * sum(work[0] + work[-1])) if candidate.folded else longest


def _between(a: Alone, b: Alone, part: float) -> Alone:
    def line(low: float, high: float) -> float:
        return max(low + (high - low) * part, 0.0)

    every = {each.name: line(getattr(a, each.name), getattr(b, each.name)) for each in fields(Alone)}
    return Alone(**{**every, "code_bytes": max(a.code_bytes, b.code_bytes)})
