"""The original's tests in C++ of pipelines without accumulation, as what they say of a session's values."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pytest

from tests.unit.popart.session.stale.models import without_machine
from tilestep import popart

Array = np.ndarray[Any, Any]


def automatic() -> popart.SessionOptions:
    """A pipeline whose stages are found by their cost."""
    made = popart.SessionOptions()
    made.virtualGraphMode = popart.VirtualGraphMode.Auto
    made.enablePipelining = True
    return made


def read(session: popart.TrainingSession, names: Sequence[str], shape: tuple[int, ...]) -> list[Array]:
    session.weightsToHost()
    arrays = {name: np.empty(shape, np.float32) for name in names}
    session.readWeights(popart.PyWeightsIO(arrays))
    return [arrays[name] for name in names]


@pytest.mark.slow
def test_continuous_equivalent_0() -> None:
    """Where no gradient depends on a weight, stale weights give what exact SGD gives: six weights that are added, to inputs of +-100."""
    batches, samples, height, rate, scale = 100, 4, 8, 0.01, 0.1
    builder = popart.Builder()
    last = builder.addInputTensor("FLOAT", [samples, height, height], "x")
    weights: list[str] = []
    for layer in range(6):
        weights.append(builder.addInitializedInputTensor(np.zeros((height, height), np.float32), f"w{layer}"))
        last = builder.aiOnnx.add([weights[-1], last])
        if layer % 2 == 0:
            last = builder.aiGraphcore.scale([builder.aiGraphcore.scale([last], -1.0)], -1.0)
    loss = builder.aiGraphcore.l1loss([last], scale, reduction=popart.ReductionType.Sum)
    session = popart.TrainingSession(
        fnModel=builder.getModelProto(),
        dataFlow=popart.DataFlow(batches, {last: popart.AnchorReturnType("All")}),
        loss=loss,
        optimizer=popart.ConstSGD(rate),
        deviceInfo=without_machine(3),
        userOptions=automatic(),
    )
    session.prepareDevice()
    session.weightsFromHost()
    rng, total = np.random.default_rng(1011), np.zeros((height, height))
    for _ in range(3):
        x = np.where(rng.random((batches, samples, height, height)) > 0.5, -100.0, 100.0).astype(np.float32)
        total += x.sum((0, 1))
        session.run(popart.PyStepIO({"x": x}, session.initAnchorArrays()))
    expected = -total * rate * scale / 100
    for found in read(session, weights, (height, height)):
        assert np.abs(found - expected).max() < 1e-5


def two_branches(rng: np.random.Generator) -> tuple[bytes, str, list[str], list[Array]]:
    """Two chains of three sums with a weight and a sigmoid each, which are added."""
    builder = popart.Builder()
    names: list[str] = []
    values: list[Array] = []
    ends: list[str] = []
    for branch in range(2):
        last = builder.addInputTensor("FLOAT", [4, 2, 2], f"x{branch}")
        for _ in range(3):
            values.append(rng.uniform(-1, 1, (2, 2)).astype(np.float32))
            names.append(builder.addInitializedInputTensor(values[-1], f"w{len(names)}"))
            last = builder.aiOnnx.sigmoid([builder.aiOnnx.add([last, names[-1]])])
        ends.append(last)
    loss = builder.aiGraphcore.l1loss([builder.aiOnnx.add(ends)], 0.1)
    return builder.getModelProto(), loss, names, values


def distance(some: Sequence[Array], others: Sequence[Array]) -> float:
    return float(sum(np.abs(one - other).sum() for one, other in zip(some, others, strict=True)))


@pytest.mark.slow
def test_quadratic_epsilon_0() -> None:
    """With a small learning rate stale weights end near the exact ones: the original's bound."""
    batches = 160
    proto, loss, names, start = two_branches(np.random.default_rng(1011))
    ends: list[list[Array]] = []
    for pipelined in (True, False):
        session = popart.TrainingSession(
            fnModel=proto,
            dataFlow=popart.DataFlow(batches, dict[str, popart.AnchorReturnType]()),
            loss=loss,
            optimizer=popart.ConstSGD(0.005),
            deviceInfo=without_machine(3 if pipelined else 1),
            userOptions=automatic() if pipelined else popart.SessionOptions(),
        )
        session.prepareDevice()
        session.weightsFromHost()
        rng = np.random.default_rng(7)
        for _ in range(3):
            x = (1 + 2 * rng.uniform(-1, 1, (batches, 4, 2, 2))).astype(np.float32)
            session.run(popart.PyStepIO({"x0": x, "x1": x}, {}))
        ends.append(read(session, names, (2, 2)))
    assert 0 < distance(ends[0], ends[1]) < 0.0006
    assert distance(start, ends[1]) > 100 * distance(ends[0], ends[1])


