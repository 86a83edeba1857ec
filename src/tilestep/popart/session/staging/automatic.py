"""VirtualGraphMode.Auto: shares a model out among IPUs by cost.

The operators make chains: one begins at each reader of an input of the model, and one where chains meet. A chain may be cut behind an
operator that everything in it has passed through. The IPUs get the chains in their order, each IPU its share of the cost.

Source: PopART's transforms/auto_virtual_graph.cpp.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Final

from tilestep.popart.exceptions import popart_exception
from tilestep.popart.session.staging.placement import Operator

_ROUNDING: Final = 1e-6  # of a sum of ratios


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
    operators: Sequence[Operator], inputs: Sequence[str], costs: Mapping[int, float], num_ipus: int, ratios: Sequence[float]
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
    if abs(sum(ratios) - 1) > _ROUNDING:
        raise popart_exception(f"Sum of virtualGraphSplitRatios[i] must be equal to 1.0, but found {sum(ratios)}.")
    return ratios


def _chains(operators: Sequence[Operator], inputs: Sequence[str], costs: Mapping[int, float]) -> tuple[list[_Chain], dict[int, int]]:
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
