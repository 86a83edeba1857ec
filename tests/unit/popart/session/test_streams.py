"""How inputs and anchors are streamed, and in how many parts a batch is computed, must fit the other options."""

from typing import Any

import jax
import numpy as np
import pytest

from tests.unit.popart.session.models import ipu_model, options, prepared, run
from tilestep import popart
from tilestep.popart.session.streams import Synthetic

STRATEGY, TILES = popart.ExchangeStrategy, popart.TileSet
MANUAL = {"virtualGraphMode": popart.VirtualGraphMode.Manual}
EXPLICIT = {"useHostCopyOps": True, "enableExplicitMainLoops": True}
OVERLAPPED = {**MANUAL, **EXPLICIT, "numIOTiles": 32}


def _session(
    given: dict[str, Any],
    *,
    settings: popart.InputSettings | None = None,
    kind: popart.AnchorReturnType | None = None,
    shape: tuple[int, ...] = (4, 3),
    batches: int = 1,
) -> tuple[popart.InferenceSession, str, str]:
    builder = popart.Builder()
    info = popart.TensorInfo("FLOAT", shape)
    x = builder.addInputTensor(info, "x") if settings is None else builder.addInputTensor(info, settings, "x")
    with builder.virtualGraph(0):
        y = builder.aiOnnx.add([x, x])
    session = popart.InferenceSession(
        builder.getModelProto(),
        popart.DataFlow(batches, {y: popart.AnchorReturnType("All") if kind is None else kind}),
        ipu_model(64),
        userOptions=options(**given),
    )
    return session, x, y


@pytest.mark.parametrize("strategy", [STRATEGY.OverlapInnerLoop, STRATEGY.OverlapLoops])
def test_overlapped_streams_change_no_value_and_say_so(strategy: popart.ExchangeStrategy, capsys: pytest.CaptureFixture[str]) -> None:
    session, x, y = _session(
        OVERLAPPED, settings=popart.InputSettings(TILES.IO, strategy), kind=popart.AnchorReturnType("All", TILES.IO, strategy)
    )
    assert f"The ExchangeStrategy of anchor '{y}', input 'x' has no effect: on the emulated machine" in capsys.readouterr().err
    session.prepareDevice()
    anchors = run(session, {x: np.ones((4, 3), np.float32)})
    assert (anchors[y] == 2).all()


@pytest.mark.parametrize("lacking", ["virtualGraphMode", "enableExplicitMainLoops"])
@pytest.mark.parametrize("strategy", [STRATEGY.OverlapInnerLoop, STRATEGY.OverlapLoops])
def test_overlapped_streams_need_loops_copies_and_virtual_graphs(lacking: str, strategy: popart.ExchangeStrategy) -> None:
    given = {name: value for name, value in OVERLAPPED.items() if name != lacking}
    message = r"^ExchangeStrategy::OverlapInnerLoop, ExchangeStrategy::OverlapLoops require SessionOptions::useHostCopyOps, .*strategy of "
    with pytest.raises(popart.popart_exception, match=message + "input 'x' is Overlap"):
        _session(given, settings=popart.InputSettings(TILES.IO, strategy))
    with pytest.raises(popart.popart_exception, match=message + "anchor '.*' is Overlap"):
        _session(given, kind=popart.AnchorReturnType("All", TILES.IO, strategy))


@pytest.mark.parametrize("given", [{}, OVERLAPPED])
def test_streams_that_overlap_whole_steps_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(popart.popart_exception, match=r"^ExchangeStrategy::OverlapStep is not yet supported"):
        _session(given, settings=popart.InputSettings(TILES.Compute, STRATEGY.OverlapStep))
    with pytest.raises(popart.popart_exception, match=r"^ExchangeStrategy::OverlapStep is not yet supported"):
        _session(given, kind=popart.AnchorReturnType("All", TILES.Compute, STRATEGY.OverlapStep))


def test_io_tiles_that_are_not_there_stream_nothing() -> None:
    settings = popart.InputSettings(TILES.IO, STRATEGY.JustInTime)
    with pytest.raises(popart.popart_exception, match=r"^No IO tile graph for index 0: input 'x'"):
        _session(MANUAL, settings=settings)
    _session({**MANUAL, "numIOTiles": 32}, settings=settings)
    _session({}, settings=settings)  # without virtual graphs all tiles are of one kind


def test_loops_in_the_program_return_no_every_nth_batch() -> None:
    with pytest.raises(popart.popart_exception, match=r'^\[MainLoops\] AnchorReturnType::EveryN for Tensor ".*" is unsupported when'):
        _session(EXPLICIT, kind=popart.AnchorReturnType("EveryN", 2), batches=2)
    _session({}, kind=popart.AnchorReturnType("EveryN", 2), batches=2)


@pytest.mark.parametrize(
    ("factor", "message"),
    [
        (8, "Batch axis: 4 is smaller than the batch serialization factor: 8 for tensor x"),
        (3, "Batch serialisation failed while processing tensor x: its batch of 4 can't be cut into 3 equal parts"),
    ],
)
def test_a_batch_has_as_many_rows_as_parts(factor: int, message: str) -> None:
    settings = popart.BatchSerializationSettings(factor)
    with pytest.raises(popart.popart_exception, match=f"^{message}"):
        _session({"batchSerializationSettings": settings})
    _session({"batchSerializationSettings": settings}, shape=())


def test_the_batch_of_a_recurrent_operator_stands_behind_the_sequence(builder: popart.Builder) -> None:
    x = builder.addInputTensor(popart.TensorInfo("FLOAT", [5, 2, 3]), "x")
    weights = [builder.addInitializedInputTensor(np.zeros((1, 4, width), np.float32)) for width in (3, 1)]
    y = builder.aiOnnx.lstm([x, *weights], 3)[0]
    device = popart.DeviceManager().createCpuDevice()

    def made(factor: int) -> None:
        options = popart.SessionOptions()
        options.batchSerializationSettings.factor = factor
        popart.InferenceSession(builder.getModelProto(), popart.DataFlow(1, [y]), device, userOptions=options)

    made(2)
    with pytest.raises(popart.popart_exception, match=r"^Batch axis: 2 is smaller than the batch serialization factor: 4"):
        made(4)


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
    prepared(session)
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
