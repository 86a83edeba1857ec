"""Names that NumPy has dropped since the time of PopART and TensorFlow for the IPU. The program alone gets them back, no package."""

import builtins
import contextlib
import inspect
import os
import sysconfig
from collections.abc import Callable, Generator
from pathlib import Path
from types import FrameType, MappingProxyType
from typing import Any, Final

import numpy as np

_BUILTIN: Final = ("complex", "float", "int", "object", "str")  # NumPy had Python's own types under their names
_RENAMED: Final = MappingProxyType(
    {
        "Inf": "inf",
        "Infinity": "inf",
        "NAN": "nan",
        "NaN": "nan",
        "PINF": "inf",
        "alltrue": "all",
        "complex_": "complex128",
        "cumproduct": "cumprod",
        "float_": "float64",
        "in1d": "isin",
        "infty": "inf",
        "product": "prod",
        "round_": "round",
        "row_stack": "vstack",
        "sometrue": "any",
        "string_": "bytes_",
        "unicode_": "str_",
    }
)
_PACKAGES: Final = ("site-packages", "dist-packages")


@contextlib.contextmanager
def former_numpy(tell: Callable[[str], None]) -> Generator[None]:
    """Inside, code of the program may use such names, and `np.fromstring` of bytes. Args: tell: is told of the first one."""
    module: Any = np
    missing, fromstring = module.__getattr__, module.fromstring
    told: list[str] = []

    def note(name: str) -> None:
        if not told:
            told.append(name)
            tell(f"NumPy {np.__version__} has no {name} any more: tilestep gives it to the program, and other names of NumPy 1.16")

    def former_name(name: str) -> Any:
        if (name in _BUILTIN or name in _RENAMED) and _is_programs(inspect.currentframe()):
            note(f"np.{name}")
            return getattr(builtins, name) if name in _BUILTIN else getattr(np, _RENAMED[name])
        return missing(name)

    def of_bytes(string: Any, dtype: Any = float, count: int = -1, sep: str = "", **others: Any) -> Any:
        if sep or others or not _is_programs(inspect.currentframe()):
            return fromstring(string, dtype, count, sep=sep, **others)
        note("np.fromstring of bytes")
        return np.frombuffer(string.encode("latin1") if isinstance(string, str) else string, dtype, count).copy()

    module.__getattr__, module.fromstring = former_name, of_bytes
    try:
        yield
    finally:
        module.__getattr__, module.fromstring = missing, fromstring


def _is_programs(frame: FrameType | None) -> bool:
    """Whether the caller of a function is code of the program: no part of Python, of an installed package, or of this one."""
    filename = "" if frame is None or frame.f_back is None else frame.f_back.f_code.co_filename
    path = Path(os.path.realpath(filename))
    own = [sysconfig.get_path("stdlib"), str(Path(__file__).parent.parent)]
    return (
        not filename.startswith("<frozen")
        and not any(part in _PACKAGES for part in path.parts)
        and not any(path.is_relative_to(os.path.realpath(folder)) for folder in own)
    )
