"""The door of the command line: every command is there, and its exit code is the process's."""

from __future__ import annotations

import re

import pytest

import tilestep
from tilestep.cli import bench_data, machines, main, make_parser, run


@pytest.mark.parametrize(
    ("arguments", "function"), [(["machines"], machines.run), (["run", "-c", "pass"], run.run), (["bench-data", "a:b"], bench_data.run)]
)
def test_a_command_leads_to_its_function(arguments: list[str], function: object) -> None:
    assert make_parser().parse_args(arguments).run is function


@pytest.mark.parametrize("arguments", [[], ["machine"], ["machines", "--jsn"], ["machines", "a", "b"]])
def test_wrong_arguments_leave_with_2_and_say_what_there_is(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    out, err = capsys.readouterr()
    assert (caught.value.code, out) == (2, "")
    assert err.startswith("usage: tilestep")


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--help"])
    out = capsys.readouterr().out
    assert caught.value.code == 0
    assert "\n    machines " in out
    assert "\n    run " in out
    assert re.search(r"\n    bench-data\s+measure", out) is not None  # on a line of its own, or before what it does


def test_the_version_is_the_packages(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--version"])
    assert capsys.readouterr().out == f"tilestep {tilestep.__version__}\n"
