"""Does a run that is killed at any moment, and goes on from its checkpoint, end with the bits of one that nothing happened to?

    benchmarks/kills.py                                                        one kill of each kind of run
    benchmarks/kills.py --kills 200 --json benchmarks/results/kills.json       adds to the record until it has so many
    benchmarks/kills.py --kills 3 --only "zero bubble"

Each kind of run is made once without a kill. Then it is killed with SIGKILL, started again, killed again, and so on until it ends. It is
killed when its dataset is asked for some element, or up to 50 ms later; both are drawn. So most kills come amid a step, the copy of the
state, the digests, the files or their renaming, and some while a run begins. Of two processes one is killed, and the other a moment later.
Other runs are forked before JAX has started, because its import takes longer than they do. They find what the first one has compiled.

An outcome says when the run was killed, which checkpoint was whole then, and whether the run that went on has ended with equal bits: of the
state and of what the outfeed had.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import importlib
import mmap
import os
import random
import shutil
import signal
import socket
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run as a script, this file is in no package

import jax
import jax.numpy as jnp
import numpy as np
import optax

from benchmarks.outcomes import keep, kept
from tilestep import train
from tilestep.train import Checkpoints, InfeedQueue, OutfeedQueue, Pipeline, Replicas, repeat

COUNT: Final = 4  # microbatches for each update
UPDATES: Final = 30
EVERY: Final = 2  # updates from one checkpoint to the next
MOST_LATER_WALL_S: Final = 0.05  # from the element to the kill
LIMIT_WALL_S: Final = 1500.0  # of one run, on a machine however slow
MOST_KILLS: Final = 8  # of one run, until it may end


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a run is. Attributes: folder: of its checkpoints. process: its number. asked: elements that each process has been asked for."""

    folder: Path
    process: int
    asked: mmap.mmap

    def numbered(self) -> Iterator[np.ndarray]:
        """Elements float32[4, 3], each another one."""
        index = 0
        while True:
            self.asked[8 * self.process : 8 * self.process + 8] = (index + 1).to_bytes(8, "little")
            yield np.random.RandomState(index).randn(4, 3).astype(np.float32)
            index += 1


Result = tuple[Any, Any]  # the state, and what the outfeed had


def looped(place: Place, *, optimizer: optax.GradientTransformation, replicas: int | None = None, platform: str = "cpu") -> Result:
    """A loop whose carry has the state of an optimiser and a random key."""
    own = None if replicas is None else Replicas(replicas) if replicas else Replicas()
    outfeed = OutfeedQueue()

    def body(carry: Any, x: Any) -> Any:
        w, state, key = carry
        key, noise = jax.random.split(key)
        loss, gradient = jax.value_and_grad(lambda w: jnp.mean((jnp.tanh(x @ w) - jax.random.uniform(noise)) ** 2))(w)
        updates, state = optimizer.update(gradient, state, w)
        outfeed.enqueue(loss)
        return optax.apply_updates(w, updates), state, key

    with jax.default_device(jax.local_devices(backend=platform)[0]):
        w = jnp.ones((3, 2))
        carry = w, optimizer.init(w), jax.random.key(0)
        with InfeedQueue(place.numbered, replicas=own) as infeed:
            checkpoints = Checkpoints(place.folder, every=COUNT * EVERY)
            return repeat(COUNT * UPDATES, body, carry, infeed, outfeed, replicas=own, checkpoints=checkpoints), outfeed.dequeue()


def piped(place: Place, *, stages: int = 2, platform: str = "cpu", several: bool = False, **options: Any) -> Result:
    """A pipeline with random numbers, on a device for each stage; with `several`, one of each process."""
    wide = [lambda w, x, *, key: jnp.tanh(x @ w) + 0.1 * jax.random.normal(key, (4, 3))] * (stages - 1)
    devices = [next(each for each in jax.devices() if each.process_index == process) for process in range(2)] if several else None
    pipeline = Pipeline(
        [*wide, lambda w, x: ((x @ w - 1) ** 2).mean()],
        optax.adam(1e-2),
        COUNT,
        devices=devices or jax.devices(platform)[:4],
        outfeed_loss=True,
        **options,
    )
    state = pipeline.init([np.eye(3, dtype=np.float32)] * (stages - 1) + [np.ones((3, 2), np.float32)])
    outfeed = OutfeedQueue()
    with InfeedQueue(place.numbered, replicas=options.get("replicas")) as infeed:
        checkpoints = Checkpoints(place.folder, every=EVERY)
        state = pipeline.run(state, infeed, outfeed, repeat_count=UPDATES, key=jax.random.key(1), checkpoints=checkpoints)
    return state, outfeed.dequeue()


