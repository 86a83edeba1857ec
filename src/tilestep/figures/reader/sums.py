"""Sums of columns that may come from anybody, in whole numbers of 64 bits."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tilestep.errors import RecordingError

MOST_SUM: Final = 2**62


def require_sums(values: NDArray[Any], what: str) -> None:
    """Requires that no sum of some of these numbers passes 2**62. Args: what: the numbers are. Raises: RecordingError otherwise."""
    if float(np.abs(values.astype(np.float64)).sum()) > MOST_SUM:
        raise RecordingError(f"{what} of the recording add up to more than 2**62: they are damaged")
