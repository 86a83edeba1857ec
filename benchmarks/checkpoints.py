"""What does saving in the background cost a training loop, against Orbax by hand?

    benchmarks/checkpoints.py                          a table: seconds of a loop without saving, with Orbax by hand, and with Checkpoints
    benchmarks/checkpoints.py --turns 2 --json benchmarks/results/checkpoints.json

The state has 200 MB of random numbers, as fifty arrays. A step takes about 110 ms where nothing else runs, and every 50 steps the state is
saved. By hand: `orbax.checkpoint.StandardCheckpointer`, which writes in the background, between calls of `repeat`. `Checkpoints` copies
the state, computes digests and writes in the background, within one call of `repeat`; the last step of each loop is saved by both, and
waited for. The sides take turns in one process. Wall time is reported, never judged.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run as a script, this file is in no package

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp

from benchmarks.commit import commit
from benchmarks.dispatch import summary
from tilestep.train import Checkpoints, repeat

ARRAYS, WIDTH, EVERY, PRODUCTS = 50, 1000, 50, 6


def make_state() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    return {f"w{index}": jnp.asarray(rng.standard_normal((WIDTH, WIDTH), np.float32)) for index in range(ARRAYS)}


def step(state: dict[str, Any]) -> dict[str, Any]:
    """Products keep the processor busy; each array changes."""
    kept = functools.reduce(jnp.matmul, [state[f"w{index}"] for index in range(PRODUCTS + 1)])
    return {name: value * 0.999 + 1e-6 * kept for name, value in state.items()}


def plain(state: Any, steps: int, folder: Path) -> None:
    jax.block_until_ready(repeat(steps, step, state, donate=False, chunk=EVERY))


def by_hand(state: Any, steps: int, folder: Path) -> None:
    with ocp.StandardCheckpointer() as checkpointer:
        for done in range(0, steps, EVERY):
            state = repeat(EVERY, step, state, donate=False, chunk=EVERY)
            checkpointer.save(folder / str(done + EVERY), state)
        checkpointer.wait_until_finished()


def by_checkpoints(state: Any, steps: int, folder: Path) -> None:
    jax.block_until_ready(repeat(steps, step, state, donate=False, checkpoints=Checkpoints(folder, every=EVERY), chunk=EVERY))


SIDES = {"no saving": plain, "Orbax by hand": by_hand, "Checkpoints": by_checkpoints}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=150, help=f"of a loop, a multiple of {EVERY} (default: %(default)s)")
    parser.add_argument("--turns", type=int, default=5, help="of each side (default: %(default)s)")
    parser.add_argument("--json", type=Path, help="where to write the record")
    flags = parser.parse_args()
    state = make_state()
    walls: dict[str, list[float]] = {name: [] for name in SIDES}
    for turn in range(flags.turns + 1):
        for name, side in SIDES.items():
            with tempfile.TemporaryDirectory() as folder:
                start = time.perf_counter()
                side(state, EVERY if not turn else flags.steps, Path(folder))
                if turn:  # the first one compiles
                    walls[name].append(time.perf_counter() - start)
                shutil.rmtree(folder, ignore_errors=True)
                Path(folder).mkdir(exist_ok=True)
    medians = {name: statistics.median(values) for name, values in walls.items()}
    for name, median in medians.items():
        print(f"{name:<16}{median:8.2f} s   {median / medians['no saving']:.3f} of no saving")
    ratio = medians["Checkpoints"] / medians["Orbax by hand"]
    print(f"Checkpoints take {ratio:.3f} of Orbax by hand")
    if flags.json is not None:
        record = {
            "question": __doc__.splitlines()[0],
            "commit": commit(),
            "host": {"cpus": os.cpu_count(), "load": os.getloadavg()[0]},
            "versions": {name: version(name) for name in ("tilestep", "jax", "orbax-checkpoint")},
            "state_bytes": 4 * ARRAYS * WIDTH * WIDTH,
            "every": EVERY,
            "steps": flags.steps,
            "answers": [{"name": name, "wall_s": summary(values)} for name, values in walls.items()],
            "ratio": ratio,
        }
        flags.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
