"""Checks the arguments of `import_onnx`, and the parameters that its functions get."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from tilestep.onnx.errors import OnnxError
from tilestep.onnx.graph import Graph
from tilestep.onnx.specs import ValueSpec

Trainable = Callable[[str], bool] | Collection[str]


def fixed_values(static: Collection[str] | Mapping[str, Any], declared: Mapping[str, ValueSpec]) -> dict[str, Any]:
    """Values of inputs that the caller gives once and for all. Raises: TypeError, OnnxError for names that the model does not have."""
    if isinstance(static, str):
        raise TypeError(f"static is the text {static!r}: it must be a list of inputs' names, such as [{static!r}]")
    unknown = set(static) - declared.keys()
    if unknown:
        raise OnnxError(f"static names '{min(unknown, key=str)}', and the model's inputs are {', '.join(declared) or 'none'}")
    if not isinstance(static, Mapping):
        return {}
    return {name: declared[name].checked(value, known=True) for name, value in static.items()}


def chooser(trainable: Trainable | None, initializers: Collection[str], excluded: Mapping[str, str]) -> Callable[[str], bool]:
    """Whether an initialiser may be a parameter, by its name.

    Args: excluded: name -> why it can be none.

    Raises: TypeError; OnnxError for a list with a name that is no initialiser or can be no parameter.
    """
    if trainable is None:
        return lambda _: True
    if callable(trainable):
        return trainable
    if isinstance(trainable, str):
        raise TypeError(f"trainable is the text {trainable!r}: it must be a list of names, or a function of a name")
    names = frozenset(trainable)
    if unknown := names.difference(initializers):
        raise OnnxError(f"trainable names {min(unknown, key=str)!r}, which is no initialiser of the model")
    if wrong := names & excluded.keys():
        raise OnnxError(f"trainable names '{min(wrong)}', which can be no parameter, because {excluded[min(wrong)]}")
    return names.__contains__


def require_names(what: str, given: Mapping[str, Any], own: Mapping[str, Any]) -> None:
    """Raises: OnnxError unless `given` has the names of `own`. Args: what: "params" or "state"."""
    if not isinstance(given, Mapping):  # a caller's mistake
        raise OnnxError(f"{what} is a {type(given).__name__}: it must be a mapping of names to arrays, such as model.{what}")
    if given.keys() != own.keys():
        lacking, unknown = sorted(own.keys() - given.keys()), sorted(given.keys() - own.keys())
        which = f"lacks '{lacking[0]}'" if lacking else f"has '{unknown[0]}', which the model does not have"
        raise OnnxError(f"{what} {which}: it must have the names of model.{what}")


def require_bounds(bounds: Mapping[str, int] | None, graph: Graph) -> dict[str, int]:
    """The bounds by name. Raises: TypeError; OnnxError for a bound that is no size, or of a node that the model does not have."""
    if bounds is not None and not isinstance(bounds, Mapping):  # a caller's mistake
        raise TypeError(f"bounds is a {type(bounds).__name__}: it must be a mapping of names to numbers of elements")
    names = set(_names_of(graph)) if bounds else set[str]()
    for name, bound in (bounds or {}).items():
        if isinstance(bound, bool) or not isinstance(bound, int) or bound < 0:
            raise OnnxError(f"bounds['{name}'] is {bound!r}: it must be a whole number of elements")
        if name not in names:
            raise OnnxError(f"bounds names '{name}', and the model has no such node or value")
    return dict(bounds or {})


def _names_of(graph: Graph) -> list[str]:
    names: list[str] = []
    for node in graph.nodes:
        names += [node.name, *node.outputs]
        for inner in (*node.subgraphs, *((node.function,) if node.function is not None else ())):
            names += _names_of(inner)
    return names
