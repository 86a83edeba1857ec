"""Runs a watchdog. It is started by its path, because `import tilestep.train` would import JAX, which a watchdog does not need."""

import sys
import types
from pathlib import Path

for level, name in enumerate(("tilestep.train.processes.watchdog", "tilestep.train.processes", "tilestep.train", "tilestep")):
    package = types.ModuleType(name)
    package.__path__ = [str(Path(__file__).parents[level])]  # its modules are found, and its `__init__` does not run
    sys.modules[name] = package

from tilestep.train.processes.watchdog import watchdog  # noqa: E402

watchdog.main()
