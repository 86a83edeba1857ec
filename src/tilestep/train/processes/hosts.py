"""The address at which this process listens for the other processes of its program. It is on no more networks than they need."""

import errno
import ipaddress
import socket
from typing import Final

from tilestep.messages import plain, shortened, shown
from tilestep.train.jax_private.distributed import coordinator_address

LOOPBACK: Final = "127.0.0.1"
_UNROUTED: Final = "192.0.2.1"  # an address for documentation (RFC 5737): nothing is sent to it
_ANY_PORT: Final = 9  # nothing is sent to it, either
_MOST_ADDRESS_CHARACTERS: Final = 200

_chosen: list[str] = []


def choose(host: str) -> None:
    """Makes this process listen at that address from now on."""
    _chosen[:] = [host]


def listening_host() -> str:
    """The address at which this process listens.

    It is the one that `start_processes` has chosen. Without `start_processes` it is the address from which this machine reaches JAX's
    coordinator. Without a coordinator it is the address from which this machine reaches others; loopback if it reaches none.
    """
    if _chosen:
        return _chosen[0]
    address = coordinator_address()
    source = source_address(*split(address)) if address is not None else source_address(_UNROUTED, _ANY_PORT)
    return LOOPBACK if source is None else source


def split(address: str, name: str = "coordinator_address") -> tuple[str, int]:
    """Host and port. Args: name: the argument that gives the address. Raises: ValueError if the address is not "host:port"."""
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
    """The address "host:port", as JAX reads it: an IPv6 address is in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def is_loopback(host: str) -> bool:
    """Whether only processes of this machine can reach an address."""
    return ipaddress.ip_address(host.partition("%")[0]).is_loopback


def is_all(host: str) -> bool:
    """Whether a host stands for all addresses of a machine, such as "0.0.0.0"."""
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False


def addresses_of(host: str) -> list[str]:
    """The addresses of a name, IPv4 first. Raises: OSError if it has none."""
    entries = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for _, _, _, _, address in sorted(entries, key=lambda entry: entry[0] != socket.AF_INET)))


def is_on_this_machine(address: str) -> bool:
    """Whether this machine has an address."""
    try:
        listener(address, 0).close()
    except OSError as error:
        if error.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT, errno.EINVAL):
            return False
        raise
    return True


def source_address(host: str, port: int) -> str | None:
    """The address from which this machine reaches another one; None: it reaches no machine of that name."""
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
    """A socket that listens at an address; "::" stands for all addresses of this machine. Raises: OSError."""
    is_v6 = ":" in host
    return socket.create_server(
        (host, port),
        family=socket.AF_INET6 if is_v6 else socket.AF_INET,
        backlog=backlog,
        dualstack_ipv6=host == "::" and socket.has_dualstack_ipv6(),
    )


def host_of_process_0(host: str) -> str:
    """The address at which process 0 listens.

    It is the coordinator's address, if this machine has it. Otherwise it is the address from which this machine reaches the coordinator's.

    Raises: OSError if the coordinator's name has no address, or this machine reaches none of its addresses.
    """
    addresses = addresses_of(host)
    for address in addresses:
        if is_on_this_machine(address):
            return address
    source = source_address(host, _ANY_PORT)
    if source is None:
        names = shortened(", ".join(addresses), _MOST_ADDRESS_CHARACTERS)
        raise OSError(errno.EADDRNOTAVAIL, f"this machine reaches no address of {plain(host)} ({names})")
    return source


def require_listen_host(listen_host: str, coordinator: str | None) -> str:
    """The address of the user's `listen_host`.

    Raises: ValueError if it is no address of this machine, if it stands for all of them, or if it does not fit the coordinator's.
    """
    given = f"listen_host is {shown(listen_host)}"
    try:
        address = addresses_of(listen_host)[0]
        if is_all(address):
            raise ValueError(f"{given}, which is all addresses: name one, at which the other processes reach this machine")
        if not is_on_this_machine(address):
            raise ValueError(f"{given}, which is no address of this machine: name one that it has, or leave listen_host away")
    except (OSError, UnicodeError) as error:
        raise ValueError(
            f"{given}, which is no address of this machine ({error}): name one that it has, or leave listen_host away"
        ) from error
    if coordinator is not None:
        _require_fits(given, address, coordinator)
    return address


def _require_fits(given: str, address: str, coordinator: str) -> None:
    if is_loopback(address):
        try:
            may_fit = any(map(is_loopback, addresses_of(coordinator)))
        except OSError:  # it may have an address later
            may_fit = True
        if not may_fit:
            raise ValueError(
                f"{given}, which processes that reach process 0 at {plain(coordinator)} cannot reach: name the address that they can"
            )
    elif is_loopback_name(coordinator):
        raise ValueError(
            f"{given}, but coordinator_address is on {plain(coordinator)}, so that all processes are on this machine and listen there: "
            "leave listen_host away, or name process 0's address in coordinator_address"
        )


def is_loopback_name(host: str) -> bool:
    """Whether a name or an address stands for loopback on every machine."""
    try:
        return is_loopback(host)
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
