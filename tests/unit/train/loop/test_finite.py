"""Loops whose carry must stay finite: the first step and leaf that do not are named, and the loop can go on from before their chunk."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from tilestep.errors import NotFiniteError
from tilestep.train import (
    Checkpoints,
    InfeedQueue,
    OutfeedQueue,
    Replicas,
    gradient_accumulation,
    loop_state,
    repeat,
    replica_index,
)

X = [np.float32(k) for k in range(100)]
X[9] = np.float32(np.nan)


def add(carry: Any, x: Any) -> Any:
    return {"count": carry["count"] + 1, "w": carry["w"] * 0.5, "total": carry["total"] + x}


START = {"count": 0, "w": jnp.ones(3), "total": jnp.float32(0)}


@pytest.mark.slow
def test_the_step_and_the_leaf_are_named_and_the_chunk_is_not_done() -> None:
    """By hand: element 9 spoils the total in step 9, which is of the chunk of steps 8 to 11."""
    infeed, outfeed = InfeedQueue(X), OutfeedQueue()

    def body(carry: Any, x: Any) -> Any:
        outfeed.enqueue(x)
        return add(carry, x)

    with pytest.raises(NotFiniteError) as caught:
        repeat(40, body, START, infeed, outfeed, chunk=4, check_nans=True)
    words = "step 9 of repeat(40), counted from 0, made a NaN or an infinity: carry['total']; its chunk of steps is not done"
    assert (str(caught.value), caught.value.step, caught.value.path) == (words, 9, "carry['total']")
    reached = loop_state(caught.value)
    assert reached is not None
    assert (reached.steps, infeed.consumed, outfeed.dequeue().tolist()) == (8, 8, list(range(8)))
    assert (int(reached.carry["count"]), float(reached.carry["total"])) == (8, sum(range(8)))
    once = repeat(1, add, reached.carry, infeed, check_nans=True)  # element 8 comes again
    assert (int(once["count"]), float(once["total"]), infeed.consumed) == (9, sum(range(9)), 9)


def test_an_accumulated_infinity_is_found_at_its_microbatch_also_where_the_newest_values_are_kept() -> None:
    optimizer, outfeed = gradient_accumulation(optax.sgd(0.1), 4), OutfeedQueue("last")

    def body(carry: Any, x: Any) -> Any:
        w, state = carry
        outfeed.enqueue(x)
        updates, state = optimizer.update(jnp.where(jnp.isnan(x), jnp.inf, x), state, w)
        return w + updates, state

    with pytest.raises(NotFiniteError, match=r"step 9 of repeat\(16\), counted from 0, .*: carry\[1\]\.accumulators") as caught:
        repeat(16, body, (jnp.float32(1), optimizer.init(jnp.float32(1))), InfeedQueue(X), outfeed, chunk=8, check_nans=True)
    reached = loop_state(caught.value)
    assert reached is not None
    assert reached.steps == 8
    assert float(outfeed.dequeue()) == 7


def test_one_replica_of_two_is_enough() -> None:
    replicas = Replicas(2)

    def body(carry: Any) -> Any:
        return carry[0] + 1, jnp.where((replica_index() == 1) & (carry[0] == 5), jnp.inf, carry[1])

    with pytest.raises(NotFiniteError, match=r"step 5 of repeat\(8\), counted from 0, .*: carry\[1\]"):
        repeat(8, body, (0, jnp.ones(2)), replicas=replicas, chunk=4, check_nans=True)


@pytest.mark.slow
def test_the_newest_checkpoint_is_finite_and_the_error_names_it(tmp_path: Path) -> None:
    """Whatever ends a run with checkpoints, its error names the newest one."""
    for folder, look, error, step in (("looks", True, NotFiniteError, 8), ("not", False, ValueError, 12)):
        data = X if look else X[:13]
        with pytest.raises(error) as caught:
            repeat(40, add, START, InfeedQueue(data), check_nans=look, checkpoints=Checkpoints(tmp_path / folder, every=4), donate=False)
        assert caught.value.__notes__[-1] == f"{tmp_path / folder} has the checkpoint of step {step}, from which the next run goes on"
        saved = Checkpoints(tmp_path / folder).restore(like=START, feeds=InfeedQueue(X))
        assert np.isfinite(saved["total"]) == look
    with pytest.raises(NotFiniteError) as caught:
        repeat(4, add, START, InfeedQueue(X[9:]), check_nans=True, checkpoints=Checkpoints(tmp_path / "none", every=2), donate=False)
    assert caught.value.__notes__[-1] == f"{tmp_path / 'none'} has no checkpoint yet"


@pytest.mark.parametrize("carry", [{}, {"count": 0, "key": jax.random.key(1)}], ids=["empty", "no floats"])
def test_a_carry_that_has_nothing_to_be_looked_at_is_finite(carry: Any) -> None:
    found = repeat(3, lambda carry: carry, carry, check_nans=True, donate=False)
    assert jax.tree.structure(found) == jax.tree.structure(carry)
