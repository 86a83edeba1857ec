"""A function with its backward pass, as one function: what costs of layers are measured by."""

from collections.abc import Callable, Sequence
from typing import Any

from tilestep.train.jaxprs import is_real
from tilestep.train.untyped import Pytree
from tilestep.train.untyped import jax as _jax


def with_backward(function: Callable[..., Pytree]) -> Callable[..., tuple[list[Any], list[Any]]]:
    """A function of the same arguments that returns the real outputs, and the real arguments' gradients of the outputs' sum."""

    def both(*arguments: Pytree) -> tuple[list[Any], list[Any]]:
        leaves, structure = _jax.tree.flatten(arguments)
        real = [index for index, leaf in enumerate(leaves) if is_real(leaf)]

        def forward(some: Sequence[Any]) -> list[Any]:
            values = list(leaves)
            for index, value in zip(real, some, strict=True):
                values[index] = value
            return [leaf for leaf in _jax.tree.leaves(function(*_jax.tree.unflatten(structure, values))) if is_real(leaf)]

        outputs, pull = _jax.vjp(forward, [leaves[index] for index in real])
        return outputs, pull([_jax.numpy.ones_like(output) for output in outputs])[0]

    return both
