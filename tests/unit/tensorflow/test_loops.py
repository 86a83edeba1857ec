"""`loops.repeat` and `while_loop` with their feeds: values against plain TensorFlow, replicas, accumulation, and what is refused."""

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tilestep.errors import DatasetError, QueueError, UnsupportedError
from tilestep.tensorflow.ipu import optimizers, programs
from tilestep.tensorflow.ipu.config import IPUConfig
from tilestep.tensorflow.ipu.ops import cross_replica_sum
from tilestep.tensorflow.ipu.optimizers import GradientAccumulationReductionMethod as Method
from tilestep.tensorflow.ipu.queues import IPUInfeedQueue, IPUOutfeedMode, IPUOutfeedQueue

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(96, 5)).astype(np.float32)
Y = RANDOM.normal(size=(96, 1)).astype(np.float32)
SIZE = 4


def compiled(function: Callable[..., Any], inputs: Any = ()) -> Any:
    with programs.ipu_scope("/device:IPU:0"):
        return programs.compile(function, inputs)


def batches(tf: Any, size: int = SIZE) -> Any:
    return tf.data.Dataset.from_tensor_slices((X, Y)).repeat().batch(size, drop_remainder=True)


def network(tf: Any, x: Any, y: Any) -> Any:
    with tf.variable_scope("net", reuse=tf.AUTO_REUSE, use_resource=True):
        hidden = tf.nn.tanh(x @ tf.get_variable("w1", (5, 8), initializer=tf.glorot_uniform_initializer(seed=1)))
        return tf.reduce_mean((hidden @ tf.get_variable("w2", (8, 1), initializer=tf.glorot_uniform_initializer(seed=2)) - y) ** 2)


def losses_here(tf: Any, optimizer: Callable[[], Any], *, steps: int, calls: int, replicas: int = 1, size: int = SIZE) -> Any:
    """[calls * steps] or [calls * steps, replicas] losses of a loop, and all variables at its end."""
    config = IPUConfig()
    config.auto_select_ipus = replicas
    config.configure_ipu_system()
    infeed, outfeed = IPUInfeedQueue(batches(tf, size)), IPUOutfeedQueue()

    def body(x: Any, y: Any) -> Any:
        loss = network(tf, x, y)
        return outfeed.enqueue(loss), optimizer().minimize(loss)

    run = compiled(lambda: programs.repeat(steps, body, [], infeed))
    losses = outfeed.dequeue()
    with tf.Session() as session:
        session.run([tf.global_variables_initializer(), infeed.initializer])
        got = []
        for _ in range(calls):
            session.run(run)
            got.append(session.run(losses))
        return np.concatenate(got), {each.name: session.run(each) for each in tf.trainable_variables()}


def by_plain_tensorflow(tf: Any, optimizer: Callable[[], Any], *, updates: int, size: int) -> Any:
    """The same by one large batch for each update."""
    x, y = batches(tf, size).make_one_shot_iterator().get_next()
    loss = network(tf, x, y)
    train = optimizer().minimize(loss)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        got = [session.run([loss, train])[0] for _ in range(updates)]
        return np.array(got), {each.name: session.run(each) for each in tf.trainable_variables()}


def optimizer_of(tf: Any, name: str) -> Callable[[], Any]:
    kinds = {
        "sgd": lambda: tf.train.GradientDescentOptimizer(0.1),
        "momentum": lambda: tf.train.MomentumOptimizer(0.05, 0.9),
        "adam": lambda: tf.train.AdamOptimizer(0.01),
        "rmsprop": lambda: tf.train.RMSPropOptimizer(0.01),
        "adagrad": lambda: tf.train.AdagradOptimizer(0.1),
    }
    return kinds[name]


