"""A program of several processes, each with an emulated machine of its own: `processes_with_ipus.py PROCESS COUNT ADDRESS`."""

import sys
import time

import jax
import jax.numpy as jnp

LONGER_THAN_A_HEARTBEAT_S = 3.0  # with which JAX tells platforms who lives


def main() -> None:
    process, count, address = sys.argv[1:]
    jax.distributed.initialize(address, int(count), int(process), heartbeat_timeout_seconds=2)
    ipu = jax.devices("ipu")[0]
    total = jax.jit(jnp.sum)(jax.device_put(jnp.arange(4.0), ipu))
    time.sleep(LONGER_THAN_A_HEARTBEAT_S)
    print(ipu.platform, jax.process_count(), float(total), flush=True)


main()
