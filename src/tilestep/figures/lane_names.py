"""What people call the lanes of emulated time, and the kinds of their events."""

from typing import Final

_NAMES: Final = {
    "host": "host",
    "ipu": "IPU {number}",
    "io": "I/O tiles of IPU {number}",
    "to-ipus": "host link to IPU-Machine {number}",
    "to-host": "host link from IPU-Machine {number}",
    "memory": "streaming memory of IPU-Machine {number}",
    "gateway": "gateway of IPU-Machine {number}",
    "link": "IPU-Link from IPU {number} to IPU {target}",
}


KIND_TEXTS: Final[dict[str, str]] = {
    "load": "loading programs",
    "save": "saving values at a switch",
    "stream-in": "arguments in",
    "compute": "compute",
    "exchange": "exchange between tiles",
    "sync": "sync",
    "collective": "exchange between IPUs",
    "host-call": "host calls",
    "stream-out": "results out",
    "read": "reads by the host",
    "io-in": "arguments in over I/O tiles",
    "io-out": "results out over I/O tiles",
    "dispatch": "dispatches",
    "wait": "the host waits",
    "transfer": "transfers",
    "idle": "idle",
}


def lane_name(kind: str, number: int, target: int) -> str:
    """'IPU 3', 'host link to IPU-Machine 0'. Args: as the columns of table `lanes`, the kind in words."""
    return _NAMES[kind].format(number=number, target=target)
