"""Programs that waste time, each with the version that a finding asks for, written by hand: what `advice.py` measures.

Twenty are of styles that are common in public code: a train state as in flax, a module as in equinox, a graph network, a sampler.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from tilestep.train import InfeedQueue, Pipeline, repeat

F32 = np.float32


class Case(NamedTuple):
    """A program before and after an edit. Both do as many steps as they are asked for, on the same data."""

    kind: str  # of the finding
    edit: str  # a pattern of it
    name: str
    before: Callable[[int], Any]
    after: Callable[[int], Any]
    steps: int = 60
    dry: bool = False  # too large to be computed twice
    public: bool = False  # an example's, a tutorial's, or in a public style
    alike: bool = True  # whether the values stay; False: the finding says that they do not


def ipu() -> jax.Device:
    return jax.devices("ipu")[0]


def drawn(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(F32) * F32(0.1)


def batches(steps: int, *shape: int) -> Iterator[np.ndarray]:
    """Another one at each step."""
    kept = [drawn(*shape, seed=seed) for seed in range(8)]
    for number in range(steps):
        yield kept[number % 8]


def layers(params: Any, x: Any) -> Any:
    for w in params:
        x = jnp.tanh(x @ w)
    return x


def weights(width: int, depth: int = 3) -> list[np.ndarray]:
    return [drawn(width, width, seed=seed) for seed in range(depth)]


def loss_of(params: Any, x: Any) -> Any:
    return (layers(params, x) ** 2).mean()


# Training in the style of flax: a state with parameters and an optimiser's state goes through a jitted step.
def flax_step(optimizer: Any, state: Any, x: Any) -> Any:
    params, kept, count = state
    loss, gradients = jax.value_and_grad(loss_of)(params, x)
    updates, kept = optimizer.update(gradients, kept, params)
    return (optax.apply_updates(params, updates), kept, count + 1), loss


def flax(
    steps: int, *, donated: bool = True, read: str = "late", width: int = 256, batch: int = 64, evaluated: str = "", static: bool = False,
    loop: int = 1, last: int = 0, unused: bool = False, dtype: Any = F32, io_tiles: int = 0,
) -> Any:  # fmt: skip
    optimizer = optax.adam(1e-3)

    def train_step(state: Any, x: Any) -> Any:
        after, loss = flax_step(optimizer, state, x.astype(F32))
        return (after, loss, layers(state[0], x.astype(F32))) if unused else (after, loss)

    def train_and_evaluate(state: Any, x: Any, held: Any) -> Any:
        after, loss = train_step(state, x)
        return after, loss, loss_of(after[0], held)

    options = {"ipu_num_io_tiles": io_tiles} if io_tiles else None
    kept = (0,) if donated else ()
    if loop > 1:
        step = jax.jit(lambda state, xs: jax.lax.scan(train_step, state, xs), donate_argnums=kept)
    elif evaluated == "inside":
        step = jax.jit(train_and_evaluate, donate_argnums=kept)
    else:
        step = jax.jit(train_step, donate_argnums=kept, compiler_options=options)
    evaluate, held = jax.jit(loss_of), drawn(batch, width, seed=99)
    params = weights(width)
    state: Any = jax.device_put((params, optimizer.init(params), np.int32(0)), ipu())
    losses: list[Any] = []
    if loop > 1:
        data = list(batches(steps, batch, width))
        for begin in range(0, steps, loop):
            state, loss = step(state, np.stack(data[begin : begin + loop]))
            losses.append(loss)
        return state, np.concatenate([np.asarray(loss) for loss in losses])
    for number, x in enumerate(batches(steps, batch, width)):
        given = x[:last] if last and number % 4 == 3 else x
        state, loss, *more = step(state, *((given, held) if evaluated == "inside" else (given.astype(dtype),)))
        if evaluated == "apart":
            more = [evaluate(state[0], held)]
        losses.append(float(loss) if read == "at once" else (loss, *(more if evaluated else ())))
        if read == "state" and number % 4 == 3:
            np.asarray(state[0][0])
    return state, jax.tree.map(np.asarray, losses)


# Training in the style of equinox: the module itself is the tree that is trained.
class Linear(NamedTuple):
    weight: Any
    bias: Any

    def __call__(self, x: Any) -> Any:
        return x @ self.weight + self.bias


class Network(NamedTuple):
    first: Linear
    second: Linear

    def __call__(self, x: Any) -> Any:
        return self.second(jax.nn.relu(self.first(x)))


def equinox(
    steps: int,
    *,
    donated: bool = True,
    rate: str = "array",
    width: int = 128,
    batch: int = 32,
    last: int = 0,
    padded: bool = False,
    loop: int = 1,
    unused: bool = False,
    io_tiles: int = 0,
    dtype: Any = F32,
) -> Any:
    def make_step(model: Any, x: Any, rate: Any) -> Any:
        x = x.astype(F32)
        gradients = jax.grad(lambda model: (jax.vmap(model)(x) ** 2).sum())(model)
        after = jax.tree.map(lambda w, g: w - rate * g, model, gradients)
        return (after, jax.vmap(model)(x)) if unused else after

    kept = (0,) if donated else ()
    options = {"ipu_num_io_tiles": io_tiles} if io_tiles else None
    step = jax.jit(make_step, donate_argnums=kept, static_argnums=2 if rate == "static" else (), compiler_options=options)
    looped = jax.jit(lambda model, xs: jax.lax.scan(lambda model, x: (make_step(model, x, 1e-3), None), model, xs)[0], donate_argnums=kept)
    model: Any = Network(Linear(drawn(width, width), np.zeros(width, F32)), Linear(drawn(width, width, seed=1), np.zeros(width, F32)))
    model = jax.device_put(model, ipu())
    data = list(batches(steps, batch, width))
    for begin in range(0, steps, loop):
        if loop > 1:
            model = looped(model, np.stack(data[begin : begin + loop]))
            continue
        x = data[begin]
        if last and begin % 4 == 3:
            x = (
                np.where(np.arange(batch)[:, None] < last, x, 0).astype(F32) if padded else x[:last]
            )  # of zeros comes no gradient but of biases
        at = 1e-3 * (1 + begin % 2 * (rate != "fixed"))
        model = step(model, x.astype(dtype), at if rate == "static" else np.float32(at))
        model = model[0] if unused else model
    return model


# A graph network: the graph stays, the parameters are trained or only used.
def graph(
    steps: int, *, training: bool = True, donated: bool = True, kept: bool = True, read: str = "late", nodes: int = 512, width: int = 64,
    dtype: Any = F32, unused: bool = False, partials: str = "float",
) -> Any:  # fmt: skip
    senders, receivers = np.random.default_rng(3).integers(0, nodes, (2, 4 * nodes)).astype(np.int32)

    def passed(params: Any, x: Any) -> Any:
        for w in params:
            sent = jnp.tanh((x @ w).astype(dtype))[senders]
            x = jax.ops.segment_sum(sent, receivers, nodes)
        return x

    def update(params: Any, x: Any) -> Any:
        loss, gradients = jax.value_and_grad(lambda params: (passed(params, x) ** 2).mean())(params)
        after = jax.tree.map(lambda w, g: w - 1e-2 * g, params, gradients)
        return (after, loss, passed(params, x)) if unused else (after, loss)

    def predict(params: Any, x: Any) -> Any:
        answer = passed(params, x).sum(0)
        return (params, answer) if kept else answer

    options = {"ipu_partials_type": partials} if partials != "float" else None
    jitted = jax.jit(update if training else predict, donate_argnums=0 if donated and (training or kept) else (), compiler_options=options)
    params: Any = jax.device_put([w[:width, :width].astype(dtype) for w in weights(width)], ipu())
    found: list[Any] = []
    for x in batches(steps, nodes, width):
        given = jitted(params, x.astype(dtype))
        if training or kept:
            params, value, *_ = given
        else:
            value = given
        found.append(float(value) if read == "at once" else value)
        if read == "state" and len(found) % 10 == 0:
            np.asarray(params[0])
    return params, [np.asarray(value) for value in found]


# A sampler: a chain of Langevin steps, whose state is small and whose steps are short.
def sampler(steps: int, *, loop: int = 1, read: str = "late", width: int = 64, rows: int = 256, donated: bool = True) -> Any:
    precision = np.eye(width, dtype=F32) + drawn(width, width) @ drawn(width, width).T

    def step(state: Any, _: Any) -> Any:
        x, seed = state
        key, now = jax.random.split(jax.random.wrap_key_data(seed))
        x = x - 0.01 * (x @ precision) + 0.1 * jax.random.normal(now, x.shape)
        return (x, jax.random.key_data(key)), x.mean()

    kept = (0,) if donated else ()
    one = jax.jit(lambda state: step(state, None), donate_argnums=kept)
    many = jax.jit(lambda state: jax.lax.scan(step, state, None, length=loop), donate_argnums=kept)
    state: Any = jax.device_put((drawn(rows, width), np.zeros(2, np.uint32)), ipu())
    found: list[Any] = []
    for _ in range(0, steps, loop):
        state, mean = (many if loop > 1 else one)(state)
        found.append(np.asarray(mean) if read == "at once" else mean)
        if read == "state" and len(found) % 20 == 0:
            np.asarray(state[0])
    return np.asarray(state[0]), np.concatenate([np.atleast_1d(np.asarray(each)) for each in found])


def regression(steps: int, *, loop: int = 1) -> Any:
    """Linear regression by stochastic gradient descent, as in a first tutorial."""

    def step(w: Any, batch: Any) -> tuple[Any, Any]:
        x, y = batch
        error, gradient = jax.value_and_grad(lambda w: jnp.mean((x @ w - y) ** 2))(w)
        return w - 0.1 * gradient, error

    one, many = jax.jit(step, donate_argnums=0), jax.jit(lambda w, batches: jax.lax.scan(step, w, batches), donate_argnums=0)
    w: Any = jax.device_put(np.zeros(16, F32), ipu())
    xs = list(batches(steps, 32, 16))
    ys = [x.sum(1) for x in xs]
    errors: list[Any] = []
    for begin in range(0, steps, loop):
        if loop > 1:
            w, error = many(w, (np.stack(xs[begin : begin + loop]), np.stack(ys[begin : begin + loop])))
        else:
            w, error = one(w, (xs[begin], ys[begin]))
        errors.append(error)
    return w, np.concatenate([np.atleast_1d(np.asarray(error)) for error in errors])


def leapfrog(steps: int, *, loop: int = 1) -> Any:
    """An integrator's steps, as in a simulation of particles."""

    def step(state: Any, _: Any) -> tuple[Any, None]:
        place, speed = state
        speed = speed - 0.01 * jnp.sin(place)
        return (place + 0.01 * speed, speed), None

    one = jax.jit(lambda state: step(state, None)[0], donate_argnums=0)
    many = jax.jit(lambda state: jax.lax.scan(step, state, None, length=loop)[0], donate_argnums=0)
    state: Any = jax.device_put((drawn(256), drawn(256, seed=1)), ipu())
    for _ in range(0, steps, loop):
        state = (many if loop > 1 else one)(state)
    return state


