"""Trees of shapes and dtypes as data, which a message can carry to another process.

Tuples, lists and dicts are described as what they are. Other nodes are described by the name of their class, "module:qualname":

- A named tuple, or a dataclass that JAX knows as a node, by its fields' names. It is made again by its class, called with these.
- Another class that JAX knows as a node by what JAX knows of it: its children, and its auxiliary data. It is made again by the function
  with which the class was registered.

The reader takes a class only from a module that it has imported already, and only if the class is a named tuple or a node of JAX. So a
description imports nothing, and calls nothing that the reading program has not registered, or defined as a named tuple.
"""

from __future__ import annotations

import dataclasses
import functools
import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any, Final

import numpy as np
from jax.tree_util import GetAttrKey, PyTreeDef, default_registry

from tilestep.train.untyped import Pytree
from tilestep.train.untyped import jax as _jax

_registry: Any = default_registry

_KEY_IMPLS: Final = ("threefry2x32", "rbg", "unsafe_rbg")  # that JAX has, of random keys
_PLAIN: Final = (tuple, list, dict, type(None))


def described(tree: Pytree) -> Any:
    """A tree of `jax.ShapeDtypeStruct` as data.

    Raises: TypeError for a class that is not found by its name or cannot be made again, for keys, static fields and auxiliary data that
        are no data, and for random keys of another implementation than JAX's.
    """
    kind = type(tree)
    if kind is tuple or kind is list:
        return kind.__name__, *map(described, tree)
    if kind is dict:
        return "dict", {_data(key, dict): described(value) for key, value in tree.items()}
    if tree is None:
        return None
    node = _registry.flatten_one_level_with_keys(tree)
    if node is None:
        return "leaf", tuple(tree.shape), _dtype_name(tree.dtype)
    children, auxiliary = node
    if _is_named_tuple(kind) and auxiliary is kind:  # it is not registered as something else
        found = "fields", _name_of(kind), {name: described(getattr(tree, name)) for name in kind._fields}, {}
    elif dataclasses.is_dataclass(kind):
        found = _described_dataclass(tree, dict(children))
    else:
        found = "node", _name_of(kind), _data(auxiliary, kind), *(described(child) for _, child in children)
    again = tree_of(found)  # as the other processes will do
    if _jax.tree.flatten(again) != _jax.tree.flatten(tree):
        raise TypeError(
            f"class {_name_of(kind)} of an element cannot be told to the other processes: {tree!r:.200} would be {again!r:.200} there"
        )
    return found


def _described_dataclass(tree: Pytree, children: Mapping[Any, Any]) -> Any:
    kind = type(tree)
    names = [field.name for field in dataclasses.fields(kind) if field.init]
    own = {key.name: described(child) for key, child in children.items() if isinstance(key, GetAttrKey)}
    if len(own) < len(children) or not own.keys() <= set(names):
        raise TypeError(
            f"class {_name_of(kind)} of an element cannot be told to the other processes: it is a dataclass, and JAX knows its children by "
            "other names than its __init__ does. Register it with jax.tree_util.register_dataclass"
        )
    return "fields", _name_of(kind), own, {name: _data(getattr(tree, name), kind) for name in names if name not in own}


def _data(value: Any, kind: type) -> Any:
    """What is told as it is. Raises: TypeError for what is no data."""
    if type(value) in (tuple, list):
        return type(value)(_data(each, kind) for each in value)
    if type(value) is dict:
        return {_data(key, kind): _data(each, kind) for key, each in value.items()}
    if value is not None and type(value) not in (bool, int, float, str, bytes):
        raise TypeError(
            f"class {_name_of(kind)} of an element cannot be told to the other processes: beside its arrays it has {value!r:.200} of type "
            f"{_name_of(type(value))}. Keys, static fields and auxiliary data can be None, bool, int, float, str, bytes, and tuples, lists "
            "and dicts of these"
        )
    return value


def _dtype_name(dtype: Any) -> str:
    if not _jax.dtypes.issubdtype(dtype, _jax.dtypes.prng_key):
        return dtype.name
    if dtype.name not in _key_dtypes():
        raise TypeError(
            f"random keys of dtype {dtype} in an element cannot be told to other processes: only those of {', '.join(_KEY_IMPLS)}"
        )
    return dtype.name


