"""Where the host has no memory left, a program gets an exception that names the bytes, and goes on."""

import sys

import pytest

from tests.processes import python

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits the address space as Linux does")

BEGIN = """
import contextlib, resource, jax, jax.numpy as jnp, numpy as np
ipu, other = jax.devices("ipu")[:2]
MIB = 1 << 20

@contextlib.contextmanager
def only(more):
    with open("/proc/self/statm") as statm:
        used = int(statm.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + more, -1))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (-1, -1))

def fails(what, size, work):
    with only(100 * MIB):
        try:
            work()
        except (MemoryError, jax.errors.JaxRuntimeError) as error:
            told = str(error)
            assert isinstance(error, MemoryError) or told.startswith("RESOURCE_EXHAUSTED"), told
            assert str(size) in told or f"{size // MIB}. MiB" in told, (what, told)
        else:
            raise AssertionError(f"{what} found {size:,} B")

roomy = {"ipu_allow_out_of_memory": True}
step = jax.jit(lambda x: x + 1)
small = jax.device_put(np.ones(1000, np.float32), ipu)
step(small).block_until_ready()
"""
END = """
assert step(small)[0] == 2  # it goes on
assert jax.device_put(np.ones(1000), other)[5] == 1
"""


@pytest.mark.slow
def test_of_puts_results_copies_and_reads() -> None:
    python(
        BEGIN
        + """
import ml_dtypes
size = 300 * MIB
plain = np.ones(size // 4, np.float32)
pinned = jax.sharding.SingleDeviceSharding(ipu, memory_kind="pinned_host")
fails("a put", size, lambda: jax.device_put(plain, ipu))
fails("a put of a view", size, lambda: jax.device_put(plain.reshape(2, -1).T, ipu))
fails("a put to the host's memory", size, lambda: jax.device_put(plain, pinned))
fails("a put of 4 bits", size, lambda: jax.device_put(plain.view(np.uint8).view(ml_dtypes.int4), ipu))
del plain
size = 512 * MIB
one = jax.device_put(np.float32(1), ipu)
fill = jax.jit(lambda x: jnp.full(size // 4, x)).lower(one).compile(compiler_options=roomy)
fails("a result", size, lambda: fill(one).block_until_ready())
fails("a result that is read", size, lambda: np.asarray(fill(one)))
big = fill(one).block_until_ready()
fails("a copy", size, lambda: jax.device_put(big, other).block_until_ready())
fails("an array of the program's own", size, lambda: np.array(big))
taken = np.asarray(big)  # so that it cannot be donated
donating = jax.jit(lambda x: x + 1, donate_argnums=0).lower(big).compile(compiler_options=roomy)
fails("a donation of what is shared", size, lambda: donating(big).block_until_ready())
back = lambda v: np.ones(size // 4, np.float32)
calls = jax.jit(lambda x: jax.pure_callback(back, jax.ShapeDtypeStruct((size // 4,), np.float32), x))
calls = calls.lower(one).compile(compiler_options=roomy)
fails("a callback", size, lambda: calls(one).block_until_ready())
with only(100 * MIB):
    assert np.asarray(big)[7] == 1  # a look takes no memory
"""
        + END
    )
