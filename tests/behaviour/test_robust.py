"""Threads, callbacks, garbage and the end of the process: nothing hangs, nothing crashes."""

import gc
import itertools
import logging
import os
import random
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from jax.experimental import io_callback

import tilestep
from tests.processes import PROCESS_TIMEOUT_WALL_S, clean_environ

OPERATIONS = 100_000


def shape_of(x: jax.Array) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(x.shape, x.dtype)


class Stress:
    """One thread of many: operations drawn at random, of which each result is checked against NumPy.

    Values are small whole numbers above 0, `held` keeps some with what they should be.
    """

    def __init__(self, ipus: list[jax.Device], seed: int) -> None:
        self.rng = random.Random(seed)
        self.ipus = ipus
        self.held = [self.fresh() for _ in range(4)]
        mesh = jax.sharding.Mesh(np.array(ipus), ("i",))
        self.over = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("i"))
        self.add = jax.jit(lambda x, y: x + y)
        self.donating = jax.jit(lambda x: x * 2 - 1, donate_argnums=0)
        self.counting = jax.jit(lambda x: jax.lax.while_loop(lambda v: v[0] < 50, lambda v: v + 7, x))
        self.calling = jax.jit(lambda x: jax.pure_callback(self.host, shape_of(x), x) * 1)
        self.telling = jax.jit(self.tell)
        self.summing = jax.jit(lambda x: x.reshape(4, 4).sum(0), out_shardings=self.over)
        self.told: list[int] = []
        self.operations = [
            self.put, self.adds, self.donates, self.counts, self.calls_back, self.fails, self.moves, self.parks, self.sums,
            self.tells, self.deletes, self.throws_away, self.reads, self.raises_over_arrays,
        ]  # fmt: skip

    def work(self) -> None:
        self.rng.choice(self.operations)()

    def fresh(self) -> tuple[jax.Array, np.ndarray]:
        value = np.full(64, self.rng.randrange(1, 40), np.int32)
        return jax.device_put(value, self.rng.choice(self.ipus)), value

    def take(self) -> tuple[jax.Array, np.ndarray]:
        return self.held.pop(self.rng.randrange(len(self.held)))

    def keep(self, array: jax.Array, value: np.ndarray) -> None:
        if value[0] > 1000:
            np.testing.assert_array_equal(array, value)
            array, value = self.fresh()
        self.held.append((array, value))

    @staticmethod
    def host(v: np.ndarray) -> np.ndarray:
        if v[0] < 0:
            raise ValueError("on purpose")
        return np.asarray(v) + 1

    def tell(self, x: jax.Array) -> jax.Array:
        jax.debug.callback(lambda v: self.told.append(int(v)), x[0], ordered=True)
        return x + 3

    def put(self) -> None:
        self.take()
        self.keep(*self.fresh())

    def adds(self) -> None:
        x, value = self.take()
        k = self.rng.randrange(9)
        self.keep(self.add(x, np.int32(k)), value + k)

    def donates(self) -> None:
        x, value = self.take()
        self.keep(self.donating(x), value * 2 - 1)
        assert x.is_deleted()

    def counts(self) -> None:
        x, value = self.take()
        more = max(0, -(-(50 - int(value[0])) // 7)) * 7
        self.keep(self.counting(x), value + more)

    def calls_back(self) -> None:
        x, value = self.take()
        self.keep(self.calling(x), value + 1)

    def fails(self) -> None:
        x, value = self.take()
        with pytest.raises((jax.errors.JaxRuntimeError, ValueError), match="on purpose"):  # by whether JAX's fast path was taken
            self.calling(x * 0 - 1).block_until_ready()
        self.keep(x, value)

    def moves(self) -> None:
        x, value = self.take()
        through = jax.device_put(x, jax.devices("cpu")[0]) if self.rng.random() < 0.3 else x
        self.keep(jax.device_put(through, self.rng.choice(self.ipus)), value)

    def parks(self) -> None:
        x, value = self.take()
        parked = jax.device_put(x, x.sharding.with_memory_kind("pinned_host"))
        assert parked.sharding.memory_kind == "pinned_host"
        self.keep(jax.device_put(parked, x.sharding), value)

    def sums(self) -> None:
        value = np.arange(16, dtype=np.int32) + self.rng.randrange(9)
        result = self.summing(jax.device_put(value, self.over))
        np.testing.assert_array_equal(result, value.reshape(4, 4).sum(0))

    def tells(self) -> None:
        x, value = self.take()
        self.keep(self.telling(x), value + 3)
        while not self.told:  # jax.effects_barrier() would raise what a run before, of this thread, raised already
            time.sleep(0.001)
        assert self.told.pop() == value[0]

    def deletes(self) -> None:
        x, _ = self.fresh()
        y = x + 1
        x.delete()
        with pytest.raises(RuntimeError, match="deleted"):
            np.asarray(x)
        assert y.shape == (64,)

    def throws_away(self) -> None:
        x, value = self.take()
        garbage: list[Any] = [x + k for k in range(3)]
        garbage.append(garbage)  # a cycle: only the collector frees it
        self.keep(x, value)

    def reads(self) -> None:
        x, value = self.take()
        np.testing.assert_array_equal(np.asarray(x), value)
        assert int(x[5]) == value[5]
        self.keep(x, value)

    def raises_over_arrays(self) -> None:
        def lose(depth: int) -> Any:
            held = self.fresh()
            if depth == 0:
                raise KeyError("through all of them")
            return lose(depth - 1), held

        with pytest.raises(KeyError, match="through all of them"):
            lose(3)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_threads_with_callbacks_donation_errors_and_garbage_collection(ipus: list[jax.Device], caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "jax")  # of each callback that fails on purpose
    failures: list[BaseException] = []
    left = iter(range(OPERATIONS))
    lock = threading.Lock()

    def run(stress: Stress) -> None:
        try:
            while not failures:
                with lock:
                    if next(left, None) is None:
                        break
                stress.work()
            for array, value in stress.held:
                np.testing.assert_array_equal(array, value)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(Stress(ipus, seed),), daemon=True) for seed in range(6)]
    with tilestep.profile() as profile:
        for thread in threads:
            thread.start()
        for turn in itertools.count():
            if not any(thread.is_alive() for thread in threads):
                break
            gc.collect(2 if turn % 20 == 0 else 1)  # what is new; all that there is, sometimes
            time.sleep(0.01)
    if failures:
        raise failures[0]
    assert sum(program.runs for program in profile.programs) > OPERATIONS // 2


