"""Infeed and outfeed inside of programs, on `ipu` and on CPU: order, devices, late data, failures, interrupts, the end of the process."""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import tilestep
from tests import in_turn
from tests.unit.train.moments import send_ctrl_c
from tilestep import Profile, train
from tilestep.machine import load_machine
from tilestep.units import cycles_from_bytes, cycles_from_seconds

SCALAR = jax.ShapeDtypeStruct((), jnp.float32)


@pytest.fixture(params=["cpu", "ipu"])
def device(request: pytest.FixtureRequest) -> Iterator[jax.Device]:
    device = jax.devices(request.param)[0]
    train.clear_feeds(device)
    yield device
    train.clear_feeds(device)


@pytest.fixture
def feeding(ipus: list[jax.Device]) -> Iterator[list[jax.Device]]:
    yield ipus
    for ipu in ipus:
        train.clear_feeds(ipu)


def feed(device: jax.Device, *values: float) -> None:
    for value in values:
        train.transfer_to_infeed(device, float(value))


def taken() -> Any:
    return train.infeed(None, SCALAR)[0]


def digits(total: Any) -> Any:
    return total * 10 + taken()


def zero(device: jax.Device) -> jax.Array:
    return jax.device_put(np.float32(0), device)


def test_feeds_happen_in_the_order_of_the_program(device: jax.Device) -> None:
    def program(total: Any) -> Any:
        first = taken()
        total = lax.fori_loop(0, 2, lambda _, value: digits(value), total + first)
        total = jax.jit(digits)(jax.jit(digits)(total))
        total, _ = lax.scan(lambda value, _: (digits(value), None), total, None, length=2)
        return lax.cond(total > 0, digits, lambda value: value, total)

    feed(device, *range(1, 10))
    assert jax.jit(program)(zero(device)) == 12345678
    assert train.pending_feeds(device).infeed == 1


@pytest.mark.slow
def test_a_loop_may_ask_the_host_whether_to_go_on(device: jax.Device) -> None:
    feed(device, 3, 1, 0, 7)
    program = jax.jit(lambda total: lax.while_loop(lambda _: taken() > 0, lambda value: value + 1, total) * 10 + taken())
    assert program(zero(device)) == 27


def test_a_whole_epoch_may_be_queued_and_drained_in_order(device: jax.Device) -> None:
    shape = {"image": jax.ShapeDtypeStruct((4, 3), jnp.float32), "label": jax.ShapeDtypeStruct((4,), jnp.int32)}

    def step(index: Any, total: Any) -> Any:
        batch, token = train.infeed(None, shape)
        train.outfeed(token, (index, batch["image"].T, batch["label"]))
        return total + batch["image"].sum()

    program = jax.jit(lambda total, steps: lax.fori_loop(0, steps, step, total))
    for _ in range(2):  # the second run has nothing to compile
        for k in range(50):
            train.transfer_to_infeed(device, {"image": np.full((4, 3), float(k)), "label": np.arange(4) + k})
        assert program(zero(device), 50) == 12 * sum(range(50))
        like = (jax.ShapeDtypeStruct((), jnp.int32), jax.ShapeDtypeStruct((3, 4), jnp.float32), shape["label"])
        for k in range(50):
            index, image, label = train.transfer_from_outfeed(device, like)
            assert index == k
            assert (image == k).all()
            assert label.tolist() == [k, k + 1, k + 2, k + 3]
    assert train.pending_feeds(device) == (0, 0)


def test_data_may_come_from_another_thread_while_the_program_waits(device: jax.Device) -> None:
    feeder = threading.Timer(0.1, feed, (device, 1, 2, 3))
    program = jax.jit(lambda total: lax.fori_loop(0, 3, lambda _, value: digits(value), total))
    feeder.start()
    assert program(zero(device)) == 123
    feeder.join()


def test_results_come_out_while_the_program_runs(device: jax.Device) -> None:
    """Each answer decides what is fed next, so a program that kept its results to itself would never end."""

    def step(_: Any, value: Any) -> Any:
        train.outfeed(None, value)
        return taken()

    program = jax.jit(lambda value: lax.fori_loop(0, 20, step, value))
    result: list[Any] = []
    runner = threading.Thread(target=lambda: result.append(float(program(zero(device)))))
    runner.start()
    for _ in range(20):
        feed(device, float(train.transfer_from_outfeed(device, SCALAR, timeout_wall_s=30)) * 2 + 1)
    runner.join(30)
    assert result == [2**20 - 1]


def test_a_donated_state_stays_a_donated_state(device: jax.Device) -> None:
    program = jax.jit(lambda total: lax.fori_loop(0, 2, lambda _, value: value + taken(), total), donate_argnums=0)
    feed(device, 1, 2, 3, 4)
    start = jax.device_put(np.zeros(8, np.float32), device)
    first = program(start)
    assert start.is_deleted()
    np.testing.assert_array_equal(program(first), np.full(8, 10))


