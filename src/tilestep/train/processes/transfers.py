"""Arrays that go from one process's devices to another's.

On CPU by `jax.experimental.transfer`: who has an array offers it, who needs it pulls it, and neither waits for the other. Elsewhere by
`jax.device_put`, which all processes call in one order. Either way all processes call `put` with the same lists, in the same order: so each
knows what comes from whom, and messages are counted rather than named.
"""

from __future__ import annotations

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
from tilestep.train.processes.rendezvous import Meeting
from tilestep.train.untyped import jax as _jax

_transfer: Any = transfer

_NUMBER_BYTES: Final = 6  # of the first message's number: who does not know it pulls nothing

_serial = itertools.count(1)  # of those that all processes have made in one order: a number that is offered twice is lost the first time


@functools.lru_cache(maxsize=4096)
def process_of(sharding: Sharding) -> int:
    """The process whose devices these are: all of them are one's."""
    return next(iter(sharding.device_set)).process_index


@functools.cache
def _server(client: Any, host: str) -> Any:
    """What offers this process's arrays. It stays: others may pull what they got from a pipeline that is gone here."""
    return _transfer.start_transfer_server(client, hosts.join(host, 0), [hosts.join(host, 0)])


@functools.cache
def _peer(server: Any, address: str) -> Any:
    """A connection to another process's server."""
    return server.connect(address)


@final
class Transfers:
    """Arrays to and from the other processes of a meeting.

    Args: devices: of all processes.
    """

    def __init__(self, meeting: Meeting, devices: Sequence[Any]) -> None:
        self._me, self._count = meeting.me, meeting.count
        self._own = next(device for device in devices[0].client.devices() if device.process_index == meeting.me)
        self._ends = [
            SingleDeviceSharding(next(device for device in devices[0].client.devices() if device.process_index == process))
            for process in range(meeting.count)
        ]
        self._sent: Counter[int] = Counter()  # messages to each process, of all times
        self._received: Counter[int] = Counter()
        self._before: tuple[Counter[int], Counter[int]] = Counter(), Counter()  # the same, when this run began
        self._done: tuple[Counter[int], Counter[int]] | None = None  # while what a broken run owes is settled: messages to pass over
        self._pulls = self._own.platform == "cpu"
        if self._pulls:
            self._first = int.from_bytes(hmac.digest(meeting.secret, b"transfers %d" % next(_serial), "sha256")[:_NUMBER_BYTES])
            self._server = _server(self._own.client, meeting.host())
            addresses = meeting.all(self._server.address())
            self._peers = {other: _peer(self._server, address) for other, address in enumerate(addresses) if other != self._me}

    # ------------------------------------------------------------------------------------------------------ what is told

    def begin(self) -> None:
        """A run begins."""
        self._before, self._done = (self._sent.copy(), self._received.copy()), None

    def counts(self) -> tuple[dict[int, int], dict[int, int]]:
        """How many messages there were to, and from, each process, of all times."""
        return dict(self._sent), dict(self._received)

    def settle(self) -> None:
        """From now on the run is gone through once more, with arrays that are errors: what was sent and received in it is passed over."""
        self._done = self._sent - self._before[0], self._received - self._before[1]

    # ---------------------------------------------------------------------------------------------------------- arrays

    def put(self, values: Sequence[Any], shardings: Sequence[Any], *, given_up: bool = False) -> list[Any]:
        """The values where they are wanted: `jax.device_put`, over all processes.

        What is no array of JAX every process has. What another process gets is an array of its devices here, of which there is nothing.

        Args: given_up: whether this process may donate or delete the values before the others have taken them.
        """
        found = list(values)
        here: list[int] = []
        going: dict[int, list[int]] = {}
        coming: dict[int, list[int]] = {}
        for place, (value, sharding) in enumerate(zip(values, shardings, strict=True)):
            taker = process_of(sharding)
            giver = process_of(value.sharding) if isinstance(value, jax.Array) else taker
            if taker != self._me:
                found[place] = remote_array(tuple(value.shape), value.dtype, sharding)
            if giver == taker:
                if taker == self._me:
                    here.append(place)
            elif giver == self._me:
                going.setdefault(taker, []).append(place)
            elif taker == self._me:
                coming.setdefault(giver, []).append(place)
        if here and self._done is None:
            for place, value in zip(here, _jax.device_put([values[i] for i in here], [shardings[i] for i in here]), strict=True):
                found[place] = value
        elif here:
            for place in here:
                found[place] = remote_array(tuple(values[place].shape), values[place].dtype, shardings[place])
        for taker in sorted(going):
            self._send(taker, [values[place] for place in going[taker]], [shardings[place] for place in going[taker]], given_up=given_up)
        for giver in sorted(coming):
            places = coming[giver]
            new = self._receive(giver, [values[place] for place in places], [shardings[place] for place in places])
            for place, value in zip(places, new, strict=True):
                found[place] = value
        return found

    def to_all(self, values: Sequence[Any]) -> list[Any]:
        """The values, each of which one process has: in every process an array of its own."""
        found = list(values)
        givers = [process_of(value.sharding) for value in values]
        mine = [place for place, giver in enumerate(givers) if giver == self._me]
        for taker in range(self._count):
            if mine and taker != self._me:
                self._send(taker, [values[place] for place in mine], [self._ends[taker]] * len(mine), given_up=True)
        for giver in sorted({giver for giver in givers if giver != self._me}):
            places = [place for place, other in enumerate(givers) if other == giver]
            new = self._receive(giver, [values[place] for place in places], [self._ends[self._me]] * len(places))
            for place, value in zip(places, new, strict=True):
                found[place] = value
        return found

    def _is_passed_over(self, which: int, process: int) -> bool:
        if self._done is None or not self._done[which][process]:
            return False
        self._done[which][process] -= 1
        return True

    def _send(self, taker: int, values: Sequence[Any], shardings: Sequence[Any], *, given_up: bool) -> None:
        if self._is_passed_over(0, taker):
            return
        number, self._sent[taker] = self._sent[taker], self._sent[taker] + 1
        there = [sharding for value, sharding in zip(values, shardings, strict=True) if math.prod(value.shape)]
        offered = [self._laid_out(*pair) for pair in zip((value for value in values if math.prod(value.shape)), there, strict=True)]
        if not offered:  # empty arrays need not go, and by pulling could not
            return
        if not self._pulls:
            _jax.device_put(offered, [_like(value, sharding) for value, sharding in zip(offered, there, strict=True)])
            return
        if given_up and self._done is None:
            offered = [_copied(value) for value in offered]
        self._server.await_pull(self._number(number, taker), offered)

    def _receive(self, giver: int, kinds: Sequence[Any], shardings: Sequence[Any]) -> list[Any]:
        """Args: kinds: the values as arrays of which there is nothing here."""
        if self._is_passed_over(1, giver):
            return [remote_array(tuple(kind.shape), kind.dtype, sharding) for kind, sharding in zip(kinds, shardings, strict=True)]
        number, self._received[giver] = self._received[giver], self._received[giver] + 1
        is_whole = [not _is_alike(kind.sharding, sharding) for kind, sharding in zip(kinds, shardings, strict=True)]
        coming = [
            _jax.ShapeDtypeStruct(
                kind.shape, kind.dtype, sharding=SingleDeviceSharding(_first_of(sharding)) if whole else _in_device_memory(sharding)
            )
            for kind, sharding, whole in zip(kinds, shardings, is_whole, strict=True)
        ]
        wanted = [place for place, kind in enumerate(kinds) if math.prod(kind.shape)]
        found: list[Any] = [None if place in wanted else _jax.numpy.zeros(kind.shape, kind.dtype) for place, kind in enumerate(kinds)]
        if wanted and self._pulls:
            data = [_data_kind(coming[place]) for place in wanted]
            pulled = self._peers[giver].pull(self._number(number, self._me), data)
            for place, value in zip(wanted, pulled, strict=True):
                found[place] = _jax.random.wrap_key_data(value, impl=_jax.random.key_impl(kinds[place])) if _is_key(kinds[place]) else value
        elif wanted:
            pulled = _jax.device_put([kinds[place] for place in wanted], [coming[place].sharding for place in wanted])
            for place, value in zip(wanted, pulled, strict=True):
                found[place] = value
        away = [place for place, (value, sharding) in enumerate(zip(found, shardings, strict=True)) if value.sharding != sharding]
        if away:
            for place, value in zip(away, _jax.device_put([found[i] for i in away], [shardings[i] for i in away]), strict=True):
                found[place] = value
        return found

    def _number(self, number: int, taker: int) -> int:
        """Of a message, among all that the giver has."""
        return self._first + number * self._count + taker

    def _laid_out(self, value: Any, sharding: Sharding) -> Any:
        """The value as it is taken: in as many parts as it will have, or as a whole."""
        if self._pulls and _is_key(value):
            value = _jax.random.key_data(value)
        if _is_alike(value.sharding, sharding):
            if isinstance(sharding, NamedSharding):
                return _jax.device_put(value, NamedSharding(value.sharding.mesh, sharding.spec))
            return value
        return _jax.device_put(value, SingleDeviceSharding(_first_of(value.sharding)))


