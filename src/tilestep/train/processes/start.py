"""Several processes of one program: started together by JAX, and ended together when one of them dies."""

import contextlib
import errno
import json
import math
import os
import secrets
import socket
import time
import warnings
from numbers import Real
from typing import Any, Final

import numpy as np
from jax.experimental import multihost_utils

from tilestep.messages import shown
from tilestep.train.jax_private import distributed
from tilestep.train.patience import Aloud
from tilestep.train.processes import hosts
from tilestep.train.processes.check_in import CheckInServer, Member, check_in, report_mistake
from tilestep.train.processes.peers import watch_peers
from tilestep.train.processes.watchdog.own_watchdog import start_watchdog
from tilestep.train.untyped import jax as _jax

_LEAST_TIMEOUT_S: Final = 1.0
_MOST_TIMEOUT_S: Final = 1e6  # JAX has its own in milliseconds of 32 bits
_JAX_SLACK_S: Final = 30  # by which JAX's own time-outs are longer: it ends processes without saying readably whose fault it was
_ADDRESS_BYTES: Final = 512  # process 0's addresses and a secret
_TOKEN_BYTES: Final = 32
_MOST_PROCESSES: Final = (1 << 31) - 1  # JAX has their number in 32 bits
_RETRY_WALL_S: Final = 0.2

_broadcast: Any = multihost_utils.broadcast_one_to_all


def start_processes(
    *,
    timeout_s: float = 60.0,
    coordinator_address: str | None = None,
    num_processes: int | None = None,
    process_id: int | None = None,
    local_device_ids: int | list[int] | None = None,
    initialization_timeout_s: float = 300.0,
    listen_host: str | None = None,
) -> None:
    """Makes this process one of several of a program, as `jax.distributed.initialize` does, and watches that all of them are there.

    Each process calls it before it does anything else with JAX. JAX finds the arguments that are None where it knows the cluster (Slurm,
    Open MPI 4, Kubernetes, Cloud TPU). While processes are missing, each waiting process says so on stderr, after ten
    seconds and then every minute. When a process is killed, crashes, ends with an exception or before the others, or gives no sign of
    life, the others end within `timeout_s` with exit status 1 (some by JAX's own abort). Each prints which process it was and how it ended.

    A process whose loop waits for its dataset, or for room in its OutfeedQueue, is named by the others after 20 s, or a third of
    `timeout_s` if that is less. Beside each process runs a watchdog, a small Python process that ends with it. The watchdogs connect to
    process 0's by TCP, on a port that the system chooses.

    Args:
        timeout_s: seconds, 1 to 1,000,000. A process may be silent for three quarters of it. A thread gives its signs of life; code that
            holds Python's lock for so long counts as silence. The first process that comes to its end waits so long for the others.
        coordinator_address: "host:port" of process 0, at which all processes find each other.
        num_processes: how many they are.
        process_id: this process's number, from 0 on.
        local_device_ids: which of this machine's devices are this process's.
        initialization_timeout_s: seconds, 1 to 1,000,000, that this process waits for the others to start, and JAX then to join them.
        listen_host: the only address of this machine at which this process listens. None: the address by which it reaches process 0, which
            itself listens at the coordinator's address; with a coordinator on loopback that is loopback.

    Raises:
        ValueError: when a time-out is out of its bounds, an address is none, processes do not fit together, or an argument is None and no
            cluster says it.
        RuntimeError: when JAX has started already.
        OSError: when process 0 cannot listen at its address.
        TimeoutError: when processes are missing for too long, or process 0 is.
    """
    for name, wall_s in (("timeout_s", timeout_s), ("initialization_timeout_s", initialization_timeout_s)):
        must = f"it must be {_LEAST_TIMEOUT_S:g} to {_MOST_TIMEOUT_S:,.0f} seconds"
        if isinstance(wall_s, bool) or not isinstance(wall_s, Real):  # NumPy's numbers are such
            raise TypeError(f"{name} is {shown(wall_s)}: {must}")
        if not _LEAST_TIMEOUT_S <= wall_s <= _MOST_TIMEOUT_S:
            raise ValueError(f"{name} is {shown(wall_s)}: {must}")
    for name, text in (("coordinator_address", coordinator_address), ("listen_host", listen_host)):
        if text is not None and not isinstance(text, str):
            raise TypeError(f"{name} is {shown(text)}: it must be text, an address")
    for name, number in (("num_processes", num_processes), ("process_id", process_id)):
        if number is not None and (isinstance(number, bool) or not isinstance(number, int)):
            raise TypeError(f"{name} is {shown(number)}: it must be a whole number")
    _require_first()
    until = time.monotonic() + initialization_timeout_s
    coordinator_address = coordinator_address or os.environ.get("JAX_COORDINATOR_ADDRESS")
    found = distributed.in_cluster(coordinator_address, num_processes, process_id, initialization_timeout_s)
    member = _member_of(*found)
    if listen_host is not None:
        listen_host = hosts.require_listen_host(listen_host, member.host)
    with warnings.catch_warnings(), Aloud("", str(member)) as waiting:
        warnings.filterwarnings("ignore", "Kubernetes environment detected, but")  # in_cluster has said it
        bind = _meet(member, listen_host, until, waiting)
        waiting.what = "JAX to join all processes, which are here"
        _jax.distributed.initialize(
            *found,
            local_device_ids,
            initialization_timeout=math.ceil(initialization_timeout_s),
            coordinator_bind_address=bind,
            heartbeat_timeout_seconds=math.ceil(timeout_s) + _JAX_SLACK_S,
            shutdown_timeout_seconds=math.ceil(timeout_s) + _JAX_SLACK_S,
        )
        distributed.let_collectives_listen_at(hosts.listening_host())
        distributed.shut_down_without_garbage()
        if member.count > 1:
            _watch(member.number, member.count, timeout_s, member.host)
            watch_peers(member.number, member.count, timeout_s)


