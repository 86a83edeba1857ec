"""`ipu_compiler.compile` without a loop: values against plain TensorFlow, variables on the device, and what is refused."""

from typing import Any

import numpy as np
import pytest

from tilestep.errors import UnsupportedError
from tilestep.tensorflow.install import place_on_host
from tilestep.tensorflow.ipu import ops, programs
from tilestep.tensorflow.ipu.config import IPUConfig
from tilestep.tensorflow.ipu.ops import cross_replica_sum, replication_index
from tilestep.tensorflow.residency import residency_of


def compiled(function: Any, inputs: Any = ()) -> Any:
    with programs.ipu_scope("/device:IPU:0"):
        return programs.compile(function, inputs)


def test_a_step_of_momentum_is_that_of_plain_tensorflow(tf: Any) -> None:
    data = np.arange(12, dtype=np.float32).reshape(4, 3) / 10

    def step(x: Any) -> Any:
        with tf.variable_scope("net", reuse=tf.AUTO_REUSE, use_resource=True):
            weights = tf.get_variable("w", (3, 2), initializer=tf.ones_initializer())
            loss = tf.reduce_sum((x @ weights) ** 2)
            return loss, tf.train.MomentumOptimizer(0.01, 0.9).minimize(loss)

    x = tf.placeholder(tf.float32, (4, 3))
    losses = []
    for fetches in (compiled(step, [x]), step(x)):
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            losses.append([float(session.run(fetches, {x: data})[0]) for _ in range(4)])
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)
    assert losses[0][3] < losses[0][0] / 2


def test_results_have_the_structure_that_the_function_returns(tf: Any) -> None:
    assert isinstance(compiled(lambda: None), tf.Operation)
    assert isinstance(compiled(lambda: tf.no_op()), tf.Operation)
    assert [each.shape for each in compiled(lambda: tf.zeros((2, 3)))] == [(2, 3)]
    two = compiled(lambda: (tf.ones(3), tf.constant(2, tf.int64), tf.no_op()))
    with tf.Session() as session:
        ones, number = session.run(two)
    assert ones.tolist() == [1, 1, 1]
    assert (number, number.dtype) == (2, np.int64)


def test_a_variable_stays_on_the_device_until_the_session_reads_it_and_comes_again_when_it_is_assigned(tf: Any) -> None:
    def step() -> Any:
        return tf.get_variable("v", (), initializer=tf.zeros_initializer()).assign_add(1.0)

    op = compiled(step)
    (variable,) = tf.global_variables()
    reset = variable.assign(10.0)
    residency = residency_of(tf.get_default_graph())
    with tf.Session() as session:
        session.run(variable.initializer)
        for _ in range(3):
            session.run(op)
        home = residency.home(session)
        (array,) = home._arrays.values()
        assert float(array) == 3
        assert session.run(variable) == 3  # read back
        assert home.take([variable.handle.name]) == {variable.handle.name: array}  # nothing moves
        session.run(op)
        session.run(reset)
        assert home.take([variable.handle.name]) == {variable.handle.name: 10}
        session.run(op)
        assert session.run(variable) == 11


def test_a_saver_saves_and_restores_what_the_device_has(tf: Any, tmp_path: Any) -> None:
    def step() -> Any:
        return tf.get_variable("v", (), initializer=tf.zeros_initializer()).assign_add(1.0)

    op = compiled(step)
    (variable,) = tf.global_variables()
    saver = tf.train.Saver()
    with tf.Session() as session:
        session.run(variable.initializer)
        session.run(op)
        session.run(op)
        path = saver.save(session, str(tmp_path / "model"))
        session.run(op)
        saver.restore(session, path)
        session.run(op)
        assert session.run(variable) == 3


def test_integers_of_64_bits_have_32_on_the_device_and_64_in_the_session(tf: Any) -> None:
    def step() -> Any:
        return tf.train.get_or_create_global_step().assign_add(2)

    op = compiled(step)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(op)
        assert session.run(tf.train.get_global_step()) == 2


def test_an_initial_value_may_be_a_tensor_of_the_function(tf: Any) -> None:
    op = compiled(lambda: tf.get_variable("w", initializer=tf.constant([1.0, 2.0])) * 3.0)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run(op)[0].tolist() == [3, 6]


def test_what_is_not_initialised_is_the_error_of_tensorflow(tf: Any) -> None:
    op = compiled(lambda: tf.get_variable("w", (), initializer=tf.zeros_initializer()) + 1.0)
    with tf.Session() as session, pytest.raises(tf.errors.FailedPreconditionError, match="w"):
        session.run(op)


def test_replicas_are_ipus_divided_by_shards_and_combine_values(tf: Any) -> None:
    config = IPUConfig()
    config.auto_select_ipus = 4
    config.configure_ipu_system()

    def net() -> Any:
        with programs.ipu_shard(0):
            index = tf.cast(replication_index(), tf.float32)
        with programs.ipu_shard(1):
            return cross_replica_sum(index + 1.0)

    with pytest.warns(UserWarning, match=r"run on the first IPU of each: stages of pipelining_ops\.pipeline"):
        op = compiled(net)
    with tf.Session() as session:
        assert session.run(op)[0] == 1 + 2  # 4 IPUs of 2 shards are 2 replicas


