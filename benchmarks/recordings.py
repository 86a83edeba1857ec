"""How large is a recording, and how long does it take to write, open and play again?

    benchmarks/recordings.py                                         a table
    benchmarks/recordings.py --json benchmarks/results/recordings.json

Sizes are exact. Wall time is reported, never judged.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run as a script, this file is in no package

import numpy as np

from benchmarks.commit import commit
from tilestep.recording.call_tables import has_history, history_of
from tilestep.recording.replay import replay
from tilestep.recording.schema import TABLES
from tilestep.recording.storage.container import Builder, read_recording, write_recording
from tilestep.recording.tables import Tables

ROOT = Path(__file__).resolve().parents[1]
RANDOM_EVENTS, RANDOM_LANES = 1_000_000, 256
STEPS_OF_A_POD = 50
POD = f"""
import jax, jax.numpy as jnp
from functools import partial
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
mesh = Mesh(jax.devices(), ("data",))
rows, whole = NamedSharding(mesh, P("data")), NamedSharding(mesh, P())

@partial(jax.jit, donate_argnums=0)
@partial(jax.shard_map, mesh=mesh, in_specs=(P(), P("data")), out_specs=P())
def step(weights, batch):
    loss = lambda weights: jnp.mean(jnp.tanh(batch @ weights) ** 2)
    return weights - 0.1 * jax.lax.pmean(jax.grad(loss)(weights), "data")

weights = jax.device_put(jnp.ones((512, 512)), whole)
batch = jax.device_put(jnp.ones((2048, 512)), rows)
for _ in range({STEPS_OF_A_POD}):
    weights = step(weights, batch)
weights.block_until_ready()
"""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """One recording.

    Attributes:
        name: of what it is.
        file_bytes: whole.
        bare_bytes: without the journal and the HLO.
        events: in it.
        calls: in its journal.
        write_wall_s, open_wall_s, replay_wall_s: to write it, to read every column, to play its journal.
    """

    name: str
    file_bytes: int
    bare_bytes: int
    events: int
    calls: int
    write_wall_s: float
    open_wall_s: float
    replay_wall_s: float


def timed(action: Callable[[], Any]) -> tuple[float, Any]:
    begin = time.perf_counter()
    result = action()
    return time.perf_counter() - begin, result


def recorded(folder: Path, *arguments: str) -> Tables:
    """Runs a program under `tilestep run --report`."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("JAX_", "TILESTEP_", "XLA_"))}
    command = (sys.executable, "-m", "tilestep", "run", "--report", str(folder), *arguments)
    subprocess.run(command, check=True, cwd=ROOT, env=environ, capture_output=True)
    return read_recording(folder / "run.tilestep")


def random_events() -> Tables:
    """Events of random lengths, which nothing can compress well."""
    random = np.random.default_rng(0)
    builder = Builder(kind="run")
    for lane in range(RANDOM_LANES):
        builder.append("lanes", kind=1, number=lane, target=-1)
    per_lane = RANDOM_EVENTS // RANDOM_LANES
    count = per_lane * RANDOM_LANES
    durations = random.integers(10, 1_000_000, size=(per_lane, RANDOM_LANES))
    ends = durations.cumsum(axis=0)
    builder.extend(
        "events",
        lane=np.tile(np.arange(RANDOM_LANES), per_lane),
        kind=np.arange(count) % 5,
        start=(ends - durations).ravel(),
        end=ends.ravel(),
        run=np.full(count, -1),
        program=np.full(count, -1),
        cause=np.where(np.arange(count) < RANDOM_LANES, -1, np.arange(count) - RANDOM_LANES),
    )
    return builder.tables()


def without_journal(tables: Tables) -> Tables:
    """The recording without journal and HLO."""
    builder = Builder(kind=str(tables.manifest["kind"]))
    for text in tables.strings:
        builder.string(text)
    for table, columns in TABLES.items():
        if table not in ("calls", "numbers") and tables.has(table):
            builder.extend(table, **{name: tables.column(table, name) for name in columns})
    for text in ("trees", "machine", "profile"):
        if tables.text(text):
            builder.put_text(text, tables.text(text))
    return builder.tables()


def read_all(path: Path) -> Tables:
    tables = read_recording(path)
    for table, columns in TABLES.items():
        for name in columns:
            tables.column(table, name)
    return tables


def answer(name: str, tables: Tables, folder: Path) -> Answer:
    whole, bare = folder / "whole.tilestep", folder / "bare.tilestep"
    write_wall_s, _ = timed(lambda: write_recording(whole, tables))
    write_recording(bare, without_journal(tables))
    open_wall_s, read = timed(lambda: read_all(whole))
    replay_wall_s, _ = timed(lambda: replay(history_of(read))) if has_history(read) else (0.0, None)
    return Answer(
        name=name,
        file_bytes=whole.stat().st_size,
        bare_bytes=bare.stat().st_size,
        events=tables.rows("events"),
        calls=tables.rows("calls"),
        write_wall_s=round(write_wall_s, 3),
        open_wall_s=round(open_wall_s, 3),
        replay_wall_s=round(replay_wall_s, 3),
    )


def answers(only: str) -> Iterator[Answer]:
    pod = ("--machine", "bow-pod256", "--dry-run", "-c", POD)
    questions: tuple[tuple[str, Callable[[Path], Tables]], ...] = (
        ("examples/mnist_plain.py", lambda folder: recorded(folder, "examples/mnist_plain.py")),
        ("examples/pipeline_transformer.py", lambda folder: recorded(folder, "examples/pipeline_transformer.py")),
        (f"{STEPS_OF_A_POD} steps on 256 IPUs", lambda folder: recorded(folder, *pod)),
        (f"{RANDOM_EVENTS:,} random events", lambda _: random_events()),
    )
    for name, make in questions:
        if only in name:
            with tempfile.TemporaryDirectory() as folder:
                yield answer(name, make(Path(folder)), Path(folder))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="TEXT", help="recordings whose name has TEXT")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the record to FILE")
    arguments = parser.parse_args()
    found = list(answers(arguments.only))
    print(f"{'recording':36}{'file':>12}{'without':>12}{'events':>11}{'calls':>9}{'write s':>9}{'open s':>8}{'replay s':>9}")
    for row in found:
        print(
            f"{row.name:36}{row.file_bytes:12,}{row.bare_bytes:12,}{row.events:11,}{row.calls:9,}"
            f"{row.write_wall_s:9.2f}{row.open_wall_s:8.2f}{row.replay_wall_s:9.2f}"
        )
    if arguments.json is not None:
        record = {
            "question": (__doc__ or "").splitlines()[0],
            "commit": commit(),
            "versions": {name: version(name) for name in ("jax", "numpy", "tilestep")},
            "answers": [asdict(row) for row in found],
        }
        arguments.json.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
