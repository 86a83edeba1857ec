"""The tree of exceptions."""

from tests.together import each
from tilestep.popart import exceptions


@each(
    "below, above",
    [
        ("popart_internal_exception", "popart_exception"),
        ("popart_runtime_error", "popart_exception"),
        ("OutOfMemoryException", "popart_exception"),
        ("poplar_runtime_error", "poplar_exception"),
        ("poplar_application_runtime_error", "poplar_runtime_error"),
        ("poplar_system_runtime_error", "poplar_runtime_error"),
        ("poplar_recoverable_runtime_error", "poplar_system_runtime_error"),
        ("poplar_unrecoverable_runtime_error", "poplar_system_runtime_error"),
        ("poplar_unknown_runtime_error", "poplar_system_runtime_error"),
    ],
)
def test_one_is_a_kind_of_another(below: str, above: str) -> None:
    assert getattr(exceptions, below).__bases__ == (getattr(exceptions, above),)


def test_out_of_memory_has_its_report() -> None:
    error = exceptions.OutOfMemoryException("tile 0 is full", summary="a report", profile_path="/a/profile.pop")
    assert (str(error), error.args[0]) == ("tile 0 is full", "tile 0 is full")
    assert (error.getSummaryReport(), error.getProfilePath()) == ("a report", "/a/profile.pop")
    assert exceptions.OutOfMemoryException("x").getProfilePath() == ""


def test_a_message_has_no_character_that_a_terminal_would_obey() -> None:
    error = exceptions.popart_runtime_error("no tensor 'x\x1b[2J\x07\u202e'\nin é\t·")
    assert str(error) == "no tensor 'x\\x1b[2J\\x07\\u202e'\nin é\t·"
