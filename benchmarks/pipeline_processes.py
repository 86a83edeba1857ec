"""Sides of `pipelines.py`, each in processes of its own, which take steps when they are told to."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np


class Times(NamedTuple):
    """Of one update.

    Attributes: wall_s: until it is done. host_wall_s: until the thread that starts it is free. host_cpu_s: of that, this thread's time on a
        processor.
    """

    wall_s: float
    host_wall_s: float = 0.0
    host_cpu_s: float = 0.0


class Remote:
    """Processes that train one model together, each with some of the stages, or one with all.

    Args: commands: of each, what follows the interpreter's name. It calls `serve`.
    """

    def __init__(self, commands: Sequence[Sequence[str]], environ: Mapping[str, str]) -> None:
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "env": os.environ | environ}
        self._processes = [subprocess.Popen([sys.executable, *own], **pipes) for own in commands]

    def _said(self, order: str) -> list[Any]:
        for process in self._processes:
            assert process.stdin is not None  # it is a pipe
            process.stdin.write(order + "\n")
            process.stdin.flush()
        answers = [process.stdout.readline() if process.stdout is not None else "" for process in self._processes]
        if not all(answers):
            raise SystemExit(f"a process has ended: {' '.join(map(str, self._processes[0].args))}")
        return [json.loads(answer) for answer in answers]

    def steps(self, count: int) -> list[Times]:
        """So many updates, one after the other. Of several processes the last to be done counts."""
        found = [[Times(*row) for row in rows] for rows in self._said(f"steps {count}")]
        return [Times(*map(max, zip(*rows, strict=True))) for rows in zip(*found, strict=True)]

    def moments(self) -> list[np.ndarray]:
        """Adam's first ones: leaves, in JAX's order. After one update they are the gradients, times a number."""
        with tempfile.TemporaryDirectory() as folder:
            paths = self._said(f"moments {folder}")
            return [leaf for path in paths for leaf in np.load(path, allow_pickle=False).values()]

    def close(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait()


def serve(step: Callable[[], Times], moments: Callable[[], Sequence[np.ndarray]]) -> None:
    """Does what is asked for, until nobody asks any more."""
    for line in sys.stdin:
        order, argument = line.split(maxsplit=1)
        if order == "steps":
            answer: Any = [step() for _ in range(int(argument))]
        else:
            answer = str(Path(argument.strip()) / f"{os.getpid()}.npz")
            np.savez(answer, *moments())
        print(json.dumps(answer), flush=True)


def timed(step: Callable[[], None]) -> Callable[[], Times]:
    """The same, which says how long it took."""

    def run() -> Times:
        begin = time.perf_counter()
        step()
        return Times(time.perf_counter() - begin)

    return run
