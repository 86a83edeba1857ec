"""What JAX's profiler recorded: spans of threads that have their names, in Unix time, without what has emulated time."""

import threading
import warnings
from collections.abc import Iterator

from tilestep.protobuf import bytes_field, int_field
from tilestep.tracing.host_spans import HostSpan, _line_id, host_spans, prepare

BEGIN = 1_795_000_000 * 10**9


def metadata(number: int, name: str) -> bytes:
    return int_field(1, number) + bytes_field(2, int_field(1, number) + bytes_field(2, name.encode()))


def line(number: int, name: str, *events: tuple[int, int, int]) -> bytes:
    """Args: events: metadata, offset and duration in picoseconds."""
    encoded = (bytes_field(4, int_field(1, kind) + int_field(2, offset) + int_field(3, duration)) for kind, offset, duration in events)
    return int_field(1, number) + bytes_field(2, name.encode()) + int_field(3, 0) + b"".join(encoded)


def plane(name: str, lines: list[bytes], names: list[str], stats: bytes = b"") -> bytes:
    """Args: names: of kinds of events, from 1."""
    kinds = b"".join(bytes_field(4, metadata(number, each)) for number, each in enumerate(names, start=1))
    return bytes_field(1, bytes_field(2, name.encode()) + b"".join(bytes_field(3, each) for each in lines) + kinds + stats)


def start_time(begin: int) -> bytes:
    """The plane in which a session says when it began."""
    stats = bytes_field(5, metadata(1, "profile_start_time")) + bytes_field(6, int_field(1, 1) + int_field(3, begin))
    return plane("Task Environment", [], [], stats)


def found(space: bytes, wants: tuple[str, ...] = ("Framework", "Drivers")) -> list[HostSpan]:
    spans: Iterator[HostSpan] = host_spans(space, {threading.get_ident(): (11, "main")}, BEGIN + 7, wants.__contains__)
    return list(spans)


HOST = plane(
    "/host:CPU",
    [
        line(_line_id(threading.get_ident()), "python", (1, 2_000_000, 3_000_000), (2, 0, 0)),
        line(0xAB, "python", (1, 5_000_000, 1_000)),
        line(5, "tf_XLAEigen/-7", (3, 0, 4_000_999)),
    ],
    ["PjitFunction(f)", "ThreadpoolListener::Record", "fusion"],
)
GPU = plane("/device:GPU:0", [line(1, "Stream #1", (1, 9_000_000, 1_000_000))], ["kernel"])


def test_python_threads_are_known_by_their_ident_and_have_their_names() -> None:
    assert found(start_time(BEGIN) + HOST) == [
        HostSpan(11, "main", "Framework", "PjitFunction(f)", BEGIN + 2_000, 3_000),
        HostSpan(0, "python/ab", "Framework", "PjitFunction(f)", BEGIN + 5_000, 1),
        HostSpan(0, "tf_XLAEigen/-7", "Framework", "fusion", BEGIN, 4_000),
    ]


def test_times_count_from_the_begin_that_is_known_where_the_session_tells_none() -> None:
    assert found(HOST)[0].start_ns == BEGIN + 7 + 2_000


def test_real_devices_are_of_channel_drivers_and_emulated_ones_are_left_out() -> None:
    emulated = plane("/device:CUSTOM:IPU 0 (emulated)", [line(1, "compute", (1, 0, 5))], ["step"])
    spans = found(start_time(BEGIN) + emulated + GPU)
    assert spans == [HostSpan(0, "GPU:0 Stream #1", "Drivers", "kernel", BEGIN + 9_000, 1_000)]


def test_channels_that_nobody_wants_are_left_out() -> None:
    space = start_time(BEGIN) + HOST + GPU
    assert {span.channel for span in found(space, ("Drivers",))} == {"Drivers"}
    assert {span.channel for span in found(space, ("Framework",))} == {"Framework"}


def test_what_reads_sessions_is_prepared_without_a_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        prepare.__wrapped__()


def test_a_session_without_anything_has_no_span() -> None:
    assert found(b"") == []
    assert found(start_time(BEGIN)) == []
