"""Runs files of PopART's tests, each in a pytest process of its own; a test that hangs or kills its process is one failure."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from scripts.popart_judge.source import TESTS, Function

ROOT: Final = Path(__file__).resolve().parent.parent.parent
SETTINGS: Final = ("JAX_", "XLA_", "TILESTEP_", "POPLAR_", "POPART_", "PVTI_", "TEST_TARGET", "PYTEST_")
POLL_WALL_S: Final = 0.1
START_WALL_S: Final = 300.0  # until a file has been imported


@dataclass(frozen=True, kw_only=True)
class Case:
    """What happened to one case: a function, or one set of its parameters."""

    outcome: str  # passed, failed, skipped, crashed, hung
    error: str = ""
    anchors: bool = False  # whether a mutated session had given it an anchor that was not zero


@dataclass(frozen=True, kw_only=True)
class Result:
    """What happened to one function."""

    function: Function
    group: str
    target: str
    cases: Mapping[str, Case]

    @property
    def passed(self) -> bool:
        return bool(self.cases) and all(case.outcome == "passed" for case in self.cases.values())

    @property
    def cases_passed(self) -> int:
        return sum(case.outcome == "passed" for case in self.cases.values())

    @property
    def error(self) -> str:
        """Of the first case that didn't pass."""
        if not self.cases:
            return "no case of it was run"
        return next((f"{case.outcome}: {case.error}" for case in self.cases.values() if case.outcome != "passed"), "")


@dataclass(frozen=True, kw_only=True)
class Setup:
    """How processes are started."""

    checkout: Path
    limit_wall_s: float  # of a case
    environ: Mapping[str, str]
    mutate: str | None = None


def run_file(file: str, target: str, chosen: Sequence[Function], setup: Setup) -> Mapping[str, Mapping[str, Case]]:
    """Function's name -> case -> what happened. A file that can't be imported fails all its functions."""
    cases: dict[str, Case] = {}
    with tempfile.TemporaryDirectory(prefix="popart_judge_") as name:
        folder = Path(name)
        while True:
            new, ended, failed = _process(file, target, [function.name for function in chosen], list(cases), folder, setup)
            cases |= new
            if failed is not None:
                return {function.name: {function.name: Case(outcome="failed", error=failed)} for function in chosen}
            if ended or not new:
                break
    return {
        function.name: {case: result for case, result in cases.items() if case.partition("[")[0] == function.name} for function in chosen
    }


def _process(
    file: str, target: str, only: Sequence[str], done: Sequence[str], folder: Path, setup: Setup
) -> tuple[dict[str, Case], bool, str | None]:
    """(cases that one process has run, whether it came to its end, why nothing could be run or None)."""
    work = Path(tempfile.mkdtemp(dir=folder))
    log, output = work / "log.jsonl", work / "output.txt"
    (work / "only").write_text("\n".join(only), encoding="utf-8")
    (work / "done").write_text("\n".join(done), encoding="utf-8")
    (work / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    (work / "cwd").mkdir()
    tests = setup.checkout / "tests"
    path = setup.checkout / TESTS / file
    command = [
        *(sys.executable, "-X", "faulthandler", "-m", "pytest", "-q", "-p", "scripts.popart_judge.plugin"),
        *("-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:timeout", "-c", str(work / "pytest.ini")),
        *(f"--rootdir={tests}", f"--confcutdir={tests}", f"--basetemp={work / 'tmp'}"),
        *((f"--device-type={target}",) if (tests / "conftest.py").is_file() else ()),
        str(path),
    ]
    environ = {
        **{name: value for name, value in os.environ.items() if not name.startswith(SETTINGS)},
        **setup.environ,
        "PYTHONPATH": os.pathsep.join([*filter(None, [os.environ.get("PYTHONPATH")]), str(ROOT)]),
        "PYTHONDONTWRITEBYTECODE": "1",
        "TEST_TARGET": target,
        "POPART_JUDGE_LOG": str(log),
        "POPART_JUDGE_ONLY": str(work / "only"),
        "POPART_JUDGE_DONE": str(work / "done"),
        **({} if setup.mutate is None else {"POPART_JUDGE_MUTATE": setup.mutate}),
    }
    with output.open("w") as stream:
        process = subprocess.Popen(command, cwd=work / "cwd", env=environ, stdout=stream, stderr=subprocess.STDOUT)
        try:
            return _watched(process, log, output, setup.limit_wall_s)
        finally:
            process.kill()
            process.wait()


def _watched(process: subprocess.Popen[bytes], log: Path, output: Path, limit_wall_s: float) -> tuple[dict[str, Case], bool, str | None]:
    cases: dict[str, Case] = {}
    running, ended, collected, failed, at, heard = "", False, False, None, 0, time.monotonic()
    while not ended:
        dead = process.poll() is not None  # before reading, so that nothing written is missed
        new, at = _events(log, at)
        for event in new:
            heard = time.monotonic()
            match event:
                case {"start": str(running)}:
                    pass
                case {"collected": _}:
                    collected = True
                case {"collection": str(failed)}:
                    pass
                case {"end": True}:
                    ended = True
                case {"test": str(name), "outcome": str(outcome), "error": str(error), "anchors": bool(anchors)}:
                    if name not in cases or cases[name].outcome == "passed":  # an error in its end counts, too
                        cases[name] = Case(outcome=outcome, error=error, anchors=anchors)
                    running = ""
                case _:
                    raise ValueError(f"{log}: {event}")
        if dead:
            break
        if time.monotonic() - heard > (limit_wall_s if running or cases else START_WALL_S):
            if running:
                cases[running] = Case(outcome="hung", error=f"no end after {limit_wall_s:.0f} s")
                return cases, False, None
            return cases, bool(cases), failed or f"nothing was run in {START_WALL_S:.0f} s: {_last_words(output)}"
        time.sleep(POLL_WALL_S)
    if running and not ended:
        process.wait()
        cases[running] = Case(outcome="crashed", error=f"exit status {process.returncode}: {_last_words(output)}")
    elif not ended and not cases and failed is None:
        failed = f"the process ended before the first test: {_last_words(output)}"
    return cases, ended, failed if collected or not cases else None


def _events(log: Path, start: int) -> tuple[list[dict[str, object]], int]:
    """The whole lines of `log` from byte `start` on, and where the next begin."""
    if not log.exists():
        return [], start
    with log.open("rb") as stream:
        stream.seek(start)
        data = stream.read()
    whole = data[: data.rfind(b"\n") + 1]
    return [json.loads(line) for line in whole.splitlines()], start + len(whole)


def _last_words(output: Path) -> str:
    """The line of a dead process's output that says most about its death."""
    lines = [line.strip() for line in output.read_text(errors="replace").splitlines() if line.strip()]
    fatal = [line for line in lines if "Fatal Python error" in line or "Check failed" in line or "Error" in line]
    return ([*fatal[-1:], *lines[-1:]] or ["no output"])[0][:300]


def by_file(chosen: Sequence[Function]) -> Iterator[tuple[str, list[Function]]]:
    files: dict[str, list[Function]] = {}
    for function in chosen:
        files.setdefault(function.file, []).append(function)
    yield from files.items()
