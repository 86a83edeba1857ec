"""Ctrl-C in pipelines at random moments: each element counts once."""

import dataclasses
import functools
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from tests.unit.train.moments import At, Moment, at_calls, ctrl_c_heard, twice
from tilestep.errors import LoopInterrupt
from tilestep.train import InfeedQueue, OutfeedQueue, loop_state
from tilestep.train.ctrl_c import CtrlC
from tilestep.train.other_arguments import arguments_of
from tilestep.train.pipeline.pipeline import Pipeline

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

    stages: tuple[Any, ...] = (dense, head)
    optimizer: Any = dataclasses.field(default_factory=lambda: optax.sgd(0.1, momentum=0.9))
    settings: dict[str, Any] = dataclasses.field(default_factory=dict)
    replicas: int = 1
    aux: bool = False
    key: bool = False
    eager: bool = False
    platform: str = "cpu"

    def pipeline(self) -> Pipeline:
        settings = {"program": "stages", "replicas": self.replicas, "strict": False, **self.settings}
        return Pipeline(self.stages, self.optimizer, COUNT, devices=jax.devices(self.platform), **settings)

    def init(self, pipeline: Pipeline) -> Any:
        rng = np.random.default_rng(0)
        params = [{"w": rng.normal(0, 0.4, (WIDTH, WIDTH)).astype(np.float32)} for _ in self.stages]
        if "tied" in self.settings:
            params[1] = params[0]
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
        return jax.disable_jit() if self.eager else nullcontext()


FORMS = {
    "grouped": Form(),
    "one program": Form(settings={"program": "single", "device_mapping": [0, 0]}),
    "stashed": Form(settings={"pipeline_schedule": "stashed"}),
    "zero bubble": Form(settings={"pipeline_schedule": "zero_bubble"}),
    "stale": Form(settings={"pipeline_schedule": "stale"}),
    "across stages": Form(optimizer=optax.chain(optax.clip_by_global_norm(0.1), optax.adam(0.1))),
    "inference": Form(stages=(dense, result), optimizer=None),
    "tied": Form(settings={"tied": [[(0, "w"), (1, "w")]]}),
    "tied on one device": Form(settings={"tied": [[(0, "w"), (1, "w")]], "device_mapping": [0, 0]}),
    "replicas": Form(replicas=2),
    "aux and keys": Form(stages=(noisy, counted, head), aux=True, key=True),
    "looked at": Form(settings={"check_nans": True}),
    "offloaded": Form(settings={"offload_optimizer_state": True, "offload_activations": True, "recompute": "full"}),
    "sums": Form(settings={"accumulate_outfeed": True, "outfeed_loss": True}),
    "without jit": Form(eager=True),
    "emulated IPUs": Form(platform="ipu"),
}


@pytest.fixture(autouse=True)
def interruptible() -> Iterator[None]:
    with ctrl_c_heard():
        yield


@functools.cache
def expected(name: str) -> tuple[Pipeline, list[np.ndarray], Any]:
    """(a pipeline of that form, which is compiled; the state's arrays and the results of a run that nothing ends)."""
    form = FORMS[name]
    pipeline, outfeed = form.pipeline(), OutfeedQueue()
    with form.runs_in():
        state = pipeline.run(form.init(pipeline), form.infeed(), outfeed, repeat_count=UPDATES, key=jax.random.key(5) if form.key else None)
    return pipeline, [np.asarray(leaf) for leaf in jax.tree.leaves(state)], outfeed.dequeue()


def require_same(state: Any, leaves: list[np.ndarray]) -> None:
    for one, other in zip(jax.tree.leaves(state), leaves, strict=True):
        np.testing.assert_array_equal(one, other)


