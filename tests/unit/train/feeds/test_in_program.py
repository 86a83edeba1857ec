"""The host's side of infeeds and outfeeds, and what is refused while a program is made."""

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from tilestep import UnsupportedError, train

SCALAR = jax.ShapeDtypeStruct((), jnp.float32)


@pytest.fixture
def device() -> Iterator[jax.Device]:
    device = jax.devices("cpu")[0]
    train.clear_feeds(device)
    yield device
    train.clear_feeds(device)


@pytest.fixture
def patience() -> Iterator[None]:
    before = train.set_feed_timeout(0.05)
    yield
    train.set_feed_timeout(before)


def take(shape: Any) -> Any:
    return jax.jit(lambda: train.infeed(None, shape)[0])()


def test_elements_are_counted_and_dropped(device: jax.Device) -> None:
    for value in range(3):
        train.transfer_to_infeed(device, np.float32(value))
    assert train.pending_feeds(device) == train.PendingFeeds(infeed=3, outfeed=0)
    assert train.clear_feeds(device) == (3, 0)
    assert train.clear_feeds(device) == (0, 0)


def test_an_element_may_be_a_tree_or_its_leaves_in_order(device: jax.Device) -> None:
    tree = {"b": (np.arange(3, dtype=np.float32), np.int32(4)), "a": np.zeros((2, 0), np.int8)}
    shape = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), tree)
    for element in (tree, tuple(jax.tree.leaves(tree))):
        train.transfer_to_infeed(device, element)
        found = take(shape)
        assert jax.tree.structure(found) == jax.tree.structure(tree)
        jax.tree.map(np.testing.assert_array_equal, found, tree)


def test_an_element_is_a_copy_row_major_whatever_it_was(device: jax.Device) -> None:
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    train.transfer_to_infeed(device, values.T)
    train.transfer_to_infeed(device, values[:, ::-1])
    values[:] = -1
    np.testing.assert_array_equal(take(jax.ShapeDtypeStruct((3, 2), jnp.float32)), [[0, 3], [1, 4], [2, 5]])
    np.testing.assert_array_equal(take(jax.ShapeDtypeStruct((2, 3), jnp.float32)), [[2, 1, 0], [5, 4, 3]])


def test_another_byte_order_is_turned_round(device: jax.Device) -> None:
    train.transfer_to_infeed(device, np.arange(3, dtype=">f4"))
    assert take(jax.ShapeDtypeStruct((3,), jnp.float32)).tolist() == [0, 1, 2]


def test_64_bits_become_32_as_everywhere_in_jax(device: jax.Device) -> None:
    train.transfer_to_infeed(device, (1.5, 7, np.arange(2)))
    found = take((jax.ShapeDtypeStruct((), np.float64), jax.ShapeDtypeStruct((), jnp.int32), jax.ShapeDtypeStruct((2,), np.int64)))
    assert [(leaf.dtype.name, leaf.tolist()) for leaf in found] == [("float32", 1.5), ("int32", 7), ("int32", [0, 1])]


def test_every_dtype_goes_in_and_comes_out(device: jax.Device) -> None:
    names = ("bool", "int8", "int16", "int32", "uint8", "uint16", "uint32", "float16", "bfloat16", "float32", "complex64", "float8_e4m3fn")
    values = tuple(np.array([0, 1, 1], jnp.dtype(name)) for name in names)
    train.transfer_to_infeed(device, values)
    jax.block_until_ready(jax.jit(lambda: train.outfeed(None, train.infeed(None, values)[0]) or 0)())
    found = train.transfer_from_outfeed(device, values)
    jax.tree.map(np.testing.assert_array_equal, found, values)
    assert [leaf.dtype for leaf in found] == [leaf.dtype for leaf in values]


def test_more_elements_than_a_program_takes_wait_for_the_next(device: jax.Device) -> None:
    for value in range(5):
        train.transfer_to_infeed(device, np.float32(value))
    program = jax.jit(lambda: (train.infeed(None, SCALAR)[0], train.infeed(None, SCALAR)[0]))
    assert [float(value) for value in program() + program()] == [0, 1, 2, 3]
    assert train.pending_feeds(device).infeed == 1


