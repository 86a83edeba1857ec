"""`InfeedQueue`: elements of any dataset, in order, each once, whatever the dataset does with its memory."""

from __future__ import annotations

import gc
import itertools
import textwrap
import threading
import time
import weakref
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.processes import run_python
from tilestep.errors import DatasetError, QueueError
from tilestep.train import InfeedQueue, OutfeedQueue, frozen, loop_state, repeat, while_loop


def numbers(first: int = 0) -> Iterator[Any]:
    return (np.float32(k) for k in itertools.count(first))


def used(infeed: InfeedQueue, n: int, **options: Any) -> list[float]:
    """The next n elements."""
    outfeed = OutfeedQueue()

    def body(c: Any, x: Any) -> Any:
        outfeed.enqueue(x)
        return c

    repeat(n, body, 0, infeed, outfeed, **options)
    return outfeed.dequeue().tolist()


@pytest.mark.parametrize("size", [10, 100_000])
def test_a_dataset_may_reuse_its_memory(size: int) -> None:
    """Each element is copied before the dataset is asked for the next one."""

    def dataset() -> Iterator[Any]:
        memory = np.empty(size, np.float32)
        for k in itertools.count():
            memory[:] = k
            yield memory

    infeed = InfeedQueue(dataset)
    result = repeat(6, lambda c, x: c + x, np.zeros(size, np.float32), infeed, chunk=2)
    assert (np.asarray(result) == 15).all()


def test_memory_that_is_used_again_changes_no_array_that_lives() -> None:
    """Large chunks lie in memory that goes round; arrays that are kept hold on to theirs."""
    size = 50_000
    infeed = InfeedQueue((np.full(size, k, np.float32) for k in itertools.count()), prefetch_depth=1)
    infeed.reserve("test")
    infeed.begin(chunk_steps=2, steps=2, carry_sharding=None)
    kept = []
    for _ in range(12):
        chunk = infeed.take()
        kept.append(jnp.asarray(chunk.on_device) if len(kept) % 2 else jax.device_put(chunk.on_device))
        del chunk
    for k, array in enumerate(kept):
        np.testing.assert_array_equal(np.asarray(array)[:, 0], [2 * k, 2 * k + 1])


def test_only_memory_that_nobody_can_write_to_is_taken_over() -> None:
    """A read-only view of memory that its owner can still write to is copied."""
    size = 50_000
    owner = np.zeros(size + 16, np.float32)
    start = -owner.ctypes.data % 64 // 4
    view = owner[start : start + size]
    view.flags.writeable = False

    def dataset() -> Iterator[Any]:
        for k in itertools.count():
            owner[:] = k
            yield view

    result = repeat(6, lambda c, x: c + x, np.zeros(size, np.float32), InfeedQueue(dataset), chunk=1)
    assert (np.asarray(result) == 15).all()

    settled = owner.copy()
    settled.flags.writeable = False
    rows = [settled[start : start + size], settled[-start - size :][:size]]
    for row in rows:  # aligned or not
        total = repeat(3, lambda c, x: c + x, np.zeros(size, np.float32), InfeedQueue(itertools.repeat(row)), chunk=1)
        np.testing.assert_array_equal(total, 3 * row)


def test_a_frozen_data_set_is_fed_where_it_lies() -> None:
    data = frozen({"x": np.arange(120_000, dtype=np.float32).reshape(3, 40_000), "y": [1, 2, 3], "z": np.zeros((0, 4), ">f4")})
    assert data["x"].ctypes.data % 64 == 0
    with pytest.raises(ValueError, match="read-only"):
        data["x"][0, 0] = 1
    with pytest.raises(ValueError, match="WRITEABLE"):
        data["x"].flags.writeable = True
    infeed = InfeedQueue(itertools.cycle(data["x"]))
    infeed.reserve("a test")
    infeed.begin(chunk_steps=1, steps=3, carry_sharding=None)
    for k in range(3):
        assert np.shares_memory(infeed.take().on_device, data["x"][k])
    infeed.release()
    infeed.close()
    np.testing.assert_array_equal(data["y"], [1, 2, 3])
    with pytest.raises(TypeError, match="no array of numbers"):
        frozen([object()])


def test_frozen_rows_in_their_order_are_a_chunk_where_they_lie() -> None:
    """But for a chunk with the first element, by which the queue sees what comes, and for those at the border of two epochs."""
    rows, labels, length = frozen(np.arange(8 * 20_000, dtype=np.float32).reshape(8, 20_000)), np.arange(8), 3

    def epochs() -> Iterator[Any]:
        for k in itertools.count():
            yield {"row": rows[k % 8], "label": labels[k % 8]}

    infeed = InfeedQueue(epochs)
    infeed.reserve("a test")
    infeed.begin(chunk_steps=length, steps=length, carry_sharding=None)
    shared: list[bool] = []
    for first in range(0, 24, length):
        chunk = infeed.take().on_device
        expected = [k % 8 for k in range(first, first + length)]
        np.testing.assert_array_equal(chunk["label"], expected)
        np.testing.assert_array_equal(chunk["row"], rows[expected])
        shared.append(np.shares_memory(chunk["row"], rows))
    infeed.release()
    infeed.close()
    borders = [any(k % 8 == 0 for k in range(first + 1, first + length)) for first in range(0, 24, length)]
    assert shared == [first > 0 and not border for first, border in zip(range(0, 24, length), borders, strict=True)]


