"""The exceptions of PopART's interface.

TilestepError
├── popart_exception                        a program that PopART refuses, or that tilestep does not support
│   ├── popart_internal_exception           a fault of the library
│   ├── popart_runtime_error                a call at the wrong time
│   └── OutOfMemoryException                a program that does not fit into the tiles
├── poplibs_exception                       an operator's library refuses
└── poplar_exception                        the engine refuses: an unknown option
    └── poplar_runtime_error                the engine fails while a program runs
        ├── poplar_application_runtime_error
        └── poplar_system_runtime_error
            ├── poplar_recoverable_runtime_error   (`recoveryAction` says what helps)
            ├── poplar_unrecoverable_runtime_error
            └── poplar_unknown_runtime_error
"""

from typing import TypeVar, final

from tilestep.errors import TilestepError
from tilestep.popart.enums import RecoveryAction

_E = TypeVar("_E", bound=TilestepError)


class popart_exception(TilestepError):
    """A program that PopART refuses, or something that tilestep does not support. The message names it and the way out."""


class popart_internal_exception(popart_exception):
    """A fault of the library."""


class popart_runtime_error(popart_exception):
    """A call at the wrong time, as a run before the weights are on the device."""


@final
class OutOfMemoryException(popart_exception):
    """A program that does not fit into the tiles.

    Args:
        message: what does not fit, where, and by how much.
        summary: the summary report of the program.
        profile_path: the profile that was written; "" if none was.
    """

    def __init__(self, message: str, *, summary: str = "", profile_path: str = "") -> None:
        super().__init__(message)
        self._summary, self._profile_path = summary, profile_path

    def getSummaryReport(self) -> str:
        """The summary report of the program that does not fit; "" if none was made."""
        return self._summary

    def getProfilePath(self) -> str:
        """The absolute path of the profile; "" if none was written."""
        return self._profile_path


class poplibs_exception(TilestepError):
    """The library of operators refuses."""


class poplar_exception(TilestepError):
    """The engine refuses, as an option that it does not know."""


class poplar_runtime_error(poplar_exception):
    """The engine fails while a program runs."""


class poplar_application_runtime_error(poplar_runtime_error):
    """The program fails while it runs, as a floating-point error that is checked for."""


class poplar_system_runtime_error(poplar_runtime_error):
    """The system fails while a program runs."""


@final
class poplar_recoverable_runtime_error(poplar_system_runtime_error):
    """A failure of the system after which `recoveryAction` helps."""

    def __init__(self, message: str, *, action: RecoveryAction = RecoveryAction.IPU_RESET) -> None:
        super().__init__(message)
        self.recoveryAction = action


@final
class poplar_unrecoverable_runtime_error(poplar_system_runtime_error):
    """A failure of the system after which nothing helps."""


@final
class poplar_unknown_runtime_error(poplar_system_runtime_error):
    """A failure of the system of unknown kind."""


def noted(error: _E, note: str) -> _E:
    """An error with a way out as a note: a message that programs compare stays as PopART has it, and a traceback shows both."""
    error.add_note(note)
    return error
