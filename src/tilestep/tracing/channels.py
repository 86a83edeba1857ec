"""Channels: every tracepoint belongs to one, and a channel is on or off."""

from collections.abc import Callable
from typing import Final, final

from tilestep.messages import shown

FRAMEWORK: Final = "Framework"  # JAX on the host's threads
DRIVERS: Final = "Drivers"  # real devices such as GPUs, as JAX's profiler tells of them
POPLAR: Final = "Poplar"  # the emulated IPUs, in emulated time
USER: Final = "User"  # tracepoints that name no channel
PREDEFINED: Final = (DRIVERS, POPLAR, FRAMEWORK, USER)
_LONGEST: Final = 1000  # characters of a name


@final
class Channel:
    """A channel of tracepoints. `create_channel` makes it.

    Attributes:
        name: as it was created.
        enabled: whether it records now. Always false in a process that is not traced.
    """

    __slots__ = ("enabled", "name")

    def __init__(self, name: str, *, enabled: bool) -> None:
        self.name, self.enabled = name, enabled

    def __repr__(self) -> str:
        return f"<channel {shown(self.name)}, {'on' if self.enabled else 'off'}>"


def _nothing(name: str) -> bool:
    del name
    return False


# No lock guards these: a fork of another thread would leave it locked.
_channels: dict[str, Channel] = {name.casefold(): Channel(name, enabled=False) for name in PREDEFINED}
_wants: Callable[[str], bool] = _nothing  # whether a new channel records
_is_traced = False


def create_channel(name: str) -> Channel:
    """The channel of that name, which is made if there is none. Capital and small letters are equal.

    Raises: ValueError if the name is empty or longer than 1,000 characters.
    """
    key = name.strip().casefold()
    if not key or len(name) > _LONGEST:
        raise ValueError(f"the name of a channel is {shown(name)}: it must have 1 to {_LONGEST:,} characters that are not blank")
    found = _channels.get(key)
    return found or _channels.setdefault(key, Channel(name.strip(), enabled=_wants(key)))


def found_channel(channel: Channel | str) -> Channel:
    """The channel itself, or the one of that name."""
    return channel if isinstance(channel, Channel) else create_channel(channel)


def enable_channel(channel: Channel | str) -> None:
    """Lets a channel record from now on. Does nothing in a process that is not traced."""
    found_channel(channel).enabled = _is_traced


def disable_channel(channel: Channel | str) -> None:
    """Lets a channel record no more. Spans that have begun are still recorded."""
    found_channel(channel).enabled = False


def is_channel_enabled(channel: Channel | str) -> bool:
    """Whether a channel records now."""
    return found_channel(channel).enabled


def list_channels() -> list[tuple[str, bool]]:
    """(name, whether it records) of each channel, in the order in which they were made. The first four are there from the start."""
    return [(channel.name, channel.enabled) for channel in list(_channels.values())]


def set_traced(wants: Callable[[str], bool] | None) -> None:
    """Recording begins, or ends.

    Args: wants: whether a channel of a name records from the start; None: nothing records any more.
    """
    global _wants, _is_traced
    _wants, _is_traced = wants or _nothing, wants is not None
    for channel in list(_channels.values()):
        channel.enabled = _wants(channel.name)
