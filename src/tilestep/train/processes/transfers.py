"""Sends arrays from one process's devices to another's.

On CPU by `jax.experimental.transfer`: the source offers an array, the destination pulls it, and neither waits for the other. On other
platforms by `jax.device_put`, which all processes call in one order. Either way all processes call `put` with the same lists in the same
order. So each knows what comes from which process, and messages have numbers rather than names.
"""

import functools
import hmac
import itertools
import math
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final, final

import jax
from jax.experimental import transfer
from jax.sharding import NamedSharding, Sharding, SingleDeviceSharding

from tilestep.train.processes import hosts
from tilestep.train.processes.remote import remote_array
from tilestep.train.processes.rendezvous import Rendezvous
from tilestep.train.untyped import Device, Spec
from tilestep.train.untyped import jax as _jax

_transfer: Any = transfer

_FIRST_NUMBER_BYTES: Final = 6  # nobody can pull without the first message's number

# Numbers of Transfers, which all processes make in one order. They differ, because of two offers by one number the first is lost.
_serial = itertools.count(1)


@functools.lru_cache(maxsize=4096)
def process_of(sharding: Sharding) -> int:
    """The one process that has all of a sharding's devices."""
    return next(iter(sharding.device_set)).process_index


@functools.cache
def _server(client: Any, host: str) -> Any:
    """Offers this process's arrays. It is never closed, because others may pull arrays of a pipeline that is gone here."""
    return _transfer.start_transfer_server(client, hosts.join(host, 0), [hosts.join(host, 0)])


@functools.cache
def _peer(server: Any, address: str) -> Any:
    """A connection to another process's server."""
    return server.connect(address)


