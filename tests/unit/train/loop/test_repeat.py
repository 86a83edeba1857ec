"""`repeat`: n steps of a body on the device, each element once."""

import itertools
from collections import namedtuple
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.together import each
from tilestep.errors import DatasetError, QueueError
from tilestep.train import InfeedQueue, OutfeedQueue, loop_state, repeat


def numbers(stop: int | None = None) -> Iterator[np.ndarray[Any, Any]]:
    return (np.float32(k) for k in (itertools.count() if stop is None else range(stop)))


def add(total: Any, x: Any) -> Any:
    return total + x


@pytest.mark.slow
@pytest.mark.parametrize("chunk", [None, 1, 3, 7, 100])
@pytest.mark.parametrize("depth", [1, 3])
def test_every_element_is_used_once_in_order_whatever_the_chunks(chunk: int | None, depth: int) -> None:
    with InfeedQueue(numbers(), prefetch_depth=depth) as infeed:
        outfeed = OutfeedQueue()

        def body(last: Any, x: Any) -> Any:
            outfeed.enqueue(x)
            return x

        for n in (5, 1, 7, 0, 130, 5):
            repeat(n, body, np.float32(-1), infeed, outfeed, chunk=chunk)
        assert infeed.consumed == 148
        np.testing.assert_array_equal(outfeed.dequeue(), np.arange(148, dtype=np.float32))


@pytest.mark.parametrize(
    ("element", "body"),
    [
        (np.float32(2), lambda c, x: c + x),
        ((np.float32(2),), lambda c, x: c + x),
        ([np.float32(1), np.float32(2)], lambda c, x, y: c + x * y),
        (namedtuple("Pair", "x y")(np.float32(1), np.float32(2)), lambda c, x, y: c + x * y),
        ({"b": np.float32(2), "a": np.float32(1)}, lambda c, a, b: c + a * b),
        ({"x": {"y": np.float32(2)}}, lambda c, x: c + x["y"]),
        ({1: np.float32(2)}, lambda c, d: c + d[1]),
        ((np.float32(1), {"z": np.float32(2)}), lambda c, x, d: c + x * d["z"]),
    ],
)
def test_an_element_becomes_arguments(element: Any, body: Any) -> None:
    assert repeat(3, body, 0.0, InfeedQueue(itertools.repeat(element))) == 6


def test_weak_types_do_not_trace_again() -> None:
    traces = []

    def body(c: Any) -> Any:
        traces.append(c)
        return c * 2

    carry: Any = jnp.asarray(1.0)
    assert carry.weak_type
    for _ in range(3):
        carry = repeat(4, body, carry, chunk=2)
    assert (float(carry), len(traces)) == (2.0**12, 1)


