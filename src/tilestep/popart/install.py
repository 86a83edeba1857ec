"""The name `popart`: after `install()`, `import popart` gives this package to programs that were written for the original.

Module paths that programs use are there, too (`popart.session`, `popart.builder`, `popart.tensorinfo`). They are this package's own
modules under a second name, so a class is the same by either. So is `libpvti`, PopVision's trace library. What tilestep has no counterpart
of is refused when it is imported.
"""

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Mapping, Sequence
from types import MappingProxyType, ModuleType
from typing import Final

_NAME: Final = "popart"
_SAME: Final = "popart_core"  # the original's extension in C++, from which programs take public names, too
_PACKAGE: Final = "tilestep.popart"
_TRACES: Final = "libpvti"  # PopVision's trace library: a module of this package
_RENAMED: Final = MappingProxyType({"tensorinfo": "tensors"})  # the original's module -> the module here that has its names
_OWN_OPERATORS: Final = (
    "operators of your own are Python functions here: register one with tilestep.onnx.register_op(domain, name, since) "
    "and add it to a model with builder.customOp(...)"
)
# Whole names, or packages with all that is below them.
_REFUSED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "popxl": "tilestep has no popxl; write the program with tilestep.popart's Builder, or directly in JAX",
        "popart.torch": "tilestep has no popart.torch; write the network to a file with torch.onnx.export, and give that to a session",
        "popdist": (
            "a session has all its replicas in one process: set SessionOptions.enableReplicatedGraphs and replicatedGraphCount; "
            "a program of tilestep.train joins several processes with start_processes"
        ),
        "pva": (
            "reports are read with tilestep.open_report(path), or session.getReport(), which have its concepts: programs, memory by tile, "
            "runs; `tilestep report` shows one"
        ),
        "popart.ir": "tilestep has no popart.ir (later called popxl); write the program with popart.Builder, or directly in JAX",
        "popart._internal": (
            "tilestep has no intermediate representation of PopART; a session's lowered program can be read with tilestep.popart's "
            f"reports (session.getReport()), and {_OWN_OPERATORS}"
        ),
        "popart_internal_ir": f"tilestep.popart is no C++ extension; all public names are in `popart`, and {_OWN_OPERATORS}",
    }
)


def install() -> None:
    """Makes `import popart` give this package, in this process. A second call changes nothing.

    Raises: ImportError if another module named popart has been imported already.
    """
    package = importlib.import_module(_PACKAGE)
    present = sys.modules.get(_NAME)
    if present is package:
        return
    if present is not None:
        where = getattr(present, "__file__", None) or "a module made by the program"
        raise ImportError(
            f"the name popart is taken by {where}; call tilestep.popart.install.install() before anything imports popart",
            name=_NAME,
        )
    sys.modules[_NAME] = sys.modules[_SAME] = package
    sys.meta_path.insert(0, _Finder())


class _Finder(importlib.abc.MetaPathFinder):
    """Finds `popart.x` as `tilestep.popart.x`, and refuses what has no counterpart."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        refused = next((why for refused, why in _REFUSED.items() if fullname == refused or fullname.startswith(f"{refused}.")), None)
        if refused is not None and ("." in fullname or importlib.machinery.PathFinder.find_spec(fullname) is None):  # none of the program's
            raise ModuleNotFoundError(f"no module named {fullname!r}: {refused}", name=fullname)
        parent, _, rest = fullname.partition(".")
        if fullname == _TRACES:
            rest = _TRACES
        elif parent != _NAME or not rest:
            return None
        first, dot, last = rest.partition(".")
        here = f"{_PACKAGE}.{_RENAMED.get(first, first)}{dot}{last}"
        found = importlib.util.find_spec(here)
        return (
            None
            if found is None
            else importlib.util.spec_from_loader(fullname, _Alias(here), is_package=bool(found.submodule_search_locations))
        )


class _Alias(importlib.abc.Loader):
    """Gives a module that exists under a name of its own."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._spec: importlib.machinery.ModuleSpec | None = None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        module = importlib.import_module(self._name)
        self._spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec  # the import has replaced it by the alias's
