"""Runs JAX's own tests on a platform and on the CPU, and says test by test where the platform falls short.

    scripts/jax_tests.py ~/src/jax --files lax_test.py pmap_test.py --sample 200
    scripts/jax_tests.py ~/src/jax --files lax_test.py --named cpu ipu --jobs 4 --json record.json

CHECKOUT is a checkout of JAX of the version that is installed (tag jax-v0.10.2 for jax 0.10.2); only its `tests` are used.
What passes on the CPU and fails, is skipped, crashes or hangs on the platform counts against the platform. Each file runs in
fresh processes: on the CPU, then what passed there on the platform. JAX's tests skip or change themselves by the name of the
device under test; `--named` says under which names the platform is tested (docs/reference/jax-tests.md).
Exit status 0 if the ratio is at least `--at-least` everywhere, 1 if not, 2 if a file's tests could not be loaded.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

WORKER = Path(__file__).with_name("jax_tests_worker.py")
SETTING_PREFIXES = ("JAX_", "XLA_", "TILESTEP_", "POPLAR_")
POLL_WALL_S = 0.1
START_WALL_S = 300.0  # until a file has been imported

_talk = threading.Lock()


@dataclass(frozen=True, kw_only=True)
class Setup:
    """How a process is set up: which platform is the default, and which name the tests see."""

    platform: str
    named: str
    environ: Mapping[str, str]
    arguments: tuple[str, ...]

    def __str__(self) -> str:
        return self.platform if self.platform == self.named else f"{self.platform} named {self.named}"


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What happened to one test."""

    outcome: str  # passed, failed, skipped, crashed, hung, absent
    error: str = ""


@dataclass(frozen=True, kw_only=True)
class Difference:
    """A test that passes on the CPU and not on the platform."""

    test: str
    outcome: str
    error: str


@dataclass(frozen=True, kw_only=True)
class FileReport:
    """One file under one name of the device under test."""

    file: str
    named: str
    tests: int  # that were chosen
    passed_on_cpu: int
    passed: int  # of those that passed on the CPU
    differences: tuple[Difference, ...]
    wall_s: float

    @property
    def ratio(self) -> float:
        return self.passed / self.passed_on_cpu if self.passed_on_cpu else 1.0


class LoadError(Exception):
    """A file's tests could not be listed."""


def setups(platform: str, named: Sequence[str], cases: int, x64: bool) -> tuple[Setup, tuple[Setup, ...]]:
    """(the CPU's, the platform's under each name)."""
    common = {"JAX_NUM_GENERATED_CASES": str(cases), "JAX_ENABLE_X64": str(x64).lower()}
    # JAX asks the backend where no name is given, some files while they are imported: too early to ask for devices after that.
    on_cpu = Setup(platform="cpu", named="cpu", environ=common | {"JAX_PLATFORMS": "cpu"}, arguments=(_dut("cpu"),))
    count = f"--count-variable=JAX_{platform.upper()}_DEVICE_COUNT"
    return on_cpu, tuple(
        Setup(
            platform=platform,
            named=name,
            environ=common | {"JAX_PLATFORMS": f"{platform},cpu"},
            arguments=(count, _dut(name)),
        )
        for name in named
    )


def _dut(name: str) -> str:
    return f"--flag=--jax_test_dut={name}"


def events(log: Path, start: int) -> tuple[list[dict[str, str]], int]:
    """The whole lines of `log` from byte `start` on, and where the next begin."""
    if not log.exists():
        return [], start
    with log.open("rb") as file:
        file.seek(start)
        data = file.read()
    whole = data[: data.rfind(b"\n") + 1]
    return [json.loads(line) for line in whole.splitlines()], start + len(whole)


def last_words(output: Path) -> str:
    """The line of a dead process's output that says most about its death."""
    lines = [line.strip() for line in output.read_text(errors="replace").splitlines() if line.strip()]
    fatal = [line for line in lines if "Fatal Python error" in line or "Check failed" in line or "Error" in line]
    return ([*fatal, *lines[-1:]] or ["no output"])[0][:300]


