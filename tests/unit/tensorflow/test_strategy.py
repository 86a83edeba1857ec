"""`IPUStrategy.run`: loops, feeds, variables and what is refused, against plain TensorFlow."""

import gc
import itertools
import os
import signal
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from tilestep.errors import DatasetError, LoopInterrupt, UnsupportedError
from tilestep.tensorflow.ipu import optimizers, programs
from tilestep.tensorflow.ipu.config import IPUConfig, systems
from tilestep.tensorflow.ipu.ops import cross_replica_sum
from tilestep.tensorflow.ipu.queues import IPUInfeedQueue, IPUOutfeedMode, IPUOutfeedQueue
from tilestep.tensorflow.ipu.strategy import IPUStrategy
from tilestep.tensorflow.untyped import tf
from tilestep.train.loop.session import Session

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(64, 5)).astype(np.float32)
Y = RANDOM.integers(0, 3, 64).astype(np.int32)
W = RANDOM.normal(size=(5, 3)).astype(np.float32)


@pytest.fixture
def strategy(caplog: pytest.LogCaptureFixture) -> Iterator[Any]:
    """A strategy; TensorFlow has nothing to say about what runs with it, such as functions that AutoGraph does not understand."""
    tf.get_logger().addHandler(caplog.handler)
    with IPUStrategy().scope() as strategy:
        yield strategy
    systems.clear()
    tf.get_logger().removeHandler(caplog.handler)
    assert not caplog.get_records("call")


def batches(size: int = 4) -> Any:
    return tf.data.Dataset.from_tensor_slices((X, Y)).batch(size, drop_remainder=True)


def trained(weights: Any, x: Any, y: Any) -> Any:
    """The loss of a step of gradient descent."""
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=x @ weights))
    weights.assign_sub(0.1 * tape.gradient(loss, weights))
    return loss


def test_a_loop_over_a_range_trains_as_plain_tensorflow_and_leaves_the_iterator_where_it_ends(strategy: Any) -> None:
    weights, iterator, outfeed = tf.Variable(W), iter(batches()), IPUOutfeedQueue()

    @tf.function(jit_compile=True)
    def step(x: Any, y: Any) -> Any:
        loss = trained(weights, x, y)
        outfeed.enqueue({"loss": loss, "labels": y})
        return loss

    @tf.function(jit_compile=True)
    def loop(iterator: Any, steps: int) -> Any:
        total = 0.0
        for _ in tf.range(steps):
            total += step(*next(iterator))
        return total / float(steps)

    means = [strategy.run(loop, args=[iterator, 5]).numpy() for _ in range(2)]
    got = outfeed.dequeue()
    own, elements = tf.Variable(W), iter(batches())
    wanted = [trained(own, *next(elements)).numpy() for _ in range(10)]
    np.testing.assert_allclose(got["loss"], wanted, rtol=1e-5)
    np.testing.assert_allclose(means, np.reshape(wanted, (2, 5)).mean(1), rtol=1e-5)
    np.testing.assert_allclose(weights.numpy(), own.numpy(), rtol=1e-5)
    assert got["labels"].shape == (10, 4)
    np.testing.assert_array_equal(next(iterator)[0], next(elements)[0])


