"""Ctrl-C in pipelines at random moments: each element counts once, on eight CPU devices; `test_pipelines.py` starts a process that has them."""

from __future__ import annotations

import dataclasses
import functools
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from types import FrameType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from tilestep.errors import LoopInterrupt
from tilestep.train import InfeedQueue, OutfeedQueue, loop_state
from tilestep.train.pipeline import Pipeline

COUNT, UPDATES, WIDTH = 4, 6, 8
ELEMENTS = COUNT * UPDATES


def dense(params: Any, number: Any, x: Any) -> Any:
    return number, jnp.tanh(x @ params["w"])


def noisy(params: Any, number: Any, x: Any, *, key: Any) -> Any:
    return number, jnp.tanh(x @ params["w"]) * jax.random.bernoulli(key, 0.9, x.shape)


def counted(params: Any, aux: Any, number: Any, x: Any) -> Any:
    return (number, jnp.tanh(x @ params["w"]) + aux), 0.5 * aux + 0.01 * x.mean()


def head(params: Any, number: Any, x: Any) -> Any:
    return ((x @ params["w"]) ** 2).mean(), number


def result(params: Any, number: Any, x: Any) -> Any:
    return x @ params["w"], number


@dataclasses.dataclass(frozen=True)
class Form:
    """A kind of pipeline. Attributes: settings: for Pipeline. aux: whether a stage has some. traced: within what it runs."""

    stages: tuple[Any, ...] = (dense, dense, head)
    optimizer: Any = dataclasses.field(default_factory=lambda: optax.sgd(0.1, momentum=0.9))
    settings: dict[str, Any] = dataclasses.field(default_factory=dict)
    replicas: int = 1
    aux: bool = False
    key: bool = False
    eager: bool = False

    def pipeline(self) -> Pipeline:
        settings = {"program": "stages", "replicas": self.replicas, "strict": False, **self.settings}
        return Pipeline(self.stages, self.optimizer, COUNT, **settings)

    def init(self, pipeline: Pipeline) -> Any:
        rng = np.random.default_rng(0)
        params = [{"w": rng.normal(0, 0.4, (WIDTH, WIDTH)).astype(np.float32)} for _ in self.stages]
        if "tied" in self.settings:
            params[2] = params[0]
        return pipeline.init(params, [None, np.float32(0), None] if self.aux else None)

    def elements(self, *, wait_wall_s: float) -> Callable[[], Iterator[Any]]:
        def dataset() -> Iterator[Any]:
            rng = np.random.default_rng(1)
            for k in range(ELEMENTS * self.replicas):
                if wait_wall_s:
                    time.sleep(wait_wall_s)
                yield np.int32(k), rng.normal(size=(2, WIDTH)).astype(np.float32)

        return dataset

    def infeed(self, *, wait_wall_s: float = 0.0, depth: int = 1) -> InfeedQueue:
        replicas = None if self.replicas == 1 else self.replicas
        return InfeedQueue(self.elements(wait_wall_s=wait_wall_s), prefetch_depth=depth, replicas=replicas)

    def runs_in(self) -> AbstractContextManager[Any]:
        return jax.disable_jit() if self.eager else ExitStack()


FORMS = {
    "grouped": Form(),
    "one program": Form(settings={"program": "single", "device_mapping": [0, 0, 0]}),
    "stashed": Form(settings={"pipeline_schedule": "stashed"}),
    "zero bubble": Form(settings={"pipeline_schedule": "zero_bubble"}),
    "stale": Form(settings={"pipeline_schedule": "stale"}),
    "across stages": Form(optimizer=optax.chain(optax.clip_by_global_norm(0.1), optax.adam(0.1))),
    "inference": Form(stages=(dense, dense, result), optimizer=None),
    "tied": Form(settings={"tied": [[(0, "w"), (2, "w")]]}),
    "replicas": Form(replicas=2),
    "aux and keys": Form(stages=(noisy, counted, head), aux=True, key=True),
    "looked at": Form(settings={"check_nans": True}),
    "offloaded": Form(settings={"offload_optimizer_state": True, "offload_activations": True, "recompute": "full"}),
    "sums": Form(settings={"accumulate_outfeed": True, "outfeed_loss": True}),
    "without jit": Form(eager=True),
}
FAST = ("grouped", "one program", "stashed", "zero bubble", "inference")


