"""A program of several processes with a divided optimiser's state, which `test_processes` runs: `processes_state.py PROCESS COUNT PORT`."""

import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from tilestep.train import (
    InfeedQueue,
    Replicas,
    cross_replica,
    gradient_accumulation,
    repeat,
    require_equal_replicas,
    start_processes,
    unsharded,
)

PARAMS = {"w": np.linspace(-1, 1, 91 * 100, dtype=np.float32).reshape(91, 100), "b": np.zeros(100, np.float32)}
DATA = [np.random.default_rng(k).normal(size=(4, 91)).astype(np.float32) for k in range(64)]


def loss(params: Any, x: Any) -> Any:
    return jnp.mean((jnp.tanh(x @ params["w"] + params["b"]) - 1) ** 2)


def trained(replicas: Replicas, **options: Any) -> Any:
    """(parameters, state) after two loops of four microbatches for each replica, two of them an update."""
    optimizer = gradient_accumulation(cross_replica(optax.chain(optax.clip_by_global_norm(0.5), optax.adam(0.1))), 2, **options)

    def body(carry: Any, x: Any) -> Any:
        params, state = carry
        updates, state = optimizer.update(jax.grad(loss)(params, x), state, params)
        return optax.apply_updates(params, updates), state

    carry = PARAMS, optimizer.init(jax.tree.map(jnp.asarray, PARAMS))
    infeed = InfeedQueue(replicas.share(DATA), replicas=replicas)
    for _ in range(2):
        carry = repeat(4, body, carry, infeed, replicas=replicas)
    require_equal_replicas(carry[0], replicas)
    return carry


def moment(carry: Any) -> Any:
    """Adam's first moment of w, a Shard."""
    return optax.tree_utils.tree_get(carry[1].inner, "mu")["w"]


def main() -> None:
    process, count, port = sys.argv[1:]
    jax.config.update("jax_num_cpu_devices", 2)
    start_processes(coordinator_address=f"localhost:{port}", num_processes=int(count), process_id=int(process))
    replicas = Replicas()
    expected = trained(replicas)
    for offload in (None, True):
        params, state = found = trained(replicas, shard_optimizer_state=True, offload_optimizer_state=offload)
        parts = moment(found).values
        shapes = [shard.data.shape for shard in parts.addressable_shards]
        whole = params, unsharded(state)
        pairs = zip(*map(jax.tree.leaves, (whole, expected)), strict=True)
        close = [np.allclose(one, other, rtol=1e-5, atol=1e-5) for one, other in pairs]  # Adam divides what nearly cancels; a change is 0.1
        print(parts.sharding.memory_kind, shapes, all(close))
        fewer = Replicas(devices=[next(d for d in jax.devices() if d.process_index == number) for number in range(int(count))])
        divided = moment(fewer.place(found)).values
        print(divided.sharding.memory_kind, [shard.data.shape for shard in divided.addressable_shards])


main()
