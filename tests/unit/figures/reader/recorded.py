"""Recordings of simulated runs, for tests of what is made of them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import sha256

from tests.unit.sim.toy import Host, collective, machine, program, superstep
from tilestep.figures.reader import Report
from tilestep.machine.spec import MachineSpec
from tilestep.plan.memory.liveness import Life, Liveness
from tilestep.plan.serialized import dump_program
from tilestep.plan.steps import Branch, Counts, Frame, HostCall, Loop, Program, Series, Superstep
from tilestep.recording.capture import capture
from tilestep.recording.history import begin_history, history_since
from tilestep.recording.program import RecordedCompilation
from tilestep.recording.storage.container import Builder, Tables, parse_recording, recording_bytes
from tilestep.recording.sums import SimulationSpan
from tilestep.sim.calls import Dispatch


def larger(num_ipus: int = 1, *, clock_hz: float = 1e6) -> MachineSpec:
    """The toy machine with tiles that a recording may have."""
    toy = machine(num_ipus)
    return replace(
        toy, ipu=replace(toy.ipu, clock_hz=clock_hz, num_tiles=16, tile=replace(toy.ipu.tile, sram_bytes=65_536, executable_bytes=32_768))
    )


def recorded(
    host: Host,
    programs: Sequence[Program],
    details: Mapping[str, Liveness] | None = None,
    *,
    runs_in_detail: int = 1000,
    kind: str = "run",
    notes: Mapping[str, object] | None = None,
    profile: object = None,
) -> Tables:
    """A recording of all that a host has done, written and read again. Args: profile: its figures; None: it has none."""
    builder = Builder(kind=kind, notes=notes)
    compiled = {
        host.key(each): RecordedCompilation(
            program=each,
            detail=(details or {}).get(each.name),
            fingerprint=sha256(dump_program(each).encode()).hexdigest(),
            hlo="HloModule",
        )
        for each in programs
    }
    span = SimulationSpan(system=host.system, begin=host.start, end=host.system.mark(), history=None)
    capture(builder, span, compiled, runs_in_detail=runs_in_detail)
    if profile is not None:
        builder.put_json("profile", profile)
    return parse_recording(recording_bytes(builder.tables()))


def journaled(called: Program, *, runs: int = 3, profile: object = None, detail: Liveness | None = None) -> Tables:
    """A recording of runs of a program with its journal, which can be played again.

    Args: profile: what stands in place of the figures of the profile; None: nothing.
    """
    host = Host(on=replace(larger(), host=replace(larger().host, to_ipus_bytes_per_second=1e9, to_host_bytes_per_second=1e9)))
    begin = begin_history(host.system)
    for _ in range(runs):
        host.run(called, *(host.put(argument.size_bytes) for argument in called.arguments))
    builder = Builder(kind="run")
    history = history_since(host.system, begin)
    span = SimulationSpan(system=host.system, begin=host.start, end=host.system.mark(), history=history)
    capture(builder, span, {host.key(called): RecordedCompilation(program=called, detail=detail)}, runs_in_detail=2)
    if profile is not None:
        builder.put_json("profile", profile)
    return builder.tables()


def step(name: str, scope: str, compute: int, exchange: int = 0, sync: int = 0, frame: int = 0) -> Superstep:
    """A superstep of a scope."""
    return replace(superstep(compute, exchange, sync, name=name), scope=scope, frame=frame)


FRAMES = (
    Frame(file="/home/me/train.py", function="main", line=9, column=1, parent=0),
    Frame(file="/home/me/train.py", function="loss", line=3, column=5, parent=1),
    Frame(file="/usr/lib/python3.11/site-packages/jax/_src/numpy/ufuncs.py", function="dot", line=77, column=1, parent=2),
)


def two_stages(trips: int | None = 5, site: int | None = None) -> Program:
    """A loop of two stages, between a step before and one after."""
    body = Series(nodes=(step("a", "jit(f)/while/body/stage_a/dot", 7, 2, 1, 3), step("b", "jit(f)/while/body/stage_b/add", 10, 0, 1)))
    loop = Loop(name="loop", scope="jit(f)/while", body=body, trips=trips, site=site)
    nodes = (step("before", "jit(f)/dot", 4), loop, step("after", "jit(f)/stage_b/add", 3))
    return replace(program(*nodes, name="two_stages", takes=(100,), gives=(50,)), frames=FRAMES)


def liveness() -> Liveness:
    """The memory of `two_stages`: ticks are begin, before, loop, a, b, loop's end, after, end."""
    lives = (
        Life(name="x", category="argument", size_bytes=160, first=0, last=3, tile_bytes=10, tiles=16, start_tile=0, frame=0),
        Life(name="w", category="resident", size_bytes=80, first=0, last=7, tile_bytes=20, tiles=4, start_tile=14, frame=0),
        Life(name="h", category="temporary", size_bytes=64, first=3, last=4, tile_bytes=32, tiles=2, start_tile=1, frame=3),
        Life(name="y", category="result", size_bytes=50, first=6, last=7, tile_bytes=4, tiles=16, start_tile=0, frame=2),
    )
    return Liveness(
        num_tiles=16,
        steps=("program start", "before", "loop", "a", "b", "loop", "after", "program end"),
        leaves=(-1, 0, -1, 1, 2, -1, 3, -1),
        temporary_tile_bytes=(0, 5, 0, 6, 0, 0, 1, 0),
        lives=lives,
        code=(("vertex code", 100), ("control code", 20)),
        fixed=(("stacks", 30),),
    )