def test_a_failure_is_not_passed_on_to_the_next_program(device: jax.Device) -> None:
    before = train.set_feed_timeout(0.05)
    try:
        with pytest.raises(jax.errors.JaxRuntimeError, match=rf"infeed of {device.platform}:0: the program asked for element"):
            jax.block_until_ready(jax.jit(digits)(zero(device)))
    finally:
        train.set_feed_timeout(before)
    feed(device, 3)
    assert jax.jit(digits)(zero(device)) == 3
    jax.effects_barrier()


def wait_in_vain(program: Any, device: jax.Device, wait: Callable[[Any], Any], interrupt: threading.Timer) -> None:
    """JAX may say first that the program failed, and why; the interrupt itself is due then."""
    failed = None
    interrupt.start()
    try:
        wait(program(zero(device)))
    except jax.errors.JaxRuntimeError as error:
        failed = str(error)
    assert failed is None or "interrupted while the program waited" in failed
    time.sleep(30)


@pytest.mark.parametrize("wait", [jax.block_until_ready, float])
def test_ctrl_c_ends_the_waiting(device: jax.Device, wait: Callable[[Any], Any]) -> None:
    program = jax.jit(lambda value: value - taken())
    interrupt = threading.Timer(1, send_ctrl_c)  # between two looks of who waits
    feed(device, 1)
    jax.block_until_ready(program(zero(device)))
    begun = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        wait_in_vain(program, device, wait, interrupt)
    assert time.monotonic() - begun < 20
    interrupt.join()
    feed(device, 5)
    assert program(zero(device)) == -5
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


SCHEDULES = """
    import random, threading
    import jax, numpy as np
    from jax import lax
    from tilestep import train

    SCALAR = jax.ShapeDtypeStruct((), np.float32)
    device = jax.devices("{platform}")[0]

    @jax.jit
    def passed_on(turns):
        def turn(_, token):
            value, token = train.infeed(token, SCALAR)
            return train.outfeed(token, 2 * value)
        return lax.fori_loop(0, turns, turn, lax.create_token())

    def split(rng, number):
        parts = []
        while sum(parts) < number:
            parts.append(rng.randint(1, number - sum(parts)))
        return parts

    def run(seed):
        rng, number = random.Random(seed), random.Random(seed).randint(1, 12)
        closes = rng.random() < 0.2  # somebody throws away what is queued, at any moment: then a wait may be in vain
        train.set_feed_timeout(0.02 if closes else 60)
        parts, found, failed = {{name: split(rng, number) for name in ("feed", "run", "drain")}}, [], []

        def feed():
            fed = 0
            for part in parts["feed"]:
                for _ in range(part):
                    train.transfer_to_infeed(device, np.float32(fed))
                    fed += 1

        def start():
            for part in parts["run"]:
                jax.block_until_ready(passed_on(jax.device_put(np.int32(part), device)))

        def drain():
            for part in parts["drain"]:
                found.extend(float(train.transfer_from_outfeed(device, SCALAR)) for _ in range(part))

        def guarded(job):
            try:
                job()
            except (jax.errors.JaxRuntimeError, TimeoutError) as error:
                failed.append(error)

        jobs = [feed, start, drain, *([lambda: train.clear_feeds(device)] if closes else [])]
        rng.shuffle(jobs)
        threads = [threading.Thread(target=guarded, args=(job,)) for job in jobs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if closes:
            assert sorted(found) == found, (seed, found)
        else:
            assert not failed and found == [2.0 * k for k in range(number)], (seed, found, failed)
            assert train.pending_feeds(device) == (0, 0), seed
        train.clear_feeds(device)

    for seed in range({number}):
        run(seed)
    print("done")
"""


@pytest.mark.parametrize(
    ("platform", "number"),
    [("cpu", 100), ("ipu", 50), *(pytest.param(platform, 1000, marks=pytest.mark.slow) for platform in ("cpu", "ipu"))],
)
def test_schedules_of_feeding_running_draining_and_clearing(platform: str, number: int) -> None:
    result = in_turn.attempt(SCHEDULES.format(platform=platform, number=number))
    assert (result.returncode, result.stdout) == (0, "done\n"), result.stderr


# On ipu


def test_on_ipu_a_profile_does_not_wait_for_data(feeding: list[jax.Device]) -> None:
    ipu, *_ = feeding
    program = jax.jit(lambda total: lax.fori_loop(0, 3, lambda _, value: digits(value), total))
    start = zero(ipu)
    with tilestep.profile() as profile:
        waiting = program(start)
    assert not waiting.is_ready()
    assert profile.programs[0].call_bytes_in == 12
    feed(ipu, 1, 2, 3)
    assert waiting == 123


def test_each_ipu_has_its_own_queues(feeding: list[jax.Device]) -> None:
    first, second, *_ = feeding
    program = jax.jit(digits)
    of_first, of_second = program(zero(first)), program(zero(second))
    feed(second, 2)
    assert of_second == 2  # the other one still waits
    feed(first, 1)
    assert of_first == 1


