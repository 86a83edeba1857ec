"""`tensorflow.python.ipu.gradient_accumulation`."""

from __future__ import annotations

import enum
from typing import Any, cast

from tilestep.messages import shown
from tilestep.train.gradients.accumulation import Reduction


class GradientAccumulationReductionMethod(enum.Enum):
    """How the gradients of several steps become one."""

    SUM = 0
    MEAN = 1
    RUNNING_MEAN = 2


def reduction_of(method: Any) -> Reduction:
    """The runtime's name. Args: method: one of these, or its name in any case. Raises: ValueError for another one."""
    name = method.name if isinstance(method, GradientAccumulationReductionMethod) else str(method)
    if name.upper() not in GradientAccumulationReductionMethod.__members__:
        raise ValueError(f"reduction_method is {shown(method)}: it must be SUM, MEAN or RUNNING_MEAN")
    return cast("Reduction", name.lower())
