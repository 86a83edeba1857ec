"""Addresses: where this process listens for the other processes of its program, which is on no more networks than they need."""

from __future__ import annotations

import errno
import ipaddress
import socket
from typing import Final

from tilestep.messages import shown
from tilestep.train.jax_private.distributed import coordinator_address

LOOPBACK: Final = "127.0.0.1"
_UNROUTED: Final = "192.0.2.1"  # an address of documentation (RFC 5737): nothing is sent to it
_ANY_PORT: Final = 9  # to which nothing is sent, either

_chosen: list[str] = []


def choose(host: str) -> None:
    """From now on this process listens there."""
    _chosen[:] = [host]


def own_host() -> str:
    """Where this process listens: as `start_processes` has chosen; without it the address by which it reaches JAX's coordinator.

    Where JAX has joined processes without a coordinator: the address by which this machine reaches others; loopback if it reaches none.
    """
    if _chosen:
        return _chosen[0]
    address = coordinator_address()
    found = route_to(*split(address)) if address is not None else route_to(_UNROUTED, _ANY_PORT)
    return LOOPBACK if found is None else found


def split(address: str, name: str = "coordinator_address") -> tuple[str, int]:
    """Host and port. Raises: ValueError if what `name` gives is not "host:port"."""
    host, colon, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    try:
        host.encode("idna")
    except UnicodeError:
        host = ""
    if not (colon and host and port.isascii() and port.isdecimal() and 0 < int(port) < 1 << 16):
        raise ValueError(f'{name} is {shown(address)}: it must be "host:port" of process 0, with a port of 1 to 65,535')
    return host, int(port)


def join(host: str, port: int) -> str:
    """ "host:port", as JAX reads it: an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def is_loopback(host: str) -> bool:
    """Whether an address is, which only processes of this machine can reach."""
    return ipaddress.ip_address(host.partition("%")[0]).is_loopback


def is_all(host: str) -> bool:
    """Whether it is no address, but stands for all that a machine has."""
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False


def addresses_of(host: str) -> list[str]:
    """Those of a name, IPv4 first. Raises: OSError if it has none."""
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(where[0]) for _, _, _, _, where in sorted(found, key=lambda entry: entry[0] != socket.AF_INET)))


def is_own(address: str) -> bool:
    """Whether this machine has an address."""
    try:
        listener(address, 0).close()
    except OSError as error:
        if error.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT, errno.EINVAL):
            return False
        raise
    return True


def route_to(host: str, port: int) -> str | None:
    """The address by which this machine reaches another one; None: it reaches none of that name."""
    try:
        addresses = addresses_of(host)
    except OSError:
        return None
    for address in addresses:
        with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM) as probe:
            try:
                probe.connect((address, port))
            except OSError:
                continue
            return probe.getsockname()[0]
    return None


def listener(host: str, port: int, *, backlog: int = 128) -> socket.socket:
    """A socket that listens at an address; "::" is all of this machine's. Raises: OSError."""
    is_v6 = ":" in host
    return socket.create_server(
        (host, port),
        family=socket.AF_INET6 if is_v6 else socket.AF_INET,
        backlog=backlog,
        dualstack_ipv6=host == "::" and socket.has_dualstack_ipv6(),
    )


def host_of_process_0(host: str) -> str:
    """Where process 0 listens: at the coordinator's address, if it is this machine's; else at the one by which it reaches that.

    Raises: OSError if the coordinator's name has no address, or is that of no network of this machine.
    """
    addresses = addresses_of(host)
    for address in addresses:
        if is_own(address):
            return address
    found = route_to(host, _ANY_PORT)
    if found is None:
        raise OSError(errno.EADDRNOTAVAIL, f"this machine reaches no address of {host} ({', '.join(addresses)})")
    return found


def require_listen_host(listen_host: str, coordinator: str | None) -> str:
    """The address that the user's `listen_host` is.

    Raises: ValueError if it is none of this machine, or all of them, or does not fit the coordinator's.
    """
    where = f"listen_host is {shown(listen_host)}"
    try:
        address = addresses_of(listen_host)[0]
        if is_all(address):
            raise ValueError(f"{where}, which is all addresses: name one, at which the other processes reach this machine")
        if not is_own(address):
            raise ValueError(f"{where}, which is no address of this machine: name one that it has, or leave listen_host away")
    except (OSError, UnicodeError) as error:
        raise ValueError(
            f"{where}, which is no address of this machine ({error}): name one that it has, or leave listen_host away"
        ) from error
    if coordinator is not None:
        _require_fits(where, address, coordinator)
    return address


def _require_fits(where: str, address: str, coordinator: str) -> None:
    if is_loopback(address):
        try:
            may_fit = any(map(is_loopback, addresses_of(coordinator)))
        except OSError:  # it may have an address later
            may_fit = True
        if not may_fit:
            raise ValueError(f"{where}, which processes that reach process 0 at {coordinator} cannot reach: name the address that they can")
    elif is_called_loopback(coordinator):
        raise ValueError(
            f"{where}, but coordinator_address is on {coordinator}, so that all processes are on this machine and listen there: leave "
            "listen_host away, or name process 0's address in coordinator_address"
        )


def is_called_loopback(host: str) -> bool:
    """Whether a name is loopback's on each machine."""
    try:
        return is_loopback(host)
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
