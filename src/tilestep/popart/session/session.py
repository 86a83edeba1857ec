"""Sessions: a model on a device, prepared once and run many times."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, final

import jax
import numpy as np

from tilestep.files import write_file
from tilestep.popart.dataflow import DataFlow
from tilestep.popart.device_info import DeviceInfo
from tilestep.popart.enums import AnchorReturnTypeId, DeviceConnectionType
from tilestep.popart.exceptions import popart_exception, popart_runtime_error
from tilestep.popart.log import Level, log
from tilestep.popart.optimizers import Optimizer
from tilestep.popart.options import SessionOptions, require_known
from tilestep.popart.patterns import Patterns
from tilestep.popart.session.engine import Engine, described, named_failures
from tilestep.popart.session.feeds import Feeds, deliver
from tilestep.popart.session.figures import Figures
from tilestep.popart.session.plan import plan_of
from tilestep.popart.session.program import Carry
from tilestep.popart.session.reading import read_model
from tilestep.popart.session.saved import SavedModel
from tilestep.popart.session.synthetic import Synthetic
from tilestep.popart.session.weights import HostWeights
from tilestep.popart.stepio import IStepIO, PyStepIO, PyStepIOCallback, PyWeightsIO
from tilestep.popart.tensors import InputShapeInfo, TensorInfo

if TYPE_CHECKING:
    from tilestep.popart.session.emulation import Report

Array = np.ndarray[Any, Any]
_STATE_WORDS: Final = 3  # of the random numbers: two of the seed, and how many microbatches drew from it
_RANDOM: Final = "threefry2x32"


class _Session:
    """What both kinds of sessions do."""

    _training = False

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
        loss: str | None = None,
        optimizer: Optimizer | None = None,
    ) -> None:
        if not isinstance(device, DeviceInfo):  # pyright: ignore[reportUnnecessaryIsInstance]  # a caller's mistake
            raise popart_exception(f"Must pass a valid deviceInfo to a session, and it is {device!r}: DeviceManager gives one")
        self._options = SessionOptions() if options is None else options.copied()
        self._options.require_supported(training=self._training, device=device.type)
        self._patterns = Patterns() if patterns is None else patterns.copied()
        self._patterns.require_supported()
        self._device, self._name, self._data_flow = device, name, data_flow
        self._plan = plan_of(
            model,
            data_flow,
            shapes=InputShapeInfo() if shapes is None else shapes,
            options=self._options,
            loss=loss,
            optimizer=optimizer,
        )
        self._weights = HostWeights(self._plan.first, self._plan.graph.constants)
        self._saved = SavedModel(self._plan.graph.model)
        self._feeds = Feeds(self._plan)
        self._carry: Carry | None = None
        self._microbatch: Any = None
        self._seed = 0
        self._weights_sent = self._loaded = False
        self._checked: PyStepIO | None = None
        self._engine = Engine(
            self._plan, self._feeds, self._options, device, (self._training, loss, self._plan.anchors, described(optimizer))
        )
        self._figures = Figures(self._plan, device, self._options, name)
        self._synthetic = Synthetic(self._options.syntheticDataMode)

    # -- what the session is

    @property
    def dataFlow(self) -> DataFlow:
        """Of the session."""
        return self._data_flow

    @property
    def replicationFactor(self) -> int:
        """Copies of the model that run side by side."""
        return 1

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

    def initAnchorArrays(self) -> dict[str, Array]:
        """Arrays for `PyStepIO`, with anything in them. Leading dimensions of one element are left out."""
        return self._feeds.anchor_arrays()

    # -- preparing

    def prepareDevice(self, loadEngine: bool = True) -> None:
        """Compiles the session's program, and plans it for the device's machine.

        Raises: poplar_exception for an unknown engine option, popart_exception for an operation that can't be compiled, OutOfMemoryException
        for a program that does not fit the machine.
        """
        require_known(self._options)
        carry = jax.eval_shape(self._first_carry)
        if self._options.compileEngine:
            self._figures.prepare(carry, self._feeds.step_types())
        self._engine.compile(carry)
        log("session", Level.INFO, "Graph compiled")
        self._carry, self._loaded, self._weights_sent = self._first_carry(), False, False
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

    def _first_carry(self) -> Carry:
        rule, values = self._plan.rule, self._weights.outgoing
        optimizer = None
        if rule is not None:
            trained = {name: values[name] for name in self._plan.names.trained}
            state = rule.init(trained)
            optimizer = replace(state, tensors={name: values[name] for name in state.tensors})
            if self._carry is not None:
                optimizer = replace(optimizer, hyper=self._carry.optimizer.hyper)
        variables = {name: values[name] for name in self._plan.graph.variables}
        key, count = (_key_of(self._seed), np.uint32(0)) if self._carry is None else (self._carry.key, self._carry.count)
        return jax.tree.map(jax.numpy.asarray, Carry(variables=variables, optimizer=optimizer, key=key, count=count))

    def _require_prepared(self, what: str) -> Carry:
        if self._carry is None:
            raise popart_runtime_error(
                f"Devicex::prepare() must be called before Devicex::{what} is called: call session.prepareDevice() first"
            )
        return self._carry

    # -- weights

    def weightsFromHost(self) -> None:
        """Sends the weights and the optimiser's state to the device."""
        self._require_prepared("weightsFromHost()")
        if self._synthetic.off:
            self._carry = self._first_carry()
            self._figures.weights_from_host()
        self._weights_sent = True

    def weightsToHost(self) -> None:
        """Receives the weights and the optimiser's state from the device; `readWeights` gives them out."""
        carry = self._require_prepared("weightsToHost()")
        if not self._synthetic.off:
            return
        self._figures.weights_to_host()
        values = {**carry.variables, **({} if carry.optimizer is None else carry.optimizer.tensors)}
        self._weights.incoming = {name: np.array(value) for name, value in jax.device_get(values).items()}

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
        """Takes a model's initialisers for the next `weightsFromHost`. Raises: popart_runtime_error where weights are constant or do not fit."""
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
        model = self._saved.with_values(self._weights.incoming)
        write_file(Path(fn), model.SerializeToString())
        if not self._options.constantWeights or self._training:
            self._weights.outgoing = dict(self._weights.incoming)

    def updateExternallySavedTensorLocations(self, fromLocation: str, toLocation: str) -> None:
        """Copies what stands in one file beside the model to another, where `modelToHost` writes it from then on.

        Raises: popart_runtime_error if the new file exists, the old one does not, or nothing of the model stands in it.
        """
        self._saved.moved(os.fspath(fromLocation), os.fspath(toLocation))

    # -- random numbers

    def setRandomSeed(self, seedValue: int) -> None:
        """Starts the session's random numbers again. Args: seedValue: 0 to 2**64 - 1."""
        carry = self._require_prepared("setRandomSeedFromHost(uint64_t)")
        seed = int(seedValue)
        if not 0 <= seed < 1 << 64:
            raise TypeError(f"setRandomSeed: {seedValue} is outside of 0 to 2**64 - 1")
        self._seed = seed
        self._carry = carry._replace(key=_key_of(self._seed), count=jax.numpy.uint32(0))

    def getRandomSeed(self) -> int:
        """The seed that was set last; 0 if none was."""
        self._require_prepared("getRandomSeedToHost()")
        return self._seed

    def getRNGState(self) -> list[int]:
        """The state of the random numbers: three numbers of 32 bits. Raises: popart_runtime_error without `enableLoadAndOffloadRNGState`."""
        self._require_state_option("get")
        carry = self._require_prepared("getRngStateToHost")
        return [*(int(word) for word in np.asarray(jax.random.key_data(carry.key))), int(carry.count)]

    def setRNGState(self, rngValue: Sequence[int]) -> None:
        """Sets what `getRNGState` gave. Raises: popart_runtime_error for another number of values, or without the option."""
        self._require_state_option("set")
        carry = self._require_prepared("setRngStateFromHost")
        if len(rngValue) != _STATE_WORDS:
            raise popart_runtime_error(
                f"Devicex::setRngStateValue received rngState of size {len(rngValue)}; was expecting size {_STATE_WORDS}"
            )
        words = np.array(list(rngValue), np.uint32)
        self._carry = carry._replace(key=jax.random.wrap_key_data(words[:2], impl=_RANDOM), count=jax.numpy.uint32(words[2]))

    def _require_state_option(self, verb: str) -> None:
        if not self._options.enableLoadAndOffloadRNGState:
            raise popart_runtime_error(
                f"Trying to {verb} the RNG state, but the session option enableLoadAndOffloadRNGState must be set to True."
            )

    # -- figures

    def getCycleCount(self, id: str = "") -> int:
        """Cycles of the last run on the device's machine. Args: id: "" for the whole run, "inner_ipu_0" for its computation alone.

        Raises: popart_runtime_error before a run, or without `instrumentWithHardwareCycleCounter`; poplar_exception for a Cpu device.
        """
        return self._figures.cycles(id)

    def getSummaryReport(self, resetProfile: bool = True) -> str:
        """Figures of the session as text. Raises: popart_runtime_error before `prepareDevice`, poplar_exception for a Cpu device."""
        self._require_report()
        return self._figures.summary(reset=resetProfile)

    def getReport(self) -> Report:
        """The recording of the session so far, as `tilestep.open_report` gives it. Raises: as `getSummaryReport`."""
        self._require_report()
        return self._figures.report()

    def getSerializedGraph(self) -> bytes:
        """The session's program as StableHLO, in text. Raises: popart_runtime_error before `prepareDevice`."""
        self._require_report()
        return self._engine.text().encode()

    def _require_report(self) -> None:
        if self._carry is None or not self._options.compileEngine:
            raise popart_runtime_error("Session must have been prepared before a report can be fetched")
        if self._engine.from_file is not None:
            raise popart_runtime_error(
                f"Unable to get reports when using a cached executable.\nEither remove the cache file ({self._engine.from_file}), or \n"
                "disable engine caching (userOptions.enableEngineCaching = false)"
            )

    # -- executables

    def compileAndExport(self, filename: str) -> None:
        """Compiles the session's program and writes it to a file. A folder gets a file of its own.

        Raises: popart_exception for a device whose executables are not saved, OutOfMemoryException, OSError.
        """
        self._engine.require_saves()
        self.prepareDevice(loadEngine=False)
        self._engine.save(os.fspath(filename), jax.eval_shape(self._first_carry), self._weights.outgoing)

    def saveExecutable(self, path: str, savePopartMetadata: bool = True, saveVariables: bool = True) -> None:
        """Writes the prepared program to a file. Args: saveVariables: whether its weights are in it. Raises: as `compileAndExport`."""
        self._require_prepared("serializeExecutable")
        self._engine.save(os.fspath(path), jax.eval_shape(self._first_carry), self._weights.outgoing if saveVariables else None)

    def loadExecutable(self, filename: str) -> None:
        """Takes the program of a file for the next `prepareDevice`, and its weights.

        Raises: popart_exception if the file can't be opened, popart_runtime_error if it is damaged or of another session.
        """
        weights = self._engine.load(Path(filename))
        if weights is not None:
            self._weights.write(PyWeightsIO(weights))

    # -- running

    def run(self, *arguments: Any, stepio: IStepIO | None = None, debugName: str = "", programHandle: str = "") -> None:
        """Runs one step: all batches of the data flow.

        Raises: popart_runtime_error before `prepareDevice`, before `weightsFromHost` in training, and for arrays that do not fit.
        """
        io = next((argument for argument in arguments if isinstance(argument, IStepIO)), stepio)
        names = [argument for argument in arguments if isinstance(argument, str)]
        debugName = debugName or (names[-1] if names and not isinstance(arguments[-1], IStepIO) else "")
        if io is None:
            raise TypeError("run(stepio, debugName=''): stepio must be a PyStepIO or a PyStepIOCallback")
        if self._device.connectionType == DeviceConnectionType.Never:
            raise popart_runtime_error("Offline IPU device is not configured for execution")
        if self._training and not self._weights_sent and self._plan.first:
            raise popart_runtime_error(
                "Must call weightsFromHost before run as the model has initializers and the session has been created in training mode"
            )
        carry = self._require_prepared("run(const IStepIO &)")
        if not self._loaded:
            self.loadEngineAndConnectStreams()
        if isinstance(io, PyStepIO):
            self._run_arrays(carry, io)
        elif isinstance(io, PyStepIOCallback):
            with named_failures():
                self._run_callbacks(carry, io)
        else:
            raise TypeError(f"run: stepio is a {type(io).__name__}: it must be a PyStepIO or a PyStepIOCallback")
        self._figures.ran(debugName)

    def _run_arrays(self, carry: Carry, io: PyStepIO) -> None:
        if io.checks and io is not self._checked:
            self._feeds.require(io)
            self._checked = io
        off = self._synthetic.off
        inputs = self._feeds.step_inputs(io) if off else self._synthetic.arrays(self._feeds.step_types())
        with named_failures():
            after, values = self._engine.step(carry, inputs)
            if off:
                deliver(values, io)
        self._carry = after  # a run that failed leaves the weights as they were

    def _run_callbacks(self, carry: Carry, io: PyStepIOCallback) -> None:
        """One microbatch after another: a function may depend on what an earlier one has returned."""
        plan = self._plan
        if self._microbatch is None:
            self._microbatch = (jax.jit(plan.program.microbatch), jax.jit(plan.program.update), jax.jit(plan.program.after_update))
        microbatch, update, after_update = self._microbatch
        totals: dict[str, Any] = {}
        for batch in range(plan.batches):
            for index in range(plan.accumulation):
                inputs = {name: self._feeds.microbatch_input(name, io.read(name)) for name in plan.graph.inputs}
                carry, values = microbatch(carry, inputs)
                if index == plan.accumulation - 1:
                    carry = update(carry)
                    if plan.accumulation == 1:
                        values = values | after_update(carry)
                self._carry = carry
                self._write_stacked(io, values, batch * plan.accumulation + index, totals)
        totals |= plan.program.at_end(carry)
        for name, value in totals.items():
            io.write(name, np.asarray(value))

    def _write_stacked(self, io: PyStepIOCallback, values: Mapping[str, Any], number: int, totals: dict[str, Any]) -> None:
        for anchor in self._plan.anchors:
            value = values[anchor.name]
            if anchor.is_stacked:
                if (number + 1) % anchor.period == 0:
                    io.write(anchor.name, np.asarray(value))
            elif anchor.kind == AnchorReturnTypeId.Final or anchor.name not in totals:
                totals[anchor.name] = value
            else:
                totals[anchor.name] = totals[anchor.name] + value