@functools.cache
def _key_dtypes() -> dict[str, Any]:
    found = [_jax.eval_shape(functools.partial(_jax.random.key, impl=impl), 0).dtype for impl in _KEY_IMPLS]
    return {dtype.name: dtype for dtype in found}


def _name_of(kind: type) -> str:
    return f"{kind.__module__}:{kind.__qualname__}"


# ---------------------------------------------------------------------------------------------------------------------- reading


def tree_of(description: Any) -> Any:
    """The tree that another process has described.

    Raises: TypeError for a class that is not known here, or made of other fields. ValueError for what is no description.
    """
    match description:
        case None:
            return None
        case "tuple", *children:
            return tuple(map(tree_of, children))
        case "list", *children:
            return list(map(tree_of, children))
        case "dict", dict(children):
            return {key: tree_of(child) for key, child in children.items()}
        case "leaf", tuple(shape), str(name):
            return _jax.ShapeDtypeStruct(_shape(shape), _dtype_named(name))
        case "fields", str(name), dict(children), dict(static):
            return _with_fields(_node_class(name, by_fields=True), {field: tree_of(child) for field, child in children.items()}, static)
        case "node", str(name), auxiliary, *children:
            return _with_children(_node_class(name, by_fields=False), auxiliary, list(map(tree_of, children)))
        case _:
            raise ValueError(f"{description!r:.200} is no description of a tree")


def _shape(shape: tuple[Any, ...]) -> tuple[int, ...]:
    if not all(type(size) is int and 0 <= size < 1 << 63 for size in shape):
        raise ValueError(f"{shape!r:.200} is no shape")
    return shape


def _dtype_named(name: str) -> Any:
    if name in _key_dtypes():
        return _key_dtypes()[name]
    try:
        dtype = np.dtype(name if name.isidentifier() else "")  # others would be parsed
    except TypeError:
        dtype = None
    if dtype is None or dtype.name != name or not (dtype.kind == "b" or _jax.dtypes.issubdtype(dtype, np.number)):
        raise ValueError(f"{name!r:.200} is no dtype")
    return dtype


def _class_named(name: str) -> Any:
    """What a name says among all that is imported here; None if there is none. Nothing is imported and no code runs for it."""
    module, _, path = name.partition(":")
    found: Any = sys.modules.get(module)
    for part in path.split("."):
        found = _namespace(found).get(part)
    return found


def _namespace(found: Any) -> Mapping[str, Any]:
    if isinstance(found, ModuleType):
        return object.__getattribute__(found, "__dict__")  # `vars` would have a lazy module import itself
    return vars(found) if isinstance(found, type) else {}


def _node_class(name: str, *, by_fields: bool) -> type:
    kind = _class_named(name)
    if isinstance(kind, type) and kind not in _PLAIN and _is_node(kind):
        has_fields = dataclasses.is_dataclass(kind) or (by_fields and _is_named_tuple(kind))
        if has_fields is by_fields:
            return kind
    raise TypeError(
        f"class {name:.200} of an element is not known by this name: define it at the top of a module that all processes import, and "
        "register it with jax.tree_util if it is no named tuple"
    )


def _is_node(kind: type) -> bool:
    try:
        PyTreeDef.from_node_data_and_children(_registry, (kind, None), [])
    except RuntimeError:  # as XLA says that a type is not registered
        return False
    return True


def _is_named_tuple(kind: type) -> bool:
    return issubclass(kind, tuple) and hasattr(kind, "_fields")


def _with_fields(kind: type, children: Mapping[str, Any], static: Mapping[str, Any]) -> Any:
    try:
        return kind(**children, **static)
    except Exception as error:
        fields = ", ".join(map(str, (*children, *static)))
        raise TypeError(f"class {_name_of(kind)} of an element cannot be called with its fields, {fields:.200}: {error}") from error


def _with_children(kind: type, auxiliary: Any, children: list[Any]) -> Any:
    leaf = _jax.tree.structure(0)
    try:
        return PyTreeDef.from_node_data_and_children(_registry, (kind, auxiliary), [leaf] * len(children)).unflatten(children)
    except Exception as error:
        raise TypeError(f"class {_name_of(kind)} of an element cannot be made of its {len(children)} children: {error}") from error
