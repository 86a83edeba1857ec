"""Programs that exchange data with the host while they run. They wait in the background, so the thread that dispatched them goes on.

XLA:CPU runs a program that it takes for cheap on the dispatching thread. It also orders all programs of one dispatching thread, whatever
their client and device. So a program with feeds is made to look expensive, and a thread for each IPU hands it to XLA.
"""

import contextvars
import queue
import threading
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from tilestep.hints import INFEED_TARGET, OUTFEED_TARGET, UNKNOWN_ZERO_TARGET
from tilestep.pjrt.jax_private.mlir import hlo, ir

_NOT_CHEAP: Final = 4096  # operations; XLA:CPU takes a program with less than 1,000 for cheap


def has_feeds(code: bytes) -> bool:
    """Whether a StableHLO program has an infeed or outfeed."""
    return INFEED_TARGET.encode() in code or OUTFEED_TARGET.encode() in code


def not_cheap() -> Any:
    """Adds work that XLA cannot leave out at the module's insertion point. Returns: its result, a scalar int32."""
    scalar = ir.RankedTensorType.get([], ir.IntegerType.get_signless(32))
    row = ir.RankedTensorType.get([_NOT_CHEAP], ir.IntegerType.get_signless(32))
    target: dict[str, Any] = {
        "call_target_name": ir.StringAttr.get(UNKNOWN_ZERO_TARGET),
        "api_version": ir.IntegerAttr.get(ir.IntegerType.get_signless(32), 4),
        "has_side_effect": ir.BoolAttr.get(False),
        "backend_config": ir.DictAttr.get({}),
    }
    unknown = ir.Operation.create("stablehlo.custom_call", results=[scalar], attributes=target).result
    numbers = hlo.IotaOp(row, 0).result
    largest = hlo.MaxOp(numbers, hlo.broadcast_in_dim(row, unknown, ir.DenseI64ArrayAttr.get([]))).result
    zero: Any = np.zeros((), np.int32)
    total = hlo.ReduceOp([scalar], [largest], [hlo.ConstantOp(ir.DenseElementsAttr.get(zero)).result], ir.DenseI64ArrayAttr.get([0]))
    body = total.regions[0].blocks.append(scalar, scalar)
    with ir.InsertionPoint(body):
        hlo.return_([hlo.AddOp(*body.arguments).result])
    return total.results[0]


class WorkerCall:
    """A call on a worker's thread. It happens once, however often it is handed over."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self._function = function
        self._context = contextvars.copy_context()
        self._done = threading.Event()
        self._begun = False
        self._result: Any = None
        self._error: BaseException | None = None

    def run(self) -> None:
        """Calls the function, unless it was called before."""
        if self._begun:
            return
        self._begun = True
        try:
            self._result = self._context.run(self._function)
        except BaseException as error:  # `outcome` gives it to the thread that raises it
            self._error = error
        self._done.set()

    def outcome(self) -> tuple[Any, BaseException | None]:
        """Waits for the function's result or exception."""
        self._done.wait()
        return self._result, self._error


class Worker:
    """A thread that dispatches programs in the order in which they come."""

    def __init__(self, name: str) -> None:
        self._work: queue.SimpleQueue[WorkerCall] = queue.SimpleQueue()
        threading.Thread(target=self._loop, name=name, daemon=True).start()

    def hand_over(self, dispatch: WorkerCall) -> None:
        """Lets the thread run the dispatch."""
        self._work.put(dispatch)

    def _loop(self) -> None:
        while True:
            self._work.get().run()


_workers: dict[int, Worker] = {}
_lock = threading.Lock()


def worker_of(ipu: int) -> Worker:
    """The thread for programs whose first IPU is this one."""
    with _lock:
        if ipu not in _workers:
            _workers[ipu] = Worker(f"tilestep-feeds-{ipu}")
        return _workers[ipu]


def run_on_worker(ipu: int, done: dict[str, Any], run: Callable[[], Any]) -> Any:
    """Calls `run` on the IPU's thread and waits for its result.

    Args: done: what the call before a Ctrl-C has done; keeps the dispatch, so that it happens once.
    """
    dispatch = done.setdefault("dispatch", WorkerCall(run))
    worker_of(ipu).hand_over(dispatch)
    result, error = dispatch.outcome()
    if error is not None:
        raise error
    return result