@final
class InferenceSession(_Session):
    """Runs a model. Its weights are constants unless option `constantWeights` is False."""

    def __init__(
        self,
        fnModel: Any,
        dataFlow: DataFlow,
        deviceInfo: DeviceInfo,
        inputShapeInfo: InputShapeInfo | None = None,
        patterns: Patterns | None = None,
        userOptions: SessionOptions | None = None,
        name: str = "inference",
    ) -> None:
        """Args:
        fnModel: a ModelProto, its bytes, or a path.
        dataFlow: batches of a step, and what it returns.
        deviceInfo: of a DeviceManager.
        inputShapeInfo: of inputs whose shape the model leaves open.

        Raises: popart_exception for a model or an anchor that does not fit.
        """
        super().__init__(fnModel, dataFlow, deviceInfo, inputShapeInfo, patterns, userOptions, name)


@final
class TrainingSession(_Session):
    """Trains a model."""

    _training = True

    def __init__(
        self,
        fnModel: Any,
        dataFlow: DataFlow,
        loss: str,
        optimizer: Optimizer,
        deviceInfo: DeviceInfo,
        inputShapeInfo: InputShapeInfo | None = None,
        patterns: Patterns | None = None,
        userOptions: SessionOptions | None = None,
        name: str = "training",
    ) -> None:
        """Args: loss: the scalar tensor that is made small. optimizer: of this module. Others: as those of InferenceSession.

        Raises: popart_exception for a model, an anchor or a loss that does not fit.
        """
        _require_optimizer("TrainingSession", optimizer)
        super().__init__(fnModel, dataFlow, deviceInfo, inputShapeInfo, patterns, userOptions, name, loss=loss, optimizer=optimizer)

    def updateOptimizerFromHost(self, optimizer: Optimizer) -> None:
        """Takes new values of the optimiser where they are not constant.

        Raises: popart_exception for another kind of optimiser, and for another value of a constant.
        """
        _require_optimizer("updateOptimizerFromHost", optimizer)
        carry = self._require_prepared("optimizerFromHost()")
        assert self._plan.rule is not None
        self._carry = carry._replace(optimizer=self._plan.rule.with_values(carry.optimizer, optimizer))


def _require_optimizer(what: str, given: object) -> None:
    if not isinstance(given, Optimizer):
        raise TypeError(f"{what}: optimizer is a {type(given).__name__}: it must be an SGD, ConstSGD, Adam or Adaptive")


def _key_of(seed: int) -> Any:
    return jax.random.wrap_key_data(np.array([seed >> 32, seed & 0xFFFFFFFF], np.uint32), impl=_RANDOM)
