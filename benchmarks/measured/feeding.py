"""What a host feeds and fetches: transfers by themselves, and training with and without them."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.measured.answer import Answer, LeftOut, loop_of, machine_of, numbers, options_of, rate
from benchmarks.measured.predict import predict
from benchmarks.measured.rows import Row
from benchmarks.models import cnn
from benchmarks.models.training import momentum

_RATE = 0.001


def transfer(row: Row) -> Answer | LeftOut | None:
    """Results that go to the host at each call: bytes per second, or the time that they take."""
    megabytes = numbers(r"(\d+)\.(\d) MB", row.shape)
    if megabytes is None or not ("device-to-host" in row.workload or row.workload == "same transfer"):
        return None
    size_bytes = megabytes[0] * 1_000_000 + megabytes[1] * 100_000
    result = jax.ShapeDtypeStruct((size_bytes // 2,), jnp.float16)
    run = predict(lambda x: (x, x + 1), result, machine=machine_of(row))
    return Answer(predicted=rate(row, size_bytes, run.call_seconds - run.seconds), kinds={"host": 1.0})


def small_cnn(row: Row) -> Answer | LeftOut | None:
    """Items per second of training the small CNN; `loop` steps per call from the host."""
    if not row.workload.startswith("small CNN train"):
        return None
    if row.n_ipus > 1:
        return LeftOut(reason="replicas, each fed by the host on its own")
    batch, steps = numbers(r"bs(\d+) x (\d+) device iterations", row.shape) or (16, loop_of(row))  # 'as IO03' says no more
    params = cnn.shapes()
    images = jax.ShapeDtypeStruct((batch, cnn.IMAGE, cnn.IMAGE, 1), jnp.float32)
    labels = jax.ShapeDtypeStruct((batch,), jnp.int32)
    update = functools.partial(momentum, cnn.loss, rate=_RATE)

    def fed(state: Any, *chunks: jax.Array) -> tuple[Any, jax.Array]:
        state, losses = jax.lax.scan(lambda carried, chunk: update(carried, *chunk), state, chunks)
        return state, losses[-1]

    def synthetic(state: Any) -> tuple[Any, jax.Array]:
        trained, chunk = state
        trained, losses = jax.lax.scan(lambda carried, _: update(carried, *chunk), trained, length=steps)
        return (trained, chunk), losses[-1]

    machine, options = machine_of(row), options_of(row.conditions)
    if "synthetic" in row.workload:
        run = predict(synthetic, ((params, params), (images, labels)), machine=machine, options=options)
        return Answer(predicted=rate(row, batch * steps, run.seconds), prediction=run)
    chunks = [jax.ShapeDtypeStruct((steps, *one.shape), one.dtype) for one in (images, labels)]
    run = predict(fed, (params, params), chunks, machine=machine, options=options)
    return Answer(predicted=rate(row, batch * steps, run.call_seconds), prediction=run, with_host=True)
