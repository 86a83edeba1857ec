"""What JAX's profiler recorded in wall time, as spans of the host's threads and of real devices."""

import functools
import struct
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from jax.profiler import ProfileData

from tilestep.protobuf import bytes_field, fields, int_field
from tilestep.tracing.channels import DRIVERS, FRAMEWORK

_HOST: Final = "/host:CPU"
_DEVICE: Final = "/device:"
_EMULATED: Final = "(emulated)"  # in names of planes that have emulated time
_NOISE: Final = ("ThreadpoolListener::", "end: ")  # marks for tools that follow one task through pools of threads
_PYTHON: Final = "python"  # JAX's name for threads without one of their own
_PAUSE_EVENTS: Final = 200  # after which other threads may have the interpreter: some 0.3 ms
_UNIX_NS: Final = 10**18  # times above are since 1970
_PLANES, _LINES, _ID, _NAME = 1, 3, 1, 2  # fields of XSpace, XPlane and XLine

Threads = Mapping[int, tuple[int, str]]  # (tid, name) by Python's ident


class HostSpan(NamedTuple):
    """One span, in nanoseconds of Unix time."""

    tid: int  # 0: unknown
    thread: str
    channel: str
    label: str
    start_ns: int
    duration_ns: int


@functools.cache
def prepare() -> object:
    """Lets jaxlib make the types with which it reads sessions.

    With Python 3.12 it makes them with a warning, and ends the process where warnings are errors. So it makes them here, early, in the main
    thread, and without that warning.

    Returns: what keeps the types alive.
    """
    kinds = b"".join(bytes_field(number, int_field(1, 1) + bytes_field(2, int_field(1, 1))) for number in (4, 5))
    stat = int_field(1, 1) + int_field(3, 1)
    event = int_field(1, 1) + bytes_field(4, stat)
    space = bytes_field(_PLANES, bytes_field(_LINES, bytes_field(4, event)) + kinds + bytes_field(6, stat))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        profile = ProfileData.from_serialized_xspace(space)
        planes = iter(profile.planes)
        plane = next(planes)
        lines = iter(plane.lines)
        line = next(lines)
        events = iter(line.events)
        found = next(events)
        return profile, planes, iter(plane.stats), lines, events, iter(found.stats)


def host_spans(space: bytes, threads: Threads, begin_ns: int, wants: Callable[[str], bool]) -> Iterator[HostSpan]:
    """The spans of a session.

    Args:
        space: the session, a serialized XSpace.
        threads: of the process.
        begin_ns: when the session began, in Unix time, if it does not say so itself.
        wants: whether a channel of a name is wanted.
    """
    if not space:
        return
    prepare()
    known = {_line_id(ident): thread for ident, thread in threads.items()}
    ids = _line_ids(space)
    planes = list(ProfileData.from_serialized_xspace(space).planes)
    begin_ns = next((int(value) for plane in planes for name, value in plane.stats if name == "profile_start_time"), begin_ns)
    count = 0
    for plane in planes:
        channel = FRAMEWORK if plane.name == _HOST else DRIVERS
        is_known = plane.name == _HOST or plane.name.startswith(_DEVICE)
        if not is_known or _EMULATED in plane.name or not wants(channel):
            continue
        for line, number in zip(plane.lines, ids.get(plane.name, ()), strict=True):
            tid, thread = _thread(plane.name, line.name, number, known)
            for found in line.events:
                label = found.name
                count += 1
                if count % _PAUSE_EVENTS == 0:
                    time.sleep(0)
                if not label.startswith(_NOISE):
                    start = int(found.start_ns)
                    yield HostSpan(tid, thread, channel, label, start if start > _UNIX_NS else begin_ns + start, int(found.duration_ns))


def _thread(plane: str, line: str, number: int, known: Mapping[int, tuple[int, str]]) -> tuple[int, str]:
    """(tid, name) of a line's thread."""
    if plane != _HOST:
        return 0, f"{plane.removeprefix(_DEVICE)} {line}".strip()
    if number in known:
        tid, name = known[number]
        return tid, name if line == _PYTHON else line
    return 0, f"{line}/{number:x}" if line == _PYTHON else line


def _line_ids(space: bytes) -> dict[str, list[int]]:
    """By name of a plane, the ids of its lines in order, which ProfileData does not tell."""
    ids: dict[str, list[int]] = {}
    for number, plane in fields(space):
        if number == _PLANES and isinstance(plane, bytes):
            members = list(fields(plane))
            name = next((value.decode(errors="replace") for key, value in members if key == _NAME and isinstance(value, bytes)), "")
            ids[name] = [_first_int(value, _ID) for key, value in members if key == _LINES and isinstance(value, bytes)]
    return ids


def _first_int(message: bytes, number: int) -> int:
    return next((value for key, value in fields(message) if key == number and isinstance(value, int)), 0)


def _line_id(ident: int) -> int:
    """The id that JAX's profiler gives the line of a Python thread: libstdc++'s hash of the thread.

    Where JAX has another one, no id is equal, and the thread's line stands for itself, without a name.
    """
    mask, factor = 2**64 - 1, 0xC6A4A7935BD1E995  # MurmurHash64A, with the seed of libstdc++
    (key,) = struct.unpack("<Q", struct.pack("<q" if ident < 0 else "<Q", ident))
    key = key * factor & mask
    key = (key ^ key >> 47) * factor & mask
    value = ((0xC70F6907 ^ 8 * factor & mask) ^ key) * factor & mask
    value = (value ^ value >> 47) * factor & mask
    return value ^ value >> 47
