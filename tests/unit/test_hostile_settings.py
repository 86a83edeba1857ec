"""Variables may hold anything: what is no setting is an error on one short line that names the variable, soon."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilestep.errors import SettingsError
from tilestep.settings import read_settings

VARIABLES = [
    "JAX_IPU_USE_MODEL",
    "JAX_IPU_MODEL_NUM_TILES",
    "JAX_IPU_DEVICE_COUNT",
    "JAX_IPU_VISIBLE_DEVICES",
    "JAX_IPU_PARTIALS_TYPE",
    "JAX_IPU_AVAILABLE_MEMORY_PROPORTION",
    "JAX_IPU_NUM_IO_TILES",
    "JAX_IPU_WEIGHT_LOAD_BITS",
    "POPLAR_ENGINE_OPTIONS",
    "TILESTEP_MACHINE",
    "TILESTEP_SYNC_PATTERN",
]
HOSTILE = {  # variable, value: what the message says
    "deep arrays": ("POPLAR_ENGINE_OPTIONS", "[" * 100_000, r"it must be a JSON object .* \(this is nested too deep\)"),
    "deep objects": ("POPLAR_ENGINE_OPTIONS", '{"a":' * 20_000, r"nested too deep"),
    "a deep value": ("POPLAR_ENGINE_OPTIONS", '{"autoReport.all":' + "[" * 500 + "]" * 500 + "}", r"autoReport\.all is \[\[\["),
    "5,000 digits": ("POPLAR_ENGINE_OPTIONS", '{"autoReport.all":' + "9" * 5000 + "}", r"must be a JSON object .*4300 digits"),
    "400 digits": ("POPLAR_ENGINE_OPTIONS", '{"autoReport.all":' + "9" * 400 + "}", r"autoReport\.all is a whole number of 1,329 bits"),
    "no number": ("POPLAR_ENGINE_OPTIONS", '{"debug.allowOutOfMemory":NaN}', r"debug\.allowOutOfMemory is nan"),
    "a NUL": ("POPLAR_ENGINE_OPTIONS", r'{"autoReport.directory":"a\u0000"}', r"autoReport\.directory is 'a\\x00': it must be the path"),
    "half a pair": ("POPLAR_ENGINE_OPTIONS", r'{"autoReport.directory":"\ud800"}', r"autoReport\.directory is '\\ud800': it must be"),
    "a long key": ("POPLAR_ENGINE_OPTIONS", '{"' + "x" * 100_000 + '":1}', r"POPLAR_ENGINE_OPTIONS has 'xxx.*xxx': it may have"),
    "a control character": ("POPLAR_ENGINE_OPTIONS", r'{"\u001b[31m":1}', r"POPLAR_ENGINE_OPTIONS has '\\x1b\[31m': it may have"),
    "all tiles for I/O": ("JAX_IPU_NUM_IO_TILES", "1472", r"ipu_num_io_tiles is 1,472: it must be less than the 1,472 tiles of an IPU"),
    "4,000 digits of tiles": (
        "JAX_IPU_NUM_IO_TILES",
        "9" * 4000,
        r"ipu_num_io_tiles is a whole number of 13,288 bits: it must be 0 to",
    ),
    "5,000 digits of tiles": ("JAX_IPU_NUM_IO_TILES", "9" * 5000, r"ipu_num_io_tiles is '999.*999': it must be a whole number"),
    "infinitely many": ("JAX_IPU_NUM_IO_TILES", "inf", r"ipu_num_io_tiles is 'inf': it must be a whole number"),
    "no proportion": ("JAX_IPU_AVAILABLE_MEMORY_PROPORTION", "nan", r"ipu_available_memory_proportion is nan: it must be more than 0"),
    "5,000 digits of IPUs": (
        "JAX_IPU_DEVICE_COUNT",
        "9" * 5000,
        r"JAX_IPU_DEVICE_COUNT is '999.*999': it must be a whole number, 1",
    ),
    "many IPUs": ("JAX_IPU_VISIBLE_DEVICES", "0," * 60_000, r"JAX_IPU_VISIBLE_DEVICES is '0,0.*': it must be different numbers"),
    "a long word": ("JAX_IPU_USE_MODEL", "x" * 100_000, r"JAX_IPU_USE_MODEL is 'xxx.*xxx': it must be one of"),
    "a device for a machine": ("TILESTEP_MACHINE", "/dev/zero", r"TILESTEP_MACHINE: /dev/zero: .* It is no regular file"),
    "a pattern in colours": ("TILESTEP_SYNC_PATTERN", "\x1b[31m", r"TILESTEP_SYNC_PATTERN is '\\x1b\[31m'"),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_variable_is_refused_by_name_on_one_short_line(what: str) -> None:
    variable, value, message = HOSTILE[what]
    with pytest.raises(SettingsError, match=message) as caught:
        read_settings({variable: value})
    assert str(caught.value).startswith(variable)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 1000


def test_tiles_for_io_leave_one_to_compute_on() -> None:
    assert read_settings({"JAX_IPU_NUM_IO_TILES": "1471"}).plan_options.num_io_tiles == 1471
    with pytest.raises(SettingsError, match=r"^JAX_IPU_NUM_IO_TILES: ipu_num_io_tiles is 4: it must be less than the 4 tiles of an IPU$"):
        read_settings({"JAX_IPU_NUM_IO_TILES": "4", "JAX_IPU_MODEL_NUM_TILES": "4"})


TEXTS = ["{", "}", "[", '"', ":", ",", "autoReport.directory", "\\u0000", "\\ud800", "1e999", "NaN", "-1", "0", "\0", "\x1b", "9" * 5000]


@given(st.sampled_from(VARIABLES), st.text(st.characters()) | st.lists(st.sampled_from(TEXTS)).map("".join) | st.integers().map(str))
def test_any_value_of_a_variable_is_read_or_refused_by_name_on_one_line(variable: str, value: str) -> None:
    environ, told = {variable: value}, f"{variable} on one line"
    try:
        read_settings(environ)
    except SettingsError as error:
        told = str(error)
    assert variable.lower() in told.lower()
    assert told.isprintable()
