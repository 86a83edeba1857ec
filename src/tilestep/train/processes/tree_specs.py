"""Trees of shapes and dtypes as text, which another process reads: `jax.export` writes the arguments of a function that does nothing.

A tuple, a list and a dict with text as keys come again as they are. Another class is a node that both processes have registered with
`jax.export`, under the same name. So the reader imports nothing, and calls only what the reading program has registered.
"""

import base64
import functools
from typing import Any, Final

import jax
from jax import export
from jax.tree_util import PyTreeDef

from tilestep.messages import shortened
from tilestep.train.untyped import Pytree
from tilestep.train.untyped import jax as _jax

_MOST_QUOTED_CHARACTERS: Final = 300
_WAY_OUT: Final = (
    "elements are tuples, lists, dicts with text as keys, and classes that all processes have registered by "
    "jax.export.register_namedtuple_serialization or register_pytree_node_serialization under one name"
)


def encoded(tree: Pytree) -> str:
    """A tree of `jax.ShapeDtypeStruct` as text.

    Raises: TypeError for a class that is not registered with `jax.export`, for keys of a dict that are no text, and for random keys of
        another implementation than JAX's.
    """
    leaves, structure = _jax.tree.flatten(tree)
    return _encoded(structure, tuple(leaves))


@functools.lru_cache(maxsize=64)  # each run begins by it, mostly with the same elements
def _encoded(structure: PyTreeDef, leaves: tuple[Any, ...]) -> str:
    try:
        program = export.export(jax.jit(lambda _: None), platforms=["cpu"])(structure.unflatten(leaves))
        return base64.b64encode(program.serialize()).decode()
    except Exception as error:  # JAX raises a TypeError or a ValueError, and what a class raises that it calls
        raise TypeError(f"an element cannot be sent to the other processes: {_quoted(error)}; {_WAY_OUT}") from error


@functools.lru_cache(maxsize=64)
def decoded(text: str) -> Pytree:
    """The tree that another process has encoded. Raises: ValueError for other text, or for a class that is not registered here."""
    try:
        program = export.deserialize(bytearray(base64.b64decode(text)))
        (tree,), _ = program.in_tree.unflatten([jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in program.in_avals])
    except Exception as error:  # flatbuffers and JAX have errors of many classes
        raise ValueError(f"an element that another process has sent cannot be read: {_quoted(error)}; {_WAY_OUT}") from error
    return tree


def _quoted(error: Exception) -> str:
    return f"{type(error).__name__}: {shortened(error, _MOST_QUOTED_CHARACTERS)}"
