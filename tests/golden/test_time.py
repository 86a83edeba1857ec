"""Traces of host programs, exact. Each case has a machine of its own and a derivation by hand beside it.

`pytest tests/golden --update-golden` rewrites the traces; the derivation and the CHANGELOG then say why they changed.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.sim.toy import Host, collective, program, superstep
from tilestep.machine import load_machine
from tilestep.plan import HostCall, Loop, Program, Series

FOLDER = Path(__file__).parent / "time"
CODE = 250  # bytes of code per tile, of every program here


def coded(called: Program) -> Program:
    return replace(called, memory=replace(called.memory, code_bytes=CODE))


def psum(host: Host) -> None:
    """Squares its array and adds it up over two IPUs; called twice, then the host reads a result."""
    body = (superstep(400, 50, 600), replace(collective("all-reduce", 4096), compute_cycles=120))
    called = coded(program(*body, name="psum", takes=(4096,), gives=(4096,), num_ipus=2))
    for _ in range(2):
        results = host.run_on((0, 1), called, [[host.put(4096, ipu=ipu)] for ipu in (0, 1)])
    host.system.read(results[1][0])


def train_loop(host: Host, num_io_tiles: int = 0) -> None:
    """Three steps whose state is donated, then the host reads the state."""
    body = superstep(5000, 700, 600)
    step = coded(program(body, name="step", takes=(4000, 6000), gives=(4000, 4), donates={0: 0}, num_io_tiles=num_io_tiles))
    state = host.put(4000)
    for _ in range(3):
        state, _ = host.run(step, state, host.put(6000))
    host.system.read(state)


def io_tiles(host: Host) -> None:
    """The same with two of the four tiles set aside for transfers."""
    train_loop(host, num_io_tiles=2)


def feeds(host: Host) -> None:
    """A loop of three turns that take a batch and send a loss each, over two of the four tiles."""
    batch = HostCall(name="batch", scope="", bytes_to_host=0, bytes_from_host=6000, is_feed=True)
    loss = HostCall(name="loss", scope="", bytes_to_host=4, bytes_from_host=0, is_feed=True)
    loop = Loop(name="loop", scope="", body=Series(nodes=(batch, superstep(5000, 700, 600), loss)), trips=3)
    host.run(coded(program(loop, name="loop", takes=(4000,), gives=(4000,), donates={0: 0}, num_io_tiles=2)), host.put(4000))


def stages(host: Host) -> None:
    """A program for each of four IPUs, in one group: each computes longer than the one before, and runs twice."""
    programs = [coded(program(superstep(1000 * (ipu + 1)), name=f"stage {ipu}", takes=(500,), gives=(300,))) for ipu in range(4)]
    for _ in range(2):
        for ipu, called in enumerate(programs):
            host.run(called, host.put(500, ipu=ipu), ipu=ipu, group=("stages", 1))


def pipeline(host: Host) -> None:
    """Two microbatches forward and back through two stages of one group, which pass arrays on; the first stage keeps one of each."""
    forward = coded(program(superstep(1000), name="forward", takes=(500,), gives=(600,)))
    last = coded(program(superstep(1500), name="last", takes=(600,), gives=(600, 4)))
    backward = coded(program(superstep(2000), name="backward", takes=(600, 600)))

    def run(called: Program, *arguments: int, ipu: int) -> list[int]:
        return host.run(called, *arguments, ipu=ipu, group=("pipeline", 1))

    [kept_0] = run(forward, host.put(500), ipu=0)
    gradient_0, _ = run(last, host.copy(kept_0, ipu=1), ipu=1)
    [kept_1] = run(forward, host.put(500), ipu=0)
    passed_1 = host.copy(kept_1, ipu=1)
    run(backward, kept_0, host.copy(gradient_0, ipu=0), ipu=0)
    gradient_1, _ = run(last, passed_1, ipu=1)
    run(backward, kept_1, host.copy(gradient_1, ipu=0), ipu=0)


CASES: dict[str, Callable[[Host], None]] = {
    "psum": psum,
    "train_loop": train_loop,
    "io_tiles": io_tiles,
    "feeds": feeds,
    "pipeline": pipeline,
    "sync_full": stages,
    "sync_single_pipeline": stages,
    "sync_replica_and_ladder": stages,
}


def played(case: str) -> Host:
    host = Host(on=load_machine(str(FOLDER / case / "machine.toml")))
    CASES[case](host)
    return host


def traced(host: Host) -> list[tuple[int, str, str, str]]:
    """(IPU, kind, cycles, program) of every event, by IPU and time."""
    events = sorted(host.system.trace.events, key=lambda event: (event.ipu, event.start_cycle, event.end_cycle))
    return [(event.ipu, event.kind, f"{event.start_cycle:,}..{event.end_cycle:,}", event.program) for event in events]


def test_every_folder_is_a_case() -> None:
    assert {path.name for path in FOLDER.iterdir()} == set(CASES)


@pytest.mark.parametrize("case", CASES)
def test_traces_are_the_derived_ones(case: str, update_golden: bool) -> None:
    host = played(case)
    found = "".join(f"ipu{ipu}  {kind:<11} {cycles:>16}  {name}\n" for ipu, kind, cycles, name in traced(host))
    found += f"the host's clock {host.system.host_cycle:,}, all done at {host.system.end_cycle:,}\n"
    expected = FOLDER / case / "trace.txt"
    if update_golden:
        expected.write_text(found, encoding="utf-8")
    assert found == expected.read_text(encoding="utf-8")


@pytest.mark.parametrize("case", CASES)
def test_the_derivation_ends_at_the_same_cycles(case: str) -> None:
    """Every event of the trace stands in a row of the derivation, and no row stands for none."""
    text = (FOLDER / case / "DERIVATION.md").read_text(encoding="utf-8")
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("| ipu")]
    events = traced(played(case))
    assert sorted((row[0], row[1], row[2]) for row in rows) == sorted((f"ipu{ipu}", kind, cycles) for ipu, kind, cycles, _ in events)
