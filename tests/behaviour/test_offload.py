"""An optimiser's state in streaming memory between updates: bytes of a tile that fall, cycles that the way takes, values that stay."""

import pytest

from tests import in_turn

STEP = """
import jax, jax.numpy as jnp, numpy as np, optax, tilestep
from tilestep.train import *
ipu = jax.devices("ipu")[0]
def loss(layers, x):
    for w in layers: x = jnp.tanh(x @ w)
    return jnp.mean(x ** 2)
def body_of(optimizer):
    def body(carry):
        layers, state, x = carry
        updates, state = optimizer.update(jax.grad(loss)(on_device(layers), x), state, layers)
        return apply_updates(layers, updates), state, x
    return body
def trained(optimizer, layers, x, steps=8):
    layers = [jax.device_put(w, ipu) for w in layers]
    carry = repeat(steps, body_of(optimizer), (layers, optimizer.init(layers), jax.device_put(x, ipu)))
    with tilestep.profile() as p: carry = repeat(steps, body_of(optimizer), carry)
    [program] = [program for program in p.programs if program.cycles.compute]
    return carry, program, sum(event.end_cycle - event.start_cycle for event in p.timeline if event.kind == "host-call")
"""


def python(code: str, **settings: str) -> str:
    return in_turn.python(STEP + code, **settings).stdout


def test_the_state_leaves_the_tiles_and_streams_at_the_updates_only() -> None:
    """12 layers of 1024 x 1024 with Adam: each moment is 4 MiB, on 1,472 tiles 2,856 bytes (712.3 elements, rounded up to 8 bytes)."""
    out = python(
        """
with tilestep.dry_run():
    found = {}
    for offload in False, None:
        optimizer = gradient_accumulation(optax.adam(1e-3), 4, offload_optimizer_state=offload)
        _, found[offload], calls = trained(optimizer, [np.zeros((1024, 1024), np.float32)] * 12, np.zeros((16, 1024), np.float32))
        print(calls, found[offload].streaming_memory_bytes)
kept, away = found[False], found[None]
print(dict(kept.tile_bytes_by_kind)["resident values"] - dict(away.tile_bytes_by_kind)["resident values"])
print(kept.peak_tile_bytes, away.peak_tile_bytes)
"""
    ).splitlines()
    moments = 2 * 12
    assert out[0] == "0 0"
    # 2 updates in 8 steps; there and back; 4 MiB at 6 GB/s in cycles of 1.85 GHz, and 10 us each time
    assert out[1] == f"{2 * moments * 2 * (1_293_244 + 18_500)} {moments * 4 * 2**20}"
    assert out[2] == str(moments * 2856 - 512)  # another tile is the fullest without them, with 512 bytes more of weights
    kept, away = map(int, out[3].split())
    products = moments * 2856  # moments times their decay, which the update without offload makes before the gradients are there
    assert away <= 0.75 * (kept - products)


def test_values_are_the_same_bit_for_bit_and_only_what_was_chosen_moves() -> None:
    out = python(
        """
layers, x = [np.eye(128, dtype=np.float32) / k for k in (1, 2, 3)], np.linspace(-1, 1, 16 * 128, dtype=np.float32).reshape(16, 128)
values = []
for offload in False, True, {"optimizer_state": True, "accumulators": True}, lambda path, leaf: path.endswith("mu/1"):
    carry, program, calls = trained(gradient_accumulation(optax.adam(1e-3), 4, offload_optimizer_state=offload), layers, x)
    values.append(jax.tree.leaves(carry))
    print(calls, carry[1].inner[0].mu[1].sharding.memory_kind)
print(all(np.array_equal(one, other) for others in values[1:] for one, other in zip(values[0], others, strict=True)))
"""
    )
    way = 20_207 + 18_500  # 65,536 bytes
    updates, steps, moments, accumulators = 2, 8, 6, 3
    all_moments = updates * moments * 2 * way
    accumulated = steps * accumulators * 2 * way
    assert out.splitlines() == [
        "0 device",
        f"{all_moments} pinned_host",
        f"{all_moments + accumulated} pinned_host",
        f"{updates * 2 * way} pinned_host",
        "True",
    ]


@pytest.mark.slow
def test_each_replica_keeps_and_streams_its_part() -> None:
    """Four replicas: of each moment of 65,536 bytes a quarter. The update's parts are gathered over the links."""
    out = python(
        """
replicas = Replicas(devices=jax.devices("ipu")[:4])
layers = [jax.device_put(np.eye(128, dtype=np.float32) / k, ipu) for k in (1, 2, 3)]
x = np.linspace(-1, 1, 16 * 128, dtype=np.float32).reshape(16, 128)
def trained_by_four(**options):
    optimizer = gradient_accumulation(cross_replica(optax.adam(1e-3)), 4, **options)
    carry = repeat(8, body_of(optimizer), (layers, optimizer.init(layers), x), replicas=replicas, donate=False)
    with tilestep.profile() as p: carry = repeat(8, body_of(optimizer), carry, replicas=replicas)
    [program] = [program for program in p.programs if program.cycles.compute]
    return carry, program
whole, plain = trained_by_four(offload_optimizer_state=False)
parts, program = trained_by_four(shard_optimizer_state=True)
moment = parts[1].inner[0].mu[0].values
print([shard.data.shape for shard in moment.addressable_shards], moment.sharding.memory_kind)
print(program.streaming_memory_bytes, plain.streaming_memory_bytes)
close = [np.allclose(one, other, rtol=1e-5, atol=1e-7) for one, other in zip(*map(jax.tree.leaves, (whole, unsharded(parts))), strict=True)]
print(all(close), replica_differences(parts[0], replicas))
""",
        TILESTEP_MACHINE="bow-2000",
    )
    # all of bow-2000's IPUs share its streaming memory: six moments once in all, not once each
    assert out == f"[(4096,), (4096,), (4096,), (4096,)] pinned_host\n{6 * 65_536} 0\nTrue ()\n"
