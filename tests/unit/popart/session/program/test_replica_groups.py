"""Variables that groups of replicas share: how they train, and what the host sends, reads and saves."""

from typing import Any

import numpy as np
import pytest

from tests.unit.popart.session.models import RATE, WEIGHT, Array, numbers, run, same, squares, trained
from tests.unit.popart.session.replica_models import GROUPS, UNGROUPED, of_groups, trained_by
from tilestep import popart

ALL = popart.VariableRetrievalMode.AllReplicas
PLAIN = {"defaultLearningRate": (RATE, True)}


def read(session: popart.TrainingSession, *shape: int) -> Array:
    """The weight as the host reads it."""
    session.weightsToHost()
    array = np.zeros(shape, np.float32)
    session.readWeights(popart.PyWeightsIO({"w": array}))
    return array


def expected(kind: str, inputs: Array, **more: Any) -> Array:
    """[groups, 3, 2] the weights after a step. Args: inputs: [batches, 4, 2, 3]. more: see models.trained."""
    return np.stack([trained(inputs[:, group], WEIGHT * (number + 1), **more).weight for number, group in enumerate(GROUPS[kind])])


@pytest.mark.parametrize("kind", ["All", "Consecutive", pytest.param("Orthogonal", marks=pytest.mark.slow)])
def test_all_replicas_values_are_read_if_settings_say_so(kind: str) -> None:
    model, inputs = of_groups(kind, ALL), numbers(1, 4)
    session = trained_by(model, 4)
    run(session, {model.x: inputs})
    found = read(session, 4, 3, 2)
    for number, group in enumerate(GROUPS[kind]):
        for replica in group:
            same(found[replica], expected(kind, inputs)[number])
    session.writeWeights(popart.PyWeightsIO({"w": found * 2}))
    session.weightsFromHost()
    same(read(session, 4, 3, 2), found * 2)


def test_replicas_of_a_group_take_no_different_values() -> None:
    session = trained_by(of_groups("Consecutive", ALL), 4)
    values = np.arange(24, dtype=np.float32).reshape(4, 3, 2)
    with pytest.raises(popart.popart_exception, match="Replicas 0 and 1 are of one group of 'w'"):
        session.writeWeights(popart.PyWeightsIO({"w": values}))
    session.writeWeights(popart.PyWeightsIO({"w": values[::2].copy()}))
    session.weightsFromHost()
    same(read(session, 4, 3, 2), values[[0, 0, 2, 2]])


def test_a_norm_over_weights_of_groups_clips_each_replica_for_itself() -> None:
    model, inputs = of_groups("Ungrouped"), numbers(1, 4)
    clipped = popart.SGD(PLAIN, clip_norm_settings=[popart.ClipNormSettings.clipAllWeights(1.0)])
    session = trained_by(model, 4, optimizer=clipped)
    run(session, {model.x: inputs})
    for replica, weight in enumerate(read(session, 4, 3, 2)):
        start = WEIGHT * (replica + 1)
        gradient = inputs[0, replica].T @ (2 * inputs[0, replica] @ start)
        norm = np.linalg.norm(gradient)
        np.testing.assert_allclose(weight, start - RATE * gradient / max(norm, 1), rtol=1e-5, atol=1e-6)


def of_settings(start: Array, settings: popart.VariableSettings) -> popart.TrainingSession:
    """A session of four replicas. Args: start: of its weight, with settings."""
    builder = popart.Builder()
    w = builder.addInitializedInputTensor(start, settings, "w")
    loss = builder.aiGraphcore.identityloss([w], reduction=popart.ReductionType.Sum)
    model = squares()
    return trained_by(type(model)(proto=builder.getModelProto(), x="", w=w, y=w, loss=loss), 4, optimizer=popart.SGD(PLAIN))


def test_settings_that_do_not_fit_are_errors() -> None:
    with pytest.raises(popart.popart_exception, match="must be divisible by"):
        of_settings(np.ones((2, 3), np.float32), popart.VariableSettings(popart.CommGroup(popart.CommGroupType.Consecutive, 3)))
    with pytest.raises(popart.popart_exception, match=r'of Tensor: "w"\. should match numGroups: 4'):
        of_settings(np.ones((2, 3), np.float32), popart.VariableSettings(UNGROUPED))
    with pytest.raises(popart.popart_exception, match="can't be read by AllReduceReplicas"):
        of_settings(np.ones((4, 3), np.float32), popart.VariableSettings(UNGROUPED, popart.VariableRetrievalMode.AllReduceReplicas))


def test_a_stride_makes_groups() -> None:
    session = of_settings(np.arange(4, dtype=np.float32).reshape(2, 2), popart.VariableSettings(2, 2, ALL))
    session.run(popart.PyStepIO({}, {}))
    same(read(session, 4, 2), np.array([[0, 1], [2, 3], [0, 1], [2, 3]], np.float32) - 2 * RATE)
