"""Sessions with stale weights: values as the rule of versions, written out, gives them."""

from typing import Any

import numpy as np
import pytest

from tests.unit.popart.session.models import prepared
from tests.unit.popart.session.stale.models import (
    RATE,
    ROWS,
    WIDTH,
    Arrays,
    Chain,
    chain,
    close,
    inputs,
    options,
    run,
    session,
    weights_of,
    without_machine,
)
from tilestep import popart
from tilestep.popart import popart_exception


@pytest.mark.parametrize("again", [False, True])
def test_what_is_computed_again_is_computed_with_the_newest_weights(again: bool) -> None:
    """In cycle c the first stage goes forward with microbatch c, and then backward with microbatch c - 2."""
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [1], "x")
    w = builder.addInitializedInputTensor(np.array([1.0], np.float32), "w")
    with builder.virtualGraph(0), builder.pipelineStage(0):
        h = builder.aiOnnx.tanh([builder.aiOnnx.mul([x, w])])
    with builder.virtualGraph(1), builder.pipelineStage(1):
        loss = builder.aiGraphcore.l1loss([h], 1.0, reduction=popart.ReductionType.Sum)
    recomputes = popart.RecomputationType.Pipeline if again else popart.RecomputationType.NoRecompute
    fed = np.linspace(0.3, 1.1, 9, dtype=np.float32)
    made = session(Chain(builder.getModelProto(), loss, [], {}), [loss, "w"], 9, chosen=options(autoRecomputation=recomputes))
    found = run(made, fed)
    weight, before, after = 1.0, [], []
    for cycle in range(11):
        before.append(weight)
        if cycle >= 2:
            used = weight if again else before[cycle - 2]
            weight -= RATE * fed[cycle - 2] * (1 - np.tanh(fed[cycle - 2] * used) ** 2)
            after.append(weight)
    close(found[loss], np.tanh(fed * before[:9]))
    close(found["w"][:, 0], after)


@pytest.mark.parametrize("explicit", [False, True])
def test_every_n_is_refused(explicit: bool) -> None:
    chosen = options()
    chosen.enableExplicitIR(explicit)
    model = chain(2)
    text = r"\[Explicit Pipeline\] Cannot execute when an anchor" if explicit else "AnchorReturnType::EVERYN is not valid for pipelined"
    with pytest.raises(popart_exception, match=f"^{text}"):
        popart.TrainingSession(
            fnModel=model.proto,
            dataFlow=popart.DataFlow(6, {model.loss: popart.AnchorReturnType("EveryN", 2)}),
            loss=model.loss,
            optimizer=popart.ConstSGD(0.1),
            deviceInfo=without_machine(2),
            userOptions=chosen,
        )


def clipping(model: Chain, groups: list[popart.ClipNormSettings], *, serial: bool = False) -> popart.TrainingSession:
    chosen = options()
    if not serial:
        chosen.accumulateOuterFragmentSettings.schedule = popart.AccumulateOuterFragmentSchedule.OverlapMemoryOptimized
    optimizer = popart.SGD({"defaultLearningRate": (0.2, True)}, groups)
    return session(model, ["Gradient___w0", "UpdatedVar___w0"], 4, optimizer=optimizer, chosen=chosen, emulated=True)


def test_clipping_is_within_a_stage() -> None:
    model = chain(2)
    groups = [popart.ClipNormSettings.clipWeights([f"w{stage}", f"v{stage}"], 0.01) for stage in range(2)]
    found = run(clipping(model, groups), inputs(4))
    step = (model.weights["w0"] - found["UpdatedVar___w0"][0]) / 0.2
    assert np.linalg.norm(step) <= 0.01 * 1.001
    ratio = step / found["Gradient___w0"][0]
    close(ratio, np.full_like(ratio, ratio.mean()), 1e-2)
    with pytest.raises(popart_exception, match=r"^Gradients are clipped by the norm over weights of the stages 0, 1, which are updated at"):
        clipping(model, [popart.ClipNormSettings.clipAllWeights(1.0)])
    with pytest.raises(popart_exception, match=r"^Incompatible accumulateOuterFragmentSchedule used with gradient clipping"):
        clipping(model, groups, serial=True)


@pytest.mark.slow
def test_restored_tensors_are_those_of_the_same_microbatch() -> None:
    model, batches = chain(3), 5
    stashed = ["x", model.tensors[0][1], model.tensors[1][2]]
    found = run(session(model, [*stashed, *(f"Restored___{name}" for name in stashed)], batches), inputs(batches))
    for name in stashed:
        np.testing.assert_array_equal(found[f"Restored___{name}"], found[name])
    np.testing.assert_array_equal(found["x"], inputs(batches))
    for missing in (model.tensors[2][1], "w0"):
        with pytest.raises(popart_exception, match=r"^Anchor tensor `Restored___"):
            session(model, [f"Restored___{missing}"], batches)


