"""What an option can do here: the words of the tables in table.py and patterns.py."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from tilestep.popart.enums import DeviceType
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
