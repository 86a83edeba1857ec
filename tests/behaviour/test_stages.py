"""Stages of a pipeline as a runtime would dispatch them: programs of one group, whose arrays `device_put` passes on."""

from tests.in_turn import python

PIPELINE = """
import contextlib
import jax, numpy as np, jax.numpy as jnp, tilestep
from tilestep.hints import program_group
first, second = jax.devices("ipu")[:2]
def layer(w, x): return jnp.tanh(x @ w)
def backward(w, x, g):
    y, pull = jax.vjp(layer, w, x)
    return pull(g)
forward = jax.jit(layer)
last = jax.jit(lambda w, x: (lambda loss, grads: (loss, *grads))(*jax.value_and_grad(lambda w, x: layer(w, x).sum(), (0, 1))(w, x)))
backward = jax.jit(backward)
weights = [jax.device_put(np.full((64, 64), 0.01, np.float32), device) for device in (first, second)]
x = jax.device_put(np.ones((32, 64), np.float32), first)
def step(grouped=True):
    with program_group("pipeline") if grouped else contextlib.nullcontext():
        hidden = forward(weights[0], x)
        loss, g1, back = last(weights[1], jax.device_put(hidden, second))
        g0, _ = backward(weights[0], x, jax.device_put(back, first))
    return float(loss), float(g0.sum()), float(g1.sum())
"""


def out(code: str) -> list[str]:
    return python(PIPELINE + code).stdout.splitlines()


def test_activations_go_over_ipu_links_in_a_group_and_by_way_of_the_host_outside() -> None:
    lines = out("""
results = []
for grouped in (False, True):
    step(grouped)
    with tilestep.profile() as p: results.append(step(grouped))
    bytes_by_name = {program.name: (program.host_bytes_in, program.host_bytes_out) for program in p.programs if program.runs}
    print(bytes_by_name["jit_layer"][1], sum(event.kind == "collective" for event in p.timeline))
print(results[0] == results[1])
""")
    # 32 x 64 floats; in the group two exchanges, forward and back, of two IPUs each
    assert lines == ["8192 0", "0 4", "True"]


def test_a_dry_run_of_it_takes_the_same_time() -> None:
    lines = out("""
cycles = []
for mode in (contextlib.nullcontext(), tilestep.dry_run("zeros")):
    with mode:
        weights = [jax.device_put(np.full((64, 64), 0.01, np.float32), device) for device in (first, second)]
        x = jax.device_put(np.ones((32, 64), np.float32), first)
        step()
        with tilestep.profile() as p: step()
    cycles.append((p.emulated_cycles, [(e.ipu, e.kind) for e in p.timeline if e.kind == "collective"]))
print(cycles[0] == cycles[1], cycles[0][1])
""")
    assert lines == ["True [(0, 'collective'), (1, 'collective'), (1, 'collective'), (0, 'collective')]"]
