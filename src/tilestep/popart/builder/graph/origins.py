"""Where the program called the builder for each operator, so that profiles show an operator's cost beside that line."""

import contextlib
from collections.abc import Iterator
from typing import Any, Final

import jax
import onnx
from jax.extend import source_info_util

from tilestep.popart.builder.graph.attribute_names import DEBUG_INFO_ID
from tilestep.popart.builder.graph.graph_walk import nodes_of

Origin = Any  # a traceback as JAX has them, whose classes have no public name

# JAX traces a function such as `jnp.where` once, and would give all operators that call it the line of the first
_told_apart: Final[Any] = jax.make_user_context(None)
_origins: Final[dict[tuple[int, tuple[str, ...]], Origin]] = {}  # process-wide, as models go from the builder to a session as bytes


def note_origin(number: int, outputs: list[str]) -> None:
    """Notes that an operator is being made. Args: number: of its debug information. outputs: their ids."""
    _origins[number, tuple(outputs)] = source_info_util.current().traceback


def origins_of(graph: onnx.GraphProto) -> dict[str, Origin]:
    """The calls that made a graph's operators, and those of graphs inside of it, by first output.

    Operators that no builder of this process has made have none, nor have those whose first output has the name of another's.
    """
    found: dict[str, Origin] = {}
    twice: set[str] = set()
    for node in nodes_of(graph):
        first = next(filter(None, node.output), "")
        twice.update({first} & found.keys())
        number = next((attribute.i for attribute in node.attribute if attribute.name == DEBUG_INFO_ID), 0)
        found[first] = _origins.get((number, tuple(node.output)))
    return {name: origin for name, origin in found.items() if origin is not None and name not in twice}


@contextlib.contextmanager
def made_at(origin: Origin) -> Iterator[None]:
    """What JAX traces inside comes from the line that made an operator."""
    with source_info_util.user_context(origin), _told_apart(origin):
        yield
