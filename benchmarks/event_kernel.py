"""Does an event of virtual time cost the same from 1 to 256 IPUs?

Three host programs, each with about the same number of events whatever the number of IPUs:

- `apart`: a program of its own on each IPU, in turn, with a donated state, a batch and a loss;
- `together`: one program on all IPUs, with an all-reduce;
- `group`: a pipeline over all IPUs in one program group, microbatch by microbatch, under each sync pattern. On one IPU nobody waits
  for anybody, and its runs are played without the event loop.

    python benchmarks/event_kernel.py [--ipus N ...] [--runs N] [--repetitions N] [--json FILE]

Wall time is reported and not judged.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run as a script, this file is in no package

import tilestep
from benchmarks.commit import commit
from tilestep.machine import SYNC_PATTERNS, load_machine
from tilestep.plan.steps import Argument, Collective, Node, Program, Result, Series, Superstep, TileMemory
from tilestep.sim import System
from tilestep.sim.calls import Dispatch

QUESTION = "does an event of virtual time cost the same from 1 to 256 IPUs?"
MACHINE = "bow-pod256"
BATCH_BYTES, STATE_BYTES, LOSS_BYTES, PASSED_BYTES = 100_000, 1_000_000, 4, 50_000


@dataclass(frozen=True, kw_only=True)
class Answer:
    """Wall time per event of one host program on so many IPUs."""

    load: str
    num_ipus: int
    events: int  # of one repetition
    wall_s: tuple[float, ...]  # per event, of each repetition

    @property
    def median_s(self) -> float:
        return statistics.median(self.wall_s)


def program(name: str, *nodes: Node, takes: Sequence[int], gives: Sequence[int], num_ipus: int = 1, donated: int = 0) -> Program:
    """A program of `nodes`; its first `donated` arguments become its first results."""
    return Program(
        name=name,
        num_ipus=num_ipus,
        body=Series(nodes=nodes),
        arguments=tuple(
            Argument(index=k, name=f"a{k}", shape=f"u8[{size}]", size_bytes=size, result=k if k < donated else None)
            for k, size in enumerate(takes)
        ),
        results=tuple(
            Result(index=k, shape=f"u8[{size}]", size_bytes=size, argument=k if k < donated else None) for k, size in enumerate(gives)
        ),
        memory=TileMemory(peak_bytes=0, peak_step="", code_bytes=80 * 1024, resident_bytes=0, transient_bytes=0),
    )


def superstep(cycles: int) -> Superstep:
    """Compute, exchange and sync."""
    return Superstep(name="step", scope="", family="none", compute_cycles=cycles, exchange_cycles=cycles // 5, sync_cycles=600)


class Values:
    """Numbers for values, in order."""

    def __init__(self, system: System) -> None:
        self.system = system
        self.last = 0

    def put(self, ipu: int, size_bytes: int) -> int:
        self.last += 1
        self.system.put(self.last, ipu=ipu, size_bytes=size_bytes, on_host=False)
        return self.last

    def copy(self, source: int, ipu: int) -> int:
        self.last += 1
        self.system.copy(source, self.last, ipu=ipu, on_host=False)
        return self.last

    def forget(self, *values: int) -> None:
        for value in values:
            self.system.forget(value)

    def new(self, count: int) -> list[int]:
        self.last += count
        return list(range(self.last - count + 1, self.last + 1))


def apart(system: System, ipus: Sequence[int]) -> Callable[[int], None]:
    """A program of its own on each IPU; the calls that the result makes are that many runs."""
    values = Values(system)
    step = program("step", superstep(50_000), takes=(STATE_BYTES, BATCH_BYTES), gives=(STATE_BYTES, LOSS_BYTES), donated=1)
    states = [values.put(ipu, STATE_BYTES) for ipu in ipus]

    def run(runs: int) -> None:
        for turn in range(runs):
            ipu = ipus[turn % len(ipus)]
            batch, results = values.put(ipu, BATCH_BYTES), values.new(2)
            system.dispatch(step, Dispatch(key=1, ipus=(ipu,), arguments=[[states[ipu], batch]], results=[results], counts=()))
            values.forget(states[ipu], batch, results[1])
            states[ipu] = results[0]

    return run


def together(system: System, ipus: Sequence[int]) -> Callable[[int], None]:
    """One program on all IPUs."""
    values = Values(system)
    reduce = Collective(
        name="all-reduce", scope="", kind="all-reduce", size_bytes=STATE_BYTES, groups=(tuple(ipus),) if len(ipus) > 1 else ()
    )
    step = program(
        "step", superstep(50_000), reduce, takes=(STATE_BYTES, BATCH_BYTES), gives=(STATE_BYTES, LOSS_BYTES), num_ipus=len(ipus), donated=1
    )
    states = [values.put(ipu, STATE_BYTES) for ipu in ipus]

    def run(runs: int) -> None:
        for _ in range(-(-runs // len(ipus))):
            batches, results = [values.put(ipu, BATCH_BYTES) for ipu in ipus], [values.new(2) for _ in ipus]
            arguments = [list(row) for row in zip(states, batches, strict=True)]
            system.dispatch(step, Dispatch(key=1, ipus=tuple(ipus), arguments=arguments, results=results, counts=()))
            values.forget(*states, *batches, *(row[1] for row in results))
            states[:] = [row[0] for row in results]

    return run


def group(system: System, ipus: Sequence[int]) -> Callable[[int], None]:
    """A pipeline over all IPUs, entered anew for about a thousand stages."""
    values = Values(system)
    stages = [program(f"stage {ipu}", superstep(50_000), takes=(PASSED_BYTES,), gives=(PASSED_BYTES,)) for ipu in ipus]
    entries = itertools.count(1)

    def run(runs: int) -> None:
        entry = next(entries)
        for microbatch in range(-(-runs // len(ipus))):
            if not microbatch % -(-1024 // len(ipus)):
                entry = next(entries)
            passed = values.put(ipus[0], PASSED_BYTES)
            for ipu, stage in zip(ipus, stages, strict=True):
                argument, [result] = values.copy(passed, ipu), values.new(1)
                system.dispatch(
                    stage, Dispatch(key=ipu, ipus=(ipu,), arguments=[[argument]], results=[[result]], counts=(), group=("g", entry))
                )
                values.forget(argument, passed)
                passed = result

    return run


LOADS: dict[str, tuple[str, Callable[[System, Sequence[int]], Callable[[int], None]]]] = {
    "apart": ("full", apart),
    "together": ("full", together),
    **{f"group, {pattern}": (pattern, group) for pattern in SYNC_PATTERNS},
}


def measure(load: str, num_ipus: int, *, runs: int, repetitions: int) -> Answer:
    """Wall time per event, from a dispatch to when its times are known; what is worked out once for each program is left out."""
    pattern, prepare = LOADS[load]
    machine = load_machine(MACHINE, num_ipus=num_ipus, sync_pattern=pattern)
    wall: list[float] = []
    events = 0
    for _ in range(repetitions):
        system = System(machine)
        run = prepare(system, range(num_ipus))
        run(num_ipus)
        before = system.mark().position
        gc.collect()
        start = time.perf_counter()
        run(runs)
        events = system.mark().position - before
        wall.append((time.perf_counter() - start) / events)
    return Answer(load=load, num_ipus=num_ipus, events=events, wall_s=tuple(wall))


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=QUESTION)
    parser.add_argument("--ipus", type=int, nargs="+", default=[1, 2, 4, 16, 64, 256], help="how many to try (default: %(default)s)")
    parser.add_argument("--runs", type=int, default=2048, help="of a program on an IPU, each about five events (default: %(default)s)")
    parser.add_argument("--repetitions", type=int, default=7, help="of each row, taken in turns (default: %(default)s)")
    parser.add_argument("--json", type=Path, help="write a record to this file")
    options = parser.parse_args(arguments)
    rows = [(load, num_ipus) for load in LOADS for num_ipus in options.ipus]
    parts = [[measure(*row, runs=options.runs, repetitions=1) for row in rows] for _ in range(options.repetitions)]
    answers = [replace(turns[0], wall_s=tuple(wall for turn in turns for wall in turn.wall_s)) for turns in zip(*parts, strict=True)]
    print(f"{'':24}{'IPUs':>6}{'events':>9}{'wall per event':>17}{'against the fewest':>21}")
    for answer in answers:
        first = next(one for one in answers if one.load == answer.load)
        ratio = answer.median_s / first.median_s
        print(f"{answer.load:24}{answer.num_ipus:6}{answer.events:9,}{answer.median_s * 1e6:14.2f} us{ratio:21.2f}")
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(record(answers), indent=1) + "\n", encoding="utf-8")
    return 0


def record(answers: Sequence[Answer]) -> dict[str, Any]:
    """What the run found."""
    return {
        "question": QUESTION,
        "machine": MACHINE,
        "commit": commit(),
        "host": {"cpus": os.cpu_count(), "load": round(os.getloadavg()[0], 2)},
        "versions": {"tilestep": tilestep.__version__, "python": platform.python_version()},
        "answers": [
            {
                "load": a.load,
                "num_ipus": a.num_ipus,
                "events": a.events,
                "wall_s": {"median": float(f"{a.median_s:.4g}"), "n": len(a.wall_s)},
            }
            for a in answers
        ],
    }


if __name__ == "__main__":
    sys.exit(main())
