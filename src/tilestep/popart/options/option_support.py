"""What an option can do here: the words of the tables in table.py and patterns.py."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from tilestep.popart.enums import DeviceType, VirtualGraphMode
from tilestep.popart.options.option_fields import OptionFields

Fate = Literal["done", "no effect", "refused"]


@dataclass(frozen=True, kw_only=True)
class Situation:
    """What a session is made for.

    Attributes:
        training: whether it trains.
        device: the kind of its device.
        num_ipus: of its device.
        tiles: of each of them, as the program asked for them.
    """

    training: bool
    device: DeviceType = DeviceType.Cpu
    num_ipus: int = 1
    tiles: int = 1472

    @property
    def hardware(self) -> bool:
        """Whether the original would run on an IPU here, not on a model of one."""
        return self.device in (DeviceType.Ipu, DeviceType.OfflineIpu)


Refuses = Callable[[OptionFields, Situation], bool]


@dataclass(frozen=True, kw_only=True)
class Row:
    """What one option does here.

    Attributes:
        fate: "done": it takes effect. "no effect": any value is taken. "refused": some values are errors.
        text: the effect; why there is none; or what is refused and why. A sentence without its full stop.
        way_out: of a refusal: what to do, as a sentence without its full stop.
        refuses: of a refusal: whether it refuses these options.
        warns: whether a line of the log says so when the option is changed, because someone waits for an effect.
        in_program: whether it changes the program or its plan, so that an executable of another value is no use.
    """

    fate: Fate
    text: str
    way_out: str = ""
    refuses: Refuses | None = None
    warns: bool = False
    in_program: bool = False


def done(text: str) -> Row:
    """An option that takes effect. Args: text: the effect."""
    return Row(fate="done", text=text)


def planned(text: str) -> Row:
    """An option that takes effect in the program or its plan. Args: text: the effect."""
    return Row(fate="done", text=text, in_program=True)


def no_effect(why: str, *, warns: bool = False) -> Row:
    """An option of which any value is taken. Args: why: it has no effect."""
    return Row(fate="no effect", text=why, warns=warns)


def refused(text: str, way_out: str, refuses: Refuses, *, warns: bool = False) -> Row:
    """An option of which some values are errors."""
    return Row(fate="refused", text=text, way_out=way_out, refuses=refuses, warns=warns)


Check = Callable[[OptionFields, Situation], str | None]
_FEWEST_IO_TILES: Final = 32  # each IPU has an even number of them. Source: PopART's popx/irlowering.cpp
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
