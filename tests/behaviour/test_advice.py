"""Each sentence of "What to do", followed: the emulated machine is quicker afterwards. Where it would not be, the sentence stays away."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.experimental import io_callback
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import tilestep
from tilestep.report import Profile, findings
from tilestep.train import Pipeline

STEPS = 30
STATE = np.ones((512, 512), np.float32)
DATA = np.ones((4096, 256), np.float32)


@pytest.fixture(autouse=True)
def default_ipu(ipu: jax.Device) -> Any:
    with jax.default_device(ipu):
        yield


def profiled(program: Callable[[], object]) -> Profile:
    with tilestep.profile() as recording:
        jax.block_until_ready(program())
    return recording.profile


def told(profile: Profile) -> str:
    return "\n".join(finding.text for finding in findings(profile))


def of_kind(profile: Profile, kind: str) -> list[str]:
    return [finding.text for finding in findings(profile) if finding.kind == kind]


def train(state: Any, batch: Any) -> Any:
    return state * 0.5 + batch


def loss(state: Any, batch: Any) -> Any:
    return (state * batch).sum()


def training(*, donated: bool, evaluated: bool = False) -> Callable[[], Any]:
    """Steps on a state that goes round, with an evaluation after each or without."""

    def program() -> Any:
        step = jax.jit(partial(train), donate_argnums=(0,) if donated else ())
        evaluate = jax.jit(partial(loss))
        state: Any = STATE
        for _ in range(STEPS):
            state = step(state, np.float32(1))
            if evaluated:
                evaluate(state, np.float32(1))
        return state

    return program


def predicting(*, kept: bool) -> Callable[[], Any]:
    """A model that is only used, whose weights are the program's result, too, or not."""

    def program() -> Any:
        weights: Any = jnp.asarray(STATE)
        if kept:
            predict = jax.jit(lambda weights, x: (weights, x @ weights), donate_argnums=0)
        else:
            predict = jax.jit(lambda weights, x: (None, x @ weights))
        answer: Any = None
        for _ in range(STEPS):
            passed, answer = predict(weights, STATE[:8])
            weights = passed if kept else weights
        return answer

    return program


def alternating(*, together: bool) -> Callable[[], Any]:
    def program() -> Any:
        first, second = jax.jit(lambda x: x + 1), jax.jit(lambda x: x * 3)
        both = jax.jit(lambda x: (x + 1) * 3)
        found: Any = np.float32(1)
        for _ in range(5):
            found = both(found) if together else second(first(found))
        return found

    return program


def initialising(*, together: bool) -> Callable[[], Any]:
    parts = [lambda x, k=k: x * k + k for k in range(3)]
    if together:
        return lambda: jax.jit(lambda x: [part(x) for part in parts])(np.float32(1))
    return lambda: [jax.jit(part)(np.float32(1)) for part in parts]


def counting(*, on_device: bool) -> Callable[[], Any]:
    """Short runs that the host dispatches one by one, or a loop of them."""

    def program() -> Any:
        loops = jax.jit(lambda x: jax.lax.fori_loop(0, 1000, lambda _, x: x * 1.5, x), donate_argnums=0)
        short = jax.jit(lambda x: x * 1.5, donate_argnums=0)
        found: Any = jnp.float32(1)
        if on_device:
            return loops(found)
        for _ in range(1000):
            found = short(found)
        return found

    return program


def on_every_ipu(*, ahead: bool) -> Callable[[], Any]:
    """The same work on each IPU, waited for after each dispatch or at the end."""

    def program() -> Any:
        work = jax.jit(lambda x: jax.lax.fori_loop(0, 300_000, lambda _, x: x * 1.5, x))
        found: list[Any] = []
        for device in jax.devices("ipu"):
            found.append(work(jax.device_put(np.float32(1), device)))
            if not ahead:
                found[-1].block_until_ready()
        return found

    return program


def shuffling(dtype: Any) -> Callable[[], Any]:
    """Rows that change tiles."""
    rows = np.arange(4096)[::-1].copy()
    return lambda: jax.jit(lambda x: jax.lax.fori_loop(0, 1000, lambda _, x: x[rows], x))(np.ones((4096, 512), dtype))


def summing(dtype: Any) -> Callable[[], Any]:
    """Gradients that all IPUs add up."""

    def body(x: Any) -> Any:
        return jax.lax.fori_loop(0, 250, lambda _, x: jax.lax.pmean(x, "data") * 0.5, x)

    def program() -> Any:
        mesh = Mesh(np.array(jax.devices("ipu")), ("data",))
        added = jax.jit(jax.shard_map(body, mesh=mesh, in_specs=P(), out_specs=P(), check_vma=False))
        return added(jax.device_put(np.ones((512, 512), dtype), NamedSharding(mesh, P())))

    return program


