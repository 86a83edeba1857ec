#!/usr/bin/env python3
"""Seeded mutants of the program text, and which of them the fast run finds.

    scripts/mutants.py draw     prints what the first seed draws
    scripts/mutants.py cover    records which lines each test executes, with Python 3.12 or newer
    scripts/mutants.py run      makes mutants one by one, and runs the tests that execute their line until one fails
    scripts/mutants.py show     prints what has been found so far, and keeps it in benchmarks/results/mutants.json

Files are those of build/mutants: `tree` is a checkout of its own, whose files are changed, with environments:

    git worktree add --detach build/mutants/tree main
    make -C build/mutants/tree .venv/.ready-test
    make -C build/mutants/tree PYTHON=python3.13 .venv-python3.13/.ready-test

Both need the same version of JAX. Mutants are drawn from the text of a commit whose run of 40 CPU minutes is known to find faults
(scripts/mutant_sites.py), from lines that some test executes. `cover` and `run` append to files, and `run` goes on where it was left.
"""

from __future__ import annotations

import argparse
import functools
import io
import json
import os
import re
import signal
import subprocess
import sys
import tarfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from itertools import accumulate, chain, groupby, islice, zip_longest
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from scripts.mutant_sites import Site, drawn, located, sites  # noqa: E402

REFERENCE: Final = "1e01c6d"
FIRST_SEED, SECOND_SEED = 20_611, 73_939
PAGE: Final = "report/assets"  # the page's JavaScript, an area of its own
# folders of the reference
AREAS: Final = ("machine", "program", "cost", "plan", "sim", "record", "report", "cli", "train", "onnx", "popart", "pjrt/programs", PAGE)
EACH: Final = 25  # mutants of an area
SOURCES: Final = "src/tilestep"
RESULT: Final = ROOT / "benchmarks" / "results" / "mutants.json"
TESTS: Final = Path(__file__).with_name("mutant_tests.py")
FAST: Final = "not slow"  # what the fast run is
FIRST_CPU_S, FIRST_TESTS = 15.0, 150  # of the tests that run first: most mutants end there
HANG_WALL_S: Final = 200  # of one test
VALIDATED: Final = 8  # mutants whose killers are run together without a mutant
OTHERS_SETTINGS: Final = re.compile("(JAX|TILESTEP|XLA|POPLAR|PVTI)_.*|PYTHON(PATH|HOME|WARNINGS|DONTWRITEBYTECODE)")


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """A site of the reference's text, and where it was drawn."""

    seed: int
    area: str
    site: Site


def environ() -> dict[str, str]:
    """For tests: without settings of the caller's own, and a browser has to be there."""
    return {name: value for name, value in os.environ.items() if not OTHERS_SETTINGS.fullmatch(name)} | {"PAGE_CHECKS": "required"}


