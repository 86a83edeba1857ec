"""A rendezvous: each process receives the values of all. Each process is a thread here, and `Broadcast` is in place of JAX's collective."""

import pickle
import re
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from tilestep.errors import ProcessFailedError
from tilestep.train.processes import hosts, rendezvous
from tilestep.train.processes.messages import encode
from tilestep.train.processes.rendezvous import Rendezvous

pytestmark = pytest.mark.process  # it listens at ports
LIMIT_WALL_S = 20.0


class Broadcast:
    """What process 0 says, for all."""

    def __init__(self) -> None:
        self.said = np.zeros(0, np.uint8)
        self._is_there = threading.Event()

    def __call__(self, said: Any) -> Any:
        if said.tobytes().strip():  # that of process 0
            self.said = said
            self._is_there.set()
        assert self._is_there.wait(LIMIT_WALL_S)
        return self.said

    @property
    def address(self) -> tuple[str, int]:
        """Of process 0, as it is told to the others."""
        return hosts.split(self.said.tobytes()[rendezvous.SECRET_BYTES :].decode().strip())


@pytest.fixture
def broadcast(monkeypatch: pytest.MonkeyPatch) -> Broadcast:
    monkeypatch.setattr(hosts, "_chosen", [hosts.LOOPBACK])  # where it listens
    return Broadcast()


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as found:
        yield found


def connected(threads: ThreadPoolExecutor, broadcast: Broadcast, count: int) -> list[Rendezvous]:
    made = [threads.submit(Rendezvous, me, count, broadcast=broadcast) for me in range(count)]
    return [future.result(LIMIT_WALL_S) for future in made]


def outcomes(threads: ThreadPoolExecutor, calls: list[Callable[[], Any]]) -> list[Any]:
    """What each call returns, or raises."""
    started = [threads.submit(call) for call in calls]
    return [future.exception(LIMIT_WALL_S) or future.result() for future in started]


def test_all_hear_what_each_has_said(threads: ThreadPoolExecutor, broadcast: Broadcast) -> None:
    made = connected(threads, broadcast, 3)
    for turn in range(2):
        said = outcomes(threads, [lambda one=one, turn=turn: one.all_gather((one.me, turn)) for one in made])
        assert said == [[[process, turn] for process in range(3)]] * 3


@pytest.mark.parametrize("process", [0, 1])
def test_what_cannot_be_written_is_refused_before_anything_is_said(threads: ThreadPoolExecutor, broadcast: Broadcast, process: int) -> None:
    made = connected(threads, broadcast, 2)

    class Local:
        pass

    with pytest.raises(TypeError, match="Object of type Local is not JSON serializable"):
        made[process].all_gather(Local())
    assert outcomes(threads, [lambda one=one: one.all_gather(one.me) for one in made]) == [[0, 1]] * 2


@pytest.mark.parametrize("process", [0, 1])
def test_what_is_no_message_is_an_error_in_all_and_they_go_on(threads: ThreadPoolExecutor, broadcast: Broadcast, process: int) -> None:
    made = connected(threads, broadcast, 2)

    def junk() -> Any:
        """As `all_gather` does with a message."""
        one = made[process]
        found = one._collect(b"junk") if process == 0 else one._exchange(b"junk")
        return [one._decoded(number, answer) for number, answer in enumerate(found)]

    said = outcomes(threads, [junk if one.me == process else lambda one=one: one.all_gather(None) for one in made])
    for error in said:
        assert isinstance(error, ValueError)
        assert re.fullmatch(rf"process {process} \(pid .*\) has sent no message: .*; all processes must run .*", str(error))
    assert outcomes(threads, [lambda one=one: one.all_gather(one.me) for one in made]) == [[0, 1]] * 2


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"junk", "has sent no message"),
        (encode([""]), r"has sent \[''\] instead of the messages of 2 processes; all"),
        (encode([1, 2]), r"has sent \[1, 2\] instead of"),
        (encode(2), "has sent 2 instead of"),
        (encode(["\x1b" * 100_000]), r"has sent \['[\\x1b]{1,100}\.\.\.[\\x1b]{1,100}'\] instead of the messages of 2 processes; all"),
        (
            bytes(2 * rendezvous.ANSWER_BYTES + 1),
            "has sent more than 67,108,896 bytes, the most that a message may have; all processes must",
        ),
        (pickle.dumps([pickle.dumps(None)] * 2), "has sent no message"),
    ],
)
def test_process_0_is_not_understood_if_it_says_anything_else(
    threads: ThreadPoolExecutor, broadcast: Broadcast, answer: bytes, words: str
) -> None:
    hub, member = connected(threads, broadcast, 2)
    hub_end = threads.submit(hub.connections[1].send_bytes, answer)
    (error,) = outcomes(threads, [lambda: member.all_gather(None)])
    assert isinstance(error, ProcessFailedError)
    assert re.search(f"process 0 .* {words}", str(error))
    with pytest.raises(ProcessFailedError, match=words):
        member.all_gather(None)
    hub_end.exception(LIMIT_WALL_S)  # its message may not have gone through


