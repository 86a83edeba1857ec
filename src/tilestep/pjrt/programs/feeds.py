"""Programs that take data from the host, or give it, while they run: they wait in the background, never the thread that dispatched them.

XLA:CPU runs what it holds to be cheap on the dispatching thread, and orders all that one thread dispatches, to whatever client and device.
So a program with feeds is made to look expensive, and is handed to XLA by a thread that dispatches nothing else, one for each IPU.
"""

from __future__ import annotations

import contextvars
import queue
import threading
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from tilestep.hints import INFEED_TARGET, OUTFEED_TARGET, UNKNOWN_ZERO_TARGET
from tilestep.pjrt.jax_private.dialects import hlo, ir

_NOT_CHEAP: Final = 4096  # operations; XLA:CPU takes less than 1,000 for cheap


def has_feeds(code: bytes) -> bool:
    """Whether a StableHLO program has an infeed or outfeed."""
    return INFEED_TARGET.encode() in code or OUTFEED_TARGET.encode() in code


def not_cheap() -> Any:
    """Adds work that XLA cannot leave out at the present place of a module; returns its result, a scalar int32."""
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


class Dispatch:
    """One call on a worker's thread, which happens once however often it is handed over."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self._function = function
        self._context = contextvars.copy_context()
        self._done = threading.Event()
        self._begun = False
        self._result: Any = None
        self._error: BaseException | None = None

    def run(self) -> None:
        """Calls the function, unless that has been done."""
        if self._begun:
            return
        self._begun = True
        try:
            self._result = self._context.run(self._function)
        except BaseException as error:  # it is raised where the result is asked for
            self._error = error
        self._done.set()

    def outcome(self) -> tuple[Any, BaseException | None]:
        """Waits for what the function returns, or raises."""
        self._done.wait()
        return self._result, self._error


class Worker:
    """A thread that dispatches programs in the order in which they come."""

    def __init__(self, name: str) -> None:
        self._work: queue.SimpleQueue[Dispatch] = queue.SimpleQueue()
        threading.Thread(target=self._loop, name=name, daemon=True).start()

    def hand_over(self, dispatch: Dispatch) -> None:
        """Has the thread run it."""
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
