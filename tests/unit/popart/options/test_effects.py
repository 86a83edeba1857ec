"""Options that take effect do, in sessions."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.unit.popart.session.models import ipu_model, prepared, run, weights_of
from tilestep import popart
from tilestep.popart.options.table import TABLE

Array = np.ndarray[Any, Any]
Set = Callable[[popart.SessionOptions], None]

FOLDER = Path(__file__).parents[1]
EFFECTS: dict[str, str] = {
    # test -> the options whose effect it shows
    "options/test_effects.py::test_gradients_of_microbatches_make_one_update": "accumulationFactor enableGradientAccumulation "
    "accumulationAndReplicationReductionType",
    "options/test_effects.py::test_a_running_mean_does_not_overflow": "meanAccumulationAndReplicationReductionStrategy",
    "options/test_effects.py::test_a_loss_scale_beyond_float16_is_not_cut": "ensureFp32LossScaleTensor",
    "options/test_effects.py::test_64_bit_integers_without_casts_are_an_error": "enableSupportedDataTypeCasting",
    "options/test_effects.py::test_an_engine_that_is_not_compiled_does_not_run": "compileEngine",
    "options/test_effects.py::test_io_tiles_change_the_plan": "numIOTiles",
    "options/test_effects.py::test_partials_change_the_plan": "partialsTypeMatMuls",
    "options/test_effects_of_placement.py::test_stages_of_a_pipeline_work_at_once": "enablePipelining",
    "options/test_effects_of_placement.py::test_what_is_computed_again_takes_time": "autoRecomputation",
    "options/test_effects_of_placement.py::test_without_the_flag_nothing_behind_a_checkpoint_is_computed_again": "explicitRecomputation",
    "options/test_effects_of_placement.py::test_what_waits_in_streaming_memory_changes_the_time": "accumulatorTensorLocationSettings "
    "activationTensorLocationSettings optimizerStateTensorLocationSettings weightTensorLocationSettings",
    "options/test_effects_of_placement.py::test_the_forward_part_of_a_pipeline_runs_alone": "createImplicitPipeliningFwdOnlyProgram",
    "options/test_libraries.py::test_an_unknown_option_ends_with_the_originals_words": "reportOptions convolutionOptions lstmOptions",
    "options/test_tensor_locations.py::test_a_name_goes_before_an_operator_and_that_before_a_class": "tensorLocationSettingsOverride",
    "session/staging/test_placing.py::test_each_ipu_gets_its_share_of_the_weights": "virtualGraphSplitRatios",
    "session/staging/test_placing.py::test_stages_follow_the_phases": "executionPhaseSettings",
    "session/staging/test_stages.py::test_virtual_graphs_are_stages_one_after_the_other": "virtualGraphMode",
    "session/test_executables.py::test_the_second_session_takes_the_program_of_the_first": "enableEngineCaching cachePath",
    "session/test_figures.py::test_a_model_that_does_not_fit_is_an_error_of_preparing": "engineOptions",
    "session/test_figures.py::test_cycles_need_a_run_the_option_and_a_machine": "instrumentWithHardwareCycleCounter "
    "hardwareInstrumentations",
    "session/program/test_replica_groups.py::test_all_replicas_values_are_read_if_settings_say_so": "enableReplicatedGraphs "
    "replicatedGraphCount",
    "session/model/test_scaling.py::test_a_saved_model_keeps_the_factor_and_the_counter": "automaticLossScalingSettings",
    "session/test_session.py::test_the_state_of_random_numbers_is_kept_and_set": "enableLoadAndOffloadRNGState",
    "session/test_session.py::test_with_synthetic_data_nothing_comes_or_goes": "syntheticDataMode",
    "session/test_streams.py::test_overlapped_streams_need_loops_copies_and_virtual_graphs": "useHostCopyOps enableExplicitMainLoops",
    "session/model/test_tuning.py::test_an_option_with_a_wrong_value_is_an_error_of_prepare_device": "matmulOptions",
    "session/test_weights.py::test_constant_weights_of_inference_cannot_be_replaced": "constantWeights",
}


def test_each_option_that_takes_effect_is_tested() -> None:
    assert {name for name, row in TABLE.items() if row.fate == "done"} == set(" ".join(EFFECTS.values()).split())
    for file, test in (place.split("::") for place in EFFECTS):
        assert f"def {test}(" in (FOLDER / file).read_text(), f"{file} has no {test}"


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
) -> tuple[popart.InferenceSession, str]:
    """A session that multiplies a square input by a square weight of ones, and the input's name."""
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
    session.prepareDevice()
    return session, x


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


def test_64_bit_integers_without_casts_are_an_error(options: popart.SessionOptions) -> None:
    inferred(options, kind="INT64")
    options.enableSupportedDataTypeCasting = False
    with pytest.raises(popart.popart_exception, match=r"(?i)int64"):
        inferred(options, kind="INT64")


def test_an_engine_that_is_not_compiled_does_not_run(options: popart.SessionOptions) -> None:
    options.compileEngine = False
    session, x = inferred(options)
    with pytest.raises(popart.popart_runtime_error, match=r"no compiled engine"):
        session.run(popart.PyStepIO({x: np.ones((4, 4), np.float32)}, session.initAnchorArrays()))


def cycles(**changes: Any) -> int:
    """Of a matmul of float16."""
    options = popart.SessionOptions()
    options.instrumentWithHardwareCycleCounter = True
    for name, value in changes.items():
        setattr(options, name, value)
    session, x = inferred(options, device=ipu_model(), kind="FLOAT16", width=64)
    session.run(popart.PyStepIO({x: np.ones((64, 64), np.float16)}, session.initAnchorArrays()))
    return session.getCycleCount()


@pytest.mark.slow
def test_io_tiles_change_the_plan() -> None:
    assert cycles(numIOTiles=8) != cycles()


@pytest.mark.slow
def test_partials_change_the_plan() -> None:
    assert cycles(partialsTypeMatMuls="half") < cycles()
    assert cycles(matmulOptions={"partialsType": "half"}) == cycles(partialsTypeMatMuls="half")
