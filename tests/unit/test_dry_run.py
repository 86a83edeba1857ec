"""Programs without values: same emulated time and memory as with them, on any size of model."""

import pytest

import tilestep
from tests.in_turn import python

IPU = 'import jax, numpy as np, tilestep\nimport jax.numpy as jnp\njax.config.update("jax_default_device", jax.devices("ipu")[0])\n'


def lines(code: str) -> list[str]:
    """What a program prints."""
    return python(IPU + code).stdout.splitlines()


@pytest.mark.process
def test_time_and_memory_are_those_of_the_run_with_values() -> None:
    assert lines("""
import contextlib
def train():
    step = jax.jit(lambda w, x: (w - 0.1 * jax.grad(lambda w: (jnp.tanh(x @ w) ** 2).mean())(w), w.sum()), donate_argnums=0)
    w = jax.random.normal(jax.random.key(0), (256, 64))
    for _ in range(3): w, s = step(w, np.ones((32, 256), np.float32))
    return w.block_until_ready()
profiles = []
for mode in (contextlib.nullcontext(), tilestep.dry_run()):
    with tilestep.profile() as p, mode: w = train()
    profiles.append(p)
wet, dry = profiles
peaks = [[program.peak_tile_bytes for program in p.programs] for p in profiles]
print(w.shape, w.dtype, wet.emulated_cycles == dry.emulated_cycles, peaks[0] == peaks[1])
print(*(any(program.dry for program in p.programs) for p in profiles))
""") == ["(256, 64) float32 True True", "False True"]


@pytest.mark.process
def test_a_model_of_terabytes_needs_no_memory_and_is_told_not_to_fit() -> None:
    assert lines("""
with tilestep.profile() as p, tilestep.dry_run():
    w = jnp.ones((1_000_000, 500_000))
    (w + 1).block_until_ready()
print(w.nbytes, "does not fit" in p.summary())
""") == ["2000000000000 True"]


@pytest.mark.process
def test_what_needs_a_value_is_an_error_that_says_so() -> None:
    begin, end = "real = jnp.ones(3)\nwith tilestep.dry_run():\n  try: ", "\n  except jax.errors.JaxRuntimeError as e: print(e)"
    for code, says in (
        ("np.asarray(jnp.ones(3))", "computes no values, but the program reads one: float32[3]"),
        ("float(jnp.ones(()))", "reads one: float32[]"),
        ("real + jnp.ones(3)", "made before dry_run() began"),
        ("jax.lax.while_loop(lambda v: v < 3, lambda v: v + 1, jnp.ones(()))", "<string>"),
    ):
        assert says in " ".join(lines(begin + code + end))


@pytest.mark.process
def test_values_of_a_dry_run_are_refused_outside() -> None:
    out = lines("with tilestep.dry_run(): x = jnp.ones(3)\ntry: x + 1\nexcept jax.errors.JaxRuntimeError as e: print(e)")
    assert "argument 'x' comes from a dry run" in out[0]


@pytest.mark.process
def test_zeros_and_a_trip_count_can_be_asked_for() -> None:
    assert lines("""
loop = jax.jit(lambda x: jax.lax.while_loop(lambda v: v < 3, lambda v: v + 1, x))
cycles = []
for n in (1, 2, 11):
    with tilestep.profile() as p, tilestep.dry_run("zeros", trip_count=n): print(loop(np.float32(1)), end=" ")
    cycles.append(p.programs[0].cycles.compute)
print(cycles[2] - cycles[1] == 9 * (cycles[1] - cycles[0]) > 0, any("trip_count" in a for a in p.assumptions))
""") == ["0.0 0.0 0.0 True True"]


@pytest.mark.process
def test_a_run_that_ends_behind_the_last_cycle_is_refused_and_what_ran_before_is_kept() -> None:
    out = lines("""
def loop(f, trips): return lambda x: jax.lax.fori_loop(0, trips, lambda i, x: f(x), x)
with tilestep.profile() as p, tilestep.dry_run("zeros"):
    jax.jit(lambda x: x * 2)(np.ones(4, np.float32))
    try: jax.jit(loop(loop(jnp.sin, 2**31 - 1), 2**31 - 1))(np.ones(4, np.float32))
    except Exception as error: print(error)
    years = jax.jit(loop(loop(jnp.sin, 2**29), 2**20))
    ran = 0
    try:
        for _ in range(100): years(np.ones(4, np.float32)); ran += 1
    except Exception as error: print("years, together" in str(error))
print(ran, [program.runs for program in p.programs], p.emulated_cycles < 2**62)
""")
    assert "takes" in out[0]
    assert "years, together. Let its loops make fewer trips" in out[0]
    assert out[1] == "True"
    ran = int(out[2].split()[0])
    assert 0 < ran < 100
    assert out[2] == f"{ran} [1, {ran}] True"


@pytest.mark.process
def test_a_function_that_was_compiled_dry_computes_values_afterwards() -> None:
    assert lines("""
f = jax.jit(lambda x: x * 2 + 1)
with tilestep.dry_run(): f(np.ones(3, np.float32))
print(f(np.ones(3, np.float32)))
""") == ["[3. 3. 3.]"]


@pytest.mark.process
def test_programs_start_as_fast_as_before_when_all_is_over() -> None:
    """A program that has run starts without a line of Python, but not while there may be values of a dry run."""
    assert lines("""
import sys
step, x = jax.jit(lambda x: x + 1), jax.device_put(np.zeros(3, np.float32))

def calls():
    entered = 0
    def see(frame, event, argument):
        nonlocal entered
        entered += event == "call"
    sys.setprofile(see)
    for _ in range(20): step(x)
    sys.setprofile(None)
    return entered

calls()
before = calls()
with tilestep.dry_run(): dry = step(np.zeros(3, np.float32))
print(calls() > before + 19)
del dry
print(calls() <= before + 3, before < 10)
""") == ["True", "True True"]


@pytest.mark.process
def test_sharded_programs_run_dry_and_keep_their_shardings() -> None:
    out = lines("""
mesh = jax.sharding.Mesh(np.array(jax.devices("ipu")), ("x",))
rows = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("x"))
f = jax.jit(lambda a: (a @ a.T, a.sum()))
shardings = []
import contextlib
for mode in (tilestep.dry_run(), contextlib.nullcontext()):
    jax.clear_caches()
    with mode: shardings.append([b.sharding for b in f(jax.device_put(np.ones((8, 8), np.float32), rows))])
print(shardings[0] == shardings[1], shardings[0][0].spec)
""")
    assert out[0].startswith("True ")


def test_bad_arguments_are_refused_before_anything_runs() -> None:
    counts = [({"trip_count": count}, "0 or more") for count in (-1, 2.5, "3", True)]
    for arguments, says in [({"values": "ones"}, "'error' or 'zeros'"), *counts]:
        with pytest.raises(ValueError, match=says), tilestep.dry_run(**arguments):  # type: ignore[arg-type]  # bad on purpose
            raise AssertionError("it ran")
