"""Gains of other steps: larger batches, smaller dtypes, values in the tiles, fewer exchanges between IPUs."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from tests.behaviour.advice.fault import Fault, check, dry, of_kind, profiled

WEIGHTS = np.ones((512, 512), np.float32)
SAMPLES = 12800


def deep(weights: Any, x: Any) -> Any:
    return jax.lax.scan(lambda x, w: (jnp.tanh(x @ w), None), x, weights)[0]


def batches(size: int, *, products: bool = True) -> Callable[[], Any]:
    """Training on the same samples, in batches of a size."""

    def step(weights: Any, x: Any) -> Any:
        if not products:
            return jax.lax.fori_loop(0, 500, lambda _, w: w + 1e-3 * jnp.tanh(x * w).mean(), weights)
        gradient = jax.grad(lambda weights: (deep(weights, x) ** 2).sum())(weights)
        return weights - 1e-3 * gradient

    def program() -> Any:
        jitted = jax.jit(step, donate_argnums=0)
        weights: Any = np.ones((24, 512, 512), np.float32) if products else np.ones((64,), np.float32)
        for number in range(SAMPLES // size):  # each is another batch
            weights = jitted(weights, np.full((size, 512 if products else 64), number, np.float32))
        return weights

    return program


def multiplying(dtype: Any, sums: str = "float") -> Callable[[], Any]:
    """A network whose parameters are float32, and that computes in a dtype."""

    def predict(weights: Any, x: Any) -> Any:
        return jax.lax.fori_loop(0, 200, lambda _, x: deep(weights.astype(dtype), x), x.astype(dtype)).sum()

    def program() -> Any:
        jitted = jax.jit(predict, compiler_options={"ipu_partials_type": sums})
        weights, x = (jax.device_put(np.ones(shape, np.float32), jax.devices("ipu")[0]) for shape in ((8, 512, 512), (2048, 512)))
        with jax.enable_x64(dtype is np.float64):
            return jax.block_until_ready([jitted(weights, x) for _ in range(3)])

    return program


def optimising(memory: str) -> Callable[[], Any]:
    """Steps whose momentum is in pinned_host, or in the tiles."""

    def step(weights: Any, momentum: Any, x: Any) -> Any:
        inside = jax.device_put(momentum, jax.memory.Space.Device) if memory == "pinned_host" else momentum
        inside = 0.9 * inside + (x @ weights).mean()
        after = jax.device_put(inside, jax.memory.Space.Host) if memory == "pinned_host" else inside
        return weights - 1e-3 * inside, after

    def program() -> Any:
        ipu = NamedSharding(Mesh(np.array(jax.devices("ipu")[:1]), ("x",)), P(), memory_kind=memory)
        chip = NamedSharding(Mesh(np.array(jax.devices("ipu")[:1]), ("x",)), P())
        jitted = jax.jit(step, donate_argnums=(0, 1), out_shardings=(chip, ipu))
        weights, momentum = jax.device_put(WEIGHTS, chip), jax.device_put(WEIGHTS, ipu)
        for _ in range(40):
            weights, momentum = jitted(weights, momentum, WEIGHTS[:16])
        return weights, momentum

    return program


def averaging(every: int, dtype: Any = np.float32) -> Callable[[], Any]:
    """Data-parallel steps that average after each, or after several."""

    def body(x: Any) -> Any:
        def one(x: Any, _: Any) -> tuple[Any, None]:
            return jnp.tanh(x) * 0.5, None

        def several(_: Any, x: Any) -> Any:
            return jax.lax.pmean(jax.lax.scan(one, x, None, length=every)[0].astype(dtype), "data").astype(np.float32)

        return jax.lax.fori_loop(0, 960 // every, several, x)

    def program() -> Any:
        mesh = Mesh(np.array(jax.devices("ipu")), ("data",))
        added = jax.jit(jax.shard_map(body, mesh=mesh, in_specs=P(), out_specs=P(), check_vma=False))
        return added(jax.device_put(np.ones((512, 512), np.float32), NamedSharding(mesh, P())))

    return program


FAULTS = {
    "thin products": Fault(
        "products", r"^make the batch of jit_step 512$", batches(64), batches(512), 0.25, dry=True, at="weights = jitted(weights, np.full("
    ),
    "small supersteps": Fault(
        "steps", r"^make the batch of jit_step \d+$", batches(8, products=False), batches(128, products=False), 0.25, dry=True
    ),
    "float64": Fault("doubles", r"^compute in float32 in jit_predict", multiplying(np.float64), multiplying(np.float32), 0.05, dry=True),
    "float32 where half would do": Fault("halves", "^compute in float16", multiplying(np.float32), multiplying(np.float16), 0.25, dry=True),
    "sums of halves in float32": Fault(
        "partials", "'ipu_partials_type': 'half'", multiplying(np.float16), multiplying(np.float16, "half"), 0, "replayed", dry=True
    ),
    "a state that is away for nothing": Fault(
        "offload", "^keep momentum on the IPU$", optimising("pinned_host"), optimising("device"), 0.25, dry=True
    ),
    "an exchange at every step": Fault("collectives", "^accumulate 64 steps", averaging(1), averaging(64), 0.25, dry=True),
}


@pytest.mark.few(4)
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found_first_and_worth_what_was_promised(name: str) -> None:
    check(FAULTS[name])


def test_a_batch_that_fills_the_tiles_is_not_told_to_grow() -> None:
    profile = dry(batches(3200))
    assert of_kind(profile, "products") == of_kind(profile, "steps") == []


def training(divided: str) -> Callable[[], Any]:
    """Steps whose batch is divided among the IPUs, or whose products are: the summed dimension of the second one."""

    def loss(layers: Any, x: Any) -> Any:
        for up, down in layers:
            x = x + jax.nn.relu(x @ up) @ down
        return (x**2).mean()

    def step(layers: Any, x: Any) -> Any:
        return jax.tree.map(lambda each, gradient: each - 1e-3 * gradient, layers, jax.grad(loss)(layers, x))

    def program() -> Any:
        mesh = Mesh(np.array(jax.devices("ipu")[:4]), ("m",))
        up, down, batch = (P(), P(), P("m")) if divided == "batch" else (P(None, "m"), P("m", None), P())
        weights = np.full((256, 256), 0.01, np.float32)
        layers = [tuple(jax.device_put(weights, NamedSharding(mesh, spec)) for spec in (up, down)) for _ in range(4)]
        x = jax.device_put(np.ones((512, 256), np.float32), NamedSharding(mesh, batch))
        jitted = jax.jit(step, donate_argnums=0)
        for _ in range(60):
            layers = jitted(layers, x)
        return layers

    return program


def test_gradients_are_accumulated() -> None:
    [found] = of_kind(dry(training("batch")), "collectives")
    assert found.edit.startswith("accumulate ")
    assert not [word for word in ("goes into further products", "added up over") if word in found.text]


def test_a_sum_inside_of_a_step_names_the_divided_axis_and_stands_where_float16_is_told() -> None:
    """What a later product of the same step takes is no gradient. To compute in float16 is to exchange it, so that is said once."""
    profile = dry(training("products"))
    assert of_kind(profile, "collectives") == []
    [found] = of_kind(profile, "halves")
    assert found.others[0].edit == "exchange float16 in jit_step"
    assert "goes into further products of the same run" in found.text
    axes = "axis 1 of layers[0][0], axis 0 of layers[0][1]"
    assert f"It is added up over {axes}, which are divided over 4 IPUs. Divide the batch, whose gradients can wait" in found.text


def test_float16_that_is_exchanged_is_not_told_to_be() -> None:
    [found] = of_kind(dry(averaging(1, np.float16)), "collectives")
    assert [found.edit, *(other.edit for other in found.others)] == ["accumulate 64 steps in jit_body before an exchange"]
    assert "smaller dtype" not in found.text


def replicas(*, width: int, donated: bool) -> Callable[[], Any]:
    """Data-parallel training, whose parameters stream in at each step if they are not donated."""

    def program() -> Any:
        mesh = Mesh(np.array(jax.devices("ipu")), ("x",))
        params = [jax.device_put(np.ones((width, width), np.float32), NamedSharding(mesh, P()))]
        x = jax.device_put(np.ones((256, width), np.float32), NamedSharding(mesh, P("x")))
        step = jax.jit(
            lambda params, x: [w - g for w, g in zip(params, jax.grad(lambda p: (jnp.tanh(x @ p[0]) ** 2).mean())(params), strict=True)],
            donate_argnums=(0,) if donated else (),
        )
        for _ in range(20):
            params = step(params, x)
        return params

    return program


def test_exchanges_that_count_once_arguments_are_donated_are_told_with_donation() -> None:
    before, after = (dry(replicas(width=1024, donated=donated)) for donated in (False, True))
    [found], [then] = (of_kind(profile, "collectives") for profile in (before, after))
    assert before.findings[0].kind == "donation"
    assert found.gain is not None
    assert then.gain is not None
    assert found.gain.weight < 0.05
    assert found.gain.after[0] == 1
    assert found.gain.after_share > 0.2


@pytest.mark.parametrize(("divided", "items"), [(True, 64), (False, None)])
def test_items_of_a_step_are_those_of_all_ipus_where_each_has_its_part(divided: bool, items: int | None, ipus: list[jax.Device]) -> None:
    mesh = Mesh(np.array(ipus), ("data",))
    whole, batch = NamedSharding(mesh, P()), NamedSharding(mesh, P("data") if divided else P())
    step = jax.jit(lambda w, x, y: w - 0.1 * jax.grad(lambda w: ((x @ w - y) ** 2).mean())(w), out_shardings=whole)
    random = np.random.default_rng(0)

    def program() -> jax.Array:
        w = jax.device_put(np.ones((8, 2), np.float32), whole)
        for _ in range(10):
            w = step(w, *(jax.device_put(random.normal(size=(64, size)).astype(np.float32), batch) for size in (8, 2)))
        return w

    steady = profiled(program).steady
    assert steady is not None
    assert steady.samples == items


def test_a_larger_batch_saves_of_a_step_what_it_saves_of_all_where_an_evaluation_comes_between() -> None:
    step = jax.jit(lambda w, x: w - 1e-3 * jax.grad(lambda w: (deep(w, x) ** 2).sum())(w), donate_argnums=0)
    evaluate = jax.jit(lambda w, x: (deep(w, x) ** 2).mean())

    def program() -> Any:
        w: Any = np.ones((8, 128, 128), np.float32)
        for epoch in range(4):
            for number in range(32):
                w = step(w, np.full((16, 128), epoch * 32 + number, np.float32))
            float(evaluate(w, np.ones((256, 128), np.float32)))
        return w

    profile = profiled(program)
    [found] = of_kind(profile, "products") or of_kind(profile, "steps")
    assert found.edit.startswith("make the batch of jit__lambda"), found.headline
    assert found.gain is not None
    assert found.gain.step_cycles == pytest.approx(found.gain.cycles / 128, rel=0.3)  # of some epochs, and of all with set-up


@pytest.mark.parametrize(("each", "most"), [(4, 4), (SAMPLES, 16)])
def test_a_larger_batch_has_no_more_samples_than_come_between_two_evaluations(each: int, most: int) -> None:
    step = jax.jit(lambda w, x: jax.lax.fori_loop(0, 500, lambda _, w: w + 1e-3 * jnp.tanh(x * w).mean(), w), donate_argnums=0)
    evaluate = jax.jit(lambda w: (w**2).mean())

    def program() -> Any:
        w: Any = np.ones((64,), np.float32)
        for number in range(64):
            w = step(w, np.full((8, 64), number, np.float32))
            if number % each == each - 1:
                evaluate(w)
        return w

    [found] = of_kind(dry(program), "steps")
    assert 8 < int(found.edit.split()[-1]) <= 8 * most
    assert most == 4 or int(found.edit.split()[-1]) > 8 * 4


def test_items_of_a_scan_over_batches_are_those_of_all_its_steps() -> None:
    def loss(w: Any, x: Any, y: Any) -> Any:
        return ((x @ w - y) ** 2).mean()

    epoch = jax.jit(lambda w, xs, ys: jax.lax.scan(lambda w, batch: (w - 0.1 * jax.grad(loss)(w, *batch), None), w, (xs, ys))[0])

    def program() -> Any:
        w: Any = np.ones((8, 2), np.float32)
        for number in range(8):
            w = epoch(w, np.full((5, 16, 8), number, np.float32), np.full((5, 16, 2), number, np.float32))
        return w

    steady = profiled(program).steady
    assert steady is not None
    assert steady.samples == 5 * 16


def test_items_of_a_scan_over_time_are_not_its_steps() -> None:
    def loss(w: Any, x: Any, y: Any) -> Any:
        return jax.lax.scan(lambda total, v: (total + ((v[0] @ w).sum(-1) * v[1]).sum(), None), 0.0, (x, y))[0]

    step = jax.jit(lambda w, x, y: w - 1e-6 * jax.grad(loss)(w, x, y))

    def program() -> Any:
        w: Any = np.full((16, 4), 0.01, np.float32)
        for number in range(10):
            w = step(w, np.full((25, 8, 16), number, np.float32), np.full((25, 8), number, np.float32))
        return w

    steady = profiled(program).steady
    assert steady is not None
    assert steady.samples == 8


@pytest.mark.parametrize("solves", [False, True])
def test_what_jax_refuses_in_float16_is_not_told_to_be_computed_in_it(solves: bool) -> None:
    def step(x: Any) -> Any:
        x = jax.lax.fori_loop(0, 20, lambda _, y: x @ y * 1e-3, x)
        return x + jnp.linalg.cholesky(jnp.eye(64) * (2 + x[0, 0]))[0, 0] if solves else x

    def program() -> Any:
        for _ in range(10):
            jax.jit(step)(jnp.ones((1024, 1024)))

    profile = dry(program)
    assert bool(of_kind(profile, "halves")) is not solves, profile.summary()
