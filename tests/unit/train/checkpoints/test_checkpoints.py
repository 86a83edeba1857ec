"""A run that ends at any moment and goes on from its checkpoint gives the bits of one that was never ended."""

from __future__ import annotations

import dataclasses
import functools
import gc
import itertools
import json
import signal
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import optax
import pytest
from jax.sharding import NamedSharding, PartitionSpec

from tilestep import train
from tilestep.errors import CheckpointError, Preempted, QueueError
from tilestep.train.checkpoints.metadata import Metadata
from tilestep.train.checkpoints.storage import digest

STEPS = 24
CPUS = jax.devices("cpu")


class Ended(Exception):
    """The run ends here, as if it were killed."""


def elements(end: int | None = None) -> Callable[[], Iterator[np.ndarray]]:
    """Elements float32[8, 4], each another one. Args: end: the element that raises."""

    def dataset() -> Iterator[np.ndarray]:
        for index in range(400):
            if index == end:
                raise Ended
            yield np.random.RandomState(index).randn(8, 4).astype(np.float32)

    return dataset


def bits(tree: Any) -> list[Any]:
    """Each leaf's path, dtype and bytes."""

    def data(leaf: Any) -> np.ndarray:
        is_key = isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
        return np.asarray(jax.random.key_data(leaf) if is_key else leaf)

    return [
        (jax.tree_util.keystr(path), str(data(leaf).dtype), data(leaf).tobytes())
        for path, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]
    ]


@functools.cache
def program() -> tuple[Any, Any, train.OutfeedQueue]:
    """(body, first carry, its outfeed): random keys, bfloat16, accumulation and numbers in the carry. Compiled once for all runs."""
    optimizer = train.gradient_accumulation(optax.adam(1e-2), 4)
    params = {"w": jnp.ones((4, 3), jnp.bfloat16), "b": jnp.zeros(3)}
    outfeed = train.OutfeedQueue()

    def body(carry: Any, x: Any) -> Any:
        params, state, key, count, factor = carry
        key, own = jax.random.split(key)

        def loss(params: Any) -> Any:
            return jnp.mean((x @ params["w"].astype(jnp.float32) + params["b"] + factor * jax.random.normal(own, (8, 3))) ** 2)

        value, gradients = jax.value_and_grad(loss)(params)
        updates, state = optimizer.update(gradients, state, params)
        outfeed.enqueue({"loss": value, "step": (count,)})
        return optax.apply_updates(params, updates), state, key, count + 1, factor * 0.9

    return body, (params, optimizer.init(params), jax.random.key(3), 0, 0.5), outfeed


def training(directory: Path, end: int | None, **options: Any) -> tuple[Any, Any]:
    """(the carry, the losses that nobody had read) of `STEPS` steps."""
    body, carry, outfeed = program()
    carry = jax.tree.map(lambda leaf: leaf.copy() if isinstance(leaf, jax.Array) else leaf, carry)  # it is donated
    outfeed.dequeue()  # of a run before
    with train.InfeedQueue(elements(end)) as infeed:
        found = train.repeat(STEPS, body, carry, infeed, outfeed, checkpoints=train.Checkpoints(directory, **options))
    return found, outfeed.dequeue()


def test_a_loop_ended_anywhere_goes_on_with_equal_bits(tmp_path: Path) -> None:
    """Amid an accumulation of 4 too: it is saved every 3 steps."""
    whole, losses = training(tmp_path / "whole", None, every=3)
    for end in (2, 10, 11, STEPS - 1):
        with pytest.raises(Ended):
            training(tmp_path / "ended", end, every=3)
    carry, found = training(tmp_path / "ended", None, every=3)
    assert bits(carry) == bits(whole)
    assert bits(found) == bits(losses)
    assert found["step"][0].tolist() == list(range(STEPS))


def test_a_run_that_is_done_returns_at_once(tmp_path: Path) -> None:
    whole, _ = training(tmp_path, None, every=4, background=False)
    again, losses = training(tmp_path, 0, every=4)  # its dataset would raise
    assert bits(again) == bits(whole)
    assert len(losses["loss"]) == STEPS


