"""Options of jax.config and their environment variables, as the emulator of old had them."""

import json
from pathlib import Path

from tests.in_turn import attempt, python


def test_use_model_may_be_set() -> None:
    """Unlike on the emulator of old it is the default."""
    code = "import jax; assert len(jax.devices('ipu')) == 4 and jax.config.jax_ipu_use_model"
    for text in ("yes", "TRUE", "t", "1"):
        python(code, JAX_IPU_USE_MODEL=text)


def test_without_the_model_there_is_a_clear_error() -> None:
    """No runtime for hardware exists."""
    for text in ("no", "False", "f", "0"):
        result = attempt("import jax; jax.devices('ipu')", JAX_IPU_USE_MODEL=text)
        assert result.returncode == 1
        assert "no runtime for IPU hardware exists" in result.stderr


BAD_VALUES = (
    ("JAX_IPU_USE_MODEL", "maybe", "yes/true/t/1"),
    ("JAX_IPU_MODEL_NUM_TILES", "eight", "a whole number"),
    ("JAX_IPU_DEVICE_COUNT", "0", "a whole number"),
    ("JAX_IPU_VISIBLE_DEVICES", "0,zero", "numbers of IPUs"),
    ("TILESTEP_MACHINE", "cray-1", "bow-2000"),
    ("POPLAR_ENGINE_OPTIONS", "{'a': 1}", "a JSON object"),
    ("POPLAR_ENGINE_OPTIONS", '{"autoReport.everything": "true"}', "autoReport.all"),
)


def test_a_bad_value_is_reported_at_first_use_of_ipu() -> None:
    code = "import jax; jax.numpy.ones(3); print('cpu works', flush=True); jax.devices('ipu')"
    for variable, value, allowed in BAD_VALUES:
        result = attempt(code, **{variable: value})
        assert result.returncode == 1
        assert result.stdout == "cpu works\n"
        message = result.stderr.splitlines()[-1] if variable not in result.stderr else result.stderr
        assert variable in message
        assert value in message or repr(value) in message or "autoReport.everything" in message
        assert allowed in message


def test_few_tiles_report_that_memory_is_out_and_go_on() -> None:
    """As on the emulator of old: with an explicit number of tiles, out of memory is told and not raised."""
    python(
        """
        import jax, jax.numpy as jnp, numpy as np, tilestep
        with tilestep.profile() as profile:
            y = jax.jit(lambda x: x + 1)(jax.device_put(np.ones(1_000_000, np.float32), jax.devices("ipu")[0]))
            assert y[0] == 2
        assert max(p.peak_tile_bytes for p in profile.programs) > 638_976
        """,
        JAX_IPU_MODEL_NUM_TILES="4",
    )


def test_visible_devices() -> None:
    """The list goes before the count; ids are renumbered, the hardware's are kept."""
    python(
        """
        import jax
        devices = jax.devices("ipu")
        assert [d.id for d in devices] == [0, 1, 2]
        assert [d.local_hardware_id for d in devices] == [0, 2, 3]
        """,
        JAX_IPU_VISIBLE_DEVICES="0,2,3",
        JAX_IPU_DEVICE_COUNT="1",
    )


ADDS = "import jax, jax.numpy as jnp; jax.device_put(jnp.ones(3), jax.devices('ipu')[0]) + 1"


def auto_report(directory: object) -> str:
    return json.dumps({"autoReport.all": "true", "autoReport.directory": str(directory)})


def test_a_program_that_leaves_ipu_alone_writes_no_report(tmp_path: Path) -> None:
    python("import jax; jax.numpy.ones(3); assert jax.devices('ipu')", POPLAR_ENGINE_OPTIONS=auto_report(tmp_path / "report"))
    assert list(tmp_path.iterdir()) == []


def test_a_report_that_cannot_be_written_is_said_at_first_use(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    result = attempt(f"print('begins'); {ADDS}", POPLAR_ENGINE_OPTIONS=auto_report(tmp_path / "file" / "report"))
    assert (result.returncode, result.stdout) == (1, "begins\n")
    assert f"autoReport.directory is '{tmp_path}/file/report': it must be a directory that can be written to" in result.stderr
