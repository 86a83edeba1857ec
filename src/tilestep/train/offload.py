"""Moves arrays between the memories of host and device, such as an optimiser's state between updates."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, Literal, cast, get_args

import jax
import numpy as np

from tilestep.messages import shortened, shown
from tilestep.train.other_arguments import devices_named, platform_named, require_one_of, require_tree
from tilestep.train.simulated import put_shards
from tilestep.train.untyped import Pytree
from tilestep.train.untyped import jax as _jax
from tilestep.within import within

if TYPE_CHECKING:
    import optax

Kind = Literal["optimizer_state", "accumulators", "parameters"]
Choice = bool | Callable[[str, Any], bool] | None
Offload = Choice | Mapping[Kind, Choice]

HOST_KIND: Final = "pinned_host"  # JAX's name, on each platform, of the host memory that a device reads by itself
LEAST_ELEMENTS: Final = 2  # a smaller array costs more to move than it frees. PopART has the same bound for arrays off the chip

_KINDS: Final = get_args(Kind)
_ONE_MEMORY: Final = frozenset({"cpu"})  # platforms whose devices compute in the host's memory

_INNER: Final = tuple(os.path.dirname(path) + os.sep for path in (__file__, jax.__file__))

_HOST: Final = _jax.memory.Space.Host
_DEVICE: Final = _jax.memory.Space.Device
_KIND_OF: Final = {_HOST: HOST_KIND, _DEVICE: "device"}


_platform: ContextVar[str | None] = ContextVar("tilestep_traced_platform", default=None)


def placed(tree: Pytree, offload: Offload = None, *, kind: Kind = "parameters", platform: str | None = None) -> Pytree:
    """A pytree with some leaves in the host's memory, and the others where they are.

    Args:
        tree: a pytree of arrays.
        offload: as for `offloaded`.
        kind: the entry of `offload` to use, if it is a mapping.
        platform: as for `offloaded`.

    Returns:
        The pytree with the leaves that `offload` chooses in the host's memory.

    Raises:
        TypeError: as for `offloaded`.
        ValueError: as for `offloaded`, when `kind` is another string, and for a platform that JAX does not have.
    """
    require_one_of("kind", kind, _KINDS)
    platform = None if platform is None else platform_named(platform)
    return move_chosen(tree, choice_for(offload, kind), kind, platform=platform or platform_of(tree))


def on_device(tree: Pytree) -> Pytree:
    """Moves the leaves that are in the host's memory to the device. A traced function moves each of them when it first uses it.

    Args:
        tree: a pytree of arrays of any shapes and dtypes.

    Returns:
        The pytree, with all leaves on the device.
    """
    leaves, structure = _jax.tree.flatten(tree)
    return _jax.tree.unflatten(structure, _moved(leaves, [_DEVICE if is_on_host(leaf) else None for leaf in leaves]))


def sharding_on_device(sharding: Any) -> Any:
    """The same sharding in the device's memory, if it is one in the host's."""
    return sharding.with_memory_kind(_KIND_OF[_DEVICE]) if sharding.memory_kind == HOST_KIND else sharding


def placed_like(tree: Pytree, like: Pytree) -> Pytree:
    """A pytree with its leaves in the memories of another one's.

    It puts a saved state, read as NumPy's arrays, where a new state is.

    Args:
        tree: a pytree of arrays.
        like: a pytree of the same structure.

    Returns:
        The arrays of `tree`, each in the memory (the host's or the device's) of the same leaf of `like`.

    Raises:
        ValueError: when the trees have different structures, or a leaf has another shape or dtype.
    """
    _require_alike(tree, like)
    return in_memories_of(tree, like)


def in_memories_of(tree: Pytree, like: Any) -> Any:
    """`placed_like` without its checks, so the dtypes of leaves may differ."""
    leaves, structure = _jax.tree.flatten(tree)
    spaces = [
        None if is_on_host(model) == is_on_host(leaf) else _HOST if is_on_host(model) else _DEVICE
        for leaf, model in zip(leaves, structure.flatten_up_to(like), strict=True)
    ]
    return _jax.tree.unflatten(structure, _moved(leaves, spaces))


def in_memory(tree: Any, *, host: bool) -> Any:
    """A pytree in the host's memory, or on the device."""
    leaves, structure = _jax.tree.flatten(tree)
    space = _HOST if host else _DEVICE
    return _jax.tree.unflatten(structure, _moved(leaves, [None if is_on_host(leaf) == host else space for leaf in leaves]))


