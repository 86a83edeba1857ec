"""A session's runs: from a program's arrays, or from its functions."""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from tilestep.popart.enums import AnchorReturnTypeId, DeviceConnectionType
from tilestep.popart.exceptions import popart_exception, popart_runtime_error
from tilestep.popart.session.engine import named_failures, quick_on_cpu
from tilestep.popart.session.feeds import deliver
from tilestep.popart.session.prepared import Prepared
from tilestep.popart.session.program.pipelined import FORWARD_ONLY
from tilestep.popart.session.program.program import SessionCarry
from tilestep.popart.stepio import IStepIO, PyStepIO, PyStepIOCallback


class RunCalls(Prepared):
    """Method `run`."""

    _checked: PyStepIO | None = None  # the last one whose arrays have been checked
    _microbatch: Any = None  # compiled functions of single microbatches
    _forward: Any = None  # the compiled forward part of a pipeline

    def run(self, *arguments: Any, stepio: IStepIO | None = None, debugName: str = "", programHandle: str = "") -> None:
        """Runs one step: all batches of the data flow, as run(stepio, debugName).

        run("implicitPipeliningFwdOnly", stepio) runs the forward part of a pipeline, if createImplicitPipeliningFwdOnlyProgram is set. It
        changes no weight, and returns the anchors that the forward part makes.

        Raises:
            popart_runtime_error: before `prepareDevice`, before `weightsFromHost` in training, and for arrays that do not fit.
            popart_exception: for another program's handle, as in run(programHandle, stepio).
        """
        if not programHandle and arguments and isinstance(arguments[0], str):
            programHandle, arguments = arguments[0], arguments[1:]
        self._require_program(programHandle)
        given = arguments if stepio is None else (stepio, *arguments)
        if not given or not isinstance(given[0], IStepIO):
            raise TypeError("run(stepio, debugName=''): stepio must be a PyStepIO or a PyStepIOCallback")
        io, debugName = given[0], given[1] if len(given) > 1 else debugName  # pyrefly: ignore[bad-assignment]
        if self._device.connectionType == DeviceConnectionType.Never:
            raise popart_runtime_error("Offline IPU device is not configured for execution")
        if self._training and not self._weights_sent and self._plan.first:
            raise popart_runtime_error(
                "Must call weightsFromHost before run as the model has initializers and the session has been created in training mode"
            )
        carry = self._require_prepared("run(const IStepIO &)")
        if not self._loaded:
            self.loadEngineAndConnectStreams()
        if programHandle:
            self._run_forward(carry, io)
        elif isinstance(io, PyStepIO):
            self._run_arrays(carry, io)
        elif isinstance(io, PyStepIOCallback) and not self._synthetic.off:
            self._run_synthetic(carry, self._engine.step)
        elif isinstance(io, PyStepIOCallback):
            with named_failures():
                self._run_callbacks(carry, io)
        else:
            raise TypeError(f"run: stepio is a {type(io).__name__}: it must be a PyStepIO or a PyStepIOCallback")
        self._in_sync = False
        self._figures.ran(debugName, forward=bool(programHandle))

    def _require_program(self, handle: str) -> None:
        if handle and (handle != FORWARD_ONLY or self._plan.forward is None):
            raise popart_exception(
                f"[Devicex::run] Program {handle} not found. A session has the step, run(stepio, debugName); a pipeline with "
                f"createImplicitPipeliningFwdOnlyProgram has also '{FORWARD_ONLY}'. Make another session for another program"
            )

    def _run_forward(self, carry: SessionCarry, io: IStepIO) -> None:
        """The forward part of a pipeline: the weights stay as they are."""
        forward = self._plan.forward
        assert forward is not None
        if not isinstance(io, PyStepIO):
            raise popart_exception(f"run('{FORWARD_ONLY}', stepio): stepio is a {type(io).__name__}, and it must be a PyStepIO")
        if self._forward is None:
            self._forward = jax.jit(quick_on_cpu(forward.step))
        if io.checks and io is not self._checked:
            self._feeds.require(io)
        if not self._synthetic.off:
            self._run_synthetic(carry, self._forward)
            return
        with named_failures():
            self._carry, values = self._forward(carry, self._feeds.step_inputs(io))
            deliver(values, io)

    def _run_arrays(self, carry: SessionCarry, io: PyStepIO) -> None:
        if io.checks and io is not self._checked:
            self._feeds.require(io)
            self._checked = io
        if not self._synthetic.off:
            self._run_synthetic(carry, self._engine.step)
            return
        inputs = self._feeds.step_inputs(io)
        with named_failures():
            after, values = self._engine.step(carry, inputs)
            deliver(values, io)
        self._carry = after  # a run that failed leaves the weights as they were

    def _run_synthetic(self, carry: SessionCarry, step: Any) -> None:
        """The device has the inputs, and nothing comes back."""
        with named_failures():
            self._carry, _ = step(carry, self._synthetic.arrays(self._plan.graph.inputs, self._feeds.step_types()))

    def _run_callbacks(self, carry: SessionCarry, io: PyStepIOCallback) -> None:
        """One microbatch after another: a function may depend on what an earlier one has returned.

        Updated variables are written after the update of a batch, once for each of its microbatches.
        """
        plan = self._plan
        if self._microbatch is None:
            self._microbatch = (jax.jit(plan.program.microbatch), jax.jit(plan.program.update), jax.jit(plan.program.after_update))
        microbatch, update, after_update = self._microbatch
        totals: dict[str, Any] = {}
        last_values: Mapping[str, Any] = {}
        carry = plan.program.begin(carry)
        for batch in range(plan.batches):
            for index in range(plan.accumulation):
                inputs = {name: self._feeds.microbatch_input(name, io.read) for name in plan.graph.inputs}
                carry, last_values = microbatch(carry, inputs)
                if index < plan.accumulation - 1:
                    self._write_stacked(io, last_values, batch * plan.accumulation + index, totals)
            carry = update(carry)
            after, first = after_update(carry), batch * plan.accumulation
            for number in range(first, first + plan.accumulation - 1):  # earlier microbatches have waited for it
                self._write_stacked(io, after, number, totals)
            self._write_stacked(io, last_values | after, first + plan.accumulation - 1, totals)
        carry = plan.program.end(carry)
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
            if anchor.name not in values:  # it is known after the update
                continue
            value = values[anchor.name]
            if anchor.is_stacked:
                if (number + 1) % anchor.period == 0:
                    self._write(io, anchor.name, value)
            elif anchor.kind == AnchorReturnTypeId.Final or anchor.name not in totals:
                totals[anchor.name] = value
            else:
                totals[anchor.name] = totals[anchor.name] + value
