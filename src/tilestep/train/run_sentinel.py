"""Runs a sentinel. By path, and as it lies: `import tilestep.train` would import JAX, which a sentinel does not need."""

from __future__ import annotations

import sys
import types
from pathlib import Path

for name, folder in (("tilestep", Path(__file__).parents[1]), ("tilestep.train", Path(__file__).parent)):
    package = types.ModuleType(name)
    package.__path__ = [str(folder)]  # its modules are found, and its `__init__` does not run
    sys.modules[name] = package

from tilestep.train import sentinel  # noqa: E402

sentinel.main()
