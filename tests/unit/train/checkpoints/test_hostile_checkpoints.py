"""What a hostile user found, by kind: replicas, odd leaves, failures of the last save, two writers, and files from elsewhere."""

from __future__ import annotations

import json
import os
import resource
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec

from tests.unit.train.checkpoints.test_checkpoints import Ended, bits
from tilestep import train
from tilestep.errors import CheckpointError, QueueError
from tilestep.train.checkpoints.metadata import Metadata
from tilestep.train.checkpoints.storage import Storage

CPUS = jax.devices("cpu")


def test_replicas_with_carries_of_their_own_go_on_with_them(tmp_path: Path) -> None:
    replicas = train.Replicas(devices=CPUS[:2])

    def body(carry: Any, x: Any) -> Any:
        total, key = carry
        key, own = jax.random.split(jax.random.fold_in(key, train.replica_index()))
        return total + x * jax.random.uniform(own, ()), key

    def run(directory: Path, end: int | None) -> Any:
        def data() -> Iterator[np.float32]:
            for number in range(40):
                if number == end:
                    raise Ended
                yield np.float32(number)

        infeed = train.InfeedQueue(data, replicas=2)
        carry = jnp.zeros(()), jax.random.key(0)
        return train.repeat(20, body, carry, infeed, replicas=replicas, checkpoints=train.Checkpoints(directory, every=4))

    def parts(carry: Any) -> list[Any]:
        leaves = carry[0], jax.random.key_data(carry[1])
        return [np.asarray(shard.data).tolist() for leaf in leaves for shard in leaf.addressable_shards]

    whole = parts(run(tmp_path / "whole", None))
    assert whole[0] != whole[1]
    with pytest.raises(Ended):
        run(tmp_path / "ended", 21)
    assert parts(run(tmp_path / "ended", None)) == whole


def test_random_keys_that_differ_between_replicas_stay_different(tmp_path: Path) -> None:
    mesh = jax.make_mesh((2,), ("r",), devices=CPUS[:2], axis_types=(jax.sharding.AxisType.Auto,))
    numbers = [jax.device_put(jnp.full(2, index, jnp.uint32), CPUS[index]) for index in range(2)]
    keys = jax.random.wrap_key_data(jax.make_array_from_single_device_arrays((2,), NamedSharding(mesh, PartitionSpec()), numbers))
    checkpoints = train.Checkpoints(tmp_path)
    checkpoints.save(0, keys)
    found = jax.random.key_data(checkpoints.restore(like=keys))
    assert [shard.data.tolist() for shard in found.addressable_shards] == [[0, 0], [1, 1]]


def test_odd_leaves_are_right_or_refused(tmp_path: Path) -> None:
    checkpoints = train.Checkpoints(tmp_path)
    state = {"big": np.arange(3, dtype=">f4"), "weak": jnp.asarray(0.5), "scalar": np.float32(2), "bfloat": jnp.asarray(1, jnp.bfloat16)}
    checkpoints.save(1, state)
    found = checkpoints.restore(like=state)
    assert found["big"].tolist() == [0, 1, 2]
    assert (found["weak"] * found["bfloat"]).dtype == jnp.bfloat16
    assert type(found["scalar"]) is np.float32
    for step, leaf in enumerate(("adam", np.array(["ab"]), np.zeros(2, [("a", int)]), 2**70), start=2):
        with pytest.raises(CheckpointError, match=r"state\['x'\] is a .*a checkpoint cannot keep it"):
            checkpoints.save(step, {"x": leaf})
    for number, like in ((0.5, 1), (5, True), (1j, 1), (True, 1)):
        checkpoints = train.Checkpoints(tmp_path / f"{number}")
        checkpoints.save(1, number)
        with pytest.raises(CheckpointError, match=rf"there, and {np.asarray(like).dtype}\[\] here"):
            checkpoints.restore(like=like)
    for odd, name in ((bits, "function"), (2**70, "ndarray"), (np.array(["ab"]), "ndarray")):
        with pytest.raises(CheckpointError, match=f"like is a {name}, no array or number"):
            checkpoints.restore(like=odd)


def test_two_leaves_of_one_name_are_refused(tmp_path: Path) -> None:
    class Name(str):
        def __repr__(self) -> str:
            return "'n'"

    with pytest.raises(CheckpointError, match=r"two leaves of the state are called state\['n'\]"):
        train.Checkpoints(tmp_path).save(1, {Name("a"): 1, Name("b"): 2})


