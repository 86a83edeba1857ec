"""Ctrl-C, and what else a signal's handler raises: it is never lost, and nothing is lost by it."""

import pytest

from tests.in_turn import python


@pytest.mark.parametrize("times", [60, pytest.param(1000, marks=pytest.mark.slow)])
def test_ctrl_c_at_any_moment_of_a_dispatch_neither_loses_nor_repeats_the_run(times: int) -> None:
    """Of a program with counters, which runs Python on its way, and takes its argument over: run again it would find it gone."""
    out = python(
        """
        import random, signal, time, jax, numpy as np, tilestep
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        ipu = jax.devices("ipu")[0]
        step = jax.jit(lambda x: jax.lax.while_loop(lambda v: v[0] % 3 != 2, lambda v: v + 1, x + 1), donate_argnums=0)
        step(jax.device_put(np.zeros(16, np.float32), ipu)).block_until_ready()
        argument, begun = jax.device_put(np.zeros(16, np.float32), ipu).block_until_ready(), time.perf_counter()
        step(argument)
        rng, took, interrupts, runs = random.Random(0), 2 * (time.perf_counter() - begun), 0, 0
        with tilestep.profile() as profile:
            for _ in range(TIMES):
                argument = jax.device_put(np.zeros(16, np.float32), ipu).block_until_ready()
                try:
                    try:
                        signal.setitimer(signal.ITIMER_REAL, rng.uniform(1e-6, took))
                        step(argument)
                    finally:
                        signal.setitimer(signal.ITIMER_REAL, 0)
                except KeyboardInterrupt:
                    interrupts += 1
                runs += argument.is_deleted()
        print(interrupts > 0, sum(program.runs for program in profile.programs) == runs)
        """.replace("TIMES", str(times)),
        JAX_PLATFORMS="ipu,cpu",
    )
    assert out.stdout == "True True\n"


@pytest.mark.parametrize(("count", "times"), [(1, 60), (2, 60), *(pytest.param(count, 1000, marks=pytest.mark.slow) for count in (1, 2))])
def test_ctrl_c_at_any_moment_of_many_dispatches_loses_no_state(count: int, times: int) -> None:
    """Of a program that takes over what it is given, with no bytecode of the caller's between its call and where the result is kept."""
    out = python(
        f"""
        import collections, gc, itertools, operator, random, signal, jax, numpy as np
        from jax.sharding import Mesh, NamedSharding, PartitionSpec
        place = NamedSharding(Mesh(np.array(jax.devices("ipu")[:{count}]), "i"), PartitionSpec("i"))
        step = jax.jit(lambda x: x + 1, donate_argnums=0, out_shardings=place)
        states, rng, armed, interrupts, lost = collections.deque(maxlen=2), random.Random(0), False, 0, 0

        def once(*_):
            global armed
            if armed:
                armed = False
                raise KeyboardInterrupt

        def dispatch():  # a function, as Python 3.13 finds no handler for what is raised where a loop jumps back
            while armed:
                states.extend(map(step, map(operator.itemgetter(-1), itertools.repeat(states, 3))))

        gc.disable()  # what is raised in the midst of it is not told
        signal.signal(signal.SIGALRM, once)
        states.append(jax.device_put(np.zeros(8, np.float32), place))
        states.append(step(states[-1]))
        for _ in range({times}):
            try:
                armed = True
                signal.setitimer(signal.ITIMER_REAL, rng.uniform(5e-5, 1e-3))
                dispatch()
            except KeyboardInterrupt:
                interrupts += 1
            lost += states[-1].is_deleted()
        armed = False
        print(interrupts, lost, len(set(np.asarray(step(states[-1])).tolist())))
        """,
        JAX_PLATFORMS="ipu,cpu",
        TILESTEP_MACHINE="bow-2000",
    )
    interrupts, lost, values = map(int, out.stdout.split())
    assert interrupts > times // 2
    assert (lost, values) == (0, 1)


