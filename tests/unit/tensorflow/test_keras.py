"""Keras models in `IPUStrategy.scope()`: fit, evaluate and predict against plain Keras, and what is refused."""

import importlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tilestep.errors import UnsupportedError
from tilestep.tensorflow.ipu.config import IPUConfig, systems
from tilestep.tensorflow.ipu.keras_models import PipelineStage
from tilestep.tensorflow.ipu.optimizers import GradientAccumulationReductionMethod as Method
from tilestep.tensorflow.ipu.queues import IPUOutfeedQueue
from tilestep.tensorflow.ipu.strategy import IPUStrategy
from tilestep.tensorflow.untyped import tf

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(48, 6, 6, 2)).astype(np.float32)
Y = RANDOM.integers(0, 4, 48)


@pytest.fixture(autouse=True)
def unconfigured() -> Iterator[None]:
    yield
    systems.clear()


def configure(ipus: int) -> None:
    config = IPUConfig()
    config.auto_select_ipus = ipus
    config.configure_ipu_system()


def model_of(norm: bool = True) -> Any:
    tf.keras.utils.set_random_seed(1)
    layers = tf.keras.layers
    if not norm:
        return tf.keras.Sequential(
            [layers.Flatten(input_shape=(6, 6, 2)), layers.Dense(8, "tanh"), layers.LayerNormalization(), layers.Dense(4)]
        )
    return tf.keras.Sequential(
        [
            layers.Conv2D(3, 3, activation="relu", input_shape=(6, 6, 2)),
            layers.BatchNormalization(momentum=0.8),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dense(4),
        ]
    )


def compiled(optimizer: Any, steps: int, *, norm: bool = True) -> Any:
    model = model_of(norm)
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer, loss, metrics=["accuracy"], steps_per_execution=steps)
    return model


def same(got: Any, wanted: Any) -> None:
    """Sizes of 1 or so."""
    for one, other in zip(tf.nest.flatten(got), tf.nest.flatten(wanted), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["SGD", "Adam", "RMSprop", "Adagrad"])
def test_fit_trains_as_plain_keras_with_slots_moving_averages_and_metrics(name: str) -> None:
    def run(steps: int) -> Any:
        optimizer = getattr(tf.keras.optimizers, name)(0.01, **({"momentum": 0.9} if name == "SGD" else {}))
        model = compiled(optimizer, steps)
        history = model.fit(X, Y, epochs=2, batch_size=8, shuffle=False, verbose=0)
        return history.history, model.get_weights(), [each.numpy() for each in optimizer.variables]

    wanted = run(1)
    with IPUStrategy().scope():
        same(run(4), wanted)  # executions of 4 and of 2 steps


def test_recurrent_layers_train_as_plain_keras() -> None:
    def run(steps: int) -> Any:
        tf.keras.utils.set_random_seed(1)
        model = tf.keras.Sequential([tf.keras.layers.LSTM(3, input_shape=(6, 12)), tf.keras.layers.Dense(4)])
        loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile("sgd", loss, steps_per_execution=steps)
        return model.fit(X.reshape(48, 6, 12), Y, batch_size=8, shuffle=False, verbose=0).history, model.get_weights()

    wanted = run(1)
    with IPUStrategy().scope():
        same(run(3), wanted)


def test_evaluate_predict_callbacks_and_checkpoints_are_those_of_keras(tmp_path: Path) -> None:
    dataset = tf.data.Dataset.from_tensor_slices((X, Y)).batch(4, drop_remainder=True)

    def run(folder: Path) -> Any:
        model = compiled(tf.keras.optimizers.Adam(0.01), 3)
        batches: list[int] = []
        callbacks = [
            tf.keras.callbacks.LearningRateScheduler(lambda epoch: 0.01 / (1 + epoch)),
            tf.keras.callbacks.ModelCheckpoint(str(folder / "{epoch}"), save_weights_only=True),
            tf.keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: batches.append(batch)),
        ]
        model.fit(dataset.repeat(), epochs=2, steps_per_epoch=6, validation_data=dataset, callbacks=callbacks, verbose=0)
        later = model.evaluate(dataset, verbose=0, return_dict=True)
        model.load_weights(str(folder / "1"))
        return batches, later, model.evaluate(X, Y, batch_size=4, verbose=0), model.predict(X, batch_size=4, verbose=0)

    wanted = run(tmp_path / "plain")
    with IPUStrategy().scope():
        got = run(tmp_path / "here")
    assert got[0] == [2, 5, 2, 5]
    assert got[3].shape == (48, 4)
    same(got, wanted)


@pytest.mark.parametrize(("method", "scale"), [(Method.MEAN, False), ("running_mean", False), ("sum", True)])
def test_accumulated_gradients_train_as_one_large_batch(method: Any, scale: bool) -> None:
    large = compiled(tf.keras.optimizers.SGD(0.05, momentum=0.9), 1, norm=False)
    large.fit(X, Y, epochs=2, batch_size=12, shuffle=False, verbose=0)
    with IPUStrategy().scope():
        model = compiled(tf.keras.optimizers.SGD(0.05, momentum=0.9), 6, norm=False)
        model.set_gradient_accumulation_options(
            gradient_accumulation_steps_per_replica=3,
            gradient_accumulation_reduction_method=method,
            experimental_normalize_gradients=scale,
            offload_weight_update_variables=False,
        )
        model.fit(X, Y, epochs=2, batch_size=4, shuffle=False, verbose=0)
        same(model.get_weights(), large.get_weights())
        assert model.optimizer.iterations.numpy() == 8
        model.compile("sgd", "mse", steps_per_execution=4)
        with pytest.raises(RuntimeError, match="4 steps cannot be divided among 1 replicas that update once for 3 steps"):
            model.fit(X, np.ones((48, 4)), batch_size=4, verbose=0)


