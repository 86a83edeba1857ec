"""Names that moved or were renamed: each is one of today's functions."""

import sys
from typing import Any

import jax
import jax.core
import jax.experimental
import jax.interpreters.xla
import jax.numpy as jnp
from jax.core import ShapedArray
from jax.example_libraries import optimizers, stax
from jax.extend.core import Primitive

_jnp: Any = jnp
_tree: Any = jax.tree_util


def _in1d(ar1: Any, ar2: Any, assume_unique: bool = False, invert: bool = False) -> Any:
    """`jnp.isin` of a flat array."""
    return _jnp.isin(_jnp.ravel(ar1), ar2, assume_unique=assume_unique, invert=invert)


def _msort(a: Any) -> Any:
    """`jnp.sort` along the first axis."""
    return _jnp.sort(a, axis=0)


def _device_buffers(self: Any) -> list[Any]:
    """The array's part on each of this process's devices, in the order of the devices."""
    return [shard.data for shard in self.addressable_shards]


NAMES: dict[Any, dict[str, Any]] = {
    jax: {
        "ShapedArray": ShapedArray,
        **{name: getattr(_tree, name) for name in ("tree_flatten", "tree_leaves", "tree_map", "tree_reduce", "tree_structure")},
        **{name: getattr(_tree, name) for name in ("tree_transpose", "tree_unflatten")},
        "tree_multimap": _tree.tree_map,
    },
    jax.core: {"Primitive": Primitive},
    jax.tree_util: {"tree_multimap": _tree.tree_map},
    jnp: {
        "DeviceArray": jax.Array,
        "alltrue": _jnp.all,
        "cumproduct": _jnp.cumprod,
        "in1d": _in1d,
        "msort": _msort,
        "product": _jnp.prod,
        "round_": _jnp.round,
        "row_stack": _jnp.vstack,
        "sometrue": _jnp.any,
        "trapz": _jnp.trapezoid,
    },
    jax.interpreters.xla: {"DeviceArray": jax.Array},
    jax.experimental: {"optimizers": optimizers, "stax": stax},
}


def install() -> None:
    """Adds the missing names, and lets `from jax.experimental import stax` and `import jax.experimental.stax` find their modules."""
    for owner, names in NAMES.items():
        for name, value in names.items():
            if not hasattr(owner, name):
                setattr(owner, name, value)
    arrays: list[Any] = jax.Array.__subclasses__()
    for array in arrays:  # which has the name, but only to say that it is gone
        array.device_buffers = property(_device_buffers)
    for module in (optimizers, stax):
        sys.modules.setdefault(f"jax.experimental.{module.__name__.rpartition('.')[2]}", module)
