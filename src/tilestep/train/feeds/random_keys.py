"""Random keys in queues: numbers on their way, keys in programs and where a program reads them.

NumPy has no keys, so queues keep the numbers of which JAX makes them, and the name of the generator: '' stands for no key.
"""

import contextlib
from collections.abc import Sequence
from typing import Any

import jax

from tilestep.train.untyped import Spec
from tilestep.train.untyped import jax as _jax


def numbers_of(leaf: Any) -> tuple[Any, str]:
    """(numbers of an array of keys, name of their generator); anything else as it is, and ''.

    Args: leaf: of a tree; an array of keys may be a jax.ShapeDtypeStruct, and its numbers are one then.
    """
    if not isinstance(leaf, (jax.Array, jax.ShapeDtypeStruct)) or not _jax.dtypes.issubdtype(leaf.dtype, _jax.dtypes.prng_key):
        return leaf, ""
    found: list[str] = []

    def numbers(keys: Any) -> Any:
        found.append(str(_jax.random.key_impl(keys)))
        return _jax.random.key_data(keys)

    return numbers(leaf) if isinstance(leaf, jax.Array) else _jax.eval_shape(numbers, leaf), found[0]


def keys_of(leaves: Sequence[Any], generators: Sequence[str]) -> list[Any]:
    """Leaves whose generator has a name as arrays of keys, where their numbers are; the others as they are."""
    pairs = zip(leaves, generators, strict=True)
    return [_jax.random.wrap_key_data(leaf, impl=generator) if generator else leaf for leaf, generator in pairs]


def keys_on_host(leaves: Sequence[Any], generators: Sequence[str]) -> list[Any]:
    """The same of NumPy's arrays: keys are in the host's memory, so nothing goes to another device for them."""
    if not any(generators):
        return list(leaves)
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(RuntimeError):  # the process has no CPU platform
            stack.enter_context(_jax.default_device(_jax.local_devices(backend="cpu")[0]))
        return keys_of(leaves, generators)


def kind(leaf: Spec, generator: str) -> str:
    """Dtype and shape of an array, of which a message is to speak. Args: leaf: numbers; generator: that makes keys of them."""
    dtype, shape = (f"key<{generator}>", leaf.shape[:-1]) if generator else (leaf.dtype, leaf.shape)
    return f"{dtype}[{','.join(map(str, shape))}]"