def test_the_newest_ones_stay(tmp_path: Path) -> None:
    training(tmp_path, None, every=4, keep=2)
    assert train.Checkpoints(tmp_path).steps() == [20, 24]


def test_one_directory_is_of_one_run(tmp_path: Path) -> None:
    checkpoints = train.Checkpoints(tmp_path, every=2)
    train.repeat(4, lambda x: x + 1, jnp.zeros(2), checkpoints=checkpoints)
    with pytest.raises(ValueError, match=r"repeat\(6\) has the Checkpoints that repeat\(4\) has had: one directory belongs to one run"):
        train.repeat(6, lambda x: x + 1, jnp.zeros(2), checkpoints=checkpoints)
    with pytest.raises(CheckpointError, match=r"has step 4, and repeat\(3\) has 3 steps in all"):
        train.repeat(3, lambda x: x + 1, jnp.zeros(2), checkpoints=train.Checkpoints(tmp_path, every=2))


def test_a_run_needs_to_know_when_to_save(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="cannot tell when to save"):
        train.repeat(4, lambda x: x + 1, jnp.zeros(2), checkpoints=train.Checkpoints(tmp_path))


def test_sigterm_saves_and_ends_with_143(tmp_path: Path) -> None:
    def dataset() -> Iterator[np.ndarray]:
        for index in range(100):
            if index == 9:
                signal.raise_signal(signal.SIGTERM)
            yield np.float32(index)

    def run() -> Any:
        checkpoints = train.Checkpoints(tmp_path, every=50)
        with train.InfeedQueue(dataset, prefetch_depth=1) as infeed:
            return train.repeat(60, lambda c, x: c + x, jnp.float32(0), infeed, chunk=2, checkpoints=checkpoints)

    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(Preempted) as ended:
        run()
    assert ended.value.code == 128 + signal.SIGTERM
    assert (ended.value.step % 2, ended.value.directory) == (0, tmp_path)
    assert ended.value.step < 20
    assert train.Checkpoints(tmp_path).steps() == [ended.value.step]
    assert signal.getsignal(signal.SIGTERM) == before


# ------------------------------------------------------------------------------------------------------------- by hand

TREE = {
    "float": jnp.arange(6, dtype=jnp.float32).reshape(2, 3),
    "bfloat": jnp.ones((2, 2), jnp.bfloat16) * 1.5,
    "small": jnp.asarray([1, 2], jnp.int8),
    "float8": jnp.asarray([0.5, 2], jnp.float8_e4m3fn),
    "complex": jnp.asarray(1 + 2j),
    "empty": jnp.zeros((0, 3)),
    "key": jax.random.key(7, impl="rbg"),
    "keys": jax.random.split(jax.random.key(1), 3),
    "numpy": np.arange(3),
    "bool": True,
    "count": 5,
    "factor": 0.25,
}


def test_every_dtype_comes_back(tmp_path: Path) -> None:
    checkpoints = train.Checkpoints(tmp_path)
    checkpoints.save(1, TREE)
    found = checkpoints.restore(like=jax.tree.map(lambda leaf: leaf, TREE))
    assert bits(found) == bits(TREE)
    assert [type(found[name]) for name in ("numpy", "bool", "count", "factor")] == [np.ndarray, bool, int, float]
    assert jax.random.key_impl(found["key"]) == jax.random.key_impl(TREE["key"])


