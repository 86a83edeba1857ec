"""Waiting for a program: by whom, and who is not held up by it."""

import threading
import time
from collections.abc import Callable, Iterator

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests import processes
from tests.in_turn import python
from tilestep import train
from tilestep.pjrt import _native

PATIENCE_WALL_S = 60.0


@pytest.fixture
def results(ipu: jax.Device) -> Iterator[tuple[jax.Array, ...]]:
    """Of a program that goes on once the infeed has a value for it."""

    def body(x: jax.Array) -> tuple[jax.Array, jax.Array]:
        (value,) = train.infeed(None, (jax.ShapeDtypeStruct((), np.float32),))[0]
        return x + value, x - value

    train.clear_feeds(ipu)
    yield jax.jit(body)(jax.device_put(np.zeros(2, np.float32), ipu))
    train.clear_feeds(ipu)


@pytest.mark.parametrize("look", ["x.block_until_ready()", "assert not np.asarray(x).any()"])
def test_an_array_of_a_dry_run_can_be_waited_for_before_any_program_ran(look: str) -> None:
    processes.python(
        f"""
        import jax, numpy as np, tilestep
        with tilestep.dry_run(values="zeros"):
            x = jax.device_put(np.ones(3, np.float32), jax.devices("ipu")[0])
            {look}
        """
    )


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_WALL_S
    while not condition():
        assert time.monotonic() < end, "it did not come to pass"
        time.sleep(0.001)


@pytest.mark.parametrize(
    "wait",
    [
        lambda results: results[0].block_until_ready(),
        jax.block_until_ready,
        lambda results: jax.block_until_ready([np.ones(3), jax.device_put(np.float32(1), jax.devices("cpu")[0]), *results]),
    ],
    ids=["method", "several", "among others"],
)
def test_who_waits_does_so_in_its_own_thread(ipu: jax.Device, results: tuple[jax.Array, ...], wait: Callable[[object], object]) -> None:
    """No other thread has to wake it up; and to ask whether an array is ready holds nobody up."""
    assert _native.threads_waiting() == 0
    thread = threading.Thread(target=wait, args=(results,))
    thread.start()
    until(lambda: _native.threads_waiting() == 1)
    for result in results:
        result.copy_to_host_async()
        assert not result.is_ready()
    assert thread.is_alive()
    train.transfer_to_infeed(ipu, (np.float32(3),))
    thread.join(PATIENCE_WALL_S)
    assert not thread.is_alive()
    assert _native.threads_waiting() == 0
    assert [result.tolist() for result in results] == [[3.0, 3.0], [-3.0, -3.0]]


def test_who_waits_hears_of_a_failure(ipu: jax.Device) -> None:
    def fail(x: np.ndarray) -> np.ndarray:
        raise ValueError("no such value")

    failing = jax.jit(lambda x: (jax.pure_callback(fail, jax.ShapeDtypeStruct((2,), np.float32), x), x - 1))
    waits: list[Callable[[tuple[jax.Array, ...]], object]] = [lambda results: results[0].block_until_ready(), jax.block_until_ready]
    for wait in waits:
        with pytest.raises(jax.errors.JaxRuntimeError, match="no such value"):
            wait(failing(jax.device_put(np.zeros(2, np.float32), ipu)))


def test_what_waits_looks_as_it_did(ipu: jax.Device) -> None:
    array = jax.device_put(np.zeros(2, np.float32), ipu).block_until_ready()
    method = type(array).block_until_ready
    assert method.__doc__ == "(self) -> object"
    assert method(array) is array
    with pytest.raises(TypeError, match="incompatible function arguments"):
        method()


Look = Callable[[jax.Array], object]
_work = jax.jit(lambda x: jax.lax.fori_loop(0, 30, lambda _, v: jnp.tanh(v @ v), x))


