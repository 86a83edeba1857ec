"""`InfeedQueue`: elements of every make and dtype, and the errors that name those which cannot be fed."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.unit.train.feeds.infeeds import used
from tilestep.errors import DatasetError
from tilestep.train import InfeedQueue, OutfeedQueue, frozen, repeat


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


LIMITS = [
    ("int64", 2**31 - 1, 2**31),
    ("int64", -(2**31), -(2**31) - 1),
    ("int64", -1, 2**40),
    ("int64", 0, -(2**63)),
    ("uint64", 2**32 - 1, 2**32),
    ("uint64", 0, 2**63),
    (">i8", -7, 2**40),
]


@functools.cache
def gathering(dtype: str) -> tuple[OutfeedQueue, Any]:
    """(A queue, the body of a loop that gives it the last number of each element, which has this dtype)."""
    outfeed = OutfeedQueue()

    def body(c: Any, x: Any, n: Any) -> Any:
        assert n[0].dtype == dtype
        outfeed.enqueue(n[0].reshape(-1)[-1])
        return c

    return outfeed, body


@pytest.mark.parametrize("kind", ARRAYS)
def test_an_element_of_64_bits_that_would_become_another_is_refused(kind: str) -> None:
    """In each of the ways that elements take into a chunk. Those before it arrive as they are."""
    make = ARRAYS[kind]
    for number, (dtype, held, value) in enumerate(LIMITS):
        chunk = (1, 4)[(number + len(kind)) % 2]
        narrow = "uint32" if dtype == "uint64" else "int32"
        outfeed, body = gathering(narrow)
        good = [{"x": np.float32(k), "n": [make(held, dtype)]} for k in range(6)]
        with InfeedQueue([*good, {"x": np.float32(6), "n": [make(value, dtype)]}]) as infeed:
            repeat(4, body, 0, infeed, outfeed, chunk=chunk)
            assert outfeed.dequeue().tolist() == [held] * 4, (dtype, held)
            with pytest.raises(
                DatasetError, match=rf"element 6\['n'\]\[0\] (is|has) {value}( at \[.*\])?, which {narrow} does not have .*enable_x64"
            ):
                repeat(4, body, 0, infeed, outfeed, chunk=chunk)
            assert len(outfeed) == infeed.consumed - 4
            if len(outfeed):
                outfeed.dequeue()
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
