"""Sessions: a model on a device, prepared once and run many times."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn, final

import jax

from tilestep.popart.dataflow import DataFlow
from tilestep.popart.devices.device_info import DeviceInfo
from tilestep.popart.diagnostics.log import warn
from tilestep.popart.exceptions import popart_exception, popart_runtime_error
from tilestep.popart.former import gone, takes_former_names
from tilestep.popart.optimizers import Optimizer
from tilestep.popart.options import SessionOptions
from tilestep.popart.patterns import Patterns
from tilestep.popart.session.prepared import Objective
from tilestep.popart.session.program.program import STATE_WORDS, key_and_count, key_of, words_of
from tilestep.popart.session.running import RunCalls
from tilestep.popart.stepio import PyWeightsIO
from tilestep.popart.tensors import InputShapeInfo

if TYPE_CHECKING:
    from tilestep.popart.session.emulation import Report


_NO_IR: Final = "there is no intermediate representation of PopART's"
_STREAMS: Final = "a program has no streams of its own"
_GRAPH: Final = "the model is what Builder.getModelProto() gives, and getSerializedGraph() gives the program"
_STEP_IO: Final = "give run() a PyStepIOCallback, whose functions are called for each microbatch"


def _refusal(method: str, why: str, way_out: str) -> Any:
    """A method that raises a popart_exception with the way out."""

    def refuse(self: object, *_: Any, **__: Any) -> NoReturn:
        raise popart_exception(f"Session.{method} is not supported by tilestep: {why}. To go on: {way_out}.")

    refuse.__name__, refuse.__qualname__, refuse.__doc__ = method, f"Session.{method}", f"Refused: {why}."
    return refuse


class _Session(RunCalls):
    """What both kinds of sessions do."""

    def __getattr__(self, name: str) -> Any:
        """Raises: AttributeError, with today's way for a name that there was before."""
        raise AttributeError(gone(name) or f"'{type(self).__name__}' object has no attribute '{name}'")

    def compileAndExport(self, filename: str) -> None:
        """Compiles the session's program and writes it to a file. A folder gets a file of its own.

        Raises: popart_exception for a device whose executables are not saved, OutOfMemoryException, OSError.
        """
        self._engine.require_saves()
        self.prepareDevice(loadEngine=False)
        self._engine.save(os.fspath(filename), jax.eval_shape(self._first_carry), self._weights.outgoing)

    def saveExecutable(self, path: str, savePopartMetadata: bool = True, saveVariables: bool = True) -> None:
        """Writes the prepared program to a file.

        Args:
            savePopartMetadata: it always is in the file, which can't be loaded without it.
            saveVariables: whether the weights are in it.
        Raises: as `compileAndExport`.
        """
        self._require_prepared("serializeExecutable")
        self._engine.save(os.fspath(path), jax.eval_shape(self._first_carry), self._weights.outgoing if saveVariables else None)

    def saveVariables(self, path: str) -> None:
        """Writes the weights and the optimiser's state alone to a file, which `loadExecutable` takes. Raises: as `compileAndExport`."""
        self._require_prepared("serializeTensorData")
        self._engine.save_variables(os.fspath(path), self._weights.outgoing)

    def loadExecutable(self, filename: str) -> None:
        """Takes the program of a file for the next `prepareDevice`, and its weights.

        Raises:
            popart_exception: if the file can't be opened.
            popart_runtime_error: if it is damaged or of another session.
            poplar_exception: if it was compiled for another sync pattern than the device's.
        """
        weights = self._engine.load(Path(filename), jax.eval_shape(self._first_carry))
        if weights is not None:
            self._weights.write(PyWeightsIO(weights))

    def updateEngineCache(self) -> None:
        """Does nothing: each `prepareDevice` looks into the folder of kept executables anew."""

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

    def setRandomSeed(self, seedValue: int) -> None:
        """Starts the session's random numbers again; does nothing in a session without. Args: seedValue: 0 to 2**64 - 1."""
        if self._has_none("set"):
            return
        carry = self._require_prepared("setRandomSeedFromHost(uint64_t)")
        seed = int(seedValue)
        if not 0 <= seed < 1 << 64:
            raise TypeError(f"setRandomSeed: {seedValue} is outside of 0 to 2**64 - 1")
        self._seed = seed
        self._carry = carry._replace(key=key_of(self._seed), count=jax.numpy.uint32(0))

    def getRandomSeed(self) -> int:
        """The seed that was set last; 0 if none was, and in a session without random numbers."""
        if self._has_none("get"):
            return 0
        self._require_prepared("getRandomSeedToHost()")
        return self._seed

    def getRNGState(self) -> list[int]:
        """The state of the random numbers: three numbers of 32 bits; none with synthetic data.

        Raises: popart_runtime_error without `enableLoadAndOffloadRNGState`.
        """
        self._require_state_option("get")
        carry = self._require_prepared("getRngStateToHost")
        return words_of(carry.key, carry.count) if self._synthetic.off else []

    def setRNGState(self, rngValue: Sequence[int]) -> None:
        """Sets what `getRNGState` gave; does nothing with synthetic data.

        Raises: popart_runtime_error for another number of values, or without the option.
        """
        self._require_state_option("set")
        carry = self._require_prepared("setRngStateFromHost")
        if not self._synthetic.off:
            return
        if len(rngValue) != STATE_WORDS:
            raise popart_runtime_error(
                f"Devicex::setRngStateValue received rngState of size {len(rngValue)}; was expecting size {STATE_WORDS}"
            )
        key, count = key_and_count(rngValue)
        self._carry = carry._replace(key=key, count=count)

    def _has_none(self, verb: str) -> bool:
        """Whether the session has no random numbers, which a line of the log says."""
        none = not self._plan.graph.draws and not self._options.enableStochasticRounding
        if none:
            warn(f"Trying to {verb} the random seed, but this session has no random behaviour. Doing nothing.")
        return none

    def _require_state_option(self, verb: str) -> None:
        if not self._options.enableLoadAndOffloadRNGState:
            raise popart_runtime_error(
                f"Trying to {verb} the RNG state, but the session option enableLoadAndOffloadRNGState must be set to True."
            )

    getIr = _refusal("getIr", _NO_IR, _GRAPH)
    _serializeIr = _refusal("_serializeIr", _NO_IR, _GRAPH)
    _setDeviceInfo = _refusal("_setDeviceInfo", "a session keeps its device", "make another session, with the other device")
    connectStreamToCallback = _refusal("connectStreamToCallback", _STREAMS, _STEP_IO)
    connectStream = _refusal("connectStream", _STREAMS, _STEP_IO)
    connectHostFunction = _refusal(
        "connectHostFunction", "programs call no functions by handles", "register an operator with jax.pure_callback by register_op"
    )


@final
class InferenceSession(_Session):
    """Runs a model. Its weights are constants unless option `constantWeights` is False."""

    @takes_former_names
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

    @takes_former_names
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
        objective = Objective(loss=loss, optimizer=optimizer)
        super().__init__(fnModel, dataFlow, deviceInfo, inputShapeInfo, patterns, userOptions, name, objective=objective)

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
