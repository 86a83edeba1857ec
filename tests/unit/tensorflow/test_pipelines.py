"""`pipelining_ops.pipeline`: its values are those of plain TensorFlow on one large batch, with each schedule."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.unit.tensorflow.test_loops import cast_gradients_sgd
from tilestep.errors import UnsupportedError
from tilestep.tensorflow.ipu import optimizers, pipelining_ops, programs
from tilestep.tensorflow.ipu.config import IPUConfig
from tilestep.tensorflow.ipu.pipelining_ops import OptimizerFunctionOutput, PipelineSchedule
from tilestep.tensorflow.ipu.queues import IPUInfeedQueue, IPUOutfeedQueue

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(96, 5)).astype(np.float32)
Y = RANDOM.normal(size=(96, 1)).astype(np.float32)
SIZE, COUNT = 4, 4


def batches(tf: Any, size: int = SIZE) -> Any:
    return tf.data.Dataset.from_tensor_slices((X, Y)).repeat().batch(size, drop_remainder=True)


def first(tf: Any, x: Any) -> Any:
    with tf.variable_scope("net", reuse=tf.AUTO_REUSE, use_resource=True):
        return tf.nn.tanh(x @ tf.get_variable("w1", (5, 8), initializer=tf.glorot_uniform_initializer(seed=1)))


def second(tf: Any, hidden: Any, y: Any) -> Any:
    with tf.variable_scope("net", reuse=tf.AUTO_REUSE, use_resource=True):
        return tf.reduce_mean((hidden @ tf.get_variable("w2", (8, 1), initializer=tf.glorot_uniform_initializer(seed=2)) - y) ** 2)


def trained(tf: Any, optimizer: Callable[[Any], Any], *, calls: int = 2, ipus: int = 2, recompute: bool = False, **options: Any) -> Any:
    """(losses, variables) of a pipeline of two stages."""
    config = IPUConfig()
    config.auto_select_ipus = ipus
    config.allow_recompute = recompute
    config.configure_ipu_system()
    infeed, outfeed = IPUInfeedQueue(batches(tf)), IPUOutfeedQueue()

    def net(rate: Any) -> Any:
        return pipelining_ops.pipeline(
            [lambda rate, x, y: (rate, first(tf, x), y), lambda rate, hidden, y: (rate, second(tf, hidden, y))],
            gradient_accumulation_count=COUNT,
            inputs=[rate],
            infeed_queue=infeed,
            outfeed_queue=outfeed,
            optimizer_function=lambda rate, loss: OptimizerFunctionOutput(optimizer(rate), loss),
            outfeed_loss=True,
            reduction_method="mean",
            **options,
        )

    rate = tf.placeholder(tf.float32, ())
    with programs.ipu_scope("/device:IPU:0"):
        run = programs.compile(net, [rate])
    losses = outfeed.dequeue()
    with tf.Session() as session:
        session.run([tf.global_variables_initializer(), infeed.initializer])
        got = []
        for _ in range(calls):
            session.run(run, {rate: 0.05})
            got.append(session.run(losses))
        return np.concatenate(got), {each.name: session.run(each) for each in tf.trainable_variables()}


def by_plain_tensorflow(tf: Any, optimizer: Callable[[Any], Any], *, updates: int, size: int) -> Any:
    x, y = batches(tf, size).make_one_shot_iterator().get_next()
    loss = second(tf, first(tf, x), y)
    train = optimizer(0.05).minimize(loss)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        got = [session.run([loss, train])[0] for _ in range(updates)]
        return np.array(got), {each.name: session.run(each) for each in tf.trainable_variables()}


def same(got: Any, wanted: Any) -> None:
    for name, value in wanted.items():
        np.testing.assert_allclose(got[name], value, rtol=1e-5, atol=1e-6, err_msg=name)


OPTIMIZERS = {
    "momentum": lambda tf: lambda rate: tf.train.MomentumOptimizer(rate, 0.9),
    "adam": lambda tf: lambda rate: tf.train.AdamOptimizer(rate),
    "adagrad": lambda tf: lambda rate: tf.train.AdagradOptimizer(rate),
}


@pytest.mark.parametrize(
    ("schedule", "name"), [(None, "momentum"), (PipelineSchedule.Interleaved, "adam"), (PipelineSchedule.Sequential, "adagrad")]
)
def test_a_pipeline_trains_as_one_large_batch(tf: Any, schedule: Any, name: str) -> None:
    wanted, weights = by_plain_tensorflow(tf, OPTIMIZERS[name](tf), updates=4, size=COUNT * SIZE)
    with tf.Graph().as_default():
        got, own = trained(tf, OPTIMIZERS[name](tf), repeat_count=2, pipeline_schedule=schedule, recompute=name == "adam")
    np.testing.assert_allclose(got.reshape(4, COUNT).mean(1), wanted, rtol=1e-5)
    same(own, weights)


def test_an_optimizer_of_keras_that_casts_gradients_trains_a_pipeline(tf: Any) -> None:
    wanted, weights = by_plain_tensorflow(tf, tf.train.GradientDescentOptimizer, updates=4, size=COUNT * SIZE)
    with tf.Graph().as_default():
        got, own = trained(tf, cast_gradients_sgd(tf), repeat_count=2, gradient_accumulation_dtype=tf.float32)
    np.testing.assert_allclose(got.reshape(4, COUNT).mean(1), wanted, rtol=1e-5)
    same(own, weights)


def test_an_accumulating_optimizer_does_not_go_with_a_pipeline(tf: Any) -> None:
    with pytest.raises(tf.errors.FailedPreconditionError, match="a pipeline accumulates by itself"):
        trained(tf, lambda rate: optimizers.GradientAccumulationOptimizerV2(tf.train.GradientDescentOptimizer(rate), 2))


def test_concurrent_stages_get_the_same_and_their_outputs_are_joined(tf: Any) -> None:
    config = IPUConfig()
    config.auto_select_ipus = 4
    config.configure_ipu_system()
    infeed, outfeed = IPUInfeedQueue(tf.data.Dataset.range(9).map(lambda k: tf.cast(k, tf.float32))), IPUOutfeedQueue()

    def net() -> Any:
        return pipelining_ops.pipeline(
            [lambda x: x + 1.0, [lambda x: x * 2.0, lambda x: (x * 3.0, x)], lambda a, b, c: (a + b, c)],
            gradient_accumulation_count=9,
            infeed_queue=infeed,
            outfeed_queue=outfeed,
            device_mapping=[0, [1, 2], 2],
        )

    run = programs.compile(net)
    values = outfeed.dequeue()
    with tf.Session() as session:
        session.run(infeed.initializer)
        session.run(run)
        sums, last = session.run(values)
    assert sums.tolist() == [5.0 * (k + 1) for k in range(9)]
    assert last.tolist() == [k + 1 for k in range(9)]


def test_concurrent_stages_train_as_the_same_network_without_stages(tf: Any) -> None:
    """The shape of TensorFlow's own example: stage 1 is two stages side by side, and stage 2 is on the IPU of one of them."""
    config = IPUConfig()
    config.auto_select_ipus = 4
    config.configure_ipu_system()

    def weight(name: str) -> Any:
        with tf.variable_scope("net", reuse=tf.AUTO_REUSE, use_resource=True):
            return tf.get_variable(name, (5, 5), initializer=tf.glorot_uniform_initializer(seed=len(name)))

    stages = [
        lambda x, y: (x @ weight("w"), y),
        [lambda h, y: (tf.tanh(h @ weight("wa")), y), lambda h, y: tf.tanh(h @ weight("wab"))],
        lambda a, y, b: ((a - b) @ weight("wabc"), y),
        lambda h, y: tf.reduce_mean((h - y) ** 2),
    ]
    infeed = IPUInfeedQueue(batches(tf))

    def net() -> Any:
        return pipelining_ops.pipeline(
            stages,
            2 * COUNT,
            infeed_queue=infeed,
            optimizer_function=lambda loss: OptimizerFunctionOutput(tf.train.GradientDescentOptimizer(0.1), loss),
            device_mapping=[0, [1, 2], 2, 3],
            reduction_method="mean",
        )

    run = programs.compile(net)
    variables = tf.trainable_variables()
    hidden, target = stages[0](tf.constant(X[: 2 * SIZE * COUNT]), tf.constant(Y[: 2 * SIZE * COUNT]))
    left, right = stages[1]
    plain = stages[3](*stages[2](*left(hidden, target), right(hidden, target)))
    step = tf.train.GradientDescentOptimizer(0.1).minimize(plain)
    got = []
    for train in (run, step):
        with tf.Session() as session:
            session.run([tf.global_variables_initializer(), infeed.initializer] if not got else tf.global_variables_initializer())
            session.run(train)
            got.append(session.run(variables))
    for ours, wanted in zip(*got, strict=True):
        np.testing.assert_allclose(ours, wanted, rtol=1e-5, atol=1e-6)


