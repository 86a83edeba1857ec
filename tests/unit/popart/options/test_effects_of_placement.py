"""Options that place a model on IPUs take effect, in values, stages or emulated time."""

import functools
from typing import Any, Final

import numpy as np
import pytest

from tests.unit.popart.session.models import options, prepared, run
from tilestep import popart
from tilestep.popart.session.emulation import Emulation, emulated_program
from tilestep.popart.session.plan import plan_of
from tilestep.popart.tensors import InputShapeInfo

WIDTH: Final = 64
MODES, LOCATION = popart.VirtualGraphMode, popart.TensorLocationSettings(popart.TensorStorage.OffChip)


def _model() -> tuple[bytes, str, str, str]:
    """Layers on two IPUs. Returns: the model, the names of the input, of the last layer's result and of the loss."""
    builder = popart.Builder()
    x = last = loss = builder.addInputTensor("FLOAT", [4, WIDTH], "x")
    for layer in range(2):
        with builder.virtualGraph(layer):
            w = builder.addInitializedInputTensor(np.eye(WIDTH, dtype=np.float32), f"w{layer}")
            last = builder.aiOnnx.relu([builder.aiOnnx.matmul([last, w])])
            loss = builder.aiGraphcore.identityloss([last], reduction=popart.ReductionType.Sum) if layer else ""
    return builder.getModelProto(), x, last, loss


def _device() -> popart.DeviceInfo:
    return popart.DeviceManager().createIpuModelDevice({"numIPUs": 2, "tilesPerIPU": 16})


def _pipelined(**given: Any) -> popart.SessionOptions:
    """Options of two stages and four microbatches."""
    return options(
        **{"virtualGraphMode": MODES.Manual, "enablePipelining": True, "enableGradientAccumulation": True, "accumulationFactor": 4, **given}
    )


def _sgd() -> popart.SGD:
    return popart.SGD({"defaultMomentum": (0.5, True)}, accumulatorAndMomentum=popart.SGDAccumulatorAndMomentum.Separate)


@functools.cache
def _usual(*, pipelined: bool) -> int:
    """What others are compared with."""
    return _emulated() if pipelined else _emulated(enablePipelining=False)


def _cycles(**given: Any) -> int:
    """Emulated cycles of a training step, whose values nothing computes."""
    return _usual(pipelined=not given) if given in ({}, {"enablePipelining": False}) else _emulated(**given)


def _emulated(**given: Any) -> int:
    proto, _, _, loss = _model()
    chosen, sgd, device = _pipelined(**given), _sgd(), _device()
    flow = popart.DataFlow(1, [loss])
    plan = plan_of(proto, flow, shapes=InputShapeInfo(), options=chosen, device=device, loss=loss, optimizer=sgd)
    machine = device.machine()
    assert machine is not None
    emulation = Emulation(machine, name="session")
    emulation.prepare(emulated_program(plan, chosen, sgd))
    emulation.weights_from_host()
    emulation.ran()
    return emulation.cycles()


@pytest.mark.slow
def test_stages_of_a_pipeline_work_at_once() -> None:
    assert _cycles() < _cycles(enablePipelining=False)


@pytest.mark.slow
def test_what_is_computed_again_takes_time() -> None:
    assert _cycles(autoRecomputation=popart.RecomputationType.RecomputeAll) > _cycles()


@pytest.mark.slow
def test_shapes_stay_known_where_stages_compute_again(builder: popart.Builder) -> None:
    x = y = builder.addInputTensor("FLOAT", [4, WIDTH], "x")
    for ipu in range(2):
        with builder.virtualGraph(ipu):
            w = builder.addInitializedInputTensor(np.eye(WIDTH, dtype=np.float32))
            y = builder.reshape_const(builder.aiOnnx, [builder.aiOnnx.matmul([y, w])], [4, WIDTH])
            loss = builder.aiGraphcore.identityloss([y]) if ipu else ""
    again = popart.RecomputationType.RecomputeAll
    chosen = options(virtualGraphMode=MODES.Manual, autoRecomputation=again, explicitRecomputation=True)
    sgd = popart.SGD({"defaultLearningRate": (1.0, True)})
    session = popart.TrainingSession(builder.getModelProto(), popart.DataFlow(1, [loss]), loss, sgd, _device(), userOptions=chosen)
    anchors = run(prepared(session), {x: np.ones((4, WIDTH), np.float32)})
    assert anchors[loss] == 1


@pytest.mark.slow
def test_without_the_flag_nothing_behind_a_checkpoint_is_computed_again() -> None:
    again = {"enablePipelining": False, "autoRecomputation": popart.RecomputationType.RecomputeAll}
    assert _cycles(**again) == _cycles(enablePipelining=False)  # there is no checkpoint, so all is behind the last one
    assert _cycles(**again, explicitRecomputation=True) > _cycles(enablePipelining=False)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "name",
    [
        "activationTensorLocationSettings",
        "weightTensorLocationSettings",
        "optimizerStateTensorLocationSettings",
        "accumulatorTensorLocationSettings",
    ],
)
def test_what_waits_in_streaming_memory_changes_the_time(name: str) -> None:
    assert _cycles(**{name: LOCATION}) != _cycles()


def test_the_forward_part_of_a_pipeline_runs_alone() -> None:
    inputs = {"x": np.ones((4, 4, WIDTH), np.float32)}
    proto, _, y, loss = _model()
    chosen = _pipelined(createImplicitPipeliningFwdOnlyProgram=True)
    session = popart.TrainingSession(proto, popart.DataFlow(1, [y]), loss, _sgd(), _device(), userOptions=chosen)
    prepared(session)
    anchors = session.initAnchorArrays()
    session.run("implicitPipeliningFwdOnly", popart.PyStepIO(inputs, anchors))
    assert (anchors[y] == 1).all()
