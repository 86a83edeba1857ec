"""VirtualGraphMode.Auto: shares a model out among IPUs by cost.

The operators make chains: one begins at each reader of an input of the model, and one where chains meet. A chain may be cut behind an
operator that everything in it has passed through. The IPUs get the chains in their order, each IPU its share of the cost.

Source: PopART's transforms/auto_virtual_graph.cpp.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Final

import numpy as np

from tilestep.popart.exceptions import popart_exception
from tilestep.popart.session.model.analysis import Analysis
from tilestep.popart.session.model.graph import SessionGraph
from tilestep.popart.session.staging.placement import PlacedOperator

_KEEP_NOTHING: Final = frozenset(
    {
        *("Add", "Sub", "Sum", "Mean", "Neg", "Identity", "Nop", "Detach", "Scale", "Cast", "PrintTensor", "AddBias", "TensorRemap"),
        *("Reshape", "Flatten", "Transpose", "Squeeze", "Unsqueeze", "Concat", "Split", "Slice", "Subsample", "Pad", "Expand", "Reverse"),
        *("ReduceSum", "ReduceMean", "Resize", "Upsample", "IdentityLoss", "ReplicatedAllReduce", "ReplicatedAllGather"),
        *("ReplicatedReduceScatter", "If", "Call", "Loop", "Scan", "Shape", "Size", "Constant"),
    }
)
_KEEP_RESULTS: Final = frozenset({"Relu", "LeakyRelu", "Clip", "Exp", "Expm1", "Sigmoid", "Tanh", "Sqrt", "Softmax", "ReduceLogSum"})
_KEEP_BOTH: Final = frozenset(
    {
        *("AveragePool", "MaxPool", "GlobalAveragePool", "GlobalMaxPool", "BatchNormalization", "GroupNormalization", "LSTM", "GRU", "RNN"),
        *("InstanceNormalization", "ReduceL2", "ReduceLogSumExp", "ReduceMax", "ReduceMin", "CtcLoss", "Ctc"),
    }
)


def cost_of(operator: PlacedOperator, graph: SessionGraph, analysis: Analysis, *, training: bool, weight: float = 1.0) -> float:
    """Bytes of an operator.

    Args:
        training: whether what its gradient reads is kept, and counts too.
        weight: how often a byte of weights counts.
    """
    node = operator.node
    needed = frozenset[int]() if node.operator is None else node.operator.needs
    inputs = dict.fromkeys(name for position, name in enumerate(node.inputs) if name and position not in needed)
    held = {name for name in inputs if name in graph.variables or name in graph.constants or name in analysis.values}
    total = weight * sum(_bytes(name, analysis) for name in held)
    if training:
        total += sum(_bytes(name, analysis) for name in _kept(operator, list(inputs)) if name not in held)
    return total


def _kept(operator: PlacedOperator, inputs: list[str]) -> list[str]:
    """Tensors that the gradient of an operator reads."""
    kind, results = operator.node.op_type, [name for name in operator.node.outputs if name]
    if kind in _KEEP_NOTHING:
        return []
    if kind in _KEEP_RESULTS:
        return results
    return [*inputs, *results] if kind in _KEEP_BOTH else inputs


def _bytes(name: str, analysis: Analysis) -> int:
    kind = analysis.types.get(name)
    return 0 if kind is None else int(np.prod(kind.shape, dtype=np.int64)) * kind.dtype.itemsize


_RATIO_TOLERANCE: Final = 1e-6


@dataclass
class _Chain:
    """Operators that follow each other.

    Attributes:
        cost: of its operators.
        open: positions of operators that it must still pass through.
        cuts: cost up to an operator behind which it may be cut -> the operator's position.
        chosen: positions of operators behind which it is cut.
        ipu: of its first operators; None before it has one.
    """

    open: set[int]
    cost: float = 0.0
    cuts: dict[float, int] = field(default_factory=dict[float, int])
    chosen: set[int] = field(default_factory=set[int])
    ipu: int | None = None

    def cut_at(self, cost: float) -> bool:
        """Cuts it where it comes closest to a cost. Returns: whether there was a place at or behind the cost."""
        behind = min((each for each in self.cuts if each >= cost), default=None)
        if behind is None:
            return False
        before = max((each for each in self.cuts if each < cost), default=None)
        best = behind if before is None or cost - before >= behind - cost else before
        self.chosen.add(self.cuts.pop(best))
        return True


def automatic_ipus(
    operators: Sequence[PlacedOperator], inputs: Sequence[str], costs: Mapping[int, float], num_ipus: int, ratios: Sequence[float]
) -> dict[int, int]:
    """Position of a node -> its IPU.

    Args:
        operators: in an order in which they can run.
        inputs: of the model, by name.
        costs: position of a node -> its cost.
        num_ipus: among which they are shared out.
        ratios: the part of the cost of each IPU; none: equal parts.

    Raises: popart_exception for ratios that are none, and for a model that cannot be cut so often.
    """
    if num_ipus == 1:
        return {operator.position: 0 for operator in operators}
    shares = list(accumulate(_checked(ratios, num_ipus))) if ratios else [(ipu + 1) / num_ipus for ipu in range(num_ipus)]
    chains, chain_of = _chains(operators, inputs, costs)
    _share_out(chains, [share * sum(chain.cost for chain in chains) for share in shares])
    ipus = [chain.ipu or 0 for chain in chains]
    found: dict[int, int] = {}
    for operator in operators:
        number = chain_of[operator.position]
        found[operator.position] = ipus[number]
        ipus[number] += operator.position in chains[number].chosen
    return found


def _checked(ratios: Sequence[float], num_ipus: int) -> Sequence[float]:
    if len(ratios) != num_ipus:
        raise popart_exception(
            f"The size of virtualGraphSplitRatios must be equal to num_ipus. It is {len(ratios)}, and a replica has {num_ipus} IPUs"
        )
    for position, ratio in enumerate(ratios):
        if not 0 < ratio < 1:
            raise popart_exception(f"virtualGraphSplitRatios[{position}] must be in the range (0, 1). It is {ratio}")
    if abs(sum(ratios) - 1) > _RATIO_TOLERANCE:
        raise popart_exception(f"Sum of virtualGraphSplitRatios[i] must be equal to 1.0, but found {sum(ratios)}.")
    return ratios


def _chains(operators: Sequence[PlacedOperator], inputs: Sequence[str], costs: Mapping[int, float]) -> tuple[list[_Chain], dict[int, int]]:
    """(the chains, position of a node -> its chain)."""
    readers: dict[str, list[int]] = {}
    for operator in operators:
        for name in operator.reads:
            readers.setdefault(name, []).append(operator.position)
    chains: list[_Chain] = []
    chain_of: dict[int, int] = {}

    def begin(position: int) -> int:
        chains.append(_Chain(open={position}))
        return len(chains) - 1

    for name in inputs:
        for reader in readers.get(name, ()):
            number = begin(reader)
            chain_of.setdefault(reader, number)
    for operator in operators:
        position = operator.position
        number = chain_of[position] if position in chain_of else begin(position)
        chain_of[position] = number
        chain = chains[number]
        chain.cost += costs[position]
        if position in chain.open:
            chain.open.discard(position)
            if not chain.open:
                chain.cuts.setdefault(chain.cost, position)
        for reader in dict.fromkeys(reader for name in operator.node.outputs for reader in readers.get(name, ())):
            other = chain_of.setdefault(reader, number)
            if other == number:
                chain.open.add(reader)
            elif len(chains[other].open) == 1 and chains[other].cost == 0:  # nothing but the reader, which moves over
                chains[other].open.discard(reader)
                chain.open.add(reader)
                chain_of[reader] = number
            else:
                chain_of[reader] = begin(reader)
    return chains, chain_of


def _share_out(chains: Sequence[_Chain], targets: Sequence[float]) -> None:
    """Gives chains to IPUs. Args: targets: the cost of all IPUs up to each. Raises: popart_exception if an IPU gets nothing."""
    done, number, ipu = 0.0, 0, 0
    for turn, target in enumerate(targets):
        last = turn == len(targets) - 1
        while number < len(chains):
            chain = chains[number]
            if chain.ipu is None:
                chain.ipu = ipu
            full = done + chain.cost == target
            if done + chain.cost > target and chain.cost > 0 and not last:  # a chain without cost never begins an IPU
                if chain.cut_at(target - done):
                    ipu += 1
                    break
                full = True
            done += chain.cost
            number += 1
            if full and not last and number < len(chains):
                ipu += 1
                break
    if ipu != len(targets) - 1:
        raise popart_exception(
            f"[AutoVirtualGraph] Couldn't find enough splits for {len(targets)} IPUs. Only found {ipu}. Choose a device with fewer "
            "IPUs, or place operators with builder.virtualGraph and VirtualGraphMode.Manual"
        )
