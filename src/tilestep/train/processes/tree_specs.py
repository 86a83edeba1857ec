"""Trees of shapes and dtypes as data, which a message can carry to another process.

The description of a tuple, a list or a dict says its type. The description of another node has the name of its class,
"module:qualname", and its data:

- A named tuple, or a dataclass that JAX knows as a node: its fields. The reader calls the class with them.
- Another class that JAX knows as a node: its children and its auxiliary data. The reader calls the function with which the class was
  registered.

The reader takes a class only from a module that it has imported already, and only if the class is a named tuple or a node of JAX. So a
description imports nothing. It calls only classes that the reading program has registered, or defined as named tuples.

Another process sends descriptions, so messages show only the beginning of their parts.
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

from tilestep.messages import shortened, shown
from tilestep.train.untyped import Pytree
from tilestep.train.untyped import jax as _jax

_registry: Any = default_registry

_KEY_IMPLS: Final = ("threefry2x32", "rbg", "unsafe_rbg")  # JAX's implementations of random keys
_PLAIN: Final = (tuple, list, dict, type(None))
_MOST_CHARACTERS: Final = 200  # of a name or an error that a message quotes
_MOST_FIELDS: Final = 8  # in a message
_LARGEST: Final = (1 << 63) - 1  # size of an array's dimension


def description_of(tree: Pytree) -> Any:
    """A tree of `jax.ShapeDtypeStruct` as data.

    Raises: TypeError for a class that its name does not lead to, or that does not rebuild an equal node; for dict keys, static fields and
        auxiliary data that are no data; and for random keys of another implementation than JAX's.
    """
    kind = type(tree)
    if kind is tuple or kind is list:
        return kind.__name__, *map(description_of, tree)
    if kind is dict:
        return "dict", {_data(key, dict): description_of(value) for key, value in tree.items()}
    if tree is None:
        return None
    node = _registry.flatten_one_level_with_keys(tree)
    if node is None:
        return "leaf", tuple(tree.shape), _dtype_name(tree.dtype)
    children, auxiliary = node
    if _is_named_tuple(kind) and auxiliary is kind:  # it is not registered as something else
        description = "fields", _name_of(kind), {name: description_of(getattr(tree, name)) for name in kind._fields}, {}
    elif dataclasses.is_dataclass(kind):
        description = _dataclass_description(tree, dict(children))
    else:
        description = "node", _name_of(kind), _data(auxiliary, kind), *(description_of(child) for _, child in children)
    rebuilt = tree_of(description)  # as the other processes will do
    if _jax.tree.flatten(rebuilt) != _jax.tree.flatten(tree):
        raise TypeError(
            f"class {_name_of(kind)} of an element cannot be sent to the other processes: rebuilt there it would have "
            f"{_difference(tree, rebuilt)}. Its __init__, or the function with which it is registered, must rebuild an equal node"
        )
    return description


def _dataclass_description(tree: Pytree, children: Mapping[Any, Any]) -> Any:
    kind = type(tree)
    names = [field.name for field in dataclasses.fields(kind) if field.init]
    fields = {key.name: description_of(child) for key, child in children.items() if isinstance(key, GetAttrKey)}
    if len(fields) < len(children) or not fields.keys() <= set(names):
        raise TypeError(
            f"class {_name_of(kind)} of an element cannot be sent to the other processes: it is a dataclass, and JAX knows its children by "
            "other names than its __init__ does. Register it with jax.tree_util.register_dataclass"
        )
    return "fields", _name_of(kind), fields, {name: _data(getattr(tree, name), kind) for name in names if name not in fields}


def _difference(tree: Pytree, rebuilt: Pytree) -> str:
    """The first difference between a tree and the one that its description makes, for a message."""
    leaves, structure = _jax.tree.flatten(tree)
    new_leaves, new_structure = _jax.tree.flatten(rebuilt)
    if len(new_leaves) != len(leaves):
        return f"{len(new_leaves):,} arrays instead of {len(leaves):,}"
    for index, (leaf, new) in enumerate(zip(leaves, new_leaves, strict=True)):
        if new != leaf:
            return f"{shown(new)} as array {index:,} instead of {shown(leaf)}"
    return f"the structure {_quoted(new_structure)} instead of {_quoted(structure)}"


def _data(value: Any, kind: type) -> Any:
    """The value, if a message can carry it. Raises: TypeError for any other one. Args: kind: the class that has it."""
    if type(value) in (tuple, list):
        return type(value)(_data(each, kind) for each in value)
    if type(value) is dict:
        return {_data(key, kind): _data(each, kind) for key, each in value.items()}
    if value is not None and type(value) not in (bool, int, float, str, bytes):
        raise TypeError(
            f"class {_name_of(kind)} of an element cannot be sent to the other processes: beside its arrays it has {shown(value)} of type "
            f"{_name_of(type(value))}. Keys, static fields and auxiliary data can be None, bool, int, float, str, bytes, and tuples, lists "
            "and dicts of these"
        )
    return value


def _dtype_name(dtype: Any) -> str:
    if not _jax.dtypes.issubdtype(dtype, _jax.dtypes.prng_key):
        return dtype.name
    if dtype.name not in _key_dtypes():
        raise TypeError(
            f"random keys of dtype {dtype} in an element cannot be sent to the other processes: only those of {', '.join(_KEY_IMPLS)}"
        )
    return dtype.name


@functools.cache
def _key_dtypes() -> dict[str, Any]:
    dtypes = [_jax.eval_shape(functools.partial(_jax.random.key, impl=impl), 0).dtype for impl in _KEY_IMPLS]
    return {dtype.name: dtype for dtype in dtypes}


def _name_of(kind: type) -> str:
    return f"{kind.__module__}:{kind.__qualname__}"


# ---------------------------------------------------------------------------------------------------------------------- reading


def tree_of(description: Any) -> Any:
    """The tree that another process has described.

    Raises: TypeError for a class that this process does not know, or that has other fields here. ValueError for data that are no
        description.
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
            raise ValueError(
                f"{shown(description)}, which another process has sent, is no description of a tree: all processes must run the same "
                "tilestep"
            )


