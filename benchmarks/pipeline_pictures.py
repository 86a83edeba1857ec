"""Where does the time of a pipeline on four emulated IPUs go, and what does it look like?

A model of four stages, each on an IPU: once one after the other, once with the middle two at once. An update of eight microbatches
with each of Graphcore's three schedules is run dry (nothing is computed) on a Bow-2000 whose IPUs reach the host each for itself
(`singlePipeline`), and its tasks are read from the trace. The table says what its time is made of:

- `stages`: the schedule with the emulated stages' costs alone, `schedule.simulate(costs)`;
- `apart`: what transfers and elements from the host add where devices pass on by themselves;
- `together`: what it adds that an exchange makes all IPUs wait;
- `rest`: what is left of the trace. It is 0: `simulate(costs, exchanges="together")` is the trace.

    python benchmarks/pipeline_pictures.py [--directory DIRECTORY] [--json FILE]

draws the traces to DIRECTORY (docs/pictures/schedules has them).
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run as a script, this file is in no package

import jax
import jax.numpy as jnp
import numpy as np
import optax
from rich.console import Console
from rich.table import Table

import tilestep
from benchmarks.commit import commit
from tilestep.machine import load_machine
from tilestep.sim.cycles.collective import pass_cost
from tilestep.train.pipeline.pipeline import Pipeline
from tilestep.train.schedules.schedule import Costs, Schedule, Timeline
from tilestep.train.schedules.trace import costs_of, traced

QUESTION = "where does the time of a pipeline on four emulated IPUs go?"
SCHEDULES = ("sequential", "grouped", "interleaved")
MICROBATCHES, ROWS, WIDTH, LAYERS = 8, 64, 512, 16
PASSED_BYTES = 4 * ROWS * WIDTH
AROUND = [0, 1, 3, 2]  # a way along the ladder
MACHINE = load_machine("bow-2000")
# Matplotlib draws black on white, and writes a colour beside each shape, which only `!important` overrides.
DARK_STYLE = """
@media (prefers-color-scheme: dark) {
  [style="fill: #ffffff"] { fill: #0d1117 !important }
  [style*="stroke: #ffffff"] { stroke: #0d1117 !important }
  [style*="stroke: #000000"] { stroke: #9da7b3 !important }
  text:not([style*="fill:"]) { fill: #e6edf3 }
}
"""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """One emulated update, in cycles."""

    model: str
    schedule: Schedule
    timeline: Timeline
    stages: float
    apart: float
    together: float

    @property
    def rest(self) -> float:
        return self.timeline.makespan - self.stages - self.apart - self.together


def layers(params: Any, x: Any) -> Any:
    for w in params:
        x = jnp.tanh(x @ w)
    return x


def embed(params: Any, tokens: Any) -> Any:
    return layers(params["layers"], params["table"][tokens])


def left_of(params: Any, x: Any) -> Any:
    """The first of the two middle stages where they come one after the other: it hands on what the second works on, too."""
    return layers(params, x), x


def right_of(params: Any, left: Any, x: Any) -> Any:
    return left, layers(params, x)


def loss(params: Any, left: Any, right: Any) -> Any:
    return (layers(params, left + right) ** 2).mean()


def middle(concurrent: bool) -> list[Any]:
    return [[layers, layers]] if concurrent else [left_of, right_of]


def answer(name: str, *, concurrent: bool) -> Answer:
    mapping: Any = [0, [1, 2], 3] if concurrent else AROUND
    pipeline = Pipeline(
        [embed, *middle(concurrent), loss],
        optax.sgd(0.1),
        MICROBATCHES,
        pipeline_schedule=name,
        devices=jax.devices("ipu"),
        device_mapping=mapping,
        strict=False,
    )
    weights = [np.zeros((WIDTH, WIDTH), np.float32)] * LAYERS
    params: list[Any] = [{"layers": weights, "table": np.zeros((64, WIDTH), np.float32)}]
    params += [[weights, weights]] if concurrent else [weights, weights]
    profile: Any = None
    with tilestep.dry_run():
        state = pipeline.init([*params, weights])
        for _ in range(2):  # the first one loads
            with tilestep.profile() as recording:
                state, losses = pipeline.step(state, np.zeros((MICROBATCHES, ROWS), np.int32))
                jax.block_until_ready((state, losses))
            profile = recording.profile
    timeline = traced(pipeline.schedule, profile.timeline)
    costs = with_transfers(pipeline.schedule, timeline, profile.timeline, [0, 1, 2, 3] if concurrent else AROUND)
    alone = pipeline.schedule.simulate(costs_of(pipeline.schedule, timeline)).makespan
    apart, together = (pipeline.schedule.simulate(costs, exchanges=kind).makespan for kind in ("apart", "together"))
    return Answer(
        model="concurrent" if concurrent else "chain",
        schedule=pipeline.schedule,
        timeline=timeline,
        stages=alone,
        apart=apart - alone,
        together=together - apart,
    )


def with_transfers(schedule: Schedule, timeline: Timeline, events: Sequence[Any], ipus: Sequence[int]) -> Costs:
    """The emulated costs of tasks, and of what lies between them."""
    transfers, back = [0.0] * schedule.stages, [0.0] * schedule.stages
    for level, members in enumerate(schedule.levels[1:]):
        # In the chain the stages around the second cut hand two arrays on; only one stage's gradient has both.
        for giver in schedule.levels[level]:
            arrays = 2 if len(schedule.levels) == 4 and level in (1, 2) else 1
            costs = [pass_cost(MACHINE, [(ipus[giver], ipus[taker], arrays * PASSED_BYTES)]) for taker in members]
            transfers[giver] = back[giver] = max(cost.sync_cycles + cost.exchange_cycles for cost in costs)
    (element,) = {event.end_cycle - event.start_cycle for event in events if event.kind == "stream-in"}
    (results,) = {event.end_cycle - event.start_cycle for event in events if event.kind == "stream-out"}
    last = [event for event in events if event.ipu == ipus[-1]]
    ended = max(event.end_cycle for event in last if "stage" in event.program)
    after = sum(event.end_cycle - event.start_cycle for event in last if event.start_cycle >= ended)
    costs = costs_of(schedule, timeline)
    return replace(costs, transfer=transfers, gradient_transfer=back, element=element, collect=after - results, results=results)


def table(answers: Sequence[Answer]) -> Table:
    shown = Table(title="Cycles of an update, and what they are made of")
    for column in ("model", "schedule", "update", "bubble", "stages", "apart", "together", "rest"):
        shown.add_column(column, justify="left" if column in ("model", "schedule") else "right")
    for found in answers:
        cells = (found.timeline.makespan, found.stages, found.apart, found.together, found.rest)
        makespan, *parts = (f"{cell:,.0f}" for cell in cells)
        shown.add_row(found.model, found.schedule.name, makespan, f"{found.timeline.bubble:.1%}", *parts)
    return shown


def with_dark_colours(drawing: str) -> str:
    """An SVG of Matplotlib that follows the reader's choice of dark or light."""
    return drawing.replace("</style>", f"{DARK_STYLE}</style>", 1)


def document(answers: Sequence[Answer]) -> dict[str, Any]:
    return {
        "question": QUESTION,
        "machine": MACHINE.name,
        "sync_pattern": "singlePipeline",
        "commit": commit(),
        "versions": {"jax": jax.__version__},
        "answers": [
            {
                "model": found.model,
                "schedule": found.schedule.name,
                "emulated_cycles": found.timeline.makespan,
                "bubble": round(found.timeline.bubble, 6),
                "stages": found.stages,
                "apart": found.apart,
                "together": found.together,
                "rest": found.rest,
            }
            for found in answers
        ],
    }


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--directory", type=Path, help="where to draw the traces")
    parser.add_argument("--suffix", default="svg", choices=["svg", "png"], help="of the pictures")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where to write the record")
    chosen = parser.parse_args(arguments)
    os.environ["TILESTEP_MACHINE"], os.environ["TILESTEP_SYNC_PATTERN"] = "bow-2000", "singlePipeline"  # the platform has not started
    answers = [answer(name, concurrent=concurrent) for concurrent in (False, True) for name in SCHEDULES]
    Console(width=110).print(table(answers))
    for found in answers if chosen.directory else ():
        chosen.directory.mkdir(parents=True, exist_ok=True)
        file = chosen.directory / f"{found.model}_{found.schedule.name}.{chosen.suffix}"
        found.schedule.plot(file, timeline=found.timeline)
        if chosen.suffix == "svg":
            file.write_text(with_dark_colours(file.read_text(encoding="utf-8")), encoding="utf-8")
    if chosen.json:
        chosen.json.write_text(json.dumps(document(answers), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
