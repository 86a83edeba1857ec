"""Random numbers: every generator, and each way to a distribution, draws the very numbers that it draws on the CPU."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax._src.random import prng
from jax.extend import random as extended

from .case import OpCase, real

KEY_TYPES = tuple(prng.prngs)  # the newer ones are not in every JAX
DEFAULT = "threefry2x32"
KINDS = (DEFAULT, "rbg")  # the others run in the long form of the tests
SEED = np.uint32(42)
LONG = ("poisson", "gamma")
DISTRIBUTIONS: dict[str, Callable[[jax.Array], Any]] = {
    "categorical": lambda k: jax.random.categorical(k, jnp.log(jnp.array([0.1, 0.2, 0.7])), shape=(9,)),
    "gamma": lambda k: jax.random.gamma(k, jnp.array([0.5, 1.0, 7.0])),
    "normal": lambda k: (jax.random.normal(k, (9,)), jax.random.normal(k, (4,), jnp.bfloat16), jax.random.normal(k, (4,), np.complex64)),
    "permutation": lambda k: (jax.random.permutation(k, 20), jax.random.permutation(k, jnp.eye(3), axis=1, independent=True)),
    "poisson": lambda k: jax.random.poisson(k, jnp.array([0.5, 3.0, 40.0])),
    "randint": lambda k: (jax.random.randint(k, (9,), -5, 50), jax.random.randint(k, (9,), 0, 200, np.uint8)),
    "uniform": lambda k: (jax.random.uniform(k, (9,)), jax.random.uniform(k, (9,), np.float16, -3, 3)),
}


def keys(kind: str) -> OpCase:
    def fn(seed: jax.Array) -> Any:
        key = jax.random.key(seed, impl=kind)
        left, right = jax.random.split(key)
        return key, left, jax.random.fold_in(right, 7), jax.random.key_data(key), jax.random.clone(left)

    return OpCase(f"keys, {kind}", fn, SEED, only=None if kind == DEFAULT else "jit", long=kind not in KINDS)


def bits(kind: str) -> OpCase:
    def fn(seed: jax.Array) -> Any:
        key = jax.random.key(seed, impl=kind)
        wide = [jax.random.bits(key, (5,), dtype) for dtype in (np.uint8, np.uint16, np.uint32, np.uint64)]
        return wide, jax.random.uniform(key, (7,)), jax.random.normal(key, (3, 2))

    return OpCase(f"bits, {kind}", fn, SEED, x64=True, only=None if kind == DEFAULT else "jit", long=kind not in KINDS)


CASES = (
    *(keys(kind) for kind in KEY_TYPES),
    *(bits(kind) for kind in KEY_TYPES),
    OpCase("keys of old", lambda seed: (jax.random.PRNGKey(seed), jax.random.split(jax.random.PRNGKey(seed))), SEED),
    OpCase(
        "keys as arrays",
        lambda seed: (lambda k: (k[1:], k.reshape(2, 2), jnp.where(True, k, k[::-1]), k == k[0]))(
            jax.random.split(jax.random.key(seed), 4)
        ),
        SEED,
    ),
    OpCase("threefry, many", lambda seed: jax.random.bits(jax.random.key(seed), (1000, 33)), SEED),
    OpCase("threefry_2x32", lambda seed: extended.threefry_2x32(jnp.stack([seed, seed]), jnp.arange(8, dtype=np.uint32)), SEED),
    *(
        OpCase(f"random, {name}", lambda seed, draw=draw: draw(jax.random.key(seed)), SEED, only="jit", long=name in LONG)
        for name, draw in DISTRIBUTIONS.items()
    ),
    OpCase(
        "random, eagerly",
        lambda seed: (jax.random.normal(jax.random.key(seed), (4,)), jax.random.permutation(jax.random.key(seed), 6)),
        SEED,
        only="eager",
    ),
    OpCase(
        "random gamma, derivative",
        lambda a, seed: jax.random.gamma(jax.random.key(seed), a),
        real(3, low=0.5, high=3),
        SEED,
        grad=(0,),
        long=True,
    ),
    *(
        OpCase(
            f"rng_bit_generator, {a.name}", lambda key, a=a: lax.rng_bit_generator(key, (7,), np.uint32, a), np.arange(4, dtype=np.uint32)
        )
        for a in (lax.RandomAlgorithm.RNG_DEFAULT, lax.RandomAlgorithm.RNG_PHILOX)
    ),
)
