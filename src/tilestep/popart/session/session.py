"""Sessions: a model on a device, prepared once and run many times."""

from __future__ import annotations

from typing import Any, final

from tilestep.popart.dataflow import DataFlow
from tilestep.popart.device_info import DeviceInfo
from tilestep.popart.former import gone, takes_former_names
from tilestep.popart.optimizers import Optimizer
from tilestep.popart.options import SessionOptions
from tilestep.popart.patterns import Patterns
from tilestep.popart.session.calls.executables import ExecutableCalls
from tilestep.popart.session.calls.figures import FigureCalls
from tilestep.popart.session.calls.random_numbers import RandomCalls
from tilestep.popart.session.calls.running import RunCalls
from tilestep.popart.session.calls.unsupported_methods import RefusedCalls
from tilestep.popart.tensors import InputShapeInfo


class _Session(RunCalls, RandomCalls, FigureCalls, ExecutableCalls, RefusedCalls):
    """What both kinds of sessions do."""

    def __getattr__(self, name: str) -> Any:
        """Raises: AttributeError, with today's way for a name that there was before."""
        raise AttributeError(gone(name) or f"'{type(self).__name__}' object has no attribute '{name}'")


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

    _training = True

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
