"""Models whose layers say where they run, and their plans."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilestep import popart
from tilestep.popart.session.plan import SessionPlan, plan_of
from tilestep.popart.tensors import InputShapeInfo

WIDTH = 4


@dataclass(frozen=True)
class Placed:
    """A model. Attributes: proto: of a Builder. loss, y: names of the loss, and of the last layer's result."""

    proto: bytes
    loss: str
    y: str


def ladder(
    ipus: Sequence[int | None],
    stages: Sequence[int | None] | None = None,
    phases: Sequence[int | None] | None = None,
    *,
    chained: bool = True,
    reshaped: bool = False,
    dropped: bool = False,
    shared: bool = False,
) -> Placed:
    """Layers of a matrix product, and a loss, the sum, which runs where the last layer does.

    Args:
        ipus, stages, phases: where each layer runs; None: nothing is said.
        chained: each layer reads what the one before made; else all read the input, and the last one adds.
        reshaped: to the input's shape, which an operator of the layer reads.
        dropped: a dropout follows each layer.
        shared: all layers have the same weight.
    """
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [2, WIDTH], "x")
    rng = np.random.default_rng(1)
    weight = builder.addInitializedInputTensor(_weight(rng), "w") if shared else ""
    last, made, place = x, list[str](), _Place(None, None, None)
    for layer, ipu in enumerate(ipus):
        place = _Place(ipu, None if stages is None else stages[layer], None if phases is None else phases[layer])
        w = weight or builder.addInitializedInputTensor(_weight(rng), f"w{layer}")
        last = place.put(builder, builder.aiOnnx.matmul([last if chained else x, w]))
        if dropped:
            last = place.put(builder, builder.aiOnnx.dropout([last], 1, 0.5)[0])
        if reshaped:
            last = place.put(builder, builder.aiOnnx.reshape([last, builder.aiOnnx.shape([x])]))
        made.append(last)
    if not chained:
        last = place.put(builder, builder.aiOnnx.sum(made))
    loss = place.put(builder, builder.aiGraphcore.identityloss([last], reduction=popart.ReductionType.Sum))
    return Placed(proto=builder.getModelProto(), loss=loss, y=last)


def _weight(rng: np.random.Generator) -> np.ndarray[Any, np.dtype[np.float32]]:
    return rng.normal(size=(WIDTH, WIDTH)).astype(np.float32)


@dataclass(frozen=True)
class _Place:
    ipu: int | None
    stage: int | None
    phase: int | None

    def put(self, builder: Any, outputs: Any) -> Any:
        if self.ipu is not None:
            builder.virtualGraph(outputs, self.ipu)
        if self.stage is not None:
            builder.pipelineStage(outputs, self.stage)
        if self.phase is not None:
            builder.executionPhase(outputs, self.phase)
        return outputs


def options(
    *, manual: bool = False, pipelining: bool = False, accumulation: int = 0, mode: popart.VirtualGraphMode | None = None, replicas: int = 1
) -> popart.SessionOptions:
    """Options of a session."""
    found = popart.SessionOptions()
    if manual or mode is not None:
        found.virtualGraphMode = popart.VirtualGraphMode.Manual if mode is None else mode
    found.enablePipelining = pipelining
    if accumulation:
        found.enableGradientAccumulation, found.accumulationFactor = True, accumulation
    if replicas > 1:
        found.enableReplicatedGraphs, found.replicatedGraphCount = True, replicas
    return found


def device(num_ipus: int = 4) -> popart.DeviceInfo:
    """An emulated device of small IPUs."""
    return popart.DeviceManager().createIpuModelDevice({"numIPUs": num_ipus, "tilesPerIPU": 4})


def plan(
    model: Placed,
    chosen: popart.SessionOptions | None = None,
    *,
    training: bool = True,
    batches: int = 8,
    num_ipus: int = 4,
    manual: bool = False,
    pipelining: bool = False,
) -> SessionPlan:
    """The plan of a session. Args: chosen: its options; None: those that `manual` and `pipelining` make."""
    return plan_of(
        model.proto,
        popart.DataFlow(batches, {model.loss if training else model.y: popart.AnchorReturnType("All")}),
        shapes=InputShapeInfo(),
        options=options(manual=manual, pipelining=pipelining) if chosen is None else chosen,
        device=device(num_ipus),
        loss=model.loss if training else None,
        optimizer=popart.SGD({"defaultLearningRate": (0.1, True)}) if training else None,
    )
