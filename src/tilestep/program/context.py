"""What a pass over one computation knows of the rest of its module."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tilestep.program.hlo import Computation


@dataclass(frozen=True, kw_only=True)
class Origin:
    """A value that a computation receives, and the fate of its memory."""

    writer: str | None  # the instruction whose result takes it over, or None
    survives: bool  # the caller may read it afterwards


@dataclass(frozen=True, kw_only=True)
class Context:
    """What a pass knows of the rest of the module."""

    computations: Mapping[str, Computation]  # computations of the module, by name, without calls (`inline.py`)
    # origins of values that the computation receives, and the fate of their memory
    origins: Mapping[str, Origin] = field(default_factory=dict[str, Origin])
    clusters: bool = True  # whether elementwise operations share steps (`ipu_fusion`)