def test_a_function_that_takes_an_element_is_a_step_and_sees_what_the_program_assigns(strategy: Any) -> None:
    layer, optimizer = tf.keras.layers.Dense(3, kernel_initializer=tf.keras.initializers.Constant(W)), tf.keras.optimizers.Adam(0.1)

    @tf.function(jit_compile=True)
    def step(iterator: Any, factor: Any) -> Any:
        x, y = next(iterator)
        with tf.GradientTape() as tape:
            loss = factor * tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=layer(x)))
        optimizer.apply_gradients(zip(tape.gradient(loss, layer.trainable_variables), layer.trainable_variables, strict=True))
        return loss

    def run(do: Callable[..., Any]) -> list[Any]:
        iterator, losses = iter(batches()), []
        for number in range(4):
            losses.append(do(iterator, tf.constant(1.0 + number)).numpy())
            if number == 1:
                optimizer.learning_rate = 0.01
                layer.bias.assign([1.0, 2.0, 3.0])
        return [*losses, *(each.numpy() for each in (*layer.variables, *optimizer.variables))]

    got = run(lambda *args: strategy.run(step, args=args))
    layer, optimizer = tf.keras.layers.Dense(3, kernel_initializer=tf.keras.initializers.Constant(W)), tf.keras.optimizers.Adam(0.1)
    for one, other in zip(got, run(tf.function(step.python_function)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def test_a_loop_ends_where_values_of_the_device_decide(strategy: Any) -> None:
    iterator = iter(tf.data.Dataset.from_tensor_slices(np.arange(100, dtype=np.float32)))

    @tf.function(jit_compile=True)
    def loop(iterator: Any) -> tuple[Any, Any]:
        total, steps = 0.0, 0
        for _ in tf.range(50):
            total += next(iterator)
            steps += 1
            if total > 20.0:
                break
        return total, steps

    assert [each.numpy() for each in strategy.run(loop, args=(iterator,))] == [21, 7]
    assert next(iterator).numpy() == 7


@pytest.mark.parametrize("named", [False, True])
def test_loops_of_tensorflow_1_take_elements_of_an_infeed_in_a_function(strategy: Any, named: bool) -> None:
    weights = tf.Variable(W)
    infeed = IPUInfeedQueue(batches().map(lambda x, y: {"x": x, "y": y}) if named else batches())

    @tf.function(jit_compile=True)
    def loop() -> Any:
        def body(most: Any, x: Any, y: Any) -> Any:
            loss = trained(weights, x, y)
            if loss > most:  # of tensors
                most = loss
            return most

        return programs.repeat(5, body, [0.0], infeed)

    most = [strategy.run(loop).numpy() for _ in range(2)]
    own, elements = tf.Variable(W), iter(batches())
    wanted = [trained(own, *next(elements)).numpy() for _ in range(10)]
    np.testing.assert_allclose(most, np.reshape(wanted, (2, 5)).max(1), rtol=1e-5)
    np.testing.assert_allclose(weights.numpy(), own.numpy(), rtol=1e-5)


def test_effects_before_and_after_a_loop_keep_their_order(strategy: Any) -> None:
    count = tf.Variable(5.0)
    outfeed = IPUOutfeedQueue(IPUOutfeedMode.LAST)

    @tf.function(jit_compile=True)
    def function(x: Any) -> tuple[Any, Any, Any]:
        before = count.read_value()
        count.assign(0.0)
        for _ in tf.range(3):
            outfeed.enqueue(count.assign_add(x))
        between = count.read_value()
        count.assign(100.0)
        return before, between, {"sum": before + between}

    before, between, both = strategy.run(function, [tf.constant(2.0)])
    assert (before.numpy(), between.numpy(), both["sum"].numpy(), count.numpy()) == (5, 6, 11, 100)
    assert outfeed.dequeue().numpy() == 6


def test_replicas_take_elements_of_their_own_and_sums_go_over_them(strategy: Any) -> None:
    config = IPUConfig()
    config.auto_select_ipus = 2
    config.configure_ipu_system()
    total, outfeed = tf.Variable(0.0), IPUOutfeedQueue()
    iterator = iter(tf.data.Dataset.from_tensor_slices(np.array([0, 1, 2], np.float32)).repeat())

    @tf.function(jit_compile=True)
    def loop(iterator: Any) -> None:
        for _ in tf.range(5):
            total.assign(cross_replica_sum(total + next(iterator)))
            outfeed.enqueue(total.read_value())

    strategy.run(loop, [iterator])
    got = outfeed.dequeue().numpy()
    assert got.tolist() == [[value, value] for value in (1, 4, 11, 23, 48)]
    assert total.numpy() == 48


@pytest.mark.parametrize("count", [1, 2])
def test_replicas_with_a_keras_optimizer_update_with_the_mean_of_their_gradients(strategy: Any, count: int) -> None:
    config = IPUConfig()
    config.auto_select_ipus = 2
    config.configure_ipu_system()
    weights, inner = tf.Variable(W), tf.keras.optimizers.SGD(0.1)
    accumulating = optimizers.CrossReplicaGradientAccumulationOptimizerV2
    optimizer = optimizers.CrossReplicaOptimizer(inner) if count == 1 else accumulating(inner, count, reduction_method="mean")

    @tf.function(jit_compile=True)
    def loop(iterator: Any) -> None:
        for _ in tf.range(4):
            x, y = next(iterator)
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=x @ weights))
            optimizer.apply_gradients([(tape.gradient(loss, weights), weights)])

    strategy.run(loop, [iter(batches())])
    own, large = tf.Variable(W), iter(batches(8 * count))
    for _ in range(4 // count):
        trained(own, *next(large))
    np.testing.assert_allclose(weights.numpy(), own.numpy(), rtol=1e-5)


def test_gradients_accumulate_over_steps_of_a_loop(strategy: Any) -> None:
    weights = tf.Variable(W)
    optimizer = optimizers.GradientAccumulationOptimizerV2(tf.keras.optimizers.SGD(0.1), 4, reduction_method="mean")

    @tf.function(jit_compile=True)
    def loop(iterator: Any, steps: int) -> None:
        for _ in tf.range(steps):
            x, y = next(iterator)
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=x @ weights))
            optimizer.apply_gradients([(tape.gradient(loss, weights), weights)])

    iterator = iter(batches())
    strategy.run(loop, [iterator, 8])
    own, large = tf.Variable(W), iter(batches(16))
    for _ in range(2):
        trained(own, *next(large))
    np.testing.assert_allclose(weights.numpy(), own.numpy(), rtol=1e-5)
    with pytest.raises(tf.errors.FailedPreconditionError, match="accumulates 4 steps, and the loop has 6: give it a multiple of 4"):
        strategy.run(loop, [iterator, 6])


