#!/usr/bin/env python3
"""Chooses which tests the fast run leaves to `make test-all`, and writes tests/left_out.txt.

    scripts/fast_run.py --cpu-s 900      keeps tests of 900 CPU seconds
    scripts/fast_run.py --covered        leaves out more: tests of which each line is executed by as many others as count (`WORTH`)
    scripts/fast_run.py --show           prints what the list leaves out, by folder, and how many lines no kept test executes

It reads what `scripts/mutants.py cover` has recorded. Tests that take less than `QUICK_CPU_S` stay, and those that ask something that lines
do not tell (`KEPT`). Of the others those are taken that execute most lines for their time which no test, one or two execute so far, until
the time is spent. `--covered` looks at the fast run's tests alone, of a recording that need not be whole. It keeps what has found a mutant.
"""

from __future__ import annotations

import argparse
import heapq
import json
import math
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Final
from zlib import crc32

ROOT: Final = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from scripts.mutants import RESULT, reached, records  # noqa: E402

LEFT_OUT: Final = ROOT / "tests" / "left_out.txt"
QUICK_CPU_S: Final = 0.1
WORTH: Final = (1.0, 0.5, 0.25)  # of a line that so many kept tests execute already
KEPT: Final = (
    "tests/golden/",  # figures
    "tests/test_in_turn.py",  # the tests' own tools
    "tests/test_layers.py",
    "tests/test_packaging.py",
    "tests/test_readme.py::test_readme",
    "tests/behaviour/test_processes_and_strangers.py",  # who may connect
    "tests/behaviour/test_clusters.py",  # what others start
    "tests/behaviour/test_faults.py",  # what the system refuses
)
VALUES: Final = "tests/conformance/test_values.py"
ONE_OF: Final = 6  # of the tests of values, which operations have and lines do not: the newest JAX gets others (tests/conftest.py)
HEAD: Final = """# Tests that the fast run leaves to `make test-all`, because others that take less time execute their lines.
# Written by scripts/fast_run.py. A name without [...] stands for all of a function.
"""


class Recording:
    """What each test took, and which lines it executed."""

    def __init__(self, folder: Path) -> None:
        self.cpu_s: dict[str, float] = {}
        self.lines: dict[str, frozenset[int]] = {}
        bits: dict[str, Counter[str]] = defaultdict(Counter)
        uses: dict[str, set[str]] = defaultdict(set)
        own_cpu_s: Counter[str] = Counter()  # of processes that a test, or what it shares, has started
        for record in chain.from_iterable(map(records, sorted(folder.glob("*.jsonl")))):
            key = record["key"]
            uses[key].update(record.get("uses", ()))
            own_cpu_s[key] += record.get("own", 0)
            if "wall" in record:
                self.cpu_s[key] = max(record["self"] + record["child"], 0.001)
            for file, text in record["files"].items():
                bits[key][file] |= int(text, 16)
        places: dict[str, int] = {}
        keys = {test: reached([test], uses) for test in self.cpu_s}
        users = Counter(chain.from_iterable(keys.values()))
        for test, own in keys.items():
            self.lines[test] = frozenset(chain.from_iterable(_numbers(bits[key], places) for key in own))
            self.cpu_s[test] = max(self.cpu_s[test], sum(own_cpu_s[key] / users[key] for key in own))  # not all fall on the first


def _numbers(bits: Mapping[str, int], places: dict[str, int]) -> Iterable[int]:
    """A number for each line of each file."""
    for file, value in bits.items():
        begin = places.setdefault(file, len(places)) << 16
        while value:
            low = value & -value
            yield begin + low.bit_length() - 1
            value ^= low


def chosen(cpu_s: Mapping[str, float], lines: Mapping[str, Iterable[int]], kept: Iterable[str], most_cpu_s: float) -> set[str]:
    """Tests of at most so many CPU seconds, those of `kept` among them whatever they take."""
    found, seen = set(kept), Counter[int]()
    spent = sum(cpu_s[test] for test in found)
    for test in found:
        seen.update(lines[test])

    def rank(test: str) -> float:
        return -sum(WORTH[seen[line]] for line in lines[test] if seen[line] < len(WORTH)) / cpu_s[test]

    waiting = [(rank(test), test) for test in cpu_s.keys() - found]
    heapq.heapify(waiting)
    while waiting:
        _, test = heapq.heappop(waiting)
        now = rank(test)
        if waiting and (now, test) > waiting[0]:  # others have executed its lines since
            heapq.heappush(waiting, (now, test))
        elif now < 0 and spent + cpu_s[test] <= most_cpu_s:
            found.add(test)
            spent += cpu_s[test]
            seen.update(lines[test])
    return found


