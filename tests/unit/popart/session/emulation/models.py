"""Chains of layers on several IPUs, and what their sessions would take. Nothing computes their values."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.unit.popart.session import models
from tilestep import popart
from tilestep.popart.session.emulation import Emulation, EmulationOptions, emulated_program
from tilestep.popart.session.plan import SessionPlan, plan_of
from tilestep.popart.tensors import InputShapeInfo


@dataclass(frozen=True, kw_only=True)
class Chain:
    """Layers, each tanh(x @ w), and a loss, the sum.

    Attributes:
        ipus: of each part of the chain.
        layers: of each part; with `shared` they have one weight.
        phased: whether each part is an execution phase.
    """

    ipus: Sequence[int]
    width: int = 32
    rows: int = 4
    layers: int = 1
    shared: bool = False
    phased: bool = False
    dropped: bool = False
    anchors: dict[str, str | popart.AnchorReturnType] = field(default_factory=lambda: {"loss": "Final"})

    def proto(self) -> tuple[bytes, dict[str, str]]:
        """The model, and its tensors by plain names: "loss", "y" and "y0" and so on."""
        builder = popart.Builder()
        last = builder.addInputTensor("FLOAT", [self.rows, self.width], "x")
        names = {"x": last}
        for part, ipu in enumerate(self.ipus):
            w = ""
            for layer in range(self.layers):
                if not (self.shared and w):
                    w = builder.addInitializedInputTensor(np.zeros((self.width, self.width), np.float32), f"w{part}_{layer}")
                last = self._put(builder, part, ipu, builder.aiOnnx.matmul([last, w]))
                last = self._put(builder, part, ipu, builder.aiOnnx.tanh([last]))
                if self.dropped:
                    last = self._put(builder, part, ipu, builder.aiOnnx.dropout([last], 1, 0.5)[0])
            names[f"y{part}"] = last
        loss = builder.aiGraphcore.identityloss([last], reduction=popart.ReductionType.Sum)
        names["loss"] = self._put(builder, len(self.ipus) - 1, self.ipus[-1], loss)
        return builder.getModelProto(), names

    def _put(self, builder: Any, part: int, ipu: int, tensor: str) -> str:
        if self.phased:
            builder.executionPhase(tensor, part)
        else:
            builder.virtualGraph(tensor, ipu)
            builder.pipelineStage(tensor, part)
        return tensor


def options(*, pipelined: bool = True, accumulation: int = 0, replicas: int = 1, phases: int = 0, **changes: Any) -> popart.SessionOptions:
    """Options of a session. Args: changes: by the names of options."""
    found = models.options(max(accumulation, 1), **changes)
    found.virtualGraphMode = popart.VirtualGraphMode.ExecutionPhases if phases else popart.VirtualGraphMode.Manual
    found.enablePipelining = pipelined and not phases
    found.executionPhaseSettings.phases = phases
    found.constantWeights = not phases
    if replicas > 1:
        found.enableReplicatedGraphs, found.replicatedGraphCount = True, replicas
    return found


def one_stage(**changes: Any) -> popart.SessionOptions:
    """Options of a session without stages."""
    return options(pipelined=False, **changes)


def off_chip() -> popart.TensorLocationSettings:
    """Everything is in streaming memory, however small."""
    return popart.TensorLocationSettings(popart.TensorLocation(popart.TensorStorage.OffChip), 0, 0)


def device(num_ipus: int, tiles: int = 16, pattern: str = "full") -> popart.DeviceInfo:
    """An emulated device."""
    return popart.DeviceManager().createOfflineIPUDevice({"numIPUs": num_ipus, "tilesPerIPU": tiles, "syncPattern": pattern})


def planned(
    chain: Chain, chosen: popart.SessionOptions, on: popart.DeviceInfo, *, batches: int = 1, training: bool = True
) -> tuple[SessionPlan, popart.SGD | None]:
    """The plan of a session, and its optimiser."""
    proto, names = chain.proto()
    sgd = popart.SGD({"defaultLearningRate": (0.1, True), "defaultMomentum": (0.5, True)}) if training else None
    anchors = {
        names.get(name, name): popart.AnchorReturnType(kind) if isinstance(kind, str) else kind for name, kind in chain.anchors.items()
    }
    plan = plan_of(
        proto,
        popart.DataFlow(batches, anchors),
        shapes=InputShapeInfo(),
        options=chosen,
        device=on,
        loss=names["loss"] if training else None,
        optimizer=sgd,
    )
    return plan, sgd


def emulated(
    chain: Chain,
    chosen: popart.SessionOptions,
    *,
    num_ipus: int = 0,
    tiles: int = 16,
    pattern: str = "full",
    batches: int = 1,
    training: bool = True,
    calls: int = 2,
    name: str = "session",
    settings: EmulationOptions | None = None,
) -> Emulation:
    """A session's machine, on which it has had its weights and has been called so often. Args: num_ipus: 0: as many as it needs."""
    replicas = int(chosen.replicatedGraphCount) if chosen.enableReplicatedGraphs else 1
    on = device(num_ipus or (max(chain.ipus) + 1) * replicas, tiles, pattern)
    plan, sgd = planned(chain, chosen, on, batches=batches, training=training)
    machine = on.machine()
    assert machine is not None
    emulation = Emulation(machine, name=name, options=settings or EmulationOptions())
    emulation.prepare(emulated_program(plan, chosen, sgd))
    emulation.weights_from_host()
    emulation.ran(times=calls, name="a step")
    return emulation