def finished(name: str, infeed: InfeedQueue, moment: Moment, rng: random.Random) -> tuple[int, float]:
    """Runs a pipeline to the end, whatever interrupts it, and compares with one that nothing has interrupted.

    Returns: (how often a run was ended, how long all took).
    """
    form = FORMS[name]
    pipeline, leaves, results = expected(name)
    outfeed, state, done, ends, is_over = OutfeedQueue(), form.init(pipeline), 0, 0, False
    jax.block_until_ready(state)
    per_update = 1 if form.settings.get("accumulate_outfeed") else COUNT
    begun = time.perf_counter()
    wall_s = 0.0
    with form.runs_in():
        while not is_over:
            try:
                if done < UPDATES:
                    moment.begin()
                    key = jax.random.key(5) if form.key else None
                    # Nothing is called between the end of the run and where what it returns is kept.
                    state, done = pipeline.run(state, infeed, outfeed, repeat_count=UPDATES - done, key=key, first_update=done), UPDATES
                    wall_s = time.perf_counter() - begun
                moment.end()
                is_over = True
            except KeyboardInterrupt as error:
                reached = loop_state(error)
                if reached is None:  # it came before a run began, or after
                    assert not any(leaf.is_deleted() for leaf in jax.tree.leaves(state))
                    continue
                state, done, ends = reached.carry, done + reached.steps, ends + 1
                assert infeed.consumed == done * COUNT * form.replicas
                assert len(outfeed) == done * per_update
                if done < UPDATES and rng.random() < 0.5:
                    position = infeed.state()
                    infeed.close()
                    infeed = form.infeed()
                    infeed.restore(position)
    assert infeed.consumed == ELEMENTS * form.replicas
    infeed.close()
    require_same(state, leaves)
    jax.tree.map(np.testing.assert_array_equal, outfeed.dequeue(), results)
    return ends, wall_s


def wherever_python_looks(name: str, events: Sequence[int], trials: int, *, ends: Sequence[int]) -> None:
    """Also where a run is about to begin, and where it has ended and is about to return."""
    rng, form = random.Random(name), FORMS[name]
    for event in (*events, *rng.sample(range(9, 6000), trials)):
        finished(name, form.infeed(depth=3), At(event, Pipeline.run), rng)
    for event in ends:
        finished(name, form.infeed(depth=3), At(event, Pipeline.run, after=CtrlC.end), rng)


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMS)
def test_ctrl_c_wherever_python_looks_for_one(name: str) -> None:
    wherever_python_looks(name, range(1, 9), 4, ends=range(1, 9))


def test_a_ctrl_c_while_a_run_returns_its_state_does_not_lose_it() -> None:
    wherever_python_looks("grouped", (), 0, ends=range(1, 5))


@pytest.mark.parametrize("name", ["grouped", "stashed", "one program"])
def test_a_second_ctrl_c_ends_an_update_whose_elements_come_again(name: str) -> None:
    form = FORMS[name]
    pipeline, leaves, results = expected(name)
    infeed, outfeed = form.infeed(), OutfeedQueue()
    with pytest.raises(LoopInterrupt) as caught, at_calls({arguments_of: twice}, number=2 * COUNT + 3):
        pipeline.run(form.init(pipeline), infeed, outfeed, repeat_count=UPDATES)
    assert (caught.value.steps, infeed.consumed, len(outfeed)) == (2, 2 * COUNT, 2 * COUNT)
    jax.tree.map(np.testing.assert_array_equal, caught.value.outputs, jax.tree.map(lambda leaf: leaf[COUNT : 2 * COUNT], results))
    state = pipeline.run(caught.value.state, infeed, outfeed, repeat_count=UPDATES - 2)
    require_same(state, leaves)
    jax.tree.map(np.testing.assert_array_equal, outfeed.dequeue(), results)


def test_a_second_ctrl_c_while_an_update_is_noted_waits_too() -> None:
    form = FORMS["grouped"]
    pipeline, infeed, outfeed = expected("grouped")[0], form.infeed(), OutfeedQueue()
    with pytest.raises(LoopInterrupt) as caught, at_calls({InfeedQueue.use_held: twice}):
        pipeline.run(form.init(pipeline), infeed, outfeed, repeat_count=UPDATES)
    assert (caught.value.steps, infeed.consumed, len(outfeed)) == (1, COUNT, COUNT)
