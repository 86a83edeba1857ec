"""Programs that waste time, each with what makes it the version that a finding asks for: what `advice.py` measures.

Most are of styles that are common in public code: a train state as in flax, a module as in equinox, a graph network, a sampler, a language
model, a classifier of images.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from tilestep.train import InfeedQueue, Pipeline, repeat

F32 = np.float32


def ipu() -> jax.Device:
    return jax.devices("ipu")[0]


def drawn(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(F32) * F32(0.1)


def batches(steps: int, *shape: int) -> Iterator[np.ndarray]:
    """Another one at each step."""
    kept = [drawn(*shape, seed=seed) for seed in range(8)]
    for number in range(steps):
        yield kept[number % 8]


def samples(steps: int, times: int, batch: int, width: int) -> Iterator[np.ndarray]:
    """The same samples in batches of any size. Args: steps: as many, if a batch is `batch` samples. times: as large a batch."""
    drawn_once = drawn(steps * batch, width)
    yield from drawn_once.reshape(steps // times, times * batch, width)


def changed(after: Any, before: Any) -> Any:
    """What training has changed: of parameters that hardly change, the rest is equal anyway."""
    return jax.tree.map(lambda one, other: np.asarray(one) - np.asarray(other), after, before)


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
        real = (x != 0).any(1, keepdims=True) if padded else 1  # rows of padding have no loss
        gradients = jax.grad(lambda model: 0.01 * (real * jax.vmap(model)(x) ** 2).sum())(model)
        after = jax.tree.map(lambda w, g: w - rate * g, model, gradients)
        return (after, jax.vmap(model)(x)) if unused else after

    kept = (0,) if donated else ()
    options = {"ipu_num_io_tiles": io_tiles} if io_tiles else None
    step = jax.jit(make_step, donate_argnums=kept, static_argnums=2 if rate == "static" else (), compiler_options=options)
    looped = jax.jit(lambda model, xs: jax.lax.scan(lambda model, x: (make_step(model, x, 1e-3), None), model, xs)[0], donate_argnums=kept)
    model: Any = Network(Linear(drawn(width, width), np.zeros(width, F32)), Linear(drawn(width, width, seed=1), np.zeros(width, F32)))
    begun, model = model, jax.device_put(model, ipu())
    data = list(batches(steps, batch, width))
    for begin in range(0, steps, loop):
        if loop > 1:
            model = looped(model, np.stack(data[begin : begin + loop]))
            continue
        x = data[begin]
        if last and begin % 4 == 3:
            x = np.where(np.arange(batch)[:, None] < last, x, 0).astype(F32) if padded else x[:last]
        at = 1e-3 * (1 + begin % 2 * (rate != "fixed"))
        model = step(model, x.astype(dtype), at if rate == "static" else np.float32(at))
        model = model[0] if unused else model
    return changed(model, begun)


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
        used = jax.checkpoint(layer) if way == "recompute" else layer
        gradients = jax.grad(lambda params: (jax.lax.scan(used, x, params)[0] ** 2).mean())(params)
        inside = jax.device_put(momentum, jax.memory.Space.Device) if way == "offload" else momentum
        inside = 0.9 * inside + gradients
        after = jax.device_put(inside, jax.memory.Space.Host) if way == "offload" else inside
        return params - 1e-3 * inside, after

    mesh = Mesh(np.array(jax.devices("ipu")[: 4 if way in ("spread", "states") else 1]), ("x",))
    columns = P(None, None, "x") if way == "states" else P()
    chip, away = NamedSharding(mesh, columns), NamedSharding(mesh, columns, memory_kind="pinned_host" if way == "offload" else "device")
    params, momentum = (jax.device_put(drawn(depth, width, width), where) for where in (chip, away))
    shape = batch // (2 if way == "smaller" else 1), width
    x = jax.device_put(
        np.resize(drawn(8, width), shape), NamedSharding(mesh, P() if way == "states" else P("x"))
    )  # eight samples: a half has the same loss
    jitted = jax.jit(step, out_shardings=(chip, away))
    return [jitted(params, momentum, x)[1] for _ in range(steps)]


def embedded(steps: int, *, divided: bool = False, words: int = 32_000, width: int = 512) -> Any:
    """A table of words that is trained, as in a language model; its rows are divided over IPUs, or it is on each."""

    def step(table: Any, ids: Any) -> Any:
        return table - 0.1 * jax.grad(lambda table: (jnp.tanh(table[ids]) ** 2).sum())(table)

    mesh = Mesh(np.array(jax.devices("ipu")[: 4 if divided else 1]), ("x",))
    where, ids = NamedSharding(mesh, P("x" if divided else None)), np.arange(4096, dtype=np.int32).reshape(32, 128) * 7 % words
    table, ids = jax.device_put(drawn(words, width), where), jax.device_put(ids, NamedSharding(mesh, P()))
    jitted = jax.jit(step, out_shardings=where)
    for _ in range(steps):
        table = jitted(table, ids)
    return table


def perceptron(steps: int, *, divided: bool = False, width: int = 1024, batch: int = 512) -> Any:
    """Two layers, as in a transformer's block, whose weights are divided over IPUs along what both share, or are on each."""

    def step(weights: Any, x: Any) -> Any:
        gradients = jax.grad(lambda weights: ((jnp.tanh(x @ weights[0]) @ weights[1]) ** 2).mean())(weights)
        return [w - g for w, g in zip(weights, gradients, strict=True)]

    mesh = Mesh(np.array(jax.devices("ipu")[: 4 if divided else 1]), ("x",))
    where = [NamedSharding(mesh, P(*axes) if divided else P()) for axes in ((None, "x"), ("x", None))]
    weights = [jax.device_put(drawn(*shape), at) for shape, at in zip(((width, 4 * width), (4 * width, width)), where, strict=True)]
    x, jitted = jax.device_put(drawn(batch, width), NamedSharding(mesh, P())), jax.jit(step, out_shardings=where)
    for _ in range(steps):
        weights = jitted(weights, x)
    return weights


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
    return changed(params, weights(width, 2))


