"""How much faster are phases whose weights lie in streaming memory where half of the IPUs may load while the others compute?

    benchmarks/phases.py                                             a table
    benchmarks/phases.py --json benchmarks/results/phases.json       the record

Four emulated IPUs, A to D, run eight stages one after the other: the even ones on A and C, the odd ones on B and D. All weights are in
streaming memory (`offload_optimizer_state={"parameters": True}`). A stage's weights are loaded by a task of their own, while the stage
before computes if the sync pattern lets them. A stage is a feed-forward block whose weights serve several layers, as ALBERT's do: as many
as make compute take about as long as the load.

    replicas     A and C have the whole block each, for half of the rows
    mesh         A and C have half of the block each, for all rows: they sum their results, which B and D need not wait for
    infeed       one IPU for each of four stages, eight microbatches from an infeed, all weights on the chips

Told are, under each sync pattern, the cycles of a run, and of one load and one stage's compute. Cycles are exact: no clock is read.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run as a script, this file is in no package

from benchmarks.commit import commit

QUESTION = "How much faster are phases whose weights lie in streaming memory where half of the IPUs may load while the others compute?"
MACHINE = "bow-2000"
PATTERNS = ("full", "singlePipeline", "replicaAndLadder")
STAGES, WIDTH, ROWS = 8, 512, 1024
LAYERS = {"replicas": 23, "mesh": 10}  # that share a stage's weights
FORMS = ("replicas", "mesh", "infeed")
INFEED_STAGES, INFEED_MICROBATCHES = 4, 8


def block(params: Any, x: Any, *, layers: int) -> Any:
    """Some residual layers with the same weights."""
    import jax

    def layer(x: Any, _: None) -> tuple[Any, None]:
        return x + jax.nn.gelu(x @ params["up"]) @ params["down"], None

    return jax.lax.scan(layer, x, None, length=layers)[0]


def phased(form: str, *, training: bool) -> tuple[Any, Any, Any]:
    """(a pipeline of phases, its parameters, a batch)."""
    import jax
    import numpy as np
    import optax
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    from tilestep.train import Pipeline

    ipus, layers = jax.devices("ipu"), LAYERS[form]

    def stage(params: Any, x: Any) -> Any:
        return block(params, x, layers=layers)

    def loss(params: Any, x: Any) -> Any:
        return (block(params, x, layers=layers) ** 2).mean()

    shapes = {"up": (WIDTH, 4 * WIDTH), "down": (4 * WIDTH, WIDTH)}
    params: list[Any] = [{name: np.zeros(shape, np.float16) for name, shape in shapes.items()} for _ in range(STAGES)]
    shape, options = (1, ROWS, WIDTH), {"device_mapping": [0, 1] * (STAGES // 2), "replicas": 2}
    if form == "replicas":
        shape = (1, 2, ROWS, WIDTH)
    else:
        pairs = [Mesh(np.array(pair), ("half",)) for pair in (ipus[0::2], ipus[1::2])]
        halves = {"up": PartitionSpec(None, "half"), "down": PartitionSpec("half", None)}
        for number, own in enumerate(params):
            for name in own:
                own[name] = jax.device_put(own[name], NamedSharding(pairs[number % 2], halves[name]))
        options = {"device_mapping": pairs * (STAGES // 2)}
    pipeline = Pipeline(
        [*[stage] * (STAGES - 1), loss if training else stage],
        optax.sgd(1e-3) if training else None,
        1,
        pipeline_schedule="sequential",
        offload_optimizer_state={"parameters": True},
        recompute="full" if training else None,
        devices=ipus,
        strict=False,
        **options,
    )
    return pipeline, params, np.zeros(shape, np.float16)


def fed() -> Any:
    """Two updates of a pipeline whose elements come from an infeed."""
    import jax
    import numpy as np
    import optax

    from tilestep.train import InfeedQueue, Pipeline

    def stage(params: Any, x: Any) -> Any:
        return block(params, x, layers=1)

    def loss(params: Any, x: Any) -> Any:
        return (block(params, x, layers=1) ** 2).mean()

    params = [{"up": np.zeros((WIDTH, 4 * WIDTH), np.float16), "down": np.zeros((4 * WIDTH, WIDTH), np.float16)}] * INFEED_STAGES
    stages = [*[stage] * (INFEED_STAGES - 1), loss]
    pipeline = Pipeline(stages, optax.sgd(1e-3), INFEED_MICROBATCHES, devices=jax.devices("ipu"))
    infeed = InfeedQueue([np.zeros((ROWS, WIDTH), np.float16)] * (3 * INFEED_MICROBATCHES))
    state = jax.block_until_ready(pipeline.run(pipeline.init(params), infeed))
    return lambda: pipeline.run(state, infeed, repeat_count=2)


def told(form: str, *, training: bool) -> dict[str, int]:
    """Cycles of one run after a first one, on the machine of this process; of one load and one forward, each the longest."""
    import jax

    import tilestep

    with tilestep.dry_run():
        if form == "infeed":
            run = fed()
        else:
            pipeline, params, batch = phased(form, training=training)
            state, _ = jax.block_until_ready(pipeline.step(pipeline.init(params), batch))

            def run() -> Any:
                return pipeline.step(state, batch)

        with tilestep.profile() as profile:
            jax.block_until_ready(run())
    return {
        "cycles": profile.emulated_cycles,
        "load_cycles": typical(profile.timeline, "load_parameters", ("host-call",)),
        "forward_cycles": typical(profile.timeline, "_forward", ("compute", "exchange", "sync", "collective")),
    }


def typical(events: Any, name: str, kinds: tuple[str, ...]) -> int:
    """Cycles of a task on the IPU that takes longest: the median over the stages' programs; 0 if there is none.

    Args: name: with which the programs' names end. kinds: of the events that count; each run has one of the first kind.
    """
    spent: dict[str, dict[int, int]] = {}
    runs: dict[tuple[str, int], int] = {}
    for event in events:
        if event.program.endswith(name) and event.kind in kinds:
            own = spent.setdefault(event.program, {})
            own[event.ipu] = own.get(event.ipu, 0) + event.end_cycle - event.start_cycle
            runs[event.program, event.ipu] = runs.get((event.program, event.ipu), 0) + (event.kind == kinds[0])
    return int(median(max(cycles // runs[program, ipu] for ipu, cycles in own.items()) for program, own in spent.items())) if spent else 0


def measured(pattern: str) -> dict[str, dict[str, int]]:
    """What each form takes under one sync pattern, in a process of its own."""
    command = [sys.executable, str(Path(__file__).resolve()), "--told"]
    environ = {**os.environ, "TILESTEP_MACHINE": MACHINE, "TILESTEP_SYNC_PATTERN": pattern, "JAX_PLATFORMS": "ipu,cpu"}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{pattern} could not be measured:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def record(found: dict[str, dict[str, dict[str, int]]]) -> dict[str, Any]:
    """What the JSON file holds. Args: found: by sync pattern and form."""
    return {
        "question": QUESTION,
        "machine": MACHINE,
        "commit": commit(),
        "versions": {"python": ".".join(map(str, sys.version_info[:3])), "jax": version("jax"), "tilestep": version("tilestep")},
        "model": {"stages": STAGES, "width": WIDTH, "rows": ROWS, "layers": LAYERS, "dtype": "float16"},
        "emulated": {
            form: {pattern: found[pattern][form] for pattern in PATTERNS}
            | {"full_by_replica_and_ladder": round(found["full"][form]["cycles"] / found["replicaAndLadder"][form]["cycles"], 3)}
            for form in found["full"]
        },
    }


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=QUESTION)
    parser.add_argument("--json", type=Path, help="where to write the record")
    parser.add_argument("--told", action="store_true", help="measure in this process, and print JSON")
    options = parser.parse_args(arguments)
    if options.told:
        cases = [(form, training) for form in ("replicas", "mesh") for training in (False, True)] + [("infeed", True)]
        print(json.dumps({_name(form, training): told(form, training=training) for form, training in cases}))
        return
    found = {pattern: measured(pattern) for pattern in PATTERNS}
    print(f"{'':22}" + "".join(f"{pattern:>18}" for pattern in PATTERNS) + f"{'load':>14}{'forward':>14}{'full/ladder':>13}")
    for form, row in record(found)["emulated"].items():
        cells = "".join(f"{row[pattern]['cycles']:>18,}" for pattern in PATTERNS)
        last = row["replicaAndLadder"]
        print(f"{form:22}{cells}{last['load_cycles']:>14,}{last['forward_cycles']:>14,}{row['full_by_replica_and_ladder']:>13.2f}")
    if options.json:
        options.json.write_text(json.dumps(record(found), indent=1) + "\n")


def _name(form: str, training: bool) -> str:
    return form if form == "infeed" else f"{form}, {'training' if training else 'inference'}"


if __name__ == "__main__":
    main()
