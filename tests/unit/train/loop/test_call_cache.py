"""Loops that are called again with what they returned go a shorter way: with the same results, and for no other carry."""

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from tilestep.train import InfeedQueue, Replicas, gradient_accumulation, repeat
from tilestep.train.loop import call_cache
from tilestep.train.loop.call_cache import LoopCall

Pair = dict[str, Any]


def step(carry: Pair) -> Pair:
    return {"a": carry["a"] + 1, "b": carry["b"] * 2}


def start() -> Pair:
    return {"a": jnp.zeros(3), "b": jnp.ones(())}


def known(carry: Any, body: Any, n: int, infeed: Any = None, replicas: Any = None) -> Any:
    return call_cache.lookup(carry, LoopCall(body, infeed, None, (n, None, replicas, None, (), False)))


def test_another_call_is_another_one() -> None:
    def other(carry: Pair) -> Pair:
        return step(carry)

    carry = start()
    for _ in range(3):
        carry = repeat(2, step, carry)
    assert known(carry, step, 3) is None
    assert known(carry, other, 2) is None
    assert known(carry, step, 2, infeed=InfeedQueue(itertools.repeat(np.float32(0)))) is None
    assert known(carry, step, 2, replicas=Replicas(1)) is None
    assert known({"a": carry["a"], "b": jnp.array(carry["b"])}, step, 2) is None
    assert known([carry["a"], carry["b"]], step, 2) is None
    assert known({"a": carry["a"]}, step, 2) is None
    assert known((), step, 2) is None


def test_a_carry_that_was_changed_in_between_is_made_ready_anew() -> None:
    carry = start()
    for _ in range(3):
        carry = repeat(2, step, carry)
    shared = carry["a"]
    carry = repeat(2, lambda pair: (pair[0] + 1, pair[1] + 2), (shared, shared))  # one buffer, donated twice
    np.testing.assert_array_equal(carry[0], np.full(3, 8.0))
    np.testing.assert_array_equal(carry[1], np.full(3, 10.0))
    carry = start()
    for _ in range(3):
        carry = repeat(2, step, carry)
    carry["b"] = 1  # a Python number, which becomes an array of JAX's default type
    with pytest.raises(TypeError, match="int32"):
        repeat(2, lambda carry: {"a": carry["a"], "b": carry["b"] * 0.5}, carry)


def test_without_donation_the_carry_stays() -> None:
    carry = start()
    for _ in range(4):
        carry = repeat(2, step, carry)
    kept = repeat(2, step, carry, donate=False)
    np.testing.assert_array_equal(carry["a"], np.full(3, 8.0))
    np.testing.assert_array_equal(kept["a"], np.full(3, 10.0))


def test_a_carry_that_was_donated_elsewhere_is_an_error() -> None:
    carry = start()
    for _ in range(3):
        carry = repeat(2, step, carry)
    jax.jit(lambda a: a + 1, donate_argnums=0)(carry["a"])
    with pytest.raises((RuntimeError, ValueError), match="deleted"):  # by JAX or by XLA, as it is met
        repeat(2, step, carry)


def test_accumulations_end_where_the_loop_does_each_time() -> None:
    optimizer = gradient_accumulation(optax.sgd(1.0), 3)

    def body(carry: Any) -> Any:
        weight, state = carry
        updates, state = optimizer.update(jnp.ones(()), state, weight)
        return optax.apply_updates(weight, updates), state

    carry: Any = (jnp.zeros(()), optimizer.init(jnp.zeros(())))
    for turn in range(1, 6):
        carry = repeat(6, body, carry)
        assert carry[0] == -6.0 * turn
    assert known(carry, body, 6).is_confirmed
    with pytest.raises(ValueError, match="multiple of 3"):
        repeat(5, body, carry)
