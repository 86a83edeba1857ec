"""How inputs and anchors are streamed, and in how many parts a batch is computed, must fit the other options."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilestep import popart

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
    options = popart.SessionOptions()
    for name, value in given.items():
        setattr(options, name, value)
    session = popart.InferenceSession(
        builder.getModelProto(),
        popart.DataFlow(batches, {y: popart.AnchorReturnType("All") if kind is None else kind}),
        popart.DeviceManager().createIpuModelDevice({"tilesPerIPU": 64}),
        userOptions=options,
    )
    return session, x, y


@pytest.mark.parametrize("strategy", [STRATEGY.OverlapInnerLoop, STRATEGY.OverlapLoops])
def test_overlapped_streams_change_no_value_and_say_so(strategy: popart.ExchangeStrategy, capsys: pytest.CaptureFixture[str]) -> None:
    session, x, y = _session(
        OVERLAPPED, settings=popart.InputSettings(TILES.IO, strategy), kind=popart.AnchorReturnType("All", TILES.IO, strategy)
    )
    assert f"The ExchangeStrategy of anchor '{y}', input 'x' has no effect: on the emulated machine" in capsys.readouterr().err
    session.prepareDevice()
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO({x: np.ones((4, 3), np.float32)}, anchors))
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


def test_the_batch_of_a_recurrent_operator_stands_behind_the_sequence() -> None:
    builder = popart.Builder()
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
