"""A program of several processes: `processes_waiting.py PROCESS COUNT ADDRESS TIMEOUT_S HOW`.

HOW: "meet" again and again, until one of them has been told to end; or "sleep", for ever.
"""

import faulthandler
import select
import sys
import time

import jax
import numpy as np
from jax.experimental import multihost_utils

from tilestep.train import start_processes
from tilestep.train.processes.rendezvous import rendezvous_of
from tilestep.train.processes.transfers import Transfers

LIMIT_WALL_S = 120
PAUSE_WALL_S = 0.05


def main() -> None:
    faulthandler.dump_traceback_later(LIMIT_WALL_S, exit=True)  # none may hang
    process, count, address, timeout_s, how = sys.argv[1:]
    start_processes(
        coordinator_address=address,
        num_processes=int(count),
        process_id=int(process),
        timeout_s=float(timeout_s),
        initialization_timeout_s=LIMIT_WALL_S,
    )
    if how == "sleep":
        print("ready", flush=True)
        time.sleep(LIMIT_WALL_S)
    rendezvous = rendezvous_of(jax.process_index(), jax.process_count())
    Transfers(rendezvous, jax.devices())
    print("ready", flush=True)
    while not any(rendezvous.all_gather(bool(select.select([sys.stdin], [], [], PAUSE_WALL_S)[0]))):
        pass
    total = multihost_utils.process_allgather(np.float32(process)).sum()
    print("end", float(total), flush=True)


main()