def _require_alike(tree: Pytree, like: Any) -> None:
    require_tree("tree", tree)
    require_tree("like", like)
    (leaves, structure), (like_leaves, like_structure) = (_jax.tree_util.tree_flatten_with_path(one) for one in (tree, like))
    if structure != like_structure:
        paths, like_paths = ([_named(path) for path, _ in entries] for entries in (leaves, like_leaves))
        missing = next((f"it has no leaf {path}" for path in like_paths if path not in set(paths)), None)
        more = next((f"like has no leaf {path}" for path in paths if path not in set(like_paths)), None)
        other = f"it is {shortened(structure, 200)} and like {shortened(like_structure, 200)}"
        raise ValueError(f"tree has another structure than like: {missing or more or other}; give the saved state of the same optimiser")
    for (path, leaf), (_, model) in zip(leaves, like_leaves, strict=True):
        spec, like_spec = _spec_text(leaf), _spec_text(model)
        if spec != like_spec:
            raise ValueError(
                f"the leaf {_named(path)} is {spec} in tree, but {like_spec} in like: give the saved state of the same model and "
                "optimiser, or convert it with .astype"
            )


def _named(path: Any) -> str:
    return shortened(_jax.tree_util.keystr(path, simple=True, separator="/")) or "tree"


def _spec_text(leaf: Any) -> str:
    """Shape and dtype of an array or number; the type of anything else."""
    shape, dtype = getattr(leaf, "shape", None), getattr(leaf, "dtype", None)
    if isinstance(leaf, bool | int | float | complex) and dtype is None:
        shape, dtype = (), _jax.dtypes.result_type(type(leaf))
    return f"a {type(leaf).__name__}" if shape is None or dtype is None else f"{dtype}[{','.join(map(str, shape))}]"


def is_on_host(leaf: Any) -> bool:
    """Whether an array is in the host's memory and not on the device. A tracer counts as its array."""
    return isinstance(leaf, jax.Array) and _jax.typeof(leaf).memory_space == _HOST


def is_tracing(leaves: Sequence[Any]) -> bool:
    """Whether an array is a tracer, or JAX traces a function now. Then operations compute nothing."""
    return any(isinstance(leaf, _jax.core.Tracer) for leaf in leaves) or isinstance(_jax.device_put(np.False_), _jax.core.Tracer)


def transformation(optimizer: Any) -> optax.GradientTransformationExtraArgs:
    """The optimiser, with an `update` that takes further arguments. Raises: TypeError for anything that is no optimiser."""
    import optax

    if isinstance(optimizer, type) or not all(callable(getattr(optimizer, name, None)) for name in ("init", "update")):
        raise TypeError(f"the optimizer is {shown(optimizer)}: it must be an optax.GradientTransformation, such as optax.adam(1e-3)")
    return optax.with_extra_args_support(optimizer)


def choice_for(offload: Offload, kind: Kind) -> Choice:
    """The choice of `offload` for one kind of array: `offload` itself, or its entry if it is a mapping.

    An entry that a mapping lacks is None for "optimizer_state". It is False for the others, because every step uses them.

    Raises: TypeError if `offload` or an entry has another type; ValueError for a mapping with another key.
    """
    if not isinstance(offload, Mapping):
        return _choice(offload, kind)
    _require_kinds(offload)
    choices = {one: _choice(choice, one) for one, choice in offload.items()}
    return choices.get(kind, None if kind == "optimizer_state" else False)


def _choice(choice: Any, kind: Kind) -> Choice:
    if choice is None or isinstance(choice, bool) or (callable(choice) and not isinstance(choice, type)):
        return cast(Choice, choice)
    raise TypeError(f"offload is {shown(choice)} for {kind}: it must be None, True, False or a function of a leaf's path and the leaf")


def _require_kinds(kinds: Iterable[str]) -> None:
    if unknown := [kind for kind in kinds if kind not in _KINDS]:
        raise ValueError(f"offload has an entry for {shown(unknown[0])}: the kinds are {', '.join(_KINDS)}")


