"""The status code and message with which JAX reports an exception."""

from tilestep.errors import TilestepError, UnsupportedError
from tilestep.messages import printable
from tilestep.pjrt.table import capi

_CODES = {name.removeprefix("PJRT_Error_Code_"): value for name, value in vars(capi).items() if name.startswith("PJRT_Error_Code_")}


def describe(error: BaseException) -> tuple[int, bytes]:
    """PJRT's status code and the message for an exception.

    The text of XLA's own exceptions begins with the code. The text of others gets the name of their class, because JAX raises each as a
    JaxRuntimeError. Names in it are anybody's, so it has no character that a terminal would obey.
    """
    message = printable(str(error))
    head, separator, rest = message.partition(": ")
    if separator and head in _CODES and head != "OK":
        return _CODES[head], rest.encode("utf-8", "replace")
    if isinstance(error, MemoryError):
        code = "RESOURCE_EXHAUSTED"
    elif isinstance(error, NotImplementedError | UnsupportedError):
        code = "UNIMPLEMENTED"
    elif isinstance(error, KeyboardInterrupt):
        code = "CANCELLED"
    elif isinstance(error, ValueError | TypeError | TilestepError):
        code = "INVALID_ARGUMENT"
    else:
        code = "INTERNAL"
    text = message if isinstance(error, NotImplementedError) else f"{type(error).__name__}: {message}"
    return _CODES[code], text.encode("utf-8", "replace")