@pytest.fixture(autouse=True)
def interruptible() -> Iterator[None]:
    """Processes that a shell starts in the background ignore Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@functools.cache
def expected(name: str) -> tuple[Pipeline, list[np.ndarray], Any]:
    """(a pipeline of that form, which is compiled; the state's arrays and the results of a run that nothing ends)."""
    form = FORMS[name]
    pipeline, outfeed = form.pipeline(), OutfeedQueue()
    with form.runs_in():
        state = pipeline.run(form.init(pipeline), form.infeed(), outfeed, repeat_count=UPDATES, key=jax.random.key(5) if form.key else None)
    return pipeline, [np.asarray(leaf) for leaf in jax.tree.leaves(state)], outfeed.dequeue()


def finished(name: str, infeed: InfeedQueue, moment: AbstractContextManager[Any], rng: random.Random) -> tuple[int, float]:
    """Runs a pipeline to the end, whatever interrupts it, and compares with one that nothing has interrupted.

    Args: moment: within it a Ctrl-C comes once.
    Returns: (how often a run was ended, how long all took).
    """
    form = FORMS[name]
    pipeline, leaves, results = expected(name)
    outfeed, state, done, ends = OutfeedQueue(), form.init(pipeline), 0, 0
    jax.block_until_ready(state)
    per_update = 1 if form.settings.get("accumulate_outfeed") else COUNT
    begun = time.perf_counter()
    with form.runs_in(), ExitStack() as stack:
        entered = False
        while done < UPDATES:
            try:
                if not entered:
                    entered = True
                    stack.enter_context(moment)
                key = jax.random.key(5) if form.key else None
                state = pipeline.run(state, infeed, outfeed, repeat_count=UPDATES - done, key=key, first_update=done)
                done = UPDATES
            except KeyboardInterrupt as error:
                reached = loop_state(error)
                if reached is None:  # it came before the run began
                    assert not any(leaf.is_deleted() for leaf in jax.tree.leaves(state))
                    continue
                assert isinstance(error, LoopInterrupt)
                state, done, ends = reached.carry, done + reached.steps, ends + 1
                assert infeed.consumed == done * COUNT * form.replicas
                assert len(outfeed) == done * per_update
                if done < UPDATES and rng.random() < 0.5:
                    position = infeed.state()
                    infeed.close()
                    infeed = form.infeed()
                    infeed.restore(position)
    wall_s = time.perf_counter() - begun
    assert infeed.consumed == ELEMENTS * form.replicas
    infeed.close()
    for one, other in zip(jax.tree.leaves(state), leaves, strict=True):
        np.testing.assert_array_equal(one, other)
    jax.tree.map(np.testing.assert_array_equal, outfeed.dequeue(), results)
    return ends, wall_s


@contextmanager
def ctrl_c_after(wall_s: float) -> Iterator[None]:
    """A Ctrl-C comes so long after the beginning."""
    timer = threading.Timer(wall_s, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    try:
        yield
    finally:
        try:
            timer.join()
            time.sleep(0.01)
        except KeyboardInterrupt:  # all was done before
            pass


@contextmanager
def ctrl_c_at(event: int) -> Iterator[list[int]]:
    """A Ctrl-C comes at an event of those at which Python looks for one: a call, a return from C. Gives how many there were."""
    seen = [0]

    def see(frame: FrameType, what: str, _: object) -> None:
        if what not in ("call", "c_return") or frame.f_globals.get("__name__") in ("threading", __name__):
            return  # what is raised in the midst of `threading.Condition.wait` finds its lock released
        seen[0] += 1
        if seen[0] == event:
            sys.setprofile(None)
            signal.raise_signal(signal.SIGINT)

    sys.setprofile(see)
    try:
        yield seen
    finally:
        sys.setprofile(None)


def at_random(name: str, trials: int) -> None:
    rng = random.Random(name)
    form, nothing = FORMS[name], ExitStack()
    ends = 0
    took = {wait: min(finished(name, form.infeed(wait_wall_s=wait), nothing, rng)[1] for _ in range(2)) for wait in (0.0, 0.0005)}
    for trial in range(trials):
        wait = (0.0, 0.0005)[trial % 2]
        infeed = form.infeed(wait_wall_s=wait, depth=rng.choice((1, 3)))
        ends += finished(name, infeed, ctrl_c_after(rng.uniform(0, took[wait])), rng)[0]
    assert ends


@pytest.mark.parametrize("name", FAST)
def test_ctrl_c_at_a_random_moment_neither_loses_nor_repeats_an_element(name: str) -> None:
    at_random(name, 4)


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMS)
def test_ctrl_c_at_many_random_moments(name: str) -> None:
    at_random(name, 15)


@pytest.mark.parametrize("name", [pytest.param(name, marks=[] if name in FAST[:2] else pytest.mark.slow) for name in FORMS])
def test_ctrl_c_wherever_python_looks_for_one(name: str) -> None:
    rng, form = random.Random(name), FORMS[name]
    finished(name, form.infeed(), ExitStack(), rng)
    with ctrl_c_at(0) as seen:
        expected(name)[0].run(
            form.init(expected(name)[0]), form.infeed(), OutfeedQueue(), repeat_count=UPDATES, key=jax.random.key(5) if form.key else None
        )
    events = seen[0]
    print(name, events)
    for event in rng.sample(range(1, events), 8):
        finished(name, form.infeed(depth=3), ctrl_c_at(event), rng)
