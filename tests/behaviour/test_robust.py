"""Threads, callbacks, garbage, signals and the end of the process: nothing hangs, nothing crashes."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from typing import Any

import jax
import numpy as np
import pytest

from .process import LIMIT_WALL_S, environment, python

SHORT_WALL_S = 4.0


def shape_of(x: jax.Array) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(x.shape, x.dtype)


def worker(device: jax.Device, until: float, failures: list[BaseException]) -> None:
    """Dispatches, donates, calls back, raises, moves and drops arrays, until it is time."""

    def host(v: np.ndarray) -> np.ndarray:
        if v[0] > 50:
            raise ValueError("on purpose")
        return np.asarray(v) + 1

    called = jax.jit(lambda x: jax.pure_callback(host, shape_of(x), x) * 1)
    donating = jax.jit(lambda x: x * 1.5, donate_argnums=0)
    try:
        x = jax.device_put(np.ones(64, np.float32), device)
        while time.monotonic() < until:
            x = donating(called(x))
            if x[0] > 40:
                with pytest.raises(jax.errors.JaxRuntimeError):
                    called(x * 0 + 99).block_until_ready()
                x = jax.device_put(np.ones(64, np.float32), device)
            jax.device_put(x, jax.devices("cpu")[0])
            garbage = [x + k for k in range(3)]
            garbage.append(garbage)  # type: ignore[arg-type]  # a cycle: only the collector frees it
    except BaseException as error:
        failures.append(error)


def test_threads_with_callbacks_donation_errors_and_garbage_collection(ipus: list[jax.Device]) -> None:
    failures: list[BaseException] = []
    until = time.monotonic() + SHORT_WALL_S
    threads = [threading.Thread(target=worker, args=(ipus[k % 4], until, failures), daemon=True) for k in range(6)]
    for thread in threads:
        thread.start()
    while time.monotonic() < until:
        gc.collect()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads), "a thread hangs"
    assert failures == []


def test_arrays_may_die_while_an_exception_is_on_its_way(ipu: jax.Device) -> None:
    def lose(depth: int) -> Any:
        held = jax.device_put(np.ones(16, np.float32), ipu) + depth
        if depth == 0:
            raise KeyError("kept through all destructors")
        return lose(depth - 1), held

    for _ in range(50):
        with pytest.raises(KeyError, match="kept through all destructors"):
            lose(10)


def test_an_exception_on_its_way_survives_a_program_dying(ipu: jax.Device) -> None:
    def once() -> None:
        program = jax.jit(lambda x: x + 1).lower(jax.ShapeDtypeStruct((2,), np.float32)).compile()
        assert program is not None
        raise LookupError("unharmed")

    with jax.default_device(ipu):
        for _ in range(5):
            with pytest.raises(LookupError, match="unharmed"):
                once()


def test_a_callback_may_collect_garbage(ipu: jax.Device) -> None:
    def host(v: np.ndarray) -> np.ndarray:
        gc.collect()
        return np.asarray(v)

    step = jax.jit(lambda x: jax.pure_callback(host, shape_of(x), x) + 1)
    x = jax.device_put(np.zeros(4, np.float32), ipu)
    for _ in range(5):
        x = step(x)
    assert x.tolist() == [5.0] * 4


def test_the_process_ends_with_work_in_flight() -> None:
    result = python(
        """
        import jax, jax.numpy as jnp, numpy as np
        step = jax.jit(lambda x: jax.lax.fori_loop(0, 300, lambda _, v: jnp.tanh(v @ v), x))
        x = step(jnp.eye(300))
        for _ in range(5):
            x = step(x)
        print("ends now")
        """,
        JAX_PLATFORMS="ipu,cpu",
    )
    assert (result.stdout, result.stderr) == ("ends now\n", "")


def test_the_process_ends_with_a_callback_in_flight() -> None:
    result = python(
        """
        import time, jax, jax.numpy as jnp, numpy as np
        def slow(v):
            time.sleep(0.3)
            return np.asarray(v)
        x = jax.jit(lambda x: jax.pure_callback(slow, jax.ShapeDtypeStruct(x.shape, x.dtype), x))(jnp.ones(3))
        print("ends now")
        """,
        JAX_PLATFORMS="ipu,cpu",
    )
    assert (result.stdout, result.stderr) == ("ends now\n", "")


def test_the_process_ends_while_a_daemon_thread_works() -> None:
    result = python(
        """
        import threading, jax, jax.numpy as jnp
        step, started = jax.jit(lambda x: jnp.tanh(x @ x)), threading.Event()
        def work():
            x = jnp.eye(50)
            while True:
                x = step(x)
                started.set()
        threading.Thread(target=work, daemon=True).start()
        started.wait()
        print("ends now")
        """,
        JAX_PLATFORMS="ipu,cpu",
    )
    assert result.stdout == "ends now\n"


def test_children_may_be_started_with_work_in_flight() -> None:
    """After fork and exec, that is: JAX itself does not survive a fork alone."""
    python(
        """
        import subprocess, sys, jax, jax.numpy as jnp
        step = jax.jit(lambda x: jax.lax.fori_loop(0, 100, lambda _, v: jnp.tanh(v @ v), x))
        x = step(jnp.eye(200))
        child = "import jax.numpy as jnp; print(int((jnp.ones(3) + 1).sum()))"
        told = subprocess.run([sys.executable, "-c", child], capture_output=True, text=True, check=True, close_fds=False)
        assert told.stdout == "6\\n", told
        assert step(x).shape == (200, 200)
        """,
        JAX_PLATFORMS="ipu,cpu",
    )


def test_other_children_by_spawn_have_a_platform_of_their_own(tmp_path: Any) -> None:
    script = tmp_path / "spawn.py"
    script.write_text(
        textwrap.dedent("""
        import multiprocessing
        def work(k):
            import jax, jax.numpy as jnp
            return int(jnp.full(3, k).sum())
        if __name__ == "__main__":
            import jax.numpy as jnp
            jnp.ones(3).block_until_ready()
            with multiprocessing.get_context("spawn").Pool(2) as pool:
                print(pool.map(work, [1, 2]))
        """)
    )
    result = subprocess.run(
        [sys.executable, str(script)],
        env=environment({"JAX_PLATFORMS": "ipu,cpu"}),
        capture_output=True,
        text=True,
        timeout=LIMIT_WALL_S,
        check=True,
    )
    assert result.stdout == "[3, 6]\n"


def interrupted(code: str, begun: str, **settings: str) -> tuple[int, str, str]:
    """Exit status, output and errors of a process that gets a Ctrl-C soon after it has printed `begun`."""
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)], env=environment(settings), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == f"{begun}\n"
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=120)
    finally:
        process.kill()
    return process.returncode, output, errors


def test_ctrl_c_interrupts_a_program_that_dispatches() -> None:
    code = """
        import sys, jax, jax.numpy as jnp
        step = jax.jit(lambda x: jax.lax.fori_loop(0, 50, lambda _, v: jnp.tanh(v @ v), x))
        x = step(jnp.eye(100)).block_until_ready()
        print("running", flush=True)
        try:
            while True:
                x = step(x)
                x.block_until_ready()
        except KeyboardInterrupt:
            print("interrupted", float(x[0, 0]) < 2, flush=True)
    """
    assert interrupted(code, "running", JAX_PLATFORMS="ipu,cpu") == (0, "interrupted True\n", "")


def test_ctrl_c_interrupts_a_compilation_and_the_process_ends_well() -> None:
    """JAX compiles on a thread of its own, which goes on: the end of the process waits for it."""
    code = """
        import jax, jax.numpy as jnp
        place = jax.sharding.SingleDeviceSharding(jax.devices("ipu")[0])
        def long(x):
            for k in range(100):
                x = jnp.tanh(x @ x + k) * jnp.sin(x)[::-1]
            return x
        lowered = jax.jit(long).lower(jax.ShapeDtypeStruct((64, 64), jnp.float32, sharding=place))
        print("compiling", flush=True)
        try:
            lowered.compile()
            print("was done before")
        except KeyboardInterrupt:
            print("interrupted", jax.device_put(1.0, place) + 1)
    """
    assert interrupted(code, "compiling") == (0, "interrupted 2.0\n", "")


def resident_bytes() -> int:
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize("steps", [1_000, pytest.param(10_000, marks=pytest.mark.slow)])
@pytest.mark.skipif(sys.platform != "linux", reason="reads the resident size from /proc")
def test_steps_leave_nothing_behind(ipu: jax.Device, steps: int) -> None:
    """A leaked array would be 4 KiB a step, a leaked event some 300 B; the allocator's own steps are 1 MiB."""
    step = jax.jit(lambda s, x: (s * 0.5 + x, (s * x).sum()), donate_argnums=0)
    state = jax.device_put(np.ones((32, 32), np.float32), ipu)

    def run(count: int) -> None:
        nonlocal state
        for k in range(count):
            state, loss = step(state, np.full((32, 32), k, np.float32))
            if k % 50 == 0:
                float(loss)
        jax.block_until_ready(state)
        gc.collect()

    run(5000)  # the journal and the allocator have their size by then
    before = resident_bytes()
    run(steps)
    grown = resident_bytes() - before
    assert grown < (1 << 20) + 200 * steps, f"{grown:,} B in {steps:,} steps"


def test_programs_that_nobody_holds_are_freed(ipu: jax.Device) -> None:
    """As on the CPU, where a function's programs go with the function."""

    def live() -> int:
        gc.collect()
        return sum(type(thing).__name__ == "LoadedExecutable" and "tilestep" in type(thing).__module__ for thing in gc.get_objects())

    def compile_and_run(k: int) -> None:
        jax.jit(lambda x: x * k + k)(jax.device_put(np.ones(3, np.float32), ipu)).block_until_ready()

    compile_and_run(0)
    before = live()
    for k in range(1, 11):
        compile_and_run(k)
    assert live() <= before
