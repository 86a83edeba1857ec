"""Where an optimiser's state lives: in the host's memory between updates, on the device while an update uses it."""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, Literal, cast, get_args

import jax
import numpy as np

from tilestep.messages import plain, shortened, shown
from tilestep.train.other_arguments import platform_named, require_one_of, require_tree
from tilestep.train.untyped import Pytree
from tilestep.train.untyped import jax as _jax

if TYPE_CHECKING:
    import optax

Kind = Literal["optimizer_state", "accumulators", "parameters"]
Choice = bool | Callable[[str, Any], bool] | None
Offload = Choice | Mapping[Kind, Choice]

HOST_KIND: Final = "pinned_host"  # the memory that a device reads by itself, as each platform of JAX calls it
LEAST_ELEMENTS: Final = 2  # what is smaller costs more to move than it frees. PopART's least for arrays off the chip, too

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
        kind: the entry of a mapping that counts.
        platform: as for `offloaded`.

    Returns:
        The pytree with the leaves that `offload` chooses in the host's memory.

    Raises:
        TypeError: as for `offloaded`.
        ValueError: as for `offloaded`, when `kind` is another string, and for a platform that JAX does not have.
    """
    require_one_of("kind", kind, _KINDS)
    platform = None if platform is None else platform_named(platform)
    return place(tree, choice_for(offload, kind), kind, platform=platform or platform_of(tree))


def on_device(tree: Pytree) -> Pytree:
    """Brings the leaves that are in the host's memory to the device. Inside of a traced function they come where they are used.

    Args:
        tree: a pytree of arrays of any shapes and dtypes.

    Returns:
        The pytree, with all leaves on the device.
    """
    leaves, structure = _jax.tree.flatten(tree)
    return _jax.tree.unflatten(structure, _moved(leaves, [_DEVICE if is_on_host(leaf) else None for leaf in leaves]))


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
    """`placed_like` of what is known to be alike, or has leaves of other dtypes."""
    leaves, structure = _jax.tree.flatten(tree)
    spaces = [
        None if is_on_host(own) == is_on_host(leaf) else _HOST if is_on_host(own) else _DEVICE
        for leaf, own in zip(leaves, structure.flatten_up_to(like), strict=True)
    ]
    return _jax.tree.unflatten(structure, _moved(leaves, spaces))


def _require_alike(tree: Pytree, like: Any) -> None:
    require_tree("tree", tree)
    require_tree("like", like)
    leaves, wanted_leaves = (_jax.tree_util.tree_flatten_with_path(one) for one in (tree, like))
    if leaves[1] != wanted_leaves[1]:
        paths, wanted_paths = ([_named(path) for path, _ in found] for found, _ in (leaves, wanted_leaves))
        missing = next((f"it has no leaf {path}" for path in wanted_paths if path not in set(paths)), None)
        more = next((f"like has no leaf {path}" for path in paths if path not in set(wanted_paths)), None)
        other = f"it is {shortened(plain(leaves[1]), 200)} and like {shortened(plain(wanted_leaves[1]), 200)}"
        raise ValueError(f"tree has another structure than like: {missing or more or other}; give what was saved of the same optimiser")
    for (path, leaf), (_, own) in zip(leaves[0], wanted_leaves[0], strict=True):
        found, wanted = _form(leaf), _form(own)
        if found != wanted:
            raise ValueError(
                f"the leaf {_named(path)} is {found} in tree, but {wanted} in like: give what was saved of the same model and optimiser, "
                "or convert it with .astype"
            )


def _named(path: Any) -> str:
    return shortened(plain(_jax.tree_util.keystr(path, simple=True, separator="/"))) or "tree"


def _form(leaf: Any) -> str:
    """Shape and dtype of an array or number, of anything else its type."""
    shape, dtype = getattr(leaf, "shape", None), getattr(leaf, "dtype", None)
    if isinstance(leaf, bool | int | float | complex) and dtype is None:
        shape, dtype = (), _jax.dtypes.result_type(type(leaf))
    return f"a {type(leaf).__name__}" if shape is None or dtype is None else f"{dtype}[{','.join(map(str, shape))}]"


def is_on_host(leaf: Any) -> bool:
    """Whether an array, or what stands for it in a function that JAX traces, is in the host's memory and not on the device."""
    return isinstance(leaf, jax.Array) and _jax.typeof(leaf).memory_space == _HOST