@pytest.mark.filterwarnings("ignore:ipu_shard divides")
def test_ipus_that_are_no_multiple_of_the_shards_are_refused(tf: Any) -> None:
    config = IPUConfig()
    config.auto_select_ipus = 3
    config.configure_ipu_system()

    def net() -> Any:
        with programs.ipu_shard(1):
            return tf.ones(())

    with pytest.raises(UnsupportedError, match="2 shards, for which a replica has 2 IPUs, but 3 are configured: set auto_select_ipus"):
        compiled(net)


@pytest.mark.filterwarnings("ignore:ipu_shard divides")
def test_a_program_may_be_compiled_before_the_ipus_are_configured(tf: Any) -> None:
    def net() -> Any:
        with programs.ipu_shard(1):
            return cross_replica_sum(tf.ones(()))

    op = compiled(net)
    config = IPUConfig()
    with tf.Session() as session:
        with pytest.raises(UnsupportedError, match="2 shards, for which a replica has 2 IPUs, but 1 are configured"):
            session.run(op)
        config.auto_select_ipus = 4
        config.configure_ipu_system()
        assert session.run(op) == [2]


@pytest.mark.filterwarnings("ignore:`tf.nn.rnn_cell")
@pytest.mark.parametrize("name", ["PopnnLSTM", "PopnnGRU"])
def test_recurrent_layers_compute_what_the_cells_of_tensorflow_compute(tf: Any, name: str) -> None:
    cells = {"PopnnLSTM": lambda: tf.nn.rnn_cell.LSTMCell(3, forget_bias=0.0), "PopnnGRU": lambda: tf.nn.rnn_cell.GRUCell(3)}
    inputs = np.random.default_rng(0).normal(size=(5, 2, 4)).astype(np.float32)
    with tf.variable_scope("net", use_resource=True, initializer=tf.constant_initializer(0.1)):
        ours = programs.compile(lambda x: getattr(ops, name)(3, name="layer")(x), [tf.constant(inputs)])
    with tf.variable_scope("net", reuse=True):
        stock = tf.nn.dynamic_rnn(cells[name](), tf.constant(inputs), dtype=tf.float32, time_major=True, scope="layer/rnn")
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        got, wanted = session.run([tf.nest.flatten(ours), tf.nest.flatten(stock)])
    for one, other in zip(got, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)


@pytest.mark.filterwarnings("ignore:`tf.nn.rnn_cell")
def test_recurrent_layers_with_an_empty_name_have_weights_of_their_own(tf: Any) -> None:
    programs.compile(lambda x: ops.PopnnLSTM(4, name="")(ops.PopnnLSTM(4, name="")(x)[0])[0], [tf.zeros((5, 2, 4))])
    assert [each.name.partition("/")[0] for each in tf.trainable_variables()] == ["popnn_lstm"] * 2 + ["popnn_lstm_1"] * 2


def test_an_option_of_a_recurrent_layer_that_would_change_values_is_refused_by_name() -> None:
    ops.PopnnLSTM(3, partials_dtype="half", seed=1)
    with pytest.raises(UnsupportedError, match=r"rnn_ops\.PopnnGRU has no activation here: use tf\.nn\.dynamic_rnn"):
        ops.PopnnGRU(3, activation="relu")


def test_what_xla_cannot_lower_is_named_with_its_line(tf: Any) -> None:
    def net() -> Any:
        return tf.numpy_function(lambda: np.float32(1), [], tf.float32)

    with pytest.raises(UnsupportedError, match=r"PyFunc.*test_compile\.py:\d+|shape"):
        compiled(net)

    def masked() -> Any:
        return tf.boolean_mask(tf.ones(3), tf.constant([True, False, True]) & (tf.random.uniform((3,)) > 0.5))

    with pytest.raises(ValueError, match=r"variable w begins with what the function's arguments give: begin it with a constant"):
        programs.compile(lambda x: tf.get_variable("w", initializer=x * 2.0, use_resource=True), [1.0])
    with pytest.raises(UnsupportedError, match=r"was called inside of a function that is being compiled: call the function itself"):
        programs.compile(lambda: programs.compile(lambda: tf.ones(2)))
    with pytest.raises(UnsupportedError, match=r"fixed shapes alone"):
        compiled(masked)


def test_it_works_in_a_graph_alone() -> None:
    with pytest.raises(UnsupportedError, match=r"--tensorflow=1"):
        programs.compile(lambda: None)


def test_nodes_for_the_ipu_outside_of_a_program_run_on_the_host(tf: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tf, "device", tf.device)
    place_on_host(tf)
    with tf.device("/device:IPU:0"):
        doubled = tf.constant(2.0) * 2.0
    with tf.device("/CPU:0"):
        plain = doubled + 1.0
    assert plain.device == "/device:CPU:0"
    with tf.Session() as session:
        assert session.run(plain) == 5.0
