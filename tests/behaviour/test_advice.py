"""Each sentence of "What to do", followed: the emulated machine is quicker afterwards. Where it would not be, the sentence stays away."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext
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
from tilestep.train import Pipeline, repeat

STEPS = 30
STATE = np.ones((512, 512), np.float32)
DATA = np.ones((4096, 256), np.float32)


@pytest.fixture(autouse=True)
def default_ipu(ipu: jax.Device) -> Any:
    with jax.default_device(ipu):
        yield


def profiled(program: Callable[[], object], *, dry: bool = False) -> Profile:
    """The profile of a program. Args: dry: without values, which would take seconds."""
    with tilestep.profile() as recording, tilestep.dry_run() if dry else nullcontext():
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


def evaluating(*, on_cpu: bool) -> Callable[[], Any]:
    """Steps on a state that goes round, with an evaluation on the IPU or on the CPU after each."""

    def program() -> Any:
        step, evaluate = jax.jit(partial(train), donate_argnums=0), jax.jit(partial(loss))
        state: Any = STATE
        for _ in range(STEPS):
            state = step(state, np.float32(1))
            with jax.default_device(jax.devices("cpu")[0] if on_cpu else jax.devices("ipu")[0]):
                evaluate(state, np.float32(1))
        return state

    return program


def started(where: str) -> Callable[[], Any]:
    """Training on weights that a jitted function has made: on the IPU, in a block of which CPU is the default, or jitted for the CPU."""

    def normal(key: Any) -> Any:
        return jax.random.normal(jax.random.wrap_key_data(key), (512, 512))

    def free() -> Any:
        return jax.jit(lambda key: normal(key))

    def program() -> Any:
        draw = jax.jit(normal, backend="cpu") if where == "jit" else free()
        step = jax.jit(partial(train), donate_argnums=0)
        with jax.default_device(jax.devices("cpu" if where == "default_device" else "ipu")[0]):
            state = draw(np.zeros(2, np.uint32))
        for _ in range(STEPS):
            state = step(state, np.float32(1))
        return state

    return program


def short_batches(last: str) -> Callable[[], Any]:
    """Epochs whose last batch is smaller, filled up, or left out."""

    def program() -> Any:
        step = jax.jit(lambda state, x: state * 0.5 + x.mean())
        state: Any = np.ones(16, np.float32)
        for _ in range(5):
            for size in (128, 128, {"smaller": 30, "padded": 128, "dropped": 0}[last]):
                state = step(state, np.ones((size, 64), np.float32)) if size else state
        return state

    return program


def outside_of_jit(where: str) -> Callable[[], Any]:
    """A model's initialisation by single operations, or jitted, or by single operations on the CPU."""

    def init() -> Any:
        return [jnp.zeros((8, k)) * 2 for k in range(1, 6)]

    def program() -> Any:
        with jax.default_device(jax.devices("cpu" if where == "cpu" else "ipu")[0]):
            arrays = jax.jit(init)() if where == "jit" else init()
        return jax.jit(lambda arrays: sum(array.sum() for array in arrays))(arrays)

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
ON_CPU = r"functions under jax\.default_device\(jax\.devices\('cpu'\)\[0\]\)"
SMALLER_BATCH = r"jit__lambda is 2 programs, because its argument x was f32\[128,64\] and f32\[30,64\]: pad .* or drop the smaller batch"
SINGLE_OPERATIONS = r"operations outside of jit: each is .*, 11 programs in \d+ calls \(jit_\w+, .*into one jitted function, or run them"
GOES: dict[str, Case] = {
    "own result": (
        training(donated=False),
        training(donated=True),
        r"streams state f32\[512,512\] in at every call \(1\.00 MiB each time\)",
    ),
    "same value": (predicting(kept=False), predicting(kept=True), r"with the same value: return it unchanged and donate it"),
    "switching": (alternating(together=False), alternating(together=True), r"switching reloads.*Put them into one jitted function"),
    "switching, with one of them on cpu": (evaluating(on_cpu=False), evaluating(on_cpu=True), rf"switching reloads.*short {ON_CPU}"),
    "several programs": (
        initialising(together=False),
        initialising(together=True),
        r"jit__lambda is 3 programs, though its arguments have equal shapes: .* a new jit makes another one",
    ),
    "several programs, with one on cpu": (started("ipu"), started("default_device"), rf"a program of its own\. Run short {ON_CPU}"),
    "a smaller batch, padded": (short_batches("smaller"), short_batches("padded"), SMALLER_BATCH),
    "a smaller batch, dropped": (short_batches("smaller"), short_batches("dropped"), SMALLER_BATCH),
    "single operations, jitted": (outside_of_jit("ipu"), outside_of_jit("jit"), SINGLE_OPERATIONS),
    "single operations, on cpu": (outside_of_jit("ipu"), outside_of_jit("cpu"), SINGLE_OPERATIONS),
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


DRY = ("exchange", "exchange between IPUs", "sync between IPUs")  # loops over large arrays; a dry run takes the same emulated time


@pytest.mark.parametrize("name", [*GOES, *QUICKER])
def test_a_sentence_that_is_followed_saves_emulated_time(name: str) -> None:
    before, after, sentence = {**GOES, **QUICKER}[name]
    found, better = (profiled(program, dry=name in DRY) for program in (before, after))
    assert re.search(sentence, told(found)), told(found)
    assert better.emulated_cycles < found.emulated_cycles
    if name in GOES:
        assert not re.search(sentence, told(better)), told(better)


def test_weights_that_were_made_under_a_default_device_are_trained_on_the_ipu() -> None:
    """The advice is not to jit for the CPU: its results are committed to it, and all steps that take them run there."""
    assert [found.runs for found in profiled(started("default_device")).programs] == [STEPS]
    with pytest.warns(DeprecationWarning, match="backend and device argument on jit"):
        assert profiled(started("jit")).programs == ()


def test_a_state_that_is_committed_to_the_ipu_is_copied_to_the_cpu_that_evaluates_it() -> None:
    """What the how-to page on performance adds to the advice."""

    def program(*, copied: bool) -> Profile:
        cpu, ipu = jax.devices("cpu")[0], jax.devices("ipu")[0]
        step, evaluate = jax.jit(partial(train), donate_argnums=0), jax.jit(partial(loss))

        def steps() -> Any:
            state: Any = jax.device_put(STATE, ipu)
            for _ in range(STEPS):
                state = step(state, np.float32(1))
                with jax.default_device(cpu):
                    evaluate(jax.device_put(state, cpu) if copied else state, np.float32(1))
            return state

        return profiled(steps)

    committed, copied = program(copied=False), program(copied=True)
    assert [found.runs for found in committed.programs] == [STEPS, STEPS]
    assert [found.runs for found in copied.programs] == [STEPS]
    assert copied.emulated_cycles < committed.emulated_cycles


def test_functions_of_one_name_are_not_told_to_have_one_shape() -> None:
    def program() -> Any:
        first, second = jax.jit(lambda x: x + 1), jax.jit(lambda x: x * 2)
        return [(first(np.ones(8, np.float32)), second(np.ones(4, np.float32))) for _ in range(5)]

    assert profiled(program).reshaped == ()
    assert "programs, because" not in told(profiled(program))


def test_a_loop_is_named_by_its_group() -> None:
    def program(steps: int) -> Profile:
        return profiled(lambda: repeat(steps, lambda w: jnp.tanh(w @ w), np.ones((64, 64), np.float32)), dry=True)

    few, many = program(100), program(100_000)
    [text] = of_kind(few, "fixed")
    assert re.search(
        r"a program is loaded once and pays for it by running often; the loop over .* with jit_repeat_lambda and 1 more ran", text
    )
    assert of_kind(many, "fixed") == []


def test_an_ipu_that_nothing_uses_is_not_told_of_on_the_default_machine() -> None:
    profile = profiled(short_batches("dropped"))
    assert (profile.num_ipus_used, profile.machine.num_ipus) == (1, 4)
    assert of_kind(profile, "unused") == []


def test_dividing_arrays_over_ipus_that_were_asked_for_saves_emulated_time() -> None:
    """In a process of its own, because a machine is chosen once."""
    code = """
import jax, numpy as np, tilestep
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
from tilestep.report import findings
for count in (1, 16):
    mesh = Mesh(np.array(jax.devices("ipu")[:count]), ("x",))
    with tilestep.profile() as profile, tilestep.dry_run():
        x = jax.device_put(np.ones((4096, 512), np.float16), NamedSharding(mesh, P("x")))
        w = jax.device_put(np.ones((512, 512), np.float16), NamedSharding(mesh, P()))
        jax.block_until_ready(jax.jit(lambda w, x: jax.lax.fori_loop(0, 20000, lambda _, x: x @ w, x))(w, x))
    [*_, last] = findings(profile.profile)
    print(profile.emulated_cycles, last.kind == "unused", last.text)
"""
    environ = {**os.environ, "JAX_PLATFORMS": "cpu,ipu", "JAX_IPU_DEVICE_COUNT": "16"}
    out = subprocess.run([sys.executable, "-c", code], env=environ, check=True, capture_output=True, text=True).stdout.splitlines()
    [(one, told_so, text), (all_of_them, told_again, _)] = [line.split(" ", 2) for line in out]
    assert (told_so, told_again) == ("True", "False")
    assert text.startswith("1 of 16 IPUs was used. Divide arrays over all of them (jax.sharding)")
    assert int(all_of_them) < int(one)


def descending(*, donated: bool, recomputed: bool, divided: bool, batch: int = 2048) -> Profile:
    """A step on parameters, in a dry run."""

    def layer(x: Any, w: Any) -> tuple[Any, None]:
        return jnp.tanh(x @ w), None

    def step(params: Any, x: Any) -> Any:
        used = jax.checkpoint(layer) if recomputed else layer  # pyright: ignore[reportPrivateImportUsage]
        gradients = jax.grad(lambda params: (jax.lax.scan(used, x, params)[0] ** 2).sum())(params)
        return jax.tree.map(lambda w, g: w - 1e-3 * g, params, gradients)

    with tilestep.profile() as recording, tilestep.dry_run():
        mesh = Mesh(np.array(jax.devices("ipu")[: 4 if divided else 1]), ("x",))
        params = jax.device_put(np.ones((16, 1024, 1024), np.float32), NamedSharding(mesh, P(None, None, "x")))
        x = jax.device_put(np.ones((batch, 1024), np.float32), NamedSharding(mesh, P("x")))
        jax.block_until_ready(jax.jit(step, donate_argnums=(0,) if donated else ())(params, x))
    return recording.profile


def test_what_does_not_fit_is_told_what_is_not_done_yet_and_that_helps() -> None:
    nothing = {"donated": False, "recomputed": False, "divided": False}
    before = descending(**nothing)
    [text] = of_kind(before, "memory")
    assert "in a dry run this is no error" in text
    ways_out = {
        "donated": "donated arguments (donate_argnums: params)",
        "recomputed": "jax.checkpoint",
        "divided": "arrays divided over the machine's 4 IPUs (shardings)",
    }
    for done, way_out in ways_out.items():
        after = descending(**{**nothing, done: True})
        assert way_out in text
        assert way_out not in "".join(of_kind(after, "memory"))
        assert after.programs[0].peak_tile_bytes < before.programs[0].peak_tile_bytes
    assert "a smaller batch" in text
    assert descending(**nothing, batch=1024).programs[0].peak_tile_bytes < before.programs[0].peak_tile_bytes


def test_an_operation_outside_of_jit_that_does_not_fit_fits_in_the_function_that_uses_it() -> None:
    def made(*, inside: bool) -> Profile:
        with tilestep.profile() as recording, tilestep.dry_run():
            if inside:
                jax.block_until_ready(jax.jit(lambda: jnp.zeros((20_000, 20_000)).sum())())
            else:
                jax.block_until_ready(jax.jit(lambda x: x.sum())(jnp.zeros((20_000, 20_000))))
        return recording.profile

    outside = of_kind(made(inside=False), "memory")
    assert outside[-1].startswith("program jit_broadcast_in_dim, a single operation outside of jit at test_advice.py:")
    assert of_kind(made(inside=True), "memory") == []


def test_an_operation_outside_of_jit_that_nearly_fills_its_tiles_is_not_told_of() -> None:
    with tilestep.profile() as recording, tilestep.dry_run():
        jnp.zeros((24, 2048, 8192), jnp.float16)
    [_, made] = recording.profile.programs
    assert 0.85 * recording.profile.machine.tile_sram_bytes < made.peak_tile_bytes < recording.profile.machine.tile_sram_bytes
    assert of_kind(recording.profile, "memory") == []


def test_a_program_that_is_loaded_once_pays_for_it_by_running_often() -> None:
    def program(times: int) -> Profile:
        double = jax.jit(lambda x: x * 2)
        return profiled(lambda: [double(np.float32(1)) for _ in range(times)])

    once, often = program(1), program(100)
    sentence = r"1 program load took (99|100) % of emulated time: a program is loaded once and pays for it by running often"
    assert re.match(sentence, told(once)), told(once)
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
