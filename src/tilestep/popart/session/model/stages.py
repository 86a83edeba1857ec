"""What is known of a session's stages: the contract between its graph, its values and its time."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from tilestep.onnx.interpreter.values import Array

Kind = Literal["one", "sharded", "pipelined", "phased"]


@dataclass(frozen=True, kw_only=True)
class SessionStage:
    """Operators that run together on one IPU.

    Attributes:
        number: among the stages, from 0.
        ipu: its IPU among those of a replica (the virtual graph).
        phase: its execution phase; None without phases.
        nodes: positions among the graph's nodes, in their order.
        reads: inputs of the model and tensors of earlier stages that it reads, by name.
        variables: that it reads, by name.
        gives: tensors that later stages read, by name.
        known: tensors of other stages that it reads and whose values are known before a program runs, by name: nothing passes them on.
    """

    number: int
    ipu: int
    phase: int | None = None
    nodes: tuple[int, ...]
    reads: tuple[str, ...]
    variables: tuple[str, ...]
    gives: tuple[str, ...]
    known: Mapping[str, Array] = field(default_factory=dict[str, Array], repr=False, compare=False)


@dataclass(frozen=True, kw_only=True)
class Staging:
    """How a session's operators are placed.

    Attributes:
        kind: "one": all on one IPU. "sharded": one stage after the other. "pipelined": stages work at once. "phased": weights are loaded
            phase by phase.
        stages: in the order in which a microbatch passes through them. Each node is in one of them.
        num_ipus: of one replica.
        loss_stage: number of the stage that computes the loss; of the last stage in inference.
    """

    kind: Kind
    stages: tuple[SessionStage, ...]
    num_ipus: int
    loss_stage: int
