"""Finds the stages whose slowest is as fast as it can be, from what each operator takes on the device's IPUs."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, final

import jax
import numpy as np
from onnx import helper

from tilestep.cuts import MAX_STAGES
from tilestep.machine import MachineSpec
from tilestep.messages import plain, shown
from tilestep.onnx.interpreter.graph import Node, reads
from tilestep.onnx.interpreter.values import is_known
from tilestep.popart.builder.graph import attribute_names
from tilestep.popart.builder.loading import read_model
from tilestep.popart.devices.device_info import DeviceInfo
from tilestep.popart.exceptions import popart_exception
from tilestep.popart.options import SessionOptions
from tilestep.popart.session.model.analysis import analyse
from tilestep.popart.session.model.graph import SessionGraph, session_graph
from tilestep.popart.session.proposals.proposal import ProposedStage, StagedOperator, StageProposal
from tilestep.popart.tensors import InputShapeInfo
from tilestep.settings import MAX_IPUS
from tilestep.train import LayerCost, best_partition

if TYPE_CHECKING:
    from tilestep.popart.session.emulation.costs import Message, OperatorCost, Prices, Values

_STAGE_ATTRIBUTES: Final = (attribute_names.PIPELINE_STAGE, attribute_names.VIRTUAL_GRAPH)  # the first goes before


def propose_stages(
    model: Any,
    num_stages: int,
    device: DeviceInfo,
    loss: str | None = None,
    *,
    inputShapeInfo: InputShapeInfo | None = None,
    userOptions: SessionOptions | None = None,
) -> StageProposal:
    """Stages for a model: at most so many, cut in the model's own order, so that the slowest is as fast as it can be.

    Each operator is planned for an IPU of the device's machine by itself. Stages pass on in one exchange of all of them, which in training
    has the gradients that go back. While the first one gets the inputs from the host, those wait that its sync pattern says. In training
    each stage adds its gradients to those of the microbatches before; the update of the weights is no part of it. No cut is between two
    operators that read the same variable, because stages on two IPUs can't share one, and none behind the loss.

    Args:
        model: a ModelProto, its bytes, or a path.
        num_stages: the largest number of stages. If fewer are as fast, there are fewer.
        device: on whose IPUs the stages would run. It may have fewer IPUs than there are stages.
        loss: the tensor that training makes small; None: the model is for inference.
        inputShapeInfo, userOptions: as those of a session.

    Raises: popart_exception for a number that is none, a device without a machine, and a model that a session refuses.
    """
    _require_number(num_stages)
    machine = device.machine()
    if machine is None:
        raise popart_exception(
            "A Cpu device has no tiles and no cycles, so no stages can be proposed for it: use createIpuModelDevice, or acquire a device"
        )
    shapes = InputShapeInfo() if inputShapeInfo is None else inputShapeInfo
    options = SessionOptions() if userOptions is None else userOptions
    graph = session_graph(read_model(model), training=loss is not None, shapes=shapes, options=options)
    from tilestep.popart.session.emulation.costs import Prices  # it brings the emulator with it

    prices = Prices(machine, num_io_tiles=max(0, options.numIOTiles))
    return proposal_for(graph, loss, analyse(graph, loss).differentiable, num_stages, machine, prices)


def _require_number(num_stages: object) -> None:
    if isinstance(num_stages, bool) or not isinstance(num_stages, int) or not 1 <= num_stages <= MAX_STAGES:
        raise popart_exception(f"num_stages is {shown(num_stages)}: it must be a number of stages, from 1 to {MAX_STAGES:,}")


def proposal_for(
    graph: SessionGraph, loss: str | None, differentiable: Collection[str], num_stages: int, machine: MachineSpec, prices: Prices
) -> StageProposal:
    """The proposal for a session's graph.

    Args:
        differentiable: tensors that have a gradient; none in inference.
        prices: of the machine, which may know operators already.
    """
    from tilestep.popart.session.emulation.costs import evaluated, wanted_gradients

    nodes = graph.graph.nodes
    if not nodes:
        raise popart_exception("The model has no operators, so there are no stages to propose")
    values, costs = evaluated(graph), prices.operators(graph, differentiable)
    slopes = wanted_gradients(graph, differentiable)
    passing, adding = Passing(graph, values, slopes, prices), _adding(graph, slopes, prices)
    host = _Host(graph, prices)
    ends = _ends(graph, values, passing, loss)
    work = [sum(costs[at].cycles + adding[at] for at in range(first, after)) for first, after in itertools.pairwise((0, *ends))]
    most = min(num_stages, len(ends), MAX_IPUS)
    if not host.is_shared(most):  # else all stages wait for the host, however the model is cut
        work[0] += host.incoming(most)[0]
    layers = [LayerCost(name=str(end), work=cycles, passing=passing.cycles(end)) for end, cycles in zip(ends, work, strict=True)]
    cuts = [(0, *ends)[cut] for cut in best_partition(layers, most, unit="cycles").cuts]
    homes = {at: number for number, (first, after) in enumerate(itertools.pairwise(cuts)) for at in range(first, after)}
    waits = host.waits(homes)
    passed = passing.together(cuts[1:-1])
    stages = tuple(
        ProposedStage(
            number=number,
            operators=_staged(nodes[first:after], costs[first:after]),
            adding_cycles=sum(adding[first:after]),
            passing_cycles=passed,
            host_cycles=waits[number],
            weights_bytes=_weights_bytes_read_by(graph, nodes[first:after]),
            passed_bytes=passing.bytes(after),
        )
        for number, (first, after) in enumerate(itertools.pairwise(cuts))
    )
    return StageProposal(
        machine=machine.name,
        training=loss is not None,
        stages=stages,
        asked=num_stages,
        one_ipu_cycles=sum(cost.cycles for cost in costs) + sum(adding) + host.waits(dict.fromkeys(homes, 0))[0],
        own_cycles=_own(graph, costs, adding, passing, host),
        notes=tuple(_notes(stages, num_stages, len(ends), machine)),
    )


def _adding(graph: SessionGraph, slopes: Collection[str], prices: Prices) -> list[int]:
    """For each operator cycles to add up the gradients of the variables that it is the first to read."""
    done: set[str] = set()
    found: list[int] = []
    for node in graph.graph.nodes:
        own = {name for name in reads(node) if name in graph.variables and name in slopes} - done
        done |= own
        found.append(sum(prices.adding(jax.ShapeDtypeStruct(graph.variables[name].shape, graph.variables[name].dtype)) for name in own))
    return found


@final
class _Host:
    """What stages wait for the host in each microbatch: the first gets the inputs. Anchors leave when a call ends."""

    def __init__(self, graph: SessionGraph, prices: Prices) -> None:
        self._prices = prices
        self._incoming = sum(_bytes_of([spec]) for spec in graph.inputs.values())

    def incoming(self, num_stages: int) -> tuple[int, frozenset[int]]:
        """(cycles, which stages wait)."""
        return self._prices.host(self._incoming, num_stages, 0)

    def is_shared(self, num_stages: int) -> bool:
        """Whether all stages wait for each other's accesses."""
        return len(self._prices.host(0, num_stages, 0)[1]) == num_stages

    def waits(self, homes: Mapping[int, int]) -> list[int]:
        """Cycles that each stage waits. Args: homes: operator -> stage, from 0."""
        count = 1 + max(homes.values())
        cycles, waiting = self.incoming(count)
        return [cycles if stage in waiting else 0 for stage in range(count)]


