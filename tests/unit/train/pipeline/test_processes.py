"""What a process tells the others of its failure."""

import pytest

from tilestep.train.pipeline.run.processes import error_line

TRACEBACK = 'INTERNAL: CpuCallback error: Traceback (most recent call last):\n  File "a.py", line 3, in look\nValueError: this one'


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ValueError("too much"), "ValueError: too much"),
        (ValueError(), "ValueError: "),
        (RuntimeError(TRACEBACK), "RuntimeError: ValueError: this one (all 3 lines are in the exception that it has raised)"),
        (MemoryError("does not fit\n  largest: x\n"), "MemoryError: does not fit (all 2 lines are in the exception that it has raised)"),
    ],
)
def test_a_failure_is_told_in_one_line(error: Exception, line: str) -> None:
    assert error_line(error) == line


def test_notes_say_where_it_was_raised() -> None:
    error = RuntimeError(TRACEBACK)
    error.add_note("raised by stage 1 of the pipeline, forward of microbatch 3")
    error.add_note("-----\nJAX has removed its internal frames from the traceback")
    assert error_line(error) == (
        "RuntimeError: ValueError: this one; raised by stage 1 of the pipeline, forward of microbatch 3 (all 3 lines are in the exception "
        "that it has raised)"
    )