def decoding(steps: int, *, loop: int = 1, width: int = 64) -> Any:
    """A recurrent network that writes one token after the other."""
    table, inner, outer = drawn(width, width), drawn(width, width, seed=1), drawn(width, width, seed=2)

    def step(state: Any, _: Any) -> tuple[Any, Any]:
        (table, inner, outer), hidden, token = state
        hidden = jnp.tanh(table[token] + hidden @ inner)
        token = jnp.argmax(hidden @ outer, -1).astype(jnp.int32)
        return ((table, inner, outer), hidden, token), token

    one, many = (
        jax.jit(lambda state: step(state, None), donate_argnums=0),
        jax.jit(lambda state: jax.lax.scan(step, state, None, length=loop), donate_argnums=0),
    )
    state: Any = jax.device_put(((table, inner, outer), np.zeros((4, width), F32), np.arange(4, dtype=np.int32)), ipu())
    tokens: list[Any] = []
    for _ in range(0, steps, loop):
        state, token = (many if loop > 1 else one)(state)
        tokens.append(token)
    return state[1], np.concatenate([np.asarray(token).reshape(-1, 4) for token in tokens])


def descending(steps: int, *, way: str = "", batch: int = 4096, depth: int = 8, width: int = 1024) -> Any:
    """A step with momentum that fills a tile, in a dry run, with one of the ways to need less memory."""

    def layer(x: Any, w: Any) -> tuple[Any, None]:
        return jnp.tanh(jnp.tanh(x @ w) * 2), None

    def step(params: Any, momentum: Any, x: Any) -> Any:
        used = jax.checkpoint(layer) if way == "recompute" else layer  # pyright: ignore[reportPrivateImportUsage]
        gradients = jax.grad(lambda params: (jax.lax.scan(used, x, params)[0] ** 2).sum())(params)
        inside = jax.device_put(momentum, jax.memory.Space.Device) if way == "offload" else momentum
        inside = 0.9 * inside + gradients
        after = jax.device_put(inside, jax.memory.Space.Host) if way == "offload" else inside
        return params - 1e-3 * inside, after

    mesh = Mesh(np.array(jax.devices("ipu")[: 4 if way == "spread" else 1]), ("x",))
    chip, away = NamedSharding(mesh, P()), NamedSharding(mesh, P(), memory_kind="pinned_host" if way == "offload" else "device")
    params, momentum = (jax.device_put(np.ones((depth, width, width), F32), where) for where in (chip, away))
    x = jax.device_put(np.ones((batch // (2 if way == "smaller" else 1), width), F32), NamedSharding(mesh, P("x")))
    jitted = jax.jit(step, donate_argnums=(0, 1) if way == "donate" else (), out_shardings=(chip, away))
    return [jitted(params, momentum, x) for _ in range(steps)]


def alternating(steps: int, *, together: bool, width: int = 256) -> Any:
    """A generator and a critic that are trained by turns."""

    def generate(w: Any, v: Any) -> Any:
        return w - 0.1 * jnp.tanh(v @ w)

    def criticise(v: Any, w: Any) -> Any:
        return v - 0.1 * jnp.tanh(w @ v)

    def both(w: Any, v: Any) -> Any:
        w = generate(w, v)
        return w, criticise(v, w)

    first, second, one = (jax.jit(function, donate_argnums=0) for function in (generate, criticise, both))
    w, v = (jax.device_put(drawn(width, width, seed=seed), ipu()) for seed in range(2))
    one = jax.jit(both, donate_argnums=(0, 1))
    for _ in range(steps):
        if together:
            w, v = one(w, v)
        else:
            w = first(w, v)
            v = second(v, w)
    return w, v


def away(steps: int, *, memory: str, width: int = 512, adam: bool = False) -> Any:
    """An optimiser's state in pinned_host, or in the tiles."""
    optimizer: Any = optax.adam(1e-3) if adam else optax.sgd(1e-3, momentum=0.9)

    def step(params: Any, state: Any, x: Any) -> Any:
        inside = jax.device_put(state, jax.memory.Space.Device) if memory == "pinned_host" else state
        updates, after = optimizer.update(jax.grad(loss_of)(params, x), inside, params)
        after = jax.device_put(after, jax.memory.Space.Host) if memory == "pinned_host" else after
        return optax.apply_updates(params, updates), after

    mesh = Mesh(np.array([ipu()]), ("x",))
    chip, kept = NamedSharding(mesh, P()), NamedSharding(mesh, P(), memory_kind=memory)
    params: Any = jax.device_put(weights(width, 2), chip)
    state: Any = jax.device_put(jax.tree.map(np.asarray, optimizer.init(weights(width, 2))), kept)
    jitted = jax.jit(step, donate_argnums=(0, 1), out_shardings=(chip, kept))
    for x in batches(steps, 16, width):
        params, state = jitted(params, state, x)
    return params


def batched(steps: int, *, times: int, training: bool, width: int = 512, batch: int = 16, depth: int = 8, read: bool = False) -> Any:
    """Training, or an inference, on the same samples in batches of a size."""

    def update(params: Any, x: Any) -> Any:
        return jax.tree.map(lambda w, g: w - 1e-3 * g, params, jax.grad(loss_of)(params, x))

    def serve(params: Any, x: Any) -> Any:
        return params, layers(params, x)

    jitted = jax.jit(update if training else serve, donate_argnums=0)
    params: Any = jax.device_put(weights(width, depth), ipu())
    found: list[Any] = []
    for x in batches(steps // times, batch * times, width):
        if training:
            params = jitted(params, x)
        else:
            params, answer = jitted(params, x)
            found.append(np.asarray(answer) if read else answer)
    return params


def scaling(steps: int, *, times: int, width: int = 64, batch: int = 16) -> Any:
    """Operations on each element of a batch, and no products."""

    def step(w: Any, x: Any) -> Any:
        return jax.lax.fori_loop(0, 100, lambda _, w: w + 1e-3 * jnp.tanh(x * w).mean(), w)

    jitted, w = jax.jit(step, donate_argnums=0), jax.device_put(np.ones(width, F32), ipu())
    for x in batches(steps // times, batch * times, width):
        w = jitted(w, x)
    return w


def epochs(steps: int, *, times: int, width: int = 512, batch: int = 16, length: int = 32) -> Any:
    """A loop on the device that is called once an epoch, which has so many batches."""

    def body(params: Any, x: Any) -> Any:
        return jax.tree.map(lambda w, g: w - 1e-3 * g, params, jax.grad(loss_of)(params, x))

    params: Any = weights(width)
    for epoch in range(steps // length):
        with InfeedQueue([drawn(batch * times, width, seed=epoch)] * (length // times)) as queue:
            params = repeat(length // times, body, params, queue)
    return params


def fed(steps: int, *, io_tiles: int, width: int = 512, batch: int = 512) -> Any:
    """A loop on the device with an infeed."""

    def body(w: Any, x: Any) -> Any:
        return jax.lax.fori_loop(0, 10, lambda _, w: w + 1e-3 * jnp.tanh(x @ w).mean(0), w)

    with InfeedQueue(list(batches(steps, batch, width))) as queue:
        return repeat(steps, body, drawn(width, width), queue, chunk=4, plan_options={"num_io_tiles": io_tiles})


def pipelined(
    steps: int, *, layers_of: tuple[int, ...], microbatches: int = 8, schedule: str = "grouped", width: int = 256, batch: int = 64,
    offloaded: bool | None = False, optimizer: Any = None, deep: int = 1,
) -> Any:  # fmt: skip
    """So many microbatches through a pipeline of dense layers."""

    def stage(params: Any, x: Any) -> Any:
        return jax.lax.scan(lambda x, _: (layers(params, x), None), x, None, length=deep)[0] if deep > 1 else layers(params, x)

    def to_loss(params: Any, x: Any) -> Any:
        return (stage(params, x) ** 2).mean()

    pipeline = Pipeline(
        [*[stage] * (len(layers_of) - 1), to_loss],
        optimizer or optax.sgd(1e-3),
        microbatches,
        devices=jax.devices("ipu"),
        device_mapping=list(range(len(layers_of))),
        pipeline_schedule=schedule,
        offload_optimizer_state=offloaded,
    )
    state: Any = pipeline.init([weights(width, count) for count in layers_of])
    for _ in range(steps // microbatches):
        state, _ = pipeline.step(state, np.ones((microbatches, batch, width), F32))
    return state.params


def precise(steps: int, *, dtype: Any, sums: str = "float", width: int = 512, batch: int = 1024, conv: bool = False) -> Any:
    """An inference whose parameters are float32, and that computes in a dtype."""

    def predict(params: Any, x: Any) -> Any:
        x = x.astype(dtype)
        for w in params:
            if conv:
                kernel = w[: 9 * 32, :32].reshape(3, 3, 32, 32).astype(dtype)
                x = jax.nn.relu(jax.lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")))
            else:
                x = jnp.tanh(x @ w.astype(dtype))
        return params, x.sum()

    jitted = jax.jit(predict, donate_argnums=0, compiler_options={"ipu_partials_type": sums})
    with jax.enable_x64(dtype is np.float64):
        params: Any = jax.device_put([w.astype(np.float64 if dtype is np.float64 else F32) for w in weights(width, 6)], ipu())
        shape = (8, 32, 32, 32) if conv else (batch, width)
        x: Any = jax.device_put(drawn(*shape).astype(np.float64 if dtype is np.float64 else F32), ipu())
        kept = jax.jit(lambda x: x)
        del kept
        answer: Any = None
        for _ in range(steps):
            params, answer = jitted(params, x)
        return np.asarray(answer)


def divided(steps: int, *, every: int = 1, dtype: Any = F32, width: int = 512) -> Any:
    """Data-parallel steps whose gradients are added up over IPUs after each, or after several, as optax.MultiSteps does."""

    def exchanged(params: Any, gradients: Any) -> Any:
        return jax.tree.map(lambda w, g: w - 1e-3 * jax.lax.pmean(g.astype(dtype), "data").astype(F32), params, gradients)

    def body(params: Any, kept: Any, count: Any, x: Any) -> Any:
        gradients = jax.grad(loss_of)(params, x)
        if every == 1:
            return exchanged(params, gradients), kept, count
        kept = jax.tree.map(jnp.add, kept, gradients)
        now = count % every == every - 1
        params = jax.lax.cond(now, lambda: exchanged(params, kept), lambda: params)
        return params, jax.tree.map(lambda each: jnp.where(now, 0, each), kept), count + 1

    mesh = Mesh(np.array(jax.devices("ipu")), ("data",))
    whole = NamedSharding(mesh, P())
    step = jax.jit(
        jax.shard_map(body, mesh=mesh, in_specs=(P(), P(), P(), P("data")), out_specs=P(), check_vma=False), donate_argnums=(0, 1, 2)
    )
    params: Any = jax.device_put(weights(width, 2), whole)
    kept: Any = jax.device_put([np.zeros((width, width), F32)] * (2 if every > 1 else 0), whole)
    count: Any = jax.device_put(np.int32(0), whole)
    for _ in range(steps):
        params, kept, count = step(params, kept, count, jax.device_put(np.ones((64, width), F32), NamedSharding(mesh, P("data"))))
    return params


CASES: tuple[Case, ...] = (
    Case(
        "products",
        "^make the batch of .* (\\d+) samples",
        "a loop that is called each epoch",
        partial(epochs, times=1),
        partial(epochs, times=0),
        steps=320,
        dry=True,
        alike=False,
    ),
    Case(
        "steps",
        "^make the batch of .* (\\d+)$",
        "operations on elements",
        partial(scaling, times=1),
        partial(scaling, times=0),
        steps=320,
        dry=True,
        alike=False,
    ),
    Case("feeds", "num_io_tiles", "a loop with an infeed", partial(fed, io_tiles=0), partial(fed, io_tiles=32), steps=60, dry=True),
    Case("calls", "^loop over", "a recurrent network that decodes", decoding, partial(decoding, loop=100), steps=600, public=True),
    Case("reads", "^read results of", "graph network each tenth step", partial(graph, read="state"), graph, steps=240, public=True),
    Case(
        "reads",
        "^read results of",
        "a chain each 20th step",
        partial(sampler, rows=8192, read="state"),
        partial(sampler, rows=8192),
        steps=600,
        dry=True,
        public=True,
    ),
    Case("results", "^do not return", "graph network's nodes", partial(graph, unused=True), graph, public=True),
    Case("results", "^do not return", "module's outputs", partial(equinox, unused=True), equinox, public=True),
    Case(
        "streaming",
        "ipu_num_io_tiles",
        "module, as in equinox",
        partial(equinox, batch=2048),
        partial(equinox, batch=2048, io_tiles=32),
        public=True,
    ),
    Case(
        "streaming",
        "^send x as float16",
        "module, as in equinox",
        partial(equinox, batch=2048),
        partial(equinox, batch=2048, dtype=np.float16),
        public=True,
        alike=False,
    ),
    Case(
        "pipeline",
        "^cut .* into stages of 3, 3 ",
        "two stages that differ",
        partial(pipelined, layers_of=(1, 5), width=512, batch=512),
        partial(pipelined, layers_of=(3, 3), width=512, batch=512),
        steps=64,
        dry=True,
        alike=False,
    ),
    Case(
        "pipeline",
        "^cut .* into stages of 2, 2, 2 ",
        "a first stage that is long",
        partial(pipelined, layers_of=(4, 1, 1), microbatches=6, width=512, batch=256),
        partial(pipelined, layers_of=(2, 2, 2), microbatches=6, width=512, batch=256),
        steps=60,
        dry=True,
        alike=False,
    ),
    Case(
        "bubbles",
        "^use 32 microbatches",
        "two stages",
        partial(pipelined, layers_of=(2, 2, 2, 2), deep=32),
        partial(pipelined, layers_of=(2, 2, 2, 2), deep=32, microbatches=32),
        steps=256,
        dry=True,
        alike=False,
    ),
    Case(
        "doubles",
        "^compute in float32",
        "convolutions",
        partial(precise, dtype=np.float64, conv=True),
        partial(precise, dtype=F32, conv=True),
        steps=20,
        dry=True,
        alike=False,
    ),
    Case(
        "doubles",
        "^compute in float32",
        "narrow layers",
        partial(precise, dtype=np.float64, width=288),
        partial(precise, dtype=F32, width=288),
        steps=20,
        dry=True,
        alike=False,
    ),
    Case(
        "halves",
        "^compute in float16",
        "wide layers",
        partial(precise, dtype=F32, width=1024),
        partial(precise, dtype=np.float16, width=1024),
        steps=20,
        dry=True,
        alike=False,
    ),
    Case(
        "partials",
        "ipu_partials_type",
        "convolutions",
        partial(precise, dtype=np.float16, conv=True),
        partial(precise, dtype=np.float16, conv=True, sums="half"),
        steps=20,
        dry=True,
        alike=False,
    ),
    Case(
        "partials",
        "ipu_partials_type",
        "wide layers",
        partial(precise, dtype=np.float16, width=1024),
        partial(precise, dtype=np.float16, width=1024, sums="half"),
        steps=20,
        dry=True,
        alike=False,
    ),
    Case(
        "collectives",
        "^exchange float16",
        "wide layers",
        partial(divided, width=1024),
        partial(divided, width=1024, dtype=np.float16),
        steps=20,
        dry=True,
        alike=False,
    ),
    Case("memory", "^recompute", "layers in a scan", descending, partial(descending, way="recompute"), steps=1, dry=True),
    Case(
        "memory",
        "^keep momentum in pinned_host",
        "layers in a scan",
        partial(descending, batch=256, depth=40),
        partial(descending, batch=256, depth=40, way="offload"),
        steps=1,
        dry=True,
    ),
    Case("memory", "^divide x along axis 0", "layers in a scan", descending, partial(descending, way="spread"), steps=1, dry=True),
    Case("memory", "^make the batch 2,048", "layers in a scan", descending, partial(descending, way="smaller"), steps=1, dry=True),
    Case("donation", "^donate state$", "train state, as in flax", partial(flax, donated=False), flax, public=True),
    Case("donation", "^donate model$", "module, as in equinox", partial(equinox, donated=False), equinox, public=True),
    Case("donation", "^donate state$", "a chain of samples", partial(sampler, donated=False), sampler, public=True),
    Case(
        "donation",
        "^return params unchanged and donate them$",
        "graph network, inference",
        partial(graph, training=False, kept=False, nodes=64, width=256),
        partial(graph, training=False, nodes=64, width=256),
        public=True,
    ),
    Case("calls", "^loop over", "linear regression", regression, partial(regression, loop=100), steps=600, public=True),
    Case("idle", "^loop over", "particles", leapfrog, partial(leapfrog, loop=100), steps=600, public=True),
    Case(
        "calls", "^loop over", "module, as in equinox", partial(equinox, rate="fixed"), partial(equinox, rate="fixed", loop=100), steps=600
    ),
    Case("idle", "^read results after", "losses at once", partial(flax, read="at once"), flax, steps=240, public=True),
    Case(
        "idle",
        "^read results after",
        "means of samples",
        partial(sampler, rows=1024, read="at once"),
        partial(sampler, rows=1024),
        steps=600,
        dry=True,
        public=True,
    ),
    Case("idle", "^read results after", "graph network", partial(graph, read="at once"), graph, steps=240, public=True),
    Case("reads", "^read results of", "parameters each fourth step", partial(flax, read="state"), flax, steps=240),
    Case(
        "loads",
        "into one jitted function",
        "two functions by turns",
        partial(alternating, together=False),
        partial(alternating, together=True),
    ),
    Case(
        "loads",
        "^pad ",
        "a smaller last batch",
        partial(equinox, last=20),
        partial(equinox, last=20, padded=True),
        public=True,
        alike=False,
    ),
    Case("loads", "^make jit_make_step one", "a rate that is static", partial(equinox, rate="static"), equinox, public=True),
    Case(
        "loads",
        "into one jitted function",
        "evaluation at each step",
        partial(flax, evaluated="apart"),
        partial(flax, evaluated="inside"),
        public=True,
    ),
    Case("results", "^do not return", "activations", partial(flax, unused=True), flax),
    Case(
        "streaming",
        "ipu_num_io_tiles",
        "wide batches",
        partial(flax, width=512, batch=512),
        partial(flax, width=512, batch=512, io_tiles=32),
        dry=True,
    ),
    Case(
        "streaming",
        "^send x as float16",
        "wide batches",
        partial(flax, width=512, batch=512),
        partial(flax, width=512, batch=512, dtype=np.float16),
        dry=True,
        alike=False,
    ),
    Case("offload", "^keep .* on the IPU$", "momentum", partial(away, memory="pinned_host"), partial(away, memory="device")),
    Case(
        "offload",
        "^keep .* on the IPU$",
        "moments of Adam",
        partial(away, memory="pinned_host", adam=True),
        partial(away, memory="device", adam=True),
    ),
    Case(
        "offload",
        "offload_optimizer_state=False",
        "a pipeline",
        partial(pipelined, layers_of=(1, 1), optimizer=optax.adam(1e-3), offloaded=None),
        partial(pipelined, layers_of=(1, 1), optimizer=optax.adam(1e-3)),
        steps=160,
        dry=True,
    ),
    Case(
        "products",
        "^make the batch of .* (\\d+)$",
        "training",
        partial(batched, times=1, training=True),
        partial(batched, times=0, training=True),
        steps=320,
        dry=True,
        alike=False,
    ),
    Case(
        "products",
        "^make the batch of .* (\\d+)$",
        "an inference",
        partial(batched, times=1, training=False),
        partial(batched, times=0, training=False),
        steps=320,
        dry=True,
    ),
    Case(
        "products",
        "^make the batch of .* (\\d+)$",
        "an inference that is read",
        partial(batched, times=1, training=False, read=True),
        partial(batched, times=0, training=False, read=True),
        steps=320,
        dry=True,
    ),
    Case(
        "pipeline",
        "^cut .* into stages of 2, 2, 2",
        "stages that differ",
        partial(pipelined, layers_of=(1, 4, 1), microbatches=6, width=512, batch=512),
        partial(pipelined, layers_of=(2, 2, 2), microbatches=6, width=512, batch=512),
        steps=60,
        dry=True,
        alike=False,
    ),
    Case(
        "bubbles",
        "^use 32 microbatches",
        "few microbatches",
        partial(pipelined, layers_of=(1, 1, 1, 1), deep=64),
        partial(pipelined, layers_of=(1, 1, 1, 1), deep=64, microbatches=32),
        steps=256,
        dry=True,
        alike=False,
    ),
    Case(
        "bubbles",
        "^use pipeline_schedule",
        "one after the other",
        partial(pipelined, layers_of=(1, 1), deep=500, microbatches=4, schedule="sequential"),
        partial(pipelined, layers_of=(1, 1), deep=500, microbatches=4),
        steps=32,
        dry=True,
    ),
    Case(
        "doubles",
        "^compute in float32",
        "dense layers",
        partial(precise, dtype=np.float64),
        partial(precise, dtype=F32),
        steps=20,
        dry=True,
        alike=False,
    ),
    Case(
        "halves",
        "^compute in float16",
        "dense layers",
        partial(precise, dtype=F32),
        partial(precise, dtype=np.float16),
        steps=20,
        dry=True,
        alike=False,
    ),
    Case(
        "halves",
        "^compute in float16",
        "convolutions",
        partial(precise, dtype=F32, conv=True),
        partial(precise, dtype=np.float16, conv=True),
        steps=20,
        dry=True,
        alike=False,
        public=True,
    ),
    Case(
        "partials",
        "ipu_partials_type",
        "dense layers",
        partial(precise, dtype=np.float16),
        partial(precise, dtype=np.float16, sums="half"),
        steps=20,
        dry=True,
        alike=False,
    ),
    Case(
        "collectives",
        "^accumulate (\\d+) steps",
        "data-parallel training",
        divided,
        partial(divided, every=0),
        steps=128,
        dry=False,
        alike=False,
    ),
    Case(
        "collectives",
        "^exchange float16",
        "data-parallel training",
        divided,
        partial(divided, dtype=np.float16),
        steps=40,
        dry=True,
        alike=False,
    ),
)
