"""Gains of fewer loads, and of a host that does not hold the IPU up."""

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from tests.behaviour.advice.fault import Fault, check, dry, first_of, of_kind, profiled
from tilestep.train import Pipeline, repeat

STEPS = 30
STATE = np.ones((512, 512), np.float32)


def train(state: Any, batch: Any) -> Any:
    return state * 0.5 + batch


def loss(state: Any, batch: Any) -> Any:
    return (state * batch).sum()


def alternating(*, together: bool) -> Callable[[], Any]:
    def program() -> Any:
        first, second = jax.jit(lambda x: x + 1), jax.jit(lambda x: x * 3)
        both = jax.jit(lambda x: (x + 1) * 3)
        found: Any = np.float32(1)
        for _ in range(5):
            found = both(found) if together else second(first(found))
        return found

    return program


def evaluating(*, where: str) -> Callable[[], Any]:
    """Steps on a state that goes round, with an evaluation of it after each: by a program of its own, on the CPU, in the step."""

    def program() -> Any:
        step, evaluate = jax.jit(partial(train), donate_argnums=0), jax.jit(partial(loss))
        both = jax.jit(lambda state, batch: (train(state, batch), loss(state, batch)), donate_argnums=0)
        state: Any = STATE
        found: Any = None
        for _ in range(STEPS):
            if where == "step":
                state, found = both(state, np.float32(1))
                continue
            state = step(state, np.float32(1))
            with jax.default_device(jax.devices(where)[0]):
                found = evaluate(state, np.float32(1))
        return state, found

    return program


def drawing(where: str) -> Callable[[], Any]:
    """Weights that a function of their own makes, on the IPU or on the CPU."""

    def program() -> Any:
        draw = jax.jit(lambda key: jax.random.normal(jax.random.wrap_key_data(key), (512, 512)))
        step = jax.jit(partial(train), donate_argnums=0)
        with jax.default_device(jax.devices(where)[0]):
            state = draw(np.zeros(2, np.uint32))
        for _ in range(STEPS):
            state = step(state, np.float32(1))
        return state

    return program


def short_batches(last: int) -> Callable[[], Any]:
    def program() -> Any:
        step = jax.jit(lambda state, x: state * 0.5 + x.mean())
        state: Any = np.ones(16, np.float32)
        for _ in range(5):
            for size in (128, 128, last):
                state = step(state, np.ones((size, 64), np.float32))
        return state

    return program


def outside_of_jit(where: str) -> Callable[[], Any]:
    def init() -> Any:
        return [jnp.zeros((8, k)) * 2 for k in range(1, 6)]

    def program() -> Any:
        with jax.default_device(jax.devices("cpu" if where == "cpu" else "ipu")[0]):
            arrays = jax.jit(init)() if where == "jit" else init()
        return jax.jit(lambda arrays: sum(array.sum() for array in arrays))(arrays)

    return program


def sampling(*, inside: bool) -> Callable[[], Any]:
    """A walk whose key is split beside each step, or within it."""

    def program() -> Any:
        step = jax.jit(lambda key, x: x + jax.random.normal(key, x.shape))

        @jax.jit
        def whole(key: Any, x: Any) -> Any:
            key, sub = jax.random.split(key)
            return key, x + jax.random.normal(sub, x.shape)

        key, x, found = np.zeros(2, np.uint32), np.zeros(8, np.float32), []
        for _ in range(12):
            if inside:
                key, x = whole(key, x)
            else:
                key, sub = jax.random.split(key)
                x = step(sub, x)
            found.append(np.asarray(x))
        return found

    return program


def counting(*, on_device: bool) -> Callable[[], Any]:
    def program() -> Any:
        loops = jax.jit(lambda x: jax.lax.fori_loop(0, 1000, lambda _, x: x * 1.5, x), donate_argnums=0)
        short = jax.jit(lambda x: x * 1.5, donate_argnums=0)
        found: Any = jax.device_put(np.float32(1), jax.devices("ipu")[0])
        if on_device:
            for _ in range(5):
                found = loops(found)
            return found
        for _ in range(5000):
            found = short(found)
        return found

    return program