def test_a_last_save_that_fails_leaves_the_result_with_the_error(tmp_path: Path) -> None:
    """A file may have a megabyte, and the carry has four."""
    before, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    checkpoints = train.Checkpoints(tmp_path, every=10)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, before[1]))
        with pytest.raises(CheckpointError, match=r"the checkpoint of step 10 in .* was not saved: File too large") as raised:
            train.repeat(10, lambda c: c + 1, jnp.zeros(1_000_000), checkpoints=checkpoints)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    state = train.loop_state(raised.value)
    assert state is not None
    assert (state.steps, float(state.carry[0])) == (10, 10)
    assert [file.name for file in (tmp_path / "process-0").iterdir()] == ["lock"]  # the half of it would fill the disk
    assert float(train.repeat(10, lambda c: c + 1, jnp.zeros(3), checkpoints=checkpoints)[0]) == 10  # the same object may go on


@pytest.mark.parametrize("name", ["", "gs://bucket/run", "a\0b", b"run"])
def test_what_is_no_directory_is_refused_at_once(name: Any) -> None:
    with pytest.raises(ValueError, match="it must be the name of a directory that this machine's file system has"):
        train.Checkpoints(name)


def test_a_directory_whose_name_is_no_text_is_refused_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Orbax could not save there. The working directory's name counts, too."""
    (odd := tmp_path / "caf\udce9").mkdir()
    monkeypatch.chdir(odd)
    for name in (odd / "run", "run"):
        with pytest.raises(ValueError, match=r"directory is '/.*caf\\udce9/run': Orbax saves in directories whose whole path is UTF-8"):
            train.Checkpoints(name)


def test_what_are_no_checkpoints_is_refused_by_loops(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="checkpoints is a str: it must be a Checkpoints, or None"):
        train.repeat(1, lambda c: c, jnp.zeros(()), checkpoints=str(tmp_path))  # type: ignore[arg-type]


def test_an_array_that_was_donated_is_named(tmp_path: Path) -> None:
    gone = jnp.zeros(3)
    gone.delete()
    with pytest.raises(CheckpointError, match=r"state\['w'\] was deleted: a program that it was donated to has taken it over"):
        train.Checkpoints(tmp_path).save(1, {"w": gone})
    train.Checkpoints(tmp_path, background=False).save(1, 0)  # the first one's lock is released


@pytest.mark.parametrize("background", [False, True])
def test_ctrl_c_amid_a_save_by_hand_comes_when_it_is_taken_and_leaves_no_lock(background: bool, tmp_path: Path) -> None:
    class Number:
        """A leaf that is interrupted while it is copied."""

        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            signal.raise_signal(signal.SIGINT)
            return np.asarray(7.0)

    checkpoints = train.Checkpoints(tmp_path, background=background)
    with pytest.raises(KeyboardInterrupt):
        checkpoints.save(1, Number())
    checkpoints.wait()
    train.Checkpoints(tmp_path, background=False).save(2, 0)
    assert train.Checkpoints(tmp_path).steps() == [1, 2]


def test_a_queue_that_cannot_go_there_leaves_the_others_as_they_are(tmp_path: Path) -> None:
    outfeed, infeed = train.OutfeedQueue(), train.InfeedQueue([1.0, 2.0])
    train.repeat(2, lambda c, x: (outfeed.enqueue(x), c)[1], jnp.zeros(()), infeed, outfeed)
    checkpoints = train.Checkpoints(tmp_path)
    checkpoints.save(2, 0, feeds=infeed, outfeeds=outfeed)
    closed, empty = train.InfeedQueue([1.0]), train.OutfeedQueue()
    closed.close()
    with pytest.raises(QueueError, match="closed"):
        checkpoints.restore(like=0, feeds=closed, outfeeds=empty)
    assert len(empty) == 0


# ---------------------------------------------------------------------------------------------------- files from elsewhere


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    outfeed, infeed = train.OutfeedQueue(), train.InfeedQueue([1.0, 2.0])
    train.repeat(2, lambda c, x: (outfeed.enqueue(x), c)[1], jnp.zeros(()), infeed, outfeed)
    with train.Checkpoints(tmp_path) as checkpoints:
        checkpoints.save(1, {"w": jnp.arange(3.0)}, feeds=infeed, outfeeds=outfeed)
    return tmp_path


def restored(directory: Path) -> Any:
    return train.Checkpoints(directory).restore(
        like={"w": jnp.zeros(3)}, feeds=train.InfeedQueue([1.0, 2.0]), outfeeds=train.OutfeedQueue(), step=1
    )


