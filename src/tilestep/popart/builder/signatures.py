"""Methods whose parameters stand in a table: their arguments are checked and converted, and their signature can be inspected."""

from __future__ import annotations

import inspect
import keyword
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tilestep.popart.builder.kinds import DEBUG, Kind, Mismatch
from tilestep.popart.former import renamed


class _Required:
    def __repr__(self) -> str:
        return "REQUIRED"


REQUIRED: Final = _Required()


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """A parameter. Attributes: default: REQUIRED if it must be given; a default is taken as it is, without conversion."""

    name: str
    kind: Kind
    default: Any = REQUIRED


DEBUG_CONTEXT: Final = Parameter(name="debugContext", kind=DEBUG, default="")


@dataclass(frozen=True, kw_only=True)
class Overload:
    """One way to call a method. Attributes: returns: the kind of its result in words."""

    parameters: tuple[Parameter, ...]
    returns: str = "None"

    def bound(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The converted value of each parameter. Raises: Mismatch if the arguments don't fit."""
        if len(args) > len(self.parameters):
            raise Mismatch
        values: dict[str, Any] = {}
        for position, parameter in enumerate(self.parameters):
            name = parameter.name
            if position < len(args):
                if name in kwargs:
                    raise Mismatch
                values[name] = parameter.kind.convert(args[position])
            elif name in kwargs:
                values[name] = parameter.kind.convert(kwargs[name])
            elif parameter.default is REQUIRED:
                raise Mismatch
            else:
                values[name] = parameter.default
        if not values.keys() >= kwargs.keys():
            raise Mismatch
        return values

    def __str__(self) -> str:
        shown = [
            f"{parameter.name}: {parameter.kind}" + ("" if parameter.default is REQUIRED else f" = {parameter.default!r}")
            for parameter in self.parameters
        ]
        return f"({', '.join(['self', *shown])}) -> {self.returns}"

    def signature(self) -> inspect.Signature:
        """As `inspect.signature` shows it: a default before a parameter that must be given is left out, and `lambda` is `lambda_`."""
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        required = [position for position, parameter in enumerate(self.parameters) if parameter.default is REQUIRED]
        last = required[-1] if required else -1
        shown = [
            inspect.Parameter(
                f"{parameter.name}_" if keyword.iskeyword(parameter.name) else parameter.name,
                kind,
                default=parameter.default if position > last else inspect.Parameter.empty,
                annotation=parameter.kind.label,
            )
            for position, parameter in enumerate(self.parameters)
        ]
        return inspect.Signature([inspect.Parameter("self", kind), *shown], return_annotation=self.returns)


def bind(name: str, overloads: Sequence[Overload], args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[int, dict[str, Any]]:
    """Finds the first overload that the arguments fit.

    Returns: its position, and the converted value of each of its parameters.
    Raises: TypeError that lists the overloads if none fits.
    """
    kwargs = renamed(kwargs)
    for position, overload in enumerate(overloads):
        try:
            return position, overload.bound(args, kwargs)
        except Mismatch:
            continue
    known = "\n".join(f"    {number}. {overload}" for number, overload in enumerate(overloads, 1))
    given = ", ".join([*map(_shown, args), *(f"{key}={_shown(value)}" for key, value in kwargs.items())])
    raise TypeError(
        f"{name}(): incompatible function arguments. The following argument types are supported:\n{known}\n\nInvoked with: {given}"
    )


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:200]}..."


def method(
    name: str, overloads: Sequence[Overload], doc: str, run: Callable[[Any, int, dict[str, Any]], Any], *, owner: str
) -> Callable[..., Any]:
    """A method that binds its arguments and calls `run(self, position of the overload, values)`."""
    fixed = tuple(overloads)

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        position, values = bind(name, fixed, args, kwargs)
        return run(self, position, values)

    call.__name__ = name
    call.__qualname__ = f"{owner}.{name}"
    call.__doc__ = doc
    call.__signature__ = fixed[0].signature()  # pyrefly: ignore[missing-attribute]  # inspect reads it
    return call


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
