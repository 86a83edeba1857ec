"""Where the values of anchors come from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Fetched:
    """Where the values of anchors come from.

    Attributes:
        tensors: of the graph, also inputs.
        gradients: anchor -> the tensor whose gradient it is.
        variables: of the graph or the optimiser's state: their value changes with the update.
        accumulators: of the optimiser's state: their value changes with each microbatch.
        updated: anchor -> the variable whose value after the update it is.
        restored: anchor -> the tensor that a pipeline keeps for backward, and whose value it is.
    """

    tensors: Sequence[str] = ()
    gradients: Mapping[str, str] = field(default_factory=dict[str, str])
    variables: Sequence[str] = ()
    accumulators: Sequence[str] = ()
    updated: Mapping[str, str] = field(default_factory=dict[str, str])
    restored: Mapping[str, str] = field(default_factory=dict[str, str])