def test_arrays_go_where_those_of_like_are(tmp_path: Path) -> None:
    """Saved in 2 x 2 pieces; restored in 4 rows, in 2 columns, on one device, and as shapes with a sharding."""
    value = np.arange(64, dtype=np.float32).reshape(8, 8)
    square = jax.make_mesh((2, 2), ("a", "b"), devices=CPUS[:4], axis_types=(jax.sharding.AxisType.Auto,) * 2)
    row = jax.make_mesh((4,), ("a",), devices=CPUS[4:8], axis_types=(jax.sharding.AxisType.Auto,))
    checkpoints = train.Checkpoints(tmp_path)
    checkpoints.save(0, {"x": jax.device_put(value, NamedSharding(square, PartitionSpec("a", "b")))})
    for target in (
        NamedSharding(row, PartitionSpec("a")),
        NamedSharding(square, PartitionSpec(None, "b")),
        jax.sharding.SingleDeviceSharding(CPUS[3]),
        jax.sharding.SingleDeviceSharding(CPUS[3], memory_kind="pinned_host"),
        NamedSharding(row, PartitionSpec(), memory_kind="unpinned_host"),
    ):
        for like in (jax.device_put(jnp.zeros((8, 8)), target), jax.ShapeDtypeStruct((8, 8), jnp.float32, sharding=target)):
            found = checkpoints.restore(like={"x": like})["x"]
            assert found.sharding == target
            assert jax.typeof(found) == jax.typeof(jax.device_put(value, target))  # its memory too: what compiles for it believes that
            np.testing.assert_array_equal(found, value)


def test_like_of_another_form_is_refused_by_name(tmp_path: Path) -> None:
    checkpoints = train.Checkpoints(tmp_path)
    checkpoints.save(3, {"a": jnp.zeros(2), "b": jnp.zeros((3,), jnp.int32)})
    for like, message in (
        ({"a": jnp.zeros(2)}, r"step 3 is of another state: it has state\['b'\] besides"),
        ({"a": jnp.zeros(2), "c": jnp.zeros(3)}, r"it lacks state\['c'\] and has state\['b'\] besides"),
        ({"a": jnp.zeros(4), "b": jnp.zeros(3, jnp.int32)}, r"state\['a'\] is float32\[2\] there, and float32\[4\] here"),
        ({"a": jnp.zeros(2), "b": jnp.zeros(3)}, r"state\['b'\] is int32\[3\] there, and float32\[3\] here"),
        ({"a": jax.random.key(0), "b": jnp.zeros(3, jnp.int32)}, r"and a random key \(threefry2x32\) uint32\[2\] here"),
    ):
        with pytest.raises(CheckpointError, match=message):
            checkpoints.restore(like=like)
    with pytest.raises(CheckpointError, match=r"has no checkpoint of step 4: it has \[3\]"):
        checkpoints.restore(like={}, step=4)
    with pytest.raises(CheckpointError, match="has no checkpoint: save one first"):
        train.Checkpoints(tmp_path / "other").restore(like={})


def test_steps_only_rise(tmp_path: Path) -> None:
    checkpoints = train.Checkpoints(tmp_path)
    checkpoints.save(3, jnp.zeros(2))
    with pytest.raises(CheckpointError, match="has a checkpoint of step 3 already, and step 3 is not after it"):
        checkpoints.save(3, jnp.zeros(2))
    with pytest.raises(CheckpointError, match="step 2 is not after it"):
        train.Checkpoints(tmp_path).save(2, jnp.zeros(2))


def test_queues_by_name_and_what_nobody_has_read(tmp_path: Path) -> None:
    outfeed, infeed = train.OutfeedQueue(), train.InfeedQueue(elements())
    train.repeat(5, lambda c, x: (outfeed.enqueue((x.sum(), [c])), c + 1)[1], 0, infeed, outfeed)
    checkpoints = train.Checkpoints(tmp_path)
    checkpoints.save(5, 1, feeds={"data": infeed}, outfeeds=outfeed)
    assert len(outfeed) == 5  # they stay
    new_out, new_in = train.OutfeedQueue(), train.InfeedQueue(elements())
    with pytest.raises(CheckpointError, match=r"was saved with feeds \['data'\], and here are none"):
        checkpoints.restore(like=1, outfeeds=new_out)
    checkpoints.restore(like=1, feeds={"data": new_in}, outfeeds=new_out)
    assert (new_in.consumed, len(new_out)) == (5, 5)
    assert bits(new_out.dequeue()) == bits(outfeed.dequeue())
    train.repeat(1, lambda c, x: (new_out.enqueue((x.sum(), [c])), c + 1)[1], 5, new_in, new_out)
    np.testing.assert_allclose(new_out.dequeue()[0], [next(itertools.islice(elements()(), 5, None)).sum()], rtol=1e-5)
    full = train.OutfeedQueue()
    train.repeat(1, lambda c: (full.enqueue(c), c)[1], jnp.zeros(1), outfeed=full)
    with pytest.raises(QueueError, match="something waits to be read"):
        checkpoints.restore(like=1, feeds={"data": new_in}, outfeeds=full)