def test_rows_of_several_arrays_are_no_chunk_where_they_lie() -> None:
    """Nor is one that ends before the chunk does, what a dataset raises in the midst of it, or an element that is unlike the others."""
    halves = [frozen(np.full((2, 20_000), k, np.float32)) for k in range(2)]
    infeed = InfeedQueue([np.zeros(20_000, np.float32), *halves[0], *halves[1], *halves[0], *halves[1]])
    assert [row[0] for row in used(infeed, 9, chunk=3)] == [0, 0, 0, 1, 1, 0, 0, 1, 1]
    infeed = InfeedQueue(list(frozen(np.arange(5 * 20_000, dtype=np.float32).reshape(5, 20_000))))
    assert [row[0] for row in used(infeed, 4, chunk=4)] == [0, 20_000, 40_000, 60_000]
    assert [row[0] for row in used(infeed, 1)] == [80_000]
    infeed = InfeedQueue([*frozen(np.ones((6, 20_000), np.float32)), np.ones(3, np.float32)])
    with pytest.raises(DatasetError, match=r"element 6 is float32\[3\]"):
        used(infeed, 8, chunk=4)
    assert len(used(infeed, 2)) == 2  # what came before it


def test_what_begins_where_a_run_goes_on_and_is_laid_out_otherwise_is_no_part_of_it() -> None:
    images = frozen(np.arange(9 * 150 * 150, dtype=np.float32).reshape(9, 150, 150))
    elements = [image.T if k in (4, 5, 7) else image for k, image in enumerate(images)]
    found = used(InfeedQueue(elements), 9, chunk=3)
    np.testing.assert_array_equal(found, np.stack(elements))
    rows = frozen(np.arange(12 * 20_000, dtype=np.float32).reshape(12, 20_000)).reshape(-1)
    steps = [rows[:20_000], rows[20_000:40_000], rows[40_000:80_000:2], rows[60_000:80_000], np.broadcast_to(rows[80_000], 20_000)]
    np.testing.assert_array_equal(used(InfeedQueue(steps), 5, chunk=4), np.stack(steps))


def test_a_row_that_the_dataset_may_write_to_is_no_part_of_a_run() -> None:
    memory = np.arange(9 * 20_000 + 16, dtype=np.float32)
    start = -memory.ctypes.data % 64 // 4
    rows = memory[start : start + 9 * 20_000].reshape(9, 20_000)
    last = rows[5]  # a view from when the memory was not read-only
    memory.flags.writeable = False
    settled = memory[start : start + 9 * 20_000].reshape(9, 20_000)

    def dataset() -> Iterator[Any]:
        yield from settled[:5]
        yield last
        last[:] = -1
        yield from settled[6:]

    assert [row[0] for row in used(InfeedQueue(dataset), 9, chunk=3)] == [20_000 * k + start for k in range(9)]


def test_elements_of_a_run_that_is_not_over_are_there_for_a_loop_that_wants_fewer() -> None:
    rows, go, waits = frozen(np.arange(12 * 20_000, dtype=np.float32).reshape(12, 20_000)), threading.Event(), threading.Event()

    def dataset() -> Iterator[Any]:
        yield from rows[:7]
        waits.set()
        assert go.wait(30)
        yield from rows[7:]

    infeed = InfeedQueue(dataset)
    assert [row[0] for row in used(infeed, 4, chunk=4)] == [20_000 * k for k in range(4)]
    assert waits.wait(30)
    assert [row[0] for row in used(infeed, 3, chunk=1)] == [20_000 * k for k in range(4, 7)]
    go.set()
    assert [row[0] for row in used(infeed, 5, chunk=4)] == [20_000 * k for k in range(7, 12)]


def test_large_elements_are_fed_after_the_main_thread_has_ended() -> None:
    program = """
        import threading, time
        import numpy as np
        from tilestep.train import InfeedQueue, repeat

        def dataset():
            while True:
                time.sleep(0.05)
                yield np.ones(600_000, np.float32)

        def train():
            print(repeat(20, lambda c, x: c + x[0], np.float32(0), InfeedQueue(dataset), chunk=1))

        threading.Thread(target=train).start()
        time.sleep(0.5)
    """
    result = run_python("-c", textwrap.dedent(program), environ={"JAX_PLATFORMS": "cpu"})
    assert result.stdout.split() == ["20.0"], result.stderr


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8])
def test_large_elements_are_copied_by_two_threads(dtype: Any) -> None:
    length = 3_000_001

    def dataset() -> Iterator[Any]:
        memory = np.empty((length,), dtype)
        for k in range(6):
            memory[:] = k
            memory[-1] = 100 + k
            yield memory

    outfeed, infeed = OutfeedQueue(), InfeedQueue(dataset)

    def body(c: Any, x: Any) -> Any:
        outfeed.enqueue((x.astype(np.float32).sum(), x[-1], x[0]))
        return c

    for chunk in (1, 2):
        repeat(3, body, 0, infeed, outfeed, chunk=chunk)
    sums, last, first = outfeed.dequeue()
    np.testing.assert_allclose(sums, [k * (length - 1) + 100 + k for k in range(6)], rtol=1e-6)
    assert last.tolist() == [100 + k for k in range(6)]
    assert first.tolist() == list(range(6))