def watched(*, late: bool) -> Callable[[], Any]:
    """Steps whose losses the host reads one by one, or after the loop."""

    def program() -> Any:
        step = jax.jit(lambda x: (jax.lax.fori_loop(0, 200, lambda _, x: x * 1.01, x), x.sum()), donate_argnums=0)
        state: Any = np.ones(512, np.float32)
        losses: list[Any] = []
        for _ in range(400):
            state, value = step(state)
            losses.append(value if late else float(value))
        return state, [float(value) for value in losses]

    return program


def handed_on(*, ahead: bool) -> Callable[[], Any]:
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


def averaging(where: str) -> Callable[[], Any]:
    """A pipeline of two replicas, whose losses are averaged on the IPUs between its steps or by NumPy."""

    def program() -> Any:
        stages = [lambda w, x: jnp.tanh(x @ w), lambda w, x: (x @ w).mean()]
        pipeline = Pipeline(stages, optax.sgd(0.1), 4, devices=jax.devices("ipu"), replicas=2)
        state, found = pipeline.init([np.eye(8, dtype=np.float32)] * 2), []
        for _ in range(6):
            state, losses = pipeline.step(state, np.ones((4, 2, 4, 8), np.float32))
            found.append(float(losses.mean() if where == "ipu" else np.asarray(losses).mean()))
        return found

    return program


FAULTS = {
    "losses averaged outside of jit": Fault(
        "loads",
        r"^read what jit__mean takes \(jax.device_get\), and run it under jax.default_device\(jax.devices\('cpu'\)",
        averaging("ipu"),
        averaging("cpu"),
        0.1,
        says=r"jit__mean is a program of its own",
    ),
    "two functions by turns": Fault(
        "loads",
        "into one jitted function",
        alternating(together=False),
        alternating(together=True),
        0.25,
        says=r"switching reloads.*Put them into one jitted function",
    ),
    "an evaluation by turns": Fault("loads", "into one jitted function", evaluating(where="ipu"), evaluating(where="step"), 0.25),
    "a smaller last batch": Fault(
        "loads",
        "^pad x of jit__lambda$",
        short_batches(30),
        short_batches(128),
        0,
        says=r"jit__lambda is 2 programs, because its argument x was f32\[128,64\] and f32\[30,64\]: pad .* or drop the smaller batch",
    ),
    "single operations": Fault(
        "loads",
        r"^put 11 programs of single operations into one jitted function$",
        outside_of_jit("ipu"),
        outside_of_jit("jit"),
        0.25,
        says=r"operations outside of jit: each is .*, 11 programs in \d+ calls \(jit_\w+, .*into one jitted function, or run them",
    ),
    "a key that is split beside a step": Fault(
        "loads",
        r"^put jit__lambda, .*jit__threefry_split.* into one jitted function$",
        sampling(inside=False),
        sampling(inside=True),
        0.25,
        says=r"jit__threefry_split.* run between the runs of jit__lambda: each turn loads them all\.",
    ),
    "short runs": Fault(
        "idle",
        "^loop over jit__lambda on the IPU",
        counting(on_device=False),
        counting(on_device=True),
        0.25,
        says=r"The host spends .* dispatching 5,000 runs.*do more in each run",
    ),
    "losses that are read at once": Fault("idle", "^read results after the last call$", watched(late=False), watched(late=True), 0),
    "an IPU after the other": Fault(
        "idle",
        "^read results after the last call$",
        handed_on(ahead=False),
        handed_on(ahead=True),
        0,
        "replayed",
        says=r"waits 7\d % of emulated time.*dispatch more before reading",
    ),
}


@pytest.mark.few(5)
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found_first_and_worth_what_was_promised(name: str) -> None:
    check(FAULTS[name])


