#!/usr/bin/env python3
"""Seeded mutants of the program text, and which of them the fast run finds.

    scripts/mutants.py cover    records which lines each test executes
    scripts/mutants.py missed   prints lines of functions that no test executes
    scripts/mutants.py run      makes mutants one by one, and runs the tests that execute their line until one fails
    scripts/mutants.py show     prints what has been found so far, and keeps it in benchmarks/results/mutants.json

Files are those of build/mutants: `tree` is a checkout of its own, whose files are changed, with Python 3.12 or newer:

    git worktree add --detach build/mutants/tree main
    make -C build/mutants/tree .venv-newest/.ready-test

Mutants are drawn from the text of the checkout (scripts/mutant_sites.py), from lines that some test executes. `cover` and `run` append to
files, and `run` goes on where it was left. In a later commit it asks again what no test has found, but for what a reader has marked as
`equivalent` in the result, with the reason. `reference` in the result is what the reader found by the tests of commit 1e01c6d, which were
more: the same mutant was made there by hand, and the tests near it were run.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import multiprocessing
import os
import re
import resource
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from itertools import accumulate, chain, groupby, islice, pairwise, zip_longest
from multiprocessing.connection import Connection
from pathlib import Path
from types import CodeType
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from scripts.mutant_sites import Site, drawn, sites  # noqa: E402
from scripts.mutant_tests import MOST_BYTES, judge  # noqa: E402

SEEDS: Final = (20_611, 73_939)
PAGE: Final = "views/assets"  # the page's JavaScript, an area of its own
AREAS: Final = (
    *("machine", "program", "cost", "plan", "sim", "recording", "figures", "advice", "views"),
    *("cli", "train", "onnx", "popart", "pjrt/programs", PAGE),
)
EACH: Final = 13  # mutants of an area and a seed
SOURCES: Final = "src/tilestep"
RESULT: Final = ROOT / "benchmarks" / "results" / "mutants.json"
TESTS: Final = Path(__file__).with_name("mutant_tests.py")
PYTHON: Final = ".venv-newest/bin/python"  # of the checkout
FORKED: Final = multiprocessing.get_context("fork")
STAGES_CPU_S: Final = (1.5, 6.0, math.inf)  # of the tests of a mutant: most end with the first
HANG_WALL_S: Final = 200  # of one test
VALIDATED: Final = 8  # mutants whose killers are run together without a mutant
OTHERS_SETTINGS: Final = re.compile("(JAX|TILESTEP|XLA|POPLAR|PVTI)_.*|PYTHON(PATH|HOME|WARNINGS|DONTWRITEBYTECODE)")


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """A site, and where it was drawn."""

    seed: int
    area: str
    site: Site


def environ() -> dict[str, str]:
    """For tests: without settings of the caller's own, and a browser has to be there."""
    return {name: value for name, value in os.environ.items() if not OTHERS_SETTINGS.fullmatch(name)} | {"PAGE_CHECKS": "required"}


def drawn_of(area: str, seed: int, tree: Path) -> list[Site]:
    """The sites of an area, in the order in which a seed draws them. Decorators are left out: `frozen` of `@dataclass` is for types."""
    paths = (tree / SOURCES / area).rglob("*.js" if area == PAGE else "*.py")
    texts = {str(path.relative_to(tree)): path.read_text(encoding="utf-8") for path in paths}
    return [site for site in drawn(sites(texts), seed) if not site.before.lstrip().startswith("@")]


class Lines:
    """Which tests execute lines that are asked for, and what each test takes."""

    def __init__(self, folder: Path, wanted: Iterable[Site]) -> None:
        self.cpu_s: dict[str, float] = {}  # by test
        self.sharing: set[str] = set()  # tests that need what several share, whose time is in none's
        own_cpu_s: Counter[str] = Counter()  # of processes that a test has started
        self._keys: dict[tuple[str, int], set[str]] = defaultdict(set)
        self._of_file: dict[str, set[str]] = defaultdict(set)
        self._users: dict[str, set[str]] = defaultdict(set)
        numbers: dict[str, set[int]] = defaultdict(set)
        for site in wanted:
            numbers[site.path.removeprefix(f"{SOURCES}/")].add(site.line)
        for record in chain.from_iterable(map(records, sorted(folder.glob("*.jsonl")))):
            key = record["key"]
            own_cpu_s[key] += record.get("own", 0)
            if not record.get("failed", True):
                self.cpu_s[key] = record["self"] + record["child"]
            for shared in record.get("uses", ()):
                self._users[shared].add(key)
                if shared != "fixture ::tmp_path_factory":
                    self.sharing.add(key)
            for file in record["files"].keys() & numbers.keys():
                bits = int(record["files"][file], 16)
                self._of_file[file].add(key)
                for line in numbers[file]:
                    if bits >> line & 1:
                        self._keys[file, line].add(key)
        for test in self.cpu_s:
            self.cpu_s[test] = max(self.cpu_s[test], own_cpu_s[test], 0.01)

    def tests(self, site: Site) -> set[str]:
        """Those that execute its line, and the others of their files: of what these share by a cache, the first has executed all."""
        files = {test.partition("::")[0] for test in self.executing(site)}
        return {test for test in self.cpu_s if test.partition("::")[0] in files}

    def executing(self, site: Site) -> set[str]:
        """Those that execute its line. A line that runs when its file is imported counts for each test that executes some line there."""
        file = site.path.removeprefix(f"{SOURCES}/")
        keys = self._keys.get((file, site.line), set())
        return reached(keys | self._of_file[file] if "" in keys else keys, self._users) & self.cpu_s.keys()


