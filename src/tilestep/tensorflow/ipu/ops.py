"""`tensorflow.python.ipu.ops` and the modules in it, such as `nn_ops` and `rand_ops`: install.py has their names."""

import functools
import warnings
from collections.abc import Callable
from typing import Any

from tilestep.errors import UnsupportedError
from tilestep.tensorflow.tf_private import graphs
from tilestep.tensorflow.tracing import REPLICA_INDEX, collective
from tilestep.tensorflow.untyped import Tensor, tf, v1

gelu = functools.partial(tf.nn.gelu, approximate=True)  # as the original's default


def swish(x: Tensor, beta: float = 1.0, name: str | None = None) -> Tensor:
    """x times the sigmoid of beta x."""
    return tf.multiply(x, tf.sigmoid(beta * x), name=name)


def embedding_lookup(
    params: Tensor, ids: Tensor, name: str | None = None, serialization_factor: int = 1, indices_are_sorted: bool = False
) -> Tensor:
    """Rows of a table. Args: serialization_factor, indices_are_sorted: no effect; XLA plans the lookup."""
    return tf.nn.embedding_lookup(params, ids, name=name)


def create_host_embedding(*arguments: Any, **options: Any) -> Any:
    raise UnsupportedError("tilestep has no host embeddings: make the table a variable, and look up its rows with embedding_lookup")


def dropout(x: Tensor, seed: Any = None, rate: float = 0.5, noise_shape: Any = None, name: str | None = None, ref: Any = None) -> Tensor:
    """Sets elements to 0 at random, and scales the others by 1 / (1 - rate). Backward has the same mask.

    Args: seed: int32[2], for the same mask each time; None: another one in each step. rate: the part that is 0. ref: no effect.
    """
    if seed is None:
        return tf.nn.dropout(x, rate=rate, noise_shape=noise_shape, name=name)
    return tf.nn.experimental.stateless_dropout(x, rate, seed=seed, noise_shape=noise_shape, name=name)


def _cross_replica(kind: str, x: Tensor, replica_group_size: int | None = None, name: str | None = None) -> Tensor:
    """The sum or mean over replicas, on each of them. Args: replica_group_size: successive replicas of a group; None: all."""
    with tf.name_scope(name or f"cross_replica_{kind}"):
        return collective(kind, x, replica_group_size)


cross_replica_sum = functools.partial(_cross_replica, "sum")
cross_replica_mean = functools.partial(_cross_replica, "mean")


def assume_equal_across_replicas(x: Tensor, inplace: bool = True) -> Tensor:
    """The tensor as it is: nothing here looks whether it is equal."""
    return tf.identity(x)


def replication_index(name: str | None = None) -> Tensor:
    """The number of the replica, int32[], from 0 on."""
    return graphs.marker(REPLICA_INDEX, [], tf.TensorSpec([], tf.int32))


def group_norm(
    inputs: Tensor,
    groups: int = 2,
    channels_axis: int = -1,
    center: bool = True,
    scale: bool = True,
    epsilon: float = 1.53e-5,
    param_initializers: dict[str, Any] | None = None,
    reuse: Any = None,
    variables_collections: Any = None,
    training: bool = True,
    trainable: bool = True,
    scope: Any = None,
    strided_channel_grouping: bool = True,
) -> Tensor:
    """Normalises groups of channels of each element. Variables are "gamma" and "beta", of the channels.

    Args:
        inputs: [elements, ..., channels, ...].
        groups: they divide the channels.
        strided_channel_grouping: whether a group has every `groups`-th channel, as PopLibs' faster form; else successive ones.
    Raises: ValueError if the groups do not divide the channels.
    """
    axis = channels_axis % inputs.shape.rank
    channels = inputs.shape[axis]
    if channels % groups:
        raise ValueError(f"group_norm has {groups} groups, which do not divide the {channels} channels of {inputs.name}")
    with v1.variable_scope(scope, "GroupNorm", [inputs], reuse=reuse):
        order = [*(each for each in range(inputs.shape.rank) if each != axis), axis]
        last = tf.transpose(inputs, order)
        split = [channels // groups, groups] if strided_channel_grouping else [groups, channels // groups]
        grouped = tf.cast(tf.reshape(last, [*last.shape[:-1], *split]), tf.float32)
        axes = [*range(1, last.shape.rank - 1), last.shape.rank - 1 if strided_channel_grouping else last.shape.rank]
        mean, variance = tf.nn.moments(grouped, axes, keepdims=True)
        normal = (grouped - mean) * tf.math.rsqrt(variance + epsilon)
        result = tf.cast(tf.reshape(normal, last.shape), inputs.dtype)
        given = param_initializers or {}
        made = {"shape": [channels], "dtype": inputs.dtype, "trainable": trainable, "collections": variables_collections}
        if scale:
            result *= v1.get_variable("gamma", initializer=given.get("gamma", v1.ones_initializer()), **made)
        if center:
            result += v1.get_variable("beta", initializer=given.get("beta", v1.zeros_initializer()), **made)
        return tf.transpose(result, [order.index(each) for each in range(len(order))])


def layer_norm(inputs: Tensor, channels_axis: int = -1, **options: Any) -> Tensor:
    """`group_norm` with one group."""
    return group_norm(inputs, groups=1, channels_axis=channels_axis, **options)


def _layer(
    layer: str,
    cell: Callable[..., Any],
    num_units: int,
    dtype: Any = tf.float32,
    *,
    weights_initializer: Any = None,
    name: str | None = None,
    **options: Any,
) -> Callable[..., tuple[Tensor, Any]]:
    """A recurrent layer, whose steps are a loop of the program, with a cell of `tf.nn`.

    Args:
        layer, cell: its name in the original, and (units, dtype) -> the cell.
        weights_initializer: of all weights; biases keep the cell's own.
        options: no effect: partials_dtype, options, options_bwd (of the library's vertices), seed (random numbers differ anyway).
    Returns: a function of (inputs [steps, batch, features], initial_state); None: zeros. It gives outputs [steps, batch, num_units] and the
        last state.
    Raises: UnsupportedError for another option.
    """
    if other := [option for option in options if option not in ("partials_dtype", "seed", "options", "options_bwd")]:
        raise UnsupportedError(f"rnn_ops.{layer} has no {', '.join(other)} here: use tf.nn.dynamic_rnn with a cell that has it")
    own, scope = tf.as_dtype(dtype), {"default_name": layer.replace("Popnn", "popnn_").lower(), "initializer": weights_initializer}

    def call(inputs: Tensor, initial_state: Any = None, training: bool = True) -> tuple[Tensor, Any]:
        with warnings.catch_warnings(action="ignore"), v1.variable_scope(name or None, **scope):
            made, given = cell(num_units, own), tf.convert_to_tensor(inputs)
            return v1.nn.dynamic_rnn(made, given, initial_state=initial_state, dtype=own, time_major=True)

    return call


# Its state is an `LSTMStateTuple` (c, h).
PopnnLSTM = functools.partial(_layer, "PopnnLSTM", lambda units, dtype: v1.nn.rnn_cell.LSTMCell(units, forget_bias=0.0, dtype=dtype))
# Its state is the last output.
PopnnGRU = functools.partial(_layer, "PopnnGRU", lambda units, dtype: v1.nn.rnn_cell.GRUCell(units, dtype=dtype))
