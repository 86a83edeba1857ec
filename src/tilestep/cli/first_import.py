"""A program's first import of JAX, which the command has imported before it: NumPy's generator draws what it draws in plain Python."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import jax
import numpy as np

_TWISTER_WORDS = 624  # the Mersenne twister behind np.random
_SPEC = jax.__spec__


def _used(get_state: Callable[..., Any]) -> int:
    """Words of a generator's state that were drawn."""
    return int(get_state(legacy=False)["state"]["pos"])


# JAX makes delays of its own from np.random when it is imported. This module is imported right behind it, before anybody else draws.
_DRAWN_WORDS = (_used(np.random.get_state) - _used(np.random.RandomState().get_state)) % _TWISTER_WORDS


class _First(MetaPathFinder, Loader):
    """Finds the JAX that is there already, and draws when a program imports it."""

    def __init__(self, hidden: dict[str, ModuleType]) -> None:
        self.hidden = hidden

    def find_spec(self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        if fullname != "jax":
            return None
        return ModuleSpec("jax", self, origin=jax.__file__, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        self.show()
        return jax

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = _SPEC
        np.random.bytes(4 * _DRAWN_WORDS)

    def show(self) -> None:
        """Puts the modules back."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        sys.modules.update(self.hidden)
        self.hidden = {}


@contextmanager
def first_import() -> Iterator[None]:
    """Inside, JAX looks as if nobody had imported it yet."""
    hidden = {name: module for name, module in sys.modules.items() if name == "jax" or name.startswith("jax.")}
    first = _First(hidden)
    for name in hidden:
        del sys.modules[name]
    sys.meta_path.insert(0, first)
    try:
        yield
    finally:
        first.show()
