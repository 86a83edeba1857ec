"""`import tilestep.legacy` lets programs of the years of JAX 0.3 run on today's JAX: it brings back names that JAX has dropped.

Explicit, never by default, and for the whole process. What JAX still has is left alone, but for two things: `x.device()` works beside
`x.device`, and `jax.jit(..., backend=...)` doesn't warn. docs/how-to/legacy.md has each name, what it does today, and what replaces it.
"""

from tilestep.legacy import config as _config
from tilestep.legacy import feeds as _feeds
from tilestep.legacy import names as _names

_config.install()
_feeds.install()
_names.install()
