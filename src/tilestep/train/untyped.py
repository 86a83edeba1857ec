"""Where types end: JAX without its types, and names for values that only a comment can describe.

JAX's types say nothing of what is in a pytree, so a type checker would ask for a cast at every call.
"""

from typing import Any, TypeAlias

import jax as _typed
import jax.numpy as _typed_numpy

jax: Any = _typed
jnp: Any = _typed_numpy

Pytree: TypeAlias = Any  # containers that JAX knows (dicts, tuples, dataclasses, ...) with arrays or tracers as leaves
Spec: TypeAlias = Any  # a jax.ShapeDtypeStruct, or another object with `shape` and `dtype`
Atom: TypeAlias = Any  # a variable of a traced function, or a constant in it; its `aval` has `shape` and `dtype`
Structure: TypeAlias = Any  # a jax.tree_util.PyTreeDef, and
Device: TypeAlias = Any  # a jax.Device: type checkers take either for a variable
