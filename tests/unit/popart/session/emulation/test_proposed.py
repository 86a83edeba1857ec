"""Stages that are proposed take what their pipeline takes when it is played."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from tests.unit.popart.session.emulation.models import device, options
from tilestep import popart
from tilestep.popart.session.emulation import Emulation, EmulationOptions, emulated_program
from tilestep.popart.session.plan import plan_of
from tilestep.popart.tensors import InputShapeInfo

FEW, MANY = 8, 16  # microbatches


@dataclass(frozen=True, kw_only=True)
class Layers:
    """tanh(x @ w) layer by layer, and a loss. Attributes: anchor: when the loss leaves. training: else inference."""

    widths: tuple[int, ...]
    rows: int
    tiles: int
    stages: int
    anchor: str = "Sum"
    pattern: str = "full"
    training: bool = True

    def proto(self) -> tuple[bytes, str]:
        """(the model, its loss)."""
        builder = popart.Builder()
        value = builder.addInputTensor("FLOAT", [self.rows, self.widths[0]], "x")
        for rows, columns in zip(self.widths, self.widths[1:], strict=False):
            weight = builder.addInitializedInputTensor(np.zeros((rows, columns), np.float32))
            value = builder.aiOnnx.tanh([builder.aiOnnx.matmul([value, weight])])
        loss = builder.aiGraphcore.l1loss([value], 0.1)
        return builder.getModelProto(), loss

    def played(self, proto: bytes, loss: str, stages: int, microbatches: int) -> int:
        """Cycles of a call of the pipeline."""
        chosen = options(accumulation=microbatches if self.training else 0)
        on = device(stages, self.tiles, self.pattern)
        sgd: Any = popart.SGD({"defaultLearningRate": (0.1, True)}) if self.training else None
        plan = plan_of(
            proto,
            popart.DataFlow(1 if self.training else microbatches, {loss: popart.AnchorReturnType(self.anchor)}),
            shapes=InputShapeInfo(),
            options=chosen,
            device=on,
            loss=loss if self.training else None,
            optimizer=sgd,
        )
        machine = on.machine()
        assert machine is not None
        emulation = Emulation(machine, name="session", options=EmulationOptions())
        emulation.prepare(emulated_program(plan, chosen, sgd))
        emulation.weights_from_host()
        emulation.ran(times=2)
        return emulation.cycles()


@pytest.mark.slow
@pytest.mark.parametrize(
    "layers",
    [
        Layers(widths=(32,) * 7, rows=4, tiles=16, stages=3, anchor="All"),
        Layers(widths=(64, 256, 256, 256, 32), rows=16, tiles=64, stages=3),
        Layers(widths=(256,) * 5, rows=16, tiles=1472, stages=4, anchor="All", training=False),
        Layers(widths=(512,) * 5, rows=64, tiles=1472, stages=3, pattern="singlePipeline"),
        Layers(widths=(64,) * 7, rows=4, tiles=64, stages=3, pattern="replicaAndLadder"),
    ],
    ids=lambda layers: f"{layers.widths[1]}-{layers.stages}-{layers.anchor}-{layers.pattern}-{layers.training}",
)
def test_a_proposal_takes_what_its_pipeline_takes(layers: Layers) -> None:
    proto, loss = layers.proto()
    on = device(layers.stages, layers.tiles, layers.pattern)
    proposal = popart.propose_stages(proto, layers.stages, on, loss if layers.training else None)
    count = len(proposal.stages)
    assert count > 1
    few, many = (layers.played(proposal.annotated(proto), loss, count, microbatches) for microbatches in (FEW, MANY))
    assert proposal.slowest_cycles == pytest.approx((many - few) / (MANY - FEW), rel=0.1)
