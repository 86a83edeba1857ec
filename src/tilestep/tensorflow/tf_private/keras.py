"""The places where Keras 2 makes the functions that train, test and predict, and where its optimisers combine gradients of replicas."""

from __future__ import annotations

import functools
from collections.abc import Callable
from importlib import import_module
from typing import Any, Final, Protocol

from tilestep.tensorflow.untyped import Structure

MODES: Final = ("train", "test", "predict")


class Extension(Protocol):
    """What takes these places over for some models."""

    def made(self, model: Any) -> None:
        """A model is being made."""
        ...

    def has(self, model: Any) -> bool:
        """Whether it wants a model."""
        ...

    def function(self, model: Any, mode: str) -> Callable[[Any], Structure]:
        """What runs some steps of "train", "test" or "predict" with elements of an iterator, and gives what the last one returns."""
        ...

    def require_data(self, handler: Any) -> None:
        """Raises: ValueError for data that it cannot take."""
        ...

    def summed(self, gradients: list[tuple[Any, Any]]) -> list[tuple[Any, Any]] | None:
        """(gradient, variable) pairs with sums over replicas; None outside of programs."""
        ...


def steps_per_execution(model: Any) -> int:
    """How many steps the next execution has."""
    steps = model._steps_per_execution
    return 1 if steps is None else int(steps.numpy())


def step(model: Any, mode: str, data: Structure) -> Structure:
    """One step of a model in a program, which its counter counts."""
    result = getattr(model, f"{mode}_step")(data)
    getattr(model, f"_{mode}_counter").assign_add(1)
    return result


def forget_functions(model: Any) -> None:
    """The functions are made again when they are needed."""
    for mode in MODES:
        setattr(model, f"{mode}_function", None)


def data_of(handler: Any) -> tuple[Any, Any, int | None]:
    """(what adapts the data, its dataset, steps of an epoch if they are known)."""
    return handler._adapter, handler._dataset, handler.inferred_steps


def extend(model_class: Any, extension: Extension) -> None:
    """From now on the extension is asked. Args: model_class: Keras 2's Model."""
    adapter: Any = import_module("tf_keras.src.engine.data_adapter")
    optimizers: Any = import_module("tf_keras.src.optimizers.utils")
    init, handler, summed = model_class.__init__, adapter.get_data_handler, optimizers.all_reduce_sum_gradients

    @functools.wraps(init)
    def __init__(self: Any, *arguments: Any, **options: Any) -> None:
        extension.made(self)
        init(self, *arguments, **options)

    @functools.wraps(handler)
    def get_data_handler(*arguments: Any, **options: Any) -> Any:
        found = handler(*arguments, **options)
        if extension.has(options.get("model")):
            extension.require_data(found)
        return found

    @functools.wraps(summed)
    def all_reduce_sum_gradients(grads_and_vars: Any) -> Any:
        pairs = list(grads_and_vars)
        found = extension.summed(pairs)
        return summed(pairs) if found is None else found

    def making(mode: str) -> None:
        make = getattr(model_class, f"make_{mode}_function")

        @functools.wraps(make)
        def made(self: Any, force: bool = False) -> Any:
            if not extension.has(self):
                return make(self, force)
            if force or getattr(self, f"{mode}_function") is None:
                setattr(self, f"{mode}_function", extension.function(self, mode))
            return getattr(self, f"{mode}_function")

        setattr(model_class, f"make_{mode}_function", made)

    for mode in MODES:
        making(mode)
    model_class.__init__ = __init__
    adapter.get_data_handler = get_data_handler
    optimizers.all_reduce_sum_gradients = all_reduce_sum_gradients