def reached(keys: Iterable[str], ways: Mapping[str, Iterable[str]]) -> set[str]:
    """These keys, and those to which ways lead from them."""
    waiting, found = list(keys), set[str]()
    while waiting:
        key = waiting.pop()
        if key not in found:
            found.add(key)
            waiting += ways.get(key, ())
    return found


def records(path: Path) -> Iterator[dict[str, Any]]:
    """What a file of the recording says."""
    with path.open(encoding="utf-8") as file:
        for line in file:
            with suppress(json.JSONDecodeError):  # of a process that was killed
                yield json.loads(line)


def in_order(tests: Iterable[str], lines: Lines, site: Site) -> list[str]:
    """Likely killers first: those that execute the line; of them tests of the module, its folder and its area; of each the quick ones."""
    inner, executing = Path(site.path.removeprefix(f"{SOURCES}/")), lines.executing(site)
    cases = Counter[str]()

    def key(test: str) -> tuple[bool, int, bool, float]:
        name = test.partition("[")[0]
        file = Path(name.partition("::")[0])
        near = [
            inner.stem in file.stem,
            Path("tests/unit", inner.parent) in file.parents,
            Path("tests/unit", inner.parts[0]) in file.parents,
        ]
        cases[name] += 1
        return test not in executing, [*near, True].index(True), test in lines.sharing, lines.cpu_s[test] * cases[name]

    return sorted(sorted(tests, key=lambda test: (lines.cpu_s[test], test)), key=key)


