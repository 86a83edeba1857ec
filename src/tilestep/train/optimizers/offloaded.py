"""An optimiser whose state is in the host's memory between updates, and on the device during an update."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilestep.train.offload import Offload, choice_for, in_memories_of, move_chosen, on_device, platform_of, transformation
from tilestep.train.optimizers.initial_state import in_one_program
from tilestep.train.other_arguments import platform_named, require_platform
from tilestep.train.untyped import Pytree

if TYPE_CHECKING:
    import optax


def offloaded(
    optimizer: optax.GradientTransformation, offload: Offload = None, *, platform: str | None = None
) -> optax.GradientTransformationExtraArgs:
    """`optimizer` with its state in the host's memory between updates (`pinned_host`; on an IPU-Machine that is streaming memory).

    `init` moves the state there. `update` moves it to the device, and returns a new state with each leaf in the memory of the old one.
    Under `jit` and in loops a leaf comes to the device when the update first needs it. Its new value goes back as soon as it is computed.
    Parameters and gradients in the host's memory come to the device for the update, too. No value changes.

    Args:
        optimizer: any transformation of optax.
        offload: which leaves of the state. None: those of 2 elements and more, if the platform's devices have their own memory (`ipu`,
            GPU, TPU; not CPU). True: the same on any platform, in `pinned_host`. False: none. A function: it is called with a leaf's path
            in the state ("0/mu/dense/kernel") and the leaf, which has shape and dtype, and returns True or False. A mapping by kind: its
            entry for "optimizer_state"; None without one.
        platform: the platform of the devices that will run the update. None: the parameters' platform. JAX does not know it for the
            arguments of a function that it traces for one device; then it is the default device's.

    Returns:
        The optimiser.

    Raises:
        TypeError: when `offload` has another type, or `optimizer` is no optimiser.
        ValueError: from `init`, for True or a chosen leaf on a platform whose devices have no `pinned_host`, and for a platform that
            JAX does not have. With None `init` only warns of a missing `pinned_host`, and leaves the state on the device.
    """
    import optax  # which takes a while

    choice = choice_for(offload, "optimizer_state")
    if platform is not None:
        require_platform(platform)
    inner = transformation(optimizer)

    def init(params: Pytree) -> Pytree:
        params_platform = platform_of(params)
        if platform is not None:
            platform_named(platform)  # not before: it starts JAX's platforms

        def state(params: Pytree) -> Pytree:
            return move_chosen(inner.init(on_device(params)), choice, "optimizer_state", platform=platform or params_platform)

        return in_one_program(state, params, params_platform)

    def update(updates: Pytree, state: Pytree, params: Pytree = None, **extra: Any) -> tuple[Pytree, Pytree]:
        result, new = inner.update(on_device(updates), on_device(state), on_device(params), **extra)
        return result, in_memories_of(new, state)

    return optax.GradientTransformationExtraArgs(init, update)


def apply_updates(params: Pytree, updates: Pytree) -> Pytree:
    """`optax.apply_updates` for parameters that may be in the host's memory.

    Args:
        params: a pytree of arrays.
        updates: a pytree of arrays with the same structure and shapes.

    Returns:
        The new parameters, each in the memory (the host's or the device's) of the old one.
    """
    import optax

    return in_memories_of(optax.apply_updates(on_device(params), on_device(updates)), params)