def run_once(
    file: Path, setup: Setup, tests: Sequence[str] | None, folder: Path, limit_wall_s: float
) -> tuple[dict[str, Outcome], list[str], bool]:
    """One worker process. Returns outcomes, listed names and whether it came to its end."""
    log, output, only = (Path(tempfile.mkstemp(dir=folder, suffix=suffix)[1]) for suffix in (".jsonl", ".txt", ".names"))
    command = [sys.executable, "-X", "faulthandler", str(WORKER), str(file), f"--log={log}", *setup.arguments]
    if tests is not None:
        only.write_text("\n".join(tests))
        command.append(f"--only={only}")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(SETTING_PREFIXES)}
    outcomes: dict[str, Outcome] = {}
    listed: list[str] = []
    running, ended, at, heard = "", False, 0, time.monotonic()
    with output.open("w") as stream:
        process = subprocess.Popen(command, env=inherited | dict(setup.environ), stdout=stream, stderr=subprocess.STDOUT, cwd=folder)
        while True:
            dead = process.poll() is not None  # before reading, so that nothing written is missed
            new, at = events(log, at)
            for event in new:
                heard = time.monotonic()
                running = event.get("start", running)
                ended = ended or "end" in event
                listed += [event["listed"]] if "listed" in event else []
                if "outcome" in event:
                    outcomes[event["test"]] = Outcome(outcome=event["outcome"], error=event["error"])
                    running = ""
            if dead or ended:
                break
            if time.monotonic() - heard > (limit_wall_s if running or outcomes else START_WALL_S):
                process.kill()
                outcomes[running] = Outcome(outcome="hung", error=f"no end after {limit_wall_s:.0f} s")
                running = ""
                break
            time.sleep(POLL_WALL_S)
        process.wait() if not ended else _let_go(process)
    if running and not ended:
        outcomes[running] = Outcome(outcome="crashed", error=f"exit status {process.returncode}: {last_words(output)}")
    if not outcomes and not listed and not ended:
        raise LoadError(f"{file.name} on {setup}: {last_words(output)}")
    return outcomes, listed, ended


def _let_go(process: subprocess.Popen[bytes]) -> None:
    """Waits for the end of a process that has told all; kills it if it does not come."""
    try:
        process.wait(60)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def run_all(file: Path, setup: Setup, tests: Sequence[str], folder: Path, limit_wall_s: float) -> dict[str, Outcome]:
    """Outcomes of all `tests`; after a crash or a hang the rest goes on in a new process."""
    outcomes: dict[str, Outcome] = {}
    left = list(tests)
    while left:
        found, _, ended = run_once(file, setup, left, folder, limit_wall_s)
        outcomes |= {test: outcome for test, outcome in found.items() if test}
        left = [test for test in left if test not in outcomes]
        if ended:  # whole classes or modules may be skipped without a word for each test, and some tests depend on the platform
            outcomes |= {
                test: Outcome(outcome="absent", error="not run: its class or module was skipped, or does not have it") for test in left
            }
            break
        if not any(found):
            raise LoadError(f"{file.name} on {setup}: died before its first test")
    return outcomes


def chosen(names: Sequence[str], *, sample: int | None, fraction: float, shard: tuple[int, int], seed: int) -> list[str]:
    """The tests to run, in their order: of this shard, and a random choice of them, the same at every call."""
    mine = [name for index, name in enumerate(names) if index % shard[1] == shard[0]]
    count = min(len(mine), round(len(mine) * fraction) if sample is None else sample)
    picked = set(random.Random(seed).sample(mine, count))
    return [name for name in mine if name in picked]


def say(text: str) -> None:
    with _talk:
        print(text, file=sys.stderr, flush=True)


def report_file(file: Path, options: argparse.Namespace, folder: Path) -> list[FileReport]:
    """Runs one file on the CPU and on the platform under each of its names."""
    on_cpu, named = setups(options.platform, options.named, options.cases, options.x64)
    _, names, _ = run_once(file, on_cpu, None, folder, options.timeout)
    tests = chosen(names, sample=options.sample, fraction=options.fraction, shard=options.shard, seed=options.seed)
    say(f"{file.name}: {len(tests)} of {len(names)} tests")
    expected = run_all(file, on_cpu, tests, folder, options.timeout)
    passing = [test for test in tests if expected[test].outcome == "passed"]
    say(f"{file.name} on cpu: {dict(Counter(outcome.outcome for outcome in expected.values()))}")
    reports: list[FileReport] = []
    for setup in named:
        start = time.monotonic()
        actual = run_all(file, setup, passing, folder, options.timeout)
        differences = [
            Difference(test=test, outcome=actual[test].outcome, error=actual[test].error)
            for test in passing
            if actual[test].outcome != "passed"
        ]
        report = FileReport(
            file=file.name,
            named=setup.named,
            tests=len(tests),
            passed_on_cpu=len(passing),
            passed=len(passing) - len(differences),
            differences=tuple(differences),
            wall_s=round(time.monotonic() - start, 1),
        )
        say(f"{file.name} on {setup}: {report.passed} of {report.passed_on_cpu} ({report.ratio:.2%})")
        reports.append(report)
    return reports


