"""Methods of the builder's core: each from its table of overloads, with the function that runs when an overload fits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilestep.popart.builder.signatures import Overload, Parameter, bind

Run = Callable[..., Any]


def overloaded(*overloads: tuple[Parameter, ...], returns: str = "None") -> Callable[[Run], Any]:
    """A decorator: the method takes any of the overloads' parameters, and the decorated function gets them by name.

    Where overloads have different parameters, the function has defaults for those that only some have.
    """
    made = tuple(Overload(parameters=parameters, returns=returns) for parameters in overloads)

    def decorator(run: Run) -> Any:
        name = run.__name__

        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            _, values = bind(name, made, args, kwargs)
            return run(self, **values)

        call.__name__, call.__qualname__, call.__doc__ = name, run.__qualname__, run.__doc__
        call.__module__ = run.__module__
        call.__signature__ = made[0].signature()  # pyrefly: ignore[missing-attribute]  # inspect reads it
        call.overloads = made  # pyrefly: ignore[missing-attribute]
        return call

    return decorator