def test_a_function_that_repeat_gets_anew_at_each_call_is_found_and_worth_what_was_promised() -> None:
    def program(*, anew: bool) -> Callable[[], Any]:
        def run() -> Any:
            w: Any = np.ones((64, 64), np.float32)
            body = lambda w: jnp.tanh(w) * 0.5  # noqa: E731
            for _ in range(8):
                w = repeat(4, (lambda w: jnp.tanh(w) * 0.5) if anew else body, w)
            return w

        return run

    before, after = dry(program(anew=True)), dry(program(anew=False))
    [found] = of_kind(before, "loads")
    assert found.edit == "give repeat the same function at each call"
    assert "the loop over lambda is 8 programs of equal code" in found.text
    assert found.gain is not None
    assert found.gain.cycles == pytest.approx(before.emulated_cycles - after.emulated_cycles, rel=0.02)
    assert of_kind(after, "loads") == []


@pytest.mark.parametrize("learns", [12, 3], ids=["rarely", "often"])
def test_a_function_that_is_rarely_loaded_stays_apart(learns: int) -> None:
    """What acts 36 times and learns after each 12th need not be one function with it, unless that is as often; what begins is one, too."""

    def program() -> Any:
        act, learn = jax.jit(lambda w, key: jax.random.normal(key, (8,)) * w), jax.jit(lambda w, x: w - 0.1 * x)
        w, key = jnp.ones(8) * 2 + 1, np.zeros(2, np.uint32)
        for turn in range(1, 37):
            key, sub = jax.random.split(key)
            x = np.asarray(act(w, sub))
            if turn % learns == 0:
                w = learn(w, x)
        return w

    told = profiled(program)
    edits = [finding.edit for finding in of_kind(told, "loads")]
    joint = r"put jit__lambda #\d+, jit__lambda #\d+, " if learns == 3 else r"put jit__lambda #\d+, jit__threefry_split"
    assert re.match(joint + r".* into one jitted function$", edits[0]), edits
    assert [edit for edit in edits if re.match(r"run \d programs of single operations", edit)], edits
    assert told.together is not None
    assert told.together.gain.share > 0.9


def test_an_evaluation_on_the_cpu_is_another_way_out() -> None:
    assert of_kind(profiled(evaluating(where="cpu")), "loads") == []


def test_what_stands_in_a_loop_is_told_to_be_its_body() -> None:
    def descends() -> Any:
        w = jnp.ones(8)
        for _ in range(12):
            gradient = w * 2.0
            w = w - gradient
        return w

    assert "such as the body of a loop, into one" in first_of(profiled(descends)).text
    assert "such as a model's initialisation, into one" in first_of(profiled(outside_of_jit("ipu"))).text


def spread(state: Any) -> Any:
    centred = state - jnp.mean(state)
    return jnp.sqrt(jnp.mean(centred * centred))


def printed_spread(state: Any) -> Any:
    print(jnp.mean(state))
    return jnp.sqrt(jnp.mean(jnp.square(state - jnp.mean(state))))


@pytest.mark.parametrize(
    ("function", "told"), [(spread, True), (printed_spread, False), (jax.jit(spread), False)], ids=["pure", "prints", "jitted"]
)
def test_a_function_that_no_jit_is_around_is_named(function: Callable[[Any], Any], told: bool) -> None:
    def program() -> Any:
        state: Any = jax.device_put(np.ones((64, 64), np.float32), jax.devices("ipu")[0])
        step = jax.jit(jnp.tanh)
        for _ in range(4):
            state = step(state)
            function(state * 2 + 1)
        return state

    said = re.compile(r" spread \(test_loads\.py:\d+\) runs \d\d % of them outside of jit: jax\.jit\(spread\)\.$")
    assert any(said.search(finding.text) for finding in of_kind(profiled(program), "loads")) == told


