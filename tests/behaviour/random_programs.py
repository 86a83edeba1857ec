"""Random JAX programs: equal seeds make equal ones.

They have control flow that depends on data, loops, gathers, sorts, products, gradients, random bits, and numbers of many types.
"""

import random
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

MOST_NUMBERS = 400  # of a value
OPERATIONS = 14
LAST = ("NHWC", "HWIO", "NHWC")  # `ipu` writes other convolutions in loops so, which rounds otherwise
Values = list[Any]
Operation = Callable[[random.Random, Values], Any]


def arguments(seed: int) -> tuple[np.ndarray, ...]:
    """float32[4, 6], float32[6], int32[5], with zeros of both signs, infinities and NaN now and then."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(4, 6)).astype(np.float32)
    if seed % 3 == 0:
        x.reshape(-1)[rng.integers(0, 24, 4)] = [0.0, -0.0, np.inf, np.nan]
    return x, rng.normal(size=6).astype(np.float32), rng.integers(-9, 9, 5).astype(np.int32)


def program(seed: int) -> Callable[..., Any]:
    """A function of `arguments`. Its operations are drawn as it is traced."""

    def body(*args: Any) -> Any:
        rng, values = random.Random(seed), list(args)
        for _ in range(OPERATIONS):
            made = rng.choice(OPERATIONS_OF_VALUES)(rng, values)
            if made.size <= MOST_NUMBERS:
                values.append(made)
        return tuple(values[len(args) :])

    def sloped(x: Any, *rest: Any) -> Any:
        floats = [value for value in body(x, *rest) if value.dtype == jnp.float32]
        return sum((jnp.tanh(value).sum() for value in floats), jnp.tanh(x).sum())

    match seed % 5:
        case 0:
            return lambda x, *rest: (jax.grad(sloped)(x, *rest), body(x, *rest))
        case 1:
            return lambda x, *rest: jax.vmap(lambda shift: body(x + shift, *rest))(jnp.arange(2.0))
        case 2:
            return lambda *args: lax.scan(lambda count, x: (count + 1, body(x, *args[1:])), 0, jnp.stack([args[0], 2 * args[0]]))
        case _:
            return body


def anything(rng: random.Random, values: Values) -> Any:
    return rng.choice(values)


def real(rng: random.Random, values: Values) -> Any:
    return anything(rng, values).astype(jnp.float32)


def whole(rng: random.Random, values: Values) -> Any:
    return jnp.clip(jnp.nan_to_num(real(rng, values), posinf=9.0, neginf=-9.0), -100, 100).astype(jnp.int32)


def flat(rng: random.Random, values: Values) -> Any:
    return jnp.atleast_1d(real(rng, values).reshape(-1))[:20]


def square(rng: random.Random, values: Values) -> Any:
    return jnp.resize(real(rng, values), (5, 5))


def unary(rng: random.Random, values: Values) -> Any:
    names = ("sin", "exp", "tanh", "abs", "sqrt", "log1p", "sign", "round", "floor", "square", "isnan", "negative", "cbrt", "arctan")
    return getattr(jnp, rng.choice(names))(real(rng, values))


def integers(rng: random.Random, values: Values) -> Any:
    a, b = whole(rng, values), rng.randrange(1, 9)
    return rng.choice((lambda: a // b, lambda: a % b, lambda: a << b, lambda: a >> b, lambda: lax.population_count(a), lambda: a ^ b))()


def binary(rng: random.Random, values: Values) -> Any:
    a = real(rng, values)
    b = jnp.resize(real(rng, values), a.shape)
    name = rng.choice(("add", "subtract", "multiply", "divide", "maximum", "minimum", "power", "arctan2", "less", "fmod", "copysign"))
    return getattr(jnp, name)(a, b)


def reduced(rng: random.Random, values: Values) -> Any:
    a = jnp.atleast_1d(real(rng, values))
    name = rng.choice(("sum", "prod", "max", "min", "argmax", "argmin", "mean", "var", "cumsum", "cumprod", "any"))
    return getattr(jnp, name)(a, axis=rng.randrange(a.ndim))


def moved(rng: random.Random, values: Values) -> Any:
    a = jnp.atleast_2d(anything(rng, values))
    ways: tuple[Callable[[], Any], ...] = (
        lambda: jnp.swapaxes(a, 0, 1),
        lambda: jnp.flip(a, 0),
        lambda: jnp.roll(a, rng.randrange(5), 1),
        lambda: jnp.concatenate([a, a], 0),
        lambda: jnp.pad(a, ((1, 0), *[(0, 1)] * (a.ndim - 1))),
        lambda: a[::2],
        lambda: jnp.repeat(a, 2, 0),
    )
    return rng.choice(ways)()


def gathered(rng: random.Random, values: Values) -> Any:
    a, index = flat(rng, values), whole(rng, values).reshape(-1)[:7]
    ways: tuple[Callable[[], Any], ...] = (
        lambda: a[index],
        lambda: jnp.take(a, index, mode="wrap"),
        lambda: a.at[index].add(1.5),
        lambda: a.at[index].max(0.5, mode="drop"),
        lambda: lax.dynamic_slice(a, index[:1], (max(1, a.size // 2),)),
        lambda: lax.dynamic_update_slice(a, a[:1] + 1, index[:1]),
        lambda: jax.nn.one_hot(index, 4),
    )
    return rng.choice(ways)()


def ordered(rng: random.Random, values: Values) -> Any:
    a = flat(rng, values)
    return rng.choice((jnp.sort, jnp.argsort, lambda x: lax.top_k(x, 1)[0], lambda x: jnp.sort(x)[::-1], jnp.median))(a)


def product(rng: random.Random, values: Values) -> Any:
    a, b = square(rng, values), square(rng, values)
    ways: tuple[Callable[[], Any], ...] = (
        lambda: a @ b,
        lambda: jnp.einsum("ij,kj->ik", a, b),
        lambda: (a.astype(jnp.bfloat16) @ b.astype(jnp.bfloat16)).astype(jnp.float32),
        lambda: lax.conv_general_dilated(a[None, ..., None], b[:3, :3, None, None], (1, 1), "SAME", dimension_numbers=LAST)[0, ..., 0],
        lambda: jnp.linalg.cholesky(jnp.tanh(jnp.nan_to_num(a)) @ jnp.tanh(jnp.nan_to_num(a)).T + 9 * jnp.eye(5)),
        lambda: jnp.abs(jnp.fft.rfft(a)),
    )
    return rng.choice(ways)()


def converted(rng: random.Random, values: Values) -> Any:
    a = jnp.clip(jnp.nan_to_num(real(rng, values)), 0, 100)
    return a.astype(rng.choice((jnp.bfloat16, jnp.float16, jnp.int8, jnp.uint8, jnp.uint32, jnp.int16, jnp.bool_)))


def branched(rng: random.Random, values: Values) -> Any:
    a, test = real(rng, values), jnp.nan_to_num(real(rng, values)).sum() > 0
    if rng.random() < 0.5:
        return lax.cond(test, lambda x: jnp.sin(x) * 2, lambda x: x - 1, a)
    which = whole(rng, values).reshape(-1)[0] % 3
    return lax.switch(which, [jnp.cos, jnp.square, lambda x: jnp.where(x > 0, x, -x)], a)


def looped(rng: random.Random, values: Values) -> Any:
    a, trips = square(rng, values), jnp.abs(whole(rng, values)).reshape(-1)[0] % 6
    if rng.random() < 0.5:
        return lax.fori_loop(0, 4, lambda k, x: jnp.tanh(x @ x * 0.1) + k, a)
    start = (0, lax.stop_gradient(a))  # no gradient goes back through a loop of unknown length
    return lax.while_loop(lambda state: state[0] < trips, lambda state: (state[0] + 1, jnp.tanh(state[1]) + state[0]), start)[1]


def drawn(rng: random.Random, values: Values) -> Any:
    key = jax.random.fold_in(jax.random.key(rng.randrange(99)), whole(rng, values).reshape(-1)[0])
    kind = rng.choice((jax.random.normal, jax.random.uniform, jax.random.gumbel, jax.random.bits))
    return kind(key, (3, 4)).astype(jnp.float32)


OPERATIONS_OF_VALUES: tuple[Operation, ...] = (
    *(unary, unary, integers, binary, binary, reduced, moved, gathered),
    *(ordered, product, converted, branched, looped, drawn),
)
