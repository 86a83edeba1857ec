"""What programs compute where the IPU stacks of old were known to differ."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tilestep
from tests.in_turn import python


def test_eager_operations_are_programs_of_their_own() -> None:
    python(
        """
        import jax.numpy as jnp, tilestep
        with tilestep.profile() as profile:
            x = jnp.ones(3) + 1
        assert x.tolist() == [2.0, 2.0, 2.0] and next(iter(x.devices())).platform == "ipu"
        assert [p.runs for p in profile.programs] and all(p.runs == 1 and p.loads == 1 for p in profile.programs)
        """,
        JAX_PLATFORMS="ipu,cpu",
    )


def test_debug_callbacks_arrive_in_order_as_numpy_arrays(ipu: jax.Device) -> None:
    seen: list[object] = []
    step = jax.jit(lambda x: (jax.debug.callback(lambda v: seen.append(np.asarray(v)), x, ordered=True), x + 1)[1])
    y = step(step(jax.device_put(np.arange(3.0, dtype=np.float32), ipu)))
    jax.effects_barrier()
    assert [list(v) for v in seen] == [[0, 1, 2], [1, 2, 3]]
    assert y.tolist() == [2, 3, 4]


def test_a_callback_whose_result_nobody_wants_does_not_block(ipu: jax.Device) -> None:
    """Where the reference system could hang."""
    seen = []
    jax.jit(lambda x: (jax.debug.callback(lambda v: seen.append(1), x), x + 1)[1])(jax.device_put(np.float32(1), ipu))
    jax.effects_barrier()
    assert seen == [1]


@pytest.mark.slow
def test_a_callback_may_itself_use_both_platforms(ipu: jax.Device, cpu: jax.Device) -> None:
    def inner(v: np.ndarray) -> np.ndarray:
        on_ipu = jax.jit(lambda x: x * 2)(jax.device_put(np.asarray(v), ipu))
        return np.asarray(jax.device_put(on_ipu, cpu) + 1)

    outer = jax.jit(lambda x: jax.pure_callback(inner, jax.ShapeDtypeStruct(x.shape, x.dtype), x))
    assert outer(jax.device_put(np.arange(3.0, dtype=np.float32), ipu)).tolist() == [1, 3, 5]


@pytest.mark.slow
def test_recomputation_is_part_of_the_program(ipu: jax.Device) -> None:
    """`jax.checkpoint` keeps the second forward pass from being merged with the first, in what is timed as in what is computed."""

    def products(layer: Callable[[jax.Array, jax.Array], jax.Array]) -> int:
        def loss(weights: list[jax.Array], x: jax.Array) -> jax.Array:
            for weight in weights:
                x = layer(x, weight)
            return jnp.sum(x)

        weights = [jax.device_put(np.eye(16, dtype=np.float32), ipu) for _ in range(3)]
        with tilestep.profile() as profile:
            jax.block_until_ready(jax.jit(jax.grad(loss))(weights, jax.device_put(np.ones((8, 16), np.float32), ipu)))
        return sum(step.executions for step in profile.supersteps if step.family == "matmul")

    def layer(x: jax.Array, weight: jax.Array) -> jax.Array:
        return jnp.sin(x @ weight)  # whose derivative wants the product

    forward, backward = 3, 3 + 2  # nobody wants the derivative by the first x
    assert products(layer) == forward + backward
    assert products(jax.checkpoint(layer)) == forward - 1 + forward + backward  # nor the last layer's value, but for its derivative