@final
class Passing:
    """What operators pass on to later ones, and what that takes between IPUs."""

    def __init__(self, graph: SessionGraph, values: Values, slopes: Collection[str], prices: Prices) -> None:
        """Args: slopes: tensors whose gradients go back."""
        self._values, self._slopes, self._prices = values, slopes, prices
        makers = {name: number for number, node in enumerate(graph.graph.nodes) for name in node.outputs if name}
        self._made = {name: number for name, number in makers.items() if name in values and not is_known(values[name])}
        self._read: dict[str, list[int]] = {name: [] for name in self._made}
        for number, node in enumerate(graph.graph.nodes):
            for name in reads(node):
                if name in self._read:
                    self._read[name].append(number)

    def at(self, after: int) -> list[str]:
        """Tensors that the first so many operators make and others read."""
        return [name for name, number in self._made.items() if number < after and any(reader >= after for reader in self._read[name])]

    def cycles(self, after: int) -> int:
        """What passing takes behind the first so many operators, in training with the gradients, which go back meanwhile."""
        return self.together([after])

    def together(self, cuts: Sequence[int]) -> int:
        """What one exchange takes in which the stages between such cuts pass everything on."""
        return self._prices.exchange(
            [message for stage, cut in enumerate(cuts) for message in self._messages(stage, stage + 1, self.at(cut))]
        )

    def bytes(self, after: int) -> int:
        """Of the tensors, without gradients."""
        return _bytes_of(self._leaves(self.at(after)))

    def are_arrays(self, after: int) -> bool:
        """Whether an IPU can pass them on: a sequence is no array."""
        return all(isinstance(self._values[name], jax.ShapeDtypeStruct) for name in self.at(after))

    def between(self, homes: Mapping[int, int]) -> int:
        """What one exchange of stages of any operators takes. Args: homes: operator -> stage, from 0."""
        messages: list[Message] = []
        for name, maker in self._made.items():
            for target in sorted({homes[reader] for reader in self._read[name]} - {homes[maker]}):
                messages += self._messages(homes[maker], target, [name])
        return self._prices.exchange(messages)

    def _messages(self, source: int, target: int, names: Collection[str]) -> list[Message]:
        there, back = (_bytes_of(self._leaves(chosen)) for chosen in (names, [name for name in names if name in self._slopes]))
        return [message for message in ((source, target, there), (target, source, back)) if message[2]]

    def _leaves(self, names: Collection[str]) -> list[Any]:
        return [leaf for name in names for leaf in jax.tree.leaves(self._values[name])]


