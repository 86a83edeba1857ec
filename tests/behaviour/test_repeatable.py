"""One program, one timeline: emulated time depends on nothing but the program."""

import json
import subprocess
import sys
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tilestep
from tests.processes import clean_environ, python
from tilestep import hints

PROGRAM = """
    import gc, json
    import numpy as np, jax, jax.numpy as jnp, tilestep
    step = jax.jit(lambda s, x: (jnp.tanh(s + x @ s), x.sum()), donate_argnums=0)
    count = jax.jit(lambda n: jax.lax.while_loop(lambda v: v > 1, lambda v: jnp.where(v % 2 == 0, v // 2, 3 * v + 1), n))
    with tilestep.profile() as profile:
        state = np.eye(32, dtype=np.float32)
        for k in range(12):
            state, loss = step(state, np.full((32, 32), k, np.float32))
            if k % 4 == 0:
                float(loss)
            if k % 3 == 0:
                gc.collect()
            spare = [count(np.int32(k + 1)) for _ in range(2)]
            del spare
        pmapped = jax.pmap(lambda v: jax.lax.psum(v, "i"), axis_name="i")(np.ones((4, 8), np.float32))
        np.asarray(state)
    record = {"seconds": profile.emulated_s, "events": [str(event) for event in profile.timeline],
              "programs": [[p.name, p.runs, p.loads, str(p.cycles)] for p in profile.programs]}
    print(json.dumps(record))
"""


@pytest.mark.slow
def test_a_wait_aside_is_no_wait_and_leaves_later_ones(ipu: jax.Device) -> None:
    step = jax.jit(lambda x: jax.lax.fori_loop(0, 50, lambda _, x: jnp.tanh(x @ x), x))

    def cycles(*waits: Callable[[jax.Array], object]) -> int:
        x = jax.device_put(np.ones((256, 256), np.float32), ipu)
        with tilestep.profile() as profile:
            for _ in range(2):
                y = step(x)
                for wait in waits:
                    wait(y)
            step(x).block_until_ready()
        return profile.emulated_cycles

    def untimed(array: jax.Array) -> None:
        hints.wait_untimed([array], jax.block_until_ready)

    cycles()
    assert cycles(untimed) == cycles() < cycles(jax.block_until_ready) == cycles(untimed, jax.block_until_ready)
    with tilestep.dry_run():
        assert cycles(untimed) == cycles() < cycles(jax.block_until_ready) == cycles(untimed, jax.block_until_ready)


def test_a_failure_is_told_to_who_waits_aside(ipu: jax.Device) -> None:
    def fail(_: np.ndarray) -> np.ndarray:
        raise ValueError("on purpose")

    broken = jax.jit(lambda x: jax.pure_callback(fail, jax.ShapeDtypeStruct(x.shape, x.dtype), x))
    with pytest.raises(jax.errors.JaxRuntimeError, match="on purpose"):
        hints.wait_untimed([broken(jax.device_put(np.ones(8, np.float32), ipu))], jax.block_until_ready)


PUTS = """
    import json
    import numpy as np, jax, tilestep
    from jax.sharding import SingleDeviceSharding
    from tilestep.hints import program_group
    devices = jax.devices()
    make = jax.jit(lambda x: [x + k for k in range(3)])
    use = jax.jit(lambda xs: sum(x.sum() for x in xs))
    starts = [jax.device_put(np.full(1000 * (k + 1), k, np.float32), device) for k, device in enumerate(devices)]
    with tilestep.profile() as profile:
        for _ in range(3):
            with program_group("all"):
                made = [make(start) for start in starts]
                wanted = [(value, devices[(giver + 1 + place) % 4]) for giver, row in enumerate(made) for place, value in enumerate(row)]
                there = jax.device_put([value for value, _ in wanted], [SingleDeviceSharding(device) for _, device in wanted])
                for device in devices:
                    use([value for value in there if value.device == device])
            jax.device_put(there, [devices[0]] * 12)
    print(json.dumps([str(event) for event in profile.timeline]))
"""


@pytest.mark.slow
def test_every_process_has_the_same_timelines_under_load_too() -> None:
    """JAX asks for many puts of one call in the order of a hash table that is seeded anew in each process."""
    programs = PROGRAM + PUTS
    quiet = python(programs, JAX_PLATFORMS="ipu,cpu", PYTHONHASHSEED="7").stdout
    burner = [sys.executable, "-c", "while True: sum(range(10000))"]
    load = subprocess.Popen(burner, env=clean_environ())
    try:
        busy = python(programs, JAX_PLATFORMS="ipu,cpu").stdout
    finally:
        load.kill()
        load.wait()
    record, puts = map(json.loads, quiet.splitlines())
    assert record["seconds"] > 0
    assert any("collective" in event for event in puts)
    assert busy == quiet
