"""What all of a session's methods share: its plan, its compiled step, its weights, and what is on the device."""

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

from tilestep.files import write_file
from tilestep.messages import plain, shown
from tilestep.onnx.interpreter.values import Array
from tilestep.popart.builder.loading import read_model
from tilestep.popart.dataflow import DataFlow
from tilestep.popart.devices.device_info import DeviceInfo
from tilestep.popart.diagnostics.log import Level, log
from tilestep.popart.enums import DeviceConnectionType
from tilestep.popart.exceptions import noted, popart_exception, popart_runtime_error
from tilestep.popart.optimizers import Optimizer
from tilestep.popart.options import SessionOptions, require_known
from tilestep.popart.patterns import Patterns
from tilestep.popart.session.engine import SessionEngine, described
from tilestep.popart.session.feeds import Feeds
from tilestep.popart.session.figures import SessionFigures
from tilestep.popart.session.plan import plan_of
from tilestep.popart.session.program.program import SessionCarry, key_of
from tilestep.popart.session.proposals.session_registry import RegisteredSession, announce_made
from tilestep.popart.session.staging import require_ipus
from tilestep.popart.session.streams import Synthetic, require_streams
from tilestep.popart.session.weights import HostWeights, SavedModel
from tilestep.popart.stepio import PyWeightsIO
from tilestep.popart.tensors import InputShapeInfo, TensorInfo


def _require_kind(name: str, value: object, kind: type) -> None:
    """Raises: TypeError for an argument that is neither left out nor of its type, as when two have changed places."""
    if value is not None and not isinstance(value, kind):
        raise TypeError(f"{name} of a session must be a {kind.__name__}, not {shown(value)} ({type(value).__name__})")


@dataclass(frozen=True, kw_only=True)
class Objective:
    """What a session trains for: the scalar tensor that an optimiser makes small."""

    loss: str
    optimizer: Optimizer


