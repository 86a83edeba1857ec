"""Checkpoints stay readable: `format_N` is of the version that had format N first, and is not written again."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from tilestep.train import Checkpoints, InfeedQueue, OutfeedQueue

KEPT = Path(__file__).with_name("format_1")
LIKE = {"total": jnp.zeros(()), "half": jnp.zeros(2, jnp.bfloat16), "key": jax.random.key(0), "rate": 0.0}


def test_format_1_is_read() -> None:
    """After three steps that add the elements 0, 1, 2, ... and enqueue them."""
    infeed, outfeed = InfeedQueue(lambda: (np.float32(k) for k in range(100))), OutfeedQueue()
    with infeed:
        state = Checkpoints(KEPT).restore(like=LIKE, feeds=infeed, outfeeds=outfeed)
        assert infeed.state() == {"elements": 3}
    assert (float(state["total"]), state["half"].tolist(), state["rate"]) == (0 + 1 + 2, [0.5, -2.0], 0.25)
    assert jax.random.key_data(state["key"]).tolist() == [0, 7]
    assert outfeed.dequeue().tolist() == [0, 1, 2]
