"""Pictures of programs on several IPUs, drawn from traces of the emulator: the three sync patterns, and a pipeline over time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from scripts.picture import COMPUTE, EXCHANGE, HOST, SYNC, Picture
from tilestep import hints, popart
from tilestep.machine import MachineSpec, load_machine
from tilestep.machine.fields import SYNC_PATTERNS
from tilestep.options import PlanOptions
from tilestep.pjrt.programs.other_machines import machine_beside
from tilestep.profiling.plugin import initialize
from tilestep.sim.cycles.sync import host_set

MACHINE = "bow-2000"
NAMES = "ABCD"
FILLS = {
    "stream-in": HOST,
    "stream-out": HOST,
    "read": HOST,
    "compute": COMPUTE,
    "exchange": EXCHANGE,
    "sync": SYNC,
    "collective": EXCHANGE,
}
GROUPS = ("#0072B2", "#D55E00", "#CC79A7", "#56B4E9")  # of Okabe and Ito's colours, one for each group

MATMULS = (12, 24, 18, 30)  # of the programs of IPUs A to D
ROUNDS = 3


@dataclass(frozen=True, kw_only=True)
class Timeline:
    """What IPUs did. Attributes: rows: for each IPU (begin, end, kind) of its events, in µs. end: of the last, in µs."""

    rows: Sequence[Sequence[tuple[float, float, str]]]
    end: float


def sync_patterns() -> str:
    """Four IPUs that read, compute and answer, each by itself, under the three patterns."""
    machines = {pattern: load_machine(MACHINE, num_ipus=len(NAMES), sync_pattern=pattern) for pattern in SYNC_PATTERNS}
    lines = {pattern: _four_programs(machine) for pattern, machine in machines.items()}
    full, *others = (lines[pattern].end / 1000 for pattern in SYNC_PATTERNS)
    picture = Picture(
        860, 584, f"With a host access for each side, or for each IPU, {full:.1f} ms become {others[1]:.1f} ms and {others[0]:.1f} ms"
    )
    picture.text(
        20,
        56,
        f"Four programs of one partition on {MACHINE}. Each takes 4 MiB from the host, multiplies matrices, and gives a sum back; "
        f"{ROUNDS} rounds.",
        kind="small",
    )
    words = {
        "full": ("GS1 = GS2 = A B C D", "All wait at each access to the host."),
        "singlePipeline": ("GS1 = A B C D, GS2 = each alone", "Each goes to the host by itself."),
        "replicaAndLadder": ("GS1 = A B C D, GS2 = A C and B D", "One side computes, the other is at the host."),
    }
    end = 2000.0 * -(-max(line.end for line in lines.values()) // 2000)
    for number, pattern in enumerate(SYNC_PATTERNS):
        top = 84 + 140 * number
        picture.text(20, top + 4, pattern, kind="name")
        groups, what = words[pattern]
        picture.text(190, top + 4, groups, kind="small")
        picture.text(440, top + 4, what, kind="small")
        _groups(picture, 40, top + 22, machines[pattern])
        _rows(picture, 190, top + 18, 640, lines[pattern], end)
    picture.axis(190, 84 + 3 * 140 - 8, 640, end=end / 1000, step=2, unit="emulated time in ms")
    for index, (fill, text) in enumerate(
        ((HOST, "at the host"), (COMPUTE, "computes"), (EXCHANGE, "tiles exchange"), (SYNC, "tiles sync"))
    ):
        picture.key(190 + 130 * index, 566, fill, text)
    return picture.svg()


def _rows(picture: Picture, left: float, top: float, width: float, line: Timeline, end: float) -> None:
    for index, row in enumerate(line.rows):
        y = top + 26 * index
        picture.text(left - 10, y + 15, NAMES[index], kind="small", anchor="end")
        picture.line((left, y + 10), (left + width * line.end / end, y + 10), dashed=True)
        for begin, after, kind in row:
            picture.box(left + width * begin / end, y, max(0.5, width * (after - begin) / end), 20, fill=FILLS[kind], corner=0)


def _groups(picture: Picture, left: float, top: float, machine: MachineSpec) -> None:
    """The four IPUs as they are cabled, in the colours of the groups that wait for each other at the host."""
    places = [(left + 52 * (ipu % 2), top + 46 * (ipu // 2)) for ipu in range(len(NAMES))]
    picture.line(*((x + 17, y + 15) for x, y in (places[0], places[1], places[3], places[2], places[0])))
    for ipu, (x, y) in enumerate(places):
        picture.box(x, y, 34, 30, fill=GROUPS[host_set(machine, ipu)])
        picture.text(x + 17, y + 20, NAMES[ipu], kind="name", anchor="middle", colour="#fff")


def _four_programs(machine: MachineSpec) -> Timeline:
    """Rounds of programs that form one partition. Their code is there already."""
    initialize()
    beside = machine_beside(machine, PlanOptions())
    player = beside.player()
    player.system.record = True
    programs = [_program(count) for count in MATMULS]
    given = jnp.zeros((1024, 1024), jnp.float32)

    def one_round() -> list[jax.Array]:
        with hints.program_group("four programs"):
            return [program(jax.device_put(given, device)) for device, program in zip(beside.devices, programs, strict=True)]

    with beside.running(player):
        jax.block_until_ready(one_round())  # their code comes once
        begin = player.mark()
        for _ in range(ROUNDS):
            one_round()
    return timeline(player.system.trace_between(begin, player.mark()).events, machine)


def _program(matmuls: int) -> Any:
    def program(given: jax.Array) -> jax.Array:
        value = given
        for _ in range(matmuls):
            value = jnp.tanh(value @ given)
        return value.sum()

    program.__name__ = f"program_{matmuls}"
    return jax.jit(program)


def timeline(events: Sequence[Any], machine: MachineSpec) -> Timeline:
    """The events of a trace by IPU, from the first one on. Raises: LookupError for a kind that has no colour."""
    if unknown := {event.kind for event in events} - set(FILLS):
        raise LookupError(f"the picture has no colour for {', '.join(sorted(unknown))}")
    clock = machine.ipu.clock_hz / 1e6  # cycles in a microsecond
    first = min(event.start_cycle for event in events)
    rows = [
        [((event.start_cycle - first) / clock, (event.end_cycle - first) / clock, event.kind) for event in events if event.ipu == ipu]
        for ipu in range(machine.num_ipus)
    ]
    return Timeline(rows=rows, end=max(after for row in rows for _, after, _ in row))


STAGES, DEPTH, ROWS, WIDTH, TILES = 4, 12, 256, 512, 64
WORK = {"forward": "#56B4E9", "backward": "#E69F00", "forward_and_backward": "#009E73", "update": "#CC79A7"}
WORDS = {
    "forward": "forward",
    "backward": "backward",
    "forward_and_backward": "forward and backward of the last stage",
    "update": "update",
}


def pipeline_over_time() -> str:
    """One update of a PopART session with four stages."""
    session = _session()
    tasks = _tasks(session)
    begin, end = min(task.begin for task in tasks), max(task.end for task in tasks)
    ratio = sum(task.end - task.begin for task in tasks) / (STAGES * (end - begin))
    title = f"A pipeline of {STAGES} stages fills, works, and is flushed: its IPUs work for {ratio:.0%} of an update"
    picture = Picture(860, 290, title.replace("%", " %"))
    picture.text(
        20,
        56,
        f"One update of a PopART session on {session.getReport().target.machine.name} with {TILES} tiles: {DEPTH} microbatches, numbered; "
        f"four layers of {WIDTH} x {WIDTH}, one on each IPU.",
        kind="small",
    )
    left, top, width = 70, 76, 770
    scale = 1000.0 * -(-(end - begin) // 1000)
    for task in tasks:
        x, y = left + width * (task.begin - begin) / scale, top + 34 * task.stage
        size, number = width * (task.end - task.begin) / scale, str(task.microbatch)
        picture.box(x, y, size, 28, fill=WORK[task.kind], corner=0)
        if size > 8 * len(number) and task.kind != "update":
            picture.text(x + size / 2, y + 19, number, kind="small", anchor="middle", colour="#000")
    for stage in range(STAGES):
        picture.text(left - 10, top + 19 + 34 * stage, f"IPU {stage}", kind="small", anchor="end")
    picture.axis(left, top + 34 * STAGES, width, end=scale / 1000, step=1, unit="emulated time in ms")
    for index, (kind, fill) in enumerate(WORK.items()):
        picture.key(left + (0, 110, 230, 500)[index], 272, fill, WORDS[kind])
    return picture.svg()


@dataclass(frozen=True, kw_only=True)
class Task:
    """A run of a stage's program. Attributes: begin, end: in µs."""

    stage: int
    kind: str
    microbatch: int
    begin: float
    end: float


