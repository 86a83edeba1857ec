"""A program in full swing that ends in the way and at about the moment that its arguments say: SEED WAY SINCE.

Threads compile, run, call back, fail, move values, and add them up over four IPUs.
"""

import faulthandler
import os
import random
import signal
import sys
import threading
import time

EXIT_CODE = 7
HANGS_AFTER_WALL_S = 400  # beside twenty busy processes it took two minutes

seed, way, since = int(sys.argv[1]), sys.argv[2], sys.argv[3]
rng = random.Random(seed)
imported, ready, over = threading.Event(), threading.Event(), threading.Event()


def end() -> None:
    (ready if since == "ready" else imported).wait()
    time.sleep(rng.uniform(0, 2.5 if since == "start" else 0.7))
    if way == "interrupt":
        os.kill(os.getpid(), signal.SIGINT)
    elif way.startswith("terminate"):
        os.kill(os.getpid(), signal.SIGTERM)
    else:
        over.set()


def leave(*_: object) -> None:
    raise SystemExit(EXIT_CODE)


def again(lost: sys.UnraisableHookArgs) -> None:
    """What a handler raised where nothing can be raised is lost, as in JAX's function that Python calls when it collects garbage."""
    sys.__unraisablehook__(lost)
    if issubclass(lost.exc_type, KeyboardInterrupt | SystemExit):
        os.kill(os.getpid(), signal.SIGINT if way == "interrupt" else signal.SIGTERM)


sys.unraisablehook = again
faulthandler.enable()
faulthandler.dump_traceback_later(HANGS_AFTER_WALL_S, exit=True)
if way == "terminate handled":
    signal.signal(signal.SIGTERM, leave)
threading.Thread(target=end, daemon=True).start()

import jax  # noqa: E402  # an exception while it is imported takes the process down, whether tilestep is there or not
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax.sharding import NamedSharding, PartitionSpec  # noqa: E402

imported.set()
jax.config.update("jax_platforms", "ipu,cpu")
devices = jax.devices()


def compiles(k: int) -> None:
    jax.jit(lambda x: jnp.tanh(x @ x + k) * jnp.sin(x)[::-1])(jnp.eye(8)).block_until_ready()


step = jax.jit(lambda x: jax.lax.fori_loop(0, 20, lambda _, v: jnp.tanh(v @ v), x), donate_argnums=0)
counting = jax.jit(lambda x: jax.lax.while_loop(lambda v: v[0, 0] < 30, lambda v: v + 1, x))


def runs(k: int) -> None:
    x = jax.device_put(np.eye(64, dtype=np.float32), devices[k % 4])
    for _ in range(5):
        x = counting(step(x))


def slow(v: np.ndarray) -> np.ndarray:
    time.sleep(0.002)
    if v[0] > 4:
        raise ValueError("on purpose")
    return np.asarray(v) + 1


called = jax.jit(lambda x: jax.pure_callback(slow, jax.ShapeDtypeStruct(x.shape, x.dtype), x) * 1)


def calls(k: int) -> None:
    x = jax.device_put(np.zeros(4, np.float32), devices[k % 4])
    try:
        for _ in range(8):
            x = called(x)
        x.block_until_ready()
    except (jax.errors.JaxRuntimeError, ValueError) as error:  # by whether JAX's fast path was taken
        for raised in (SystemExit, KeyboardInterrupt):  # by a signal's handler in the callback: JAX makes an error of it
            if raised.__name__ in str(error):
                raise raised(EXIT_CODE) from error


def moves(k: int) -> None:
    x = jax.device_put(np.ones((300, 300), np.float32), devices[k % 4])
    y = jax.device_put(x, devices[(k + 1) % 4])
    np.asarray(y).sum()
    x.copy_to_host_async()
    jax.device_put(y, jax.devices("cpu")[0])


mesh = jax.sharding.Mesh(np.array(devices), ("i",))
split, whole = PartitionSpec("i"), PartitionSpec()
summed = jax.jit(jax.shard_map(lambda v: jax.lax.psum(v, "i"), mesh=mesh, in_specs=split, out_specs=whole))


def sums(_: int) -> None:
    summed(jax.device_put(np.ones(8, np.float32), NamedSharding(mesh, split))).block_until_ready()


JOBS = (compiles, runs, calls, moves, sums)
for job in JOBS:  # what they import: an exception of a signal's handler within Python's import machinery may block other threads for ever
    job(1)


def work(own: random.Random) -> None:
    k = 0
    while not over.is_set():
        own.choice(JOBS)(k := k + 1)


signalled = way in ("interrupt", "terminate", "terminate handled")
for n in range(3):
    threading.Thread(target=work, args=(random.Random(seed * 10 + n),), daemon=signalled or n > 0).start()
if way == "exit in a thread":
    threading.Thread(target=sys.exit, args=(3,)).start()
ready.set()
work(random.Random(seed * 10 + 9))
if way == "exit":
    sys.exit(EXIT_CODE)
if way == "raise":
    raise KeyError("the end")