def edits(record: list[Any]) -> Iterator[tuple[str, Callable[[], None]]]:
    """What somebody may write into the metadata. Fields: see `Metadata`; 0 is the name of the class."""
    leaf = record[8][0]
    piece = leaf[5][0]
    stored = piece[4]
    for name, target, index, value in (
        ("another name", stored, 1, "../../a0.0"),
        ("a long shape", stored, 2, [1] * 70 + [3]),
        ("a huge shape", stored, 2, [2**62]),
        ("a negative shape", stored, 2, [-3]),
        ("another dtype of the file", stored, 3, "int32"),
        ("text", stored, 3, "U1"),
        ("another order of bytes", stored, 3, ">f4"),
        ("objects", stored, 3, "object"),
        ("a negative beginning", piece, 1, [-1]),
        ("an end beyond", piece, 2, [4]),
        ("ends of more axes", piece, 2, [3, 1]),
        ("so many processes", record, 6, 2 * 10**9),
        ("no processes", record, 6, 0),
        ("a late time", record, 3, 10**20),
        ("infeeds", record, 9, '{"infeed": 5}'),
        ("a negative position", record, 9, '{"infeed": {"$dict": [["elements", -1]]}}'),
        ("no position", record, 9, '{"infeed": {"$dict": []}}'),
        ("deep infeeds", record, 9, '{"infeed": ' + "[" * 900 + "]" * 900 + "}"),
        ("a list of infeeds", record, 9, "[1]"),
        ("no JSON", record, 9, "["),
        ("outfeeds", record, 10, '{"outfeed": 5}'),
        ("steps", record, 10, '{"outfeed": {"$dict": [["steps", 1000000000000], ["values", {"$array": "f0"}]]}}'),
        ("steps of text", record, 10, '{"outfeed": {"$dict": [["steps", "x"], ["values", {"$array": "f0"}]]}}'),
        ("a mapping of lists", record, 10, '{"outfeed": {"$dict": [[[], 1]]}}'),
        ("an array that there is none of", record, 10, '{"outfeed": {"$array": "f7"}}'),
    ):

        def edit(target: Any = target, index: int = index, value: Any = value) -> None:
            target[index] = value

        yield name, edit


def test_metadata_from_elsewhere_are_errors_of_checkpoints(saved: Path) -> None:
    """Never another error, and in bounded time and memory."""
    file = saved / "process-0" / "1" / "metadata.json"
    text = file.read_text()
    names = [name for name, _ in edits(json.loads(text)["record"])]
    for number, name in enumerate(names):
        content = json.loads(text)
        list(edits(content["record"]))[number][1]()
        file.write_text(json.dumps(content))
        try:
            with pytest.raises(CheckpointError):
                restored(saved)
        except BaseException as error:
            error.add_note(name)
            raise
    file.write_text(text)
    assert restored(saved)["w"].tolist() == [0, 1, 2]


def test_files_that_are_none_are_errors_of_checkpoints(saved: Path) -> None:
    folder = saved / "process-0" / "1"
    array, metadata = folder / "a0.0", folder / "metadata.json"
    whole = array.read_bytes()
    elsewhere = saved / "elsewhere"
    elsewhere.write_bytes(whole)

    def large() -> None:
        array.write_bytes(whole)
        os.truncate(array, 1 << 40)

    for make in (
        lambda: array.write_bytes(whole[:-1]),
        lambda: array.write_bytes(b""),
        lambda: array.write_bytes(whole.replace(b"(3,)", b"(9,)")),
        lambda: array.write_bytes(whole.replace(b"<f4", b"|O8")),
        large,
        lambda: os.mkfifo(array),
        lambda: array.symlink_to("/dev/zero"),
        lambda: array.symlink_to(elsewhere),
        lambda: array.mkdir(),
    ):
        array.unlink(missing_ok=True)
        make()
        with pytest.raises(CheckpointError, match=r"process-0/1 is damaged: state\['w'\]"):
            restored(saved)
        if array.is_dir():
            array.rmdir()
    array.write_bytes(whole)
    restored(saved)
    metadata.rename(elsewhere)
    metadata.symlink_to(elsewhere)
    with pytest.raises(CheckpointError, match=r"process-0/1 cannot be read: metadata\.json is a link, which no checkpoint has"):
        restored(saved)