@functools.cache
def reference_texts() -> Mapping[str, str]:
    """The package's text at the reference, by path."""
    archive = subprocess.run(("git", "archive", REFERENCE, SOURCES), cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        wanted = [member for member in tar if member.name.endswith((".py", ".js"))]
        return {member.name: file.read().decode() for member in wanted if (file := tar.extractfile(member)) is not None}


def drawn_of(area: str, seed: int, texts: Mapping[str, str]) -> list[Site]:
    """The sites of an area, in the order in which a seed draws them. Decorators are left out: `frozen` of `@dataclass` is for types."""
    ending = ".js" if area == PAGE else ".py"
    of_area = {path: text for path, text in texts.items() if path.startswith(f"{SOURCES}/{area}/") and path.endswith(ending)}
    return [site for site in drawn(sites(of_area), f"{seed} {area}") if not site.before.lstrip().startswith("@")]


class Lines:
    """Which tests execute lines that are asked for, and what each test takes."""

    def __init__(self, folder: Path, wanted: Iterable[tuple[str, int]]) -> None:
        self.cpu_s: dict[str, float] = {}  # by test
        own_cpu_s: Counter[str] = Counter()  # of processes that a test has started
        self._keys: dict[tuple[str, int], set[str]] = defaultdict(set)
        self._of_file: dict[str, set[str]] = defaultdict(set)
        self._users: dict[str, set[str]] = defaultdict(set)
        numbers: dict[str, set[int]] = defaultdict(set)
        for path, line in wanted:
            numbers[path.removeprefix(f"{SOURCES}/")].add(line)
        for record in chain.from_iterable(map(records, sorted(folder.glob("*.jsonl")))):
            key = record["key"]
            own_cpu_s[key] += record.get("own", 0)
            if "wall" in record:
                self.cpu_s[key] = record["self"] + record["child"]
            for shared in record.get("uses", ()):
                self._users[shared].add(key)
            for file in record["files"].keys() & numbers.keys():
                bits = int(record["files"][file], 16)
                self._of_file[file].add(key)
                for line in numbers[file]:
                    if bits >> line & 1:
                        self._keys[file, line].add(key)
        for test in self.cpu_s:
            self.cpu_s[test] = max(self.cpu_s[test], own_cpu_s[test], 0.01)

    def tests(self, path: str, line: int) -> set[str]:
        """Those that execute a line. One that is executed when its file is imported counts for each test that executes some line there."""
        file = path.removeprefix(f"{SOURCES}/")
        keys = self._keys.get((file, line), set())
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


@functools.cache
def moved(tree: Path) -> Mapping[str, str]:
    """Where files of the reference are in a checkout that has given them other names."""
    words = ("git", "diff", "--find-renames", "--diff-filter=R", "--name-status", REFERENCE, "HEAD", "--", SOURCES)
    lines = subprocess.check_output(words, cwd=tree, text=True).splitlines()
    return dict(tuple(line.split("\t")[1:3]) for line in lines)


def place(tree: Path, site: Site) -> Site | None:
    """Where a site of the reference is in a checkout."""
    here = replace(site, path=moved(tree).get(site.path, site.path))
    path = tree / here.path
    return located(here, path.read_text(encoding="utf-8")) if path.exists() else None


def mutants_of(seed: int, areas: Sequence[str], folder: Path) -> list[Mutant]:
    """The first of each area that are on lines which a test executes; areas in turn."""
    drawn_sites = {area: drawn_of(area, seed, reference_texts())[: 6 * EACH] for area in areas}
    places = {site: place(folder / "tree", site) for found in drawn_sites.values() for site in found}
    lines = Lines(folder / "lines", ((here.path, here.line) for here in places.values() if here is not None))

    def is_executed(site: Site) -> bool:
        here = places[site]
        return here is not None and bool(lines.tests(here.path, here.line))

    executed = (
        [Mutant(seed=seed, area=area, site=site) for site in islice(filter(is_executed, found), EACH)]
        for area, found in drawn_sites.items()
    )
    return [mutant for mutant in chain.from_iterable(zip_longest(*executed)) if mutant is not None]


def in_order(tests: Iterable[str], cpu_s: Mapping[str, float], site: Site, first: str) -> list[str]:
    """Likely killers first: the one before, tests of the module, of its folder, of its area, others; of each the quick ones."""
    inner = Path(site.path.removeprefix(f"{SOURCES}/"))

    def key(test: str) -> tuple[int, float, str]:
        file = Path(test.partition("::")[0])
        near = [
            inner.stem in file.stem,
            Path("tests/unit", inner.parent) in file.parents,
            Path("tests/unit", inner.parts[0]) in file.parents,
        ]
        return (-1 if test == first else [*near, True].index(True), cpu_s[test], test)

    return sorted(tests, key=key)


class Checkout:
    """Whose files are changed, and its tests."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.tree = folder, folder / "tree"
        self.kept = folder / "fast.jsonl"
        self._good: set[str] = set()
        self._broken: set[str] = set()

    def outcomes(self) -> dict[Mutant, dict[str, Any]]:
        """The last one of each mutant."""
        known = records(self.kept) if self.kept.exists() else iter(())
        return {Mutant(seed=record["seed"], area=record["area"], site=Site(**record["site"])): record for record in known}

    def selected(self) -> set[str]:
        """The fast run's tests, as they are now."""
        words = (self.tree / ".venv/bin/python", "-m", "pytest", "--collect-only", "-q", "-n", "0", "-p", "no:cacheprovider", "-m", FAST)
        collected = subprocess.run(words, cwd=self.tree, env=environ(), check=True, stdout=subprocess.PIPE, text=True).stdout
        return set(collected.splitlines())

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
        os.utime(
            path, ns=(0, time.time_ns() - 3_600_000_000_000)
        )  # a time of its own, by which Python knows that what it has compiled is old
        try:
            yield
        finally:
            self.restore()

    def run(self, tests: Sequence[str], *, first: bool) -> dict[str, Any]:
        """What `judge` of scripts/mutant_tests.py answers. A run that is too long, or dies, has one failure, which says so."""
        request, answer = self.folder / "request.json", self.folder / "answer.json"
        request.write_text(json.dumps({"tests": tests, "first": first, "timeout_s": HANG_WALL_S}), encoding="utf-8")
        answer.unlink(missing_ok=True)
        words = (self.tree / ".venv/bin/python", TESTS, request.absolute(), answer.absolute())
        with (self.folder / "output.txt").open("w") as output:
            process = subprocess.Popen(words, cwd=self.tree, env=environ(), stdout=output, stderr=output, start_new_session=True)
            try:
                process.wait(HANG_WALL_S * 10)
            except subprocess.TimeoutExpired:
                return {"failed": ["(it hangs)"], "passed": 0}
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        if not answer.exists():
            return {"failed": ["(it crashes)"], "passed": 0}
        answered = json.loads(answer.read_text(encoding="utf-8"))
        return answered if answered["failed"] or answered["status"] in (0, 5) else {**answered, "failed": ["(no test starts)"]}

    def judged(self, mutant: Mutant, lines: Lines, selected: set[str], first: str, budget_cpu_s: float) -> dict[str, Any]:
        """Runs the tests of a mutant's line until one fails, or the next would be beyond the budget."""
        here = place(self.tree, mutant.site)
        if here is None:
            return {"outcome": "gone"}
        tests = in_order((lines.tests(here.path, here.line) & selected) - self._broken, lines.cpu_s, here, first)
        spent = list(accumulate(lines.cpu_s[test] for test in tests))
        some = sum(total <= min(FIRST_CPU_S, budget_cpu_s) for total in spent[:FIRST_TESTS])
        most = sum(total <= budget_cpu_s for total in spent)
        facts = {"tests": len(tests), "ran": 0}
        with self.mutated(here):
            for stage in (tests[: max(some, 1)], tests[max(some, 1) : most]):
                answer = self.run(stage, first=True) if stage else {"failed": [], "passed": 0}
                facts["ran"] += answer["passed"]
                if answer["failed"]:
                    return {"outcome": "killed", "by": answer["failed"][0], **facts}
        return {"outcome": "survived" if most == len(tests) else "undecided", **facts, "budget_cpu_s": budget_cpu_s}

    def all_judged(
        self, mutants: Sequence[Mutant], lines: Lines, selected: set[str], firsts: Mapping[Mutant, str], budget_cpu_s: float
    ) -> Iterator[Any]:
        """Mutants with their outcomes. A killer that fails without a mutant too is none, and the mutant is judged anew."""
        waiting = list(mutants)
        while waiting:
            batch, waiting = waiting[:VALIDATED], waiting[VALIDATED:]
            begin_wall = time.monotonic()
            outcomes = [(mutant, self.judged(mutant, lines, selected, firsts.get(mutant, ""), budget_cpu_s)) for mutant in batch]
            unknown = {facts["by"] for _, facts in outcomes if not facts.get("by", "(").startswith("(")} - self._good
            self._broken |= unknown & set(self.run(sorted(unknown), first=False)["failed"]) if unknown else set()
            self._good |= unknown - self._broken
            print(f"{len(waiting)} wait; {len(batch)} took {time.monotonic() - begin_wall:.0f} s", file=sys.stderr, flush=True)
            waiting = [mutant for mutant, facts in outcomes if facts.get("by") in self._broken] + waiting
            yield [(mutant, facts) for mutant, facts in outcomes if facts.get("by") not in self._broken]


def draw(options: argparse.Namespace) -> None:
    for area in options.area:
        for site in drawn_of(area, options.seed, reference_texts())[:EACH]:
            print(f"{site.path}:{site.line} {site.function} {site.kind}\n  - {site.before.strip()}\n  + {site.after.strip()}")


def cover(options: argparse.Namespace) -> None:
    tree = (options.folder / "tree").absolute()
    folder = tree.with_name("lines")
    folder.mkdir(exist_ok=True)
    python = tree / options.environment / "bin" / "python"
    where = subprocess.check_output((python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"), text=True).strip()
    begins = Path(where, "mutant_tests.pth")
    begins.write_text(
        f"import sys; sys.path.insert(0, {str(TESTS.parent)!r}); import mutant_tests; sys.path.pop(0); "
        f"mutant_tests.record({str(folder)!r}, {str((tree / SOURCES).resolve())!r})\n"
    )
    try:
        words = (python, "-m", "pytest", "-p", "mutant_tests", "-n", "2", "--dist", "worksteal", "-p", "no:cacheprovider", "-m", FAST)
        subprocess.run((*words, *options.tests), cwd=tree, env=environ(), check=False)
    finally:
        begins.unlink()


def run(options: argparse.Namespace) -> None:
    checkout = Checkout(options.folder.absolute())
    checkout.restore()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    places = {mutant: place(checkout.tree, mutant.site) for mutant in mutants_of(options.seed, options.area, options.folder)}
    lines = Lines(checkout.folder / "lines", ((site.path, site.line) for site in places.values() if site is not None))
    selected = checkout.selected() & lines.cpu_s.keys()
    known = checkout.outcomes()

    def is_open(mutant: Mutant, site: Site | None) -> bool:
        """Not judged yet, or its killer is gone, or there are more tests, or more may be spent."""
        facts = known.get(mutant, {})
        match facts.get("outcome"):
            case "killed":
                return "::" in facts["by"] and facts["by"] not in selected
            case "survived" | "undecided" if site is not None:
                more = facts["outcome"] == "undecided" and facts["budget_cpu_s"] < options.budget
                return more or len(lines.tests(site.path, site.line) & selected) > facts["tests"]
            case outcome:
                return outcome is None

    asked = [mutant for mutant, site in places.items() if is_open(mutant, site)][: options.limit]
    firsts = {mutant: facts.get("by", "") for mutant, facts in known.items()}
    commit = subprocess.check_output(("git", "rev-parse", "--short=7", "HEAD"), cwd=checkout.tree, text=True).strip()
    until = time.monotonic() + options.hours * 3600
    for batch in checkout.all_judged(asked, lines, selected, firsts, options.budget):
        with checkout.kept.open("a", encoding="utf-8") as file:
            for mutant, facts in batch:
                file.write(json.dumps({**asdict(mutant), **facts, "commit": commit}) + "\n")
                print(f"{mutant.site.path}:{mutant.site.line} {facts['outcome']} {facts.get('by', '')}", file=sys.stderr, flush=True)
        if time.monotonic() > until:
            return


def show(options: argparse.Namespace) -> None:
    rows = sorted(
        ({key: value for key, value in facts.items() if key != "budget_cpu_s"} for facts in Checkout(options.folder).outcomes().values()),
        key=lambda row: (row["seed"], AREAS.index(row["area"]), row["site"]["path"], row["site"]["line"]),
    )
    counts = []
    for (seed, area), some in groupby(rows, key=lambda row: (row["seed"], row["area"])):
        outcomes = [row["outcome"] for row in some]
        counts.append({"seed": seed, "area": area, "mutants": len(outcomes), **Counter(outcomes)})
        print("  ".join(f"{key}: {value}" if isinstance(value, int) else value for key, value in counts[-1].items()))
    found = Counter(row["outcome"] for row in rows)
    judged = found["killed"] + found["survived"]
    share = found["killed"] / judged if judged else None
    print(f"of {judged} mutants that were judged, the fast run kills {share or 0:.1%}")
    question = "Which seeded mutants of the program text does the fast run find?"
    result = {"question": question, "drawn_from": REFERENCE, "share_killed": share, "areas": counts}
    text = json.dumps(result, indent=1).removesuffix("\n}")
    options.output.write_text(text + ',\n "mutants": [\n  ' + ",\n  ".join(map(json.dumps, rows)) + "\n ]\n}\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--folder", type=Path, default=ROOT / "build" / "mutants", help="of the checkout and of records (default build/mutants)"
    )
    commands = parser.add_subparsers(required=True)
    acts = {act.__name__: commands.add_parser(act.__name__) for act in (draw, cover, run, show)}
    for name, act in (("draw", draw), ("cover", cover), ("run", run), ("show", show)):
        acts[name].set_defaults(act=act)
    for name in ("draw", "run"):
        acts[name].add_argument("--seed", type=int, default=FIRST_SEED)
        acts[name].add_argument("--area", nargs="+", choices=AREAS, default=AREAS)
    acts["cover"].add_argument("--environment", default=".venv-python3.13", help="of the checkout (default %(default)s)")
    acts["cover"].add_argument("--tests", nargs="+", default=(), help="folders or files (default: all)")
    acts["run"].add_argument("--hours", type=float, default=8.0, help="no mutant begins later")
    acts["run"].add_argument("--limit", type=int, help="mutants at most")
    acts["run"].add_argument("--budget", type=float, default=120.0, help="CPU seconds of tests for a mutant; then it is undecided")
    acts["show"].add_argument("--output", type=Path, default=RESULT)
    options = parser.parse_args()
    options.act(options)


if __name__ == "__main__":
    main()
