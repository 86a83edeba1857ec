"""Forks show what processes of their own would show."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests import forked, processes

pytestmark = pytest.mark.skipif(not os.environ.get("XLA_FLAGS"), reason="in the long form of the tests each has a process of its own")

TELLS = """
import json, os, sys
print(json.dumps([__name__, sys.argv, sys.path[0], os.getcwd(), os.environ.get("TILESTEP_MACHINE"), sys.stdin.read()]))
print("told", file=sys.stderr)
sys.exit(len(sys.argv) + 2)
"""


@pytest.mark.parametrize("form", ["code", "module", "script"])
def test_a_fork_is_started_as_python_starts_a_process(form: str, tmp_path: Path) -> None:
    (tmp_path / "tells.py").write_text(TELLS, encoding="utf-8")
    words = {"code": ("-c", TELLS), "module": ("-m", "tells"), "script": (str(tmp_path / "tells.py"),)}[form]
    own, fork = (
        start(*words, "one", "two", environ={"TILESTEP_MACHINE": "bow-2000"}, text_in="given", folder=tmp_path)
        for start in (processes.run_python, forked.run_python)
    )
    assert (fork.returncode, fork.stdout, fork.stderr) == (own.returncode, own.stdout, own.stderr) == (5, own.stdout, "told\n")
    assert json.loads(own.stdout)[4:] == ["bow-2000", "given"]


def test_an_error_has_the_same_traceback(tmp_path: Path) -> None:
    script = tmp_path / "fails.py"
    script.write_text("def f():\n    raise KeyError('x')\n\nf()\n", encoding="utf-8")
    for words in (("-c", script.read_text(encoding="utf-8")), (str(script),)):
        own, fork = (start(*words) for start in (processes.run_python, forked.run_python))
        assert (fork.returncode, fork.stdout, fork.stderr) == (own.returncode, own.stdout, own.stderr)
        assert own.returncode == 1


def test_it_has_imported_what_it_begins_with_and_another_variable_of_python_gets_a_process_of_its_own() -> None:
    code = "import sys; print('jax' in sys.modules, 'tilestep' in sys.modules)"
    assert forked.python(code).stdout == "True True\n"
    assert forked.python(code, modules=forked.JAX).stdout == "True False\n"
    assert forked.python(code, PYTHONHASHSEED="1").stdout == "False False\n"


def test_one_that_is_killed_says_so_and_the_next_one_runs() -> None:
    assert forked.attempt("import os, signal; os.kill(os.getpid(), signal.SIGKILL)").returncode == -9
    assert forked.attempt("import os; os._exit(7)").returncode == 7
    assert forked.python("print(1)").stdout == "1\n"
