"""Options of an emulated machine's planner for a stretch of code."""

import contextlib
from collections.abc import Iterator
from typing import Final

from jax.experimental.xla_metadata import set_xla_metadata

from tilestep.errors import SettingsError
from tilestep.options import PREFIX, PartialsType, PlanOptions

_NOTHING: Final = "tuned() has neither available_memory_proportion nor partials_type: give one"


@contextlib.contextmanager
def tuned(*, available_memory_proportion: float | None = None, partials_type: PartialsType | None = None) -> Iterator[None]:
    """Plans the products inside with options of their own, where an IPU is emulated: `with tuned(partials_type="half"):`.

    They hold for each matmul, convolution and look-up that is traced inside, also within functions that are called there, and for the
    products of its gradient. They go before the options of the program and of the process. The innermost block counts, option by option. A
    program that differs in them alone is another program. On other platforms nothing happens. Values are never different.

    Args:
        available_memory_proportion: share of a tile's memory that the temporaries of one operation may take; more than 0, at most 1.
        partials_type: type in which products of halves are added up, "float" or "half".

    Raises:
        SettingsError: if no option is given, or one has a value that is not allowed.
    """
    stated = {"available_memory_proportion": available_memory_proportion, "partials_type": partials_type}
    given: dict[str, object] = {PREFIX + name: value for name, value in stated.items() if value is not None}
    if not given:
        raise SettingsError(_NOTHING)
    checked = PlanOptions().of_operation(given)
    with set_xla_metadata(**{name: str(getattr(checked, name.removeprefix(PREFIX))) for name in given}):
        yield
