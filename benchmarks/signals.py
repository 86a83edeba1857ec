"""Does a run that Ctrl-C or SIGTERM ends at any moment, and that goes on, end with the bits of one that nothing happened to?

    benchmarks/signals.py --signals 40
    benchmarks/signals.py --signals 1000 --json benchmarks/results/signals.json

A loop and a pipeline save checkpoints. A signal comes at a moment that is drawn: while the call begins and restores, amid a step, amid a
save, or where it returns. The next call goes on from the newest checkpoint, or from what the exception tells (`loop_state`); that is drawn,
too. An outcome says what was raised, after how many steps, and whether the run has ended with equal bits. All of it is one process, in
which a Ctrl-C or a SIGTERM is what Python makes of it: `signal.raise_signal`, from a timer.
"""

from __future__ import annotations

import argparse
import itertools
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any, Final, final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run as a script, this file is in no package

import jax
import jax.numpy as jnp
import numpy as np
import optax

from benchmarks.kills import digest
from benchmarks.outcomes import keep, kept
from tilestep.train import Checkpoints, InfeedQueue, OutfeedQueue, Pipeline, gradient_accumulation, loop_state, repeat

COUNT: Final = 4  # microbatches for each update
UPDATES: Final = 12
SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
MOST_ENDS: Final = 20  # of one run, until it may end


def numbered() -> Iterator[np.ndarray]:
    """Elements float32[4, 3], each another one."""
    for index in itertools.count():
        yield np.random.RandomState(index).randn(4, 3).astype(np.float32)


@final
class Loop:
    """A loop that accumulates. Attributes: steps: of one run."""

    steps = COUNT * UPDATES

    def __init__(self) -> None:
        self.outfeed = OutfeedQueue()
        self._optimizer = gradient_accumulation(optax.adam(0.1), COUNT)

    def start(self) -> Any:
        """The first carry."""
        w = jnp.ones((3, 2))
        return w, self._optimizer.init(w), jax.random.key(0)

    def _body(self, carry: Any, x: Any) -> Any:
        w, state, key = carry
        key, noise = jax.random.split(key)
        loss, gradient = jax.value_and_grad(lambda w: jnp.mean((jnp.tanh(x @ w) - jax.random.uniform(noise)) ** 2))(w)
        updates, state = self._optimizer.update(gradient, state, w)
        self.outfeed.enqueue(loss)
        return optax.apply_updates(w, updates), state, key

    def run(self, carry: Any, done: int, infeed: InfeedQueue, checkpoints: Checkpoints | None) -> Any:
        """The last carry. Args: done: steps that the carry has already."""
        return repeat(self.steps - done, self._body, carry, infeed, self.outfeed, chunk=COUNT, checkpoints=checkpoints)


@final
class Piped:
    """A pipeline of two stages. Attributes: steps: updates of one run."""

    steps = UPDATES

    def __init__(self) -> None:
        self.outfeed = OutfeedQueue()
        stages = [
            lambda w, x, *, key: jnp.tanh(x @ w) + 0.1 * jax.random.normal(key, (4, 3)),
            lambda w, x: ((x @ w - 1) ** 2).mean(),
        ]
        self._pipeline = Pipeline(stages, optax.adam(1e-2), COUNT, outfeed_loss=True)

    def start(self) -> Any:
        """The first state."""
        return self._pipeline.init([np.eye(3, dtype=np.float32), np.ones((3, 2), np.float32)])

    def run(self, state: Any, done: int, infeed: InfeedQueue, checkpoints: Checkpoints | None) -> Any:
        """The last state. Args: done: updates that the state has already."""
        key = jax.random.key(1)
        return self._pipeline.run(
            state, infeed, self.outfeed, repeat_count=self.steps - done, key=key, first_update=done, checkpoints=checkpoints
        )