@pytest.mark.parametrize("copy", [True, False])
def test_without_copies_elements_are_used_where_they_lie(copy: bool) -> None:
    """What is written to a chunk's memory before a loop uses it is seen exactly if the caller has promised to write nothing."""
    size = 50_000
    memory = np.zeros(3 * size + 16, np.float32)
    start = -memory.ctypes.data % 64 // 4
    rows = memory[start : start + 3 * size].reshape(3, size)  # rows begin at a multiple of 64 bytes
    given = threading.Event()

    def dataset() -> Iterator[Any]:
        yield from rows
        given.set()
        yield rows[0]

    infeed = InfeedQueue(dataset, copy=copy)
    infeed.reserve("test")
    infeed.begin(chunk_steps=1, steps=1, carry_sharding=None)
    first = infeed.take()
    assert given.wait(10)
    rows[:] = 1
    assert float(np.asarray(first.on_device)[0, 0]) == (0 if copy else 1)
    infeed.close()


def test_a_chunk_that_was_taken_without_a_word_is_made_up_for() -> None:
    """As when a Ctrl-C comes between a chunk and its program."""
    infeed = InfeedQueue(range(3), prefetch_depth=1)
    infeed.reserve("test")
    infeed.begin(chunk_steps=1, steps=1, carry_sharding=None)
    infeed.take(wake=False)
    infeed.release()
    assert used(infeed, 1) == [1]
    infeed.close()


def test_copy_is_a_bool() -> None:
    with pytest.raises(TypeError, match=r"copy is 'no': it must be True or False"):
        InfeedQueue([], copy="no")  # pyright: ignore[reportArgumentType]


class Numbered(np.ndarray):
    """A subclass, whose meaning only itself knows."""


KINDS: list[Any] = [
    lambda k: {"x": np.full((2, 3), k, np.float32), "y": np.int32(k)},
    lambda k: {"x": np.full((2, 3), k, np.float32), "y": np.array(k, np.int32)},
    lambda k: {"y": np.array(k, np.int32), "x": np.full((3, 2), k, np.float32).T},
    lambda k: {"x": np.full((4, 6), k, np.float32)[::2, ::2], "y": np.array(k, np.int32)},
    lambda k: {"x": jnp.full((2, 3), k, jnp.float32), "y": np.array(k, np.int32)},
    lambda k: {"x": np.full((2, 3), k, np.float32).view(Numbered), "y": np.array(k, np.int32)},
]


@pytest.mark.parametrize("first", range(len(KINDS)))
def test_like_elements_may_be_of_different_makes(first: int) -> None:
    """Plain arrays are gathered quickly, others one by one: the order is theirs in any mixture."""
    rng = np.random.default_rng(first)
    elements = [KINDS[first](0)] + [KINDS[rng.integers(len(KINDS))](k) for k in range(1, 100)]
    seen = OutfeedQueue()

    def body(carry: Any, x: Any, y: Any) -> Any:
        seen.enqueue((x, y))
        return carry

    repeat(100, body, 0, InfeedQueue(elements), seen, chunk=7)
    xs, ys = seen.dequeue()
    assert ys.tolist() == list(range(100))
    np.testing.assert_array_equal(xs, np.arange(100, dtype=np.float32)[:, None, None] * np.ones((2, 3), np.float32))


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int64", "float16", "float64", "complex64", ">f4", jnp.bfloat16])
def test_elements_of_every_dtype_are_gathered(dtype: Any) -> None:
    rows = np.arange(-5, 27).reshape(16, 2).astype(dtype)
    gathered = OutfeedQueue()

    def body(carry: Any, x: Any, none: Any, nested: Any) -> Any:
        assert none is None
        gathered.enqueue((x, nested))
        return carry

    repeat(16, body, 0, InfeedQueue([(row, None, [(row[:1], {})]) for row in rows]), gathered, chunk=5)
    x, nested = gathered.dequeue()
    expected = rows.astype(x.dtype)
    assert x.dtype == jax.dtypes.canonicalize_dtype(np.dtype(dtype).newbyteorder("="))
    np.testing.assert_array_equal(x, expected)
    np.testing.assert_array_equal(nested[0][0], expected[:, :1])


