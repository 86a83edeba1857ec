"""Where an optimiser's state lives: in the host's memory between updates, on the device while an update uses it."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, cast, get_args

import jax
import numpy as np

from tilestep.train.initial_state import in_one_program, is_tracing, platform_traced

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

_jax: Any = jax  # whose types say nothing of what is in a tree
_HOST: Final = _jax.memory.Space.Host
_DEVICE: Final = _jax.memory.Space.Device
_KIND_OF: Final = {_HOST: HOST_KIND, _DEVICE: "device"}


def offloaded(
    optimizer: optax.GradientTransformation, offload: Offload = None, *, platform: str | None = None
) -> optax.GradientTransformationExtraArgs:
    """`optimizer` with its state in the host's memory between updates (`pinned_host`; of an IPU-Machine, streaming memory).

    `init` moves the state there. `update` brings it to the device, and what it returns is in the host's memory again: the leaves that
    `init` has moved, wherever the caller has kept them. Under `jit` and in loops each leaf comes when the update first needs it, and
    goes as soon as its new value is there. Parameters and gradients that are in the host's memory come to the device for the update, too.
    No value changes.

    Args:
        optimizer: any transformation of optax.
        offload: which leaves of the state. None: those of 2 elements and more, if the platform has a memory of its own beside the
            host's (`ipu`, GPU, TPU; not CPU). True: the same on any platform, in `pinned_host`. False: none.
            `offload(path, leaf)` chooses by itself: `path` names the leaf in the state ("0/mu/dense/kernel"), `leaf` has shape and dtype.
            A mapping by kind: what it has for "optimizer_state", else None.
        platform: of the devices that will run it. None: that of the parameters; where JAX does not tell, as for the arguments of a
            function that it traces for one device, that of the default device.
    Raises: TypeError for an `offload` of another kind, or what is no optimiser. `init`: ValueError for True, or if a leaf was chosen, on
        a platform whose devices have no `pinned_host`. With None `init` warns of that, and leaves the state on the device.
    """
    import optax  # which takes a while

    choice = choice_for(offload, "optimizer_state")
    inner = transformation(optimizer)

    def init(params: Any) -> Any:
        here = platform_of(params)

        def state(params: Any) -> Any:
            return _placed(inner.init(on_device(params)), choice, "optimizer_state", platform=platform or here)

        return in_one_program(state, params, here)

    def update(updates: Any, state: Any, params: Any = None, **extra: Any) -> tuple[Any, Any]:
        result, new = inner.update(on_device(updates), on_device(state), on_device(params), **extra)
        return result, placed_like(new, state)

    return optax.GradientTransformationExtraArgs(init, update)  # pyright: ignore[reportArgumentType]


def placed(tree: Any, offload: Offload = None, *, kind: Kind = "parameters", platform: str | None = None) -> Any:
    """`tree` with the leaves that `offload` chooses in the host's memory, and the others where they are.

    Args: kind: what a mapping's entry must be for; the others are as for `offloaded`. Raises: as `offloaded`; ValueError for another kind.
    """
    _require_kinds([kind])
    return _placed(tree, choice_for(offload, kind), kind, platform=platform or platform_of(tree))


def transformation(optimizer: Any) -> optax.GradientTransformationExtraArgs:
    """An optimiser as one that takes further arguments. Raises: TypeError for what is none."""
    import optax

    if isinstance(optimizer, type) or not all(callable(getattr(optimizer, name, None)) for name in ("init", "update")):
        raise TypeError(f"the optimizer is {optimizer!r}: it must be an optax.GradientTransformation, such as optax.adam(1e-3)")
    return optax.with_extra_args_support(optimizer)


def on_device(tree: Any) -> Any:
    """`tree` with the leaves that are in the host's memory on the device. Inside of a traced function they come where they are used."""
    leaves, structure = _jax.tree.flatten(tree)
    return _jax.tree.unflatten(structure, _moved(leaves, [_DEVICE if is_on_host(leaf) else None for leaf in leaves]))


def placed_like(tree: Any, like: Any) -> Any:
    """`tree` with each leaf in that memory in which the same leaf of `like` is, the host's or the device's.

    Raises: ValueError if the trees have other structures.
    """
    leaves, structure = _jax.tree.flatten(tree)
    spaces = [
        None if is_on_host(own) == is_on_host(leaf) else _HOST if is_on_host(own) else _DEVICE
        for leaf, own in zip(leaves, structure.flatten_up_to(like), strict=True)
    ]
    return _jax.tree.unflatten(structure, _moved(leaves, spaces))


def apply_updates(params: Any, updates: Any) -> Any:
    """`optax.apply_updates` for parameters of which some are in the host's memory, where they are afterwards, too."""
    import optax

    return placed_like(optax.apply_updates(on_device(params), on_device(updates)), params)


def is_on_host(leaf: Any) -> bool:
    """Whether an array, or what stands for it in a function that JAX traces, is in the host's memory and not on the device."""
    return isinstance(leaf, jax.Array) and _jax.typeof(leaf).memory_space == _HOST


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
    raise TypeError(f"offload is {choice!r} for {kind}: it must be None, True, False or a function of a leaf's path and the leaf")


def _require_kinds(kinds: Iterable[str]) -> None:
    if unknown := [kind for kind in kinds if kind not in _KINDS]:
        raise ValueError(f"offload has an entry for {unknown[0]!r}: the kinds are {', '.join(_KINDS)}")


def platform_of(tree: Any) -> str:
    """The platform of a tree's first array of which JAX knows it, else that of the default device."""
    for leaf in _jax.tree.leaves(tree):
        if isinstance(leaf, _jax.core.Tracer):
            device = getattr(_jax.typeof(leaf).sharding.mesh, "abstract_device", None)
            if device is not None and device.platform:
                return str(device.platform)
        elif isinstance(leaf, jax.Array):
            return str(next(iter(cast(Any, leaf).sharding.device_set)).platform)
    if (traced := platform_traced()) is not None:
        return traced
    default = _jax.config.jax_default_device
    return default if isinstance(default, str) else str((default or _jax.devices()[0]).platform)


def why_not(platform: str, memories: Collection[str]) -> str | None:
    """Why nothing can be kept in the host's memory on a platform whose devices can address these kinds of memory; None if it can."""
    if HOST_KIND in memories:
        return None
    others = ", ".join(sorted(memories)) or "none that JAX knows"
    return f"the devices of platform {platform!r} address no memory {HOST_KIND!r}, only {others}"


def _placed(tree: Any, choice: Choice, kind: Kind, *, platform: str) -> Any:
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
        raise TypeError(f"offload({where!r}, leaf) returned {answer!r}: it must be True or False")
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