def _is_alike(giver: Sharding, taker: Sharding) -> bool:
    """Whether both are single devices, or meshes of the same form: then an array goes part by part."""
    if isinstance(giver, NamedSharding) and isinstance(taker, NamedSharding):
        return giver.mesh.shape == taker.mesh.shape
    return giver.num_devices == taker.num_devices == 1


def _like(value: Any, sharding: Sharding) -> Sharding:
    """Where the other process gets a value."""
    return sharding if _is_alike(value.sharding, sharding) else SingleDeviceSharding(_first_of(sharding))


def _first_of(sharding: Sharding) -> Any:
    return min(sharding.device_set, key=lambda device: device.id)


def _in_device_memory(sharding: Any) -> Any:
    default = _first_of(sharding).default_memory().kind
    return sharding if sharding.memory_kind in (None, default) else sharding.with_memory_kind(default)


def _is_key(value: Any) -> bool:
    return _jax.dtypes.issubdtype(value.dtype, _jax.dtypes.prng_key)


def _data_kind(kind: Any) -> Any:
    """Of what a random key is made of."""
    if not _is_key(kind):
        return kind
    data = _jax.eval_shape(_jax.random.key_data, kind)
    return _jax.ShapeDtypeStruct(data.shape, data.dtype, sharding=kind.sharding)


_copied: Any = _jax.jit(_jax.numpy.copy)
