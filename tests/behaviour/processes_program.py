"""A program of several processes, which `test_processes` runs: `processes_program.py PROCESS COUNT PORT TIMEOUT_S VICTIM HOW`."""

import sys
import time
from typing import Any

import jax
import numpy as np

from tests.behaviour.several import end
from tilestep.errors import ReplicasDifferError
from tilestep.train import (
    InfeedQueue,
    OutfeedQueue,
    Replicas,
    cross_replica_mean,
    repeat,
    replica_differences,
    replica_index,
    start_processes,
    while_loop,
)

MOST_LOOPS = 2000


def main() -> None:
    process, count, port, timeout_s, victim, how = sys.argv[1:]
    jax.config.update("jax_num_cpu_devices", 2)
    start_processes(coordinator_address=f"localhost:{port}", num_processes=int(count), process_id=int(process), timeout_s=float(timeout_s))
    replicas = Replicas()
    outfeed = OutfeedQueue()

    def body(carry: Any, x: Any) -> Any:
        outfeed.enqueue(x)
        return {"w": carry["w"] / 2 + cross_replica_mean(x), "steps": carry["steps"] + 1, "key": carry["key"]}

    infeed = InfeedQueue(replicas.share(map(np.float32, range(100))), replicas=replicas)
    carry = repeat(3, body, {"w": 0.0, "steps": 0, "key": jax.random.key(7)}, infeed, outfeed, chunk=2, replicas=replicas)
    carry = while_loop(lambda carry: carry["steps"] < 5, body, carry, infeed, outfeed, chunk=2, replicas=replicas)
    drifted = repeat(2, lambda w: w + replica_index(), np.int32(0), replicas=replicas)
    (difference,) = replica_differences(drifted, replicas)
    print("values", outfeed.dequeue().tolist(), float(carry["w"]), infeed.consumed, replicas.local, difference.replica, difference.largest)
    try:
        repeat(1, lambda c: c, {"w": np.float32(process)}, replicas=replicas)
    except ReplicasDifferError as error:
        print("differ", *(line.strip() for line in str(error).splitlines()[1:]), flush=True)
    with jax.default_device(next(device for device in jax.devices() if device.process_index != jax.process_index())):
        other = jax.numpy.zeros(2)
    try:
        repeat(1, lambda c: c, {"w": other})
    except ValueError as error:
        print("elsewhere", error, flush=True)
    for loop in range(MOST_LOOPS if how != "nothing" else 3):
        if loop == 3 and process == victim:
            end(how, RuntimeError("no more\ndata"))
        carry = repeat(3, lambda c: cross_replica_mean(c + 1), 0.0, replicas=replicas)
        time.sleep(0.01)
    print("end", float(carry), flush=True)


main()
