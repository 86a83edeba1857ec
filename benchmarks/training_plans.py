"""How are models trained on machines that barely hold them, and how long does the plan take to find?

    benchmarks/training_plans.py                                                   a table
    benchmarks/training_plans.py --models BERT-Large --json benchmarks/results/training_plans.json    renews one row of the record

- GPT-3 2.7B on `bow-pod16` and 13B on `bow-pod64`: context 2,048, global batch 512 sequences, weights and accumulators in half
  precision, Adam's moments in float32 off the chip.
- BERT-Large on `bow-pod16`: pretraining with 128 tokens, global batch 2,048 sequences, LAMB with its state in float32 off the chip and
  divided among the replicas. Graphcore's published division is among the candidates (row TR37 of `data/training_conditions.csv`: [3,7,7,7]
  encoder layers, embedding and heads on IPU 0, four replicas, microbatches of 8). The first choice has to be at least as fast.
- A language model of 217 million parameters in plain JAX and float32, with AdamW and a context of 512, on eight IPUs of a `bow-pod16`,
  because no plan for four of them is found that fits.

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
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run as a script, this file is in no package

from benchmarks.commit import commit
from benchmarks.measured.predict import use_machine
from benchmarks.memory import peak_bytes

QUESTION = "How are models trained on machines that barely hold them, and how long does the plan take to find?"
SEARCH_AT_MOST_S = 180


@dataclass(frozen=True, kw_only=True)
class Search:
    """What is searched.

    Attributes:
        num_ipus: of `machine`.
        options: of `plan_training`, besides the model's.
        published: cuts of a division that somebody has published, whose last stage is on the first one's IPUs.
        smaller: numbers of IPUs on which no plan may be found that fits.
    """

    machine: str
    num_ipus: int
    global_batch: int
    options: Mapping[str, Any]
    published: tuple[int, ...] = ()
    smaller: tuple[int, ...] = ()


_OF_GPT: Mapping[str, Any] = {
    "schedules": ["interleaved"],
    "recompute": [None],  # each layer computes its own values again
    "offload": ["state+accumulators"],
}
_BERT_CUTS = (0, 4, 11, 18, 25, 26)
SEARCHES = {
    "GPT-3 2.7B": Search(
        machine="bow-pod16",
        num_ipus=16,
        global_batch=512,
        options={
            **_OF_GPT,
            "plan_options": {"available_memory_proportion": 0.03},  # weights and gradients take most of a tile
            "shards": [8, 16],
            "microbatch_sizes": [2, 4],
            "replays": 4,
        },
    ),
    "GPT-3 13B": Search(
        machine="bow-pod64",
        num_ipus=64,
        global_batch=512,
        options={
            **_OF_GPT,
            "plan_options": {"available_memory_proportion": 0.02},
            "shards": [32, 64],
            "microbatch_sizes": [1],
            "replays": 2,
        },
    ),
    "BERT-Large": Search(
        machine="bow-pod16",
        num_ipus=16,
        global_batch=2048,
        options={
            "schedules": ["interleaved"],
            "recompute": [None],  # each layer computes its own values again
            "offload": ["state"],
            "shard_optimizer_state": True,
            "plan_options": {"available_memory_proportion": 0.15, "partials_type": "half"},
            "microbatch_sizes": [8],
            "cuts": [_BERT_CUTS],
            "replays": 2,
        },
        published=_BERT_CUTS,
    ),
    "217M": Search(
        machine="bow-pod16",
        num_ipus=8,
        global_batch=32,
        options={
            "schedules": ["interleaved"],
            "offload": [None, "state"],
            "microbatch_sizes": [1],
            "replays": 3,
        },
        smaller=(4,),
    ),
}


def model_of(name: str) -> dict[str, Any]:
    """What `plan_training` takes of a model."""
    from benchmarks.models import bert_layers, gpt_layers, language_model

    return {
        "GPT-3 2.7B": lambda: gpt_layers.layers(gpt_layers.GPT3_2_7B, 4, 2048),
        "GPT-3 13B": lambda: gpt_layers.layers(gpt_layers.GPT3_13B, 3, 256, 8),
        "BERT-Large": lambda: bert_layers.layers(bert_layers.BERT_LARGE),
        "217M": language_model.layers,
    }[name]()


def measure(name: str) -> dict[str, Any]:
    """What the search finds in this process, and what its first choice takes when it is run."""
    search = SEARCHES[name]
    use_machine(search.machine, search.num_ipus)
    import jax

    import tilestep
    from tilestep.machine import load_machine

    given = model_of(name)
    begin = time.process_time()

    def plan(num_ipus: int) -> tilestep.TrainingPlans:
        machine = load_machine(search.machine, num_ipus=num_ipus)
        return tilestep.plan_training(**given, machine=machine, global_batch=search.global_batch, **search.options)

    smaller = {str(count): plan(count).verdict for count in search.smaller}
    plans = plan(search.num_ipus)
    row = {
        "model": name,
        "machine": search.machine,
        "commit": commit(),
        "parameters": sum(leaf.size for leaf in jax.tree.leaves(given["params"])),
        "search_cpu_s": time.process_time() - begin,
        "verdict": plans.verdict,
        "peak_bytes": peak_bytes(),
    }
    if smaller:
        row["smaller"] = smaller
    if not plans.plans:
        return row
    best, devices = plans.best, jax.devices("ipu")
    row |= {"plan": best.text, "step_s": best.step_s, "samples_per_s": best.samples_per_s, "limit": best.limit}
    row |= {"step_cycles": best.step_cycles, "tile_bytes": dict(best.tile_bytes)}
    zeros = jax.tree.map(_zeros, given["params"])
    batch = jax.tree.map(lambda leaf: _microbatches(leaf, best.accumulation, best.replicas, best.microbatch), given["microbatch"])
    with tilestep.dry_run():  # parameters that are divided take no memory either
        row["ran_cycles"], row["ran_tile_bytes"] = run(best.pipeline(devices), best.split(zeros, devices), batch)
    if search.published:
        own = next(plan for plan in plans.plans if plan.stages == search.published and plan.folded)
        row |= {"published": own.text, "published_cycles": own.step_cycles}
    return row


def run(pipeline: Any, params: Any, batch: Any) -> tuple[int, int]:
    """(cycles of a pipeline's second update, bytes on the fullest tile), on the machine of this process, in a dry run."""
    import jax

    import tilestep

    state = pipeline.init(params)
    for _ in range(2):
        with tilestep.profile() as profile:
            state, loss = pipeline.step(state, batch)
            jax.block_until_ready((state, loss))
    return int(profile.emulated_cycles), profile.groups[0].peak_tile_bytes


def _zeros(leaf: Any) -> Any:
    import numpy as np

    return np.broadcast_to(np.zeros((), leaf.dtype), leaf.shape)


def _microbatches(leaf: Any, accumulation: int, replicas: int, samples: int) -> Any:
    import numpy as np

    axes = (accumulation, *((replicas,) if replicas > 1 else ()), samples)
    return np.broadcast_to(np.zeros((), leaf.dtype), (*axes, *leaf.shape[1:]))


def is_good(row: Mapping[str, Any]) -> bool:
    """Whether a plan fits, was found in time, took as long when it was run, and no published one is faster."""
    confirmed = "plan" in row and row["ran_cycles"] == row["step_cycles"] <= row.get("published_cycles", row["step_cycles"])
    same_bytes = "plan" in row and row.get("ran_tile_bytes") in (None, sum(row["tile_bytes"].values()))
    smallest = all(verdict.startswith("none of ") for verdict in row.get("smaller", {}).values())
    return confirmed and same_bytes and smallest and row["search_cpu_s"] <= SEARCH_AT_MOST_S


def text(row: Mapping[str, Any]) -> str:
    """A row in words."""
    lines = [f"{row['model']} on {row['machine']}: {row['verdict']} ({row['search_cpu_s']:.0f} s of CPU time)"]
    if "plan" in row:
        full = ", ".join(f"{kind} {size:,}" for kind, size in row["tile_bytes"].items())
        lines.append(f"  {row['plan']}: an update takes {row['step_s']:.4g} s ({row['samples_per_s']:,.4g} sequences/s)")
        lines.append(
            f"  planned: {row['step_cycles']:,} cycles, run: {row['ran_cycles']:,}; limited by {row['limit']}; bytes of a tile: {full}"
        )
    lines += [f"  on {count} of its IPUs: {verdict}" for count, verdict in row.get("smaller", {}).items()]
    if "published_cycles" in row:
        lines.append(f"  as published ({row['published']}): {row['published_cycles']:,} cycles")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=list(SEARCHES), choices=list(SEARCHES))
    parser.add_argument("--one", choices=list(SEARCHES), help=argparse.SUPPRESS)
    parser.add_argument("--json", type=Path, help="write a record to this file; it keeps the rows of other models")
    args = parser.parse_args()
    if args.one:
        print(json.dumps(measure(args.one)))
        return 0
    rows: dict[str, dict[str, Any]] = {}
    for name in args.models:
        ended = subprocess.run([sys.executable, __file__, "--one", name], check=True, stdout=subprocess.PIPE, text=True)
        rows[name] = json.loads(ended.stdout.splitlines()[-1])
        print(text(rows[name]))
    if args.json is not None:
        kept = json.loads(args.json.read_text(encoding="utf-8"))["rows"] if args.json.exists() else []
        every = {row["model"]: row for row in kept} | rows
        record = {"question": QUESTION, "rows": [every[name] for name in SEARCHES if name in every]}
        args.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return 0 if all(map(is_good, rows.values())) else 1


if __name__ == "__main__":
    sys.exit(main())
