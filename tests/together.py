"""Many cases in one test, whose programs are compiled as one: to compile each by itself takes three times as long."""

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import jax

_MOST: Final = 60  # parts of one program


@dataclass(frozen=True, kw_only=True)
class _Part:
    """A function of arrays, and what its results must be."""

    case: object
    function: Callable[[Any], Any]
    arrays: Any
    check: Callable[[Any], None]


@dataclass(frozen=True, kw_only=True)
class _Programs:
    """Parts that wait, by whether they have 64-bit types."""

    parts: dict[bool, list[_Part]] = field(default_factory=lambda: {False: [], True: []})

    def run(self, most: int = 1) -> None:
        """Compiles what waits if there are so many parts, and checks each one's results."""
        for wide, parts in self.parts.items():
            while len(parts) >= most:
                some, parts[:] = parts[:_MOST], parts[_MOST:]
                with jax.enable_x64(wide):
                    results = jax.jit(lambda arrays, some=some: _all(some, arrays))([part.arrays for part in some])
                for part, result in zip(some, results, strict=True):
                    with named(part.case):
                        part.check(result)


def _all(parts: Sequence[_Part], arrays: Sequence[Any]) -> list[Any]:
    results: list[Any] = []
    for part, given in zip(parts, arrays, strict=True):
        with named(part.case):
            results.append(part.function(given))
    return results


_open: Final[list[_Programs]] = []
_cases: Final[list[object]] = []  # that are under way, the outermost first


@contextlib.contextmanager
def one_program() -> Iterator[None]:
    """What is handed to `compiled` within it is compiled at its end, or at that of another one around it."""
    if _open:
        yield
        return
    _open.append(_Programs())
    try:
        yield
        _open[0].run()
    finally:
        _open.clear()


def compiled(function: Callable[[Any], Any], arrays: Any, check: Callable[[Any], None], *, wide: bool = False) -> None:
    """Checks the results of a compiled function, at once or at the end of `one_program`. Args: wide: with 64-bit types."""
    if not _open:
        with jax.enable_x64(wide):
            results = jax.jit(function)(arrays)
        check(results)
        return
    _open[0].parts[wide].append(_Part(case=tuple(_cases), function=function, arrays=arrays, check=check))
    _open[0].run(_MOST)


def each(names: str, cases: Iterable[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Instead of `pytest.mark.parametrize`: one test of all cases, in `one_program`. Who fails is told which case did."""
    arguments = [name.strip() for name in names.split(",")]
    rows = [tuple(case) if len(arguments) > 1 else (case,) for case in cases]

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def all_cases(**given: Any) -> None:
            with one_program():
                for row in rows:
                    case = dict(zip(arguments, row, strict=True))
                    with named(case):
                        test(**given, **case)

        signature = inspect.signature(test)
        left = [parameter for name, parameter in signature.parameters.items() if name not in arguments]
        all_cases.__signature__ = signature.replace(parameters=left)
        return all_cases

    return decorate


@contextlib.contextmanager
def named(case: object) -> Iterator[None]:
    """What fails within it says in which case, also what is compiled later."""
    _cases.append(case)
    try:
        yield
    except Exception as error:
        error.add_note(f"in the case {case!r:.1000}")
        raise
    finally:
        _cases.pop()