@pytest.mark.parametrize(
    ("fed", "asked", "message"),
    [
        (
            np.zeros(3, np.float32),
            jax.ShapeDtypeStruct((4,), jnp.float32),
            r"is \(float32\[3\]\), but the program expects \(float32\[4\]\)",
        ),
        (np.zeros(4, np.int32), jax.ShapeDtypeStruct((4,), jnp.float32), r"is \(int32\[4\]\), but the program expects \(float32\[4\]\)"),
        (np.zeros((4, 1), np.float32), jax.ShapeDtypeStruct((4,), jnp.float32), r"is \(float32\[4,1\]\)"),
        ((np.float32(0), np.float32(0)), SCALAR, r"is \(float32\[\], float32\[\]\), but the program expects \(float32\[\]\)"),
        ((), SCALAR, r"infeed of cpu:0: element \d+ is \(nothing\)"),
    ],
)
def test_another_element_than_asked_for_is_an_error_and_is_gone(device: jax.Device, fed: Any, asked: Any, message: str) -> None:
    train.transfer_to_infeed(device, fed)
    with pytest.raises(jax.errors.JaxRuntimeError, match=message):
        jax.block_until_ready(take(asked))
    assert train.pending_feeds(device) == (0, 0)


@pytest.mark.slow
@pytest.mark.usefixtures("patience")
def test_no_data_in_time_is_an_error_that_says_who_waited_for_what(device: jax.Device) -> None:
    message = r"infeed of cpu:0: the program asked for element (\d+) \(float32\[8,2\], int32\[\]\), got \1, and waited 0.05 s in vain"
    with pytest.raises(jax.errors.JaxRuntimeError, match=message):
        jax.block_until_ready(take((jax.ShapeDtypeStruct((8, 2), jnp.float32), jax.ShapeDtypeStruct((), jnp.int32))))
    train.transfer_to_infeed(device, 2.0)
    assert take(SCALAR) == 2  # the failure is not passed on


def test_draining_in_vain_is_a_time_out(device: jax.Device) -> None:
    with pytest.raises(TimeoutError, match=r"outfeed of cpu:0: waited 0.01 s in vain for an element \(float32\[\]\)"):
        train.transfer_from_outfeed(device, SCALAR, timeout_wall_s=0.01)


def test_draining_something_else_is_an_error(device: jax.Device) -> None:
    jax.block_until_ready(jax.jit(lambda: train.outfeed(None, jnp.ones(3)) or 0)())
    with pytest.raises(ValueError, match=r"the element is \(float32\[3\]\), but \(float32\[\]\) was expected"):
        train.transfer_from_outfeed(device, SCALAR)


@pytest.mark.parametrize("wall_s", [0, -1, 1.1e9, 1e300, float("nan"), float("inf")])
def test_a_time_out_that_is_none_is_refused(wall_s: float) -> None:
    with pytest.raises(ValueError, match="must be a number of seconds above 0 and at most 1e9, or None"):
        train.set_feed_timeout(wall_s)


def test_a_time_out_may_be_never() -> None:
    before = train.set_feed_timeout(None)
    assert train.set_feed_timeout(before) is None


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"x": ["text"]}, r"\['x'\]\[0\] is str of dtype <U4: a feed carries arrays of numbers"),
        ((1.0, object()), r"\[1\] is object of dtype object"),
        (jax.ShapeDtypeStruct((), jnp.float32), "of dtype object"),
        (np.zeros(3, jnp.int4), "the element has dtype int4, which no feed carries"),
        (np.zeros([1] * 33), "the element has 33 dimensions: a feed carries arrays of at most 32"),
        (jax.random.key(0), "which no feed carries"),
        ([0, np.zeros(2, np.longdouble)], r"\[1\] has dtype float128, which no feed carries"),
        ([0, np.zeros(2, [("a", "f4")])], r"\[1\] has dtype \[\('a', '<f4'\)\], which no feed carries"),
    ],
)
def test_what_no_feed_carries_is_refused(device: jax.Device, value: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        train.transfer_to_infeed(device, value)
    assert train.pending_feeds(device) == (0, 0)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"x": np.array([[1, 2**40]])}, r"\['x'\] has 1099511627776 at \[0, 1\], which int32 does not have"),
        (2**31, "the element is 2147483648, which int32 does not have"),
        (np.uint64(2**32), "the element is 4294967296, which uint32 does not have"),
    ],
)
def test_a_whole_number_that_would_become_another_is_refused(device: jax.Device, value: Any, message: str) -> None:
    with pytest.raises(OverflowError, match=message):
        train.transfer_to_infeed(device, value)
    assert train.pending_feeds(device) == (0, 0)
    train.transfer_to_infeed(device, np.int64(-(2**31)))
    assert int(take(jax.ShapeDtypeStruct((), jnp.int32))) == -(2**31)


