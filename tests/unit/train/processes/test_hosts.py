"""Where a process listens: at one address, which is loopback's if process 0 is there."""

import pytest

from tests.together import each
from tilestep.train.processes import hosts

pytestmark = pytest.mark.process  # it listens at ports
ELSEWHERE = "198.51.100.77"  # of documentation (RFC 5737)
UNKNOWN = "fe80::1%nowhere"  # has no address, and nobody is asked for it


@pytest.mark.parametrize(
    ("address", "found"),
    [
        ("localhost:1234", ("localhost", 1234)),
        ("10.0.0.1:1", ("10.0.0.1", 1)),
        ("[::1]:65535", ("::1", 65535)),
        ("node-7.cluster:80", ("node-7.cluster", 80)),
    ],
)
def test_an_address_is_host_and_port(address: str, found: tuple[str, int]) -> None:
    assert hosts.split(address) == found
    assert hosts.join(*found) == address


@each("address", ["", "host", "host:", ":1234", "host:0", "host:65536", "host:-1", "host:1e3", "host:¹", "host:http", "a..b:1"])
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(ValueError, match=r'coordinator_address is .*: it must be "host:port" of process 0, with a port of 1 to 65,535'):
        hosts.split(address)


def test_process_0_listens_at_the_coordinators_address_if_it_has_it() -> None:
    assert hosts.host_of_process_0("localhost") == "127.0.0.1"
    assert hosts.host_of_process_0("127.0.1.1") == "127.0.1.1"
    with pytest.raises(OSError, match="Name or service not known"):
        hosts.host_of_process_0(UNKNOWN)


@pytest.mark.parametrize("source", [None, "10.0.0.5"])
def test_else_it_listens_where_it_reaches_that_from(source: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosts, "source_address", lambda host, port: source if host == ELSEWHERE else None)  # a network of another kind
    if source is not None:
        assert hosts.host_of_process_0(ELSEWHERE) == source
    else:
        with pytest.raises(OSError, match=f"this machine reaches no address of {ELSEWHERE} \\({ELSEWHERE}\\)"):
            hosts.host_of_process_0(ELSEWHERE)


def test_an_address_is_reached_from_one_of_this_machine_or_from_none() -> None:
    assert hosts.source_address("localhost", 1234) == "127.0.0.1"
    assert hosts.is_loopback(hosts.source_address("127.0.1.1", 1234) or "")
    assert hosts.source_address(UNKNOWN, 1234) is None
    assert hosts.source_address("255.255.255.255", 1234) is None  # a socket must ask for leave to send to all


def test_without_start_processes_it_is_by_jaxs_coordinator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosts, "_chosen", [])
    of_this_machine = hosts.source_address("192.0.2.1", 9) or hosts.LOOPBACK
    for coordinator, found in (("localhost:1234", "127.0.0.1"), (f"{UNKNOWN}:1234", hosts.LOOPBACK), (None, of_this_machine)):
        monkeypatch.setattr(hosts, "coordinator_address", lambda coordinator=coordinator: coordinator)
        assert hosts.listening_host() == found
    hosts.choose("10.0.0.6")
    assert hosts.listening_host() == "10.0.0.6"


@pytest.mark.parametrize(
    ("listen_host", "coordinator", "words"),
    [
        ("0.0.0.0", None, "which is all addresses: name one"),
        ("::", "127.0.1.1", "which is all addresses: name one"),
        (ELSEWHERE, "127.0.1.1", "which is no address of this machine"),
        (UNKNOWN, "127.0.1.1", "which is no address of this machine .*Name or service not known"),
        ("127.0.0.1", ELSEWHERE, f"which processes that reach process 0 at {ELSEWHERE} cannot reach"),
    ],
)
def test_a_listen_host_that_does_not_fit_is_refused(listen_host: str, coordinator: str | None, words: str) -> None:
    with pytest.raises(ValueError, match=f"listen_host is '{listen_host}'.*{words}"):
        hosts.require_listen_host(listen_host, coordinator)


def test_a_listen_host_is_an_address() -> None:
    for coordinator in ("localhost", "127.0.1.1", UNKNOWN):  # the last one may have an address later
        assert hosts.require_listen_host("127.0.0.1", coordinator) == "127.0.0.1"


def test_a_listen_host_of_a_network_is_not_for_a_coordinator_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    own = "10.0.0.5"
    monkeypatch.setattr(hosts, "is_on_this_machine", lambda address: address == own)  # a machine of a network
    for coordinator in ("host0", UNKNOWN, ELSEWHERE, None):
        assert hosts.require_listen_host(own, coordinator) == own
    for coordinator in ("localhost", "a.localhost", "127.0.0.1", "::1"):
        words = f"listen_host is '{own}', but coordinator_address is on {coordinator}, so that all processes are on this machine"
        with pytest.raises(ValueError, match=words):
            hosts.require_listen_host(own, coordinator)


def test_an_address_is_this_machines_or_not() -> None:
    assert hosts.is_on_this_machine("127.0.0.1")
    assert not hosts.is_on_this_machine("203.0.113.77")  # of documentation, too