def test_folders_that_are_links_are_refused_for_reading_and_for_saving(saved: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    part, step = saved / "process-0", saved / "process-0" / "1"
    for folder in (step, part):
        moved = folder.rename(elsewhere / folder.name)
        folder.symlink_to(moved)
        with pytest.raises(CheckpointError, match=f"process-0/1 cannot be read: {folder.name} is a link, which no checkpoint has"):
            restored(saved)
        if folder == part:
            with pytest.raises(CheckpointError, match=r"checkpoints cannot be saved in .*process-0: process-0 is a link"):
                train.Checkpoints(saved, background=False).save(2, 0)
        folder.unlink()
        moved.rename(folder)
    lock, letter = part / "lock", elsewhere / "letter"
    letter.write_text("dear")
    lock.unlink()
    lock.symlink_to(letter)
    with pytest.raises(CheckpointError, match=r"checkpoints cannot be saved in .*process-0: lock is a link, which no checkpoint has"):
        train.Checkpoints(saved, background=False).save(2, 0)
    assert letter.read_text() == "dear"  # a lock says who holds it
    lock.unlink()
    train.Checkpoints(saved, background=False).save(2, 0)
    whole = saved.rename(elsewhere / "whole")  # the directory is the user's: a link to it is no error
    saved.symlink_to(whole)
    assert restored(saved)["w"].tolist() == [0, 1, 2]


def test_a_damaged_newest_one_is_named_and_an_older_one_can_be_restored(tmp_path: Path) -> None:
    checkpoints = train.Checkpoints(tmp_path, background=False)
    for step in (5, 10):
        checkpoints.save(step, jnp.full(2, float(step)))
    (tmp_path / "process-0" / "10" / "metadata.json").write_text("")
    checkpoints = train.Checkpoints(tmp_path, background=False)
    with pytest.raises(CheckpointError, match=r"the newest checkpoint is damaged: .*process-0/10.* restore an earlier step: \[5\]"):
        checkpoints.restore(like=jnp.zeros(2))
    with pytest.raises(CheckpointError, match="process-0/10 cannot be read"):
        checkpoints.restore(like=jnp.zeros(2), step=10)
    assert checkpoints.restore(like=jnp.zeros(2), step=5).tolist() == [5, 5]
    checkpoints.save(15, jnp.zeros(2))
    assert checkpoints.latest() == 15


class WithState:
    """A dataset whose iterator has a state of so many bytes."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __iter__(self) -> WithState:
        return self

    def __next__(self) -> np.float32:
        return np.float32(1)

    def get_state(self) -> bytes:
        return bytes(self.size)

    def set_state(self, state: bytes) -> None:
        self.size = len(state)


def test_metadata_that_would_not_be_read_again_are_not_saved(tmp_path: Path) -> None:
    def fed(size: int) -> train.InfeedQueue:
        queue = train.InfeedQueue(WithState(size))
        train.repeat(1, lambda total, x: total + x, 0.0, queue)
        return queue

    checkpoints = train.Checkpoints(tmp_path, background=False)
    checkpoints.save(1, np.float32(1), feeds=fed(1 << 20))
    too_large = r"step 2 cannot be saved in .*need 34,\d+,\d+ B of metadata, and 33,554,432 B are read again"
    with pytest.raises(CheckpointError, match=too_large):
        checkpoints.save(2, np.float32(1), feeds=fed(25 << 20))
    assert checkpoints.steps() == [1]


def test_a_ctrl_c_in_a_wait_leaves_the_next_one_waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the next save would write beside the one before, and each would remove what the other has begun."""
    may_write, write = threading.Event(), Storage.write

    def late(*args: Any) -> None:
        may_write.wait()
        write(*args)

    monkeypatch.setattr(Storage, "write", late)
    checkpoints = train.Checkpoints(tmp_path)
    checkpoints.save(1, 1.0)
    threading.Timer(0.5, signal.pthread_kill, (threading.main_thread().ident, signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        checkpoints.wait()
    threading.Timer(0.2, may_write.set).start()
    checkpoints.wait()
    assert (tmp_path / "process-0" / "1" / "metadata.json").exists()


def test_a_save_removes_nothing_that_is_damaged_or_of_others(tmp_path: Path) -> None:
    part = tmp_path / "process-0"
    with train.Checkpoints(tmp_path) as checkpoints:
        checkpoints.save(20, 1.0)
        checkpoints.wait()
        (part / "20" / "metadata.json").rename(part / "20" / "elsewhere")
        with pytest.raises(CheckpointError, match=r"has a checkpoint of step 20 already, damaged \(.*process-0/20 cannot be read"):
            checkpoints.save(10, 1.0)
        (part / "20" / "elsewhere").rename(part / "20" / "metadata.json")
        (part / "notes.dropped.txt").write_text("mine")
        (part / "20.dropped").mkdir()
        checkpoints.save(30, 1.0)
    assert sorted(file.name for file in part.iterdir()) == ["20", "30", "lock", "notes.dropped.txt"]


def test_what_another_process_puts_away_while_steps_are_listed_is_not_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It goes on from an earlier step, and a killed run had saved its part of this one alone."""
    with train.Checkpoints(tmp_path) as checkpoints:
        checkpoints.save(56, 1.0)
    read = Storage.metadata

    def put_away_first(storage: Storage, step: int, process: int) -> Metadata:
        folder = storage.folder(process, step)
        folder.rename(folder.with_name("56.dropped"))
        return read(storage, step, process)

    monkeypatch.setattr(Storage, "metadata", put_away_first)
    assert Storage(tmp_path, 1, None).steps() == ([], {})