def test_replicas_add_up_gradients_and_metrics() -> None:
    large = compiled(tf.keras.optimizers.SGD(0.1), 1, norm=False)
    wanted = large.fit(X, Y, epochs=2, batch_size=8, shuffle=False, verbose=0).history
    configure(2)
    with IPUStrategy().scope():
        model = compiled(tf.keras.optimizers.SGD(0.05), 4, norm=False)  # the sum of two means is twice the mean
        got = model.fit(X, Y, epochs=2, batch_size=4, shuffle=False, verbose=0).history
        same(model.get_weights(), large.get_weights())
        same(got, wanted)
        same(model.predict(X, batch_size=4, verbose=0), large.predict(X, verbose=0))
        with pytest.raises(RuntimeError, match=r"1 steps cannot be divided among 2 replicas.*multiple of 2"):
            model.fit(X[:4], Y[:4], batch_size=4, verbose=0)


def test_a_step_of_the_program_and_a_model_of_functions_train_here() -> None:
    class Own(tf.keras.Model):
        def train_step(self, data: Any) -> Any:
            x, y = data
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((self(x, training=True) - y) ** 2)
            self.optimizer.apply_gradients(zip(tape.gradient(loss, self.trainable_variables), self.trainable_variables, strict=True))
            return {"own": loss}

    def run() -> Any:
        tf.keras.utils.set_random_seed(2)
        inputs = tf.keras.Input((5,))
        model = Own(inputs, tf.keras.layers.Dense(1)(tf.keras.layers.Dense(4, activation="tanh")(inputs)))
        x, y = X[:40, 0, 0, :1] @ np.ones((1, 5)), Y[:40, None].astype(np.float32)
        model.compile("adam", steps_per_execution=5)
        history = model.fit(x, y, batch_size=4, shuffle=False, verbose=0).history
        model.compile("sgd")
        return history, model.train_on_batch(x, y), model.predict_on_batch(x[:3]), model._train_counter.numpy()

    wanted = run()
    with IPUStrategy().scope():
        same(run(), wanted)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (lambda: (X[:10], Y[:10]), "partial batch: give a batch_size that divides them"),
        (lambda: (tf.data.Dataset.from_tensor_slices((X, Y)).batch(4),), r"drop_remainder=True"),
        (
            lambda: (tf.data.Dataset.from_tensor_slices((X, Y)).filter(lambda x, y: y < 9).batch(4, drop_remainder=True),),
            "give the number of steps",
        ),
    ],
)
def test_data_without_fixed_shapes_or_size_are_refused(data: Callable[[], Any], message: str) -> None:
    with IPUStrategy().scope():
        model = compiled("sgd", 1)
        before = model.get_weights()
        with pytest.raises(ValueError, match=message):
            model.fit(*data(), batch_size=4 if len(data()) > 1 else None, verbose=0)
        same(model.get_weights(), before)


def test_what_keras_does_not_do_here_is_refused() -> None:
    outside = model_of()
    with pytest.raises(UnsupportedError, match="make it in IPUStrategy"):
        outside.set_gradient_accumulation_options(2)
    with IPUStrategy().scope():
        model = model_of()
        for method in (model.set_pipelining_options, model.set_pipeline_stage_assignment, PipelineStage):
            with pytest.raises(UnsupportedError, match=r"pipelining_ops\.pipeline.*tilestep\.train\.Pipeline"):
                method(1)
        with pytest.warns(UserWarning, match="queues and callbacks have no effect here"):
            model.set_asynchronous_callbacks(True)
        model.compile("sgd", "mse", run_eagerly=True)
        with pytest.raises(RuntimeError, match="cannot run eagerly"):
            model.fit(X, Y, batch_size=4)
        import keras  # after the scope has begun, as programs do

        with IPUStrategy().scope(), pytest.raises(UnsupportedError, match="a model of Keras 3 cannot be on the IPU"):
            keras.Sequential([keras.layers.Dense(1)])


def test_a_layer_that_enqueues_sends_each_step_also_where_keras_infers_shapes_first() -> None:
    class Sends(tf.keras.layers.Layer):
        def call(self, inputs: Any) -> Any:
            if not outfeed.enqueued:
                outfeed.enqueue({self.name: inputs})
            return inputs

    outfeed = IPUOutfeedQueue()
    with IPUStrategy().scope():
        model = tf.keras.Sequential([tf.keras.layers.Flatten(), Sends(name="sent"), tf.keras.layers.Dense(1)])
        model.compile(tf.keras.optimizers.SGD(0.01), "mse", steps_per_execution=3)
        model.fit(X[:24], Y[:24], batch_size=8, shuffle=False, verbose=0)
    np.testing.assert_array_equal(outfeed.dequeue()["sent"], X[:24].reshape(3, 8, -1))


def test_an_optimizer_of_keras_is_one_of_the_class_that_programs_ask_for_and_former_ones_work() -> None:
    IPUStrategy()
    former: Any = importlib.import_module("tensorflow.python.keras.optimizer_v2.optimizer_v2")
    assert isinstance(tf.keras.optimizers.SGD(), former.OptimizerV2)
    descent: Any = importlib.import_module("tensorflow.python.keras.optimizer_v2.gradient_descent")
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):  # TensorFlow makes such an optimizer of a model that it loads
        _ = descent.SGD(0.1).nothing