def run_of(called: Program, *, runs: int = 1, counts: Sequence[Counts] = (), clock_hz: float = 1e6) -> Host:
    """A host that has run a program on the first IPUs, with new arguments each time."""
    host = Host(on=larger(called.num_ipus, clock_hz=clock_hz))
    for _ in range(runs):
        ipus = tuple(range(called.num_ipus))
        values = [[host.put(argument.size_bytes, ipu=ipu) for argument in called.arguments] for ipu in ipus]
        results = [[host.name() for _ in called.results] for _ in ipus]
        host.system.dispatch(called, Dispatch(key=host.key(called), ipus=ipus, arguments=values, results=results, counts=counts))
        if results[0]:
            host.system.wait(results[0][0])
    return host


def report_of(
    called: Program,
    *,
    runs: int = 1,
    counts: Sequence[Counts] = (),
    detail: Liveness | None = None,
    notes: Mapping[str, object] | None = None,
    clock_hz: float = 1e6,
) -> Report:
    """The report on runs of a program."""
    host = run_of(called, runs=runs, counts=counts, clock_hz=clock_hz)
    return Report(recorded(host, [called], {} if detail is None else {called.name: detail}, notes=notes))


def everything(num_ipus: int = 2) -> tuple[Program, list[Counts]]:
    """A program with each kind of node, and counts of its data-dependent parts on two IPUs."""
    inner = Loop(
        name="inner",
        scope="jit(f)/outer/while/body/while",
        body=Series(nodes=(step("i", "jit(f)/outer/while/body/while/body/in/mul", 2, 1, 1),)),
        trips=None,
        site=1,
    )
    branch = Branch(
        name="branch",
        scope="jit(f)/cond",
        arms=(
            Series(nodes=(step("left", "jit(f)/cond/branch_0_fun/left/add", 5),)),
            Series(nodes=(step("right", "jit(f)/cond/branch_1_fun/right/add", 9, 3),)),
        ),
        site=2,
    )
    unknown = Branch(name="either", scope="", arms=(Series(nodes=(step("cheap", "", 1),)), Series(nodes=(step("dear", "", 8),))), site=None)
    outer = Loop(name="outer", scope="jit(f)/outer/while", body=Series(nodes=(inner, branch)), trips=4, site=None)
    call = HostCall(name="call", scope="jit(f)/callback", bytes_to_host=7, bytes_from_host=3)
    reduce = replace(collective("all-reduce", 40, ((0, 1),)), compute_cycles=6)
    called = program(
        step("first", "jit(f)/first", 3, 2, 1), outer, unknown, reduce, call, name="everything", takes=(10,), gives=(20,), num_ipus=num_ipus
    )
    counts = [
        Counts(times={(1, 0): 10, (2, 0): 3, (2, 1): 1}),
        Counts(times={(1, 0): 3, (2, 0): 0, (2, 1): 4}),
    ]
    return called, counts


def named_programs(*cycles: tuple[str, int]) -> Report:
    """A recording of programs with a name, each of one step of so many cycles."""
    host = Host(on=larger())
    programs = [program(step("a", "", spent), name=name) for name, spent in cycles]
    for called in programs:
        host.run(called)
    return Report(recorded(host, programs))
