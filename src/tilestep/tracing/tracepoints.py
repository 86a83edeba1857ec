"""Tracepoints: named spans and moments of a program, kept only while the process is traced.

In a process that is not traced, a tracepoint is one shared object that does nothing.
"""

import functools
import inspect
import warnings
from collections.abc import Callable
from time import time_ns
from typing import Any, Final, Protocol, TypeVar, final, overload

from tilestep.messages import shown
from tilestep.tracing import logs
from tilestep.tracing.channels import USER, Channel, create_channel, found_channel
from tilestep.tracing.logs import Open

F = TypeVar("F", bound=Callable[..., Any])

_USER: Final = create_channel(USER)


class TracedSpan(Protocol):
    """What `tracepoint` gives: a context manager, and a decorator of functions."""

    def __enter__(self) -> None:
        """The span begins, in the current thread."""
        ...

    def __exit__(self, *_: object) -> None:
        """It ends."""
        ...

    def __call__(self, function: F) -> F:
        """The function, each of whose calls is a span."""
        ...


class tracepoint:
    """A span of the program with a name, kept if the process is traced (variable PVTI_OPTIONS).

    Use it around a block, or above a function, each of whose calls is a span then. Spans of a thread nest. While the program itself takes
    a profile with `jax.profiler`, spans are in that, too. A function under `jax.jit` runs once, when JAX traces it: put tracepoints around
    its calls. Of a generator function only the call is a span, and of a coroutine function the time until it is done.

        with tilestep.tracepoint(f"Epoch #{epoch}"):
            train()

        @tilestep.tracepoint            # its name is the function's
        def load(path): ...

        @tilestep.tracepoint("decode", channel="Data")
        def decode(image): ...

    Args:
        label: the span's name; or a function.
        channel: that it belongs to, or its name. None: "User".
    Raises: TypeError above a class or a property, of which a function would take the place.
    """

    @overload
    def __new__(cls, label: str, *, channel: Channel | str | None = None) -> TracedSpan: ...
    @overload
    def __new__(cls, label: F, *, channel: Channel | str | None = None) -> F: ...
    def __new__(cls, label: str | Callable[..., Any], *, channel: Channel | str | None = None) -> Any:
        if logs.current is None:
            return label if not isinstance(label, str) and _is_function(label) else NOTHING
        found = _USER if channel is None else found_channel(channel)
        if not isinstance(label, str) and _is_function(label):
            target: Any = label
            function: Any = getattr(target, "__func__", target)
            return _Recorded(getattr(function, "__qualname__", repr(function)), found)(target)
        return _Recorded(str(label), found)

    @staticmethod
    def begin(label: str, *, channel: Channel | str | None = None) -> None:
        """A span begins that `end` will end, in the same thread. Prefer `with`."""
        if logs.current is not None:
            _Begun(str(label), _USER if channel is None else found_channel(channel)).__enter__()

    @staticmethod
    def end(label: str) -> None:
        """Ends the innermost span of that label that this thread has begun by `begin`.

        Warns: RuntimeWarning if the thread has begun none; then nothing ends.
        """
        current = logs.current
        if current is None:
            return
        for owner, _, _ in reversed(current.local.log.stack):
            if isinstance(owner, _Begun) and owner.label == str(label):
                owner.__exit__()
                return
        warnings.warn(
            f"tracepoint.end({shown(label)}): this thread has begun no such span that is still open: call "
            f"tracepoint.begin({shown(label)}) in it first",
            RuntimeWarning,
            stacklevel=2,
        )


def event(label: str, *, channel: Channel | str | None = None) -> None:
    """A moment of the program with a name, kept if the process is traced.

    Args:
        label: the moment's name, such as f"Loss={loss}".
        channel: that it belongs to, or its name. None: "User".
    """
    current = logs.current
    if current is None:
        return
    found = _USER if channel is None else found_channel(channel)
    if found.enabled:
        now, log = time_ns(), current.local.log
        current.note(log, (str(label), found.name, now, 0, len(log.stack)))


@final
class _Nothing:
    """A tracepoint of a process that is not traced."""

    __slots__ = ()

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass

    def __call__(self, function: F) -> F:
        if not _is_function(function):
            raise TypeError(f"a tracepoint is above {shown(function)}: it must be above a function")
        return function


NOTHING: Final = _Nothing()


class _Recorded:
    """A tracepoint of a process that is traced. One object may be entered again, also in several threads at once."""

    __slots__ = ("channel", "label")

    def __init__(self, label: str, channel: Channel) -> None:
        self.label, self.channel = label, channel

    def __enter__(self) -> None:
        current = logs.current
        if current is None:  # the trace has been closed meanwhile
            return
        stack = current.local.log.stack
        if not self.channel.enabled:
            stack.append((self, 0, None))
            return
        annotation = None
        if current.annotation is not None:
            annotation = current.annotation(self.label.encode("utf-8", "backslashreplace").decode())  # JAX takes no lone surrogates
            annotation.__enter__()
        stack.append((self, time_ns(), annotation))

    def __exit__(self, *_: object) -> None:
        now, current = time_ns(), logs.current
        if current is None:
            return
        log = current.local.log
        stack = log.stack
        entry = stack.pop() if stack and stack[-1][0] is self else _taken_out(stack, self)
        if entry is None:  # it began before this process, a fork, did
            return
        _, start, annotation = entry
        if annotation is not None:
            annotation.__exit__(None, None, None)
        if start:
            current.note(log, (self.label, self.channel.name, start, now - start if now > start else 0, len(stack)))

    def __call__(self, function: F) -> F:
        if isinstance(function, staticmethod | classmethod):
            return type(function)(self(function.__func__))
        if not _is_function(function):
            raise TypeError(f"a tracepoint is above {shown(function)}: it must be above a function")
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def awaited(*args: Any, **kwargs: Any) -> Any:
                with self:
                    return await function(*args, **kwargs)

            return awaited  # pyrefly: ignore[bad-return]  # it has the function's parameters

        @functools.wraps(function)
        def called(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return called  # pyrefly: ignore[bad-return]  # it has the function's parameters


@final
class _Begun(_Recorded):
    """A span that `tracepoint.begin` has begun."""

    __slots__ = ()


def _is_function(value: object) -> bool:
    """Whether a tracepoint can be above it. Raises: TypeError for what a function must not replace."""
    if isinstance(value, type | property):
        raise TypeError(f"a tracepoint is above {shown(value)}: put it above functions and methods, or use tracing.trace_calls")
    return callable(value) or isinstance(value, classmethod)


def _taken_out(stack: list[Open], owner: _Recorded) -> Open | None:
    """The innermost open span of that owner, though others began in it and have not ended: tasks of asyncio take turns in one thread."""
    for place in range(len(stack) - 1, -1, -1):
        if stack[place][0] is owner:
            return stack.pop(place)
    return None
