"""Methods of the original's sessions that have no meaning here: each says what to do instead."""

from __future__ import annotations

from typing import Any, Final, NoReturn

from tilestep.popart.exceptions import popart_exception

_NO_IR: Final = "there is no intermediate representation of PopART's"
_STREAMS: Final = "a program has no streams of its own"
_GRAPH: Final = "the model is what Builder.getModelProto() gives, and getSerializedGraph() gives the program"
_STEP_IO: Final = "give run() a PyStepIOCallback, whose functions are called for each microbatch"


def _refused(method: str, why: str, way_out: str) -> NoReturn:
    raise popart_exception(f"Session.{method} is not supported by tilestep: {why}. To go on: {way_out}.")


class RefusedCalls:
    """Methods that are errors. All raise popart_exception."""

    def getIr(self, *_: Any, **__: Any) -> NoReturn:
        """Refused: there is no intermediate representation."""
        _refused("getIr", _NO_IR, _GRAPH)

    def _serializeIr(self, *_: Any, **__: Any) -> NoReturn:
        """Refused: there is no intermediate representation."""
        _refused("_serializeIr", _NO_IR, f"{_GRAPH}; POPART_IR_DUMP names a file that gets the model's graph as JSON")

    def _setDeviceInfo(self, *_: Any, **__: Any) -> NoReturn:
        """Refused: a session keeps its device."""
        _refused("_setDeviceInfo", "a session keeps its device", "make another session, with the other device")

    def connectStreamToCallback(self, *_: Any, **__: Any) -> NoReturn:
        """Refused: a program has no streams."""
        _refused("connectStreamToCallback", _STREAMS, _STEP_IO)

    def connectStream(self, *_: Any, **__: Any) -> NoReturn:
        """Refused: a program has no streams."""
        _refused("connectStream", _STREAMS, _STEP_IO)

    def connectHostFunction(self, *_: Any, **__: Any) -> NoReturn:
        """Refused: a program calls no functions by handles."""
        _refused(
            "connectHostFunction", "programs call no functions by handles", "register an operator with jax.pure_callback by register_op"
        )