def _require_first() -> None:
    if _jax.distributed.is_initialized():
        raise RuntimeError("JAX has joined this process with others already: call start_processes once, and not jax.distributed.initialize")
    if distributed.has_started():
        raise RuntimeError("JAX has started its devices already: call start_processes before anything else of JAX, such as jax.devices()")


def _member_of(address: str | None, count: int | None, number: int | None) -> Member:
    """Raises: ValueError for what is not known, and for a number that does not fit, which process 0 is told, if it is there."""
    if address is None or count is None or number is None:
        given = {"coordinator_address": address, "num_processes": count, "process_id": number}
        raise ValueError(
            f"{', '.join(name for name, value in given.items() if value is None)} not given, and no cluster that JAX knows says so: start "
            "the program by srun of Slurm, by mpirun of Open MPI 4, or in a pod of Kubernetes with the package kubernetes, or give them "
            "(docs/how-to/clusters.md has the variables by which JAX knows a cluster)"
        )
    host, port = hosts.split(address)
    if hosts.is_all(host):
        raise ValueError(f"coordinator_address is {shown(address)}, at which nobody can be reached: name an address of process 0's machine")
    if not 0 < count <= _MOST_PROCESSES:
        raise ValueError(f"num_processes is {shown(count)}: it must be 1 to {_MOST_PROCESSES:,}")
    member = Member(address=address, host=host, port=port, count=count, number=number)
    if not 0 <= number < count:
        if 0 <= number <= _MOST_PROCESSES:
            report_mistake(member)
        raise ValueError(f"process_id is {shown(number)}: with num_processes={count} it must be 0 to {count - 1}")
    return member


def _meet(member: Member, listen_host: str | None, until: float, waiting: Aloud) -> str | None:
    """Waits for all processes, and chooses where this one listens. Returns: where JAX's coordinator is to listen, if that is here."""
    if member.number:
        reached_from = check_in(member, until, waiting)
        hosts.choose(listen_host or reached_from)
        return None
    own = listen_host or _host_of_process_0(member, until, waiting)
    hosts.choose(own)
    given = None if listen_host else os.environ.get("JAX_COORDINATOR_BIND_ADDRESS")
    host, port = hosts.split(given, "JAX_COORDINATOR_BIND_ADDRESS") if given else (own, member.port)
    waiting.what = f"others, to listen at {hosts.join(host, port)}"
    try:
        listener = hosts.listener(host, port, backlog=max(128, member.count))
    except OSError as error:
        raise _not_listening(member, hosts.join(host, port), error) from error
    CheckInServer(listener, member, waiting, note=note_of(member, own)).wait_for_all(until)
    return hosts.join(host, port)


def note_of(member: Member, own: str) -> str:
    """What may keep the others from reaching process 0."""
    if hosts.is_loopback(own) and not hosts.is_loopback_name(member.host):
        return (
            f"; {member.host} is {own} on this machine, where no other machine reaches it: if processes run on others, name process 0's "
            "address in coordinator_address"
        )
    with contextlib.suppress(OSError):
        if own in hosts.addresses_of(member.host):
            return ""
    return f"; process 0 listens at {own}, which is not what {member.host} is here"


def _host_of_process_0(member: Member, until: float, waiting: Aloud) -> str:
    while True:
        try:
            return hosts.host_of_process_0(member.host)
        except OSError as error:  # a cluster may give a name its address only later
            waiting.what = f"{member.address}, to listen there: {error.strerror or error}"
            if time.monotonic() > until:
                raise TimeoutError(f"{waiting}; coordinator_address must name process 0's machine") from error
        time.sleep(_RETRY_WALL_S)


def _not_listening(member: Member, where: str, error: OSError) -> OSError:
    """What to say of a port that process 0 cannot have. Raises: ValueError if that is because there is another process 0."""
    assert error.errno is not None  # a socket has one
    if error.errno == errno.EADDRINUSE:
        report_mistake(member)
        way_out = "another program has that port, or an earlier run: end it, or give all processes another port in coordinator_address"
    elif error.errno == errno.EACCES:
        way_out = "give all processes a port of 1,024 or more in coordinator_address"
    else:
        way_out = "coordinator_address must name the machine on which process 0 runs, or listen_host= an address of it"
    return OSError(
        error.errno,
        f"{member} cannot listen at {where} (coordinator_address {shown(member.address)}): {os.strerror(error.errno)}; {way_out}",
    )


def _watch(me: int, count: int, timeout_s: float, coordinator: str) -> None:
    """Starts the watchdog, which is told by JAX's own ways where that of process 0 is, and how they know each other."""
    listener: socket.socket | None = None
    said: dict[str, Any] = {}
    if me == 0:
        listener = hosts.listener(hosts.listening_host(), 0, backlog=max(128, count))
        own = dict.fromkeys((hosts.listening_host(), coordinator))
        said = {"addresses": [(host, listener.getsockname()[1]) for host in own], "token": secrets.token_hex(_TOKEN_BYTES)}
    text = json.dumps(said).encode().ljust(_ADDRESS_BYTES)
    said = json.loads(np.asarray(_broadcast(np.frombuffer(text, np.uint8))).tobytes())
    start_watchdog(said | {"process": me, "count": count, "timeout_s": timeout_s}, listener)
