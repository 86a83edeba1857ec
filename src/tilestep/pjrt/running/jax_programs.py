"""Recognises JAX's own programs: operations outside of jit, and functions that JAX has jitted itself, such as `jnp.clip`."""

import functools
import re
import sys

import jax
from jax.extend.core import Primitive

_PREFIX = "jit_"


def is_jax_program(name: str) -> bool:
    """Whether a program has the name of one of JAX's own. A user's function of such a name counts, too."""
    return name.startswith(_PREFIX) and name.removeprefix(_PREFIX) in _names(len(sys.modules))


@functools.lru_cache(maxsize=1)
def _names(_modules: int) -> frozenset[str]:
    """Names of operations and jitted functions in the modules of JAX that are loaded.

    Args: number of loaded modules, as of which the names are.
    """
    jitted = type(jax.jit(lambda: None))
    names: set[str] = set()
    for module_name in list(sys.modules):  # names alone: another thread may import, and pairs could be collected meanwhile
        module = sys.modules.get(module_name)
        if module is None or (module_name != "jax" and not module_name.startswith("jax.")):
            continue
        for found in list(vars(module).values()):
            if isinstance(found, Primitive):
                names.add(found.name)
            elif isinstance(found, jitted | jax.numpy.ufunc) or isinstance(getattr(found, "__wrapped__", None), jitted):  # as jax.nn.relu
                names.add(getattr(found, "__name__", ""))
    return frozenset(re.sub(r"\W", "_", name) for name in names)
