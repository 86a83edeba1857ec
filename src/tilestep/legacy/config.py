"""`from jax.config import config`, and `config.FLAGS`: options as attributes that may be set."""

import sys
import types
import warnings
from typing import Any

import jax

_config: Any = jax.config


class Flags:
    """JAX's options by their names: reading gives the value, setting is `jax.config.update`."""

    def __getattr__(self, name: str) -> Any:
        if name in _config.values:
            return _config.values[name]
        return getattr(_config, name)

    def __setattr__(self, name: str, value: Any) -> None:
        _config.update(name, value)


def install() -> None:
    """Makes `jax.config` importable as a module too; `jax.config` itself stays JAX's object."""
    module: Any = types.ModuleType("jax.config", "The module that JAX had before 0.4.25; see tilestep.legacy.")
    module.config = _config
    module.FLAGS = Flags()
    sys.modules.setdefault("jax.config", module)
    if not hasattr(_config, "FLAGS"):
        _config.FLAGS = module.FLAGS
    warnings.filterwarnings("ignore", message="backend and device argument on jit is deprecated", category=DeprecationWarning)
