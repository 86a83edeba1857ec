"""Small programs that share a process: the first test that asks for the output of one runs them all."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cached_property

from tests.processes import run_python

RUN = """
import contextlib, gc, io, json, sys, traceback
found = []
for code in json.load(sys.stdin):
    with contextlib.redirect_stdout(io.StringIO()) as out:
        try:
            exec(compile(code, "<string>", "exec"), {"__name__": "__main__"})
        except BaseException:
            traceback.print_exc(file=out)
    gc.collect()
    found.append(out.getvalue().splitlines())
print(json.dumps(found))
"""


class OneProcess:
    """Programs that run one after the other, each with names of its own, in an environment to which `environ` is added."""

    def __init__(self, **environ: str) -> None:
        self._environ = environ
        self._programs: list[str] = []

    def program(self, code: str) -> Callable[[], list[str]]:
        """Adds a program. What is returned gives the lines that it printed, and what it raised."""
        number = len(self._programs)
        self._programs.append(code)
        return lambda: self._lines[number]

    @cached_property
    def _lines(self) -> list[list[str]]:
        options = ("-W", "error", "-W", "ignore:backend and device argument")
        ended = run_python(*options, "-c", RUN, text_in=json.dumps(self._programs), environ=self._environ)
        assert (ended.returncode, ended.stderr) == (0, "")
        return json.loads(ended.stdout)
