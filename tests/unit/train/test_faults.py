"""What goes wrong in a dataset, a callback or a directory: its user is told, nothing hangs, and the run goes on."""

import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.faults import Stderr, blocked_until, faulty
from tilestep.errors import CheckpointError, DatasetError
from tilestep.train import Checkpoints, InfeedQueue, loop_state, patience, repeat


def add(total: Any, x: Any) -> Any:
    return total + x


def fails(error: BaseException) -> Callable[[], Any]:
    def fault() -> Any:
        raise error

    return fault


@pytest.mark.parametrize(
    ("fault", "error", "words"),
    [
        (fails(OSError("the disk is gone")), OSError, "the disk is gone"),
        (fails(MemoryError("no memory")), MemoryError, "no memory"),
        (lambda: np.zeros(3, np.float32), DatasetError, r"element 9 is float32\[3\], in the first one it was float32\[\]"),
        (lambda: np.int8(1), DatasetError, r"element 9 is int8\[\], in the first one it was float32\[\]"),
        (fails(StopIteration()), RuntimeError, "generator raised StopIteration"),
    ],
    ids=["raises", "memory", "shape", "dtype", "stops"],
)
def test_what_is_wrong_with_an_element_is_told_with_the_state_before_its_chunk(
    fault: Callable[[], Any], error: type[Exception], words: str, tmp_path: Path
) -> None:
    """Element 9 is of the chunk of elements 8 to 11. The state is with the error and on the disk, and the run goes on from either."""
    infeed = InfeedQueue(lambda: faulty(9, fault))
    with pytest.raises(error, match=words) as caught:
        repeat(16, add, jnp.float32(0), infeed, chunk=4, checkpoints=Checkpoints(tmp_path, every=4))
    reached = loop_state(caught.value)
    assert reached is not None
    assert (reached.steps, float(reached.carry), infeed.consumed) == (8, 28, 8)
    assert caught.value.__notes__[-1] == f"{tmp_path} has the checkpoint of step 8, from which the next run goes on"
    mended = InfeedQueue(lambda: (np.float32(number) for number in range(100)))
    mended.restore(infeed.state())
    assert float(repeat(8, add, reached.carry, mended)) == sum(range(16))
    again = repeat(16, add, jnp.float32(0), InfeedQueue(lambda: faulty(99, fault)), chunk=4, checkpoints=Checkpoints(tmp_path, every=4))
    assert float(again) == sum(range(16))


def said_while_it_waits(monkeypatch: pytest.MonkeyPatch, words: str) -> Stderr:
    """Waits say at once what they are for. Returns: where."""
    stderr = Stderr(words)
    monkeypatch.setattr(patience, "SAY_WALL_S", 0.0)
    monkeypatch.setattr(sys, "stderr", stderr)
    return stderr


def test_a_dataset_that_blocks_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    words = "s for the next elements of its InfeedQueue: the dataset has not given them yet"
    wait = blocked_until(said_while_it_waits(monkeypatch, words).said)
    infeed = InfeedQueue(faulty(5, lambda: wait(np.float32(5))))
    assert float(repeat(8, add, np.float32(0), infeed, chunk=4)) == sum(range(8))


def test_a_callback_that_does_not_return_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """From the second chunk on: the first call may compile for long."""
    words = "s for the device, which has not done all steps that repeat(12) has started"
    wait = blocked_until(said_while_it_waits(monkeypatch, words).said)

    def look(x: Any) -> Any:
        return wait(x) if x == 5 else x

    def body(total: Any, x: Any) -> Any:
        return total + jax.pure_callback(look, jax.ShapeDtypeStruct((), np.float32), x)

    assert float(repeat(12, body, np.float32(0), InfeedQueue(map(np.float32, range(12))), chunk=4)) == sum(range(12))


def test_a_callback_that_raises_is_told_and_the_run_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    """The program that has failed had taken the carry over, so there is no state with the error."""
    fails_at = [9.0]

    def look(x: Any) -> Any:
        if x in fails_at:
            raise ValueError("no such value")
        return x

    def run() -> Any:
        def body(total: Any, x: Any) -> Any:
            return total + jax.pure_callback(look, jax.ShapeDtypeStruct((), np.float32), x)

        infeed = InfeedQueue(lambda: faulty(99, lambda: None))
        return repeat(16, body, jnp.float32(0), infeed, chunk=4, checkpoints=Checkpoints(tmp_path, every=4))

    with pytest.raises(ValueError, match="no such value") as caught:
        run()
    assert loop_state(caught.value) is None
    assert caught.value.__notes__[-1] == f"{tmp_path} has the checkpoint of step 8, from which the next run goes on"
    fails_at.clear()
    assert float(run()) == sum(range(16))


def test_a_directory_that_was_removed_is_made_again_and_has_no_older_checkpoint(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path / "own", background=False)
    checkpoints.save(1, jnp.ones(3))
    shutil.rmtree(tmp_path / "own")
    with pytest.raises(CheckpointError, match="own has no checkpoint: save one first"):
        checkpoints.restore(like=jnp.ones(3))
    checkpoints.save(2, jnp.ones(3))
    assert checkpoints.steps() == [2]