def same(got: Any, wanted: Any) -> None:
    for name, value in wanted.items():
        np.testing.assert_allclose(got[name], value, rtol=1e-5, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("name", ["sgd", "momentum", "adam", "rmsprop", "adagrad"])
def test_a_loop_trains_as_plain_tensorflow_with_slots_that_last_from_call_to_call(tf: Any, name: str) -> None:
    wanted, weights = by_plain_tensorflow(tf, optimizer_of(tf, name), updates=12, size=SIZE)
    with tf.Graph().as_default():
        got, own = losses_here(tf, optimizer_of(tf, name), steps=4, calls=3)
    np.testing.assert_allclose(got, wanted, rtol=1e-5)
    same(own, weights)


@pytest.mark.parametrize("replicas", [2, 4])
def test_replicas_with_the_mean_of_gradients_train_as_one_large_batch(tf: Any, replicas: int) -> None:
    wanted, weights = by_plain_tensorflow(tf, optimizer_of(tf, "momentum"), updates=6, size=replicas * SIZE)
    with tf.Graph().as_default():
        inner = optimizer_of(tf, "momentum")
        got, own = losses_here(tf, lambda: optimizers.CrossReplicaOptimizer(inner()), steps=3, calls=2, replicas=replicas)
    assert got.shape == (6, replicas)
    np.testing.assert_allclose(got.mean(1), wanted, rtol=1e-5)
    same(own, weights)


@pytest.mark.parametrize("method", [Method.SUM, "mean", Method.RUNNING_MEAN])
def test_accumulated_gradients_train_as_one_large_batch(tf: Any, method: Any) -> None:
    rate = 0.05 / (3 if method is Method.SUM else 1)  # the sum is three times the mean
    wanted, weights = by_plain_tensorflow(tf, lambda: tf.train.GradientDescentOptimizer(0.05), updates=4, size=3 * SIZE)
    with tf.Graph().as_default():

        def optimizer() -> Any:
            inner = tf.train.GradientDescentOptimizer(rate)
            return optimizers.GradientAccumulationOptimizerV2(inner, 3, reduction_method=method)

        got, own = losses_here(tf, optimizer, steps=6, calls=2)
    np.testing.assert_allclose(got.reshape(4, 3).mean(1), wanted, rtol=1e-5)
    same(own, weights)


@pytest.mark.parametrize("offload", [None, False])
def test_accumulated_adam_of_replicas_keeps_its_slots_between_calls(tf: Any, offload: bool | None) -> None:
    wanted, weights = by_plain_tensorflow(tf, optimizer_of(tf, "adam"), updates=4, size=4 * SIZE)
    with tf.Graph().as_default():

        def optimizer() -> Any:
            options = {"offload_weight_update_variables": offload, "reduction_method": "MEAN"}
            return optimizers.CrossReplicaGradientAccumulationOptimizerV2(tf.train.AdamOptimizer(0.01), 2, **options)

        got, own = losses_here(tf, optimizer, steps=4, calls=2, replicas=2)
    np.testing.assert_allclose(got.reshape(4, 4).mean(1), wanted, rtol=1e-5)
    same(own, weights)


def cast_gradients_sgd(tf: Any) -> Any:
    """The optimiser of TensorFlow for the IPU's documentation, as it stands there."""

    class CastGradientsSGD(tf.keras.optimizers.SGD):
        def apply_gradients(self, grads_and_vars, name=None):
            cast_grads_and_vars = [(tf.cast(g, v.dtype), v) for (g, v) in grads_and_vars]
            return super().apply_gradients(cast_grads_and_vars, name)

    return CastGradientsSGD


def test_accumulators_of_another_dtype_and_an_optimizer_that_casts(tf: Any) -> None:
    def body() -> Any:
        weight = tf.get_variable("w", (), tf.float16, initializer=tf.zeros_initializer())
        inner = cast_gradients_sgd(tf)(1.0)
        optimizer = optimizers.GradientAccumulationOptimizerV2(inner, 2048, dtype=lambda variable: tf.float32)
        return optimizer.minimize(-weight * tf.constant(0.001, tf.float16))

    run = compiled(lambda: programs.repeat(2048, body))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(run)  # in float16 it would be some 4 % less
        assert session.run(tf.trainable_variables()[0]) == pytest.approx(2048 * float(np.float16(0.001)), rel=1e-3)


@pytest.mark.parametrize("name", ["SGD", "Adam"])
def test_an_optimizer_of_keras_trains_in_a_loop_with_replicas(tf: Any, name: str) -> None:
    plain = tf.train.GradientDescentOptimizer if name == "SGD" else tf.train.AdamOptimizer
    wanted, weights = by_plain_tensorflow(tf, lambda: plain(0.05), updates=6, size=2 * SIZE)
    with tf.Graph().as_default():
        options = {} if name == "SGD" else {"epsilon": 1e-8}

        def optimizer() -> Any:
            return optimizers.CrossReplicaOptimizer(getattr(tf.keras.optimizers, name)(0.05, **options))

        got, own = losses_here(tf, optimizer, steps=3, calls=2, replicas=2)
    np.testing.assert_allclose(got.mean(1), wanted, rtol=1e-5)
    same(own, weights)


def test_two_replicas_take_successive_elements_and_each_says_its_values(tf: Any) -> None:
    """The example of the original's tests: v = sum over replicas of v + x, of 0, 1, 2, 0, 1, 2, ..."""
    config = IPUConfig()
    config.auto_select_ipus = 2
    config.configure_ipu_system()
    infeed = IPUInfeedQueue(tf.data.Dataset.range(3).map(lambda value: tf.cast(value, tf.float32)).repeat())
    outfeed = IPUOutfeedQueue()

    def body(value: Any, x: Any) -> Any:
        value = cross_replica_sum(value + x)
        return value, outfeed.enqueue(value)

    run = compiled(lambda: programs.repeat(5, body, [0.0], infeed))
    values = outfeed.dequeue()
    with tf.Session() as session:
        session.run(infeed.initializer)
        assert session.run(run) == [48]
        assert session.run(values).tolist() == [[1, 1], [4, 4], [11, 11], [23, 23], [48, 48]]


def test_elements_that_are_dicts_are_keyword_arguments_and_values_come_out_with_their_structure(tf: Any) -> None:
    infeed = IPUInfeedQueue(tf.data.Dataset.from_tensors({"a": 1.0, "b": np.int64(2)}).repeat())
    all_steps, last = IPUOutfeedQueue(), IPUOutfeedQueue(IPUOutfeedMode.LAST)

    def net(outfeed: IPUOutfeedQueue) -> Any:
        def body(total: Any, a: Any, b: Any) -> Any:
            total = total + a
            return total, outfeed.enqueue({"total": total, "pair": (a, b)})

        return programs.repeat(3, body, [10.0], infeed)

    runs = [compiled(lambda queue=queue: net(queue)) for queue in (all_steps, last)]
    every, newest = all_steps.dequeue(), last.dequeue()
    with tf.Session() as session:
        session.run(infeed.initializer)
        assert session.run(every)["total"].shape == (0,)
        with pytest.raises(QueueError, match="nothing new"):
            session.run(newest)
        session.run(runs)
        got = session.run(every)
        assert got["total"].tolist() == [11, 12, 13]
        assert (got["pair"][1].tolist(), got["pair"][1].dtype) == ([2, 2, 2], np.int64)
        assert session.run(newest)["total"] == 13
        assert session.run(every)["total"].shape == (0,)  # each value comes once


def test_a_body_may_send_to_several_queues(tf: Any) -> None:
    values, squares, newest = IPUOutfeedQueue(), IPUOutfeedQueue(), IPUOutfeedQueue(IPUOutfeedMode.LAST)

    def body(value: Any) -> Any:
        sent = [values.enqueue(value), squares.enqueue({"square": value**2, "both": (value, -value)}), newest.enqueue(value)]
        return value + 1.0, *sent

    run = compiled(lambda: programs.repeat(3, body, [1.0]))
    outside = [queue.dequeue() for queue in (values, squares, newest)]
    assert values.enqueued
    with tf.Session() as session:
        session.run(run)
        assert session.run(outside[1])["square"].tolist() == [1, 4, 9]
        assert (session.run(outside[0]).tolist(), session.run(outside[2])) == ([1, 2, 3], 3)
        session.run(run)
        session.run(run)
        assert session.run(outside[1])["both"][1].tolist() == [-1, -2, -3] * 2
        assert session.run(outside[0]).tolist() == [1, 2, 3] * 2
        session.run(outside[2])
        with pytest.raises(QueueError, match="nothing new"):
            session.run(outside[2])


def test_two_sessions_at_once_have_variables_of_their_own(tf: Any) -> None:
    def body() -> Any:
        weight = tf.get_variable("w", (), initializer=tf.zeros_initializer())
        return weight.assign_add(1.0).op

    run = compiled(lambda: programs.repeat(50, body))
    init, weight = tf.global_variables_initializer(), tf.global_variables()[0]
    with tf.Session() as first, tf.Session() as second:
        for session in (first, second):
            session.run(init)

        def several(session: Any, count: int) -> None:
            for _ in range(count):
                session.run(run)

        threads = [threading.Thread(target=several, args=(first, 5)), threading.Thread(target=several, args=(second, 9))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert (first.run(weight), second.run(weight)) == (250, 450)


def test_a_while_loop_ends_by_its_condition_or_its_bound(tf: Any) -> None:
    bound = tf.placeholder(tf.int32, ())
    step = compiled(lambda most: programs.while_loop(lambda k: k < most, lambda k: k + 2, [0]), [bound])
    few = compiled(lambda: programs.while_loop(lambda k: k < 100, lambda k: k + 2, [0], maximum_iterations=3))
    with tf.Session() as session:
        assert session.run([*step, *few], {bound: 5}) == [6, 6]


def test_loops_stand_one_after_the_other_with_operations_between_them_and_inside_of_each_other(tf: Any) -> None:
    def net(x: Any) -> Any:
        first = programs.repeat(3, lambda v: v + 1.0, [x * 2.0])
        second = programs.repeat(2, lambda v, w: (programs.repeat(2, lambda u: u * w, [v]), w), [first + 0.5, tf.constant(2.0)])
        return second[0] - x, tf.while_loop(lambda k: k < 10.0, lambda k: k * 3.0, [second[1]])

    x = tf.placeholder(tf.float32, ())
    run = compiled(net, [x])
    with tf.Session() as session:
        value, other = session.run(run, {x: 1.0})
    assert (value, other) == (5.5 * 16 - 1, 18)


def test_the_learning_rate_is_an_input_of_each_call(tf: Any) -> None:
    rate = tf.placeholder(tf.float32, ())

    def net(rate: Any) -> Any:
        def body() -> Any:
            weight = tf.get_variable("w", (), initializer=tf.zeros_initializer())
            optimizer = optimizers.GradientAccumulationOptimizerV2(tf.train.GradientDescentOptimizer(rate * 2.0), 2)
            return optimizer.apply_gradients([(tf.constant(-1.0), weight)])

        return programs.repeat(2, body)

    run = compiled(net, [rate])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(run, {rate: 0.5})
        session.run(run, {rate: 1.0})
        assert session.run(tf.global_variables()[0]) == 2 * (0.5 * 2 + 1.0 * 2)


def test_a_dataset_that_ends_leaves_session_and_variables_as_after_the_last_step(tf: Any) -> None:
    infeed = IPUInfeedQueue(tf.data.Dataset.from_tensor_slices(np.ones(3, np.float32)))

    def body(x: Any) -> Any:
        return tf.get_variable("w", (), initializer=tf.zeros_initializer()).assign_add(x).op

    run = compiled(lambda: programs.repeat(2, body, [], infeed))
    with tf.Session() as session:
        session.run([tf.global_variables_initializer(), infeed.initializer])
        session.run(run)
        with pytest.raises(DatasetError, match="the dataset ended after 3 elements: the loop needs more"):
            session.run(run)
        assert session.run(tf.global_variables()[0]) == 2


def test_what_does_not_go_together_is_refused_before_anything_runs(tf: Any) -> None:
    infeed = IPUInfeedQueue(tf.data.Dataset.from_tensors(1.0).repeat())
    with pytest.raises(ValueError, match="drop_remainder=True"):
        IPUInfeedQueue(tf.data.Dataset.range(5).batch(2))
    with pytest.raises(ValueError, match="prefetch_depth is 256"):
        IPUInfeedQueue(tf.data.Dataset.range(5), prefetch_depth=256)
    with pytest.raises(UnsupportedError, match=r"loops\.repeat was called outside of ipu_compiler\.compile"):
        programs.repeat(2, lambda: None)
    with pytest.raises(TypeError, match=r"body .* cannot take the 2 arguments of a step"):
        compiled(lambda: programs.repeat(2, lambda a: a, [1.0], infeed))
    with pytest.raises(TypeError, match=r"returns 1 tensors of \['int32\[\]'\], but the 1 carried ones are \['float32\[\]'\]"):
        compiled(lambda: programs.repeat(2, lambda a: tf.cast(a, tf.int32), [1.0]))
    with pytest.raises(ValueError, match="returns a node before a tensor"):
        compiled(lambda: programs.repeat(2, lambda a: (tf.no_op(), a), [1.0]))
    outfeed = IPUOutfeedQueue()
    with pytest.raises(ValueError, match="before any program that enqueues"):
        outfeed.dequeue()
    with pytest.raises(ValueError, match="called twice in one body"):
        compiled(lambda: programs.repeat(2, lambda: (outfeed.enqueue(tf.ones(())), outfeed.enqueue(tf.ones(())))))
    with pytest.raises(ValueError, match="outside of a loop's body"):
        outfeed.enqueue(tf.ones(()))
    run = compiled(lambda: programs.repeat(2, lambda x: None, [], infeed))
    with tf.Session() as session, pytest.raises(QueueError, match=r"session\.run\(queue\.initializer\) comes before"):
        session.run(run)
    assert isinstance(infeed.initializer, tf.Operation)
    with pytest.raises(ValueError, match="can be got once"):
        _ = infeed.initializer


@pytest.mark.parametrize(
    ("steps", "found"), [(5, "accumulates 2 steps, and the loop has 5: give it a multiple of 2"), (None, "works in loops.repeat")]
)
def test_accumulation_needs_a_loop_of_a_multiple_of_its_count(tf: Any, steps: int | None, found: str) -> None:
    def body() -> Any:
        weight = tf.get_variable("w", (), initializer=tf.zeros_initializer())
        return optimizers.GradientAccumulationOptimizer(tf.train.GradientDescentOptimizer(1.0), 2).minimize(weight**2)

    with pytest.raises(tf.errors.FailedPreconditionError, match=found):
        compiled(body if steps is None else lambda: programs.repeat(steps, body))
    with pytest.raises(ValueError, match=r"GradientDescentOptimizer and MomentumOptimizer alone, not AdamOptimizer: use"):
        optimizers.GradientAccumulationOptimizer(tf.train.AdamOptimizer(), 2)


def test_bad_arguments_of_a_scope_and_an_outfeed_are_refused() -> None:
    with pytest.raises(TypeError, match=r"ipu_scope got 0: it must be the name of a device"), programs.ipu_scope(0):  # type: ignore[arg-type]
        pass
    with pytest.raises(ValueError, match="buffer_depth"):
        IPUOutfeedQueue(buffer_depth=0)
    with pytest.raises(ValueError, match="outfeed_mode is 'all'"):
        IPUOutfeedQueue("all")  # type: ignore[arg-type]
