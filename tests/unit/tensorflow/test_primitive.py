"""A lowered program as a JAX primitive: on both platforms, with 64 bits inside, and with the user's lines."""

from typing import Any

import jax
import numpy as np
import pytest

from tilestep.tensorflow.tracing import Scope, lower, trace


@pytest.mark.parametrize("platform", ["cpu", "ipu"])
def test_values_are_the_same_on_every_platform(tf: Any, platform: str) -> None:
    specs = [tf.TensorSpec((2,)), tf.TensorSpec((), tf.int64)]
    traced = trace("f", lambda x, n: [x * 2.0 + tf.cast(n, tf.float32), n + 1], specs, scope=Scope(compilation=[]))
    program = lower(traced, traced.arguments, traced.results, [])
    with jax.default_device(jax.devices(platform)[0]):
        (values, number), written = jax.jit(lambda *given: program(given, {}))(np.float32([1, 2]), 3)
    assert (values.tolist(), int(number), number.dtype, written) == ([5, 7], 4, np.int32, {})


def test_a_node_has_its_name_and_the_line_that_made_it(tf: Any) -> None:
    traced = trace("f", lambda x: tf.multiply(x, 3.0, name="tripled"), [tf.TensorSpec((2,))], scope=Scope(compilation=[]))
    program = lower(traced, traced.arguments, traced.results, [])
    text = jax.jit(lambda value: program([value], {})[0]).lower(np.float32([1, 2])).as_text(debug_info=True)
    assert '"tripled"' in text
    assert "test_primitive.py" in text
    assert "site-packages/tensorflow" not in text
