"""How processes check in with process 0: all come, or each says what is wrong. Each process is a thread here."""

import re
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from tilestep.train import patience
from tilestep.train.patience import Aloud
from tilestep.train.processes import acceptor
from tilestep.train.processes.check_in import FRAME, HELLO, TITLE, CheckInServer, Member, check_in, report_mistake

pytestmark = pytest.mark.process  # it listens at ports
LIMIT_WALL_S = 20.0
JUNK = (
    b"",
    b"t",
    b"x" * 100_000,
    b"GET / HTTP/1.0\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"[" * 5000 + b"\n",
    b'{"kind": "hello", "token": "\\ud800"}\n',
    TITLE,
    TITLE + b"\xff" * 8,
)


class Port:
    """A port of loopback for a coordinator, at which somebody listens again and again as process 0 hands it over."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.number: int = self.listener.getsockname()[1]

    def member(self, count: int, number: int) -> Member:
        return Member(address=f"127.0.0.1:{self.number}", host="127.0.0.1", port=self.number, count=count, number=number)


@pytest.fixture
def port() -> Iterator[Port]:
    found = Port()
    yield found
    found.listener.close()


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as found:
        yield found


def received(port: Port, count: int, wall_s: float = LIMIT_WALL_S) -> None:
    """Process 0, with JAX's coordinator after it."""
    member = port.member(count, 0)
    with Aloud("", str(member)) as heard:
        CheckInServer(port.listener, member, heard).wait_for_all(time.monotonic() + wall_s)
    port.listener = socket.create_server(("127.0.0.1", port.number))


def came(port: Port, count: int, number: int, wall_s: float = LIMIT_WALL_S) -> str:
    member = port.member(count, number)
    with Aloud("", str(member)) as heard:
        return check_in(member, time.monotonic() + wall_s, heard)


def checked_in(port: Port, count: int, number: int) -> socket.socket:
    """A connection by which a process has checked in that draws no number at random."""
    connection = socket.create_connection(("127.0.0.1", port.number), timeout=LIMIT_WALL_S)
    connection.sendall(TITLE + HELLO.pack(count, number, bytes(8)))
    assert acceptor.receive_exactly(connection, FRAME.size, time.monotonic() + LIMIT_WALL_S).startswith(b"here")
    return connection


def errors(futures: Sequence[Future[Any]]) -> list[str]:
    return [f"{type(error).__name__}: {error}" if (error := future.exception(LIMIT_WALL_S)) else "none" for future in futures]


def test_all_go_on_when_all_are_there(port: Port, threads: ThreadPoolExecutor) -> None:
    hub = threads.submit(received, port, 3)
    others = [threads.submit(came, port, 3, number) for number in (2, 1)]
    assert [other.result(LIMIT_WALL_S) for other in others] == ["127.0.0.1"] * 2
    hub.result(LIMIT_WALL_S)


def test_one_process_waits_for_nobody(port: Port) -> None:
    received(port, 1)


def test_a_count_that_differs_is_named_by_all(port: Port, threads: ThreadPoolExecutor) -> None:
    hub = threads.submit(received, port, 3)
    with checked_in(port, 3, 1) as first:
        other = threads.submit(came, port, 4, 2)
        text = "ValueError: process 2 was started with num_processes=4, and process 0 with num_processes=3: give all the same"
        assert errors([hub, other]) == [text] * 2
        assert acceptor.receive_exactly(first, FRAME.size, time.monotonic() + LIMIT_WALL_S).startswith(b"coun")


def test_a_number_given_twice_is_named_by_all(port: Port, threads: ThreadPoolExecutor) -> None:
    futures = [threads.submit(received, port, 3), threads.submit(came, port, 3, 1), threads.submit(came, port, 3, 1)]
    assert errors(futures) == ["ValueError: two processes were started with process_id=1: give each a number of its own, 0 to 2"] * 3


def test_a_second_process_0_is_named_by_both(port: Port, threads: ThreadPoolExecutor) -> None:
    futures = [threads.submit(received, port, 2), threads.submit(report_mistake, port.member(2, 0))]
    assert errors(futures) == ["ValueError: two processes were started with process_id=0: give each a number of its own, 0 to 1"] * 2


def test_a_number_that_there_is_not_is_told_to_process_0(port: Port, threads: ThreadPoolExecutor) -> None:
    futures = [threads.submit(received, port, 2), threads.submit(report_mistake, port.member(2, 2))]
    assert errors(futures) == ["ValueError: a process was started with process_id=2: with num_processes=2 it must be 0 to 1"] * 2


def test_where_nobody_listens_there_is_nobody_to_tell(port: Port, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilestep.train.processes.check_in.FRAME_WALL_S", 0.1)
    port.listener.close()
    report_mistake(port.member(2, 2))


def test_who_is_missing_is_said_by_all(
    port: Port, threads: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(patience, "SAY_WALL_S", 0.2)
    futures = [threads.submit(received, port, 12, 1.0), threads.submit(came, port, 12, 2)]
    missing = "1, 3, 4, 5, 6, 7, 8, 9 and 2 more"
    said = [
        rf"process 0 of 12 has waited \d s for others at 127.0.0.1:{port.number}: here 0, 2, missing {missing}",
        rf"process 2 of 12 has waited \d s for all to come to process 0 at 127.0.0.1:{port.number}: 2 are here, and process 1 is missing",
    ]
    for error, text in zip(errors(futures), said, strict=True):
        assert re.fullmatch(rf"TimeoutError: {text}; start all processes with the same .*", error)
    lines = capsys.readouterr().err.splitlines()
    for text in said:
        assert any(re.fullmatch(f"tilestep: {text}", line) for line in lines), lines


def test_a_coordinator_that_is_not_there_is_named(port: Port, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(patience, "SAY_WALL_S", 0.1)
    port.listener.close()
    with pytest.raises(
        TimeoutError, match=rf"process 1 of 2 has waited \d s for process 0 at 127.0.0.1:{port.number}: nobody listens there"
    ):
        came(port, 2, 1, 1.5)  # a thread that speaks already looks once a second
    said = rf"tilestep: process 1 of 2 has waited \d s for process 0 at 127.0.0.1:{port.number}: nobody listens"
    assert re.match(said, capsys.readouterr().err)


@pytest.mark.parametrize("said", [b"", b"x" * 16, b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\xff" * 100_000])
def test_another_program_at_the_coordinators_port_is_not_taken_for_process_0(port: Port, said: bytes) -> None:
    is_over = threading.Event()

    def answer() -> None:
        port.listener.settimeout(0.05)
        while not is_over.is_set():
            try:
                connection, _ = port.listener.accept()
            except TimeoutError:
                continue
            with connection:
                connection.sendall(said)

    thread = threading.Thread(target=answer)
    thread.start()
    with pytest.raises(TimeoutError, match="it has gone, or another program listens there"):
        came(port, 2, 1, 0.7)
    is_over.set()
    thread.join()


def test_a_process_that_has_gone_may_come_again(port: Port, threads: ThreadPoolExecutor) -> None:
    hub = threads.submit(received, port, 3)
    checked_in(port, 3, 1).close()
    others = [threads.submit(came, port, 3, number) for number in (1, 2)]
    assert errors([hub, *others]) == ["none"] * 3


def test_a_process_that_connects_twice_is_one(port: Port, threads: ThreadPoolExecutor) -> None:
    hub = threads.submit(received, port, 3)
    with checked_in(port, 3, 1), checked_in(port, 3, 1):
        assert errors([hub, threads.submit(came, port, 3, 2)]) == ["none"] * 2


def test_strangers_neither_end_the_start_nor_keep_anybody_out(
    port: Port, threads: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acceptor, "HANDSHAKE_WALL_S", LIMIT_WALL_S)  # so that it is not time that ends them
    hub = threads.submit(received, port, 3)
    strangers: list[socket.socket] = []

    def flood() -> None:
        for number in range(200):
            stranger = socket.create_connection(("127.0.0.1", port.number), timeout=LIMIT_WALL_S)
            strangers.append(stranger)
            try:
                stranger.sendall(JUNK[number % len(JUNK)])
            except OSError:
                continue  # it was sent away

    flood()
    first = threads.submit(came, port, 3, 1)
    flood()
    second = threads.submit(came, port, 3, 2)
    assert errors([hub, first, second]) == ["none"] * 3
    for stranger in strangers:
        stranger.close()