def test_a_stage_with_a_tensor_from_outside_names_the_way_out(tf: Any) -> None:
    rate = tf.placeholder(tf.float32, (), name="rate")
    with pytest.raises(UnsupportedError, match=r"uses tensor rate:0 from outside of it: give it to pipeline\(inputs="):
        programs.compile(lambda: pipelining_ops.pipeline([lambda: rate + 1.0], gradient_accumulation_count=1))


def test_a_stage_that_enqueues_names_the_way_out(tf: Any) -> None:
    outfeed = IPUOutfeedQueue()
    with pytest.raises(UnsupportedError, match=r"stage .* calls IPUOutfeedQueue\.enqueue\(\): return the values from the last stage"):
        programs.compile(lambda: pipelining_ops.pipeline([lambda x: (x, outfeed.enqueue(x))[0]], 2, inputs=[1.0]))

    def net(optimizer_function: Any) -> Any:
        stages = [lambda x: x * tf.get_variable("v", (), use_resource=True), lambda x: x]
        return pipelining_ops.pipeline(stages, 3, inputs=[1.0], optimizer_function=optimizer_function)

    with pytest.raises(TypeError, match=r"the optimizer function returns NoneType: it must return an OptimizerFunctionOutput"):
        programs.compile(lambda: net(lambda y: None))
    config = IPUConfig()
    config.auto_select_ipus = 2
    config.configure_ipu_system()
    with tf.Graph().as_default(), pytest.raises(ValueError, match=r"3, which must be a multiple of 4: 4\. 4 is twice the 2 stages"):
        programs.compile(lambda: net(lambda y: OptimizerFunctionOutput(tf.train.GradientDescentOptimizer(0.1), y)))


