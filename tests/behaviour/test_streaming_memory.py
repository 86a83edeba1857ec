"""State that a training step keeps in pinned_host: what it costs, and what happens where it is too much."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.behaviour import process

STEP = """
import jax, numpy as np, jax.numpy as jnp, tilestep
from jax.sharding import SingleDeviceSharding
device = jax.devices("ipu")[0]
away, near = (SingleDeviceSharding(device, memory_kind=kind) for kind in ("pinned_host", "device"))
def step(m, w):
    moved = 0.5 * jax.device_put(m, near) + w
    return jax.device_put(moved, away), w - moved
def loop(m, w):
    return jax.lax.fori_loop(0, 5, lambda _, state: step(*state), (m, w))
def state():
    ones = np.ones((256, 256), np.float32)
    return jax.device_put(ones, away), jax.device_put(ones, near)
"""


def python(code: str, **settings: str) -> str:
    return process.python(code, **settings).stdout


@pytest.mark.parametrize(("function", "turns"), [("step", 1), ("loop", 5)])
def test_offloaded_state_is_read_and_written_at_the_streaming_memorys_rate(function: str, turns: int) -> None:
    out = python(
        STEP
        + f"""
f = jax.jit({function}, donate_argnums=(0, 1), out_shardings=(away, near))
m, w = f(*state())
print(m.sharding.memory_kind, w.sharding.memory_kind)
with tilestep.profile() as p: f(m, w)
print(sum(event.end_cycle - event.start_cycle for event in p.timeline if event.kind == "host-call"))
[program] = p.programs
print(program.host_bytes_in, program.host_bytes_out)
"""
    )
    # 262,144 bytes each way at 38.4 GB/s and 10 us for each of the two, in cycles of 1.85 GHz
    assert out.splitlines() == ["pinned_host device", str(turns * 2 * (12_630 + 18_500)), "0 0"]


def test_more_than_the_machine_has_is_refused_when_compiled(tmp_path: Path) -> None:
    machine = tmp_path / "small.toml"
    machine.write_text('inherits = "bow-2000"\n[host]\nstreaming_memory_bytes = 262143\n')
    code = STEP + "f = jax.jit(step, donate_argnums=(0, 1), out_shardings=(away, near))\n"
    refused = python(
        code + "try: f.lower(*state()).compile()\nexcept jax.errors.JaxRuntimeError as error: print(error)", TILESTEP_MACHINE=str(machine)
    )
    assert refused.startswith(
        "RESOURCE_EXHAUSTED: StreamingMemoryError: IPU-Machine 0, in which 1 IPU keeps 262,144 B in pinned_host, has 262,143 B of "
        "streaming memory (1 B over)\n  largest: m 262,144 B\n  try: "
    )
    report = "with tilestep.profile() as p: f(*state())\nprint('streaming memory' in p.summary())"
    options = '{"debug.allowOutOfMemory": "true"}'
    assert python(code + report, TILESTEP_MACHINE=str(machine), POPLAR_ENGINE_OPTIONS=options) == "True\n"
    dry = "with tilestep.profile() as p, tilestep.dry_run(): f(*state())\nprint('streaming memory' in p.summary())"
    assert python(code + dry, TILESTEP_MACHINE=str(machine)) == "True\n"
