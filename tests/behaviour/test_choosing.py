"""How `ipu` is chosen; that who does not choose it never notices it."""

import pytest

from tests import processes
from tests.in_turn import attempt, python

CPU_PROGRAM = """
    import jax, jax.numpy as jnp
    assert jax.default_backend() == "cpu"
    assert {d.platform for d in jax.devices()} == {"cpu"}
    assert {d.platform for d in jax.jit(lambda x: x + 1)(jnp.ones(3)).devices()} == {"cpu"}
    print(jnp.arange(3).sum())
"""
BAD_SETTINGS = {
    "JAX_IPU_MODEL_NUM_TILES": "many",
    "JAX_IPU_DEVICE_COUNT": "-7",
    "JAX_IPU_USE_MODEL": "perhaps",
    "JAX_IPU_NO_SUCH_THING": "1",
    "TILESTEP_MACHINE": "no-such-machine",
    "POPLAR_ENGINE_OPTIONS": "{not json",
}


def test_cpu_stays_the_default_and_ipu_is_there() -> None:
    python("""
        import jax
        assert jax.default_backend() == "cpu"
        assert len(jax.devices("ipu")) == 4
        assert jax.default_backend() == "cpu"
    """)


@pytest.mark.slow
def test_a_cpu_program_never_notices_the_platform() -> None:
    """Not even bad settings of it, and one that imports tilestep starts no device by that."""
    begin = """
    import tilestep, jax
    assert not jax._src.xla_bridge.backends_are_initialized()
    assert jax.config.jax_ipu_use_model is True
"""
    for told in (processes.python(begin + CPU_PROGRAM, **BAD_SETTINGS), python(CPU_PROGRAM)):
        assert (told.stdout, told.stderr) == ("3\n", "")


def test_both_platforms_live_in_one_process() -> None:
    python("""
        import warnings; warnings.filterwarnings("ignore", "backend and device argument")
        import jax, jax.numpy as jnp
        platform = lambda x: next(iter(x.devices())).platform
        f = lambda x: x * 2
        assert platform(jax.jit(f)(jnp.ones(3))) == "cpu"
        assert platform(jax.jit(f, backend="ipu")(jnp.ones(3))) == "ipu"
        assert platform(jax.jit(f)(jax.device_put(jnp.ones(3), jax.devices("ipu")[2]))) == "ipu"
        with jax.default_device(jax.devices("ipu")[1]):
            assert jnp.ones(3).devices() == {jax.devices("ipu")[1]}
    """)


@pytest.mark.parametrize("name", ["cpu", "ipu"])
@pytest.mark.parametrize("how", ["variable", "option"])
def test_platform_name_sets_the_default_only(name: str, how: str) -> None:
    settings = {"JAX_PLATFORM_NAME": name} if how == "variable" else {}
    option = f"jax.config.update('jax_platform_name', '{name}')" if how == "option" else ""
    python(
        f"""
        import warnings; warnings.filterwarnings("ignore", "backend and device argument")
        import jax, jax.numpy as jnp
        {option}
        assert jax.default_backend() == "{name}"
        assert next(iter(jax.jit(lambda x: x + 1)(1.0).devices())).platform == "{name}"
        assert next(iter(jax.jit(lambda x: x + 1, backend="ipu")(1.0).devices())).platform == "ipu"
        assert next(iter(jax.jit(lambda x: x + 1, backend="cpu")(1.0).devices())).platform == "cpu"
        """,
        **settings,
    )


def test_a_platform_that_is_not_listed_is_not_there() -> None:
    result = attempt("import jax; jax.devices('ipu')", JAX_PLATFORMS="cpu")
    assert result.returncode == 1
    assert "Unknown backend: 'ipu' requested" in result.stderr or "Unknown backend ipu" in result.stderr


def test_a_jax_newer_than_tested_is_said_at_first_use_of_ipu_and_not_before() -> None:
    told = python(
        """
        import sys, jax, jax.numpy as jnp
        from tilestep.pjrt.jax_private import versions
        before = versions.NEWEST_TESTED, versions.OLDEST
        versions.NEWEST_TESTED = versions.OLDEST = (0, 10, 0)
        jnp.ones(3)
        ipus = jax.devices("ipu")
        print("used", file=sys.stderr)
        jax.device_put(1.0, ipus[0])
        versions.NEWEST_TESTED, versions.OLDEST = before
        """,
        strict=False,
    )
    before, after = told.stderr.split("used\n")
    assert before == ""
    assert "is newer than any that the ipu platform was tested with (0.10.0 to 0.10.0)" in after


@pytest.mark.slow
def test_a_jax_too_old_leaves_the_cpu_alone_and_says_why_there_is_no_ipu() -> None:
    oldest = "from tilestep.pjrt.jax_private import versions; versions.OLDEST = (99, 0, 0); import jax, jax.numpy as jnp"
    result = processes.attempt(f"{oldest}; import sys; print(jnp.ones(3).sum()); print('used', file=sys.stderr); jax.devices('ipu')")
    assert result.stderr.startswith("used\n")
    assert (result.returncode, result.stdout) == (1, "3.0\n")
    assert "is too old for the ipu platform: it needs jax 99.0.0 or newer (pip install -U jax)" in result.stderr
