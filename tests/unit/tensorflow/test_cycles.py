"""The emulated cycles of a loop of TensorFlow are those of the same network in JAX."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tilestep
from tilestep import train
from tilestep.tensorflow import machine
from tilestep.tensorflow.ipu import ipu_compiler, loops
from tilestep.tensorflow.ipu.ipu_infeed_queue import IPUInfeedQueue
from tilestep.tensorflow.ipu.ipu_outfeed_queue import IPUOutfeedQueue

RANDOM = np.random.default_rng(0)
X, Y = RANDOM.random((16, 8), np.float32), RANDOM.random((16, 4), np.float32)
W1, W2 = RANDOM.random((8, 16), np.float32), RANDOM.random((16, 4), np.float32)
STEPS = 5


def test_a_loop_takes_the_cycles_of_the_same_network_in_jax(tf: Any) -> None:
    device = jax.devices("ipu")[0]
    machine.configure((device,), {})
    infeed, outfeed = IPUInfeedQueue(tf.data.Dataset.from_tensors((X, Y)).repeat()), IPUOutfeedQueue()

    def body(x: Any, y: Any) -> Any:
        w1, w2 = tf.get_variable("w1", initializer=tf.constant(W1)), tf.get_variable("w2", initializer=tf.constant(W2))
        loss = tf.reduce_mean((tf.nn.relu(x @ w1) @ w2 - y) ** 2)
        return outfeed.enqueue(loss), tf.train.GradientDescentOptimizer(0.01).minimize(loss)

    run = ipu_compiler.compile(lambda: loops.repeat(STEPS, body, [], infeed))
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
