"""How much does the analysis add to the time that XLA:CPU takes to compile a program?

    benchmarks/compile_time.py                       a table, one line per program
    benchmarks/compile_time.py --json benchmarks/results/compile_time.json

Each repetition is a process of its own, so that no plan is known before. Wall times are medians. The bar: reading
the HLO and planning add at most 25 % to XLA:CPU's compile time; parsing, planning and walking ResNet-50 takes under
0.3 s; a program that was planned before takes less than a tenth of that. Exits 1 where the bar is not met.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run as a script, this file is in no package

import jax
import jax.numpy as jnp
import numpy as np
from jax._src import compiler

from benchmarks.commit import commit
from benchmarks.models import resnet50, transformer
from tilestep.machine import load_machine
from tilestep.pjrt.jax_private import compat
from tilestep.pjrt.programs.analysis import partitioned_hlo
from tilestep.plan import PlanCache

REPETITIONS = 5
SHARE_AT_MOST = 0.25
RESNET_WALL_S = 0.3
CACHED_SHARE_AT_MOST = 0.1
RATE = 1e-3


def transformer_step() -> Any:
    """One training step of a 6-layer encoder of width 512 on 8 sequences of 128 tokens, in half."""
    model = transformer.Encoder(width=512, layers=6, heads=8)
    words = jax.ShapeDtypeStruct((8, 128), jnp.int32)

    def loss(params: Any, tokens: jax.Array, mask: jax.Array, segments: jax.Array) -> jax.Array:
        start, end = transformer.bert(model, params, tokens, mask, segments)
        return jnp.mean(jnp.square(start.astype(jnp.float32)) + jnp.square(end.astype(jnp.float32)))

    def step(params: Any, tokens: jax.Array, mask: jax.Array, segments: jax.Array) -> Any:
        gradients = jax.grad(loss)(params, tokens, mask, segments)
        return jax.tree.map(lambda p, g: p - RATE * g, params, gradients)

    return jax.jit(step).lower(transformer.bert_shapes(model, jnp.float16), words, words, words)


def resnet() -> Any:
    """Inference of ResNet-50 on 16 images, in half."""
    images = jax.ShapeDtypeStruct((16, resnet50.IMAGE, resnet50.IMAGE, 3), jnp.uint8)
    return jax.jit(resnet50.forward).lower(resnet50.shapes(jnp.float16), images)


PROGRAMS: dict[str, Callable[[], Any]] = {"6-layer transformer step": transformer_step, "ResNet-50": resnet}


def measure(name: str) -> dict[str, float]:
    """One repetition: wall seconds of XLA:CPU's compile, of reading its HLO, of the first plan and of the second."""
    lowered = PROGRAMS[name]()
    clock = time.perf_counter
    start = clock()
    lowered.compile()
    compiled = clock() - start
    module = lowered.compiler_ir()
    client = compat.make_host_client(1)
    options = compiler.get_compile_options(1, 1, device_assignment=np.zeros((1, 1), int)).SerializeAsString()
    start = clock()
    with module.context:
        hlo = partitioned_hlo(client, module, client.devices(), options, ())
    partitioned = clock() - start
    text = compat.hlo_text(hlo)
    plans, machine = PlanCache(), load_machine("c600")
    start = clock()
    plans.plan(text, machine, name=name, num_ipus=1)
    planned = clock() - start
    start = clock()
    plans.plan(text, machine, name=name, num_ipus=1)
    return {"compile_wall_s": compiled, "hlo_wall_s": partitioned, "plan_wall_s": planned, "again_wall_s": clock() - start}


def medians(name: str) -> dict[str, float]:
    """Medians over fresh processes."""
    found: list[dict[str, float]] = []
    for _ in range(REPETITIONS):
        done = subprocess.run([sys.executable, __file__, "--one", name], capture_output=True, text=True, check=True)
        found.append(json.loads(done.stdout.splitlines()[-1]))
    return {key: statistics.median(each[key] for each in found) for key in found[0]}


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description="how much does the analysis add to the time of a compile?")
    parser.add_argument("--json", type=Path, help="write a record to this file")
    parser.add_argument("--one", choices=PROGRAMS, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    jax.config.update("jax_platforms", "cpu")
    if options.one:
        print(json.dumps(measure(options.one)))
        return 0
    rows = {name: medians(name) for name in PROGRAMS}
    met = True
    print(f"{'program':<26}{'XLA:CPU':>10}{'HLO':>9}{'plan':>9}{'again':>9}{'added':>8}")
    for name, row in rows.items():
        share = (row["hlo_wall_s"] + row["plan_wall_s"]) / row["compile_wall_s"]
        met &= share <= SHARE_AT_MOST and row["again_wall_s"] <= CACHED_SHARE_AT_MOST * row["plan_wall_s"]
        seconds = "".join(f"{row[key]:>8.3f}s" for key in ("hlo_wall_s", "plan_wall_s", "again_wall_s"))
        print(f"{name:<26}{row['compile_wall_s']:>9.3f}s{seconds}{share:>8.0%}")
    met &= rows["ResNet-50"]["plan_wall_s"] < RESNET_WALL_S
    print("the bar is met" if met else "the bar is NOT met")
    if options.json:
        record = {"commit": commit(), "repetitions": REPETITIONS, "met": bool(met), "programs": rows}
        options.json.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    return 0 if met else 1


if __name__ == "__main__":
    raise SystemExit(main())
