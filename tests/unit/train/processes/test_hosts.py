"""Where a process listens: at one address, which is loopback's if process 0 is there."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from tilestep.train.processes import hosts

ELSEWHERE = "192.0.2.77"  # of documentation (RFC 5737)


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """The addresses of names. Others have none."""
    found: dict[str, list[str]] = {}

    def getaddrinfo(host: str, *_: Any, **__: Any) -> list[Any]:
        if host not in found:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [(socket.AF_INET6 if ":" in address else socket.AF_INET, 1, 6, "", (address, 0)) for address in found[host]]

    monkeypatch.setattr(hosts.socket, "getaddrinfo", getaddrinfo)
    return found


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


@pytest.mark.parametrize(
    "address", ["", "host", "host:", ":1234", "host:0", "host:65536", "host:-1", "host:1e3", "host:¹", "host:http", "a..b:1"]
)
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(ValueError, match=r'coordinator_address is .*: it must be "host:port" of process 0, with a port of 1 to 65,535'):
        hosts.split(address)


def test_process_0_listens_at_the_coordinators_address_if_it_has_it(names: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    names |= {"localhost": ["::1", "127.0.0.1"], "host0": ["127.0.1.1"], "far": [ELSEWHERE]}
    assert hosts.host_of_process_0("localhost") == "127.0.0.1"
    assert hosts.host_of_process_0("host0") == "127.0.1.1"
    with monkeypatch.context() as patched:
        patched.setattr(hosts, "source_address", lambda host, port: "10.0.0.5" if host == "far" else None)
        assert hosts.host_of_process_0("far") == "10.0.0.5"
        with pytest.raises(OSError, match="Name or service not known"):
            hosts.host_of_process_0("unknown")
        patched.setattr(hosts, "source_address", lambda host, port: None)
        with pytest.raises(OSError, match=f"this machine reaches no address of far \\({ELSEWHERE}\\)"):
            hosts.host_of_process_0("far")


def test_loopback_is_reached_from_loopback(names: dict[str, list[str]]) -> None:
    names |= {"localhost": ["127.0.0.1"], "host0": ["127.0.1.1"]}
    for name in names:
        found = hosts.source_address(name, 1234)
        assert found is not None
        assert hosts.is_loopback(found)
    assert hosts.source_address("unknown", 1234) is None


def test_without_start_processes_it_is_by_jaxs_coordinator(names: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    names |= {"localhost": ["127.0.0.1"]}
    monkeypatch.setattr(hosts, "_chosen", [])
    monkeypatch.setattr(hosts, "coordinator_address", lambda: "localhost:1234")
    assert hosts.listening_host() == "127.0.0.1"
    monkeypatch.setattr(hosts, "coordinator_address", lambda: "unknown:1234")
    assert hosts.listening_host() == hosts.LOOPBACK
    monkeypatch.setattr(hosts, "coordinator_address", lambda: None)
    monkeypatch.setattr(hosts, "source_address", lambda *_: "10.0.0.5")
    assert hosts.listening_host() == "10.0.0.5"
    hosts.choose("10.0.0.6")
    assert hosts.listening_host() == "10.0.0.6"


@pytest.mark.parametrize(
    ("listen_host", "coordinator", "words"),
    [
        ("0.0.0.0", None, "which is all addresses: name one"),
        ("::", "host0", "which is all addresses: name one"),
        (ELSEWHERE, "host0", "which is no address of this machine"),
        ("unknown", "host0", "which is no address of this machine .*Name or service not known"),
        ("127.0.0.1", "far", "which processes that reach process 0 at far cannot reach"),
        ("own", "localhost", "but coordinator_address is on localhost, so that all processes are on this machine"),
        ("own", "127.0.0.1", "but coordinator_address is on 127.0.0.1"),
        ("own", "::1", "but coordinator_address is on ::1"),
    ],
)
def test_a_listen_host_that_does_not_fit_is_refused(
    names: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch, listen_host: str, coordinator: str | None, words: str
) -> None:
    names |= {name: [name] for name in ("0.0.0.0", "::", "127.0.0.1", ELSEWHERE)} | {"far": [ELSEWHERE], "own": ["10.0.0.5"]}
    monkeypatch.setattr(hosts, "is_on_this_machine", lambda address: address != ELSEWHERE)
    with pytest.raises(ValueError, match=f"listen_host is '{listen_host}'.*{words}"):
        hosts.require_listen_host(listen_host, coordinator)


@pytest.mark.parametrize(
    ("listen_host", "coordinator", "found"),
    [
        ("own", "host0", "10.0.0.5"),
        ("own", "unknown", "10.0.0.5"),
        ("own", None, "10.0.0.5"),
        ("127.0.0.1", "localhost", "127.0.0.1"),
        ("127.0.0.1", "host0", "127.0.0.1"),
        ("127.0.0.1", "unknown", "127.0.0.1"),
    ],
)
def test_a_listen_host_is_an_address(
    names: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch, listen_host: str, coordinator: str | None, found: str
) -> None:
    names |= {"127.0.0.1": ["127.0.0.1"], "localhost": ["127.0.0.1"], "host0": ["127.0.1.1"], "own": ["10.0.0.5"]}
    monkeypatch.setattr(hosts, "is_on_this_machine", lambda _: True)
    assert hosts.require_listen_host(listen_host, coordinator) == found


def test_an_address_is_this_machines_or_not() -> None:
    assert hosts.is_on_this_machine("127.0.0.1")
    assert not hosts.is_on_this_machine("203.0.113.77")  # of documentation, too
