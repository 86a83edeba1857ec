"""`while_loop`: steps as long as a condition on the carry holds; elements for the steps that are done, and no others."""

import itertools
from collections.abc import Iterator
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from tilestep.errors import DatasetError
from tilestep.train import InfeedQueue, OutfeedQueue, loop_state, repeat, while_loop


def numbers(stop: int | None = None) -> Iterator[Any]:
    return (np.float32(k) for k in (itertools.count() if stop is None else range(stop)))


def step(c: Any, x: Any) -> Any:
    return {"steps": c["steps"] + 1, "total": c["total"] + x}


def start() -> dict[str, Any]:
    return {"steps": 0, "total": 0.0}


@pytest.mark.slow
@pytest.mark.parametrize("limit", [0, 1, 7, 8, 9, 30])
@pytest.mark.parametrize("chunk", [None, 1, 8])
def test_it_uses_the_elements_of_its_steps_and_no_others(limit: int, chunk: int | None) -> None:
    with InfeedQueue(numbers()) as infeed:
        for times in (1, 2):
            result = while_loop(lambda c: c["steps"] < limit, step, start(), infeed, chunk=chunk)
            assert (int(result["steps"]), infeed.consumed) == (limit, times * limit)
        rest = repeat(3, step, start(), infeed, chunk=2)
        assert float(rest["total"]) == 6 * limit + 3


@pytest.mark.parametrize("most", [0, 1, 8, 20])
def test_it_ends_after_maximum_iterations(most: int) -> None:
    infeed = InfeedQueue(numbers())
    result = while_loop(lambda c: True, step, start(), infeed, maximum_iterations=most, chunk=8)
    assert (int(result["steps"]), infeed.consumed) == (most, most)
    assert while_loop(lambda c: c < 100, lambda c: c + 1, 0, maximum_iterations=most) == most
    assert while_loop(lambda c: c < 10, lambda c: c + 1, 0, maximum_iterations=most, chunk=3) == min(most, 10)


def test_without_feeds_all_steps_are_one_program() -> None:
    assert while_loop(lambda c: c < 1000, lambda c: c + 1, 0) == 1000


@pytest.mark.parametrize("mode", ["all", "last"])
def test_values_of_the_steps_done_come_out(mode: Any) -> None:
    outfeed = OutfeedQueue(mode)

    def body(c: Any) -> Any:
        outfeed.enqueue({"c": c, "double": jnp.float32(2) * c})
        return c + 1

    assert while_loop(lambda c: c < 11, body, 0, outfeed=outfeed, chunk=4) == 11
    values = outfeed.dequeue()
    expected = np.arange(11) if mode == "all" else 10
    np.testing.assert_array_equal(values["c"], expected)
    np.testing.assert_array_equal(values["double"], 2.0 * np.asarray(expected))


def test_a_dataset_may_end_with_the_loop_s_last_step() -> None:
    infeed = InfeedQueue(numbers(10))
    result = while_loop(lambda c: c["steps"] < 10, step, start(), infeed, chunk=64)
    assert (float(result["total"]), infeed.consumed) == (45, 10)
    assert while_loop(lambda c: c["steps"] < 10, step, result, infeed)["steps"] == 10  # needs no element
    with pytest.raises(DatasetError, match="ended after 10 elements"):
        while_loop(lambda c: c["steps"] < 1, step, start(), infeed)


def test_a_dataset_that_ends_before_the_condition_says_so() -> None:
    infeed = InfeedQueue(numbers(10))
    with pytest.raises(DatasetError, match="ended after 10 elements: the loop needs more; 10 are used") as caught:
        while_loop(lambda c: c["steps"] < 11, step, start(), infeed, chunk=4)
    state = loop_state(caught.value)
    assert state is not None
    assert (state.steps, float(state.carry["total"])) == (10, 45)


def test_replicas_use_whole_steps() -> None:
    infeed = InfeedQueue(numbers(13), replicas=2)
    result = while_loop(lambda c: c[0] < 5, lambda c, x: (c[0] + 1, c[1] + x), (0, np.zeros(2, np.float32)), infeed, chunk=4)
    np.testing.assert_array_equal(result[1], [0 + 2 + 4 + 6 + 8, 1 + 3 + 5 + 7 + 9])
    assert infeed.consumed == 10
    with pytest.raises(DatasetError, match="ended after 13 elements: the loop needs more; 12 are used, 1 after them"):
        while_loop(lambda c: c[0] < 5, lambda c, x: (c[0] + 1, c[1] + x), (0, np.zeros(2, np.float32)), infeed, chunk=4)


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        (lambda c: c["steps"], r"condition lambda must return one scalar of dtype bool, but returned int32\[\]"),
        (lambda c: jnp.ones(3, bool), r"but returned bool\[3\]"),
        (lambda c: (True, True), r"but returned \('bool', 'bool'\)"),
        (lambda c, x: True, r"condition lambda\(c, x\) is called with the carry alone \(never an infeed's element\): missing"),
    ],
)
def test_a_bad_condition_is_told_what_is_wrong(condition: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        while_loop(condition, step, start(), InfeedQueue(numbers()))
