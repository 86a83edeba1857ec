"""A mutated build: what a session gives for its anchors is zero. Tests that still pass have not looked at them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

import numpy as np

SEEN: Final[set[str]] = set()  # anchors that were not zero before, in the test that runs
_OUTPUTS: Final[dict[int, tuple[Any, Any]]] = {}  # id of a PyStepIO -> it (so that the id stays its own), its outputs


def install() -> None:
    """Zeroes the anchors of all sessions of this process from now on."""
    import popart

    module: Any = popart
    _wrap(module.PyStepIO, "__init__", _remembers_outputs)
    for name in ("PyStepIOCallback", "StepIOCallback"):
        if hasattr(module, name):
            _wrap(getattr(module, name), "__init__", _zeroes_what_callbacks_get)
    for name in ("InferenceSession", "TrainingSession"):
        _wrap(getattr(module, name), "run", _zeroes_after)


def _wrap(owner: Any, name: str, made: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    setattr(owner, name, functools.wraps(getattr(owner, name))(made(getattr(owner, name))))


def _remembers_outputs(initialise: Callable[..., Any]) -> Callable[..., Any]:
    def init(self: Any, *arguments: Any, **options: Any) -> None:
        initialise(self, *arguments, **options)
        outputs = options.get("outputs", arguments[1] if len(arguments) > 1 else {})
        _OUTPUTS[id(self)] = self, outputs

    return init


def _zeroes_after(run: Callable[..., Any]) -> Callable[..., Any]:
    def then_zero(self: Any, stepio: Any, *arguments: Any, **options: Any) -> Any:
        result = run(self, stepio, *arguments, **options)
        for name, array in dict(_OUTPUTS.get(id(stepio), (None, {}))[1]).items():
            _zero(name, array)
        return result

    return then_zero


def _zeroes_what_callbacks_get(initialise: Callable[..., Any]) -> Callable[..., Any]:
    def init(self: Any, inputs: Any, inputs_done: Any, output: Callable[[str], Any], output_done: Callable[[str], Any]) -> None:
        given: dict[str, Any] = {}

        def remembered(name: str, *rest: Any) -> Any:
            given[name] = output(name, *rest)
            return given[name]

        def zeroed(name: str, *rest: Any) -> Any:
            _zero(name, given.get(name))
            return output_done(name, *rest)

        initialise(self, inputs, inputs_done, remembered, zeroed)

    return init


def _zero(name: str, array: Any) -> None:
    if isinstance(array, np.ndarray) and array.size and array.flags.writeable:
        if np.any(array):
            SEEN.add(name)
        array[...] = 0