def platform_of(tree: Pytree) -> str:
    """The platform of a tree's first array whose platform JAX knows; without one that of the default device."""
    for leaf in _jax.tree.leaves(tree):
        if isinstance(leaf, _jax.core.Tracer):
            device = getattr(_jax.typeof(leaf).sharding.mesh, "abstract_device", None)
            if device is not None and device.platform:
                return str(device.platform)
        elif isinstance(leaf, jax.Array):
            return str(next(iter(cast(Any, leaf).sharding.device_set)).platform)
    if (traced := _platform.get()) is not None:
        return traced
    default = _jax.config.jax_default_device
    return default if isinstance(default, str) else str((default or _jax.devices()[0]).platform)


def traced_for(platform: str) -> AbstractContextManager[None]:
    return within(_platform, platform)


def why_not(platform: str, memories: Collection[str]) -> str | None:
    """The reason for which a platform cannot keep arrays in the host's memory; None if it can.

    Args: memories: the kinds of memory that the platform's devices address.
    """
    if HOST_KIND in memories:
        return None
    others = ", ".join(sorted(memories)) or "none that JAX knows"
    return f"the devices of platform {shown(platform)} address no memory {HOST_KIND!r}, only {others}"


def move_chosen(tree: Pytree, choice: Choice, kind: Kind, *, platform: str) -> Pytree:
    leaves, structure = _jax.tree.flatten(tree)
    chosen = are_chosen(tree, choice, platform=platform)
    if any(chosen) and (reason := why_not(platform, [memory.kind for memory in devices_named(platform)[0].addressable_memories()])):
        if choice is not None:
            raise ValueError(f"offload wants {kind} in the host's memory, but {reason}: leave offload None or False there")
        warnings.warn(f"{kind} stay on the device: {reason}", stacklevel=_level_of_caller())
        return tree
    return _jax.tree.unflatten(structure, _moved(leaves, [_HOST if is_chosen else None for is_chosen in chosen]))


def are_chosen(tree: Pytree, choice: Choice, *, platform: str) -> list[bool]:
    """Of each leaf, an array or its shape, whether it should be in the host's memory."""
    leaves = _jax.tree_util.tree_leaves_with_path(tree)
    if choice is False or (choice is None and platform in _ONE_MEMORY):
        return [False] * len(leaves)
    return [_is_chosen(choice, path, leaf) for path, leaf in leaves]


def _is_chosen(choice: Choice, path: Any, leaf: Any) -> bool:
    if not isinstance(leaf, jax.Array | np.ndarray | jax.ShapeDtypeStruct):
        return False  # a Python number is a constant of the program
    if not callable(choice):
        return leaf.size >= LEAST_ELEMENTS
    name = _jax.tree_util.keystr(path, simple=True, separator="/")
    answer: Any = choice(name, leaf)
    if not isinstance(answer, bool | np.bool_):
        raise TypeError(f"offload({shown(name)}, leaf) returned {shown(answer)}: it must be True or False")
    return bool(answer)


def _moved(leaves: Sequence[Any], spaces: Sequence[Any]) -> list[Any]:
    """The arrays in other memories of their devices. Outside of a traced function they are transfers, and start no program.

    Args: spaces: for each array its new memory; None: it stays.
    """
    moved = list(leaves)
    indices = [index for index, space in enumerate(spaces) if space is not None]
    if not indices:
        return moved
    if is_tracing([leaves[index] for index in indices]):
        for index in indices:
            moved[index] = _jax.device_put(leaves[index], spaces[index])
        return moved
    shardings = [_sharding_in(leaves[index], _KIND_OF[spaces[index]]) for index in indices]
    for index, leaf in zip(indices, put_shards([leaves[index] for index in indices], shardings), strict=True):
        moved[index] = leaf
    return moved


def _sharding_in(leaf: Any, kind: str) -> Any:
    """An array's sharding with that kind of memory. An array of NumPy gets the default device's."""
    sharding: Any = (leaf if isinstance(leaf, jax.Array) else _jax.device_put(np.False_)).sharding
    return sharding.with_memory_kind(kind)


def _level_of_caller() -> int:
    """The `stacklevel` of a warning that names the first caller outside of this package and JAX."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_INNER):
        level, frame = level + 1, frame.f_back
    return level