@final
class Alarm:
    """Sends this process a signal after a while, unless it is cancelled before."""

    def __init__(self) -> None:
        self._number: int | None = None
        signal.signal(signal.SIGALRM, self._come)

    def set(self, number: int, wall_s: float) -> None:
        """It is to come."""
        self._number = number
        signal.setitimer(signal.ITIMER_REAL, max(wall_s, 1e-6))

    def cancel(self) -> None:
        """It does not come any more."""
        self._number = None
        signal.setitimer(signal.ITIMER_REAL, 0)

    def _come(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        if self._number is not None:
            own, self._number = self._number, None
            signal.raise_signal(own)


def end(number: int, frame: FrameType | None) -> None:
    """What SIGTERM does to a program between two runs: it ends. Here the next call goes on."""
    raise SystemExit(128 + number)


vars(end)["ends_the_program"] = True  # a run that saves may note it in its place


def whole(job: Loop | Piped, folder: Path) -> tuple[str, float]:
    """(The digest of a run that nothing happens to, its wall seconds)."""
    begun = time.perf_counter()
    with InfeedQueue(numbered) as infeed:
        state = job.run(job.start(), 0, infeed, Checkpoints(folder, every=COUNT))
        bits = digest((state, job.outfeed.dequeue()))
    return bits, time.perf_counter() - begun


def interrupted(job: Loop | Piped, folder: Path, alarm: Alarm, wall_s: float, rng: random.Random) -> tuple[str, list[dict[str, Any]]]:
    """Runs a job to its end, whatever signals come. Returns: (its digest, an outcome for each signal)."""
    outcomes: list[dict[str, Any]] = []
    state, done, by_state = job.start(), 0, False
    infeed, job.outfeed = InfeedQueue(numbered), OutfeedQueue() if isinstance(job, Piped) else job.outfeed
    while True:
        # Without checkpoints nobody notes a SIGTERM: what its handler raises would end the loop anywhere.
        number, moment_wall_s = signal.SIGINT if by_state else rng.choice(SIGNALS), rng.uniform(0.0, 1.3 * wall_s)
        caught: BaseException | None = None
        result = None
        try:
            try:
                if len(outcomes) < MOST_ENDS:
                    alarm.set(number, moment_wall_s)
                result = job.run(state, done if by_state else 0, infeed, None if by_state else Checkpoints(folder, every=COUNT))
            finally:
                alarm.cancel()
        except (KeyboardInterrupt, SystemExit) as error:
            caught = error
        if caught is None:
            assert result is not None
            bits = digest((result, job.outfeed.dequeue()))
            infeed.close()
            return bits, outcomes
        reached = loop_state(caught)
        went_by_state, by_state = by_state, reached is not None and rng.random() < 0.5
        outcomes.append(
            {
                "job": type(job).__name__,
                "signal": signal.Signals(number).name,
                "moment_wall_s": round(moment_wall_s, 5),
                "raised": type(caught).__name__,
                "steps": None if reached is None else reached.steps,
                "goes_on_from": "loop_state" if by_state else "checkpoint",
            }
        )
        if by_state and reached is not None:
            state, done = reached.carry, reached.steps + (done if went_by_state else 0)
        else:
            infeed.close()
            state, done, infeed = job.start(), 0, InfeedQueue(numbered)
            if len(job.outfeed):
                job.outfeed.dequeue()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--signals", type=int, default=40, help="how many in all, with those of the record (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the moments (default: %(default)s)")
    parser.add_argument("--json", type=Path, help="the record, to which outcomes are added")
    flags = parser.parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, end)
    jax.config.update("jax_num_cpu_devices", 2)
    alarm, outcomes = Alarm(), kept(flags.json)
    rng = random.Random(f"{flags.seed} {len(outcomes)}")
    jobs: list[Callable[[], Loop | Piped]] = [Loop, Piped]
    with tempfile.TemporaryDirectory() as name:
        own = [(job, *_measured(job, Path(name) / f"whole {index}")) for index, job in enumerate(make() for make in jobs)]
        for turn in itertools.count():
            if len(outcomes) >= flags.signals:
                break
            job, bits, wall_s = own[turn % len(own)]
            found, new = interrupted(job, Path(name) / str(turn), alarm, wall_s, rng)
            shutil.rmtree(Path(name) / str(turn), ignore_errors=True)
            outcomes += [outcome | {"bit_equal": found == bits} for outcome in new]
            if turn % 20 == 0 or len(outcomes) >= flags.signals:
                keep(flags.json, __doc__.splitlines()[0], "signals", outcomes)
    unequal = sum(not outcome["bit_equal"] for outcome in outcomes)
    print(f"{len(outcomes)} signals; raised: {dict(Counter(outcome['raised'] for outcome in outcomes))}; unequal: {unequal}")
    sys.exit(bool(unequal))


def _measured(job: Loop | Piped, folder: Path) -> tuple[str, float]:
    whole(job, folder / "first")  # compiles
    return whole(job, folder / "second")


if __name__ == "__main__":
    main()