def batched(steps: int, *, times: int, training: bool, width: int = 512, batch: int = 16, depth: int = 8, read: bool = False) -> Any:
    """Training, or an inference, on the same samples in batches of a size."""

    def update(params: Any, x: Any) -> Any:  # the rate grows with the batch (Goyal et al. 2017)
        return jax.tree.map(lambda w, g: w - 1e-3 * times * g, params, jax.grad(loss_of)(params, x))

    def serve(params: Any, x: Any) -> Any:
        return params, layers(params, x)

    jitted = jax.jit(update if training else serve, donate_argnums=0)
    params: Any = jax.device_put(weights(width, depth), ipu())
    found: list[Any] = []
    for x in samples(steps, times, batch, width):
        if training:
            params = jitted(params, x)
        else:
            params, answer = jitted(params, x)
            found.append(np.asarray(answer) if read else answer)
    return changed(params, weights(width, depth)) if training else np.concatenate([np.asarray(answer) for answer in found])


def elementwise(steps: int, *, times: int, what: str, width: int = 64, batch: int = 16) -> Any:
    """Operations on each element of a batch, and no products: gains that are trained, particles that roll down, or a filter of signals."""

    def trained(w: Any, x: Any) -> Any:  # the mean is of more samples, which move it in fewer steps
        return jax.lax.fori_loop(0, 100, lambda _, w: w + 1e-3 * times * jnp.tanh(x * w).mean(0), w)

    def rolled(rate: Any, x: Any) -> Any:  # steps down a double well
        return rate, jax.lax.fori_loop(0, 20, lambda _, x: x - rate * (x**3 - x), x)

    def filtered(memory: Any, x: Any) -> Any:  # exponential smoothing along each signal
        return memory, jax.lax.scan(lambda kept, now: (memory * kept + (1 - memory) * now,) * 2, x[:, 0], x.T)[1].T

    function = {"trained": trained, "rolled": rolled, "filtered": filtered}[what]
    jitted = jax.jit(function, donate_argnums=0)
    begun: Any = np.ones(width, F32) if what == "trained" else np.full((), 0.5, F32)
    state, found = jax.device_put(begun, ipu()), []
    for x in samples(steps, times, batch, width):
        if what == "trained":
            state = jitted(state, x)
        else:
            state, answer = jitted(state, x)
            found.append(answer)
    return changed(state, begun) if what == "trained" else np.concatenate([np.asarray(answer) for answer in found])