def test_statistics_that_a_stage_updates_are_variables_of_the_session_and_can_be_assigned(tf: Any) -> None:
    config = IPUConfig()
    config.auto_select_ipus = 4
    config.configure_ipu_system()
    infeed = IPUInfeedQueue(tf.data.Dataset.range(100).map(lambda k: tf.cast(k, tf.float32)))

    def count(x: Any) -> Any:
        seen = tf.get_variable("seen", (), initializer=tf.zeros_initializer(), trainable=False)
        with tf.control_dependencies([seen.assign_add(1.0)]):
            return x * tf.get_variable("w", (), initializer=tf.ones_initializer())

    def net() -> Any:
        return pipelining_ops.pipeline(
            [count, lambda y: y],
            gradient_accumulation_count=4,
            infeed_queue=infeed,
            optimizer_function=lambda y: OptimizerFunctionOutput(tf.train.GradientDescentOptimizer(0.0), y),
        )

    run = programs.compile(net)
    (seen,) = (each for each in tf.global_variables() if each.op.name == "seen")
    with tf.Session() as session:
        session.run([tf.global_variables_initializer(), infeed.initializer])
        session.run(run)
        assert session.run(seen) == 4  # of each of the two replicas
        session.run(run)
        session.run(seen.assign(100.0))
        session.run(run)
        assert session.run(seen) == 104


def test_optimizers_of_keras_train_in_a_pipeline(tf: Any) -> None:
    wanted, weights = by_plain_tensorflow(tf, tf.train.AdamOptimizer, updates=6, size=SIZE * COUNT)
    with tf.Graph().as_default():
        made = tf.keras.optimizers.Adam(0.05, epsilon=1e-8)
        got, own = trained(tf, lambda rate: made, repeat_count=3)
    np.testing.assert_allclose(got.reshape(6, COUNT).mean(1), wanted, rtol=1e-5)
    for name, value in weights.items():
        np.testing.assert_allclose(own[name], value, rtol=1e-5, atol=1e-6)
