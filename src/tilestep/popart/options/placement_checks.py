"""Options that place a model on IPUs: they must fit each other, and the device.

Errors begin with the original's words.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tilestep.popart.enums import VirtualGraphMode
from tilestep.popart.options.option_fields import OptionFields
from tilestep.popart.options.option_support import Situation

Check = Callable[[OptionFields, Situation], str | None]
_FEWEST_IO_TILES: Final = 32  # of an IPU, and always an even number: Source: PopART's popx/irlowering.cpp
_MOST_STAGES: Final = 2  # groups of IPUs that take turns


def replicas_of(options: OptionFields) -> int:
    """Copies of the model in this process."""
    return max(1, options.replicatedGraphCount) if options.enableReplicatedGraphs else 1


def ipus_of_replica(options: OptionFields, situation: Situation) -> int:
    """IPUs of the device for each replica, rounded down."""
    return situation.num_ipus // replicas_of(options)


def implicit_pipeline(options: OptionFields) -> bool:
    """Whether the model is pipelined, without loops that the program's author may see. Source: PopART's sessionoptions.hpp."""
    return options.enablePipelining and not (options.useHostCopyOps and options.enableExplicitMainLoops)


def phased(options: OptionFields) -> bool:
    """Whether the model runs phase by phase."""
    return options.virtualGraphMode is VirtualGraphMode.ExecutionPhases and options.executionPhaseSettings.phases > 1


def _phases(options: OptionFields, situation: Situation) -> str | None:
    settings, mode = options.executionPhaseSettings, options.virtualGraphMode
    if settings.phases < 0:
        return f"executionPhaseSettings.phases is {settings.phases}: it must be 0 or more."
    if settings.phases > 1 and mode is not VirtualGraphMode.ExecutionPhases:
        return f"> 1 execution phases requires VirtualGraphMode::ExecutionPhases: phases is {settings.phases}, virtualGraphMode {mode}"
    if not phased(options):
        return None
    if not 1 <= settings.stages <= _MOST_STAGES:
        return f"executionPhaseSettings.stages is {settings.stages}: phases run on 1 group of IPUs, or take turns on {_MOST_STAGES}"
    ipus = ipus_of_replica(options, situation)
    if ipus < settings.stages:
        return (
            f"Invalid virtual graph index {settings.stages - 1} ({ipus} available): with executionPhaseSettings.stages = "
            f"{settings.stages}, phase i runs on IPU i % {settings.stages} of a replica. Acquire a larger device, or set stages to 1."
        )
    return None


def _io_tiles(options: OptionFields, situation: Situation) -> str | None:
    number, tiles = int(options.numIOTiles), situation.tiles
    if number < 0:
        return f"numIOTiles is {number}: it must be 0 or more."
    if number == 0 or options.virtualGraphMode is VirtualGraphMode.Off:
        return None
    if number < _FEWEST_IO_TILES or number % 2:
        return (
            f"{number} is an invalid number of IO tiles. Number of IO tiles must be an even number and >= {_FEWEST_IO_TILES}, "
            "with another virtualGraphMode than Off."
        )
    if number >= tiles:
        return f"Tiles per IPU {tiles} should exceed number of IO tiles {number}. Ask for a device with more tiles, or lower numIOTiles."
    return None


PLACEMENT_CHECKS: Final[tuple[Check, ...]] = (_phases, _io_tiles)
