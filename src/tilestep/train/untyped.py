"""JAX without its types, which say nothing of what is in a pytree: a checker would ask for a cast at every call."""

from __future__ import annotations

from typing import Any

import jax as _typed

jax: Any = _typed