def two_readers(ipu_of_last: int) -> tuple[Any, str]:
    """Stage 0 multiplies by `s`, stage 1 by nothing of it, stage 2 by `s` again."""
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [1], "x")
    s = builder.addInitializedInputTensor(np.array([1.0], np.float32), "s")
    with builder.virtualGraph(0), builder.pipelineStage(0):
        h = builder.aiOnnx.mul([x, s])
    with builder.virtualGraph(1), builder.pipelineStage(1):
        h = builder.aiOnnx.tanh([h])
    with builder.virtualGraph(ipu_of_last), builder.pipelineStage(2):
        h = builder.aiOnnx.mul([h, s])
        loss = builder.aiGraphcore.l1loss([h], 1.0, reduction=popart.ReductionType.Sum)
    return builder.getModelProto(), loss


def test_a_weight_of_two_stages_is_updated_when_both_gradients_are_there() -> None:
    """Followed cycle by cycle: in cycle c each stage s, in the order of their numbers, works on microbatch c - s."""
    proto, loss = two_readers(0)
    batches, rate = 9, np.float32(0.1)
    x = np.linspace(0.3, 1.1, batches, dtype=np.float32)
    made = popart.TrainingSession(
        fnModel=proto,
        dataFlow=popart.DataFlow(batches, {loss: popart.AnchorReturnType("All"), "s": popart.AnchorReturnType("All")}),
        loss=loss,
        optimizer=popart.ConstSGD(float(rate)),
        deviceInfo=without_machine(2),
        userOptions=options(),
    )
    anchors = run(prepared(made), x)
    s, after, losses = 1.0, [0.0] * batches, [0.0] * batches
    kept: list[Arrays] = [{} for _ in range(batches)]
    for cycle in range(batches + 4):
        for stage in range(5):
            m = cycle - stage
            if not 0 <= m < batches:
                continue
            own: Any = kept[m]
            match stage:
                case 0:
                    own["h0"] = x[m] * s
                case 1:
                    own["h1"] = np.tanh(own["h0"])
                case 2:  # forward and backward
                    losses[m] = abs(own["h1"] * s)
                    own["g2"], own["g1"] = own["h1"], s
                case 3:
                    own["g0"] = own["g1"] * (1 - own["h1"] ** 2)
                case _:
                    s -= rate * (own["g2"] + own["g0"] * x[m])
                    after[m] = s
    close(anchors[loss], losses)
    close(anchors["s"][:, 0], after)


def test_two_readers_on_two_ipus_are_refused() -> None:
    proto, loss = two_readers(2)
    with pytest.raises(popart_exception):
        popart.TrainingSession(
            fnModel=proto,
            dataFlow=popart.DataFlow(9, [loss]),
            loss=loss,
            optimizer=popart.ConstSGD(0.1),
            deviceInfo=popart.DeviceManager().createIpuModelDevice({"numIPUs": 4, "tilesPerIPU": 4}),
            userOptions=options(),
        )


@pytest.mark.parametrize("again", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_dropout_drops_the_same_in_backward(again: bool) -> None:
    recomputes = popart.RecomputationType.Pipeline if again else popart.RecomputationType.NoRecompute
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [ROWS, WIDTH], "x")
    w = builder.addInitializedInputTensor(np.ones(WIDTH, np.float32), "w")
    with builder.virtualGraph(0), builder.pipelineStage(0):
        h = builder.aiOnnx.mul([x, w])
        d = builder.aiOnnx.dropout([h], 1, 0.5)[0]
    with builder.virtualGraph(1), builder.pipelineStage(1):
        loss = builder.aiGraphcore.l1loss([d], 1.0, reduction=popart.ReductionType.Sum)
    model = Chain(builder.getModelProto(), loss, [], {})
    chosen = options(autoRecomputation=recomputes)
    found = run(session(model, [d, f"Gradient___{h}"], 5, chosen=chosen), np.abs(inputs(5)) + 0.1)
    dropped = found[d] == 0
    assert 0 < dropped.mean() < 1
    np.testing.assert_array_equal(found[f"Gradient___{h}"] == 0, dropped)
    assert (dropped[0] != dropped[1]).any()


def test_statistics_of_a_batch_norm_are_those_of_each_microbatch_in_turn(builder: popart.Builder) -> None:
    x = builder.addInputTensor("FLOAT", [ROWS, WIDTH, 1], "x")
    values = {"scale": 1.0, "bias": 0.0, "mean": 0.0, "variance": 1.0}
    made = [builder.addInitializedInputTensor(np.full(WIDTH, value, np.float32), name) for name, value in values.items()]
    with builder.virtualGraph(0), builder.pipelineStage(0):
        h = builder.aiOnnx.batchnormalization([x, *made], 5, momentum=0.75)[0]
    with builder.virtualGraph(1), builder.pipelineStage(1):
        loss = builder.aiGraphcore.l1loss([builder.aiOnnx.tanh([h])], 1.0, reduction=popart.ReductionType.Sum)
    model = Chain(builder.getModelProto(), loss, [], {"mean": np.zeros(WIDTH, np.float32), "scale": np.ones(WIDTH, np.float32)})
    trained, batches = session(model, [loss], 6), inputs(6)
    run(trained, batches)
    mean = np.zeros(WIDTH)
    for batch in batches:
        mean = 0.75 * mean + 0.25 * batch.mean(0)
    found = weights_of(trained, model)
    close(found["mean"], mean)
    assert (found["scale"] != 1).all()