@pytest.mark.slow
def test_children_may_be_started_with_work_in_flight_and_those_by_spawn_have_a_platform_of_their_own(tmp_path: Path) -> None:
    """After fork and exec, that is: JAX itself does not survive a fork alone."""
    script = tmp_path / "spawn.py"
    script.write_text(
        textwrap.dedent("""
        import multiprocessing, subprocess, sys
        def work(k):
            import jax, jax.numpy as jnp
            return int(jnp.full(3, k).sum())
        if __name__ == "__main__":
            import jax, jax.numpy as jnp
            step = jax.jit(lambda x: jax.lax.fori_loop(0, 100, lambda _, v: jnp.tanh(v @ v), x))
            x = step(jnp.eye(50))
            told = subprocess.run([sys.executable, "-c", "print(6)"], capture_output=True, text=True, check=True, close_fds=False)
            assert told.stdout == "6\\n", told
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                print(pool.map(work, [1, 2]), step(x).shape)
        """)
    )
    result = subprocess.run(
        [sys.executable, str(script)],
        env=clean_environ({"JAX_PLATFORMS": "ipu,cpu"}),
        capture_output=True,
        text=True,
        timeout=PROCESS_TIMEOUT_WALL_S,
        check=True,
    )
    assert result.stdout == "[3, 6] (50, 50)\n"


@pytest.mark.slow
def test_a_program_over_several_ipus_waits_for_none_that_waits_for_the_host(ipus: list[jax.Device]) -> None:
    """However many programs of one IPU come in between. (Those of several XLA does one after the other, wherever they are.)"""
    may_end = threading.Event()

    def held_up(x: np.ndarray) -> np.ndarray:
        assert may_end.wait(60)
        return x

    waits = jax.pmap(lambda x: io_callback(held_up, jax.ShapeDtypeStruct((), np.float32), x), devices=ipus[:2])
    other = jax.pmap(lambda x: x + 1, devices=ipus[2:4])
    one, several = jax.device_put(np.float32(0), ipus[2]), np.zeros(2, np.float32)
    first = waits(several)
    for _ in range(50):
        one = jax.jit(lambda x: x + 1)(one)
    assert float(one) == 50
    for _ in range(5):
        several = other(several)
    may_end.set()
    assert np.asarray(first).tolist() == [0, 0]
    assert np.asarray(several).tolist() == [5, 5]


def resident_bytes() -> int:
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads the resident size from /proc")
def test_steps_leave_nothing_behind(ipu: jax.Device) -> None:
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
    run(10_000)
    grown = resident_bytes() - before
    assert grown < (1 << 20) + 200 * 10_000, f"{grown:,} B in 10,000 steps"
