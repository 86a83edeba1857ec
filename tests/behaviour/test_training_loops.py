"""`tilestep.train`'s loops on platform `ipu`: values as on CPU, one program to the machine, emulated time that no thread moves."""

import itertools
import json
from typing import Any

import jax
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import tilestep
from tests.in_turn import python
from tilestep.train import InfeedQueue, repeat, while_loop

PROGRAM = """
    import itertools, json, random, threading, time
    import jax, jax.numpy as jnp, numpy as np, tilestep
    from jax.sharding import SingleDeviceSharding
    from tilestep.train import InfeedQueue, OutfeedQueue, repeat, while_loop

    random_ = random.Random(SEED)
    place = SingleDeviceSharding(jax.devices("ipu")[0], memory_kind=KIND)

    def dataset():
        for k in itertools.count():
            if random_.random() < 0.2:
                time.sleep(random_.random() * 2e-3)
            yield np.full((16, 64), k, np.float32)

    infeed, outfeed, seen = InfeedQueue(dataset, sharding=place), OutfeedQueue(), []

    def body(c, x):
        x = jax.device_put(x, jax.memory.Space.Device)
        c = jnp.tanh(c @ x.T @ x * 1e-3)
        outfeed.enqueue(c.sum())
        return c

    def read():
        for value in outfeed:
            if random_.random() < 0.2:
                time.sleep(random_.random() * 1e-3)
            seen.append(float(value))

    reader = threading.Thread(target=read)
    reader.start()
    with tilestep.profile() as profile:
        carry = repeat(41, body, np.ones((64, 64), np.float32), infeed, outfeed, chunk=4)
        carry = while_loop(lambda c: c[0, 0] < 2, body, carry, infeed, outfeed, chunk=4, maximum_iterations=6)
        carry.block_until_ready()
    reader.join()
    record = {"seconds": profile.emulated_s, "events": [str(event) for event in profile.timeline]}
    print(json.dumps(record))
"""


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "io_tiles"), [("device", "0"), ("device", "32"), ("pinned_host", "0")])
def test_emulated_time_does_not_depend_on_when_a_thread_ran(kind: str, io_tiles: str) -> None:
    programs = [PROGRAM.replace("KIND", repr(kind)).replace("SEED", str(seed)) for seed in range(2)]
    first, second = (json.loads(python(each, JAX_PLATFORMS="ipu,cpu", JAX_IPU_NUM_IO_TILES=io_tiles).stdout) for each in programs)
    assert first["seconds"] > 0
    assert first == second


@pytest.mark.slow
def test_a_loop_is_one_program_and_its_carry_stays_on_the_chip(ipu: jax.Device) -> None:
    """Chunks and a remainder: one load, one launch, and of the carry nothing moves but the first upload."""

    def body(c: Any, x: Any) -> Any:
        return c * 0.5 + x.sum()

    infeed = InfeedQueue(itertools.repeat(np.ones(25, np.float32)))
    start = jax.device_put(np.zeros((100, 100), np.float32), ipu)
    with tilestep.profile() as profile:
        repeat(10, body, start, infeed, chunk=4).block_until_ready()
    chunks, rest = profile.programs
    assert (chunks.runs, rest.runs, chunks.loads + rest.loads, profile.dispatches) == (2, 1, 1, 0)
    assert (chunks.host_bytes_in, rest.host_bytes_in) == (4 * 100, 2 * 100)  # of a run
    with tilestep.profile() as again:
        repeat(10, body, jax.device_put(np.zeros((100, 100), np.float32), ipu), infeed, chunk=4).block_until_ready()
    assert [(program.runs, program.loads) for program in again.programs] == [(2, 0), (1, 0)]


def test_a_queue_s_sharding_decides_for_a_carry_that_is_nowhere(ipu: jax.Device) -> None:
    infeed = InfeedQueue(itertools.repeat(np.ones(4, np.float32)), sharding=ipu)
    result = repeat(3, lambda c, x: c + x.sum(), 0.0, infeed)
    assert (float(result), result.device) == (12, ipu)


@pytest.mark.slow
@pytest.mark.parametrize("axis_type", [jax.sharding.AxisType.Auto, jax.sharding.AxisType.Explicit])
def test_a_sharded_carry_keeps_its_shardings(ipus: list[jax.Device], axis_type: Any) -> None:
    mesh = Mesh(np.array(ipus[:4]), ("d",), axis_types=(axis_type,))
    split, whole = NamedSharding(mesh, P("d")), NamedSharding(mesh, P())
    carry = {"w": jax.device_put(np.arange(8, dtype=np.float32), split), "n": jax.device_put(np.float32(0), whole)}
    infeed = InfeedQueue(itertools.repeat(np.ones(8, np.float32)))
    divided = InfeedQueue(itertools.repeat(np.ones(8, np.float32)), sharding=split)
    for queue in (infeed, divided):
        carry = repeat(5, lambda c, x: {"w": c["w"] + x, "n": c["n"] + 1}, carry, queue, chunk=2)
        carry = while_loop(lambda c: c["n"] % 10 < 9, lambda c, x: {"w": c["w"] + x, "n": c["n"] + 1}, carry, queue, chunk=2)
        carry = {**carry, "n": jax.device_put(np.float32(0), whole)}
        assert (carry["w"].sharding, carry["n"].sharding) == (split, whole)
    np.testing.assert_array_equal(np.asarray(carry["w"]), np.arange(8) + 18)