@pytest.mark.slow
def test_ctrl_c_at_any_moment_of_a_compilation_is_a_keyboard_interrupt() -> None:
    """Newer XLA compiles on the thread that asks, where a signal's handler may run in any Python code that XLA calls."""
    out = python(
        """
        import random, signal, time, jax, jax.numpy as jnp
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        place = jax.sharding.SingleDeviceSharding(jax.devices("ipu")[0])
        def lowered(k):
            shape = jax.ShapeDtypeStruct((8, 8), jnp.float32, sharding=place)
            return jax.jit(lambda x: jnp.tanh(x @ x + k) * jnp.sin(x)[::-1]).lower(shape)
        lowered(0).compile()
        program, begun = lowered(0.5), time.perf_counter()
        program.compile()
        rng, took, interrupts = random.Random(0), time.perf_counter() - begun, 0
        for k in range(1, 151):
            program = lowered(k)
            try:
                try:
                    signal.setitimer(signal.ITIMER_REAL, rng.uniform(1e-4, took))
                    program.compile()
                finally:
                    signal.setitimer(signal.ITIMER_REAL, 0)
            except KeyboardInterrupt:
                interrupts += 1
        print(interrupts > 0)
        """,
        JAX_PLATFORMS="ipu,cpu",
    )
    assert out.stdout == "True\n"


def test_ctrl_c_ends_a_wait_and_spoils_no_result() -> None:
    """Before what is waited for is there; who waits again gets it, and its peer too."""
    out = python(
        """
        import os, signal, threading, time, jax, jax.numpy as jnp
        from tilestep.pjrt import _native
        may_end = threading.Event()

        def held(v):
            assert may_end.wait(60)
            return v

        slow = jax.jit(lambda x: jax.lax.fori_loop(0, 200, lambda _, v: jnp.tanh(v @ v), x)[0, 0])
        after = jax.jit(lambda v: (jax.pure_callback(held, v, v), v + 1))
        x = jnp.zeros((300, 300))
        may_end.set()
        jax.block_until_ready(after(slow(x)))

        def interrupt():
            while not _native.threads_waiting():
                time.sleep(0.001)
            os.kill(os.getpid(), signal.SIGINT)

        def waits(wait):
            may_end.clear()
            results = after(slow(x))  # which it has to wait for, so that the callback is called in another thread
            threading.Thread(target=interrupt).start()
            try:
                wait(*results)
            except KeyboardInterrupt:
                may_end.set()
                results[0].block_until_ready()
                return float(results[0]), float(results[1])

        print(waits(lambda first, second: first.block_until_ready()))
        print(waits(lambda first, second: jax.block_until_ready([second, first])))
        """,
        JAX_PLATFORMS="ipu,cpu",
    )
    assert out.stdout == "(0.0, 1.0)\n" * 2


@pytest.mark.parametrize("times", [60, pytest.param(1000, marks=pytest.mark.slow)])
def test_no_interrupt_is_lost(times: int) -> None:
    """One at a random moment of each of many calls, in the midst of what JAX asks of the platform. But in JAX's own function that Python
    calls when it collects garbage, which can pass nothing on: none is collected.
    """
    out = python(
        """
        import gc, random, signal, time, jax, numpy as np
        ipu = jax.devices("ipu")[0]
        step = jax.jit(lambda x: x + 1)
        small, large = np.zeros(16, np.float32), np.eye(500, dtype=np.float32)
        x, fired, rng = jax.device_put(small, ipu), 0, random.Random(0)

        def once(*_):
            global fired
            fired += 1
            raise KeyboardInterrupt

        calls = {
            "put": lambda: jax.device_put(small, ipu),
            "put large": lambda: jax.device_put(large, ipu),
            "copy": lambda: jax.device_put(x, jax.devices("cpu")[0]),
            "step": lambda: step(x),
            "block": lambda: step(x).block_until_ready(),
            "ask": lambda: step(x).is_ready(),
            "read": lambda: np.asarray(step(x)),
            "delete": lambda: step(x).delete(),
        }

        def comes_late(at):  # a function, as Python 3.13 finds no handler for what is raised where a loop jumps back
            while fired == at:
                time.sleep(0)
            sum(range(100))

        def lost(call):
            at = fired
            try:
                signal.setitimer(signal.ITIMER_REAL, rng.uniform(1e-6, took))
                call()
                comes_late(at)
                return True
            except KeyboardInterrupt:
                return False
            except ValueError as error:  # of JAX's cache, of what comparing its keys raises
                return "KeyboardInterrupt" not in str(error)

        gc.disable()
        signal.signal(signal.SIGALRM, once)
        for name, call in calls.items():
            call()
            begun = time.perf_counter()
            call()
            took = 1.2 * (time.perf_counter() - begun)
            print(name, sum(lost(call) for _ in range(TIMES)))
        """.replace("TIMES", str(times)),
        JAX_PLATFORMS="ipu,cpu",
    )
    assert [line.rsplit(maxsplit=1)[1] for line in out.stdout.splitlines()] == ["0"] * 8, out.stdout
