"""Which results a stage keeps for its backward pass, by the original's rules."""

from typing import Any

import numpy as np
import pytest

from tilestep import popart
from tilestep.popart.session.plan import SessionPlan, plan_of
from tilestep.popart.session.recompute import intervals, kept_tensors
from tilestep.popart.tensors import InputShapeInfo

Kind = popart.RecomputationType
WIDTH = 4


class Built:
    """Two stages: tanh(norm(x @ w0)) + x @ w0, then |h @ w1|, with marks between."""

    def __init__(self, *, marked: bool = False, again: bool = False) -> None:
        builder = popart.Builder()
        rng = np.random.default_rng(0)
        x = builder.addInputTensor("FLOAT", [2, WIDTH], "x")
        w = [builder.addInitializedInputTensor(rng.normal(size=(WIDTH, WIDTH)).astype(np.float32), f"w{stage}") for stage in range(2)]
        ones = builder.addInitializedInputTensor(np.ones(WIDTH, np.float32), "ones")
        with builder.virtualGraph(0), builder.pipelineStage(0):
            self.product = builder.aiOnnx.matmul([x, w[0]])
            self.norm = builder.aiGraphcore.groupnormalization([self.product, ones, ones], 1)[0]
            if marked:
                self.norm = builder.checkpointOutput([self.norm])[0]
            self.tanh = builder.aiOnnx.tanh([self.norm])
            self.given = builder.aiOnnx.add([self.tanh, self.product])
        if again:
            builder.recomputeOutputInBackwardPass(self.tanh)
        with builder.virtualGraph(1), builder.pipelineStage(1):
            self.last = builder.aiOnnx.matmul([self.given, w[1]])
            self.loss = builder.aiGraphcore.l1loss([self.last], 0.1)
        self.proto = builder.getModelProto()

    def plan(
        self, kind: Kind, *, pipelined: bool = True, explicit: bool = False, ipus: int = 2
    ) -> tuple[SessionPlan, popart.SessionOptions]:
        options = popart.SessionOptions()
        options.autoRecomputation = kind
        if pipelined:
            options.virtualGraphMode, options.enablePipelining = popart.VirtualGraphMode.Manual, True
        if explicit:
            options.enableExplicitIR(True)
        plan = plan_of(
            self.proto,
            popart.DataFlow(5, {self.loss: popart.AnchorReturnType("All")}),
            shapes=InputShapeInfo(),
            options=options,
            device=popart.DeviceManager().createIpuModelDevice({"numIPUs": ipus if pipelined else 1, "tilesPerIPU": 4}),
            loss=self.loss,
            optimizer=popart.ConstSGD(0.1),
        )
        return plan, options

    def kept(self, kind: Kind, stage: int = 0, **changes: Any) -> set[str] | None:
        """Those of the tensors that have a name here; None if nothing is computed again."""
        plan, options = self.plan(kind, **changes)
        found = kept_tensors(plan.graph, plan.names.analysis.types, options, plan.staging, plan.staging.stages[stage])
        return None if found is None else {*found} & {self.product, self.norm, self.tanh, self.given, self.last, self.loss}


@pytest.mark.parametrize("kind", [Kind.Pipeline, Kind.Standard])
def test_the_stage_of_the_loss_computes_nothing_again_behind_its_last_mark(kind: Kind) -> None:
    assert Built().kept(kind, stage=1) is None


def test_before_the_last_mark_the_stage_of_the_loss_computes_again(builder: popart.Builder) -> None:
    x = builder.addInputTensor("FLOAT", [2, WIDTH], "x")
    w = [builder.addInitializedInputTensor(np.ones((WIDTH, WIDTH), np.float32), f"w{layer}") for layer in range(3)]
    with builder.virtualGraph(0), builder.pipelineStage(0):
        h = builder.aiOnnx.matmul([x, w[0]])
    with builder.virtualGraph(1), builder.pipelineStage(1):
        again = builder.aiOnnx.matmul([h, w[1]])
        mark = builder.checkpointOutput([again])[0]
        kept = builder.aiOnnx.matmul([mark, w[2]])
        loss = builder.aiGraphcore.l1loss([kept], 0.1)
    model = Built()
    model.proto, model.loss = builder.getModelProto(), loss
    plan, options = model.plan(Kind.Pipeline)
    found = kept_tensors(plan.graph, plan.names.analysis.types, options, plan.staging, plan.staging.stages[1])
    assert found == {mark, kept, loss}


def test_without_a_pipeline_the_rules_are_of_the_whole_graph() -> None:
    model = Built()
    assert model.kept(Kind.NormOnly, pipelined=False) == {model.product, model.tanh, model.given, model.last, model.loss}
    assert model.kept(Kind.RecomputeAll, pipelined=False) is None  # nothing is marked
    marked = Built(marked=True)
    assert marked.kept(Kind.RecomputeAll, pipelined=False) == {
        marked.norm,
        marked.tanh,
        marked.given,
        marked.last,
        marked.loss,
        model.product,
    }
    again = Built(again=True)
    assert again.kept(Kind.NoRecompute, pipelined=False) == {again.product, again.norm, again.given, again.last, again.loss}


def test_with_explicit_loops_a_pipeline_has_the_rules_of_the_whole_graph() -> None:
    model = Built()
    assert model.kept(Kind.NormOnly, explicit=True) == {model.product, model.tanh, model.given}
    assert model.kept(Kind.Pipeline, explicit=True) == set()


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (1, [(0, 1)]),
        (4, [(0, 1), (1, 2), (2, 3), (3, 4)]),
        (32, [(0, 5), (5, 9), (9, 12), (12, 14), (14, 15), *((each, each + 1) for each in range(15, 32))]),
    ],
)
def test_intervals_become_shorter(count: int, expected: list[tuple[int, int]]) -> None:
    assert intervals(count) == expected