class Prepared:
    """A session that can be prepared for its device."""

    def __init__(
        self,
        model: Any,
        data_flow: DataFlow,
        device: DeviceInfo,
        shapes: InputShapeInfo | None,
        patterns: Patterns | None,
        options: SessionOptions | None,
        name: str,
        *,
        objective: Objective | None = None,
    ) -> None:
        self._training = objective is not None
        loss, optimizer = (None, None) if objective is None else (objective.loss, objective.optimizer)
        if not isinstance(device, DeviceInfo):  # a caller's mistake
            raise popart_exception(f"Must pass a valid deviceInfo to a session, and it is {device!r}: DeviceManager gives one")
        _require_kind("dataFlow", data_flow, DataFlow)
        _require_kind("loss", loss, str)
        _require_kind("inputShapeInfo", shapes, InputShapeInfo)
        _require_kind("patterns", patterns, Patterns)
        _require_kind("userOptions", options, SessionOptions)
        self._options = SessionOptions() if options is None else options.copied()
        self._options.require_supported(training=self._training, device=device.type, num_ipus=device.num_ipus, tiles=device.tiles_per_ipu)
        self._patterns = Patterns() if patterns is None else patterns.copied()
        self._patterns.require_supported()
        self._device, self._name, self._data_flow = device, name, data_flow
        self._plan = plan_of(
            model,
            data_flow,
            shapes=InputShapeInfo() if shapes is None else shapes,
            options=self._options,
            device=device,
            loss=loss,
            optimizer=optimizer,
        )
        require_streams(self._options, data_flow, self._plan.graph.model.proto, self._plan.graph.inputs)
        announce_made(
            RegisteredSession(
                name=plain(name),
                graph=self._plan.graph,
                loss=loss,
                differentiable=self._plan.names.analysis.differentiable,
                device=device,
                num_io_tiles=max(0, self._options.numIOTiles),
            )
        )
        self._weights = HostWeights(self._plan.first, self._plan.graph.constants, self._plan.replication)
        self._saved = SavedModel(self._plan.graph.model)
        self._feeds = Feeds(self._plan)
        self._carry: SessionCarry | None = None
        self._seed = 0
        self._weights_sent = self._loaded = False
        self._engine = SessionEngine(
            self._plan, self._feeds, self._options, device, (self._training, loss, self._plan.anchors, described(optimizer))
        )
        self._figures = SessionFigures(self._plan, device, self._options, name, optimizer)
        self._synthetic = Synthetic(self._options.syntheticDataMode)

    # -- what the session is

    @property
    def dataFlow(self) -> DataFlow:
        """Of the session."""
        return self._data_flow

    @property
    def replicationFactor(self) -> int:
        """Copies of the model that run side by side."""
        return self._plan.replication.count

    @property
    def accumulationFactor(self) -> int:
        """Microbatches between two updates."""
        return self._plan.accumulation

    def getInfo(self, id: str) -> TensorInfo:
        """A tensor's shape and dtype. Raises: popart_exception if there is no such tensor."""
        kind = self._plan.type_of(id)
        if kind is None:
            raise popart_exception(f"No Ir::Tensor with TensorId '{id}' in Ir::getTensor(..) ")
        return TensorInfo(np.dtype(kind.dtype), kind.shape)

    def hasInfo(self, id: str) -> bool:
        """Whether there is such a tensor."""
        return self._plan.type_of(id) is not None

    def getAllTensorIds(self) -> set[str]:
        """Names of all tensors of the model and of the optimiser's state."""
        return {*self._plan.names.analysis.types, *self._plan.names.state}

    getTensorIds = getAllTensorIds  # the original has this name for training

    def initAnchorArrays(self) -> dict[str, Array]:
        """Arrays for `PyStepIO`, with anything in them. Leading dimensions of one element are left out."""
        return self._feeds.anchor_arrays()

    def checkInplacingAmbiguity(self) -> None:
        """Does nothing: no tensor is updated in place, so the order of operators never decides a value."""

    # -- preparing

    def prepareDevice(self, loadEngine: bool = True) -> None:
        """Compiles the session's program, and plans it for the device's machine. A second call keeps the weights that are on the device.

        Raises:
            poplar_exception: for an unknown engine option.
            popart_exception: for an operation that can't be compiled, or is on an IPU that the device does not have.
            OutOfMemoryException: for a program that does not fit the machine.
        """
        require_known(self._options)
        require_ipus(self._plan.graph, self._plan.staging, self._options)
        carry = jax.eval_shape(self._first_carry)
        if self._options.compileEngine:
            self._figures.prepare()
        self._engine.compile(carry)
        log("session", Level.INFO, "Graph compiled")
        self._loaded = False
        if self._carry is None:  # a session that is prepared again keeps what is on the device
            self._carry = self._first_carry()
        if loadEngine and self._options.compileEngine:
            self.loadEngineAndConnectStreams()

    def loadEngineAndConnectStreams(self) -> None:
        """Attaches the device. Raises: popart_runtime_error if it can't run programs."""
        if self._carry is None or not self._options.compileEngine:
            raise popart_runtime_error("There is no compiled engine: call session.prepareDevice() first, with compileEngine True")
        if self._device.connectionType == DeviceConnectionType.Never:
            raise popart_runtime_error("Trying to load an engine on an offline device")
        self._device.require_attached()
        log("devicex", Level.INFO, "Engine loaded")
        self._loaded = True

    def setEngineIsLoaded(self, isLoaded: bool) -> None:
        """Says whether the device has the program. If not, the next run loads it, which attaches the device."""
        self._loaded = bool(isLoaded)

    def _first_carry(self) -> SessionCarry:
        rule = self._plan.rule
        values = {name: self._plan.replication.on_device(name, array) for name, array in self._weights.outgoing.items()}
        optimizer = None
        if rule is not None:
            one = {name: self._plan.graph.variables[name] for name in self._plan.names.trained}
            state = rule.init(one)  # pyrefly: ignore[bad-argument-type]
            optimizer = replace(state, tensors={name: values[name] for name in state.tensors})  # pyrefly: ignore[bad-argument-type]
            if self._carry is not None:
                optimizer = replace(optimizer, hyper=self._carry.optimizer.hyper)
        variables = {name: values[name] for name in self._plan.graph.variables}
        key, count = (key_of(self._seed), np.uint32(0)) if self._carry is None else (self._carry.key, self._carry.count)
        return jax.tree.map(jax.numpy.asarray, SessionCarry(variables=variables, optimizer=optimizer, key=key, count=count))

    def _require_prepared(self, what: str) -> SessionCarry:
        if self._carry is None:
            raise noted(
                popart_runtime_error(f"Devicex::prepare() must be called before Devicex::{what} is called."),
                "Call session.prepareDevice() first.",
            )
        return self._carry

    _in_sync = False  # whether the host has what is on the device

    def weightsFromHost(self) -> None:
        """Sends the weights and the optimiser's state to the device."""
        self._require_prepared("weightsFromHost()")
        if self._synthetic.off:
            self._carry = self._first_carry()
            self._figures.weights_from_host()
        self._weights_sent, self._in_sync = True, False

    def weightsToHost(self) -> None:
        """Receives the weights and the optimiser's state from the device; `readWeights` gives them out."""
        carry = self._require_prepared("weightsToHost()")
        if not self._synthetic.off:
            return
        self._figures.weights_to_host()
        values = {**carry.variables, **({} if carry.optimizer is None else carry.optimizer.tensors)}
        self._weights.receive(jax.device_get(values))
        self._in_sync = True

    def readWeights(self, weightsIo: PyWeightsIO) -> None:
        """Copies what `weightsToHost` has received. Raises: popart_runtime_error for an array of another size."""
        self._weights.read(weightsIo)

    def writeWeights(self, weightsIo: PyWeightsIO) -> None:
        """Takes arrays for the next `weightsFromHost`. Raises: popart_runtime_error where weights are constant, or for another shape."""
        if self._options.constantWeights and not self._training:
            raise popart_runtime_error(
                "Cannot call writeWeights when constantWeights is set. Set `constantWeights` to False in the `SessionOption`s when "
                "initialising the session to enable this behaviour."
            )
        self._weights.write(weightsIo)

    def resetHostWeights(self, modelProtoOrFilename: Any, ignoreWeightsInModelWithoutCorrespondingHostWeight: bool = False) -> None:
        """Takes a model's initialisers for the next `weightsFromHost`.

        Raises: popart_runtime_error where weights are constant or do not fit, popart_exception for a model that can't be read.
        """
        self._require_prepared("resetHostWeights")
        if self._options.constantWeights and not self._training:
            raise popart_runtime_error("Cannot call resetHostWeights when constantWeights is set")
        self._weights.reset(read_model(modelProtoOrFilename), ignore_unknown=ignoreWeightsInModelWithoutCorrespondingHostWeight)
        self._weights_sent = False

    def modelToHost(self, fn: str) -> None:
        """Writes the model with its weights, and the optimiser's state as further initialisers, to a file.

        What stands in a file of its own is written there. Raises: popart_exception if that file is not there.
        """
        self.weightsToHost()
        model = self._saved.with_values(self._weights.of_groups)
        write_file(Path(fn), model.SerializeToString())
        if not self._options.constantWeights or self._training:
            self._weights.outgoing = dict(self._weights.of_groups)

    def updateExternallySavedTensorLocations(self, fromLocation: str, toLocation: str) -> None:
        """Copies what stands in one file beside the model to another, where `modelToHost` writes it from then on.

        Raises: popart_runtime_error if the new file exists, the old one does not, or nothing of the model stands in it.
        """
        self._saved.moved(os.fspath(fromLocation), os.fspath(toLocation))

    def copyDeviceWeightsToHost(self) -> None:
        """Receives the weights, unless the host has them already; the next `weightsFromHost` sends these."""
        if not self._in_sync:
            self.weightsToHost()
        self._weights.outgoing = dict(self._weights.of_groups)

    def markHostWeightsOutOfSync(self) -> None:
        """Says that the device has other weights than the host. A run says it, too."""
        self._in_sync = False

    def markHostWeightsInSync(self) -> None:
        """Says that the host has the device's weights."""
        self._in_sync = True

    def areHostWeightsInSync(self) -> bool:
        """Whether the host has the device's weights."""
        return self._in_sync

    def broadcastWeights(self, rootRank: int = 0) -> None:
        """Gives all processes the weights of one: there is one process. Raises: popart_runtime_error for a rank other than 0."""
        if rootRank != 0:
            raise popart_runtime_error(f"broadcastWeights: rootRank is {rootRank}, and the only process has rank 0")