@pytest.mark.parametrize("divided", [False, True])
def test_a_state_that_is_made_without_its_sharding_is_named(divided: bool, ipus: list[jax.Device]) -> None:
    mesh = Mesh(np.array(ipus), ("data",))
    parts = NamedSharding(mesh, PartitionSpec("data"))
    make = jax.jit(lambda: jnp.ones((64, 8)), out_shardings=parts)
    start = jax.jit(lambda: jnp.zeros((64, 8)), out_shardings=parts if divided else None)

    def step(weights: Any, momentum: Any) -> Any:
        momentum = jax.lax.with_sharding_constraint(0.9 * momentum + jnp.tanh(weights), parts)
        return weights - 0.1 * momentum, momentum

    def program() -> Any:
        jitted = jax.jit(step, donate_argnums=(0, 1))
        state = make(), start()
        for _ in range(8):
            state = jitted(*state)
        return state

    told = " ".join(finding.text for finding in of_kind(profiled(program), "loads"))
    assert ("momentum came first without the sharding that it has later" in told) == (not divided)
    assert "weights came first" not in told
    assert (" divides arrays: have them made divided (out_shardings of what makes them" in told) == (not divided)


def test_other_shapes_and_static_arguments_are_one_edit_and_worth_what_was_promised() -> None:
    def program(*, one: bool) -> Callable[[], Any]:
        def run() -> Any:
            step = jax.jit(lambda w, x, rate: w - rate * jnp.tanh(x @ w).sum(), static_argnums=() if one else 2)
            w: Any = np.ones((64, 64), np.float32)
            for number in range(24):
                rate, size = 0.5 ** (number // 8), 32 if one or number % 2 else 24
                w = step(w, np.full((size, 64), number, np.float32), np.float32(rate) if one else rate)
            return w

        return run

    before, after = profiled(program(one=False)), profiled(program(one=True))
    [found] = of_kind(before, "loads")
    assert found.edit.startswith("pad x of jit__lambda, with arrays in place of static arguments")
    assert found.text.count("each new value of a static argument") == 1
    assert "Put them into one jitted function" not in found.text
    assert found.gain is not None
    assert found.gain.cycles == pytest.approx(before.emulated_cycles - after.emulated_cycles, rel=0.05)


@pytest.mark.parametrize("summed", [False, True])
def test_padding_needs_a_mask_where_results_sum_over_it(summed: bool) -> None:
    def program() -> Any:
        predict = jax.jit(lambda x: jnp.tanh(x).mean() if summed else jnp.tanh(x).mean(1))
        return [predict(np.full((size, 64), size, np.float32)) for _ in range(5) for size in (128, 128, 30)]

    [found] = of_kind(profiled(program), "loads")
    mask = " (with a mask, because its results sum over what would be padded)"
    assert f"pad to one shape{mask if summed else ''}, or make" in found.text


def test_no_function_that_the_user_jits_is_told_to_leave_the_ipu() -> None:
    """Neither what draws weights, nor an evaluation, nor a smaller batch."""

    def program() -> Any:
        draw = jax.jit(lambda seed: jnp.ones((64, 64)) * seed)
        train = jax.jit(lambda w, x: w - 0.1 * jnp.tanh(x @ w).mean(), donate_argnums=0)
        w = draw(np.float32(0.1))
        for size in (32, 32, 12) * 3:
            w = train(w, np.ones((size, 64), np.float32))
        return w

    for told in (profiled(program), profiled(evaluating(where="ipu")), profiled(alternating(together=False))):
        edits = [edit for found in told.findings for edit in (found.text, found.edit, *(other.edit for other in found.others))]
        assert not [edit for edit in edits if "default_device" in edit]
    [found] = of_kind(profiled(program), "loads")
    assert found.edit == "pad x of jit__lambda"


@pytest.mark.parametrize(("by_hand", "every"), [(True, 1), (False, 1), (True, 4)])
def test_a_step_that_only_single_operations_evict_is_not_said_to_switch(by_hand: bool, every: int) -> None:
    """What makes it load again is told, and goes with it. Another function of the user's stays, and takes its place as before."""

    def program() -> Any:
        step, mean = jax.jit(train, donate_argnums=0), jax.jit(lambda x: x.mean())
        state: Any = STATE
        for number in range(6 * every):
            state = step(state, np.float32(1))
            if number % every == 0:
                float((jnp.mean if by_hand else mean)(state @ state.T if every > 1 else state))
        return state

    told = of_kind(profiled(program), "loads")
    assert [finding for finding in told if "switching reloads" in finding.text] == ([] if by_hand else told)
    assert [finding for finding in told if "single operations" in finding.text] == (told if by_hand else [])
    assert [finding for finding in told if "(jax.device_get)" in finding.text] == (told if by_hand and every == 1 else [])
    assert told


def test_the_copy_of_a_number_is_not_said_to_be_one_of_an_array() -> None:
    def program(x: Any) -> Callable[[], Any]:
        return lambda: jax.random.normal(jax.random.key(0), (64, 64)) + jnp.asarray(x)

    of_a_number, of_an_array = (str(of_kind(profiled(program(x)), "loads")) for x in (1.0, np.ones((64, 64), np.float32)))
    assert "of an array of the host" not in of_a_number
    assert "of an array of the host" in of_an_array


def test_functions_that_are_loaded_once_are_not_told_to_be_one() -> None:
    """Nobody can act on the first load of what runs once."""
    assert of_kind(profiled(drawing("ipu")), "loads") == []


def test_functions_of_one_name_are_told_to_be_made_once_but_not_to_have_one_shape() -> None:
    def program() -> Any:
        first, second = jax.jit(lambda x: x + 1), jax.jit(lambda x: x * 2)
        return [(first(np.ones(8, np.float32)), second(np.ones(4, np.float32))) for _ in range(5)]

    profile = profiled(program)
    assert profile.reshaped == ()
    assert not [finding for finding in profile.findings if "programs, because" in finding.text]
    again = profiled(lambda: [jax.jit(lambda x, k=k: x * k + k)(np.float32(1)) for k in range(3)])
    sentence = r"jit__lambda is 3 programs, though its arguments have equal shapes: .* a new jit makes another one"
    assert any(re.search(sentence, finding.text) for finding in again.findings), again.summary()


def test_no_line_that_runs_a_jitted_function_or_yields_is_told_to_go_to_the_cpu() -> None:
    """A context around its statement would take the user's function along, or stay on while others run. Products stay, too."""

    def program(*, apart: bool, yields: bool = False, multiplies: bool = False) -> Callable[[], Any]:
        step = jax.jit(lambda w, x: w * 0.5 + x, donate_argnums=0)
        data = np.ones((8, 128), np.float32)

        def loaded() -> Any:
            for number in range(8):
                if yields:
                    yield jnp.sin(data + number)
                else:
                    x = jnp.matmul(data, data.T + number) if multiplies else jnp.sin(data + number)
                    yield x

        def run() -> Any:
            w: Any = np.ones((8, 8 if multiplies else 128), np.float32)
            for x in loaded() if yields or apart else range(8):
                w = step(w, x) if yields or apart else step(w, jnp.sin(data + x))
            return w

        return run

    for told, goes in (
        (program(apart=True), True),
        (program(apart=False), False),
        (program(apart=False, yields=True), False),
        (program(apart=True, multiplies=True), False),
    ):
        found = of_kind(profiled(told), "loads")
        texts = [text for each in found for text in (each.text, each.edit, *(other.edit for other in each.others))]
        assert any("default_device" in text for text in texts) == goes


def test_a_step_is_of_what_loads_again_and_again_where_that_takes_longest() -> None:
    """Training ends before samples are drawn, one by one. The warm step of the training is not what the rest is measured in."""

    def program() -> Any:
        step, logits = jax.jit(lambda w, x: w - 1e-3 * (x @ w), donate_argnums=0), jax.jit(lambda w, x: x @ w)
        w: Any = np.eye(64, dtype=np.float32)
        for number in range(30):
            w = step(w, np.full((64, 64), number, np.float32))
        x: Any = np.ones((1, 64), np.float32)
        for _ in range(10):
            x = np.asarray(jnp.tanh(logits(w, x)))
        return x

    profile = profiled(program)
    assert profile.steady is None
    assert profile.findings[0].edit.startswith("put jit__lambda"), profile.summary()
    assert [finding.kind for finding in profile.findings].count("loads") == 1