def epochs(steps: int, *, times: int, width: int = 512, batch: int = 16, length: int = 32) -> Any:
    """A loop on the device that is called once an epoch, which has so many batches."""

    def body(params: Any, x: Any) -> Any:  # the rate grows with the batch (Goyal et al. 2017)
        return jax.tree.map(lambda w, g: w - 1e-3 * times * g, params, jax.grad(loss_of)(params, x))

    params: Any = weights(width)
    data = list(samples(steps, times, batch, width))
    for begin in range(0, len(data), length // times):
        with InfeedQueue(data[begin : begin + length // times]) as queue:
            params = repeat(length // times, body, params, queue)
    return changed(params, weights(width))


def fed(steps: int, *, io_tiles: int, what: str = "dense", width: int = 512, batch: int = 512) -> Any:
    """A loop on the device with an infeed: of dense layers, of images, or of a regression."""

    def dense(w: Any, x: Any) -> Any:
        return jax.lax.fori_loop(0, 10, lambda _, w: w + 1e-3 * jnp.tanh(x @ w).mean(0), w)

    def images(w: Any, x: Any) -> Any:
        y = jax.lax.conv_general_dilated(
            x.reshape(batch, 16, 16, -1), w[: 9 * 2, :32].reshape(3, 3, 2, 32), (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        return w + 1e-3 * jnp.tanh(y).mean()

    def regression(w: Any, x: Any) -> Any:
        return jax.tree.map(lambda w, g: w - 1e-2 * g, w, jax.grad(lambda w: ((x @ w - x) ** 2).mean())(w))

    body = {"dense": dense, "images": images, "regression": regression}[what]
    with InfeedQueue(list(batches(steps, batch, width))) as queue:
        params = repeat(steps, body, drawn(width, width), queue, chunk=4, plan_options={"num_io_tiles": io_tiles})
    return changed(params, drawn(width, width))


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
        optimizer or optax.sgd(1e-3),  # of a sum over microbatches
        microbatches,
        devices=jax.devices("ipu"),
        device_mapping=list(range(len(layers_of))),
        pipeline_schedule=schedule,
        offload_optimizer_state=offloaded,
    )
    every, ends = weights(width, sum(layers_of)), np.cumsum(layers_of)
    begun = [every[end - count : end] for end, count in zip(ends, layers_of, strict=True)]
    state: Any = pipeline.init(begun)
    for x in samples(steps, microbatches, batch, width):
        state, _ = pipeline.step(state, x.reshape(microbatches, batch, width))
    return changed(jax.tree.leaves(state.params), every)


def predicting(steps: int, *, dtype: Any, model: str, sums: str = "float", width: int = 512, batch: int = 1024) -> Any:
    """An inference whose parameters are float32, and that computes in a dtype: of text, of images, or dense layers."""

    def attended(w: Any, x: Any) -> Any:  # a block as in flax's examples: attention, then two dense layers
        queries, keys, values = (x @ each.astype(dtype) for each in w[:3])
        scores = jax.nn.softmax(queries @ keys.T / np.sqrt(width).astype(dtype), -1)
        x = x + (scores @ values) @ w[3].astype(dtype)
        return x + jax.nn.gelu(x @ w[4].astype(dtype)) @ w[5].astype(dtype)

    def classified(w: Any, x: Any) -> Any:
        kernel = w[: 9 * 32, :32].reshape(3, 3, 32, 32).astype(dtype)
        return jax.nn.relu(jax.lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")))

    def predict(params: Any, x: Any) -> Any:
        x = x.astype(dtype)
        if model == "language":
            x = attended(params, x)
        else:
            for w in params:
                x = classified(w, x) if model == "images" else jnp.tanh(x @ w.astype(dtype))
        return params, jnp.abs(x).mean()

    jitted = jax.jit(predict, donate_argnums=0, compiler_options={"ipu_partials_type": sums})
    wide = np.float64 if dtype is np.float64 else F32
    with jax.enable_x64(dtype is np.float64):
        params: Any = jax.device_put([w.astype(wide) for w in weights(width, 6)], ipu())
        x: Any = jax.device_put(drawn(*((8, 32, 32, 32) if model == "images" else (batch, width))).astype(wide), ipu())
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
    for x in batches(steps, 64, width):
        params, kept, count = step(params, kept, count, jax.device_put(x, NamedSharding(mesh, P("data"))))
    return changed(params, weights(width, 2))