def table(reports: Sequence[FileReport]) -> str:
    """A row for each file and name, their totals, and every difference with its first line."""

    def row(file: str, named: str, tests: int, on_cpu: int, here: int) -> str:
        return f"{file:44} {named:6} {tests:6} {on_cpu:6} {here:6} {here / on_cpu if on_cpu else 1:8.2%}"

    lines = [f"{'file':44} {'named':6} {'tests':>6} {'cpu':>6} {'here':>6} {'ratio':>8}"]
    lines += [row(report.file, report.named, report.tests, report.passed_on_cpu, report.passed) for report in reports]
    for named in dict.fromkeys(report.named for report in reports):
        mine = [report for report in reports if report.named == named]
        lines.append(
            row("all", named, *(sum(counts) for counts in zip(*((r.tests, r.passed_on_cpu, r.passed) for r in mine), strict=True)))
        )
    lines += [
        f"\n{report.file} named {report.named}: {difference.test}\n    {difference.outcome}: {difference.error}"
        for report in reports
        for difference in report.differences
    ]
    return "\n".join(lines)


def shard(text: str) -> tuple[int, int]:
    index, _, count = text.partition("/")
    if not (index.isdigit() and count.isdigit() and int(index) < int(count)):
        raise argparse.ArgumentTypeError(f"{text!r} is not INDEX/COUNT with 0 <= INDEX < COUNT")
    return int(index), int(count)


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path, metavar="CHECKOUT")
    parser.add_argument("--files", nargs="+", required=True, metavar="NAME", help="files of CHECKOUT/tests, such as lax_test.py")
    parser.add_argument("--platform", default="ipu", help="the platform to test (default: ipu)")
    parser.add_argument("--named", nargs="+", default=["cpu"], metavar="NAME", help="names of the device under test (default: cpu)")
    parser.add_argument("--sample", type=int, metavar="N", help="at most N tests of each file, chosen at random")
    parser.add_argument("--fraction", type=float, default=1.0, metavar="F", help="this part of each file's tests (default: 1)")
    parser.add_argument("--seed", type=int, default=0, help="of the choice")
    parser.add_argument("--shard", type=shard, default=(0, 1), metavar="I/N", help="every N-th test of each file, from the I-th")
    parser.add_argument("--cases", type=int, default=10, metavar="N", help="generated cases per test (JAX_NUM_GENERATED_CASES)")
    parser.add_argument("--x64", action="store_true", help="with 64-bit types on")
    parser.add_argument("--timeout", type=float, default=300.0, metavar="S", help="seconds for one test")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="files at a time")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the record to FILE")
    parser.add_argument("--at-least", type=float, default=1.0, metavar="RATIO", help="ratio that every name has to reach over all files")
    options = parser.parse_args(arguments)
    missing = [name for name in options.files if not (options.checkout / "tests" / name).is_file()]
    if missing:
        parser.error(f"{options.checkout / 'tests'} has no {', '.join(missing)}")
    return options


def main() -> int:
    options = parse()
    files = [(options.checkout / "tests" / name).resolve() for name in options.files]
    reports: list[FileReport] = []
    failed = False
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        waiting = [pool.submit(report_file, file, options, Path(folder)) for file in files]
        for future in waiting:
            try:
                reports += future.result()
            except LoadError as error:
                failed = True
                say(f"cannot test {error}")
    print(table(reports))
    if options.json:
        versions = {name: version(name) for name in ("jax", "jaxlib", "numpy")}
        record = {"platform": options.platform, "versions": versions, "reports": [asdict(report) for report in reports]}
        options.json.write_text(json.dumps(record, indent=1) + "\n")
    if failed:
        return 2
    return int(any(_ratio(reports, named) < options.at_least for named in options.named))


def _ratio(reports: Sequence[FileReport], named: str) -> float:
    mine = [report for report in reports if report.named == named]
    total = sum(report.passed_on_cpu for report in mine)
    return sum(report.passed for report in mine) / total if total else 1.0


if __name__ == "__main__":
    sys.exit(main())
