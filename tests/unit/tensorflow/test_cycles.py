"""The emulated cycles of a loop and of a pipeline of TensorFlow are those of the same network in JAX."""

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import tilestep
from tilestep import train
from tilestep.tensorflow.ipu import pipelining_ops, programs
from tilestep.tensorflow.ipu.config import System, systems
from tilestep.tensorflow.ipu.queues import IPUInfeedQueue, IPUOutfeedQueue

RANDOM = np.random.default_rng(0)
X, Y = RANDOM.random((16, 8), np.float32), RANDOM.random((16, 4), np.float32)
W1, W2 = RANDOM.random((8, 16), np.float32), RANDOM.random((16, 4), np.float32)
STEPS, MICROBATCHES = 5, 4


def test_a_loop_takes_the_cycles_of_the_same_network_in_jax(tf: Any) -> None:
    device = jax.devices("ipu")[0]
    systems[:] = [System(devices=(device,))]
    infeed, outfeed = IPUInfeedQueue(tf.data.Dataset.from_tensors((X, Y)).repeat()), IPUOutfeedQueue()

    def body(x: Any, y: Any) -> Any:
        w1, w2 = tf.get_variable("w1", initializer=tf.constant(W1)), tf.get_variable("w2", initializer=tf.constant(W2))
        loss = tf.reduce_mean((tf.nn.relu(x @ w1) @ w2 - y) ** 2)
        return outfeed.enqueue(loss), tf.train.GradientDescentOptimizer(0.01).minimize(loss)

    run = programs.compile(lambda: programs.repeat(STEPS, body, [], infeed))
    losses = outfeed.dequeue()
    with tf.Session() as session:
        session.run([tf.global_variables_initializer(), infeed.initializer])
        session.run(run)
        session.run(losses)
        with tilestep.profile() as here:
            session.run(run)
            got = session.run(losses)

    queue, out = train.InfeedQueue(lambda: iter(lambda: (X, Y), None)), train.OutfeedQueue()

    def step(weights: Any, x: Any, y: Any) -> Any:
        loss, gradients = jax.value_and_grad(lambda w: jnp.mean((jax.nn.relu(x @ w[0]) @ w[1] - y) ** 2))(weights)
        out.enqueue(loss)
        return jax.tree.map(lambda weight, gradient: weight - 0.01 * gradient, weights, gradients)

    with jax.default_device(device):
        weights = train.repeat(STEPS, step, jax.device_put((W1, W2), device), queue, out)
        out.dequeue()
        with tilestep.profile() as there:
            jax.block_until_ready(train.repeat(STEPS, step, weights, queue, out))
            wanted = out.dequeue()
    queue.close()
    np.testing.assert_allclose(got, wanted, rtol=1e-5)
    cycles = [recording.profile.emulated_cycles for recording in (here, there)]
    assert cycles[0] == pytest.approx(cycles[1], rel=0.03)


def test_a_pipeline_takes_the_cycles_of_the_same_network_in_jax(tf: Any) -> None:
    devices = tuple(jax.devices("ipu")[:2])
    systems[:] = [System(devices=tuple(devices))]
    infeed, outfeed = IPUInfeedQueue(tf.data.Dataset.from_tensors(X).repeat()), IPUOutfeedQueue()

    def first(x: Any) -> Any:
        return tf.nn.relu(x @ tf.get_variable("w1", initializer=tf.constant(W1)))

    def second(hidden: Any) -> Any:
        return tf.reduce_mean((hidden @ tf.get_variable("w2", initializer=tf.constant(W2)) - 1.0) ** 2)

    def net() -> Any:
        return pipelining_ops.pipeline(
            [first, second],
            MICROBATCHES,
            infeed_queue=infeed,
            outfeed_queue=outfeed,
            optimizer_function=lambda loss: pipelining_ops.OptimizerFunctionOutput(tf.train.GradientDescentOptimizer(0.01), loss),
            pipeline_schedule=pipelining_ops.PipelineSchedule.Interleaved,
        )

    run = programs.compile(net)
    losses = outfeed.dequeue()
    with tf.Session() as session:
        session.run([tf.global_variables_initializer(), infeed.initializer])
        for _ in range(2):
            session.run(run)
            session.run(losses)
        with tilestep.profile() as here:
            session.run(run)
            got = session.run(losses)

    queue, out = train.InfeedQueue(lambda: itertools.repeat(X)), train.OutfeedQueue()
    stages = [lambda w, x: jax.nn.relu(x @ w), lambda w, hidden: jnp.mean((hidden @ w - 1.0) ** 2)]
    pipeline = train.Pipeline(
        stages, lambda loss: (optax.sgd(0.01), loss), MICROBATCHES, devices=devices, pipeline_schedule="interleaved", reduction="sum"
    )
    state = pipeline.init([W1, W2])
    for _ in range(2):  # the first call compiles what joins the losses of a call
        state = jax.block_until_ready(pipeline.run(state, queue, out))
        out.dequeue()
    with tilestep.profile() as there:
        jax.block_until_ready(pipeline.run(state, queue, out))
        wanted = out.dequeue()
    queue.close()
    np.testing.assert_allclose(got, np.ravel(wanted), rtol=1e-5)
    cycles = [recording.profile.emulated_cycles for recording in (here, there)]
    assert cycles[0] == pytest.approx(cycles[1], rel=0.03)