class Walk:
    """An iterator that keeps its own state, with bytes, an array and a tuple in it."""

    def __init__(self) -> None:
        self.at = 0

    def __iter__(self) -> Walk:
        return self

    def __next__(self) -> np.ndarray:
        self.at += 1
        return np.float32(self.at)

    def get_state(self) -> Any:
        return {"at": np.array(self.at), "seen": (b"\x00x", [None, 1.5]), 3: ml_dtypes.bfloat16(2)}

    def set_state(self, state: Any) -> None:
        assert state["seen"] == (b"\x00x", [None, 1.5])
        assert state[3].dtype == ml_dtypes.bfloat16
        self.at = int(state["at"])


class TorchsWalk:
    """The same by torch's names. It gives out the state that it goes on changing."""

    def __init__(self) -> None:
        self.own: dict[str, Any] = {"at": 0}

    def __iter__(self) -> TorchsWalk:
        return self

    def __next__(self) -> np.ndarray:
        self.own["at"] += 1
        return np.float32(self.own["at"])

    def state_dict(self) -> dict[str, Any]:
        return self.own

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.own = dict(state)


@pytest.mark.parametrize("walk", [Walk, TorchsWalk])
def test_a_dataset_that_knows_its_place_goes_there_itself(walk: type[Any], tmp_path: Path) -> None:
    checkpoints, infeed = train.Checkpoints(tmp_path), train.InfeedQueue(walk)
    train.repeat(6, lambda c, x: c + x, jnp.float32(0), infeed)
    checkpoints.save(6, 0, feeds=infeed)
    new = train.InfeedQueue(walk)
    checkpoints.restore(like=0, feeds=new)
    assert float(train.repeat(1, lambda c, x: c + x, jnp.float32(0), new)) == 7


def test_a_state_that_is_no_data_is_refused(tmp_path: Path) -> None:
    class Odd(Walk):
        def get_state(self) -> Any:
            return {"at": [object()]}

    checkpoints, infeed = train.Checkpoints(tmp_path), train.InfeedQueue(Odd)
    train.repeat(1, lambda c, x: c + x, jnp.float32(0), infeed)
    with pytest.raises(CheckpointError, match=r"the state of feed 'infeed'\['dataset'\]\['at'\]\[0\] is a object"):
        checkpoints.save(1, 0, feeds=infeed)


# --------------------------------------------------------------------------------------------------------------- faults