KINDS: Final[dict[str, Callable[[Place], Result]]] = {
    "loop": functools.partial(looped, optimizer=optax.adam(0.1)),
    "accumulation": functools.partial(looped, optimizer=train.gradient_accumulation(optax.adam(0.1), COUNT)),
    "replicas": functools.partial(looped, optimizer=train.cross_replica(optax.adam(0.1)), replicas=2),
    "loop on ipu": functools.partial(looped, optimizer=optax.adam(0.1), platform="ipu"),
    "sequential": functools.partial(piped, pipeline_schedule="sequential"),
    "grouped": piped,
    "interleaved": functools.partial(piped, pipeline_schedule="interleaved"),
    "looped": functools.partial(piped, stages=4, pipeline_schedule="looped", device_mapping=[0, 1, 0, 1]),
    "zero bubble": functools.partial(piped, pipeline_schedule="zero_bubble"),
    "stale": functools.partial(piped, pipeline_schedule="stale"),
    "stashed": functools.partial(piped, pipeline_schedule="stashed"),
    "one program": functools.partial(piped, program="single", device_mapping=[0, 0]),
    "offloaded": functools.partial(piped, offload_optimizer_state=True),
    "divided": functools.partial(piped, replicas=2, shard_optimizer_state=True),
    "pipeline on ipu": functools.partial(piped, platform="ipu"),
    "two processes": functools.partial(looped, optimizer=train.cross_replica(optax.adam(0.1)), replicas=0),
    "pipeline of two processes": functools.partial(piped, several=True),
}
PROCESSES: Final = {kind: 2 if "two processes" in kind else 1 for kind in KINDS}


def digest(tree: Any) -> str:
    """Of what this process has of a tree."""
    found = hashlib.sha256()
    for path, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]:
        if isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            leaf = jax.random.key_data(leaf)
        shards = [shard.data for shard in leaf.addressable_shards] if isinstance(leaf, jax.Array) else [leaf]
        found.update(jax.tree_util.keystr(path).encode() + b"".join(np.asarray(each).tobytes() for each in shards))
    return found.hexdigest()[:16]


@dataclass(frozen=True, kw_only=True)
class Running:
    """The processes of one run. Attributes: pids: of them. asked: as a Place has it. ends: files that get each process's digest."""

    pids: list[int]
    asked: mmap.mmap
    ends: list[Path]

    def elements(self) -> int:
        """How many elements the first process's dataset has been asked for."""
        return int.from_bytes(self.asked[:8], "little")


def started(kind: str, folder: Path) -> Running:
    """Starts a run of a kind, whose checkpoints are in a folder."""
    count = PROCESSES[kind]
    with socket.create_server(("localhost", 0)) as server:
        port = server.getsockname()[1]
    folder.with_name(f"{folder.name}.asked").unlink(missing_ok=True)
    asked = _mapped(folder.with_name(f"{folder.name}.asked"), 8 * count)
    ends = [folder.with_name(f"{folder.name}.{process}") for process in range(count)]
    running = Running(pids=[], asked=asked, ends=ends)
    if count > 1:  # their watchdogs want processes of their own
        for process in range(count):
            words = [sys.executable, __file__, "--work", *map(str, (kind, folder, process, ends[process], port))]
            running.pids.append(os.posix_spawn(sys.executable, words, os.environ))
        return running
    pid = os.fork()
    if not pid:
        _work(kind, Place(folder=folder, process=0, asked=asked), ends[0], port)
    running.pids.append(pid)
    return running


def _mapped(path: Path, size: int) -> mmap.mmap:
    if not path.exists():
        path.write_bytes(bytes(size))
    with path.open("r+b") as file:
        return mmap.mmap(file.fileno(), size)


def _work(kind: str, place: Place, end: Path, port: int) -> None:
    """The process that runs it. One that was forked ends here."""
    try:
        with open(end.with_suffix(f"{end.suffix}.log"), "a", encoding="utf-8") as log:
            os.dup2(log.fileno(), 1)
            os.dup2(log.fileno(), 2)
        jax.config.update("jax_platforms", "ipu,cpu" if "ipu" in kind else "cpu")
        jax.config.update("jax_compilation_cache_dir", str(place.folder.parent / "compiled"))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
        jax.config.update("jax_num_cpu_devices", 4 if PROCESSES[kind] == 1 else 1)
        if PROCESSES[kind] > 1:
            train.start_processes(coordinator_address=f"localhost:{port}", num_processes=2, process_id=place.process)
        end.write_text(digest(KINDS[kind](place)), encoding="utf-8")
        sys.stdout.flush()
        if PROCESSES[kind] == 1:
            os._exit(0)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)


def ended(running: Running) -> list[str]:
    """The digests of a run that nobody kills. Raises: RuntimeError with what it has printed, if it has failed or takes too long."""
    limit = time.monotonic() + LIMIT_WALL_S
    left = list(running.pids)
    while left and time.monotonic() < limit:
        left = [pid for pid in left if os.waitpid(pid, os.WNOHANG)[0] == 0]
        time.sleep(0.01)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    if left or not all(end.exists() for end in running.ends):
        logs = "\n".join(end.with_suffix(f"{end.suffix}.log").read_text(encoding="utf-8")[-4000:] for end in running.ends)
        raise RuntimeError(f"a run {'has not ended' if left else 'has failed'}:\n{logs}")
    return [end.read_text(encoding="utf-8") for end in running.ends]


