#!/usr/bin/env python3
"""Runs PopART's own Python tests on tilestep's `popart`, unmodified, and says function by function which pass.

    scripts/popart_tests.py ~/src/popart                                all that is black-box
    scripts/popart_tests.py ~/src/popart --group operators --jobs 4     one group of them
    scripts/popart_tests.py ~/src/popart --mutate anchors               with all anchors zeroed: nearly all must fail

CHECKOUT is a checkout of graphcore/popart; only its `tests` are used. Most of the tests compare with PyTorch: they need torch beside
tilestep (pip install --index-url https://download.pytorch.org/whl/cpu torch torchvision; then, without build isolation, torch-scatter
and torch-spline-conv, for some operators). A folder on PYTHONPATH will do.

Each file runs in a pytest process of its own, in which the name `popart` means tilestep.popart. Values are computed on the CPU. Each
test gets the emulated device for which the originals' build makes it (the first of Cpu, IpuModel2 and Hw that its VARIANTS name), so a
skip is a failure. A function passes if all its cases do. From the source alone it is decided what is left out (tests that look inside
the original's representation or reports, operators in C++, processes, popxl), what asserts nothing, and what needs several devices.

Exit status 0 if what fails is what scripts/popart_judge/known.toml lists, with a reason each; 1 if not; 2 for a wrong command.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import importlib.util
import json
import re
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from scripts.popart_judge import groups, tables  # noqa: E402
from scripts.popart_judge.known import LIST, Known, read_known, surprises  # noqa: E402
from scripts.popart_judge.runner import Case, Result, Setup, by_file, run_file  # noqa: E402
from scripts.popart_judge.source import TESTS, Function, functions  # noqa: E402
from scripts.popart_judge.targets import DEFAULT, read_build  # noqa: E402
from tests.processes import QUICKLY_COMPILED  # noqa: E402

NEVER_RUN = "disabled in the originals' build"
_talk = threading.Lock()


def say(text: str) -> None:
    with _talk:
        print(text, file=sys.stderr, flush=True)


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path, metavar="CHECKOUT")
    parser.add_argument(
        "--group", action="append", choices=groups.NAMES, metavar="NAME", help=f"only this group: {', '.join(groups.NAMES)}"
    )
    parser.add_argument(
        "--files", action="append", metavar="PATTERN", help="only these files below tests/integration, such as 'optimizer_*'"
    )
    parser.add_argument("--function", action="append", metavar="PATTERN", help="only functions of these names")
    parser.add_argument("--one-device", action="store_true", help="only what needs no more devices than one")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="files at a time (default: 1)")
    parser.add_argument("--timeout", type=float, default=300.0, metavar="S", help="seconds for one case (default: 300)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the record to FILE")
    parser.add_argument("--known", type=Path, default=LIST, metavar="FILE", help="the list of failures with their reasons")
    parser.add_argument("--mutate", choices=("anchors",), help="zero all anchors, and say how many functions notice")
    parser.add_argument("--list", action="store_true", help="name the functions, and run nothing")
    return parser.parse_args(arguments)


def chosen_of(found: Sequence[Function], options: argparse.Namespace) -> list[Function]:
    """The functions to run, in their order."""

    def fits(text: str, patterns: Sequence[str] | None) -> bool:
        return patterns is None or any(fnmatchcase(text, pattern) for pattern in patterns)

    return [
        function
        for function in found
        if function.black_box
        and (function.one_device or not options.one_device)
        and (options.group is None or groups.group_of(function.file) in options.group)
        and fits(function.file, options.files)
        and fits(function.name, options.function)
    ]


def files_with_torch(checkout: Path, chosen: Sequence[Function]) -> list[str]:
    """The files whose tests, or whose fixtures, import torch."""

    def imports_it(path: Path) -> bool:
        return path.is_file() and re.search(r"^\s*(import|from) torch\b", path.read_text(encoding="utf-8"), re.MULTILINE) is not None

    paths = {file: checkout / TESTS / file for file, _ in by_file(chosen)}
    return [file for file, path in paths.items() if imports_it(path) or imports_it(path.with_name("conftest.py"))]


def run_all(
    chosen: Sequence[Function],
    target_of: Mapping[str, str],
    known: Known,
    setup: Setup,
    *,
    jobs: int,
    write: Callable[[Sequence[Result]], None],
) -> list[Result]:
    """Runs the files, `jobs` at a time, and writes down after each what is known so far."""

    def run(file: str, mine: Sequence[Function]) -> list[Result]:
        target = target_of.get(file, DEFAULT)
        cases = run_file(file, target, mine, setup)
        results = [result for function in mine if (result := _result(function, target, cases[function.name], known)) is not None]
        say(f"{file} on {target}: {sum(result.passed for result in results)} of {len(results)}")
        return results

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        results: list[Result] = []
        for done in concurrent.futures.as_completed([pool.submit(run, file, mine) for file, mine in by_file(chosen)]):
            results += done.result()
            write(results)
    places = {function.id: place for place, function in enumerate(chosen)}
    return sorted(results, key=lambda result: places[result.function.id])


def _result(function: Function, target: str, cases: Mapping[str, Case], known: Known) -> Result | None:
    """None if the originals skip all cases of the function anywhere."""
    left = {
        name: case
        for name, case in cases.items()
        if not (case.outcome == "skipped" and case.error.removeprefix("Skipped: ").startswith(known.skips))
    }
    if cases and not left:
        return None
    return Result(function=function, group=groups.group_of(function.file), target=target, cases=left)


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    try:
        found, known = functions(options.checkout), read_known(options.known)
        build = read_build(options.checkout)
        found = [replace(function, why_out=NEVER_RUN) if function.file in build.disabled else function for function in found]
    except (FileNotFoundError, ValueError) as error:
        say(f"popart_tests: {error}")
        return 2
    chosen = chosen_of(found, options)
    print(tables.counts(found), flush=True)
    if options.list:
        print("\n".join(function.id for function in chosen))
        return 0
    if not chosen:
        say("popart_tests: nothing is chosen; --list names what there is")
        return 2
    if importlib.util.find_spec("torch") is None and (users := files_with_torch(options.checkout, chosen)):
        say(f"popart_tests: there is no torch, with which {len(users)} of the files compare; --help says where it comes from")
        return 2
    setup = Setup(
        checkout=options.checkout.resolve(),
        limit_wall_s=options.timeout,
        environ={"JAX_PLATFORMS": "cpu", "XLA_FLAGS": QUICKLY_COMPILED},
        mutate=options.mutate,
    )

    def write(results: Sequence[Result]) -> None:
        if options.json is not None:
            options.json.write_text(json.dumps(tables.record(found, results, known), indent=1) + "\n", encoding="utf-8")

    results = run_all(chosen, build.targets, known, setup, jobs=options.jobs, write=write)
    write(results)
    if options.mutate is not None:
        print(tables.mutated(results, known))
        return 0
    print(tables.failures(results, known))
    print(tables.table(results))
    whole = options.group is None and options.files is None and options.function is None
    found_wrong = surprises(results, known, whole=whole, names={function.id for function in found})
    print("\n".join(["", f"{len(found_wrong)} not as listed", *found_wrong]))
    return int(bool(found_wrong))


if __name__ == "__main__":
    sys.exit(main())