def is_kept(test: str) -> bool:
    """Whether its question is no line."""
    return test.startswith(KEPT) or (test.startswith(VALUES) and crc32(test.encode()) % ONE_OF == 1)


def killers(result: Mapping[str, Any]) -> set[str]:
    """Tests that have found a mutant. Args: result: of scripts/mutants.py."""
    sides = (mutant.get(side, {}) for mutant in result["mutants"] for side in ("fast", "whole"))
    return {side["by"] for side in sides if "by" in side}


def covered(recording: Recording, left_out: Iterable[str], found: Iterable[str]) -> set[str]:
    """Tests that are not left out yet, and of which each line is executed by as many others as count. Args: found: tests that stay."""
    fast = {test: recording.cpu_s[test] for test in recording.cpu_s.keys() - set(left_out)}
    kept = {test for test, cpu_s in fast.items() if cpu_s < QUICK_CPU_S or is_kept(test)} | (fast.keys() & set(found))
    return fast.keys() - chosen(fast, recording.lines, kept, math.inf)


def shortened(left_out: Iterable[str], tests: Iterable[str]) -> list[str]:
    """Names for the list: that of a function where all of its tests are left out."""
    left, of_function = set(left_out), defaultdict[str, set[str]](set)
    for test in tests:
        of_function[test.partition("[")[0]].add(test)
    return sorted(chain.from_iterable([name] if ids <= left else ids & left for name, ids in of_function.items()))


def shown(left_out: Iterable[str], recording: Recording) -> str:
    left = set(left_out)
    spent, saved = Counter[str](), Counter[str]()
    for test, cpu_s in recording.cpu_s.items():
        (saved if test in left else spent)["/".join(test.partition("::")[0].split("/")[:3])] += cpu_s
    kept = frozenset[int]().union(*(lines for test, lines in recording.lines.items() if test not in left))
    every = kept.union(*recording.lines.values())
    rows = [f"{spent[folder]:7.0f} s kept {saved[folder]:7.0f} s left out  {folder}" for folder, _ in (spent + saved).most_common()]
    of_tests = f"{len(recording.cpu_s) - len(left)} of {len(recording.cpu_s)} tests"
    of_time = f"{spent.total():.0f} of {spent.total() + saved.total():.0f} CPU s"
    return "\n".join([*rows, f"{of_tests}, {of_time}; {len(every) - len(kept)} of {len(every)} lines are not executed"])


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "mutants" / "lines", help="of records (default %(default)s)")
    parser.add_argument("--cpu-s", type=float, default=900.0)
    parser.add_argument("--covered", action="store_true")
    parser.add_argument("--show", action="store_true")
    options = parser.parse_args(arguments)
    recording = Recording(options.folder)
    names = {name for name in LEFT_OUT.read_text(encoding="utf-8").splitlines() if not name.startswith("#")}
    left_out = {test for test in recording.cpu_s if test in names or test.partition("[")[0] in names}
    if not options.show:
        if options.covered:
            more = covered(recording, left_out, killers(json.loads(RESULT.read_text(encoding="utf-8"))))
            written, left_out = sorted(names | more), left_out | more
        else:
            kept = {test for test, cpu_s in recording.cpu_s.items() if cpu_s < QUICK_CPU_S or is_kept(test)}
            left_out = recording.cpu_s.keys() - chosen(recording.cpu_s, recording.lines, kept, options.cpu_s)
            written = shortened(left_out, recording.cpu_s)
        LEFT_OUT.write_text(HEAD + "".join(f"{name}\n" for name in written), encoding="utf-8")
    print(shown(left_out, recording))


if __name__ == "__main__":
    main()
