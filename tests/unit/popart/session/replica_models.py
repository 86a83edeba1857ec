"""Models and sessions of several replicas."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from tests.unit.popart.session.models import WEIGHT, Array, Kind, Model, ipu_model, options, training
from tilestep import popart

CONSECUTIVE = popart.CommGroup(popart.CommGroupType.Consecutive, 2)
ORTHOGONAL = popart.CommGroup(popart.CommGroupType.Orthogonal, 2)
UNGROUPED = popart.CommGroup(popart.CommGroupType.Ungrouped, 0)
GROUPS = {  # of four replicas, by the name of a CommGroup's type
    "All": [[0, 1, 2, 3]],
    "Consecutive": [[0, 1], [2, 3]],
    "Orthogonal": [[0, 2], [1, 3]],
    "Ungrouped": [[0], [1], [2], [3]],
}


def replicated(count: int, **changes: Any) -> popart.SessionOptions:
    """Options of so many replicas. Args: changes: see models.options."""
    return options(enableReplicatedGraphs=True, replicatedGraphCount=count, **changes)


def trained_by(model: Model, count: int, anchors: Mapping[str, Kind] | None = None, **more: Any) -> popart.TrainingSession:
    """A prepared session of so many replicas. Args: more: see models.training."""
    more = {"device": ipu_model(ipus=count), **more}
    return training(model, anchors, enableReplicatedGraphs=True, replicatedGraphCount=count, **more)


def of_groups(kind: str, mode: popart.VariableRetrievalMode = popart.VariableRetrievalMode.OnePerGroup) -> Model:
    """`squares` whose weight groups of four replicas share. The first values of a group are WEIGHT times its number and one."""
    groups = len(GROUPS[kind])
    start: Array = np.stack([WEIGHT * (group + 1) for group in range(groups)]) if groups > 1 else WEIGHT
    group = {"All": popart.CommGroup(), "Consecutive": CONSECUTIVE, "Orthogonal": ORTHOGONAL, "Ungrouped": UNGROUPED}[kind]
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [2, 3])
    w = builder.addInitializedInputTensor(start, popart.VariableSettings(group, mode), "w")
    y = builder.aiOnnx.matmul([x, w])
    loss = builder.aiGraphcore.identityloss([builder.aiOnnx.mul([y, y])], reduction=popart.ReductionType.Sum)
    return Model(proto=builder.getModelProto(), x=x, w=w, y=y, loss=loss)