@final
class Transfers:
    """Arrays to and from the other processes of a rendezvous.

    Args: devices: of all processes.
    """

    def __init__(self, rendezvous: Rendezvous, devices: Sequence[Device]) -> None:
        self._me, self._count = rendezvous.me, rendezvous.count
        self._own_device = next(device for device in devices[0].client.devices() if device.process_index == rendezvous.me)
        self._ends = [
            SingleDeviceSharding(next(device for device in devices[0].client.devices() if device.process_index == process))
            for process in range(rendezvous.count)
        ]
        self._sent: Counter[int] = Counter()  # messages to each process, ever
        self._received: Counter[int] = Counter()
        self._before: tuple[Counter[int], Counter[int]] = Counter(), Counter()  # the same, when this run began
        self._to_skip: tuple[Counter[int], Counter[int]] | None = None  # in a replay: messages to skip, (to, from) each process
        self._pulls = self._own_device.platform == "cpu"
        if self._pulls:
            self._first = int.from_bytes(hmac.digest(rendezvous.secret, b"transfers %d" % next(_serial), "sha256")[:_FIRST_NUMBER_BYTES])  # pyrefly: ignore[possibly-uninitialized-attribute]
            self._server = _server(self._own_device.client, hosts.listening_host())  # pyrefly: ignore[possibly-uninitialized-attribute]
            addresses = rendezvous.all_gather(self._server.address())
            self._peers = {other: _peer(self._server, address) for other, address in enumerate(addresses) if other != self._me}  # pyrefly: ignore[possibly-uninitialized-attribute]

    # ------------------------------------------------------------------------------------------------------ counts of messages

    def begin(self) -> None:
        """A run begins."""
        self._before, self._to_skip = (self._sent.copy(), self._received.copy()), None

    def counts(self) -> tuple[list[int], list[int]]:
        """The numbers of messages (to, from) each process, ever."""
        processes = range(self._count)
        return [self._sent[process] for process in processes], [self._received[process] for process in processes]

    def begin_replay(self) -> None:
        """A broken run is replayed, with arrays that are errors: skips the messages that it has sent and received already."""
        self._to_skip = self._sent - self._before[0], self._received - self._before[1]

    # ---------------------------------------------------------------------------------------------------------- arrays

    def put(self, values: Sequence[Any], shardings: Sequence[Sharding], *, may_be_donated: bool = False) -> list[Any]:
        """The values with these shardings: `jax.device_put`, over all processes.

        Every process has the values that are no arrays of JAX. A value for another process becomes an array on its devices, without data.

        Args: may_be_donated: whether this process may donate or delete the values before the others have pulled them.
        """
        results = list(values)
        here: list[int] = []
        going: dict[int, list[int]] = {}
        coming: dict[int, list[int]] = {}
        for index, (value, sharding) in enumerate(zip(values, shardings, strict=True)):
            destination = process_of(sharding)
            source = process_of(value.sharding) if isinstance(value, jax.Array) else destination
            if destination != self._me:
                results[index] = remote_array(tuple(value.shape), value.dtype, sharding)
            if source == destination:
                if destination == self._me:
                    here.append(index)
            elif source == self._me:
                going.setdefault(destination, []).append(index)
            elif destination == self._me:
                coming.setdefault(source, []).append(index)
        if here and self._to_skip is None:
            for index, value in zip(here, _jax.device_put([values[i] for i in here], [shardings[i] for i in here]), strict=True):
                results[index] = value
        elif here:
            for index in here:
                results[index] = remote_array(tuple(values[index].shape), values[index].dtype, shardings[index])
        for destination in sorted(going):
            self._send(
                destination,
                [values[index] for index in going[destination]],
                [shardings[index] for index in going[destination]],
                may_be_donated=may_be_donated,
            )
        for source in sorted(coming):
            indices = coming[source]
            new = self._receive(source, [values[index] for index in indices], [shardings[index] for index in indices])
            for index, value in zip(indices, new, strict=True):
                results[index] = value
        return results

    def to_all(self, values: Sequence[Any]) -> list[Any]:
        """The values, each of which one process has, as arrays on a device of each process."""
        results = list(values)
        sources = [process_of(value.sharding) for value in values]
        mine = [index for index, source in enumerate(sources) if source == self._me]
        for destination in range(self._count):
            if mine and destination != self._me:
                self._send(destination, [values[index] for index in mine], [self._ends[destination]] * len(mine), may_be_donated=True)
        for source in sorted({source for source in sources if source != self._me}):
            indices = [index for index, other in enumerate(sources) if other == source]
            new = self._receive(source, [values[index] for index in indices], [self._ends[self._me]] * len(indices))
            for index, value in zip(indices, new, strict=True):
                results[index] = value
        return results

    def _is_skipped(self, which: int, process: int) -> bool:
        if self._to_skip is None or not self._to_skip[which][process]:
            return False
        self._to_skip[which][process] -= 1
        return True

    def _send(self, destination: int, values: Sequence[Any], shardings: Sequence[Sharding], *, may_be_donated: bool) -> None:
        if self._is_skipped(0, destination):
            return
        number, self._sent[destination] = self._sent[destination], self._sent[destination] + 1
        there = [sharding for value, sharding in zip(values, shardings, strict=True) if math.prod(value.shape)]
        offered = [self._offer(*pair) for pair in zip((value for value in values if math.prod(value.shape)), there, strict=True)]
        if not offered:  # empty arrays need no message, and cannot be pulled
            return
        if not self._pulls:
            _jax.device_put(offered, [_like(value, sharding) for value, sharding in zip(offered, there, strict=True)])
            return
        if may_be_donated and self._to_skip is None:
            offered = [_copied(value) for value in offered]
        self._server.await_pull(self._number(number, destination), offered)

    def _receive(self, source: int, specs: Sequence[Spec], shardings: Sequence[Sharding]) -> list[Any]:
        """The values from another process. Args: specs: the values as arrays without data."""
        if self._is_skipped(1, source):
            return [remote_array(tuple(spec.shape), spec.dtype, sharding) for spec, sharding in zip(specs, shardings, strict=True)]
        number, self._received[source] = self._received[source], self._received[source] + 1
        is_whole = [not _is_alike(spec.sharding, sharding) for spec, sharding in zip(specs, shardings, strict=True)]
        coming = [
            _jax.ShapeDtypeStruct(
                spec.shape, spec.dtype, sharding=SingleDeviceSharding(_first_of(sharding)) if whole else _in_device_memory(sharding)
            )
            for spec, sharding, whole in zip(specs, shardings, is_whole, strict=True)
        ]
        nonempty = [index for index, spec in enumerate(specs) if math.prod(spec.shape)]
        results: list[Any] = [None if index in nonempty else _jax.numpy.zeros(spec.shape, spec.dtype) for index, spec in enumerate(specs)]
        if nonempty and self._pulls:
            data = [_data_spec(coming[index]) for index in nonempty]
            pulled = self._peers[source].pull(self._number(number, self._me), data)
            for index, value in zip(nonempty, pulled, strict=True):
                results[index] = (
                    _jax.random.wrap_key_data(value, impl=_jax.random.key_impl(specs[index])) if _is_key(specs[index]) else value
                )
        elif nonempty:
            pulled = _jax.device_put([specs[index] for index in nonempty], [coming[index].sharding for index in nonempty])
            for index, value in zip(nonempty, pulled, strict=True):
                results[index] = value
        away = [index for index, (value, sharding) in enumerate(zip(results, shardings, strict=True)) if value.sharding != sharding]
        if away:
            for index, value in zip(away, _jax.device_put([results[i] for i in away], [shardings[i] for i in away]), strict=True):
                results[index] = value
        return results

    def _number(self, number: int, destination: int) -> int:
        """The number of a message, among all of the source's."""
        return self._first + number * self._count + destination

    def _offer(self, value: Any, sharding: Sharding) -> jax.Array:
        """The value as the destination pulls it: in as many parts as it will have there, or as a whole."""
        if self._pulls and _is_key(value):
            value = _jax.random.key_data(value)
        if _is_alike(value.sharding, sharding):
            if isinstance(sharding, NamedSharding):
                return _jax.device_put(value, NamedSharding(value.sharding.mesh, sharding.spec))
            return value
        return _jax.device_put(value, SingleDeviceSharding(_first_of(value.sharding)))


def _is_alike(source: Sharding, destination: Sharding) -> bool:
    """Whether both are single devices, or meshes of the same form, so that an array goes part by part."""
    if isinstance(source, NamedSharding) and isinstance(destination, NamedSharding):
        return source.mesh.shape == destination.mesh.shape
    return source.num_devices == destination.num_devices == 1


def _like(value: jax.Array, sharding: Sharding) -> Sharding:
    """The sharding with which the other process gets a value."""
    return sharding if _is_alike(value.sharding, sharding) else SingleDeviceSharding(_first_of(sharding))


def _first_of(sharding: Sharding) -> Device:
    return min(sharding.device_set, key=lambda device: device.id)


def _in_device_memory(sharding: Sharding) -> Sharding:
    default = _first_of(sharding).default_memory().kind
    return sharding if sharding.memory_kind in (None, default) else sharding.with_memory_kind(default)


def _is_key(value: Spec) -> bool:
    return _jax.dtypes.issubdtype(value.dtype, _jax.dtypes.prng_key)


def _data_spec(spec: Spec) -> Spec:
    """The spec of a random key's data; of any other array, its own."""
    if not _is_key(spec):
        return spec
    data = _jax.eval_shape(_jax.random.key_data, spec)
    return _jax.ShapeDtypeStruct(data.shape, data.dtype, sharding=spec.sharding)


_copied: Any = _jax.jit(_jax.numpy.copy)
