"""What the front end of a run tells of its program."""

from __future__ import annotations

import re
from typing import Final

from tilestep.options import Fusion

# With these each elementwise operation is a codelet of its own; XLA, of TensorFlow and JAX, makes clusters of them.
_ONE_BY_ONE: Final = re.compile(r"popart|poptorch|pytorch|poprt|ByteMLPerf", re.IGNORECASE)


def fusion_of(source: str) -> Fusion:
    """Which elementwise operations shared a pass. Args: source: of the run's conditions, which names its front end."""
    return "none" if _ONE_BY_ONE.search(source) else "clusters"