@pytest.mark.parametrize("bad", [1, 5, 63, 64, 99])
def test_what_came_before_an_exception_is_used(bad: int) -> None:
    def dataset() -> Iterator[Any]:
        for k in range(100):
            if k == bad:
                raise OSError(f"element {k} cannot be read")
            yield np.full(3, k, np.float32)

    infeed = InfeedQueue(dataset)
    with pytest.raises(OSError, match=f"element {bad} cannot be read"):
        repeat(100, lambda c, x: c + x[0], 0.0, infeed, chunk=7)
    assert infeed.consumed == bad // 7 * 7
    assert used(infeed, bad % 7, chunk=1) == [[k] * 3 for k in range(bad // 7 * 7, bad)] if bad % 7 else True


@pytest.mark.parametrize(
    "later",
    [
        np.zeros((2, 2), np.float32),
        np.zeros(3, np.float64),
        np.zeros(3, ">f4"),
        (np.zeros(3, np.float32),),
        {"a": np.zeros(3, np.float32)},
        "text",
    ],
)
def test_an_element_that_is_unlike_is_named_by_its_number(later: Any) -> None:
    elements = [np.zeros(3, np.float32)] * 40 + [later]
    with pytest.raises(DatasetError, match=r"element 40 is "):
        repeat(41, lambda c, x: c + x[0], 0.0, InfeedQueue(elements))


@pytest.mark.parametrize(
    ("later", "message"),
    [
        (
            {"x": np.zeros((3, 2), np.float32), "y": 1},
            r"element 2\['x'\] is float32\[3,2\], in the first one it was float32\[4,2\]; .*drop_rem",
        ),
        ({"x": np.zeros((4, 2)), "y": 1}, r"element 2\['x'\] is float64\[4,2\], in the first one it was float32\[4,2\]"),
        ({"x": np.zeros((4, 2), np.float32)}, r"element 2 is PyTreeDef\({'x': \*}\), the first one was PyTreeDef\({'x': \*, 'y': \*}\)"),
        ({"x": np.zeros((4, 2), np.float32), "z": 1, "y": [1, 2]}, r"\(without \['y'\], with \['y'\]\[0\] and 2 more\); .*drop_rem"),
        ({"x": np.zeros((4, 2), np.float32), "y": "1"}, r"element 2\['y'\] is <U1 \(str\), no array of numbers"),
    ],
)
def test_elements_must_be_alike(later: Any, message: str) -> None:
    first = {"x": np.zeros((4, 2), np.float32), "y": 1}
    infeed = InfeedQueue([first, first, later])
    repeat(2, lambda c, x, y: c + y, 0, infeed)
    with pytest.raises(DatasetError, match=message):
        repeat(1, lambda c, x, y: c + y, 0, infeed)


@pytest.mark.parametrize("element", [{"a": object()}, {"a": "text"}, {}, None])
def test_elements_must_be_arrays_of_numbers(element: Any) -> None:
    with pytest.raises(DatasetError, match=r"element 0(\['a'\])? (is|has no arrays)"):
        repeat(1, lambda c, *_: c, 0, InfeedQueue([element]))


@pytest.mark.parametrize(("elements", "number"), [([{"n": 2**31}], 0), ([{"n": 1}, {"n": -(2**31) - 1}], 1), ([{"n": 2**63}], 0)])
def test_whole_numbers_that_do_not_fit_are_no_other_numbers(elements: list[Any], number: int) -> None:
    def body(c: Any, n: Any) -> Any:
        return n

    with (
        InfeedQueue(elements) as queue,
        pytest.raises(DatasetError, match=rf"element {number}\['n'\] is -?\d+, which u?int32 does not have"),
    ):
        repeat(len(elements), body, jnp.uint32(0) if elements[0]["n"] == 2**63 else 0, queue)
    with jax.enable_x64(True), InfeedQueue(elements) as queue:
        carry = jnp.uint64(0) if elements[0]["n"] == 2**63 else 0
        assert int(repeat(len(elements), body, carry, queue)) == elements[-1]["n"]


def strided(array: Any) -> Any:
    return np.stack([array, array], axis=-1)[..., 0]


def shifted(array: Any) -> Any:
    """Not aligned."""
    return np.frombuffer(b"x" + array.tobytes(), np.uint8)[1:].view(array.dtype).reshape(array.shape)


ARRAYS: dict[str, Any] = {
    "scalar": lambda value, dtype: np.dtype(dtype).type(value),
    "array": lambda value, dtype: np.array([[3, 1], [2, value]], dtype),
    "of none": lambda value, dtype: np.array(value, dtype),
    "shared": lambda value, dtype: np.append(np.zeros(20_000, dtype), np.array([value], dtype)),
    "large": lambda value, dtype: np.append(np.zeros(300_000, dtype), np.array([value], dtype)),
    "strided": lambda value, dtype: strided(np.array([[3, 1], [2, value]], dtype)),
    "shifted": lambda value, dtype: shifted(np.array([[3, 1], [2, value]], dtype)),
    "frozen": lambda value, dtype: frozen(np.array([[3, 1], [2, value]], dtype)),
}


@pytest.mark.parametrize("kind", ARRAYS)
@pytest.mark.parametrize(
    ("dtype", "held", "value"),
    [
        ("int64", 2**31 - 1, 2**31),
        ("int64", -(2**31), -(2**31) - 1),
        ("int64", -1, 2**40),
        ("int64", 0, -(2**63)),
        ("uint64", 2**32 - 1, 2**32),
        ("uint64", 0, 2**63),
        (">i8", -7, 2**40),
    ],
)
@pytest.mark.parametrize("chunk", [1, 4])
def test_an_element_of_64_bits_that_would_become_another_is_refused(kind: str, dtype: str, held: int, value: int, chunk: int) -> None:
    """In each of the ways that elements take into a chunk. Those before it arrive as they are."""
    make = ARRAYS[kind]
    narrow = "uint32" if dtype == "uint64" else "int32"
    good = [{"x": np.float32(k), "n": [make(held, dtype)]} for k in range(6)]
    with InfeedQueue([*good, {"x": np.float32(6), "n": [make(value, dtype)]}]) as infeed:
        outfeed = OutfeedQueue()

        def body(c: Any, x: Any, n: Any) -> Any:
            outfeed.enqueue(n[0])
            return c

        repeat(4, body, 0, infeed, outfeed, chunk=chunk)
        (last,) = {row.reshape(-1)[-1].item() for row in outfeed.dequeue()}
        assert last == held
        with pytest.raises(
            DatasetError, match=rf"element 6\['n'\]\[0\] (is|has) {value}( at \[.*\])?, which {narrow} does not have .*enable_x64"
        ):
            repeat(4, body, 0, infeed, outfeed, chunk=chunk)
        assert infeed.consumed == (4 if chunk == 4 else 6)
    with InfeedQueue([{"n": make(value, dtype)}]) as infeed, pytest.raises(DatasetError, match=r"element 0\['n'\] (is|has) "):
        repeat(1, lambda c, n: c, 0, infeed)


def test_an_element_beside_a_contiguous_run_is_looked_at() -> None:
    data = frozen(np.zeros((8, 40_000), np.float32))
    elements = [{"x": row, "n": np.array([k if k < 5 else 2**40])} for k, row in enumerate(data)]
    with InfeedQueue(elements) as infeed:
        repeat(4, lambda c, x, n: c + n[0], 0, infeed, chunk=4)
        with pytest.raises(DatasetError, match=r"element 5\['n'\] has 1099511627776 at \[0\], which int32 does not have"):
            repeat(4, lambda c, x, n: c + n[0], 0, infeed, chunk=4)


def test_elements_of_64_bits_keep_what_they_are_with_x64() -> None:
    with jax.enable_x64(True), InfeedQueue([{"n": np.array([k, 2**40 + k])} for k in range(4)]) as infeed:
        assert int(repeat(4, lambda c, n: c + n[1], 0, infeed)) == 4 * 2**40 + 6


@pytest.mark.filterwarnings("ignore:overflow encountered in cast")  # by NumPy
def test_floats_beyond_32_bits_are_infinite_as_jax_makes_them() -> None:
    element = np.array([1e300, -1e300, 0.1])
    assert used(InfeedQueue([element] * 2), 1) == [jnp.asarray(element).tolist()]
    assert jnp.asarray(element).tolist()[:2] == [np.inf, -np.inf]


@pytest.mark.parametrize(
    "array",
    [
        np.zeros(3, np.longdouble),
        np.longdouble(1),
        np.zeros(3, np.clongdouble),
        np.zeros(3, [("a", "f4"), ("b", "i4")]),
        np.zeros((), "V8"),
        np.array([1, None]),
        np.array(["text"]),
        np.array(["2024-01-01"], "M8[D]"),
    ],
    ids=lambda array: str(array.dtype),
)
@pytest.mark.parametrize("before", [0, 3])
@pytest.mark.parametrize("chunk", [1, 4])
def test_an_element_of_no_numbers_is_named_with_its_leaf(array: Any, before: int, chunk: int) -> None:
    elements = [{"x": [np.zeros(3, np.float32)], "y": 1}] * before + [{"x": [array], "y": 1}]
    with InfeedQueue(elements) as infeed, pytest.raises(DatasetError, match=rf"element {before}\['x'\]\[0\] is .*, no array of numbers"):
        repeat(4, lambda c, x, y: c + y, 0, infeed, chunk=chunk)


def test_numbers_of_64_bits_are_what_jax_makes_of_them() -> None:
    infeed = InfeedQueue(itertools.repeat({"f": np.float64(0.1), "i": np.int64(7), "p": 3, "b": True}))

    def body(c: Any, f: Any, i: Any, p: Any, b: Any) -> Any:
        assert [str(x.dtype) for x in (f, i, p, b)] == ["float32", "int32", "int32", "bool"]
        return c

    repeat(2, body, 0, infeed)
    with jax.enable_x64(True):
        assert float(repeat(1, lambda c, x: c + x, 0.0, InfeedQueue(itertools.repeat(np.float64(0.1))))) == 0.1


def test_arrays_of_jax_and_small_types_are_elements() -> None:
    infeed = InfeedQueue([(jnp.ones(3, jnp.bfloat16), jnp.int8(k)) for k in range(4)])
    result = repeat(4, lambda c, x, k: c + x * k, jnp.zeros(3, jnp.bfloat16), infeed)
    assert result.dtype == jnp.bfloat16
    assert float(result[0]) == 6


@pytest.mark.parametrize("dataset", [range(20), list(range(20)), lambda: range(20), lambda: iter(range(20)), np.arange(20)])
def test_any_iterable_is_a_dataset(dataset: Any) -> None:
    assert used(InfeedQueue(dataset), 20) == list(range(20))


@pytest.mark.parametrize("dataset", [3, None, {"a": 1}, "text"])
def test_what_is_no_dataset_is_refused(dataset: Any) -> None:
    with pytest.raises(TypeError, match="dataset is a"):
        InfeedQueue(dataset)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"prefetch_depth": 0}, ValueError, "prefetch_depth is 0: it must be 1 to 255"),
        ({"prefetch_depth": 256}, ValueError, "prefetch_depth is 256: it must be 1 to 255"),
        ({"prefetch_depth": 1.5}, TypeError, "prefetch_depth is 1.5"),
        ({"replicas": 0}, ValueError, "replicas is 0: it must be 1 or more"),
        ({"sharding": "cpu"}, TypeError, "sharding has a str: it must be a jax.Device"),
    ],
)
def test_bad_arguments_are_refused(options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        InfeedQueue([1], **options)


def test_it_goes_ahead_by_its_depth_and_no_further() -> None:
    pulled = []

    def dataset() -> Iterator[Any]:
        for k in itertools.count():
            pulled.append(k)
            yield np.float32(k)

    with InfeedQueue(dataset, prefetch_depth=2) as infeed:
        time.sleep(0.05)
        assert pulled == []  # it starts with the first loop
        for _ in range(3):
            repeat(4, lambda c, x: c + x, 0.0, infeed)
        deadline = time.monotonic() + 30
        while len(pulled) < 20 and time.monotonic() < deadline:
            time.sleep(0.001)
        time.sleep(0.05)
        assert len(pulled) == 12 + 2 * 4


def test_a_slow_dataset_holds_up_no_loop_that_has_its_elements() -> None:
    """Elements that are there can be had in other chunks while the dataset is in the midst of making the next one."""
    more = threading.Event()

    def dataset() -> Iterator[Any]:
        yield from (np.float32(k) for k in range(6))
        more.wait(60)
        yield from numbers(6)

    with InfeedQueue(dataset) as infeed:
        assert used(infeed, 2, chunk=2) == [0, 1]
        assert used(infeed, 1) == [2]
        assert used(infeed, 3, chunk=2) == [3, 4, 5]
        more.set()
        assert used(infeed, 3) == [6, 7, 8]


def test_close_ends_the_thread_and_the_dataset() -> None:
    closed = threading.Event()

    def dataset() -> Iterator[Any]:
        try:
            yield from numbers()
        finally:
            closed.set()

    before = threading.active_count()
    infeed = InfeedQueue(dataset)
    used(infeed, 2)
    infeed.close()
    infeed.close()
    assert closed.wait(30)
    assert threading.active_count() == before
    with pytest.raises(QueueError, match="the InfeedQueue is closed"):
        used(infeed, 1)


def test_a_queue_that_nobody_has_ends_its_thread() -> None:
    before = threading.active_count()
    infeed = InfeedQueue(numbers())
    used(infeed, 2)
    gone = weakref.ref(infeed)
    del infeed
    gc.collect()
    assert gone() is None
    assert threading.active_count() == before


@pytest.mark.parametrize("reason", ["short", "failing", "unlike"])
def test_a_queue_whose_dataset_is_over_ends_its_thread_and_can_go(reason: str) -> None:
    """What the dataset raised holds the loop's frames, and by them its carry: nothing may hold that for ever."""

    def dataset() -> Iterator[Any]:
        yield from itertools.islice(numbers(), 5)
        if reason == "failing":
            raise OSError("the disk")
        if reason == "unlike":
            yield "text"

    before = threading.active_count()
    infeed = InfeedQueue(dataset)
    for _ in range(2):
        with pytest.raises((DatasetError, OSError)):
            used(infeed, 6)
    ended = time.monotonic() + 30
    while threading.active_count() > before and time.monotonic() < ended:
        time.sleep(0.001)
    assert threading.active_count() == before
    assert used(infeed, 4, chunk=2) == [0, 1, 2, 3]  # a thread again, as there is something to do
    gone = weakref.ref(infeed)
    del infeed
    gc.collect()
    assert gone() is None
    assert threading.active_count() == before


class Failing:
    """Numbers from 0 on, and an exception instead of each of some, so many times."""

    def __init__(self, *bad: int, times: int = 1, size: int = 1, begins: int = 0) -> None:
        self.bad, self.size, self.begins = dict.fromkeys(bad, times), size, begins
        self.next = 0
        self.closed = 0

    def __iter__(self) -> Failing:
        if self.begins:
            self.begins -= 1
            raise OSError("the file is locked")
        return self

    def __next__(self) -> Any:
        if self.bad.get(self.next, 0):
            self.bad[self.next] -= 1
            raise OSError(f"element {self.next} cannot be read")
        self.next += 1
        return np.full(self.size, self.next - 1, np.float32)

    def close(self) -> None:
        self.closed += 1


def used_in_turns(infeed: InfeedQueue, total: int, n: int, **options: Any) -> tuple[list[float], int]:
    """(elements of loops until there are `total`; how many of the loops have ended with an OSError). Each goes on after what was used."""
    found: list[float] = []
    errors = 0
    while len(found) < total:
        assert errors < 20
        outfeed = OutfeedQueue()

        def body(c: Any, x: Any, outfeed: OutfeedQueue = outfeed) -> Any:
            outfeed.enqueue(x.ravel()[0])
            return c

        try:
            repeat(min(n, total - len(found)), body, 0, infeed, outfeed, **options)
        except OSError:
            errors += 1
        values = outfeed.dequeue()
        found += [] if values is None else values.tolist()
        assert infeed.consumed == len(found)
    return found, errors


@pytest.mark.parametrize("size", [1, 40_000])  # gathered; large
@pytest.mark.parametrize("chunk", [1, 3, 16])
@pytest.mark.parametrize("depth", [1, 5])
def test_an_iterator_that_raises_and_goes_on_loses_nothing(size: int, chunk: int, depth: int) -> None:
    dataset = Failing(0, 7, 8, 20, times=2, size=size)
    with InfeedQueue(dataset, prefetch_depth=depth) as infeed:
        found, errors = used_in_turns(infeed, 40, 8, chunk=chunk)
        assert found == list(range(40))
        assert errors == 8
    assert dataset.closed == 1


def test_an_exception_that_no_loop_has_had_is_not_lost() -> None:
    dataset = Failing(4)
    infeed = InfeedQueue(dataset)
    assert used(infeed, 2, chunk=2) == [[0], [1]]
    ended = time.monotonic() + 30
    while dataset.bad[4] and time.monotonic() < ended:
        time.sleep(0.001)
    assert used(infeed, 2, chunk=2) == [[2], [3]]  # it has come by now, and this loop does not need what it stands for
    with pytest.raises(OSError, match="element 4 cannot be read"):
        used(infeed, 2, chunk=2)
    assert used(infeed, 2, chunk=2) == [[4], [5]]


def test_the_beginning_of_a_pass_is_tried_again() -> None:
    infeed = InfeedQueue(Failing(begins=2))
    for _ in range(2):
        with pytest.raises(OSError, match="the file is locked"):
            used(infeed, 2)
    assert used(infeed, 2) == [[0], [1]]


def test_a_way_to_a_position_goes_on_where_it_stopped() -> None:
    infeed = InfeedQueue(Failing(3))
    infeed.restore({"elements": 5})
    with pytest.raises(OSError, match="element 3 cannot be read"):
        used(infeed, 2)
    assert used(infeed, 2) == [[5], [6]]


def test_a_dataset_that_knows_its_place_has_raised_and_goes_on() -> None:
    class Knowing(Failing):
        def get_state(self) -> int:
            return self.next

        def set_state(self, state: int) -> None:
            self.next = state

    infeed = InfeedQueue(Knowing(2, 5))
    found, _ = used_in_turns(infeed, 8, 4, chunk=2)
    assert found == list(range(8))
    later = InfeedQueue(Knowing())
    later.restore(infeed.state())
    assert used(later, 2) == [[8], [9]]


def test_a_while_loop_goes_on_after_what_the_dataset_raised() -> None:
    infeed = InfeedQueue(Failing(5))
    with pytest.raises(OSError, match="element 5 cannot be read") as caught:
        while_loop(lambda c: c < 100, lambda c, x: c + x[0], np.float32(0), infeed, chunk=4)
    state = loop_state(caught.value)
    assert state is not None
    assert (float(state.carry), infeed.consumed) == (10, 5)
    assert float(while_loop(lambda c: c < 100, lambda c, x: c + x[0], state.carry, infeed, chunk=4)) == 105
    assert infeed.consumed == 15


def test_an_element_that_was_refused_is_refused_again_and_not_passed_over() -> None:
    infeed = InfeedQueue(iter([np.float32(0), np.zeros(2), np.float32(2)]))
    for _ in range(3):
        with pytest.raises(DatasetError, match=r"element 1 is float64\[2\], in the first one it was float32"):
            used(infeed, 2)
    assert used(infeed, 1) == [0]


def test_a_generator_that_has_raised_is_over_and_the_error_says_so() -> None:
    tries: list[int] = []

    def dataset() -> Iterator[Any]:
        tries.append(0)
        for k in range(10):
            if k == 3 and len(tries) == 1:
                raise OSError("the disk")
            yield np.float32(k)

    infeed = InfeedQueue(dataset)
    with pytest.raises(OSError, match="the disk"):
        used(infeed, 4, chunk=2)
    for _ in range(2):
        with pytest.raises(
            DatasetError,
            match=r"iterator had raised OSError: the disk, and was over when it was asked again, after 3 elements, as a generator is "
            r"that has raised: the loop needs more; 2 are used, 1 after them are left .* infeed\.restore\(infeed\.state\(\)\) begins",
        ):
            used(infeed, 2)
    assert used(infeed, 1) == [2]
    infeed.restore(infeed.state())
    assert used(infeed, 2) == [3, 4]
    with pytest.raises(DatasetError, match="the dataset ended after 10 elements: the loop needs more"):
        used(infeed, 20)


def test_an_exception_comes_each_time_as_it_left_the_dataset() -> None:
    infeed, frames = InfeedQueue(Failing(1, times=3)), []
    for _ in range(3):
        with pytest.raises(OSError, match="element 1") as caught:
            used(infeed, 2)
        frames.append(len(caught.traceback))
        assert len(caught.value.__notes__) == 1
    assert len(set(frames)) == 1


def test_close_during_a_loop_ends_it() -> None:
    held = threading.Event()

    def dataset() -> Iterator[Any]:
        yield np.float32(0)
        held.wait(60)

    infeed = InfeedQueue(dataset)
    threading.Timer(0.2, infeed.close).start()
    with pytest.raises(QueueError, match="the InfeedQueue is closed"):
        used(infeed, 2, chunk=1)
    held.set()


@pytest.mark.parametrize("make", [lambda: lambda: numbers(), lambda: range(100), lambda: np.arange(100)])
def test_a_position_can_be_saved_and_restored(make: Any) -> None:
    infeed = InfeedQueue(make())
    assert infeed.state() == {"elements": 0}
    used(infeed, 7, chunk=3)
    state = infeed.state()
    assert state == {"elements": 7}
    assert used(infeed, 3) == [7, 8, 9]
    infeed.restore(state)
    assert used(infeed, 4) == [7, 8, 9, 10]
    other = InfeedQueue(make())
    other.restore(state)
    assert (used(other, 2), other.consumed, other.state()) == ([7, 8], 9, {"elements": 9})


class Counting:
    """An iterator with a state, as grain's are."""

    def __init__(self) -> None:
        self.next = 0
        self.made = 0

    def __iter__(self) -> Counting:
        return self

    def __next__(self) -> Any:
        self.next += 1
        self.made += 1
        return np.float32(self.next - 1)

    def get_state(self) -> dict[str, int]:
        return {"next": self.next}

    def set_state(self, state: dict[str, int]) -> None:
        self.next = state["next"]


def test_a_dataset_that_knows_its_place_goes_there_itself() -> None:
    infeed = InfeedQueue(Counting)
    used(infeed, 100, chunk=8)
    while_loop(lambda c: c < 3, lambda c, x: c + 1, 0, infeed, chunk=8)
    state = infeed.state()
    assert state["elements"] == 103
    assert state["dataset"]["next"] + state["skip"] == 103
    made: list[Counting] = []
    other = InfeedQueue(lambda: made.append(Counting()) or made[-1])
    other.restore(state)
    assert used(other, 3) == [103, 104, 105]
    assert made[0].made < 50
    again = other.state()
    other.restore(again)
    assert used(other, 2) == [106, 107]


@pytest.mark.parametrize("ahead", [1, 20])
@pytest.mark.parametrize("knows_its_place", [False, True])
def test_what_a_loop_holds_and_has_not_used_comes_again(ahead: int, *, knows_its_place: bool) -> None:
    dataset: Any = Counting if knows_its_place else (lambda: (np.float32(k) for k in itertools.count()))
    infeed = InfeedQueue(dataset, prefetch_depth=ahead)
    used(infeed, 3)
    infeed.reserve("a pipeline")
    infeed.begin(chunk_steps=1, steps=100, carry_sharding=None)
    taken = [float(infeed.take(hold=True).on_device[0]) for _ in range(4)]
    assert (taken, infeed.consumed) == ([3, 4, 5, 6], 3)
    infeed.use_held()
    assert infeed.consumed == 7
    taken = [float(infeed.take(hold=True).on_device[0]) for _ in range(30)]
    assert (taken, infeed.consumed) == ([*range(7, 37)], 7)
    infeed.release()
    state = infeed.state()
    assert (infeed.consumed, state["elements"]) == (7, 7)
    later = InfeedQueue(dataset)
    later.restore(state)
    for queue in (infeed, later):
        assert used(queue, 40) == [*range(7, 47)]
        assert queue.consumed == 47
        queue.close()


def test_of_a_dataset_s_states_only_those_are_kept_that_are_needed() -> None:
    kept: list[weakref.ref[Any]] = []

    class State(dict[str, int]):
        pass

    class Remembering(Counting):
        def get_state(self) -> dict[str, int]:
            state = State(super().get_state())
            kept.append(weakref.ref(state))
            return state

    with InfeedQueue(Remembering, prefetch_depth=2) as infeed:
        for _ in range(5):
            used(infeed, 100, chunk=4)
            while_loop(lambda c: c < 3, lambda c, x: c + 1, 0, infeed, chunk=32)  # most of a chunk goes back
        gc.collect()
        assert sum(state() is not None for state in kept) < 10
        assert infeed.state()["elements"] == 515
        assert infeed.state()["skip"] >= 0


def test_an_iterator_cannot_go_back() -> None:
    infeed = InfeedQueue(numbers())
    infeed.restore({"elements": 5})  # forward, before it has begun
    assert used(infeed, 2) == [5, 6]
    with pytest.raises(QueueError, match="the dataset is an iterator whose one pass has begun: it cannot go back"):
        infeed.restore({"elements": 0})


@pytest.mark.parametrize("state", [{}, {"elements": -1}, {"elements": 1.5}, {"elements": 1, "other": 2}, {"elements": 3, "skip": "x"}])
def test_what_is_no_state_is_refused(state: Any) -> None:
    with pytest.raises(ValueError, match="is no state of an InfeedQueue"):
        InfeedQueue(numbers()).restore(state)


def test_a_state_is_a_mapping() -> None:
    with pytest.raises(TypeError, match="state is a int: it must be a mapping"):
        InfeedQueue(numbers()).restore(5)  # pyright: ignore[reportArgumentType]


def test_a_dataset_shorter_than_a_restored_position_is_an_error() -> None:
    infeed = InfeedQueue(range(5))
    infeed.restore({"elements": 9})
    with pytest.raises(DatasetError, match=r"ended after 5 elements, before the position to which restore\(\) goes: after 9"):
        used(infeed, 1)


def test_an_element_that_comes_after_its_chunk_was_taken_back_is_not_lost() -> None:
    rows, asked, goes_on = frozen(np.arange(12 << 14, dtype=np.float32).reshape(12, -1)), threading.Event(), threading.Event()

    def dataset() -> Iterator[Any]:
        for k, row in enumerate(rows):
            if k == 4:
                asked.set()
                assert goes_on.wait(60)
            yield row

    with InfeedQueue(dataset, prefetch_depth=1) as infeed:
        infeed.begin(chunk_steps=4, steps=8, carry_sharding=None)
        chunks = [infeed.take()]
        assert asked.wait(60)  # the next chunk has begun, of elements that are used where they are, and has none yet
        infeed.begin(chunk_steps=2, steps=4, carry_sharding=None)
        goes_on.set()
        chunks += [infeed.take() for _ in range(2)]
    assert [float(row[0]) / (1 << 14) for chunk in chunks for row in chunk.on_device] == list(range(8))