RATES: Final = (0.128, 0.064, 0.032, 0.016, 0.008, 0.004, 0.002, 0.001, 0.0005, 0.128)
STEPS: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256, 1)


def sines(ipus: int) -> tuple[bytes, str, list[str], list[Array]]:
    """Six layers x -> x + sin(x) + w, over the IPUs."""
    rng = np.random.default_rng(1011)
    builder = popart.Builder()
    last = builder.addInputTensor("FLOAT", [3, 8, 8], "x")
    names: list[str] = []
    values: list[Array] = []
    for layer in range(6):
        values.append((100 * rng.uniform(-1, 1, (8, 8))).astype(np.float32))
        names.append(builder.addInitializedInputTensor(values[-1], f"w{layer}"))
        with builder.virtualGraph(layer * ipus // 6):
            last = builder.aiOnnx.add([builder.aiOnnx.add([builder.aiOnnx.sin([last]), last]), names[-1]])
            if layer == 5:
                loss = builder.aiGraphcore.l1loss([last], 0.1, reduction=popart.ReductionType.Sum)
    return builder.getModelProto(), loss, names, values


def trained(ipus: int, recompute: popart.RecomputationType) -> tuple[list[Array], list[list[Array]]]:
    """(the first weights, those after training with each learning rate, through the same distance)."""
    proto, loss, names, start = sines(ipus)
    options = popart.SessionOptions()
    options.virtualGraphMode = popart.VirtualGraphMode.Manual
    options.enablePipelining = ipus > 1
    options.autoRecomputation = recompute
    session = popart.TrainingSession(
        fnModel=proto,
        dataFlow=popart.DataFlow(20, dict[str, popart.AnchorReturnType]()),
        loss=loss,
        optimizer=popart.SGD({"defaultLearningRate": (10000.0, False)}),
        deviceInfo=without_machine(ipus),
        userOptions=options,
    )
    session.prepareDevice()
    ends: list[list[Array]] = []
    for rate, steps in zip(RATES, STEPS, strict=True):
        session.resetHostWeights(proto)
        session.weightsFromHost()
        session.updateOptimizerFromHost(popart.SGD({"defaultLearningRate": (rate, False)}))
        rng = np.random.default_rng(57)
        for _ in range(steps):
            session.run(popart.PyStepIO({"x": rng.uniform(-1, 1, (20, 3, 8, 8)).astype(np.float32)}, {}))
        ends.append(read(session, names, (8, 8)))
    return start, ends


def mean_relative(start: Sequence[Array], end: Sequence[Array], other: Sequence[Array]) -> float:
    """The mean over weights of |end - other| / |end - start|."""
    pairs = zip(start, end, other, strict=True)
    return float(np.mean([np.abs(one - two).sum() / np.abs(one - first).sum() for first, one, two in pairs]))


@pytest.fixture(scope="module")
def exact() -> tuple[list[Array], list[list[Array]]]:
    return trained(1, popart.RecomputationType.NoRecompute)


@pytest.mark.slow
@pytest.mark.parametrize("recompute", [popart.RecomputationType.NoRecompute, popart.RecomputationType.Standard])
def test_quadratic_epsilon_1(exact: tuple[list[Array], list[list[Array]]], recompute: popart.RecomputationType) -> None:
    """The error falls with the learning rate: a rate of 1/256 gives an error of about 1/256, and of at most 4/256."""
    start, ends = exact
    assert mean_relative(start, ends[-1], ends[0]) < 1e-8
    _, stale = trained(3, recompute)
    errors = [mean_relative(start, one, other) for one, other in zip(ends, stale, strict=True)]
    assert errors[0] < 0.5
    assert errors[0] / errors[8] > 2 << 6
    assert errors[-1] == errors[0]
    assert all(later < 0.7 * before for before, later in itertools.pairwise(errors[:9]))