def test_shapes_have_to_be_shapes() -> None:
    with pytest.raises(TypeError, match=r"\[0\] is 3: a feed needs shape and dtype"):
        take((3, 4))


def test_a_device_of_another_platform_has_no_feeds() -> None:
    with pytest.raises(UnsupportedError, match="'tpu' has no feeds: they are of devices of the platforms cpu and ipu"):
        train.transfer_to_infeed("tpu", 1.0)


@pytest.mark.parametrize("platforms", [("cuda",), ("tpu",), ("cpu", "cuda")])
def test_lowering_for_another_platform_says_so(platforms: tuple[str, ...]) -> None:
    with pytest.raises(UnsupportedError, match=r"infeed inside of a program works on one of the platforms cpu and ipu, but"):
        jax.jit(lambda: train.infeed(None, SCALAR)[0]).trace().lower(lowering_platforms=platforms)


@pytest.mark.parametrize("where", [lambda f: jax.vmap(f), lambda f: jax.jit(jax.vmap(f)), lambda f: jax.vmap(jax.jit(f))])
def test_vmap_is_refused(where: Any) -> None:
    with pytest.raises(UnsupportedError, match=r"infeed cannot be vmapped: .* take the feed out of jax.vmap"):
        where(lambda x: x + train.infeed(None, SCALAR)[0])(jnp.ones(3))
    with pytest.raises(UnsupportedError, match="outfeed cannot be vmapped"):
        where(lambda x: train.outfeed(None, x))(jnp.ones(3))


@pytest.mark.parametrize(
    "where", [jax.grad, lambda f: jax.jit(jax.grad(f)), lambda f: jax.grad(jax.jit(f)), lambda f: jax.grad(jax.checkpoint(f))]
)
def test_differentiation_is_refused(where: Any) -> None:
    def looped(x: Any) -> Any:
        return lax.fori_loop(0, 3, lambda _, total: total * x + train.infeed(None, SCALAR)[0], x)

    with pytest.raises(UnsupportedError, match="infeed inside of what is differentiated"):
        where(lambda x: x * train.infeed(None, SCALAR)[0])(1.0)
    with pytest.raises(UnsupportedError, match="infeed inside of what is differentiated"):
        where(looped)(1.0)
    with pytest.raises(UnsupportedError, match=r"outfeed inside of what is differentiated.*has_aux=True"):
        where(lambda x: (train.outfeed(None, lax.stop_gradient(x)), x)[1])(1.0)


def test_outside_of_a_program_a_feed_is_one_by_itself(device: jax.Device) -> None:
    train.transfer_to_infeed(device, 4.0)
    value, token = train.infeed("kept", SCALAR)
    assert (float(value), token) == (4.0, "kept")
    assert train.outfeed("kept", value) == "kept"
    assert train.transfer_from_outfeed(device, SCALAR) == 4


def test_64_bits_stay_where_they_are_enabled(device: jax.Device) -> None:
    with jax.enable_x64(True):
        train.transfer_to_infeed(device, (1.5, np.arange(2)))
        found = take((jax.ShapeDtypeStruct((), np.float64), jax.ShapeDtypeStruct((2,), np.int64)))
        assert [leaf.dtype.name for leaf in found] == ["float64", "int64"]
