"""Small models with what they compute in NumPy, and short ways to make, prepare and run a session.

Their numbers are small multiples of powers of two, so float32 holds each result exactly, and tests compare for equality.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from tilestep import popart

Array = np.ndarray[Any, Any]
Arrays = dict[str, Array]
Kind = str | popart.AnchorReturnType

BATCH: Final = 2
RATE: Final = 1 / 16
MOMENTUM: Final = 0.5
WEIGHT: Final = np.array([[0.5, -0.25], [0.25, 1], [-0.5, 0.75]], np.float32)


@dataclass(frozen=True, kw_only=True)
class Model:
    """A model. Attributes: proto: of a Builder. x, w, y, loss: names of the input, the weight, the product and the loss."""

    proto: bytes
    x: str
    w: str
    y: str
    loss: str


def squares(dtype: str = "FLOAT", start: Array = WEIGHT) -> Model:
    """loss = sum((x @ w) ** 2), with x of shape [2, 3] and w of shape [3, 2]."""
    builder = popart.Builder()
    x = builder.addInputTensor(dtype, [BATCH, 3])
    w = builder.addInitializedInputTensor(start.astype(popart.TensorInfo(dtype, [1]).data_type_lcase()), "w")
    y = builder.aiOnnx.matmul([x, w])
    loss = builder.aiGraphcore.identityloss([builder.aiOnnx.mul([y, y])], reduction=popart.ReductionType.Sum)
    return Model(proto=builder.getModelProto(), x=x, w=w, y=y, loss=loss)


def numbers(*leading: int) -> Array:
    """Inputs of `squares`: -1, 0 and 1. Args: leading: dimensions in front of a microbatch's own."""
    return np.random.default_rng(7).integers(-1, 2, (*leading, BATCH, 3)).astype(np.float32)


def sgd(rate: float = RATE, momentum: float = MOMENTUM, *, const: bool = True) -> popart.SGD:
    """SGD whose velocity is `Accl___w`."""
    return popart.SGD({"defaultLearningRate": (rate, const), "defaultMomentum": (momentum, const)})


@dataclass(frozen=True, kw_only=True)
class Trained:
    """What training `squares` gives.

    Attributes:
        values: of each tensor for each microbatch, as anchors "All" return them: first batches, then microbatches.
        weight, velocity: in the end.
    """

    values: Arrays
    weight: Array
    velocity: Array


def trained(inputs: Array, start: Array = WEIGHT, *, rate: float = RATE, momentum: float = MOMENTUM) -> Trained:
    """Trains `squares` in NumPy. Args: inputs: [batches, microbatches, 2, 3]."""
    weight, velocity = start.astype(np.float64), np.zeros(start.shape)
    rows: dict[str, list[list[Any]]] = {}
    for batch in inputs.astype(np.float64):
        row: dict[str, list[Any]] = {}
        for x in batch:
            y = x @ weight
            velocity = velocity + x.T @ (2 * y)
            found = {
                "input": x,
                "MatMul:0": y,
                "loss": np.sum(y * y),
                "Gradient___input": 2 * y @ weight.T,
                "Gradient___MatMul:0": 2 * y,
                "Gradient___w": x.T @ (2 * y),
                "Gradient___loss": np.float64(1),
                "Accl___w": velocity,
                "w": weight,
            }
            for name, value in found.items():
                row.setdefault(name, []).append(value)
        weight = weight - rate * velocity
        velocity = momentum * velocity
        row["UpdatedVar___w"] = [weight] * len(batch)
        if len(batch) == 1:
            row["w"] = [weight]
        for name, values in row.items():
            rows.setdefault(name, []).append(values)
    return Trained(values={name: np.array(values) for name, values in rows.items()}, weight=weight, velocity=velocity)


def cpu() -> popart.DeviceInfo:
    """A device without a machine."""
    return popart.DeviceManager().createCpuDevice()


def ipu_model(tiles: int = 16, ipus: int = 1) -> popart.DeviceInfo:
    """A device with an emulated machine."""
    return popart.DeviceManager().createIpuModelDevice({"numIPUs": ipus, "tilesPerIPU": tiles})


def ipu() -> popart.DeviceInfo:
    """A device whose executables are saved."""
    return popart.DeviceManager().createOfflineIPUDevice({"numIPUs": 1, "tilesPerIPU": 16})


def options(accumulation: int = 1, **changes: Any) -> popart.SessionOptions:
    """Options. Args: accumulation: microbatches of an update. changes: by the names of options."""
    made = popart.SessionOptions()
    if accumulation > 1:
        made.enableGradientAccumulation, made.accumulationFactor = True, accumulation
    for name, value in changes.items():
        setattr(made, name, value)
    return made


def flow(batches: int, anchors: Mapping[str, Kind]) -> popart.DataFlow:
    """Args: anchors: name -> "All" and the like, or an AnchorReturnType."""
    return popart.DataFlow(
        batches, {name: popart.AnchorReturnType(kind) if isinstance(kind, str) else kind for name, kind in anchors.items()}
    )


def training(
    model: Model,
    anchors: Mapping[str, Kind] | None = None,
    *,
    batches: int = 1,
    optimizer: popart.Optimizer | None = None,
    device: popart.DeviceInfo | None = None,
    prepare: bool = True,
    **changes: Any,
) -> popart.TrainingSession:
    """A session that has its weights. Args: anchors: name -> "All" and the like. prepare: whether it is prepared. changes: see options."""
    session = popart.TrainingSession(
        fnModel=model.proto,
        dataFlow=flow(batches, anchors or {}),
        loss=model.loss,
        optimizer=sgd() if optimizer is None else optimizer,
        deviceInfo=cpu() if device is None else device,
        userOptions=options(**changes),
    )
    return prepared(session) if prepare else session


def prepared(session: Any) -> Any:
    """The session, which has its weights."""
    session.prepareDevice()
    session.weightsFromHost()
    return session


def inference(
    proto: bytes,
    anchors: Mapping[str, Kind],
    *,
    batches: int = 1,
    device: popart.DeviceInfo | None = None,
    prepare: bool = True,
    shapes: popart.InputShapeInfo | None = None,
    **changes: Any,
) -> popart.InferenceSession:
    """A session of a model. Args: as those of `training`."""
    session = popart.InferenceSession(
        fnModel=proto,
        dataFlow=flow(batches, anchors),
        deviceInfo=cpu() if device is None else device,
        inputShapeInfo=shapes,
        userOptions=options(**changes),
    )
    if prepare:
        session.prepareDevice()
    return session


def run(session: popart.TrainingSession | popart.InferenceSession, inputs: Mapping[str, Any]) -> Arrays:
    """The anchors of one step."""
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO(inputs, anchors))
    return anchors


def weights_of(session: popart.TrainingSession | popart.InferenceSession, *names: str) -> Arrays:
    """Variables as they are on the device."""
    session.weightsToHost()
    arrays = {name: np.empty(session.getInfo(name).shape(), session.getInfo(name).data_type_lcase()) for name in names}
    session.readWeights(popart.PyWeightsIO(arrays))
    return arrays


def same(found: Array, expected: Any) -> None:
    """Fails unless shape and values are equal."""
    np.testing.assert_array_equal(found, np.asarray(expected), strict=False)
    assert found.shape == np.shape(expected)