def test_a_message_beyond_the_bound_is_not_read(threads: ThreadPoolExecutor, broadcast: Broadcast, monkeypatch: pytest.MonkeyPatch) -> None:
    hub, member = connected(threads, broadcast, 2)
    monkeypatch.setattr(rendezvous.messages, "LONGEST_BYTES", 100)
    member.connections[0].send_bytes(bytes(101))
    for _ in range(2):
        with pytest.raises(ProcessFailedError, match=r"process 1 .* has sent more than 100 bytes, the most that a message may have"):
            hub.all_gather(None)


@pytest.mark.parametrize("size", [1, 1_000_000])  # of what is said: more than a connection takes at once
def test_who_speaks_after_a_process_has_gone_hears_which(threads: ThreadPoolExecutor, broadcast: Broadcast, size: int) -> None:
    made = connected(threads, broadcast, 3)
    made[2].close()
    (first,) = outcomes(threads, [lambda: made[0].all_gather("x" * size)])
    (second,) = outcomes(threads, [lambda: made[1].all_gather("x" * size)])
    for error in (first, second):
        assert isinstance(error, ProcessFailedError)
        assert str(error).startswith("process 2 (pid ")
        assert str(error).endswith("is gone: it has ended, or was killed")
    for one in made[:2]:
        with pytest.raises(ProcessFailedError, match="process 2 "):
            one.all_gather("again")


@pytest.mark.parametrize("victim", [0, 1])
def test_who_is_interrupted_meets_no_more_and_the_others_hear_of_it(threads: ThreadPoolExecutor, broadcast: Broadcast, victim: int) -> None:
    made = connected(threads, broadcast, 2)

    class Interrupted(dict[int, Any]):
        """Connections that a Ctrl-C keeps from use."""

        def items(self) -> Any:
            raise KeyboardInterrupt

        def __getitem__(self, process: int) -> Any:
            raise KeyboardInterrupt

    connections, made[victim].connections = made[victim].connections, Interrupted()
    with pytest.raises(KeyboardInterrupt):
        made[victim].all_gather(None)
    for connection in connections.values():
        connection.close()
    with pytest.raises(ProcessFailedError, match=rf"process {victim} \(.* was interrupted during a rendezvous"):
        made[victim].all_gather(None)
    with pytest.raises(ProcessFailedError, match=rf"process {victim} \(.* is gone"):
        made[1 - victim].all_gather(None)


def test_who_does_not_come_is_named(threads: ThreadPoolExecutor, broadcast: Broadcast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendezvous, "CONNECT_WALL_S", 2.0)
    hub = threads.submit(Rendezvous, 0, 4, broadcast=broadcast)
    broadcast(np.frombuffer(b" ", np.uint8))
    came = threads.submit(Rendezvous, 2, 4, broadcast=broadcast)
    error, other = hub.exception(LIMIT_WALL_S), came.exception(LIMIT_WALL_S)
    assert isinstance(error, ProcessFailedError)
    assert str(error) == "process 1 (on an unknown machine) has not come to the rendezvous of 4 processes within 2 s; missing, too: 3"
    assert error.process == 1
    assert isinstance(other, ProcessFailedError)
    assert str(other).endswith("is gone: it has ended, or was killed")


def test_a_rendezvous_is_where_this_process_listens_and_nowhere_else(threads: ThreadPoolExecutor, broadcast: Broadcast) -> None:
    connected(threads, broadcast, 2)
    assert broadcast.address[0] == hosts.listening_host() == hosts.LOOPBACK
    with pytest.raises(ConnectionRefusedError):  # all have come
        socket.create_connection(broadcast.address)