@pytest.mark.slow
def test_the_same_loop_again_is_not_traced_and_a_remainder_is_once() -> None:
    traces = []

    def body(c: Any, x: Any) -> Any:
        traces.append(None)
        return {"w": c["w"] + x}

    infeed = InfeedQueue(numbers())
    carry: Any = {"w": np.zeros(3, np.float32)}
    for _ in range(3):
        carry = repeat(10, body, carry, infeed, chunk=4)
    assert len(traces) == 2  # of 4 steps, and of 2
    repeat(4, body, carry, infeed)
    assert len(traces) == 2
    repeat(4, body, {"w": np.zeros(4, np.float32)}, infeed)
    assert len(traces) == 3


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (lambda c: {"w": c["w"]}, r"body lambda must return a new carry like the one it was given: it lacks carry\['n'\]"),
        (lambda c: (c, c["n"]), r"body lambda returns \(carry, value\), as that of lax\.scan: .* by outfeed\.enqueue\(value\) in the body"),
        (lambda c: (c["w"], c["n"]), r"body lambda must return a new carry like the one it was given: it lacks"),
        (lambda c: {**c, "extra": 1}, r"it has a new carry\['extra'\]"),
        (lambda c: [c["n"], c["w"]], r"lacks carry\['n'\] and 1 more; it has a new carry\[0\] and 1 more"),
        (lambda c: {**c, "n": c["n"] + 0.5}, r"carry\['n'\]: .* expected int32\[\], found float32\[\]"),
        (lambda c: {**c, "w": c["w"][:2]}, r"carry\['w'\]: .* expected float32\[3\], found float32\[2\]"),
        (lambda c: {**c, "w": "three"}, r"carry\['w'\]: body lambda returned a str, no array or number"),
    ],
)
def test_a_body_that_changes_the_carry_is_told_where(body: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        repeat(3, body, {"n": 0, "w": np.zeros(3, np.float32)})


@pytest.mark.parametrize(
    ("element", "message"),
    [
        ((1.0, 2.0), r"body lambda\(c, x\) is called with the carry and the infeed element's 2 items: too many positional"),
        ({"x": 1.0, "y": 2.0}, r"the carry and the infeed element's items x, y as keywords: got an unexpected keyword argument 'y'"),
    ],
)
def test_a_body_with_other_arguments_is_told_what_it_gets(element: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        repeat(3, lambda c, x: c, 0, InfeedQueue(itertools.repeat(element)))
    with pytest.raises(TypeError, match=r"body lambda\(c, x\) is called with the carry: missing a required argument: 'x'"):
        repeat(3, lambda c, x: c, 0)


@each(
    "arguments, error, message",
    [
        ({"n": -1}, ValueError, "n is -1: it must be 0 or more"),
        ({"n": 2.5}, TypeError, "n is 2.5: it must be a whole number, 0 or more"),
        ({"n": True}, TypeError, "n is True"),
        ({"chunk": 0}, ValueError, "chunk is 0: it must be 1 or more"),
        ({"infeed": [1, 2, 3]}, TypeError, "infeed is a list: it must be an InfeedQueue, or None"),
        ({"outfeed": (OutfeedQueue(), OutfeedQueue())}, TypeError, "outfeed is a tuple: it must be an OutfeedQueue, or None"),
        ({"carry": {"a": "text"}}, TypeError, r"carry\['a'\] is a str, no array or number"),
        ({"carry": {"a": 2**31}}, OverflowError, r"carry\['a'\] is 2147483648, which int32 does not have"),
        ({"carry": {"a": np.array([1, 2**40])}}, OverflowError, r"carry\['a'\] has 1099511627776 at \[1\], which int32 does not have"),
        ({"carry": [np.uint64(2**32)]}, OverflowError, r"carry\[0\] is 4294967296, which uint32 does not have"),
        ({"carry": [0.0, np.longdouble(1)]}, TypeError, r"carry\[1\] is a longdouble, no array or number: its dtype is float128"),
        ({"carry": {"a": np.zeros(2, [("b", "f4")])}}, TypeError, r"carry\['a'\] is a ndarray, no array or number: its dtype is"),
        ({"carry": np.array([None])}, TypeError, "carry is a ndarray, no array or number"),
    ],
)
def test_bad_arguments_are_refused(arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        repeat(**{"n": 3, "body": lambda c: c, "carry": 0} | arguments)


def test_inside_of_jit_it_says_where_it_belongs() -> None:
    with pytest.raises(TypeError, match=r"repeat\(\) was called in a function that JAX traces.*fori_loop"):
        jax.jit(lambda c: repeat(3, lambda c: c + 1, c))(0)


def test_a_dataset_s_exception_comes_as_itself_with_what_was_done() -> None:
    def dataset() -> Iterator[Any]:
        yield from numbers(7)
        raise KeyError("the disk")

    infeed = InfeedQueue(dataset)
    with pytest.raises(KeyError, match="the disk") as caught:
        repeat(100, add, np.float32(0), infeed, chunk=3)
    state = loop_state(caught.value)
    assert state is not None
    assert (state.steps, float(state.carry), infeed.consumed) == (6, 15, 6)
    assert "repeat(100) had done 6 steps" in caught.value.__notes__[0]
    assert "has had 6 elements used" in caught.value.__notes__[0]
    assert float(repeat(1, add, state.carry, infeed)) == 21  # what came before the exception is not lost
    with pytest.raises(DatasetError, match=r"had raised KeyError: 'the disk', and was over when it was asked again, after 7 elements"):
        repeat(1, add, np.float32(0), infeed)  # as a generator is that has raised


@pytest.mark.slow
def test_a_dataset_that_ends_early_says_where() -> None:
    infeed = InfeedQueue(numbers(10))
    with pytest.raises(DatasetError, match="ended after 10 elements: the loop needs more; 8 are used, 2 after them are left") as caught:
        repeat(12, add, np.float32(0), infeed, chunk=4)
    state = loop_state(caught.value)
    assert state is not None
    assert float(repeat(2, add, state.carry, infeed)) == 45
    with pytest.raises(DatasetError, match=r"ended after 10 elements: the loop needs more; 10 are used\. Let"):
        repeat(1, add, np.float32(0), infeed)
    with pytest.raises(DatasetError, match="ended after 0 elements"):
        repeat(1, add, np.float32(0), InfeedQueue([]))


def test_a_body_that_fails_uses_no_element() -> None:
    infeed = InfeedQueue(numbers())
    with pytest.raises(ZeroDivisionError):
        repeat(4, lambda c, x: 1 // 0, np.float32(0), infeed)
    assert infeed.consumed == 0
    assert float(repeat(2, add, np.float32(0), infeed)) == 0 + 1


def test_a_queue_serves_one_loop_at_a_time() -> None:
    infeed = InfeedQueue(numbers())

    def body(c: Any, x: Any) -> Any:
        with pytest.raises(QueueError, match=r"repeat\(1\) cannot use the InfeedQueue while repeat\(5\) does"):
            repeat(1, add, np.float32(0), infeed)
        return c + x

    assert float(repeat(5, body, np.float32(0), infeed)) == 10


def test_a_bar_shows_the_steps(capsys: pytest.CaptureFixture[str]) -> None:
    repeat(10, lambda c: c + 1, 0, chunk=4, progress=True)
    assert "10/10" in capsys.readouterr().out
