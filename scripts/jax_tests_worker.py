"""Runs tests of one of JAX's own test files in this process, and writes what happens to each as it happens.

Started by scripts/jax_tests.py, which survives what this process does not. One line of JSON per event: {"start": test},
then {"test": test, "outcome": "passed" | "failed" | "skipped", "error": first line}; {"end": true} at the end.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import sys
import traceback
import unittest
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import IO

ErrorInfo = tuple[type[BaseException], BaseException, TracebackType] | tuple[None, None, None]
Test = unittest.TestCase


class Log(unittest.TestResult):
    """Writes each event at once, so that the events before a crash are known."""

    def __init__(self, log: IO[str]) -> None:
        super().__init__()
        self._log = log
        self._ended: set[str] = set()

    def write(self, **event: object) -> None:
        print(json.dumps(event), file=self._log, flush=True)

    def _end(self, test: Test, outcome: str, error: str = "") -> None:
        name = name_of(test)
        if name not in self._ended:  # a test that failed and whose tearDown failed too has failed once
            self._ended.add(name)
            self.write(test=name, outcome=outcome, error=error)

    def startTest(self, test: Test) -> None:
        super().startTest(test)
        self.write(start=name_of(test))

    def stopTest(self, test: Test) -> None:
        super().stopTest(test)
        self._end(test, "passed")  # nothing else was said of it

    def addSuccess(self, test: Test) -> None:
        super().addSuccess(test)

    def addFailure(self, test: Test, err: ErrorInfo) -> None:
        self._end(test, "failed", first_line(err[1]))

    def addError(self, test: Test, err: ErrorInfo) -> None:
        self._end(test, "failed", first_line(err[1]))

    def addSubTest(self, test: Test, subtest: Test, err: ErrorInfo | None) -> None:
        if err is not None:
            self._end(test, "failed", f"{subtest}: {first_line(err[1])}")

    def addSkip(self, test: Test, reason: str) -> None:
        self._end(test, "skipped", reason)

    def addExpectedFailure(self, test: Test, err: ErrorInfo) -> None:
        self._end(test, "passed")

    def addUnexpectedSuccess(self, test: Test) -> None:
        self._end(test, "failed", "succeeded although a failure was expected")


def name_of(test: Test) -> str:
    """Class and method. (The test's id may show arguments, and they addresses that differ from process to process.)"""
    method = getattr(test, "_testMethodName", None)  # what stands for a class that failed to set up has none
    return f"{type(test).__qualname__}.{method}" if method else str(test)


def first_line(error: BaseException | None) -> str:
    """The exception in one line: its type, and the first line of its message that says something."""
    if error is None:
        return "unknown error"
    text = "".join(traceback.format_exception_only(error))
    lines = [line.strip() for line in text.splitlines() if line.strip() and set(line.strip()) != {":"}]
    first = lines[0] if lines else type(error).__name__
    return (first if len(first) > len(type(error).__name__) + 30 or len(lines) < 2 else f"{first} {lines[1]}")[:300]


def tests_of(suite: unittest.TestSuite) -> Iterator[Test]:
    for item in suite:
        if isinstance(item, unittest.TestSuite):
            yield from tests_of(item)
        else:
            yield item


def load(path: Path, flags: list[str]) -> unittest.TestSuite:
    """The file's tests, its flags parsed as if it had been started with them."""
    from jax._src import test_util as jtu

    sys.path.insert(0, str(path.parent))
    sys.argv = [str(path), *flags]
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return jtu.JaxTestLoader().loadTestsFromModule(module)


def give_requested_devices(variable: str) -> None:
    """Lets a file's request for a number of CPU devices hold for another platform, whose variable for it is named."""
    from jax._src import test_util as jtu

    request = jtu.request_cpu_devices

    def requested(count: int) -> None:
        os.environ[variable] = str(max(count, int(os.environ.get(variable, "1"))))
        request(count)

    jtu.request_cpu_devices = requested


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--log", type=Path, required=True)
    parser.add_argument("--only", type=Path, help="a file of test names, one a line; without it, names are listed and nothing runs")
    parser.add_argument("--count-variable", help="environment variable of the number of devices of the platform under test")
    parser.add_argument("--flag", action="append", default=[], help="for the test file itself")
    arguments = parser.parse_args()
    if arguments.count_variable:
        os.environ.setdefault(arguments.count_variable, "1")  # as many as JAX's CPU platform has
        give_requested_devices(arguments.count_variable)
    suite = load(arguments.file.resolve(), arguments.flag)
    with arguments.log.open("a") as log:
        result = Log(log)
        if arguments.only is None:
            for test in tests_of(suite):
                result.write(listed=name_of(test))
        else:
            import jax

            jax.devices()  # what starting a platform changes is not for the first test to answer for
            chosen = set(arguments.only.read_text().splitlines())
            unittest.TestSuite(test for test in tests_of(suite) if name_of(test) in chosen).run(result)
        result.write(end=True)


if __name__ == "__main__":
    main()