def test_a_flipped_byte_is_found_and_the_leaf_is_named(tmp_path: Path) -> None:
    checkpoints = train.Checkpoints(tmp_path)
    state = {"w": jnp.asarray(np.random.RandomState(0).randn(64, 64), jnp.float32)}
    checkpoints.save(1, state)
    checkpoints.wait()
    largest = max((path for path in tmp_path.rglob("*") if path.is_file()), key=lambda path: path.stat().st_size)
    content = bytearray(largest.read_bytes())
    content[len(content) // 2] ^= 1
    largest.write_bytes(content)
    with pytest.raises(CheckpointError, match=r"process-0/1 is damaged: state\['w'\]"):
        checkpoints.restore(like=state)


def test_an_array_that_is_not_what_was_saved_is_named(tmp_path: Path) -> None:
    checkpoints = train.Checkpoints(tmp_path)
    checkpoints.save(1, {"w": jnp.zeros(3), "b": jnp.ones(2)})
    checkpoints.wait()
    file = tmp_path / "process-0" / "1" / "metadata.json"
    own = digest(np.ones(2, np.float32))
    text = file.read_text()
    assert own in text
    file.write_text(text.replace(own, "0" * 64))
    with pytest.raises(CheckpointError, match=r"is damaged: state\['b'\] is not what was saved \(its SHA-256 differs\)"):
        checkpoints.restore(like={"w": jnp.zeros(3), "b": jnp.ones(2)})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "cannot be read"),
        ("[]", "is no checkpoint of tilestep.train"),
        ('{"tilestep_checkpoint": 99}', "has format 99, and this version of tilestep reads format 1"),
        ('{"tilestep_checkpoint": 1, "record": ["Metadata"]}', "process-0/1"),
        ('{"tilestep_checkpoint": 1, "record": null}', "process-0/1"),
    ],
)
def test_metadata_from_elsewhere(tmp_path: Path, content: str, message: str) -> None:
    checkpoints = train.Checkpoints(tmp_path)
    checkpoints.save(1, {"w": jnp.zeros(3)})
    checkpoints.wait()
    (tmp_path / "process-0" / "1" / "metadata.json").write_text(content)
    with pytest.raises(CheckpointError, match=message):
        checkpoints.restore(like={"w": jnp.zeros(3)})


def test_what_a_killed_save_leaves_is_no_checkpoint_and_goes(tmp_path: Path) -> None:
    checkpoints = train.Checkpoints(tmp_path)
    checkpoints.save(1, jnp.zeros(3))
    checkpoints.wait()
    left = [tmp_path / "process-0" / name for name in ("2.orbax-checkpoint-tmp-17", "0.dropped")]
    for folder in left:
        folder.mkdir()
    assert train.Checkpoints(tmp_path).latest() == 1
    train.Checkpoints(tmp_path, background=False).save(2, jnp.zeros(3))
    assert not any(folder.exists() for folder in left)


def test_a_part_that_another_process_lacks_is_no_checkpoint(tmp_path: Path) -> None:
    """Process 1 of 2 ended before it had saved step 2."""
    checkpoints = train.Checkpoints(tmp_path, background=False)
    checkpoints.save(1, jnp.zeros(3))
    checkpoints.save(2, jnp.zeros(3))
    for step in (1, 2):
        file = tmp_path / "process-0" / str(step) / "metadata.json"
        content = json.loads(file.read_text())
        processes = 1 + [field.name for field in dataclasses.fields(Metadata)].index("processes")
        assert content["record"][processes] == 1
        content["record"][processes] = 2
        file.write_text(json.dumps(content))
    assert train.Checkpoints(tmp_path).steps() == []
    (tmp_path / "process-1" / "1").mkdir(parents=True)
    assert train.Checkpoints(tmp_path).steps() == [1]


def test_a_directory_that_cannot_be_is_told_before_the_first_step(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    checkpoints = train.Checkpoints(tmp_path / "file" / "below", every=2)
    with pytest.raises(CheckpointError, match=r"checkpoints cannot be saved in .*below/process-0: Not a directory") as raised:
        train.repeat(8, lambda c: c + 1, jnp.float32(0), checkpoints=checkpoints)
    assert train.loop_state(raised.value) is None


def test_bad_arguments_are_refused(tmp_path: Path) -> None:
    for options, message in (
        ({"every": 0}, "every"),
        ({"seconds": 0}, "seconds is 0: it must be a number above 0"),
        ({"keep": 0}, "keep"),
        ({"background": 1}, "background"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            train.Checkpoints(tmp_path, **options)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="feeds"):
        train.Checkpoints(tmp_path).save(1, 0, feeds=3)  # type: ignore[arg-type]


def test_nothing_keeps_an_object_whose_saves_are_done(tmp_path: Path) -> None:
    checkpoints = train.Checkpoints(tmp_path)
    checkpoints.save(1, np.float32(1))
    checkpoints.wait()
    left = weakref.ref(checkpoints)
    del checkpoints
    gc.collect()
    assert left() is None
