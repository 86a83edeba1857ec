"""How is a GPT-3 trained on a pod that barely holds it, and how long does the plan take to find?

    benchmarks/gpt_plans.py                                            a table
    benchmarks/gpt_plans.py --json benchmarks/results/gpt_plans.json    the record

Context 2,048, global batch 512 sequences, weights and accumulators in half precision, Adam's moments in float32 off the chip.
`tilestep.plan_training` chooses how many IPUs divide a layer, stages and the microbatch. The chosen plan is then run in a dry run by a
pipeline of its own, whose time has to be the plan's, to the cycle. Each model takes a process of its own.

Exits 0 if each model has a plan that fits, found within 180 s of this process's CPU time, and the run confirms it; else 1.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run as a script, this file is in no package

from benchmarks.commit import commit
from benchmarks.measured.predict import use_machine
from benchmarks.memory import peak_bytes

QUESTION = "How is a GPT-3 trained on a pod that barely holds it, and how long does the plan take to find?"
GLOBAL_BATCH = 512  # sequences of an update
SEARCH_AT_MOST_S = 180
SEARCHES: dict[str, dict[str, Any]] = {
    "2.7B": {"machine": "bow-pod16", "num_ipus": 16, "blocks": 4, "shards": [8, 16], "microbatch_sizes": [2, 4]},
}
_OPTIONS = {"available_memory_proportion": 0.03}  # for a product's temporaries: weights and gradients take most of a tile


def measure(name: str) -> dict[str, Any]:
    """What the search finds in this process, and what its first choice takes when it is run."""
    search = dict(SEARCHES[name])
    machine, num_ipus, blocks = (search.pop(key) for key in ("machine", "num_ipus", "blocks"))
    use_machine(machine, num_ipus)
    import jax

    import tilestep
    from benchmarks.models import gpt_layers

    model = {"2.7B": gpt_layers.GPT3_2_7B, "13B": gpt_layers.GPT3_13B}[name]
    given = gpt_layers.layers(model, blocks)
    begin = time.process_time()
    plans = tilestep.plan_training(
        **given,
        machine=machine,
        global_batch=GLOBAL_BATCH,
        schedules=["interleaved"],
        recompute=[None],
        offload=["state+accumulators"],
        plan_options=_OPTIONS,
        replays=4,
        **search,
    )
    row = {
        "model": name,
        "machine": machine,
        "parameters": sum(leaf.size for leaf in jax.tree.leaves(given["params"])),
        "search_cpu_s": time.process_time() - begin,
        "verdict": plans.verdict,
        "peak_bytes": peak_bytes(),
    }
    if not plans.plans:
        return row
    best = plans.best
    ran = run(best, given["params"], model.context)
    parts = {"plan": best.text, "step_s": best.step_s, "samples_per_s": best.samples_per_s, "limit": best.limit}
    return {**row, **parts, "step_cycles": best.step_cycles, "ran_cycles": ran, "tile_bytes": dict(best.tile_bytes)}


def run(plan: Any, params: Any, context: int) -> int:
    """Cycles of the second update of the plan's pipeline, on the machine of this process."""
    import jax
    import numpy as np

    import tilestep

    devices = jax.devices("ipu")
    pipeline = plan.pipeline(devices)
    batch = np.zeros((plan.accumulation, plan.microbatch, context + 1), np.int32)
    with tilestep.dry_run():
        zeros = jax.tree.map(lambda leaf: np.broadcast_to(np.zeros((), leaf.dtype), leaf.shape), params)
        state = pipeline.init(plan.split(zeros, devices))
        for _ in range(2):
            with tilestep.profile() as profile:
                state, loss = pipeline.step(state, batch)
                jax.block_until_ready((state, loss))
    return int(profile.emulated_cycles)


def is_good(row: dict[str, Any]) -> bool:
    """Whether a plan fits, was found in time, and took as long when it was run."""
    return "plan" in row and row["search_cpu_s"] <= SEARCH_AT_MOST_S and row["ran_cycles"] == row["step_cycles"]


def text(row: dict[str, Any]) -> str:
    """A row in words."""
    lines = [f"{row['model']} on {row['machine']}: {row['verdict']} ({row['search_cpu_s']:.0f} s of CPU time)"]
    if "plan" in row:
        full = ", ".join(f"{kind} {size:,}" for kind, size in row["tile_bytes"].items())
        lines.append(f"  {row['plan']}: an update takes {row['step_s']:.1f} s ({row['samples_per_s']:.2f} sequences/s)")
        lines.append(
            f"  planned: {row['step_cycles']:,} cycles, run: {row['ran_cycles']:,}; limited by {row['limit']}; bytes of a tile: {full}"
        )
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=list(SEARCHES), choices=list(SEARCHES))
    parser.add_argument("--one", choices=list(SEARCHES), help=argparse.SUPPRESS)
    parser.add_argument("--json", type=Path, help="write a record to this file")
    args = parser.parse_args()
    if args.one:
        print(json.dumps(measure(args.one)))
        return 0
    rows: list[dict[str, Any]] = []
    for name in args.models:
        ended = subprocess.run([sys.executable, __file__, "--one", name], check=True, stdout=subprocess.PIPE, text=True)
        rows.append(json.loads(ended.stdout.splitlines()[-1]))
        print(text(rows[-1]))
    if args.json is not None:
        args.json.write_text(json.dumps({"question": QUESTION, "commit": commit(), "rows": rows}, indent=1) + "\n", encoding="utf-8")
    return 0 if all(map(is_good, rows)) else 1


if __name__ == "__main__":
    sys.exit(main())