def test_an_iterator_that_ends_leaves_the_variables_of_the_steps_before(strategy: Any) -> None:
    total = tf.Variable(0)

    @tf.function(jit_compile=True)
    def step(iterator: Any) -> None:
        total.assign_add(next(iterator))

    iterator = iter(tf.data.Dataset.from_tensor_slices(np.array([1, 2], np.int32)))
    for _ in range(2):
        strategy.run(step, [iterator])
    with pytest.raises(DatasetError, match="the dataset ended after 2 elements"):
        strategy.run(step, [iterator])
    assert total.numpy() == 3


def test_what_is_no_program_is_refused(strategy: Any) -> None:
    outfeed = IPUOutfeedQueue()

    @tf.function(jit_compile=True)
    def branches(x: Any) -> None:
        if x > 0:
            outfeed.enqueue(x)

    @tf.function(jit_compile=True)
    def prints(x: Any) -> Any:
        return tf.py_function(lambda value: value, [x], tf.float32)

    @tf.function(jit_compile=True)
    def loops_over(iterator: Any) -> Any:
        total = 0
        for each in iterator:
            total += each
        return total

    with pytest.raises(UnsupportedError, match=r"cannot loop over an iterator: take next\(iterator\) in a loop over tf\.range"):
        strategy.run(loops_over, [iter(tf.data.Dataset.from_tensors(1))])
    with pytest.raises(ValueError, match=r"make fn a tf\.function"):
        strategy.run(lambda: 1)
    with pytest.raises(UnsupportedError, match=r"uses next\(iterator\) or enqueue\(\) in a branch"):
        strategy.run(branches, [tf.constant(1.0)])
    with pytest.raises(UnsupportedError, match="EagerPyFunc"):
        strategy.run(prints, [tf.constant(1.0)])


@pytest.mark.parametrize("sends", [False, True])
def test_ctrl_c_ends_a_loop_of_very_many_steps_and_keeps_its_variables(strategy: Any, sends: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    count, outfeed, chunks, did = tf.Variable(0), IPUOutfeedQueue(IPUOutfeedMode.LAST), itertools.count(1), Session.did

    def interrupted(self: Session, *args: Any) -> None:
        did(self, *args)
        if next(chunks) == 3:
            os.kill(os.getpid(), signal.SIGINT)

    @tf.function(jit_compile=True)
    def loop() -> None:
        for _ in tf.range(100_000_000):
            count.assign_add(1)
            if sends:
                outfeed.enqueue(count.read_value())

    monkeypatch.setattr(Session, "did", interrupted)
    told = r"^interrupted after 192 steps of the loop\nrepeat\(100000000\) had done 192 steps; the variables have the values after them$"
    with pytest.raises(LoopInterrupt, match=told) as caught:
        strategy.run(loop)
    assert count.numpy() == caught.value.steps == 192


def test_an_iterator_ends_with_its_last_reference(strategy: Any) -> None:
    @tf.function(jit_compile=True)
    def step(iterator: Any) -> Any:
        return next(iterator)

    iterator = iter(tf.data.Dataset.range(9).map(lambda value: tf.cast(value, tf.int32)))
    seen = weakref.ref(iterator)
    assert strategy.run(step, [iterator]).numpy() == 0
    del iterator
    gc.collect()
    assert seen() is None