def is_tracing(leaves: Sequence[Any]) -> bool:
    """Whether arrays are what JAX traces, or a function is being traced: then nothing is computed now."""
    return any(isinstance(leaf, _jax.core.Tracer) for leaf in leaves) or isinstance(_jax.device_put(np.False_), _jax.core.Tracer)


def transformation(optimizer: Any) -> optax.GradientTransformationExtraArgs:
    """An optimiser as one that takes further arguments. Raises: TypeError for what is none."""
    import optax

    if isinstance(optimizer, type) or not all(callable(getattr(optimizer, name, None)) for name in ("init", "update")):
        raise TypeError(f"the optimizer is {shown(optimizer)}: it must be an optax.GradientTransformation, such as optax.adam(1e-3)")
    return optax.with_extra_args_support(optimizer)


def choice_for(offload: Offload, kind: Kind) -> Choice:
    """What `offload` says of one kind of array: itself, or its entry if it is a mapping.

    What a mapping lacks is None for "optimizer_state", and False for the others, which every step uses.

    Raises: TypeError if it, or an entry, is none of these, ValueError for a mapping with another key.
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
    """The platform of a tree's first array of which JAX knows it, else that of the default device."""
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


@contextlib.contextmanager
def traced_for(platform: str) -> Iterator[None]:
    token = _platform.set(platform)
    try:
        yield
    finally:
        _platform.reset(token)


def why_not(platform: str, memories: Collection[str]) -> str | None:
    """Why nothing can be kept in the host's memory on a platform whose devices can address these kinds of memory; None if it can."""
    if HOST_KIND in memories:
        return None
    others = ", ".join(sorted(memories)) or "none that JAX knows"
    return f"the devices of platform {shown(platform)} address no memory {HOST_KIND!r}, only {others}"


def place(tree: Pytree, choice: Choice, kind: Kind, *, platform: str) -> Pytree:
    if choice is False or (choice is None and platform in _ONE_MEMORY):
        return tree
    found, structure = _jax.tree_util.tree_flatten_with_path(tree)
    chosen = [_is_chosen(choice, path, leaf) for path, leaf in found]
    if any(chosen) and (reason := why_not(platform, [memory.kind for memory in _jax.devices(platform)[0].addressable_memories()])):
        if choice is not None:
            raise ValueError(f"offload wants {kind} in the host's memory, but {reason}: leave offload None or False there")
        warnings.warn(f"{kind} stay on the device: {reason}", stacklevel=_level_of_caller())
        return tree
    return _jax.tree.unflatten(structure, _moved([leaf for _, leaf in found], [_HOST if is_chosen else None for is_chosen in chosen]))


def _is_chosen(choice: Choice, path: Any, leaf: Any) -> bool:
    if not isinstance(leaf, jax.Array | np.ndarray):
        return False  # a number of Python's is a constant of the program
    if not callable(choice):
        return leaf.size >= LEAST_ELEMENTS
    where = _jax.tree_util.keystr(path, simple=True, separator="/")
    answer: Any = choice(where, leaf)
    if not isinstance(answer, bool | np.bool_):
        raise TypeError(f"offload({shown(where)}, leaf) returned {shown(answer)}: it must be True or False")
    return bool(answer)


def _moved(leaves: Sequence[Any], spaces: Sequence[Any]) -> list[Any]:
    """Arrays in other memories of their devices. Outside of a function that JAX traces they are transfers, and start no program.

    Args: spaces: where each goes; None: it stays.
    """
    moved = list(leaves)
    places = [place for place, space in enumerate(spaces) if space is not None]
    if not places:
        return moved
    if is_tracing([leaves[place] for place in places]):
        for place in places:
            moved[place] = _jax.device_put(leaves[place], spaces[place])
        return moved
    shardings = [_sharding_in(leaves[place], _KIND_OF[spaces[place]]) for place in places]
    for place, leaf in zip(places, _jax.device_put([leaves[place] for place in places], shardings), strict=True):
        moved[place] = leaf
    return moved


def _sharding_in(leaf: Any, kind: str) -> Any:
    """Where an array is, in the memory of that kind. One of NumPy's comes to the default device."""
    sharding: Any = (leaf if isinstance(leaf, jax.Array) else _jax.device_put(np.False_)).sharding
    return sharding.with_memory_kind(kind)


def _level_of_caller() -> int:
    """Of how many calls up a warning tells: the first one that neither this package nor JAX makes."""
    level, frame = 1, sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_INNER):
        level, frame = level + 1, frame.f_back
    return level
