"""A session's life: what must come before what, and what it says of itself."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.unit.popart.session.models import (
    WEIGHT,
    Array,
    cpu,
    inference,
    ipu,
    ipu_model,
    numbers,
    options,
    prepared,
    run,
    same,
    sgd,
    squares,
    trained,
    training,
    weights_of,
)
from tilestep import popart

Session = popart.TrainingSession | popart.InferenceSession

UNPREPARED: list[Callable[[Session], Any]] = [
    lambda session: session.weightsFromHost(),
    lambda session: session.weightsToHost(),
    lambda session: session.updateOptimizerFromHost(sgd()),  # of a training session
    lambda session: session.resetHostWeights(squares().proto),
]


@pytest.mark.parametrize("call", UNPREPARED)
def test_what_needs_a_prepared_session_says_so(call: Callable[[Session], Any]) -> None:
    session = training(squares(), prepare=False)
    with pytest.raises(popart.popart_runtime_error, match=r"^Devicex::prepare\(\) must be called before Devicex::\w+"):
        call(session)


def test_a_step_needs_a_prepared_session() -> None:
    model = squares()
    session = inference(model.proto, {model.y: "All"}, prepare=False)
    with pytest.raises(popart.popart_runtime_error, match=r"^Devicex::prepare\(\) must be called before Devicex::run"):
        run(session, {model.x: numbers(1)})


def test_what_is_no_optimizer_is_a_type_error() -> None:
    model = squares()
    given: Any = None
    with pytest.raises(TypeError, match=r"^TrainingSession: optimizer is a NoneType: it must be"):
        popart.TrainingSession(model.proto, popart.DataFlow(1, [model.y]), model.loss, given, cpu())
    with pytest.raises(TypeError, match=r"^updateOptimizerFromHost: optimizer is a NoneType: it must be"):
        training(model).updateOptimizerFromHost(given)


def test_a_device_that_is_none_and_another_process_are_refused() -> None:
    model = squares()
    given: Any = None
    with pytest.raises(popart.popart_exception, match=r"^Must pass a valid deviceInfo to a session, and it is None: DeviceManager gives"):
        popart.InferenceSession(model.proto, popart.DataFlow(1, [model.y]), given)
    with pytest.raises(popart.popart_runtime_error, match=r"^broadcastWeights: rootRank is 1, and the only process has rank 0"):
        training(model, prepare=False).broadcastWeights(1)


def test_a_weight_with_the_name_of_the_optimisers_state_is_refused(builder: popart.Builder) -> None:
    x = builder.addInputTensor("FLOAT", [2])
    w = builder.addInitializedInputTensor(np.ones(2, np.float32), "w")
    other = builder.addInitializedInputTensor(np.ones(2, np.float32), "Accl___w")
    loss = builder.aiGraphcore.identityloss([builder.aiOnnx.mul([builder.aiOnnx.mul([x, w]), other])])
    with pytest.raises(popart.popart_exception, match="A weight is called 'Accl___w', as a tensor of the optimiser's state is"):
        popart.TrainingSession(builder.getModelProto(), popart.DataFlow(1, [loss]), loss, sgd(momentum=0.5), cpu())


def test_an_offline_device_compiles_and_does_not_run() -> None:
    model = squares()
    session = inference(model.proto, {model.y: "All"}, device=ipu(), prepare=False)
    session.prepareDevice(loadEngine=False)
    with pytest.raises(popart.popart_runtime_error, match=r"^Trying to load an engine on an offline device"):
        session.loadEngineAndConnectStreams()
    with pytest.raises(popart.popart_runtime_error, match=r"^Offline IPU device is not configured for execution"):
        run(session, {model.x: numbers(1)})


def test_a_session_knows_its_tensors() -> None:
    model = squares()
    session = training(model, {model.y: "All"}, prepare=False)
    shapes = {
        model.x: [2, 3],
        model.y: [2, 2],
        "w": [3, 2],
        model.loss: [],
        "Gradient___w": [3, 2],
        "Accl___w": [3, 2],
        "UpdatedVar___w": [3, 2],
    }
    assert {name: (session.getInfo(name).shape(), session.getInfo(name).data_type()) for name in shapes} == {
        name: (shape, "FLOAT") for name, shape in shapes.items()
    }
    assert session.hasInfo(model.y)
    assert not session.hasInfo("nothing")
    with pytest.raises(popart.popart_exception, match=r"^No Ir::Tensor with TensorId 'nothing' in Ir::getTensor\(\.\.\) $"):
        session.getInfo("nothing")
    assert {model.x, model.y, "w", model.loss, "Accl___w"} <= set(session.getAllTensorIds())


def test_a_step_takes_its_arguments_in_every_form() -> None:
    model = squares()
    session = inference(model.proto, {model.y: "All"})
    anchors = session.initAnchorArrays()
    io = popart.PyStepIO({model.x: numbers(1)}, anchors)
    calls: list[Callable[[], None]] = [
        lambda: session.run(io),
        lambda: session.run(io, "name"),
        lambda: session.run(stepio=io, debugName="name"),
    ]
    for call in calls:
        anchors[model.y][...] = np.nan
        call()
        same(anchors[model.y], numbers(1)[0] @ WEIGHT)
    for call in (lambda: session.run("program", io), lambda: session.run(io, programHandle="program")):
        with pytest.raises(popart.popart_exception, match=r"^\[Devicex::run\] Program program not found"):
            call()
    with pytest.raises(TypeError, match=r"^run\(stepio, debugName=''\)"):
        session.run({})
    with pytest.raises(TypeError, match=r"^run: stepio is a IStepIO"):
        session.run(type(io).__base__())


def test_a_session_has_its_own_copy_of_the_options() -> None:
    model = squares()
    chosen = options()
    session = popart.InferenceSession(model.proto, popart.DataFlow(1, [model.y]), cpu(), userOptions=chosen)
    chosen.compileEngine = False
    session.prepareDevice()
    run(session, {model.x: numbers(1)})


# ------------------------------------------------------------------------------------------------------------- optimisers


def test_new_values_of_the_optimiser_hold_from_the_next_run() -> None:
    model, inputs = squares(), numbers(1, 1)
    session = training(model, {"w": "Final"}, optimizer=sgd(momentum=0, const=False))
    first = run(session, {model.x: inputs})["w"]
    same(first, trained(inputs, momentum=0).weight)
    session.updateOptimizerFromHost(sgd(1 / 4, momentum=0, const=False))
    second = run(session, {model.x: inputs})["w"]
    same(second, trained(inputs, first, rate=1 / 4, momentum=0).weight)
    session.weightsFromHost()  # sends weights alone: the rate stays
    same(run(session, {model.x: inputs})["w"], trained(inputs, rate=1 / 4, momentum=0).weight)


def test_a_constant_of_the_optimiser_cannot_change() -> None:
    model = squares()
    session = training(model)
    before = weights_of(session, "w")["w"]
    with pytest.raises(popart.popart_exception, match=r"^New optimizer is not a valid replacement"):
        session.updateOptimizerFromHost(sgd(1 / 4))
    with pytest.raises(popart.popart_exception):
        session.updateOptimizerFromHost(sgd(const=False))
    with pytest.raises(popart.popart_exception):
        session.updateOptimizerFromHost(popart.Adam({}))
    session.updateOptimizerFromHost(sgd())  # the same values
    same(weights_of(session, "w")["w"], before)


# ---------------------------------------------------------------------------------------------------------- random numbers


def dropped(**changes: Any) -> tuple[popart.TrainingSession, Callable[[], Array]]:
    """A session with a dropout of one half, and one step of it: what becomes of ones, in two microbatches."""
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [64])
    w = builder.addInitializedInputTensor(np.ones(64, np.float32), "w")
    y = builder.aiOnnx.dropout([x], 1, 0.5)[0]
    loss = builder.aiGraphcore.identityloss([builder.aiOnnx.mul([y, w])])
    session = popart.TrainingSession(
        builder.getModelProto(), popart.DataFlow(2, [y]), loss, popart.ConstSGD(1), cpu(), userOptions=options(**changes)
    )
    prepared(session)
    return session, lambda: run(session, {x: np.ones((2, 64), np.float32)})[y]


def test_a_session_without_random_numbers_has_no_seed(capsys: pytest.CaptureFixture[str]) -> None:
    session = training(squares(), prepare=False)
    session.setRandomSeed(5)
    assert "Trying to set the random seed, but this session has no random behaviour. Doing nothing." in capsys.readouterr().err
    assert session.getRandomSeed() == 0
    assert "Trying to get the random seed, but this session has no random behaviour" in capsys.readouterr().err


def test_the_state_of_random_numbers_is_kept_and_set() -> None:
    session, step = dropped(enableLoadAndOffloadRNGState=True)
    session.setRandomSeed(5)
    step()
    state = session.getRNGState()
    assert [type(word) for word in state] == [int] * 3
    following = step()
    session.setRNGState(state)
    same(step(), following)
    assert session.getRNGState() != state
    with pytest.raises(popart.popart_runtime_error, match="received rngState of size 2; was expecting size 3"):
        session.setRNGState(state[:2])
    without, _ = dropped()
    for call in (without.getRNGState, lambda: without.setRNGState(state)):
        with pytest.raises(popart.popart_runtime_error, match=r"^Trying to [gs]et the RNG state, but the session option"):
            call()


def test_sending_weights_does_not_start_the_random_numbers_again() -> None:
    session, step = dropped()
    session.setRandomSeed(5)
    first, second = step(), step()
    session.setRandomSeed(5)
    same(step(), first)
    session.weightsFromHost()
    same(step(), second)
    for seed in (-1, 2**64):
        with pytest.raises(TypeError, match=rf"^setRandomSeed: {seed} is outside of 0 to 2\*\*64 - 1"):
            session.setRandomSeed(seed)


# ------------------------------------------------------------------------------------------------------------- synthetic


@pytest.mark.parametrize(
    "mode", [popart.SyntheticDataMode.Zeros, popart.SyntheticDataMode.RandomNormal, popart.SyntheticDataMode.RandomUniform]
)
def test_with_synthetic_data_nothing_comes_or_goes(mode: popart.SyntheticDataMode) -> None:
    model = squares()
    session = training(model, {model.y: "All"}, syntheticDataMode=mode, device=ipu_model(), instrumentWithHardwareCycleCounter=True)
    anchors = session.initAnchorArrays()
    anchors[model.y][...] = 7
    session.run(popart.PyStepIO({}, anchors))
    same(anchors[model.y], np.full((2, 2), 7, np.float32))
    weights = {"w": np.full((3, 2), 5, np.float32)}
    session.weightsToHost()
    session.readWeights(popart.PyWeightsIO(weights))
    same(weights["w"], WEIGHT)
    assert session.getCycleCount() > 0


# --------------------------------------------------------------------------------------------------------- failing programs


def test_a_program_that_stops_leaves_the_weights_as_they_were(builder: popart.Builder) -> None:
    x = builder.addInputTensor("FLOAT", [2, 3])
    stop = builder.addInputTensor("BOOL", [])
    w = builder.addInitializedInputTensor(WEIGHT, "w")
    builder.aiGraphcore.abort([stop])
    y = builder.aiOnnx.matmul([x, w])
    loss = builder.aiGraphcore.identityloss([builder.aiOnnx.mul([y, y])], reduction=popart.ReductionType.Sum)
    session = popart.TrainingSession(builder.getModelProto(), popart.DataFlow(2, ["w"]), loss, sgd(), cpu())
    prepared(session)
    inputs = numbers(2, 1)
    anchors = session.initAnchorArrays()
    anchors["w"][...] = 7
    with pytest.raises(popart.poplar_application_runtime_error, match=r"^Abort Program"):
        session.run(popart.PyStepIO({x: inputs, stop: np.array([False, True])}, anchors))
    same(anchors["w"], np.full((2, 3, 2), 7, np.float32))
    same(weights_of(session, "w")["w"], WEIGHT)
    session.run(popart.PyStepIO({x: inputs, stop: np.zeros(2, bool)}, anchors))
    same(anchors["w"][1], trained(inputs).weight)


def test_a_loss_that_is_no_name_is_a_type_error() -> None:
    model = squares()
    loss: Any = [model.loss]
    with pytest.raises(TypeError, match=r"^loss of a session must be a str, not "):
        popart.TrainingSession(model.proto, popart.DataFlow(1, [model.y]), loss, popart.ConstSGD(0.1), cpu())


def test_arguments_that_have_changed_places_are_named() -> None:
    model = squares()
    wrong: Any = popart.SessionOptions()
    with pytest.raises(TypeError, match=r"^patterns of a session must be a Patterns, not SessionOptions\(\)"):
        popart.InferenceSession(model.proto, popart.DataFlow(1, [model.y]), cpu(), None, wrong)
