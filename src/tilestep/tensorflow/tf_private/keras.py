"""The places where Keras 2 makes the functions that train, test and predict, and where its optimisers combine gradients of replicas."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any, Final

from tilestep.tensorflow.untyped import Structure

_FORMER: Final = "tensorflow.python.keras.optimizer_v2.optimizer_v2"  # where Keras 2's optimisers were, in TensorFlow itself
MODES: Final = ("train", "test", "predict")
Pairs = list[tuple[Any, Any]]  # gradients with their variables


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


def extend(
    model_class: Any,
    *,
    made: Callable[[Any], None],
    function: Callable[[Any, str], Callable[[Any], Structure] | None],
    require_data: Callable[[Any, Any], None],
    summed: Callable[[Pairs], Pairs | None],
) -> None:
    """From now on these are asked.

    Args:
        model_class: Keras 2's Model.
        made: is told of each model that is being made.
        function: (model, "train", "test" or "predict") -> what runs some steps with elements of an iterator, and gives what the last one
            returns; None: Keras' own.
        require_data: (model, its data) -> raises for data that it cannot take.
        summed: (gradient, variable) pairs with sums over replicas; None outside of programs.
    """
    adapter: Any = import_module("tf_keras.src.engine.data_adapter")
    optimizers: Any = import_module("tf_keras.src.optimizers.utils")
    init, handler, sum_gradients = model_class.__init__, adapter.get_data_handler, optimizers.all_reduce_sum_gradients

    @functools.wraps(init)
    def __init__(self: Any, *arguments: Any, **options: Any) -> None:
        made(self)
        init(self, *arguments, **options)

    @functools.wraps(handler)
    def get_data_handler(*arguments: Any, **options: Any) -> Any:
        found = handler(*arguments, **options)
        require_data(options.get("model"), found)
        return found

    @functools.wraps(sum_gradients)
    def all_reduce_sum_gradients(grads_and_vars: Any) -> Any:
        pairs = list(grads_and_vars)
        found = summed(pairs)
        return sum_gradients(pairs) if found is None else found

    def making(mode: str) -> Callable[..., Any]:
        make, attribute = getattr(model_class, f"make_{mode}_function"), f"{mode}_function"

        @functools.wraps(make)
        def made(self: Any, force: bool = False) -> Any:
            if force or getattr(self, attribute) is None:
                own = function(self, mode)
                if own is None:
                    return make(self, force)
                setattr(self, attribute, own)
            return getattr(self, attribute)

        return made

    for mode in MODES:
        setattr(model_class, f"make_{mode}_function", making(mode))
    model_class.__init__ = __init__
    adapter.get_data_handler = get_data_handler
    optimizers.all_reduce_sum_gradients = all_reduce_sum_gradients
    if _FORMER in sys.modules:  # a program asks whether an optimiser is one of it
        vars(sys.modules[_FORMER])["OptimizerV2"] = import_module("tf_keras.src.optimizers.optimizer").Optimizer
