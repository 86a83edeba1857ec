"""Options that take effect do, in sessions."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.unit.popart.options import test_effects_of_placement
from tests.unit.popart.session.models import prepared, run, weights_of
from tilestep import popart
from tilestep.popart.options.table import TABLE

Array = np.ndarray[Any, Any]
Set = Callable[[popart.SessionOptions], None]

# option -> the test of its effect
EFFECTS: dict[str, str] = {
    "accumulationFactor": "test_gradients_of_microbatches_make_one_update",
    "enableGradientAccumulation": "test_gradients_of_microbatches_make_one_update",
    "accumulationAndReplicationReductionType": "test_gradients_of_microbatches_make_one_update",
    "meanAccumulationAndReplicationReductionStrategy": "test_a_running_mean_does_not_overflow",
    "automaticLossScalingSettings": "test_the_loss_scaling_follows_the_gradients",
    "ensureFp32LossScaleTensor": "test_a_loss_scale_beyond_float16_is_not_cut",
    "syntheticDataMode": "test_synthetic_inputs_are_zeros",
    "enableSupportedDataTypeCasting": "test_64_bit_integers_without_casts_are_an_error",
    "enableLoadAndOffloadRNGState": "test_the_state_of_random_numbers_is_read_where_it_may_be",
    "constantWeights": "test_constant_weights_cannot_be_reset",
    "compileEngine": "test_an_engine_that_is_not_compiled_does_not_run",
    "enableEngineCaching": "test_executables_are_cached",
    "cachePath": "test_executables_are_cached",
    "engineOptions": "test_engine_options_ask_for_a_report",
    "reportOptions": "test_an_unknown_option_of_a_library_is_an_error_of_prepare_device",
    "convolutionOptions": "test_an_unknown_option_of_a_library_is_an_error_of_prepare_device",
    "matmulOptions": "test_an_unknown_option_of_a_library_is_an_error_of_prepare_device",
    "lstmOptions": "test_an_unknown_option_of_a_library_is_an_error_of_prepare_device",
    "instrumentWithHardwareCycleCounter": "test_cycles_are_counted_where_it_was_asked_for",
    "hardwareInstrumentations": "test_cycles_are_counted_where_it_was_asked_for",
    "numIOTiles": "test_io_tiles_change_the_plan",
    "partialsTypeMatMuls": "test_partials_change_the_plan",
    "useHostCopyOps": "test_loops_and_copies_in_the_program_allow_overlapped_streams",
    "enableExplicitMainLoops": "test_loops_and_copies_in_the_program_allow_overlapped_streams",
}
# option of several IPUs -> the test of its effect in test_effects_of_placement.py
PLACED: dict[str, str] = {
    "accumulatorTensorLocationSettings": "test_what_waits_in_streaming_memory_changes_the_time",
    "activationTensorLocationSettings": "test_what_waits_in_streaming_memory_changes_the_time",
    "autoRecomputation": "test_what_is_computed_again_takes_time",
    "createImplicitPipeliningFwdOnlyProgram": "test_the_forward_part_of_a_pipeline_runs_alone",
    "enablePipelining": "test_stages_of_a_pipeline_work_at_once",
    "enableReplicatedGraphs": "test_replicas_add_their_gradients",
    "executionPhaseSettings": "test_phases_follow_each_other",
    "explicitRecomputation": "test_without_the_flag_nothing_behind_the_last_checkpoint_is_computed_again",
    "optimizerStateTensorLocationSettings": "test_what_waits_in_streaming_memory_changes_the_time",
    "replicatedGraphCount": "test_replicas_add_their_gradients",
    "tensorLocationSettingsOverride": "test_a_single_weight_waits_in_streaming_memory",
    "virtualGraphMode": "test_the_mode_of_virtual_graphs_decides_who_places_operators",
    "virtualGraphSplitRatios": "test_ratios_split_the_model_unevenly",
    "weightTensorLocationSettings": "test_what_waits_in_streaming_memory_changes_the_time",
}


def test_each_option_that_takes_effect_is_tested() -> None:
    assert {name for name, row in TABLE.items() if row.fate == "done"} == EFFECTS.keys() | PLACED.keys()
    assert {name for name in EFFECTS.values() if name not in globals()} == set()
    assert {name for name in PLACED.values() if not hasattr(test_effects_of_placement, name)} == set()


def trained(set_options: Set, inputs: Array, *, dtype: str = "FLOAT", rate: float = 1.0) -> Array:
    """A weight of 1 after one step of SGD on loss = input * weight; `inputs`: one of each microbatch."""
    builder = popart.Builder()
    x = builder.addInputTensor(popart.TensorInfo(dtype, [1]))
    w = builder.addInitializedInputTensor(np.ones(1, inputs.dtype))
    loss = builder.aiGraphcore.identityloss([builder.aiOnnx.mul([x, w])], reduction=popart.ReductionType.Sum)
    options = popart.SessionOptions()
    set_options(options)
    session = popart.TrainingSession(
        fnModel=builder.getModelProto(),
        dataFlow=popart.DataFlow(1, []),
        loss=loss,
        optimizer=popart.SGD({"defaultLearningRate": (rate, True)}),
        userOptions=options,
        deviceInfo=popart.DeviceManager().createCpuDevice(),
    )
    prepared(session)
    session.run(popart.PyStepIO({x: inputs}, session.initAnchorArrays()))
    weights = weights_of(session, w)
    return weights[w]


def inferred(
    options: popart.SessionOptions,
    *,
    device: popart.DeviceInfo | None = None,
    kind: str = "FLOAT",
    width: int = 4,
    prepare: bool = True,
) -> tuple[popart.InferenceSession, str, str]:
    """A session that multiplies a square input by a square weight of ones, the input's and the output's name."""
    builder = popart.Builder()
    x = builder.addInputTensor(popart.TensorInfo(kind, [width, width]))
    dtype = {"FLOAT": np.float32, "FLOAT16": np.float16, "INT64": np.int64}[kind]
    w = builder.addInitializedInputTensor(np.ones((width, width), dtype))
    y = builder.aiOnnx.add([x, w]) if kind == "INT64" else builder.aiOnnx.matmul([x, w])
    session = popart.InferenceSession(
        fnModel=builder.getModelProto(),
        dataFlow=popart.DataFlow(1, {y: popart.AnchorReturnType("All")}),
        userOptions=options,
        deviceInfo=popart.DeviceManager().createCpuDevice() if device is None else device,
    )
    if prepare:
        session.prepareDevice()
    return session, x, y


def model(tiles: int = 16) -> popart.DeviceInfo:
    return popart.DeviceManager().createIpuModelDevice({"tilesPerIPU": tiles})


@pytest.mark.slow
def test_gradients_of_microbatches_make_one_update() -> None:
    def accumulate(options: popart.SessionOptions) -> None:
        options.enableGradientAccumulation, options.accumulationFactor = True, 2

    def mean(options: popart.SessionOptions) -> None:
        accumulate(options)
        options.accumulationAndReplicationReductionType = popart.ReductionType.Mean

    inputs = np.array([[2], [4]], np.float32)
    assert trained(lambda _: None, inputs[:1]) == 1 - 2
    assert trained(accumulate, inputs) == 1 - 6
    assert trained(mean, inputs) == 1 - 3


@pytest.mark.slow
def test_a_running_mean_does_not_overflow() -> None:
    def mean(strategy: popart.MeanReductionStrategy) -> Set:
        def set_options(options: popart.SessionOptions) -> None:
            options.enableGradientAccumulation, options.accumulationFactor = True, 2
            options.accumulationAndReplicationReductionType = popart.ReductionType.Mean
            options.meanAccumulationAndReplicationReductionStrategy = strategy

        return set_options

    inputs = np.array([[40000], [40000]], np.float16)
    assert np.isfinite(trained(mean(popart.MeanReductionStrategy.Running), inputs, dtype="FLOAT16", rate=1e-3))
    assert not np.isfinite(trained(mean(popart.MeanReductionStrategy.Post), inputs, dtype="FLOAT16", rate=1e-3))


def test_a_loss_scale_beyond_float16_is_not_cut() -> None:
    def changed(wide: bool, loss_scale: float) -> Array:
        """Of w, whose gradient is that of 0.25 * |0.5 * w|."""
        builder = popart.Builder()
        w = builder.addInitializedInputTensor(np.ones(2, np.float16))
        half = builder.aiOnnx.mul([w, builder.aiOnnx.constant(np.full(2, 0.5, np.float16))])
        loss = builder.aiGraphcore.identityloss([builder.aiGraphcore.l1loss([half], 0.25, popart.ReductionType.Sum)])
        options = popart.SessionOptions()
        options.ensureFp32LossScaleTensor = wide
        sgd = popart.SGD({"defaultLearningRate": (1.0, True), "lossScaling": (loss_scale, False)})
        flow = popart.DataFlow(1, ["Gradient___" + half, loss])
        device = popart.DeviceManager().createCpuDevice()
        session = popart.TrainingSession(builder.getModelProto(), flow, loss, sgd, device, userOptions=options)
        anchors = run(prepared(session), {})
        assert anchors[loss] == 0.25
        return anchors["Gradient___" + half]

    np.testing.assert_array_equal(changed(True, 1024.0), np.full(2, 256, np.float16))
    np.testing.assert_array_equal(changed(True, 131072.0), np.full(2, 32768, np.float16))
    assert changed(False, 131072.0)[0] < 16384.5


@pytest.mark.slow
def test_synthetic_inputs_are_zeros(options: popart.SessionOptions) -> None:
    options.syntheticDataMode = popart.SyntheticDataMode.Zeros
    session, x, y = inferred(options)
    anchors = session.initAnchorArrays()
    anchors[y][:] = 7
    session.run(popart.PyStepIO({x: np.ones((4, 4), np.float32)}, anchors))
    assert (anchors[y] == 7).all()  # nor do results come back


def test_64_bit_integers_without_casts_are_an_error(options: popart.SessionOptions) -> None:
    inferred(options, kind="INT64")
    options.enableSupportedDataTypeCasting = False
    with pytest.raises(popart.popart_exception, match=r"(?i)int64"):
        inferred(options, kind="INT64")


def test_the_state_of_random_numbers_is_read_where_it_may_be(options: popart.SessionOptions) -> None:
    session, _, _ = inferred(options)
    with pytest.raises(popart.popart_runtime_error, match=r"enableLoadAndOffloadRNGState"):
        session.getRNGState()
    options.enableLoadAndOffloadRNGState = True
    session, _, _ = inferred(options)
    session.setRNGState(session.getRNGState())


def test_constant_weights_cannot_be_reset(options: popart.SessionOptions) -> None:
    session, _, _ = inferred(options)
    with pytest.raises(popart.popart_runtime_error, match=r"constant"):
        session.writeWeights(popart.PyWeightsIO({}))
    options.constantWeights = False
    session, _, _ = inferred(options)
    session.writeWeights(popart.PyWeightsIO({}))


def test_an_engine_that_is_not_compiled_does_not_run(options: popart.SessionOptions) -> None:
    options.compileEngine = False
    session, x, _ = inferred(options)
    with pytest.raises(popart.popart_runtime_error, match=r"no compiled engine"):
        session.run(popart.PyStepIO({x: np.ones((4, 4), np.float32)}, session.initAnchorArrays()))


@pytest.mark.slow
def test_executables_are_cached(options: popart.SessionOptions, tmp_path: Path) -> None:
    options.enableEngineCaching, options.cachePath = True, str(tmp_path / "cache")
    for _ in range(2):
        inferred(options, device=popart.DeviceManager().acquireAvailableDevice(1, 16))
        gc.collect()
        assert len(list((tmp_path / "cache").iterdir())) == 1


@pytest.mark.slow
def test_engine_options_ask_for_a_report(options: popart.SessionOptions, tmp_path: Path) -> None:
    options.engineOptions["autoReport.directory"] = str(tmp_path)
    session, x, _ = inferred(options, device=model())
    session.run(popart.PyStepIO({x: np.ones((4, 4), np.float32)}, session.initAnchorArrays()))
    del session
    gc.collect()
    assert list(tmp_path.rglob("*.tilestep"))
    options.engineOptions["autoReport.direction"] = "here"
    with pytest.raises(popart.poplar_exception, match=r"Unrecognised option 'autoReport.direction'$"):
        inferred(options)


@pytest.mark.parametrize("name", ["reportOptions", "convolutionOptions", "matmulOptions", "lstmOptions"])
def test_an_unknown_option_of_a_library_is_an_error_of_prepare_device(options: popart.SessionOptions, name: str) -> None:
    setattr(options, name, {"showEverything": "true"})
    session, _, _ = inferred(options, prepare=False)
    with pytest.raises(popart.poplar_exception, match=r"Unrecognised option 'showEverything'$"):
        session.prepareDevice()


@pytest.mark.slow
def test_cycles_are_counted_where_it_was_asked_for(options: popart.SessionOptions) -> None:

    def ran() -> popart.InferenceSession:
        session, x, _ = inferred(options, device=model())
        session.run(popart.PyStepIO({x: np.ones((4, 4), np.float32)}, session.initAnchorArrays()))
        return session

    with pytest.raises(popart.popart_runtime_error, match=r"instrumentWithHardwareCycleCounter"):
        ran().getCycleCount()
    options.instrumentWithHardwareCycleCounter = True
    session = ran()
    assert session.getCycleCount() > 0
    with pytest.raises(popart.popart_exception):
        session.getCycleCount("inner_ipu_0")
    options.hardwareInstrumentations = {popart.Instrumentation.Outer, popart.Instrumentation.Inner}
    assert 0 < ran().getCycleCount("inner_ipu_0") <= ran().getCycleCount()
    gc.collect()


def cycles(**changes: Any) -> int:
    """Of a matmul of float16."""
    options = popart.SessionOptions()
    options.instrumentWithHardwareCycleCounter = True
    for name, value in changes.items():
        setattr(options, name, value)
    session, x, _ = inferred(options, device=model(), kind="FLOAT16", width=64)
    session.run(popart.PyStepIO({x: np.ones((64, 64), np.float16)}, session.initAnchorArrays()))
    return session.getCycleCount()


@pytest.mark.slow
def test_io_tiles_change_the_plan() -> None:
    assert cycles(numIOTiles=8) != cycles()


def test_loops_and_copies_in_the_program_allow_overlapped_streams(builder: popart.Builder) -> None:
    overlapped = popart.TileSet.IO, popart.ExchangeStrategy.OverlapLoops
    x = builder.addInputTensor(popart.TensorInfo("FLOAT", [4]), popart.InputSettings(*overlapped))
    with builder.virtualGraph(0):
        y = builder.aiOnnx.add([x, x])

    def made(**flags: bool) -> None:
        options = popart.SessionOptions()
        options.virtualGraphMode, options.numIOTiles = popart.VirtualGraphMode.Manual, 32
        for name, value in flags.items():
            setattr(options, name, value)
        popart.InferenceSession(builder.getModelProto(), popart.DataFlow(1, [y]), model(tiles=64), userOptions=options)

    made(useHostCopyOps=True, enableExplicitMainLoops=True)
    for flags in ({}, {"useHostCopyOps": True}):
        with pytest.raises(popart.popart_exception, match=r"OverlapLoops require SessionOptions::useHostCopyOps"):
            made(**flags)


@pytest.mark.slow
def test_partials_change_the_plan() -> None:
    assert cycles(partialsTypeMatMuls="half") < cycles()
    assert cycles(matmulOptions={"partialsType": "half"}) == cycles(partialsTypeMatMuls="half")


def test_the_loss_scaling_follows_the_gradients(builder: popart.Builder) -> None:
    x = builder.addInputTensor(popart.TensorInfo("FLOAT16", [1, 1]))
    w = builder.addInitializedInputTensor(np.ones((1, 1), np.float16))
    loss = builder.aiGraphcore.identityloss([builder.aiOnnx.matmul([x, w])])
    options = popart.SessionOptions()
    options.automaticLossScalingSettings.enabled = True
    session = popart.TrainingSession(
        fnModel=builder.getModelProto(),
        dataFlow=popart.DataFlow(3, ["finalLossScale"]),
        loss=loss,
        optimizer=popart.SGD({"lossScaling": (4.0, False)}),
        userOptions=options,
        deviceInfo=popart.DeviceManager().createCpuDevice(),
    )
    anchors = run(prepared(session), {x: np.array([1, 2000, 1], np.float16).reshape(3, 1, 1)})
    assert anchors["finalLossScale"].tolist() == [4.0, 8.0, 4.0]
