"""Which addresses the processes of a job listen on, and what strangers may send there."""

import ipaddress
import os
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path

_LISTEN = "0A"  # of the states of a connection in /proc/net/tcp
JUNK = (
    b"",  # and no end
    b"t",
    b"\n",
    b"\xff\xfe" * 100,
    b"no JSON\n",
    b"[1, 2]\n",
    b"[" * 100_000 + b"\n",
    b'{"kind":"hello","token":"\\ud800"}\n',
    b'{"kind": "hello", "process": 1}\n{"kind": "end", "process": 1, "how": "died", "at": 0}\n',
    b"tilestep greets\n" + bytes(32 + 4 + 32),
    b"tilestep checkin" + b"\xff" * 8,
    b"GET / HTTP/1.0\r\n\r\n",
    os.urandom(1 << 16),
    b"x" * (1 << 20),
)


def watchdog_of(pid: int) -> int:
    """The process beside a process of a job."""
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            fields = dict(line.split(":\t", 1) for line in status.read_text().splitlines() if ":\t" in line)
            command = status.with_name("cmdline").read_bytes()
        except OSError:
            continue  # it has ended
        if fields["PPid"] == str(pid) and b"run_watchdog.py" in command:
            return int(status.parent.name)
    raise AssertionError(f"process {pid} has no watchdog")


def listens(pid: int) -> set[tuple[str, int]]:
    """Address and port of each socket at which a process listens. An IPv4 address that is written as one of IPv6 is one of IPv4."""
    own = {link for link in _links(pid) if link.startswith("socket:")}
    found: set[tuple[str, int]] = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == _LISTEN and f"socket:[{fields[9]}]" in own:
                address, port = fields[1].split(":")
                words = [struct.pack("=I", int(address[place : place + 8], 16)) for place in range(0, len(address), 8)]
                where = ipaddress.ip_address(b"".join(words))
                where = getattr(where, "ipv4_mapped", None) or where
                found.add((str(where), int(port, 16)))
    return found


def wait_until_joined(hub: int, member: int) -> None:
    """Until the watchdog of process 0 and another one have each proved to the other that they belong to one job.

    Each waits for its own process, and the hub for strangers: one more is the other watchdog.
    """
    while _waits_for(hub) < 3 or _waits_for(member) < 2:
        time.sleep(0.05)


def _waits_for(pid: int) -> int:
    """How many files the widest epoll of a process has."""
    counts = [0]
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        try:
            if os.readlink(descriptor) == "anon_inode:[eventpoll]":
                counts.append(Path(f"/proc/{pid}/fdinfo/{descriptor.name}").read_text().count("tfd:"))
        except OSError:
            continue  # it has been closed
    return max(counts)


def _links(pid: int) -> Iterator[str]:
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        try:
            yield os.readlink(descriptor)
        except OSError:
            continue  # it has been closed


def flood(address: tuple[str, int], count: int) -> list[socket.socket]:
    """Connections of strangers, which say all kinds of things and stay open. Where nobody listens there is none."""
    found: list[socket.socket] = []
    for number in range(count):
        try:
            connection = socket.create_connection(address, timeout=1.0)
        except OSError:
            continue
        found.append(connection)
        connection.setblocking(False)
        try:
            connection.send(JUNK[number % len(JUNK)])
        except OSError:
            continue  # it was sent away
    return found