def _session() -> popart.TrainingSession:
    """A session that has run two updates."""
    builder, weight = popart.Builder(), np.zeros((WIDTH, WIDTH), np.float32)
    value = builder.addInputTensor("FLOAT", [ROWS, WIDTH], "x")
    for stage in range(STAGES):
        with builder.virtualGraph(stage), builder.pipelineStage(stage):
            value = builder.aiOnnx.tanh([builder.aiOnnx.matmul([value, builder.addInitializedInputTensor(weight)])])
            if stage == STAGES - 1:
                value = builder.aiGraphcore.l1loss([value], 0.1)
    options = popart.SessionOptions()
    options.virtualGraphMode = popart.VirtualGraphMode.Manual
    options.enablePipelining = options.enableGradientAccumulation = True
    options.accumulationFactor = DEPTH
    options.engineOptions = {"autoReport.executionProfileProgramRunCount": "1000"}
    device = popart.DeviceManager().createIpuModelDevice({"numIPUs": STAGES, "tilesPerIPU": TILES, "ipuVersion": "ipu21"})
    flow, optimizer = popart.DataFlow(1, {value: popart.AnchorReturnType("Final")}), popart.SGD({"defaultLearningRate": (0.1, True)})
    session = popart.TrainingSession(builder.getModelProto(), flow, value, optimizer, device, userOptions=options)
    session.prepareDevice()
    session.weightsFromHost()
    for _ in range(2):  # in the second, the programs are there
        session.run(popart.PyStepIO({"x": np.zeros((DEPTH, ROWS, WIDTH), np.float32)}, session.initAnchorArrays()))
    return session


def _tasks(session: popart.TrainingSession) -> list[Task]:
    """The tasks of the session's last update."""
    report = session.getReport()
    clock = report.target.clock_hz / 1e6  # cycles in a microsecond
    tasks: list[Task] = []
    for stage in range(STAGES):
        for kind in WORK:
            runs = [each for each in report.execution.runs_on(stage) if each.run.name == f"stage {stage} {kind}".replace("_", " ")]
            last = runs[-(1 if kind == "update" else DEPTH) :]
            tasks += [
                Task(stage=stage, kind=kind, microbatch=number, begin=each.cycles_from / clock, end=each.cycles_to / clock)
                for number, each in enumerate(last)
            ]
    return tasks