def killed(running: Running, element: int, later_wall_s: float, victim: int) -> bool:
    """Kills a run when its dataset is asked for an element, or a moment later. Returns: False: it had ended."""
    limit = time.monotonic() + LIMIT_WALL_S
    while running.elements() < element and time.monotonic() < limit and not running.ends[0].exists():
        time.sleep(0.001)
    time.sleep(later_wall_s)
    if running.ends[0].exists() or time.monotonic() >= limit:
        return False
    for pid in (running.pids[victim], *(pid for pid in running.pids if pid != running.pids[victim])):
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    return True


def latest(folder: Path) -> int:
    """The newest step of a folder that is whole; 0 if there is none. JAX has not started here, so the folder is read without it."""
    parts = [{int(step.name) for step in part.iterdir() if step.name.isdigit()} for part in folder.glob("process-*")]
    return max(set.intersection(*parts), default=0) if parts else 0


def chain(kind: str, whole: list[str], folder: Path, rng: random.Random, most: int) -> list[dict[str, Any]]:
    """The outcomes of a run that is killed some times, `most` at most, and then ends."""
    total = COUNT * UPDATES * (2 if kind in ("replicas", "divided") else 1)
    outcomes: list[dict[str, Any]] = []
    done = 0.0  # of the run, as its latest checkpoint has it
    while len(outcomes) < most:
        element = round(total * (done + rng.uniform(0.0, 1.0 - done) / 2))
        later_wall_s, victim = rng.uniform(0.0, MOST_LATER_WALL_S), rng.randrange(PROCESSES[kind])
        running = started(kind, folder)
        if not killed(running, element, later_wall_s, victim):
            break
        step = latest(folder)
        done = step / (COUNT * UPDATES if "loop" in kind.split() or kind in ("accumulation", "replicas", "two processes") else UPDATES)
        outcomes.append(
            {"kind": kind, "element": running.elements(), "later_wall_s": round(later_wall_s, 4), "process": victim, "whole_step": step}
        )
    else:
        running = started(kind, folder)
    bits = ended(running)
    return [outcome | {"resumed": True, "bit_equal": bits == whole} for outcome in outcomes]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, help="in all, with those of the record (default: one of each kind)")
    parser.add_argument("--only", action="append", choices=list(KINDS), help="this kind; may be given again")
    parser.add_argument("--seed", type=int, default=0, help="of the moments (default: %(default)s)")
    parser.add_argument("--json", type=Path, help="the record, to which outcomes are added")
    parser.add_argument("--work", nargs=5, help=argparse.SUPPRESS)  # one of several processes
    flags = parser.parse_args()
    if flags.work is not None:
        kind, folder, process, end, port = flags.work
        asked = _mapped(Path(f"{folder}.asked"), 8 * PROCESSES[kind])
        _work(kind, Place(folder=Path(folder), process=int(process), asked=asked), Path(end), int(port))
        return  # the others are told that it has ended well
    kinds = flags.only or list(KINDS)
    number = flags.kills or len(kinds)
    outcomes = kept(flags.json)
    name = tempfile.mkdtemp()  # nothing removes it at the end of a child
    try:
        Checkpoints(name, every=1)  # imports Orbax
        for module in ("table.buffer", "table.client", "programs.executable_entries"):  # which JAX would import in each run
            importlib.import_module(f"tilestep.pjrt.{module}")
        wholes: dict[str, list[str]] = {}
        for turn in range(number):
            if len(outcomes) >= number:
                break
            kind = min(kinds, key=lambda kind: sum(outcome["kind"] == kind for outcome in outcomes))
            if kind not in wholes:
                wholes[kind] = ended(started(kind, Path(name) / f"whole {kind}"))
            most = min(MOST_KILLS, -(-number // len(kinds)), number - len(outcomes))
            rng = random.Random(f"{flags.seed} {kind} {len(outcomes)}")
            new = chain(kind, wholes[kind], Path(name) / f"{turn}", rng, most)
            outcomes += new
            print(f"{len(outcomes):>4} of {number}: {kind}, {len(new)} kills, equal: {all(each['bit_equal'] for each in new)}", flush=True)
            keep(flags.json, __doc__.splitlines()[0], "kills", outcomes)
    finally:
        shutil.rmtree(name)
    unequal = Counter(outcome["kind"] for outcome in outcomes if not outcome["bit_equal"])
    print(f"{len(outcomes)} kills of {len({outcome['kind'] for outcome in outcomes})} kinds of run; unequal: {dict(unequal) or 'none'}")
    sys.exit(bool(unequal))


if __name__ == "__main__":
    main()
