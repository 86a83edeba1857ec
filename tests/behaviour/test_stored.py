"""Compiled programs outlive their process: serialised, in JAX's compilation cache, compiled for a machine that isn't there."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import serialize_executable, topologies
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from tests.processes import python
from tilestep.errors import StoredError
from tilestep.pjrt.programs.serialized import unpack

X = np.linspace(0, 1, 64, dtype=np.float32).reshape(8, 8)


def compiled(fn: Any, devices: list[jax.Device]) -> Any:
    mesh = jax.sharding.Mesh(np.array(devices), ("x",))
    split = NamedSharding(mesh, P("x"))
    return jax.jit(fn, in_shardings=split, out_shardings=split).lower(jax.ShapeDtypeStruct(X.shape, X.dtype)).compile()


def test_a_program_that_calls_python_is_not_serialised(ipus: list[jax.Device]) -> None:
    made = compiled(lambda x: jax.pure_callback(np.sin, jax.ShapeDtypeStruct(x.shape, x.dtype), x), ipus[:1])
    with pytest.raises(jax.errors.JaxRuntimeError, match="calls Python functions of this process"):
        serialize_executable.serialize(made)


def raw(made: Any) -> bytes:
    """What the platform itself wrote: jaxlib puts a head of its own before it."""
    data: bytes = made.runtime_executable().serialize()
    return data[data.index(b"tilestep executable") :]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: b"", "no stored program of platform ipu begins with b''"),
        (lambda data: b"x" + data, "no stored program of platform ipu"),
        (lambda data: data[:-1], "damaged"),
        (lambda data: data[:-1] + bytes([data[-1] ^ 1]), "damaged"),
        (lambda data: data[:30], "damaged"),
    ],
)
def test_a_damaged_program_is_refused(ipu: jax.Device, change: Any, message: str) -> None:
    with jax.default_device(ipu):
        data = raw(jax.jit(lambda x: x + 1).lower(X).compile())
    assert unpack(data).name == "jit__lambda"
    with pytest.raises(StoredError, match=message):
        unpack(change(data))


CACHED = """
    import os
    import jax, numpy as np
    import tilestep, tilestep.plan.cache as cache, tilestep.pjrt.programs.executable as executable

    hits = []
    jax.monitoring.register_event_listener(lambda name, **_: hits.append(name) if name.endswith(("cache_hits", "cache_misses")) else None)
    jax.config.update("jax_compilation_cache_dir", DIRECTORY)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    jax.config.update("jax_raise_persistent_cache_errors", True)
    x = np.linspace(0, 1, 64, dtype=np.float32).reshape(8, 8)

    def run(**settings):
        hits.clear()
        os.environ.update(settings)
        jax.extend.backend.clear_backends()
        with tilestep.profile() as profile:
            y = jax.jit(lambda x: jax.lax.while_loop(lambda v: v.sum() > 1, lambda v: v / 2, x @ x))(x)
        print(float(y.sum()), profile.emulated_s, [name.rsplit("/")[-1] for name in hits])
        for name in settings:
            del os.environ[name]
"""
FIRST = """
    import jax.extend.backend
    run()
    run(TILESTEP_MACHINE="c600")
    run(JAX_IPU_AVAILABLE_MEMORY_PROPORTION="0.5")
    jax.extend.backend.clear_backends()
    jax.config.update("jax_explain_cache_misses", True)
    def shown(x):
        jax.debug.print("x is {}", x)
        return x + 1
    print(jax.jit(shown)(1.0))
    jax.effects_barrier()
"""
SECOND = """
    def forbidden(*args, **options):
        raise AssertionError("compiled, analysed or planned again")
    cache.lower = executable.partitioned_hlo = executable.compat.compile_module = forbidden
    import jax.extend.backend
    run()
"""


@pytest.mark.slow
def test_a_second_process_skips_compile_and_analysis_and_programs_that_call_python_are_left_out(tmp_path: Path) -> None:
    begin = CACHED.replace("DIRECTORY", repr(str(tmp_path)))
    made, found = (python(begin + rest, JAX_PLATFORMS="ipu,cpu") for rest in (FIRST, SECOND))
    first, other_machine, other_options, *shown = made.stdout.splitlines()
    value, emulated_s, hits = found.stdout.split(maxsplit=2)
    assert [value, emulated_s] == first.split(maxsplit=2)[:2]
    assert "cache_misses" in first
    assert "cache_misses" not in hits
    assert "cache_hits" in hits
    assert "cache_hits" not in other_machine + other_options
    assert sorted(shown) == ["2.0", "x is 1.0"]
    assert "Not writing persistent cache entry for 'jit_shown' because it uses host callbacks" in made.stderr


@pytest.mark.parametrize(
    ("name", "options", "ipus"), [("bow-pod16", {}, 16), ("", {"num_ipus": 8}, 8), ("c600", {"num_tiles": 100}, 1), ("bow-2000", {}, 4)]
)
def test_a_machine_that_is_not_there_compiles(name: str, options: dict[str, Any], ipus: int) -> None:
    topology = topologies.get_topology_desc(name, platform="ipu", **options)
    assert len(topology.devices) == ipus
    mesh = jax.sharding.Mesh(np.array(topology.devices), ("x",))
    argument = jax.ShapeDtypeStruct((64, 8), np.float32, sharding=NamedSharding(mesh, P("x")))
    made = jax.jit(lambda x: jnp.tanh(x).sum()).lower(argument).compile()
    assert made.cost_analysis()["ipu cycles"] > 0
    assert made.memory_analysis().argument_size_in_bytes == 64 * 8 * 4 // ipus
    assert f"f32[{64 // ipus},8]" in made.as_text()


def test_a_program_compiled_ahead_runs_on_its_machine_only(ipus: list[jax.Device]) -> None:
    def ahead(name: str) -> Any:
        topology = topologies.get_topology_desc(name, platform="ipu")
        place = jax.sharding.SingleDeviceSharding(topology.devices[0])
        return serialize_executable.serialize(
            jax.jit(lambda x: x * 2).lower(jax.ShapeDtypeStruct((8, 8), np.float32, sharding=place)).compile()
        )

    program = serialize_executable.deserialize_and_load(*ahead("bow-2000"), backend="ipu", execution_devices=ipus[:1])
    np.testing.assert_array_equal(program(X), X * 2)
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"planned for machine c600 .*; here it is bow-2000"):
        serialize_executable.deserialize_and_load(*ahead("c600"), backend="ipu", execution_devices=ipus[:1])
