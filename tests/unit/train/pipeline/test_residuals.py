"""What backward is given of forward: enough, and the least."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.ad_checkpoint import checkpoint_name
from jax.sharding import SingleDeviceSharding

from tilestep.train.pipeline.compile.placement import StagePlacement
from tilestep.train.pipeline.compile.residuals import Residuals, residuals

PLACEMENT = StagePlacement(devices=(jax.devices()[0],), whole=SingleDeviceSharding(jax.devices()[0]))
W, X = np.linspace(-1, 1, 64, dtype=np.float32).reshape(8, 8), np.linspace(0, 1, 32, dtype=np.float32).reshape(4, 8)


def specs_of(*arrays: Any) -> list[Any]:
    return [jax.ShapeDtypeStruct(array.shape, array.dtype) for array in arrays]


def backward_of(function: Callable[[Any, Any], Any]) -> Callable[[Sequence[Any], Sequence[Any]], Any]:
    """As a stage's programs linearise it: gradients of parameters and arguments."""

    def linearise(params: Sequence[Any], args: Sequence[Any]) -> Any:
        output, pullback = jax.vjp(lambda params, args: [function(*params, *args)], list(params), list(args))
        return output, [], pullback

    return linearise


def parts_of(function: Any, *, least: bool = True, w: Any = W, x: Any = X) -> Residuals:
    wanted = [jax.eval_shape(function, w, x)]
    return residuals(PLACEMENT, backward_of(function), specs_of(w), specs_of(x), wanted, least=least)


def gelu(w: Any, x: Any) -> Any:
    return jax.nn.gelu(jnp.dot(x, w))


def dropped(w: Any, x: Any) -> Any:
    key = jax.random.fold_in(jax.random.key(3), x[0, 0].astype(jnp.int32))
    return jnp.where(jax.random.bernoulli(key, 0.5, (4, 8)), x @ w, 0.0) * 2


def test_one_array_is_kept_of_gelu() -> None:
    parts = parts_of(gelu)
    assert [spec.shape for spec in parts.specs] == [(4, 8)]  # the product
    assert parts.kept_args == parts.kept_params == (0,)
    assert len(parts_of(gelu, least=False).specs) >= 4


def test_nothing_but_the_mask_is_kept_of_random_numbers() -> None:
    assert [(spec.dtype, spec.shape) for spec in parts_of(dropped).specs] == [(jnp.dtype(bool), (4, 8))]


def test_which_is_the_greatest_is_not_asked_again() -> None:
    def greatest(w: Any, x: Any) -> Any:
        return jax.nn.gelu(x @ w).max(0)

    kept = parts_of(greatest).specs
    assert (jnp.dtype(bool), (4, 8)) in [(spec.dtype, spec.shape) for spec in kept]


def test_what_a_policy_saves_is_kept_and_no_more() -> None:
    def named(w: Any, x: Any) -> Any:
        return jnp.sin(checkpoint_name(jnp.exp(x @ w), "here"))

    saved = jax.checkpoint(named, policy=jax.checkpoint_policies.save_only_these_names("here"))
    assert [spec.shape for spec in parts_of(saved).specs] == [(4, 8)]
    again = jax.checkpoint(named, policy=jax.checkpoint_policies.nothing_saveable)
    assert parts_of(again).specs == ()
