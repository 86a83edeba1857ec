"""Names that `tilestep.legacy` brings back. In a process of their own: it changes JAX for all that comes after it."""

import pytest

from tests.processes import python

pytestmark = pytest.mark.process

BEFORE = """
import jax, tilestep, tilestep.train
from jax._src import xla_bridge
assert not hasattr(jax, "ShapedArray"), "brought back by default"
import tilestep.legacy
assert not xla_bridge._backends, "importing it has started a device"
"""
MOVED_AND_RENAMED_NAMES_AND_DEVICES_THAT_MAY_BE_CALLED = """
import jax, jax.numpy as jnp, numpy as np
import jax.experimental.optimizers, jax.experimental.stax
from jax.experimental import optimizers, stax
from jax.example_libraries import stax as today
assert stax is today and jax.experimental.stax is today and callable(optimizers.momentum)
tree = {"a": jnp.arange(3.0), "b": (jnp.ones(2),)}
leaves, structure = jax.tree_flatten(tree)
assert jax.tree_structure(tree) == structure and len(jax.tree_leaves(tree)) == 2
assert jax.tree_map(np.shape, jax.tree_unflatten(structure, leaves)) == {"a": (3,), "b": ((2,),)}
assert jax.tree_multimap(lambda x, y: float((x + y).sum()), tree, tree) == {"a": 6.0, "b": (4.0,)}
assert jax.tree_reduce(lambda x, y: x + y.sum(), tree, 0.0) == 5
assert isinstance(jnp.ones(3), jnp.DeviceArray)
x = jnp.array([[3.0, 1.0], [2.0, 4.0]])
assert jnp.product(x) == 24 and jnp.alltrue(x > 0) and not jnp.sometrue(x > 4)
assert jnp.cumproduct(jnp.arange(1, 4)).tolist() == [1, 2, 6] and jnp.round_(x / 4).tolist() == [[1, 0], [0, 1]]
assert jnp.msort(x).tolist() == [[2, 1], [3, 4]] and jnp.row_stack([x, x]).shape == (4, 2)
assert jnp.in1d(x, jnp.array([1, 4])).tolist() == [False, True, False, True] and jnp.trapz(jnp.arange(3.0)) == 2
aval = jax.ShapedArray((2, 3), jnp.float32)
assert (aval.shape, aval.dtype) == ((2, 3), jnp.float32)
x = jax.device_put(jnp.ones(3), jax.devices("ipu")[1])
assert [part.tolist() for part in x.device_buffers] == [[1, 1, 1]] and x.device_buffers[0].device is x.device
assert jax.core.Primitive("p").name == "p"
assert x.device() is x.device and x.device().id == 1 and jnp.ones(2).device().platform == "cpu"
"""
FLAGS_ARE_OPTIONS = """
import jax
from jax.config import config
import jax.config
assert config is jax.config and config.update == jax.config.update
config.FLAGS.jax_enable_x64 = True
assert jax.config.jax_enable_x64 and config.FLAGS.jax_enable_x64
for wrong in (lambda: setattr(config.FLAGS, "jax_no_such_flag", 1), lambda: config.FLAGS.jax_no_such_flag):
    try:
        wrong()
    except AttributeError as error:
        assert "jax_no_such_flag" in str(error)
    else:
        raise AssertionError("a flag that does not exist")
config.FLAGS.jax_enable_x64 = False
"""
# The six uses that the fork's own test had: arrays, trees fed as flat tuples, XLA shapes for draining, a loop that doubles.
INFEED_AND_OUTFEED = """
from functools import partial
import threading, jax, jax.numpy as jnp, numpy as np
from jax import lax
from jaxlib import xla_client
device = jax.devices("ipu")[0]
on_ipu = partial(jax.jit, backend="ipu")
x = np.arange(6, dtype=np.float32).reshape(2, 3)

@on_ipu
def plus(value):
    token = lax.create_token()
    (fed,), token = lax.infeed(token, shape=(jax.ShapedArray((2, 3), jnp.float32),))
    return value + fed
device.transfer_to_infeed((x,))
np.testing.assert_array_equal(plus(x), 2 * x)

@on_ipu
def tree(value):
    shape = {"b": jax.ShapedArray((2, 3), jnp.float32), "a": (jax.ShapedArray((), jnp.int32),)}
    fed, token = lax.infeed(lax.create_token(), shape)
    token = lax.outfeed(token, fed)
    return fed["b"] * fed["a"][0] + value
device.transfer_to_infeed((np.int32(3), x))
np.testing.assert_array_equal(tree(0.0), 3 * x)
matrix = xla_client.Shape.array_shape(np.dtype(np.float32), (2, 3))
scalar = xla_client.Shape.array_shape(np.dtype(np.int32), ())
three, same = device.transfer_from_outfeed(xla_client.Shape.tuple_shape([scalar, matrix]))
assert three == 3 and (same == x).all()

@on_ipu
def doubler(n):
    def body(i, token):
        value, token = lax.infeed(token, jax.ShapedArray((2, 3), jnp.float32))
        return lax.outfeed(token, value * 2)
    return lax.fori_loop(0, n, lambda i, _: (body(i, lax.create_token()), _)[1], 0)
runner = threading.Thread(target=doubler, args=(10,))
runner.start()
for k in range(10):
    device.transfer_to_infeed(np.full((2, 3), float(k), np.float32))
    assert (device.transfer_from_outfeed(matrix) == 2 * k).all()
runner.join()

try:
    lax.infeed(None, jax.ShapedArray((), jnp.float32), partitions=(1,))
except NotImplementedError as error:
    assert "jax.shard_map" in str(error)
"""


def test_names_flags_and_feeds_are_as_they_were() -> None:
    parts = (BEFORE, MOVED_AND_RENAMED_NAMES_AND_DEVICES_THAT_MAY_BE_CALLED, FLAGS_ARE_OPTIONS, INFEED_AND_OUTFEED)
    python("\n".join(f"exec(compile({part!r}, 'part {number}', 'exec'), {{}})" for number, part in enumerate(parts)))
