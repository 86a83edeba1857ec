"""Tracepoints around everything that a class, a module or an object does."""

import inspect
from types import FunctionType, ModuleType
from typing import Any, TypeVar

from tilestep.messages import shown
from tilestep.tracing import logs
from tilestep.tracing.channels import Channel
from tilestep.tracing.tracepoints import tracepoint

T = TypeVar("T")


def trace_calls(owner: T, *, channel: Channel | str | None = None) -> T:
    """Makes each call of a function of `owner` a span of the function's name. Changes nothing in a process that is not traced.

    Names with two underscores at both ends, such as `__init__`, are left alone, and so is what `owner` inherits or imports.

        @tilestep.tracing.trace_calls
        class Loader: ...

        tilestep.tracing.trace_calls(my_module)

    Args:
        owner: a class, a module, or an object, whose class's methods are then traced for this object only.
        channel: that the spans belong to, or its name. None: "User".

    Returns:
        `owner`, changed in place.

    Raises:
        TypeError: if it is an object that takes no attributes, such as a number.
    """
    if logs.current is None:
        return owner
    if isinstance(owner, ModuleType):
        _wrap(owner, {name: value for name, value in vars(owner).items() if getattr(value, "__module__", None) == owner.__name__}, channel)
    elif inspect.isclass(owner):
        _wrap(owner, dict(vars(owner)), channel)
    elif hasattr(owner, "__dict__"):
        _wrap(owner, {name: getattr(owner, name) for name, value in vars(type(owner)).items() if isinstance(value, FunctionType)}, channel)
    else:
        raise TypeError(
            f"trace_calls() is given {shown(owner)}, which takes no attributes: it needs a class, a module, or an object of a class"
        )
    return owner


def _wrap(owner: Any, members: dict[str, Any], channel: Channel | str | None) -> None:
    for name, value in members.items():
        if name.startswith("__") and name.endswith("__"):
            continue
        if isinstance(value, staticmethod | classmethod):
            inner: Any = value.__func__
            setattr(owner, name, type(value)(tracepoint(inner, channel=channel)))
        elif inspect.isfunction(value) or inspect.ismethod(value):
            setattr(owner, name, tracepoint(value, channel=channel))