class Checkout:
    """Whose files are changed, and its tests."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.tree = folder, folder / "tree"
        self.kept = folder / "fast.jsonl"
        self._good: set[str] = set()
        self._broken: set[str] = set()

    def outcomes(self) -> dict[Mutant, dict[str, Any]]:
        """The last one of each mutant, here or in what was kept. What a reader wrote of the tests of a reference stays."""
        known = chain(json.loads(RESULT.read_text(encoding="utf-8"))["mutants"], records(self.kept) if self.kept.exists() else ())
        found: dict[Mutant, dict[str, Any]] = {}
        for record in known:
            mutant = Mutant(seed=record["seed"], area=record["area"], site=Site(**record["site"]))
            told = found.get(mutant, {}).get("reference")
            found[mutant] = record if told is None else record | {"reference": told}
        return found

    def restore(self) -> None:
        """Undoes what a mutant has changed, also one of a run that was killed."""
        changed = subprocess.check_output(("git", "diff", "--name-only", "--", SOURCES), cwd=self.tree, text=True).split()
        subprocess.run(("git", "checkout", "--quiet", "--", SOURCES), cwd=self.tree, check=True)
        for path in map(self.tree.joinpath, changed):
            for compiled in path.parent.glob(f"__pycache__/{path.stem}.*.pyc"):
                compiled.unlink()

    @contextmanager
    def mutated(self, site: Site) -> Iterator[None]:
        path = self.tree / site.path
        lines = path.read_text(encoding="utf-8").split("\n")
        lines[site.line - 1] = site.after
        path.write_text("\n".join(lines), encoding="utf-8")
        # a time of its own, by which Python knows that what it has compiled is old
        os.utime(path, ns=(0, time.time_ns() - 3_600_000_000_000))
        try:
            yield
        finally:
            self.restore()

    def run(self, tests: Sequence[str], *, first: bool) -> dict[str, Any]:
        """What `judge` of scripts/mutant_tests.py answers. A run that is too long, or dies, has one failure, which says so."""
        answer, writer = FORKED.Pipe(duplex=False)
        process = FORKED.Process(target=self._answer, args=(writer, tests, first))
        process.start()
        writer.close()
        try:
            if not answer.poll(HANG_WALL_S * 10):
                return {"failed": ["(it hangs)"], "passed": 0}
            answered = answer.recv()
        except EOFError:
            return {"failed": ["(it crashes)"], "passed": 0}
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid or 0, signal.SIGKILL)
            process.join()
        return answered if answered["failed"] or answered["status"] in (0, 5) else {**answered, "failed": ["(no test starts)"]}

    def _answer(self, writer: Connection, tests: Sequence[str], first: bool) -> None:
        """In a process of its own, with packages that are imported already and the checkout's code."""
        os.setsid()
        os.chdir(self.tree)
        sys.path.remove(str(ROOT))
        for name in [name for name in sys.modules if name.partition(".")[0] == "scripts"]:
            del sys.modules[name]
        with (self.folder / "output.txt").open("w") as output:
            os.dup2(output.fileno(), 1)
            os.dup2(output.fileno(), 2)
        resource.setrlimit(resource.RLIMIT_DATA, (MOST_BYTES, MOST_BYTES))
        writer.send(judge(tests, first=first, timeout_s=HANG_WALL_S))

    def judged(self, site: Site, lines: Lines, budget_cpu_s: float) -> dict[str, Any]:
        """Runs the tests of a site's line until one fails, or the next would be beyond the budget."""
        tests = in_order(lines.tests(site) - self._broken, lines, site)
        spent = list(accumulate(lines.cpu_s[test] for test in tests))
        ends = [sum(total <= min(most, budget_cpu_s) for total in spent) for most in STAGES_CPU_S]
        facts = {"tests": len(tests), "ran": 0}
        with self.mutated(site):
            for begin, end in pairwise([0, *ends]):
                answer = self.run(tests[begin:end], first=True) if begin < end else {"failed": [], "passed": 0}
                facts["ran"] += answer["passed"]
                if answer["failed"]:
                    return {"outcome": "killed", "by": answer["failed"][0], **facts}
        return {"outcome": "survived" if ends[-1] == len(tests) else "undecided", **facts, "budget_cpu_s": budget_cpu_s}

    def all_judged(self, mutants: Sequence[Mutant], lines: Lines, budget_cpu_s: float) -> Iterator[list[tuple[Mutant, dict[str, Any]]]]:
        """Mutants with their outcomes. A killer that fails without a mutant too is none, and the mutant is judged anew."""
        waiting = list(mutants)
        while waiting:
            batch, waiting = waiting[:VALIDATED], waiting[VALIDATED:]
            begin_wall = time.monotonic()
            outcomes = [(mutant, self.judged(mutant.site, lines, budget_cpu_s)) for mutant in batch]
            unknown = {facts["by"] for _, facts in outcomes if "::" in facts.get("by", "")} - self._good
            self._broken |= unknown & set(self.run(sorted(unknown), first=False)["failed"]) if unknown else set()
            self._good |= unknown - self._broken
            print(f"{len(waiting)} wait; {len(batch)} took {time.monotonic() - begin_wall:.0f} s", file=sys.stderr, flush=True)
            waiting = [mutant for mutant, facts in outcomes if facts.get("by") in self._broken] + waiting
            yield [(mutant, facts) for mutant, facts in outcomes if facts.get("by") not in self._broken]


