"""A session's runs: from a program's arrays, or from its functions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from tilestep.popart.enums import AnchorReturnTypeId, DeviceConnectionType
from tilestep.popart.exceptions import popart_exception, popart_runtime_error
from tilestep.popart.session.calls.weights import WeightCalls
from tilestep.popart.session.engine import named_failures
from tilestep.popart.session.feeds import deliver
from tilestep.popart.session.program import Carry
from tilestep.popart.stepio import IStepIO, PyStepIO, PyStepIOCallback


class RunCalls(WeightCalls):
    """Method `run`."""

    _checked: PyStepIO | None = None  # the last one whose arrays have been checked
    _microbatch: Any = None  # compiled functions of single microbatches

    def run(self, *arguments: Any, stepio: IStepIO | None = None, debugName: str = "", programHandle: str = "") -> None:
        """Runs one step: all batches of the data flow, as run(stepio, debugName).

        Raises:
            popart_runtime_error: before `prepareDevice`, before `weightsFromHost` in training, and for arrays that do not fit.
            popart_exception: for another program's handle, as in run(programHandle, stepio).
        """
        handle = programHandle or next((first for first in arguments[:1] if isinstance(first, str)), "")
        if handle:
            raise popart_exception(
                f"run: there is no program '{handle}'. A session has one program, the step: call run(stepio, debugName), "
                "and make another session for another program"
            )
        given = arguments if stepio is None else (stepio, *arguments)
        if not given or not isinstance(given[0], IStepIO):
            raise TypeError("run(stepio, debugName=''): stepio must be a PyStepIO or a PyStepIOCallback")
        io, debugName = given[0], given[1] if len(given) > 1 else debugName
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
        elif isinstance(io, PyStepIOCallback) and not self._synthetic.off:
            self._run_synthetic(carry)
        elif isinstance(io, PyStepIOCallback):
            with named_failures():
                self._run_callbacks(carry, io)
        else:
            raise TypeError(f"run: stepio is a {type(io).__name__}: it must be a PyStepIO or a PyStepIOCallback")
        self._in_sync = False
        self._figures.ran(debugName)

    def _run_arrays(self, carry: Carry, io: PyStepIO) -> None:
        if io.checks and io is not self._checked:
            self._feeds.require(io)
            self._checked = io
        if not self._synthetic.off:
            self._run_synthetic(carry)
            return
        inputs = self._feeds.step_inputs(io)
        with named_failures():
            after, values = self._engine.step(carry, inputs)
            deliver(values, io)
        self._carry = after  # a run that failed leaves the weights as they were

    def _run_synthetic(self, carry: Carry) -> None:
        """The device makes the inputs, and nothing comes back."""
        with named_failures():
            self._carry, _ = self._engine.step(carry, self._synthetic.arrays(self._feeds.step_types()))

    def _run_callbacks(self, carry: Carry, io: PyStepIOCallback) -> None:
        """One microbatch after another: a function may depend on what an earlier one has returned."""
        plan = self._plan
        if self._microbatch is None:
            self._microbatch = (jax.jit(plan.program.microbatch), jax.jit(plan.program.update), jax.jit(plan.program.after_update))
        microbatch, update, after_update = self._microbatch
        totals: dict[str, Any] = {}
        for batch in range(plan.batches):
            for index in range(plan.accumulation):
                inputs = {name: self._feeds.microbatch_input(name, io.read) for name in plan.graph.inputs}
                carry, values = microbatch(carry, inputs)
                if index == plan.accumulation - 1:
                    carry = update(carry)
                    if plan.accumulation == 1:
                        values = values | after_update(carry)
                self._write_stacked(io, values, batch * plan.accumulation + index, totals)
        totals |= plan.program.at_end(carry)
        for name, value in totals.items():
            self._write(io, name, value)
        self._carry = carry  # a run that failed leaves the weights as they were, and no gradients of half a batch

    def _write(self, io: PyStepIOCallback, name: str, value: Any) -> None:
        """Writes an anchor of one microbatch, replica by replica."""
        array = np.asarray(value)
        for piece in [array] if self._plan.replication.count == 1 else array:
            io.write(name, piece)

    def _write_stacked(self, io: PyStepIOCallback, values: Mapping[str, Any], number: int, totals: dict[str, Any]) -> None:
        for anchor in self._plan.anchors:
            value = values[anchor.name]
            if anchor.is_stacked:
                if (number + 1) % anchor.period == 0:
                    self._write(io, anchor.name, value)
            elif anchor.kind == AnchorReturnTypeId.Final or anchor.name not in totals:
                totals[anchor.name] = value
            else:
                totals[anchor.name] = totals[anchor.name] + value
