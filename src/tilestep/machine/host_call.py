"""What a call of PopART, PopTorch or PopRT adds to the time of its program.

A transfer of the emulator is one each way of all arguments and all results, over the link. These front ends do more, of which an emulated
call of `jax.jit` has nothing:

- each array is a stream of its own, for which the IPU waits once more (`groupHostSync`, which is off unless a program asks for it);
- the host copies each array into or out of a stream's buffer;
- of an IPU-Machine, bytes lie in the gateway's memory between the host and the IPUs: a network leads there, and the link goes on from it.

While a call's earlier batches are computed the host copies the next ones as far as the gateway (`enablePrefetchDatastreams`, which is on).
So only the first batch of a call waits for the last two.
"""

from typing import Final

from tilestep.machine.sources import HOST_CALL
from tilestep.machine.spec import MachineSpec

UPDATE_SECONDS: Final = float(HOST_CALL["update_seconds"].value)
"""Of a training loop's host between two calls, in which nothing runs."""

_COPIED: Final = float(HOST_CALL["copy_bytes_per_second"].value)
_TO_GATEWAY: Final = float(HOST_CALL["gateway_bytes_per_second"].value)


def waited_seconds(machine: MachineSpec, *, streams: int, to_ipus: int, to_host: int, prefetched: bool = False) -> float:
    """Seconds that one batch of a call waits beside the transfers of its program.

    Args:
        machine: whose IPUs wait.
        streams: arrays to and from the host.
        to_ipus: bytes of the arguments.
        to_host: bytes of the results.
        prefetched: whether the batch was copied while an earlier one of the same call was computed.

    Raises:
        ValueError: for a negative number.
    """
    if min(streams, to_ipus, to_host) < 0:
        raise ValueError(f"{streams} streams of {to_ipus} B to the IPUs and {to_host} B to the host: each must be 0 or more")
    host = machine.host
    waits = max(0, streams - bool(to_ipus) - bool(to_host)) * host.link_latency_seconds
    if prefetched:
        return waits
    copied = (to_ipus + to_host) / _COPIED
    if not host.streaming_memory_bytes:  # a card: its link leads to the host's memory
        return waits + copied
    return waits + copied + to_ipus / _TO_GATEWAY + to_host / host.to_ipus_bytes_per_second