def cover(options: argparse.Namespace) -> None:
    tree = options.folder / "tree"
    folder = options.folder / "lines"
    folder.mkdir(exist_ok=True)
    where = subprocess.check_output((tree / PYTHON, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"), text=True).strip()
    begins = Path(where, "mutant_tests.pth")
    begins.write_text(
        f"import sys; sys.path.insert(0, {str(TESTS.parent)!r}); import mutant_tests; sys.path.pop(0); "
        f"mutant_tests.record({str(folder)!r}, {str((tree / SOURCES).resolve())!r})\n"
    )
    try:
        words = (tree / PYTHON, "-m", "pytest", "-p", "mutant_tests", "-n", "2", "--dist", "worksteal", "-p", "no:cacheprovider")
        subprocess.run((*words, "-m", "not slow", *options.tests), cwd=tree, env=environ(), check=False)
    finally:
        begins.unlink()


def missed(options: argparse.Namespace) -> None:
    seen: dict[str, int] = defaultdict(int)
    for record in chain.from_iterable(map(records, sorted((options.folder / "lines").glob("*.jsonl")))):
        for name, bits in record["files"].items():
            seen[name] |= int(bits, 16)
    sources = options.folder / "tree" / SOURCES
    for path in sorted(sources.rglob("*.py")):
        text, name = path.read_text(encoding="utf-8"), str(path.relative_to(sources))
        for number in sorted(set(of_functions(compile(text, name, "exec")))):
            if not seen[name] >> number & 1:
                print(f"{name}:{number}: {text.splitlines()[number - 1].strip()}")


def of_functions(code: CodeType) -> Iterator[int]:
    """The numbers of the lines in a file's functions, but for those at which they begin."""
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from (number for *_, number in inner.co_lines() if number and number != inner.co_firstlineno)
            yield from of_functions(inner)


def run(options: argparse.Namespace) -> None:
    """With the checkout's Python, in which tests run."""
    python = str(options.folder / "tree" / PYTHON)
    if sys.executable != python:
        os.execve(python, [python, *sys.argv], environ())
    for name in ("jax", "onnx", "pytest"):
        importlib.import_module(name)
    checkout = Checkout(options.folder)
    checkout.restore()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    found = {(seed, area): drawn_of(area, seed, checkout.tree)[: 6 * EACH] for area in options.area for seed in options.seed}
    lines = Lines(checkout.folder / "lines", chain.from_iterable(found.values()))
    executed = (
        [Mutant(seed=seed, area=area, site=site) for site in islice(filter(lines.tests, some), EACH)]
        for (seed, area), some in found.items()
    )
    in_turn = {mutant.site: mutant for mutant in chain.from_iterable(zip_longest(*executed)) if mutant is not None}
    known = checkout.outcomes()
    commit = subprocess.check_output(("git", "rev-parse", "--short=7", "HEAD"), cwd=checkout.tree, text=True).strip()

    def is_open(mutant: Mutant) -> bool:
        """Not found yet, and there is more to ask: more tests, or more may be spent, or a later text."""
        facts = known.get(mutant, {"tests": -1})
        more = len(lines.tests(mutant.site)) > facts["tests"] or facts.get("budget_cpu_s", math.inf) < options.budget
        return facts.get("outcome") not in ("killed", "equivalent") and (more or facts["commit"] != commit)

    until = time.monotonic() + options.hours * 3600
    asked = [mutant for mutant in in_turn.values() if is_open(mutant)][: options.limit]
    if checkout.run(quick := [min(lines.cpu_s, key=lambda test: lines.cpu_s[test])], first=True)["passed"] != 1:
        sys.exit(f"without a mutant, {quick[0]} does not pass: {checkout.folder / 'output.txt'} says why")
    for batch in checkout.all_judged(asked, lines, options.budget):
        with checkout.kept.open("a", encoding="utf-8") as file:
            for mutant, facts in batch:
                file.write(json.dumps({**asdict(mutant), **facts, "commit": commit}) + "\n")
                print(f"{mutant.site.path}:{mutant.site.line} {facts['outcome']} {facts.get('by', '')}", file=sys.stderr, flush=True)
        if time.monotonic() > until:
            return


def show(options: argparse.Namespace) -> None:
    rows = sorted(
        Checkout(options.folder).outcomes().values(), key=lambda row: (AREAS.index(row["area"]), row["site"]["path"], row["site"]["line"])
    )
    for area, some in groupby(rows, key=lambda row: row["area"]):
        print(area, *(f"{outcome}: {count}" for outcome, count in Counter(row["outcome"] for row in some).items()), sep="  ")
    found = Counter(row["outcome"] for row in rows)
    print(f"of {found.total()} mutants the fast run kills {found['killed']}; {found['survived']} survive the tests that were asked")
    result = {"question": "Which seeded mutants of the program text does the fast run find?", **found}
    text = json.dumps(result, indent=1).removesuffix("\n}")
    options.output.write_text(text + ',\n "mutants": [\n  ' + ",\n  ".join(map(json.dumps, rows)) + "\n ]\n}\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--folder", type=lambda name: Path(name).absolute(), default=ROOT / "build" / "mutants", help="of the checkout and of records"
    )
    commands = parser.add_subparsers(required=True)
    acts = {act.__name__: commands.add_parser(act.__name__) for act in (cover, missed, run, show)}
    for name, act in (("cover", cover), ("missed", missed), ("run", run), ("show", show)):
        acts[name].set_defaults(act=act)
    acts["cover"].add_argument("--tests", nargs="+", default=(), help="folders or files (default: all)")
    acts["run"].add_argument("--seed", nargs="+", type=int, default=SEEDS)
    acts["run"].add_argument("--area", nargs="+", choices=AREAS, default=AREAS)
    acts["run"].add_argument("--hours", type=float, default=8.0, help="no mutant begins later")
    acts["run"].add_argument("--limit", type=int, help="mutants at most")
    acts["run"].add_argument("--budget", type=float, default=60.0, help="CPU seconds of tests for a mutant; then it is undecided")
    acts["show"].add_argument("--output", type=Path, default=RESULT)
    options = parser.parse_args()
    options.act(options)


if __name__ == "__main__":
    main()
