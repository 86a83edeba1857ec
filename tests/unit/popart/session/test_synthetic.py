"""Synthetic data: what inputs hold, and that nothing of them passes between host and device."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

from tilestep import popart
from tilestep.popart.session.streams import Synthetic

MODES = popart.SyntheticDataMode
BOTH = {popart.Instrumentation.Outer, popart.Instrumentation.Inner}


def values_of(mode: popart.SyntheticDataMode, **inputs: jax.ShapeDtypeStruct) -> dict[str, Any]:
    return Synthetic(mode).arrays(inputs, inputs)


def test_each_input_has_the_same_numbers_of_a_normal_distribution_as_in_the_original() -> None:
    """The original starts a generator anew for each input (popart, ir.cpp, registerInputTensors); whole numbers are cut off."""
    spec = jax.ShapeDtypeStruct((1000, 10), np.float32)
    found = values_of(MODES.RandomNormal, a=spec, b=spec, n=jax.ShapeDtypeStruct((1000, 10), np.int32))
    np.testing.assert_array_equal(found["a"], found["b"])
    np.testing.assert_array_equal(found["n"], np.trunc(found["a"]))
    assert abs(found["a"].mean()) < 0.05  # 5 standard errors of 10,000 numbers
    assert abs(found["a"].std() - 1) < 0.05
    assert not values_of(MODES.Zeros, a=spec)["a"].any()


def test_replicas_have_the_same_numbers() -> None:
    one, all_of = jax.ShapeDtypeStruct((3,), np.float32), jax.ShapeDtypeStruct((2, 3), np.float32)
    found = Synthetic(MODES.RandomNormal).arrays({"x": one}, {"x": all_of})["x"]
    np.testing.assert_array_equal(found[0], found[1])


def relu(mode: popart.SyntheticDataMode, *, batches: int = 1, replicas: int = 1) -> popart.InferenceSession:
    """A session that ran twice: y = relu(x), of which each microbatch's value is anchored."""
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [256, 256])
    y = builder.aiOnnx.relu([x])
    options = popart.SessionOptions()
    options.syntheticDataMode, options.instrumentWithHardwareCycleCounter, options.hardwareInstrumentations = mode, True, BOTH
    options.enableReplicatedGraphs, options.replicatedGraphCount = replicas > 1, replicas
    device = popart.DeviceManager().createIpuModelDevice({"numIPUs": replicas, "tilesPerIPU": 64})
    flow = popart.DataFlow(batches, {y: popart.AnchorReturnType("All")})
    session = popart.InferenceSession(builder.getModelProto(), flow, device, userOptions=options)
    session.prepareDevice()
    given = np.ones([size for size in (batches, replicas) if size > 1] + [256, 256], np.float32)
    for _ in range(2):
        session.run(popart.PyStepIO({x: given}, session.initAnchorArrays()))
    return session


@pytest.mark.parametrize("replicas", [1, 2])
def test_a_run_is_its_computation_alone(replicas: int) -> None:
    """The computation of a run with the host's data is the right value; nothing else is left of it."""
    own = relu(MODES.Off, replicas=replicas)
    computed = own.getCycleCount("inner_ipu_0")
    assert own.getCycleCount() > 50 * computed
    for mode in (MODES.Zeros, MODES.RandomNormal):
        session = relu(mode, replicas=replicas)
        assert session.getCycleCount() == session.getCycleCount("inner_ipu_0") == computed


def test_the_summary_advises_nothing_about_transfers() -> None:
    summary = relu(MODES.RandomNormal, batches=4).getSummaryReport()
    (row,) = [line for line in summary.splitlines() if line.startswith("  run ")]
    assert " 0 B 0 B " in " ".join(row.split())  # what comes in and goes out with a run
    for word in ("leaves the IPU", "results out", "arguments in", "host transfers"):
        assert word not in summary
    assert "leaves the IPU" in relu(MODES.Off, batches=4).getSummaryReport()


def staged(
    mode: popart.SyntheticDataMode, *, training: bool, accumulation: int = 1, inputs: bool = True
) -> popart.InferenceSession | popart.TrainingSession:
    """A pipeline of two stages that ran twice: loss = sum(x @ w @ v + r), with r read by the second stage alone."""
    builder = popart.Builder()
    made = [builder.addInputTensor("FLOAT", [8, 64], name) for name in ("x", "r")] if inputs else []
    x, r = made or [builder.aiOnnx.constant(np.ones((8, 64), np.float32))] * 2
    w, v = (builder.addInitializedInputTensor(np.ones((64, 64), np.float32), name) for name in "wv")
    with builder.virtualGraph(0), builder.pipelineStage(0):
        y = builder.aiOnnx.matmul([x, w])
    with builder.virtualGraph(1), builder.pipelineStage(1):
        z = builder.aiOnnx.add([builder.aiOnnx.matmul([y, v]), r])
        loss = builder.aiGraphcore.identityloss([z])
    options = popart.SessionOptions()
    options.virtualGraphMode, options.enablePipelining = popart.VirtualGraphMode.Manual, True
    options.instrumentWithHardwareCycleCounter, options.syntheticDataMode = True, mode
    options.enableGradientAccumulation, options.accumulationFactor = accumulation > 1, accumulation
    device = popart.DeviceManager().createIpuModelDevice({"numIPUs": 2, "tilesPerIPU": 64})
    flow = popart.DataFlow(8 // accumulation, {name: popart.AnchorReturnType("All") for name in (z, loss)})
    session = (
        popart.TrainingSession(builder.getModelProto(), flow, loss, popart.ConstSGD(0.1), device, userOptions=options)
        if training
        else popart.InferenceSession(builder.getModelProto(), flow, device, userOptions=options)
    )
    session.prepareDevice()
    session.weightsFromHost()
    shape = [size for size in (8 // accumulation, accumulation) if size > 1] + [8, 64]
    io = popart.PyStepIO({name: np.ones(shape, np.float32) for name in made}, session.initAnchorArrays())
    for _ in range(2):
        session.run(io)
    return session


@pytest.mark.parametrize(("training", "accumulation"), [(False, 1), (True, 4)])
def test_stages_compute_and_exchange_alone(training: bool, accumulation: int) -> None:
    synthetic = staged(MODES.Zeros, training=training, accumulation=accumulation)
    cycles = synthetic.getReport().execution.total_cycles.by_kind
    assert {kind for kind, count in cycles.items() if count} <= {"compute", "exchange", "sync", "collective", "idle"}
    assert synthetic.getCycleCount() > 0


@pytest.mark.parametrize(("training", "accumulation"), [(False, 1), (True, 4), (True, 1)])
def test_a_pipeline_without_inputs_runs(training: bool, accumulation: int) -> None:
    session = staged(MODES.Off, training=training, accumulation=accumulation, inputs=False)
    assert session.getCycleCount() > 0