def _bytes_of(leaves: Sequence[Any]) -> int:
    return sum(int(np.prod(leaf.shape)) * leaf.dtype.itemsize for leaf in leaves)


def _ends(graph: SessionGraph, values: Values, passing: Passing, loss: str | None) -> list[int]:
    """Numbers of operators behind which the model may be cut, and that of all.

    An operator whose results are known takes no time: it goes with the one behind it.
    """
    nodes = graph.graph.nodes
    last = next((number for number, node in enumerate(nodes) if loss in node.outputs), len(nodes) - 1)
    closed = _shared(nodes, graph.variables)
    ends = [
        number
        for number in range(1, last + 1)
        if number not in closed
        and any(name in values and not is_known(values[name]) for name in nodes[number - 1].outputs if name)
        and passing.at(number)
        and passing.are_arrays(number)
    ]
    return [*ends, len(nodes)]


def _shared(nodes: Sequence[Node], variables: Collection[str]) -> set[int]:
    """Numbers of operators behind which there is no cut, because operators on both sides read one variable."""
    first: dict[str, int] = {}
    closed: set[int] = set()
    for number, node in enumerate(nodes):
        for name in reads(node):
            if name in variables:
                closed.update(range(first.setdefault(name, number) + 1, number + 1))
    return closed


def _staged(nodes: Sequence[Node], costs: Sequence[OperatorCost]) -> tuple[StagedOperator, ...]:
    return tuple(
        StagedOperator(op_type=node.op_type, outputs=node.outputs, forward_cycles=cost.forward, backward_cycles=cost.backward)
        for node, cost in zip(nodes, costs, strict=True)
    )


def _weights_bytes_read_by(graph: SessionGraph, nodes: Sequence[Node]) -> int:
    read = {name for node in nodes for name in reads(node)}
    return sum(array.nbytes for name, array in graph.variables.items() if name in read)


def _own(graph: SessionGraph, costs: Sequence[OperatorCost], adding: Sequence[int], passing: Passing, host: _Host) -> Mapping[int, int]:
    """Cycles of the stages that the model has already, by number; none if an operator has no stage."""
    stated: dict[str, int] = {}
    for name in reversed(_STAGE_ATTRIBUTES):
        for node in graph.proto.graph.node:
            for attribute in node.attribute:
                if attribute.name == name:
                    stated[node.output[0]] = helper.get_attribute_value(attribute)
    homes: dict[int, int] = {}
    for number, (node, cost) in enumerate(zip(graph.graph.nodes, costs, strict=True)):
        home = stated.get(node.outputs[0])
        if home is None and cost.cycles:
            return {}
        homes[number] = home or 0
    numbers = sorted(set(homes.values()))
    if not 2 <= len(numbers) <= MAX_IPUS:
        return {}
    ranked = {at: numbers.index(home) for at, home in homes.items()}
    passed, waits = passing.between(ranked), host.waits(ranked)
    work = {number: sum(costs[at].cycles + adding[at] for at, home in homes.items() if home == number) for number in numbers}
    return {number: work[number] + passed + wait for number, wait in zip(numbers, waits, strict=True)}


def _notes(stages: Sequence[ProposedStage], asked: int, most: int, machine: MachineSpec) -> list[str]:
    notes: list[str] = []
    if len(stages) < asked:
        why = f"more than {len(stages)} would not make the slowest one faster" if len(stages) < most else "the model can't be cut into more"
        why = f"a machine has at most {MAX_IPUS} IPUs" if len(stages) == MAX_IPUS < most else why
        notes.append(f"{asked} stages were asked for: {why}.")
    if machine.num_ipus < len(stages):
        has = f"{machine.num_ipus} IPU{'s' if machine.num_ipus > 1 else ''}"
        notes.append(
            f"The device has {has}, and the stages want {len(stages)}: acquire a device of {len(stages)} IPUs for them, or ask for at most "
            f"{machine.num_ipus}."
        )
    room = machine.ipu.num_tiles * machine.ipu.tile.sram_bytes
    notes += [
        f"Stage {stage.number} has weights of {stage.weights_bytes:,} B, and an IPU of {plain(machine.name)} has {room:,} B."
        for stage in stages
        if stage.weights_bytes > room
    ]
    return notes