def look_at_once(ipu: jax.Device, looks: list[Look], rounds: int) -> list[BaseException]:
    """In each round every look has a thread, and all get one result that is not there yet. Returns: what they raised."""
    x = jax.device_put(np.eye(32, dtype=np.float32), ipu)
    arrays, together, raised = [_work(x)], threading.Barrier(len(looks) + 1), list[BaseException]()

    def look(how: Look) -> None:
        for _ in range(rounds):
            together.wait(PATIENCE_WALL_S)
            try:
                how(arrays[0])
            except (RuntimeError, ValueError, AssertionError) as error:
                raised.append(error)
            together.wait(PATIENCE_WALL_S)

    threads = [threading.Thread(target=look, args=(how,), daemon=True) for how in looks]
    for thread in threads:
        thread.start()
    for _ in range(rounds):
        arrays[:] = [_work(x)]
        together.wait(PATIENCE_WALL_S)
        together.wait(PATIENCE_WALL_S)
    for thread in threads:
        thread.join()
    return raised


@pytest.mark.slow
def test_threads_ask_and_wait_for_one_array_at_once(ipu: jax.Device) -> None:
    """JAX asks with a lock of the array's, for which others wait with the interpreter held."""
    looks: list[Look] = [
        lambda y: y.block_until_ready(),
        lambda y: until(y.is_ready),
        lambda y: jax.block_until_ready([y, y]),
        np.asarray,
        lambda y: (y.format, y.copy_to_host_async(), float(y[0, 0])),
        lambda y: np.from_dlpack(y),
    ]
    assert not look_at_once(ipu, looks, rounds=100)


@pytest.mark.slow
def test_threads_ask_for_an_array_that_goes_meanwhile(ipu: jax.Device) -> None:
    """Who asks is told its value, or that it is deleted."""
    expected = np.asarray(_work(jax.device_put(np.eye(32, dtype=np.float32), ipu)))
    looks: list[Look] = [
        lambda y: y.block_until_ready(),
        lambda y: y.is_ready(),
        lambda y: jax.block_until_ready([y, y]),
        lambda y: np.testing.assert_array_equal(np.asarray(y), expected),
        jax.jit(lambda y: y + 1, donate_argnums=0),
    ]
    raised = look_at_once(ipu, looks, rounds=100)
    assert not [error for error in raised if not any(word in str(error) for word in ("deleted", "donated"))]
    until(lambda: not _native.pending_waits())


FINALIZERS = """
    import gc, jax, jax.numpy as jnp, numpy as np
    from jax._src.lib import _jax
    _jax.set_tracebacks_enabled(False)  # JAX's own mix up when a finalizer has one taken while one is taken
    work = jax.jit(lambda x: jax.lax.fori_loop(0, 8, lambda _, v: jnp.tanh(v @ v), x))
    x = jax.device_put(np.eye(16, dtype=np.float32), jax.devices("ipu")[0])
    looks, ended = [np.asarray, lambda y: y.is_ready(), lambda y: y.block_until_ready()], [0]

    class Log:  # in a cycle
        def __init__(self, value):
            self.me, self.value = self, value

        def __del__(self):
            ended[0] += 1
            looks[ended[0] % 3](self.value)

    gc.set_threshold(2, 1000, 1000)
    for k in range(1000):
        Log(work(x))
        looks[1 + k % 2](work(x))
    gc.set_threshold(700, 10, 10)
    _jax.set_tracebacks_enabled(True)
    print(ended[0] > 300)
"""
HANDLERS = """
    import signal, time, jax, jax.numpy as jnp, numpy as np, tilestep
    work = jax.jit(lambda x: jax.lax.fori_loop(0, 8, lambda _, v: jnp.tanh(v @ v), x))
    x = jax.device_put(np.eye(16, dtype=np.float32), jax.devices("ipu")[0])
    with tilestep.dry_run():  # after which Python answers what C did
        pass
    looks, handled = [np.asarray, lambda y: y.is_ready(), lambda y: y.block_until_ready()], 0

    def look(*_):
        global handled
        handled += 1
        looks[handled % 3](work(x))

    for each in looks:
        each(work(x))
    signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, 0.002, 0.01)
    end = time.monotonic() + 60
    while handled <= 100 and time.monotonic() < end:
        for other in looks[1:]:
            other(work(x))
    signal.setitimer(signal.ITIMER_REAL, 0)
    print(handled > 100)
"""


@pytest.mark.parametrize("program", [FINALIZERS, HANDLERS], ids=["finalizers", "handlers"])
def test_what_runs_in_the_midst_of_a_question_may_look_too(program: str) -> None:
    assert python(program, JAX_PLATFORMS="ipu,cpu").stdout == "True\n"