def _shape(shape: tuple[Any, ...]) -> tuple[int, ...]:
    if not all(type(size) is int and 0 <= size <= _LARGEST for size in shape):
        raise ValueError(
            f"{shown(shape)}, which another process has sent, is no shape: each size must be a whole number, 0 to {_LARGEST:,}"
        )
    return shape


def _dtype_named(name: str) -> Any:
    if name in _key_dtypes():
        return _key_dtypes()[name]
    try:
        dtype = np.dtype(name if name.isidentifier() else "")  # NumPy would parse other names
    except TypeError:
        dtype = None
    if dtype is None or dtype.name != name or not (dtype.kind == "b" or _jax.dtypes.issubdtype(dtype, np.number)):
        raise ValueError(
            f"{shown(name)}, which another process has sent, is no dtype that this one knows: all processes must run the same jax "
            "and ml_dtypes"
        )
    return dtype


def _class_named(name: str) -> Any:
    """The object of that name in a module that is imported already; None if there is none. It imports nothing and runs no code."""
    module, _, path = name.partition(":")
    named: Any = sys.modules.get(module)
    for part in path.split("."):
        named = _namespace(named).get(part)
    return named


def _namespace(owner: Any) -> Mapping[str, Any]:
    if isinstance(owner, ModuleType):
        return object.__getattribute__(owner, "__dict__")  # `vars` would have a lazy module import itself
    return vars(owner) if isinstance(owner, type) else {}


def _node_class(name: str, *, by_fields: bool) -> type:
    kind = _class_named(name)
    if isinstance(kind, type) and kind not in _PLAIN and _is_node(kind):
        has_fields = dataclasses.is_dataclass(kind) or (by_fields and _is_named_tuple(kind))
        if has_fields is by_fields:
            return kind
    raise TypeError(
        f"class {_quoted(name)} of an element is not known by this name: define it at the top of a module that all processes import, and "
        "register it with jax.tree_util if it is no named tuple"
    )


def _is_node(kind: type) -> bool:
    try:
        PyTreeDef.from_node_data_and_children(_registry, (kind, None), [])
    except RuntimeError:  # XLA: the type is not registered
        return False
    return True


def _is_named_tuple(kind: type) -> bool:
    return issubclass(kind, tuple) and hasattr(kind, "_fields")


def _with_fields(kind: type, children: Mapping[str, Any], static: Mapping[str, Any]) -> Any:
    try:
        return kind(**children, **static)
    except Exception as error:
        raise TypeError(
            f"class {_name_of(kind)} of an element cannot be called with its fields, {_listed([*children, *static])}: {_quoted(error)}; "
            "all processes must define it alike, and its __init__ must take its fields"
        ) from error


def _with_children(kind: type, auxiliary: Any, children: list[Any]) -> Any:
    leaf = _jax.tree.structure(0)
    try:
        return PyTreeDef.from_node_data_and_children(_registry, (kind, auxiliary), [leaf] * len(children)).unflatten(children)
    except Exception as error:
        raise TypeError(
            f"class {_name_of(kind)} of an element cannot be made of its {len(children)} children: {_quoted(error)}; all processes must "
            "define and register it alike"
        ) from error


def _quoted(text: object) -> str:
    return shortened(text, _MOST_CHARACTERS)


def _listed(fields: list[Any]) -> str:
    more = f" and {len(fields) - _MOST_FIELDS:,} more" if len(fields) > _MOST_FIELDS else ""
    return ", ".join(shortened(field) if isinstance(field, str) else shown(field) for field in fields[:_MOST_FIELDS]) + more
