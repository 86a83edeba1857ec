"""`tensorflow.python.ipu.normalization_ops`: norms over groups of channels, with their learned scale and offset."""

from __future__ import annotations

from typing import Any

from tilestep.tensorflow.untyped import Tensor, tf, v1


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
        channels_axis: which axis.
        strided_channel_grouping: whether a group has every `groups`-th channel, as PopLibs' faster form; else successive ones.
    Raises: ValueError if the groups do not divide the channels.
    """
    del training
    axis = channels_axis % inputs.shape.rank
    channels = inputs.shape[axis]
    if channels % groups:
        raise ValueError(f"group_norm has {groups} groups, which do not divide the {channels} channels of {inputs.name}")
    with v1.variable_scope(scope, "GroupNorm", [inputs], reuse=reuse):
        order = [*(each for each in range(inputs.shape.rank) if each != axis), axis]
        last = tf.transpose(inputs, order)
        split = [channels // groups, groups] if strided_channel_grouping else [groups, channels // groups]
        grouped = tf.reshape(last, [*last.shape[:-1], *split])
        axes = [*range(1, last.shape.rank - 1), last.shape.rank - 1 if strided_channel_grouping else last.shape.rank]
        mean, variance = tf.nn.moments(tf.cast(grouped, tf.float32), axes, keepdims=True)
        normal = (tf.cast(grouped, tf.float32) - mean) * tf.math.rsqrt(variance + epsilon)
        result = tf.cast(tf.reshape(normal, last.shape), inputs.dtype)
        given = param_initializers or {}
        made = {"shape": [channels], "dtype": inputs.dtype, "trainable": trainable, "collections": variables_collections}
        if scale:
            result *= v1.get_variable("gamma", initializer=given.get("gamma", v1.ones_initializer()), **made)
        if center:
            result += v1.get_variable("beta", initializer=given.get("beta", v1.zeros_initializer()), **made)
        return tf.transpose(result, [order.index(each) for each in range(len(order))])


def instance_norm(inputs: Tensor, channels_axis: int = -1, **options: Any) -> Tensor:
    """`group_norm` with a group for each channel."""
    return group_norm(inputs, groups=inputs.shape[channels_axis], channels_axis=channels_axis, **options)


def layer_norm(inputs: Tensor, channels_axis: int = -1, **options: Any) -> Tensor:
    """`group_norm` with one group."""
    return group_norm(inputs, groups=1, channels_axis=channels_axis, **options)
