"""How long does a dry run of a large pod take, and how much memory?

    benchmarks/pod_scale.py                     16, 64 and 256 IPUs, one after the other
    benchmarks/pod_scale.py --ipus 16 64        some
    benchmarks/pod_scale.py --simulated 0       all IPUs are simulated, and not the four of one replica alone
    benchmarks/pod_scale.py --profile 64        where the time of a further update goes
    benchmarks/pod_scale.py --simulated 4 0 --json benchmarks/results/pod_scale.json

Pretraining of BERT-Large with 128 tokens: replicas of four IPUs, 64 microbatches of 8 sequences, LAMB with its state off chip and divided
among the replicas. Each size takes a process of its own, which runs three updates in a dry run and asks for the emulated time after each.
The first has all compilations in it. Both the wall time and the process's CPU time of each are reported, never judged: on a busy computer
only CPU times compare. The emulated times must not depend on how many IPUs are simulated.
"""

from __future__ import annotations

import argparse
import cProfile
import itertools
import json
import os
import pstats
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run as a script, this file is in no package

import jax
import jax.numpy as jnp
import numpy as np
import optax

import tilestep
from benchmarks.commit import commit
from benchmarks.measured.predict import use_machine
from benchmarks.measured.training.bert import stages_of
from benchmarks.models import pretraining, transformer
from tilestep.train import Pipeline

IPUS = (16, 64, 256)
MICROBATCHES, ROWS, TOKENS, MASKED, WORDS = 64, 8, 128, 20, 30_400
OF_A_REPLICA = 4
UPDATES = 3


def measure(num_ipus: int, simulated: int, profile: bool) -> dict[str, Any]:
    """What a pod of so many IPUs takes in this process. Args: simulated: of them; 0: all."""
    begin = time.perf_counter(), time.process_time()
    use_machine(f"bow-pod{num_ipus}", num_ipus)
    if simulated:
        os.environ["TILESTEP_SIMULATED_IPUS"] = str(simulated)
    encoder = transformer.BERT_LARGE
    model = pretraining.Pretraining(
        encoder=encoder, vocabulary=WORDS, tokens=TOKENS, masked=MASKED, packed=1, dropout=0.1, attention_dropout=0.0
    )
    stages = stages_of("[3,7,7,7]", OF_A_REPLICA, encoder.layers, "heads")
    params = [[pretraining.parameters(model, part) for part in parts] for _, parts in stages]
    replicas = num_ipus // OF_A_REPLICA
    devices = jax.devices("ipu")
    pipeline = Pipeline(
        pretraining.stages(model, [parts for _, parts in stages]),
        optax.lamb(1e-3),
        MICROBATCHES,
        devices=devices,
        device_mapping=tuple(ipu for ipu, _ in stages),
        replicas=replicas,
        reduction="mean",
        offload_optimizer_state=True,
        shard_optimizer_state=True,
        tied=([(0, 0, "words"), (len(stages) - 1, len(stages[-1][1]) - 1, "words")],),
        outfeed_loss=True,
        strict=False,
    )
    element = jax.tree.map(lambda shape: np.zeros((MICROBATCHES, replicas, *shape.shape), shape.dtype), pretraining.element(model, ROWS))
    updates: list[dict[str, float]] = []
    with tilestep.dry_run(), jax.default_device(devices[0]):
        make = jax.jit(lambda: jax.tree.map(lambda shape: jnp.zeros(shape.shape, shape.dtype), params))
        state = pipeline.init(make())
        key = jax.random.key(0, impl="unsafe_rbg")
        for number in range(UPDATES):
            profiler = cProfile.Profile() if profile and number == UPDATES - 1 else None
            wall, cpu = (time.perf_counter(), time.process_time()) if updates else begin
            if profiler is not None:
                profiler.enable()
            with tilestep.profile() as taken:
                state, loss = pipeline.step(state, element, key=key)
                jax.block_until_ready((state, loss))
            if profiler is not None:
                profiler.disable()
                pstats.Stats(profiler, stream=sys.stderr).sort_stats("tottime").print_stats(45)
            spent = {"wall_s": time.perf_counter() - wall, "cpu_s": time.process_time() - cpu}
            updates.append({**spent, "emulated_s": taken.emulated_s})
    return {
        "ipus": num_ipus,
        "simulated": simulated or num_ipus,
        "updates": updates,
        "peak_bytes": 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
    }


def table(rows: list[dict[str, Any]]) -> str:
    """CPU seconds of each update, and memory."""
    lines = ["IPUs  simulated   first update  second   third  peak RSS   an update takes"]
    for row in rows:
        first, second, third = (update["cpu_s"] for update in row["updates"])
        emulated = row["updates"][-1]["emulated_s"]
        lines.append(
            f"{row['ipus']:4}  {row['simulated']:9}   "
            f"{first:10.1f} s {second:6.2f} s {third:6.2f} s {row['peak_bytes'] / 1e9:6.2f} GB  {emulated:10.6f} s"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ipus", type=int, nargs="+", default=IPUS, choices=IPUS)
    parser.add_argument(
        "--simulated", type=int, nargs="+", default=[OF_A_REPLICA], choices=(OF_A_REPLICA, 0), help="IPUs that are simulated; 0: all"
    )
    parser.add_argument("--profile", type=int, choices=IPUS, help="one size, with a profile of Python's functions")
    parser.add_argument("--one", type=int, choices=IPUS, help=argparse.SUPPRESS)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    if args.one or args.profile:
        print(json.dumps(measure(args.one or args.profile, args.simulated[0], bool(args.profile))))
        return
    rows: list[dict[str, Any]] = []
    for simulated, num_ipus in itertools.product(args.simulated, args.ipus):
        words = [sys.executable, __file__, "--one", str(num_ipus), "--simulated", str(simulated)]
        rows.append(json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout.splitlines()[-1]))
    print(table(rows))
    for num_ipus in args.ipus:
        found = {tuple(update["emulated_s"] for update in row["updates"]) for row in rows if row["ipus"] == num_ipus}
        if len(found) > 1:
            sys.exit(f"the emulated times of {num_ipus} IPUs depend on how many are simulated: {found}")
    if args.json is not None:
        args.json.write_text(json.dumps({"commit": commit(), "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
