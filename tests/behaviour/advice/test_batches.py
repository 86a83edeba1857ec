"""A larger batch is planned as the program that is really called with one, also where the batch has the size of something else."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.behaviour.advice.fault import dry, of_kind
from tilestep.advice import evidence_of
from tilestep.plan.steps import Program, Superstep, leaves
from tilestep.recording.edits.larger_dimension import enlarged
from tilestep.recording.sources import planned_again
from tilestep.train import InfeedQueue, repeat

V, H, T = 128, 64, 64
F32, S32 = np.float32, np.int32


class Model(NamedTuple):
    """A loss, the shapes of its parameters, and those of its batch."""

    loss: Callable[..., Any]
    params: tuple[tuple[int, ...], ...]
    batch: Callable[[int], tuple[tuple[tuple[int, ...], Any], ...]]


def attention(params: Any, tokens: Any, labels: Any) -> Any:
    table, w, o = params
    x = jnp.tanh(table[tokens].reshape(-1, H) @ w).reshape(*tokens.shape, H)
    a = jax.nn.softmax(jnp.einsum("bth,bsh->bts", x, x))
    logits = jnp.einsum("bts,bsh->bth", a, x) @ o
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), labels[..., None], -1).mean()


def layers(params: Any, x: Any) -> Any:
    for w in params:
        x = jnp.tanh(x @ w)
    return (x**2).mean()


def flattened(params: Any, x: Any) -> Any:
    return layers(params, x.reshape(-1, x.shape[-1]))


def in_time(params: Any, x: Any) -> Any:
    def step(state: Any, at: Any) -> tuple[Any, Any]:
        state = jnp.tanh(state @ params[0] + at @ params[1])
        return state, state

    return jax.lax.scan(step, jnp.zeros((x.shape[0], H)), x.swapaxes(0, 1))[1].sum()


def convolving(params: Any, x: Any) -> Any:
    kernel, w = params
    x = jax.lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    return (jax.nn.relu(x).reshape(x.shape[0], -1) @ w).sum()


MODELS = {
    "as long as layers are wide": Model(layers, ((H, H), (H, H)), lambda size: (((size, H), F32),)),
    "flattened with time": Model(flattened, ((H, H), (H, H)), lambda size: (((size, T, H), F32),)),
    "attention over time": Model(attention, ((V, H), (H, H), (H, V)), lambda size: (((size, T), S32), ((size, T), S32))),
    "recurrent": Model(in_time, ((H, H), (H, H)), lambda size: (((size, 10, H), F32),)),
    "convolution": Model(convolving, ((3, 3, 8, 16), (8 * 8 * 16, 10)), lambda size: (((size, 8, 8, 8), F32),)),
}


def program_of(model: Model, size: int, *, calls: int = 4, donated: bool = True) -> Callable[[], Any]:
    def step(params: Any, *batch: Any) -> Any:
        return jax.tree.map(lambda w, g: w - 1e-3 * g, params, jax.grad(model.loss)(params, *batch))

    def program() -> Any:
        jitted = jax.jit(step, donate_argnums=0 if donated else ())
        params: Any = [np.ones(shape, F32) for shape in model.params]
        for number in range(calls):
            params = jitted(params, *(np.full(shape, number, dtype) for shape, dtype in model.batch(size)))
        return params

    return program


def planned(program: Callable[[], Any], *, dims: dict[int, int] | None = None, factor: int = 2) -> Program:
    """The program that ran, with a larger dimension of arguments if it is asked for."""
    evidence = evidence_of(dry(program))
    assert evidence is not None
    [key] = {call.key for call in evidence.dispatches}
    if dims is None:
        return evidence.programs[key]
    return planned_again(
        evidence.sources[key], evidence.programs[key], evidence.machine, edit=lambda module: enlarged(module, dims, factor)
    )


def steps_of(program: Program) -> list[tuple[str, int, int, int]]:
    found = [leaf for leaf in leaves(program.body) if isinstance(leaf, Superstep)]
    return [(leaf.family, leaf.compute_cycles, leaf.exchange_cycles, leaf.sync_cycles) for leaf in found]


def sum_of(step: tuple[str, int, int, int]) -> int:
    return sum(step[1:])


@pytest.mark.parametrize(("name", "size"), [*((name, 8) for name in MODELS), ("attention over time", T)])
def test_a_larger_batch_is_the_program_that_is_called_with_one(name: str, size: int) -> None:
    model = MODELS[name]
    dims = {len(model.params) + k: 0 for k in range(len(model.batch(size)))}
    larger, real = planned(program_of(model, size), dims=dims), planned(program_of(model, 2 * size))
    if size == T:  # XLA arranges equal sizes otherwise
        assert larger.flops == pytest.approx(real.flops, rel=0.02)
        assert sum(map(sum_of, steps_of(larger))) == pytest.approx(sum(map(sum_of, steps_of(real))), rel=0.05)
    else:
        assert larger.flops == real.flops
        assert steps_of(larger) == steps_of(real)
    assert [argument.shape for argument in larger.arguments] == [argument.shape for argument in real.arguments]


@pytest.mark.parametrize("calls", [11, 100])
def test_all_together_save_no_less_of_a_step_than_one_of_them(calls: int) -> None:
    """Parameters that could be donated, and a thin batch: of 11 calls a larger one leaves too few to tell a step."""
    model = Model(layers, ((64, 512), (512, 512), (512, 10)), lambda size: (((size, 64), F32),))
    found = dry(program_of(model, 128, calls=calls, donated=False))
    assert found.together is not None
    alone = [found.findings[number - 1].gain for number in found.together.numbers]
    assert {finding.kind for finding in found.findings} >= {"donation", "products"}
    assert (found.together.gain.step_share is None) == (calls == 11)
    assert (found.together.gain.step_share or 1) >= max(gain.step_share or 0 for gain in alone if gain is not None)


def epochs(size: int, *, samples: int = 1024, calls: int = 12) -> Callable[[], Any]:
    """A loop on the device that is called once an epoch."""

    def body(params: Any, x: Any, y: Any) -> Any:
        def loss(params: Any) -> Any:
            hidden = x
            for w in params:
                hidden = jnp.tanh(hidden @ w)
            return ((hidden.sum(-1) - y) ** 2).mean()

        return jax.tree.map(lambda w, g: w - 1e-3 * g, params, jax.grad(loss)(params))

    def program() -> Any:
        params: Any = [np.ones((512, 512), F32)] * 3
        for call in range(calls):
            data = [(np.full((size, 512), call, F32), np.full(size, call, F32))] * (samples // size)
            with InfeedQueue(data) as queue:
                params = repeat(samples // size, body, params, queue)
        return params

    return program


@pytest.mark.parametrize("calls", [12, 3])
def test_a_larger_batch_of_a_loop_spares_no_calls(calls: int) -> None:
    """Each call goes on to bring as many bytes; only its trips become fewer. Three calls say as much of a step as twelve."""
    before = dry(epochs(64, calls=calls))
    [found] = [finding for finding in before.findings if "the batch of the loop over body" in finding.edit]
    size = int(found.edit.split("body ")[1].split(" samples")[0].replace(",", ""))
    after = dry(epochs(size, calls=calls))
    assert found.gain is not None
    assert found.gain.step_share is not None
    spent = [sum(of.cycles.total - of.cycles.load for of in profile.programs) for profile in (before, after)]
    made = 1 - spent[1] / spent[0]
    assert found.gain.step_share == pytest.approx(made, abs=0.05)


@pytest.mark.parametrize(
    ("function", "samples"), [(lambda x, w: x @ w, 32), (lambda x, w: (x @ w).sum(0), None), (lambda x, w: ((x @ w), w.T), None)]
)
def test_a_batch_that_comes_alone_has_items_if_all_results_have_its_rows(function: Callable[..., Any], samples: int | None) -> None:
    def program() -> Any:
        infer, w = jax.jit(function), jnp.ones((64, 48))
        return [infer(np.full((32, 64), number, F32), w) for number in range(12)]

    steady = dry(program).steady
    assert steady is not None
    assert steady.samples == samples


def test_a_loop_that_is_called_for_one_step_at_a_time_is_told_to_do_more() -> None:
    def body(w: Any, x: Any) -> Any:
        return jnp.tanh(w * x)

    def calling(steps: int) -> Callable[[], Any]:
        def program() -> Any:
            w: Any = np.ones((H, H), F32)
            with InfeedQueue([np.full(H, number, F32) for number in range(64)]) as queue:
                for _ in range(64 // steps):
                    w = repeat(steps, body, w, queue)
            return w

        return program

    before, after = dry(calling(1)), dry(calling(64))
    [found] = of_kind(before, "calls")
    assert found.edit == "do 64 steps of jit_repeat_body in each call (a larger n of repeat)"
    assert found.gain is not None
    assert found.gain.cycles == pytest.approx(before.emulated_cycles - after.emulated_cycles, rel=0.05)
    assert of_kind(dry(calling(8)), "calls") == []


def test_a_loop_is_told_to_do_no_more_steps_than_come_before_another_one() -> None:
    def train(w: Any, x: Any) -> Any:
        return jnp.tanh(w * x)

    def test(w: Any, x: Any) -> Any:
        return w + x

    def calling(steps: int) -> Callable[[], Any]:
        def program() -> Any:
            w: Any = np.ones((H, H), F32)
            with InfeedQueue([np.full(H, number, F32) for number in range(160)]) as queue:
                for last in (False, False, True):
                    for body in (train, test, test) if last else (train, test):
                        for _ in range(16 // (steps if body is test else 1)):
                            w = repeat(steps if body is test else 1, body, w, queue)
            return w

        return program

    before, after = dry(calling(1)), dry(calling(16))
    [found] = of_kind(before, "calls")
    assert found.edit == "do 16 steps of jit_repeat_test in each call (a larger n of repeat)"
    assert found.gain is not None
    assert found.gain.cycles == pytest.approx(before.emulated_cycles - after.emulated_cycles, rel=0.1)