def summing_parts(count: int) -> Callable[[], Any]:
    """The same bytes between IPUs, in so many exchanges."""

    def body(x: Any) -> Any:
        return jax.lax.fori_loop(0, 1000, lambda _, x: jax.lax.map(lambda part: jax.lax.pmean(part, "data"), x), x)

    def program() -> Any:
        mesh = Mesh(np.array(jax.devices("ipu")), ("data",))
        added = jax.jit(jax.shard_map(body, mesh=mesh, in_specs=P(), out_specs=P(), check_vma=False))
        return added(jax.device_put(np.ones((count, 64 // count), np.float32), NamedSharding(mesh, P())))

    return program


def batches(size: int) -> Callable[[], Any]:
    """10,000 x 8 samples, in batches of a size."""
    steps = 8 * 10_000 // size
    return lambda: jax.jit(lambda x: jax.lax.fori_loop(0, steps, lambda _, x: x * 1.5, x))(np.ones((size, 16), np.float32))


def calling(times: int) -> Callable[[], Any]:
    def body(_: Any, x: Any) -> Any:
        io_callback(lambda _: None, None, x)
        return x * 2

    return lambda: jax.jit(lambda x: jax.lax.fori_loop(0, times, body, x))(np.ones(1000, np.float32))


def offloading(times: int) -> Callable[[], Any]:
    """A value in pinned_host that a program uses so many times."""

    def program() -> Any:
        away = jax.device_put(DATA, NamedSharding(Mesh(np.array(jax.devices("ipu")[:1]), ("x",)), P(), memory_kind="pinned_host"))

        def body(k: Any, x: Any) -> Any:
            part = jax.lax.dynamic_index_in_dim(away_argument[0], k, keepdims=False)
            return x + jax.device_put(part, jax.memory.Space.Device)

        away_argument: list[Any] = []

        def used(away: Any, x: Any) -> Any:
            away_argument[:] = [away]
            return jax.lax.fori_loop(0, times, body, x)

        return jax.jit(used)(away, np.ones(256, np.float32))

    return program


Case = tuple[Callable[[], Any], Callable[[], Any], str]
GOES: dict[str, Case] = {
    "own result": (
        training(donated=False),
        training(donated=True),
        r"streams state f32\[512,512\] in at every call \(1\.00 MiB each time\)",
    ),
    "same value": (predicting(kept=False), predicting(kept=True), r"with the same value: return it unchanged and donate it"),
    "switching": (alternating(together=False), alternating(together=True), r"switching reloads.*the same jitted function"),
    "several programs": (initialising(together=False), initialising(together=True), r"Each function is a program of its own"),
    "dispatching": (counting(on_device=False), counting(on_device=True), r"The host spends .* dispatching 1,001 runs.*do more in each run"),
    "waiting": (on_every_ipu(ahead=False), on_every_ipu(ahead=True), r"waits 7\d % of emulated time.*dispatch more before reading"),
}
QUICKER: dict[str, Case] = {  # what limits a program may still do so afterwards
    "exchange": (
        shuffling(np.float32),
        shuffling(np.float16),
        r"limited by exchange \(\d+ %\): move less between tiles \(.*smaller dtypes",
    ),
    "sync": (batches(8), batches(1000), r"limited by sync \(\d+ %\): its operations are too small \(a larger batch"),
    "exchange between IPUs": (
        summing(np.float32),
        summing(np.float16),
        r"exchange between IPUs \(9\d %\): send less between IPUs \(smaller dtypes",
    ),
    "sync between IPUs": (summing_parts(16), summing_parts(1), r"all-reduce, limited by sync \(\d+ %\): its exchanges are too small"),
    "host": (calling(100), calling(20), r"host call, limited by the host link \(100 %\): it stops for the host"),
    "pinned_host": (offloading(1000), offloading(100), r"pinned_host, limited by values in pinned_host .*use them less often"),
}


@pytest.mark.parametrize("name", [*GOES, *QUICKER])
def test_a_sentence_that_is_followed_saves_emulated_time(name: str) -> None:
    before, after, sentence = {**GOES, **QUICKER}[name]
    found, better = profiled(before), profiled(after)
    assert re.search(sentence, told(found)), told(found)
    assert better.emulated_cycles < found.emulated_cycles
    if name in GOES:
        assert not re.search(sentence, told(better)), told(better)


def test_a_program_that_is_loaded_once_pays_for_it_by_running_often() -> None:
    def program(times: int) -> Profile:
        double = jax.jit(lambda x: x * 2)
        return profiled(lambda: [double(np.float32(1)) for _ in range(times)])

    once, often = program(1), program(100)
    assert told(once).startswith("1 program load took 99 % of emulated time: a program is loaded once and pays for it by running often")
    assert often.emulated_cycles / 100 < once.emulated_cycles / 50


def test_donation_is_not_advised_to_a_program_that_is_evicted_between_runs() -> None:
    """Its state would be saved and restored instead of streamed."""
    streaming, donating = profiled(training(donated=False, evaluated=True)), profiled(training(donated=True, evaluated=True))
    assert donating.emulated_cycles > 0.99 * streaming.emulated_cycles
    assert of_kind(streaming, "donation") == of_kind(donating, "donation") == []
    [step, evaluation] = donating.programs
    assert (step.host_bytes_in, step.host_bytes_out, evaluation.host_bytes_out) == (4, 0, 4)
    assert (evaluation.host_bytes_saved, step.host_bytes_restored) == (STEPS * STATE.nbytes, (STEPS - 1) * STATE.nbytes)
    assert "  Values of evicted programs" not in streaming.summary()
    assert re.search(r"Values of evicted programs\n +program +loads +saved +restored\n +jit_loss +30 30\.0 MiB +0 B", donating.summary())


def test_donation_is_advised_for_the_runs_between_two_evictions() -> None:
    """Seven steps in a row after each evaluation: six of seven states would have stayed."""

    def program() -> Any:
        step, evaluate = jax.jit(partial(train)), jax.jit(partial(loss))
        state: Any = STATE
        for k in range(28):
            state = step(state, np.float32(1))
            if k % 7 == 6:
                evaluate(state, np.float32(1))
        return state

    [sentence] = of_kind(profiled(program), "donation")
    assert sentence.startswith(
        "jit_train streams state f32[512,512] in at every call (1.00 MiB each time) though it is its own earlier result"
    )


def test_donation_is_not_advised_for_what_is_used_again() -> None:
    """States that the program reads when the next ones are there: a donated one would be gone."""

    def program() -> Any:
        step = jax.jit(partial(train))
        states: list[Any] = [jnp.asarray(STATE)]
        for _ in range(STEPS):
            states.append(step(states[-1], np.float32(1)))
        return [np.asarray(state) for state in states]

    assert of_kind(profiled(program), "donation") == []


def test_donation_is_not_advised_of_an_array_that_is_two_arguments() -> None:
    def program() -> Any:
        both = jax.jit(lambda x, y: x * 0.5 + y)
        state: Any = jnp.asarray(STATE)
        for _ in range(STEPS):
            state = both(state, state)
        return state

    assert of_kind(profiled(program), "donation") == []


@pytest.mark.parametrize(
    "operation",
    [
        lambda x, k: x + 1,
        lambda x, k: jnp.clip(x, 0, 1),
        lambda x, k: jnp.where(x > 0, x, x + 1),
        lambda x, k: jax.random.split(jax.random.fold_in(x, k), 1)[0],
        lambda x, k: jnp.flip(x),
    ],
)
def test_donation_is_not_advised_to_what_runs_outside_of_jit(operation: Callable[[Any, int], Any]) -> None:
    """Nobody can donate the arguments of JAX's own operations and functions."""
    keyed = "random" in operation.__code__.co_names

    def program() -> Any:
        x: Any = jax.random.key(0) if keyed else jnp.asarray(STATE)
        for k in range(STEPS):
            x = operation(x, k)
        return x

    profile = profiled(program)
    assert {found.origin for found in profile.programs} == {"jax"}
    assert of_kind(profile, "donation") == []


def test_donation_is_not_advised_to_the_runtime_s_programs() -> None:
    """The stages of a pipeline get parameters from the host until they have been updated, for each microbatch."""
    stages = [lambda params, x: x @ params, lambda params, x: (x @ params).sum()]
    weights = [np.ones((256, 256), np.float32), np.ones((256, 256), np.float32)]
    pipeline = Pipeline(stages, optax.sgd(1e-3), 4, devices=jax.devices("ipu"), device_mapping=[0, 1])

    def program() -> Any:
        state = pipeline.init(weights)
        for _ in range(STEPS):
            state, _ = pipeline.step(state, np.ones((4, 8, 256), np.float32))
        return state.params

    profile = profiled(program)
    assert any(found.streamed_again for found in profile.programs if found.origin == "group")
    assert of_kind(profile, "donation") == []


def test_donation_is_not_advised_where_the_host_takes_all_of_the_time() -> None:
    """A short run is over before the next is dispatched, with donation or without."""

    def program(donated: tuple[int, ...]) -> Callable[[], Any]:
        def steps() -> Any:
            step = jax.jit(lambda x: x * 0.5, donate_argnums=donated)
            x: Any = np.ones(4096, np.float32)
            for _ in range(1000):
                x = step(x)
            return x

        return steps

    streaming, donating = profiled(program(())), profiled(program((0,)))
    assert streaming.programs[0].streamed_again
    assert streaming.emulated_cycles < 1.01 * donating.emulated_cycles
    assert of_kind(streaming, "donation") == []


def test_what_limits_supersteps_is_not_said_where_they_take_hardly_any_time() -> None:
    profile = profiled(lambda: jax.jit(lambda x: x + 1)(np.ones(10, np.float32)))
    assert 0 < profile.supersteps[0].total < 0.01 * profile.emulated_cycles
    assert of_kind(profile, "limit") == []
