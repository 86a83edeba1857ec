"""An optimiser whose state lives in the host's memory between updates, and on the device while an update uses it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilestep.train.offload import Offload, choice_for, in_memories_of, on_device, place, platform_of, transformation
from tilestep.train.optimizers.initial_state import in_one_program
from tilestep.train.other_arguments import platform_named, require_platform
from tilestep.train.untyped import Pytree

if TYPE_CHECKING:
    import optax


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
        offload: which leaves of the state. None: those of 2 elements and more, if the platform has a memory of its own beside the host's
            (`ipu`, GPU, TPU; not CPU). True: the same on any platform, in `pinned_host`. False: none. `offload(path, leaf)` chooses by
            itself: `path` names the leaf in the state ("0/mu/dense/kernel"), `leaf` has shape and dtype. A mapping by kind: its entry for
            "optimizer_state", else None.
        platform: of the devices that will run it. None: that of the parameters, or the default device's where JAX does not know it, as for
            the arguments of a function that it traces for one device.

    Returns:
        The optimiser.

    Raises:
        TypeError: when `offload` is of another kind, or `optimizer` is no optimiser.
        ValueError: from `init`, for True or a chosen leaf on a platform whose devices have no `pinned_host`, and for a platform that
            JAX does not have. With None `init` warns of the former, and leaves the state on the device.
    """
    import optax  # which takes a while

    choice = choice_for(offload, "optimizer_state")
    if platform is not None:
        require_platform(platform)
    inner = transformation(optimizer)

    def init(params: Pytree) -> Pytree:
        here = platform_of(params)
        if platform is not None:
            platform_named(platform)  # not before: it starts JAX's platforms

        def state(params: Pytree) -> Pytree:
            return place(inner.init(on_device(params)), choice, "optimizer_state", platform=platform or here)

        return in_one_program(state, params, here)

    def update(updates: Pytree, state: Pytree, params: Pytree = None, **extra: Any) -> tuple[Pytree, Pytree]:
        result, new = inner.update(on_device(updates), on_device(state), on_device(params), **extra)
        return result, in_memories_of(new, state)

    return optax.GradientTransformationExtraArgs(init, update)  # pyright: ignore[reportArgumentType]


def apply_updates(params: Pytree, updates: Pytree) -> Pytree:
    """`optax.apply_updates` for parameters of which some are in the host's memory.

    Args:
        params: a pytree of arrays.
        updates: a pytree of arrays with the same structure and shapes.

    Returns:
        The new parameters, each in the memory (the host's or the device's) of the old one.
    """
    import optax

    return in_memories_of(optax.apply_updates(on_device(params), on_device(updates)), params)