def test_shard_map_and_pmap_feed_each_ipu_by_itself(feeding: list[jax.Device]) -> None:
    ipus = feeding[:2]
    mesh = jax.sharding.Mesh(np.array(ipus), ("x",))
    spec = jax.sharding.PartitionSpec("x")

    def body(total: Any) -> Any:
        total = lax.fori_loop(0, 3, lambda _, value: digits(value), total)
        train.outfeed(None, total)
        return total + lax.psum(total, "x")

    sharded = jax.jit(jax.shard_map(body, mesh=mesh, in_specs=spec, out_specs=spec))
    mapped = jax.pmap(body, "x", devices=ipus)
    zeros = np.zeros(2, np.float32)
    for program, given in ((sharded, jax.device_put(zeros, jax.NamedSharding(mesh, spec))), (mapped, zeros)):
        result = program(given)
        feed(ipus[0], 1, 2, 3)
        feed(ipus[1], 4, 5, 6)
        np.testing.assert_array_equal(result, [123 + 579, 456 + 579])
        shape = jax.ShapeDtypeStruct((1,) if program is sharded else (), jnp.float32)
        assert [train.transfer_from_outfeed(ipu, shape).item() for ipu in ipus] == [123, 456]


def test_several_devices_outside_of_shard_map_are_refused(ipus: list[jax.Device]) -> None:
    mesh = jax.sharding.Mesh(np.array(ipus[:2]), ("x",))
    given = jax.device_put(np.zeros(2, np.float32), jax.NamedSharding(mesh, jax.sharding.PartitionSpec("x")))
    with pytest.raises(tilestep.UnsupportedError, match=r"the program runs on 2 devices: wrap the feed in jax\.shard_map"):
        jax.jit(lambda x: x + taken())(given)


def emulated(ipu: jax.Device, turns: int, **options: Any) -> Profile:
    """Of a loop that takes 4,000 bytes each turn and gives 40; its second run, when the program has been loaded."""
    shape = jax.ShapeDtypeStruct((100, 10), jnp.float32)

    def step(_: Any, total: Any) -> Any:
        element, token = train.infeed(None, shape)
        train.outfeed(token, total)
        return total + element.sum(axis=0)

    program = jax.jit(lambda total: lax.fori_loop(0, turns, step, total), compiler_options=options or None)
    with tilestep.dry_run():
        start = jax.device_put(np.zeros(10, np.float32), ipu)
        program(start)
        with tilestep.profile() as recording:
            program(start)
    return recording.profile


@pytest.mark.slow
def test_a_feed_costs_its_bytes_and_a_latency(ipu: jax.Device) -> None:
    """An infeed's come from streaming memory, where the host has brought them; an outfeed's go over the host link."""
    machine = load_machine("bow-2000")
    clock_hz, host = machine.ipu.clock_hz, machine.host
    latency = cycles_from_seconds(host.link_latency_seconds, clock_hz)
    infeed = cycles_from_bytes(4000, host.streaming_memory_bytes_per_second, clock_hz)
    outfeed = cycles_from_bytes(40, host.to_host_bytes_per_second, clock_hz)
    profile = emulated(ipu, 7)
    assert profile.cycles_by_kind["host-call"] == 7 * (infeed + outfeed + 2 * latency)
    (program,) = profile.programs
    assert (program.call_bytes_in, program.call_bytes_out) == (7 * 4000, 7 * 40)
    feeds = [step for step in profile.supersteps if step.family == "host call"]
    assert {(step.name.partition(".")[0], step.executions, step.host) for step in feeds} == {  # numbers after the point are XLA's
        ("infeed", 7, 7 * (infeed + latency)),
        ("outfeed", 7, 7 * (outfeed + latency)),
    }
    assert len(feeds) == 2


def test_in_a_dry_run_shapes_are_enough(feeding: list[jax.Device]) -> None:
    ipu, *_ = feeding
    shape = jax.ShapeDtypeStruct((1024, 784), jnp.float32)

    def step(_: Any, total: Any) -> Any:
        batch, token = train.infeed(None, shape)
        train.outfeed(token, total)
        return total + batch.sum()

    program = jax.jit(lambda total: lax.fori_loop(0, 4, step, total))

    def run() -> int:
        with tilestep.profile() as profile:
            start = zero(ipu)
            for _ in range(4):
                train.transfer_to_infeed(ipu, np.ones((1024, 784), np.float32))
            program(start).block_until_ready()
        return profile.emulated_cycles

    with tilestep.dry_run():
        run()  # loads the program
        dry = run()
        with pytest.raises(tilestep.UnsupportedError, match="a dry run computes no values, but the host drains the outfeed of ipu:0"):
            train.transfer_from_outfeed(ipu, SCALAR)
    with tilestep.dry_run(values="zeros"):
        assert train.transfer_from_outfeed(ipu, SCALAR) == 0
    assert train.pending_feeds(ipu) == (0, 0)
    run()
    assert run() == dry
    assert train.pending_feeds(ipu) == (0, 8)


def test_a_program_with_feeds_may_be_stored(feeding: list[jax.Device]) -> None:
    from jax.experimental import serialize_executable

    ipu, *_ = feeding
    compiled = jax.jit(digits).lower(zero(ipu)).compile()
    again = serialize_executable.deserialize_and_load(*serialize_executable.serialize(compiled), backend="ipu", execution_devices=[ipu])
    waiting = again(zero(ipu))
    feed(ipu, 8)
    assert waiting == 8
