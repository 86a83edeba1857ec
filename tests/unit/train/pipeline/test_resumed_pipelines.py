"""Pipelines that an exception ends in the middle of an update go on after the last one that is done, with each element once."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from tilestep.errors import NotFiniteError
from tilestep.train import InfeedQueue, OutfeedQueue, loop_state
from tilestep.train.pipeline.pipeline import Pipeline

COUNT, UPDATES = 4, 4
ELEMENTS = COUNT * UPDATES

FORMS: dict[str, dict[str, Any]] = {
    "grouped": {},
    "interleaved": {"pipeline_schedule": "interleaved"},
    "sequential": {"pipeline_schedule": "sequential"},
    "zero bubble": {"pipeline_schedule": "zero_bubble"},
    "stashed": {"pipeline_schedule": "stashed"},
    "one program": {"program": "single", "device_mapping": [0, 0]},
}


def slow(value: Any) -> Any:
    return pytest.param(value, marks=pytest.mark.slow)


class Once:
    """Does something with an element the first time that it comes."""

    def __init__(self, element: int, act: Callable[[np.ndarray], np.ndarray]) -> None:
        self.element, self.act, self.is_over = element, act, False

    def __call__(self, x: Any) -> Any:
        if self.is_over or int(x[0]) != self.element:
            return x
        self.is_over = True
        return self.act(np.asarray(x))


def refuse(x: np.ndarray) -> np.ndarray:
    raise ValueError("this one")


def spoil(x: np.ndarray) -> np.ndarray:
    return np.full_like(x, np.nan)


def seen(once: Once, x: Any) -> Any:
    return jax.pure_callback(once, jax.ShapeDtypeStruct(x.shape, x.dtype), x)


def in_forward(once: Once) -> Callable[..., Any]:
    return lambda w, x: (jnp.tanh(seen(once, jax.lax.stop_gradient(x)) * w), x)


def in_backward(once: Once) -> Callable[..., Any]:
    @jax.custom_vjp
    def scaled(w: Any, x: Any) -> Any:
        return x * w

    def gradient(kept: Any, of_result: Any) -> Any:
        w, x = kept
        return (seen(once, x) * of_result).sum(), w * of_result

    scaled.defvjp(lambda w, x: (x * w, (w, x)), gradient)
    return lambda w, x: (jnp.tanh(scaled(w, x)), x)


def head(w: Any, y: Any, x: Any) -> Any:
    return ((y - w) ** 2).mean(), x


def made(first: Any, **settings: Any) -> Pipeline:
    return Pipeline([first, head], optax.adam(0.01), COUNT, **{"program": "stages", "strict": False, **settings})


def element(k: int) -> np.ndarray:
    return np.full(2, k, np.float32)


def started(pipeline: Pipeline) -> Any:
    return pipeline.init([np.float32(0.3), np.float32(0.2)])


def require_like_one_that_nothing_ended(pipeline: Pipeline, state: Any, outfeed: OutfeedQueue) -> None:
    whole, all_of_it = started(pipeline), OutfeedQueue()
    whole = pipeline.run(whole, InfeedQueue([element(k) for k in range(ELEMENTS)]), all_of_it, repeat_count=UPDATES)
    jax.tree.map(np.testing.assert_array_equal, state, whole)
    jax.tree.map(np.testing.assert_array_equal, outfeed.dequeue(), all_of_it.dequeue())


@pytest.mark.parametrize("at", [slow(5), 11])  # the second microbatch of an update, and the last one
@pytest.mark.parametrize("where", [slow(in_forward), in_backward])
@pytest.mark.parametrize("form", [form if form in ("grouped", "one program") else slow(form) for form in FORMS])
def test_after_an_exception_of_a_stage(form: str, where: Any, at: int) -> None:
    pipeline = made(where(Once(at, refuse)), **FORMS[form])
    infeed, outfeed = InfeedQueue([element(k) for k in range(ELEMENTS)], prefetch_depth=2), OutfeedQueue()
    with pytest.raises(Exception, match="this one") as caught:
        pipeline.run(started(pipeline), infeed, outfeed, repeat_count=UPDATES)
    reached, done = loop_state(caught.value), at // COUNT
    assert reached is not None
    assert (reached.steps, infeed.consumed, len(outfeed)) == (done, done * COUNT, done * COUNT)
    notes = "; ".join(caught.value.__notes__)
    assert f"had done {done} updates; tilestep.train.loop_state(error)" in notes
    origin = r"in the one program of all stages" if form == "one program" else rf"by stage 0 \(lambda\) .* of microbatch {at % COUNT};"
    assert re.search(f"raised {origin}", notes), notes
    state = pipeline.run(reached.carry, infeed, outfeed, repeat_count=UPDATES - done)
    require_like_one_that_nothing_ended(pipeline, state, outfeed)


@pytest.mark.parametrize("at", [slow(5), 11])
@pytest.mark.parametrize("where", [slow(in_forward), in_backward])
@pytest.mark.parametrize("form", [form if form == "interleaved" else slow(form) for form in FORMS if form != "one program"])
def test_after_a_number_that_is_not_finite(form: str, where: Any, at: int) -> None:
    pipeline = made(where(Once(at, spoil)), check_nans=True, **FORMS[form])
    infeed, outfeed = InfeedQueue([element(k) for k in range(ELEMENTS)], prefetch_depth=2), OutfeedQueue()
    with pytest.raises(NotFiniteError, match=f"with microbatch {at % COUNT}") as caught:
        pipeline.run(started(pipeline), infeed, outfeed, repeat_count=UPDATES)
    reached, done = loop_state(caught.value), at // COUNT
    assert reached is not None
    assert (reached.steps, infeed.consumed, len(outfeed)) == (done, done * COUNT, done * COUNT)
    state = pipeline.run(reached.carry, infeed, outfeed, repeat_count=UPDATES - done)
    require_like_one_that_nothing_ended(pipeline, state, outfeed)


@pytest.mark.parametrize("ahead", [slow(1), 3, slow(20)])
@pytest.mark.parametrize("form", ["grouped", slow("stashed"), slow("one program")])
def test_after_an_exception_of_the_dataset(form: str, ahead: int) -> None:
    def dataset(last: int) -> Callable[[], Iterator[Any]]:
        def elements() -> Iterator[Any]:
            for k in range(last):
                yield element(k)
            if last < ELEMENTS:
                raise OSError("the disk is gone")

        return elements

    pipeline, outfeed = made(lambda w, x: (jnp.tanh(x * w), x), **FORMS[form]), OutfeedQueue()
    infeed = InfeedQueue(dataset(10), prefetch_depth=ahead)
    with pytest.raises(OSError, match="the disk is gone") as caught:
        pipeline.run(started(pipeline), infeed, outfeed, repeat_count=UPDATES)
    reached = loop_state(caught.value)
    assert reached is not None
    assert (reached.steps, infeed.consumed, len(outfeed)) == (2, 8, 8)
    later = InfeedQueue(dataset(ELEMENTS))
    later.restore(infeed.state())
    state = pipeline.run(reached.carry, later, outfeed, repeat_count=UPDATES - 2)
    require_like_one_that_nothing_ended(pipeline, state, outfeed)
