"""Settings: what each option and variable does, what is refused, and when."""

import ast
import json
import os
from collections.abc import Iterator
from pathlib import Path

import jax
import pytest

from tests.processes import ROOT
from tilestep import settings
from tilestep.errors import SettingsError
from tilestep.machine import load_machine
from tilestep.machine.fields import QUANTITIES
from tilestep.options import MAX_TILES
from tilestep.settings import (
    changes_since,
    define_jax_options,
    emulated_system,
    popart_variables,
    read_settings,
    stated_settings,
    warn_of_unknown_variables,
)

OPTIONS = ("jax_ipu_use_model", "jax_ipu_model_num_tiles", "jax_ipu_device_count", "jax_ipu_visible_devices")


@pytest.fixture(autouse=True)
def fresh_options(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Options as in a new process, without this one's variables, and put back afterwards."""
    define_jax_options()
    for variable in [name for name in os.environ if name.startswith(("JAX_IPU_", "TILESTEP_", "POPLAR_"))]:
        monkeypatch.delenv(variable)
    given = [option.given for option in settings.JAX_OPTIONS]
    for option in settings.JAX_OPTIONS:
        option.given = settings.UNSET
    yield
    for option, value in zip(settings.JAX_OPTIONS, given, strict=True):
        option.given = value


def engine(**options: object) -> dict[str, str]:
    return {"POPLAR_ENGINE_OPTIONS": json.dumps({key.replace("_", ".", 1): value for key, value in options.items()})}


def test_nothing_set_is_four_bow_ipus() -> None:
    found = read_settings({})
    assert found.machine == load_machine("bow-2000")
    assert found.hardware_ids == (0, 1, 2, 3)
    assert not found.allow_out_of_memory
    assert found.engine.directory is None


def test_jax_shows_the_defaults() -> None:
    assert [getattr(jax.config, name) for name in OPTIONS] == [True, None, None, None]


def test_the_machine_is_chosen_by_name_or_file(tmp_path: Path) -> None:
    assert read_settings({"TILESTEP_MACHINE": "c600"}).machine.name == "c600"
    (tmp_path / "mine.toml").write_text('inherits = "c600"\nnum_ipus = 2\n', encoding="utf-8")
    found = read_settings({"TILESTEP_MACHINE": str(tmp_path / "mine.toml")})
    assert (found.machine.name, found.hardware_ids) == ("mine", (0, 1))


def test_an_unknown_machine_names_the_variable_and_the_nearest() -> None:
    with pytest.raises(SettingsError, match=r"TILESTEP_MACHINE: no machine is called 'bow2000' \(did you mean 'bow-2000'\?\)"):
        read_settings({"TILESTEP_MACHINE": "bow2000"})


def test_a_device_count_beyond_the_machine_is_several_of_it() -> None:
    found = read_settings({"JAX_IPU_DEVICE_COUNT": "8"})
    assert (found.machine.num_ipus, found.machine.num_machines, found.hardware_ids) == (8, 2, tuple(range(8)))
    assert read_settings({"JAX_IPU_DEVICE_COUNT": "1"}).hardware_ids == (0,)


@pytest.mark.parametrize("more", [{}, {"JAX_IPU_DEVICE_COUNT": "8"}, {"JAX_IPU_VISIBLE_DEVICES": "1,6"}])
def test_a_sync_pattern_goes_before_the_machine_s_own(more: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('inherits = "bow-2000"\nsync_pattern = "replicaAndLadder"\n', encoding="utf-8")
    environ = {"TILESTEP_MACHINE": str(tmp_path / "mine.toml"), **more}
    assert read_settings(environ).machine.sync_pattern == "replicaAndLadder"
    assert read_settings({**environ, "TILESTEP_SYNC_PATTERN": "singlePipeline"}).machine.sync_pattern == "singlePipeline"


def test_how_many_ipus_are_simulated() -> None:
    environ = {"TILESTEP_MACHINE": "bow-pod16", "TILESTEP_SIMULATED_IPUS": "4"}
    assert (read_settings(environ).machine.num_ipus, read_settings(environ).machine.num_simulated) == (16, 4)
    assert read_settings({**environ, "JAX_IPU_VISIBLE_DEVICES": "0,1,4,5"}).machine.num_simulated == 4
    for value, wanted in (
        ("x", "a whole number, 1 to 256"),
        ("6", "TILESTEP_SIMULATED_IPUS: simulated_ipus is 6: it must divide the number of IPUs of bow-pod16"),
    ):
        with pytest.raises(SettingsError, match=wanted):
            read_settings({**environ, "TILESTEP_SIMULATED_IPUS": value})


def test_visible_devices_go_before_the_count_and_keep_their_numbers() -> None:
    found = read_settings({"JAX_IPU_VISIBLE_DEVICES": "0,2,3", "JAX_IPU_DEVICE_COUNT": "8"})
    assert found.hardware_ids == (0, 2, 3)
    assert found.machine.num_ipus == 4
    assert read_settings({"JAX_IPU_VISIBLE_DEVICES": " 3 , 1 "}).hardware_ids == (3, 1)


def test_visible_devices_beyond_the_machine_are_on_several_of_it() -> None:
    found = read_settings({"JAX_IPU_VISIBLE_DEVICES": "1,6"})
    assert (found.hardware_ids, found.machine.num_ipus) == ((1, 6), 7)


def test_a_count_of_tiles_also_allows_to_run_out_of_memory() -> None:
    found = read_settings({"JAX_IPU_MODEL_NUM_TILES": "8"})
    assert (found.machine.ipu.num_tiles, found.allow_out_of_memory) == (8, True)


@pytest.mark.parametrize(
    "variable", [name.upper() for name in OPTIONS] + ["TILESTEP_MACHINE", "TILESTEP_SYNC_PATTERN", "POPLAR_ENGINE_OPTIONS"]
)
@pytest.mark.parametrize("empty", ["", "  "])
def test_an_empty_variable_is_an_unset_one(variable: str, empty: str) -> None:
    assert read_settings({variable: empty}) == read_settings({})


@pytest.mark.parametrize("text", ["no", "false", "f", "0", "off", "FALSE", "Off"])
def test_to_ask_for_hardware_is_an_error_that_says_there_is_none(text: str) -> None:
    with pytest.raises(SettingsError, match=r"jax_ipu_use_model is false, but no runtime for IPU hardware exists"):
        read_settings({"JAX_IPU_USE_MODEL": text})


BAD_VALUES = [
    ("jax_ipu_use_model", "maybe", r"one of yes/true/t/1/on or no/false/f/0/off"),
    ("jax_ipu_model_num_tiles", "abc", r"a whole number, 1 to 100,000"),
    ("jax_ipu_model_num_tiles", "0", r"a whole number, 1 to 100,000"),
    ("jax_ipu_model_num_tiles", "1.5", r"a whole number, 1 to 100,000"),
    ("jax_ipu_device_count", "-1", r"a whole number, 1 to 256"),
    ("jax_ipu_device_count", "257", r"a whole number, 1 to 256"),
    ("jax_ipu_visible_devices", "0,x", r"different numbers of IPUs, each 0 to 255"),
    ("jax_ipu_visible_devices", "0,0", r"different numbers of IPUs"),
    ("jax_ipu_visible_devices", "0,,1", r"different numbers of IPUs"),
    ("jax_ipu_visible_devices", "256", r"different numbers of IPUs, each 0 to 255"),
    ("jax_ipu_visible_devices", "-1", r"different numbers of IPUs"),
]


@pytest.mark.parametrize(("name", "value", "allowed"), BAD_VALUES)
def test_a_bad_variable_is_reported_when_the_settings_are_read(name: str, value: str, allowed: str) -> None:
    with pytest.raises(SettingsError, match=rf"{name.upper()} is '{value}': it must be {allowed}"):
        read_settings({name.upper(): value})


@pytest.mark.parametrize(("name", "value", "allowed"), BAD_VALUES)
def test_a_bad_option_is_refused_at_once_and_changes_nothing(name: str, value: str, allowed: str) -> None:
    before = getattr(jax.config, name)
    with pytest.raises(ValueError, match=rf"{name} is '{value}': it must be {allowed}"):
        jax.config.update(name, value)
    assert getattr(jax.config, name) == before


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("jax_ipu_use_model", 2),
        ("jax_ipu_use_model", None),
        ("jax_ipu_model_num_tiles", True),
        ("jax_ipu_device_count", 2.0),
        ("jax_ipu_visible_devices", 3),
    ],
)
def test_an_option_of_another_type_is_refused_at_once(name: str, value: object) -> None:
    with pytest.raises(SettingsError, match=rf"{name} is {value!r}: it must be"):
        jax.config.update(name, value)


def test_an_option_goes_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAX_IPU_MODEL_NUM_TILES", "16")
    monkeypatch.setenv("JAX_IPU_DEVICE_COUNT", "3")
    monkeypatch.setenv("JAX_IPU_VISIBLE_DEVICES", "1,2")
    assert (jax.config.jax_ipu_model_num_tiles, jax.config.jax_ipu_device_count, jax.config.jax_ipu_visible_devices) == (16, 3, "1,2")
    jax.config.update("jax_ipu_model_num_tiles", 8)
    jax.config.update("jax_ipu_device_count", 2)
    jax.config.update("jax_ipu_visible_devices", "")
    assert (jax.config.jax_ipu_model_num_tiles, jax.config.jax_ipu_device_count, jax.config.jax_ipu_visible_devices) == (8, 2, None)
    found = read_settings()
    assert (found.machine.ipu.num_tiles, found.hardware_ids) == (8, (0, 1))


def test_an_option_of_none_takes_the_machines_own_whatever_the_environment_says() -> None:
    jax.config.update("jax_ipu_model_num_tiles", None)
    found = read_settings({"JAX_IPU_MODEL_NUM_TILES": "16"})
    assert (found.machine.ipu.num_tiles, found.allow_out_of_memory) == (1472, False)


def test_use_model_may_be_switched_off_and_on_again_before_ipu_is_used() -> None:
    jax.config.update("jax_ipu_use_model", False)
    with pytest.raises(SettingsError, match="no runtime for IPU hardware"):
        read_settings({})
    jax.config.update("jax_ipu_use_model", True)
    assert read_settings({}) == read_settings({"JAX_IPU_USE_MODEL": "true"})


@pytest.mark.parametrize(
    ("variable", "nearest"),
    [
        ("JAX_IPU_MODEL_TILES", "JAX_IPU_MODEL_NUM_TILES"),
        ("JAX_IPU_DEVICES", "JAX_IPU_DEVICE_COUNT"),
        ("JAX_IPU_USE_MODLE", "JAX_IPU_USE_MODEL"),
    ],
)
def test_an_unknown_variable_warns_with_the_nearest(variable: str, nearest: str) -> None:
    with pytest.warns(UserWarning, match=rf"{variable} does nothing; the nearest that exists is {nearest}$"):
        warn_of_unknown_variables({variable: "4"})


def test_variables_of_others_do_not_warn() -> None:
    warn_of_unknown_variables({"JAX_PLATFORMS": "cpu", "JAX_IPUTILS": "1", "IPU": "2"})


def test_what_is_stated_changes_with_every_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    variables = ["TILESTEP_MACHINE", "TILESTEP_SYNC_PATTERN", "POPLAR_ENGINE_OPTIONS", "JAX_IPU_PARTIALS_TYPE", "JAX_IPU_NUM_IO_TILES"]
    variables += [option.upper() for option in OPTIONS]
    before = stated_settings({})
    for variable in variables:
        assert changes_since(before, {variable: "4"}) == f"{variable} is '4' and was unset"
        assert changes_since(stated_settings({variable: "4"}), {variable: "5"}) == f"{variable} is '5' and was '4'"
    assert changes_since(before, {"PATH": "4"}) == ""
    asked: list[bool] = []
    monkeypatch.setattr(settings, "WHEN_SET", [lambda: asked.append(True)])
    jax.config.update("jax_ipu_device_count", 2)
    assert changes_since(before, {"TILESTEP_MACHINE": ""}) == "JAX_IPU_DEVICE_COUNT is 2 and was unset"
    assert asked == [True]


@pytest.mark.parametrize("value", ["true", True])
def test_engine_options_turn_reports_and_out_of_memory_on(value: object) -> None:
    assert read_settings(engine(autoReport_all=value)).engine.directory == Path.cwd()
    assert read_settings(engine(debug_allowOutOfMemory=value)).allow_out_of_memory
    assert not read_settings(engine(autoReport_all=value)).allow_out_of_memory


def test_bounds_are_those_of_machines() -> None:
    assert QUANTITIES["num_ipus"].highest == settings.MAX_IPUS
    assert QUANTITIES["ipu.num_tiles"].highest == settings.MAX_TILES == MAX_TILES


def environment_readers(path: Path) -> list[str]:
    """Attributes of `os` and names imported from it that read the environment."""
    text = path.read_text(encoding="utf-8")
    nodes = list(ast.walk(ast.parse(text))) if "env" in text else []
    names = [node.attr for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "os"]
    names += [alias.name for node in nodes if isinstance(node, ast.ImportFrom) and node.module == "os" for alias in node.names]
    return [name for name in names if name in ("environ", "environb", "getenv", "getenvb")]


def test_no_other_file_reads_the_environment() -> None:
    source = ROOT / "src" / "tilestep"
    readers = {str(path.relative_to(source)) for path in source.rglob("*.py") if environment_readers(path)}
    assert "settings.py" in readers
    # Commands set variables for the programs and models that they run; processes ask for JAX's own address of its coordinator; two of
    # TensorFlow's have to be set before it is imported.
    commands = {"cli/onnx.py", "cli/run.py", "cli/run_popart.py", "cli/sweep/command.py", "cli/sweep/runs.py"}
    assert readers <= {"settings.py", *commands, "train/processes/start.py", "tensorflow/__init__.py"}


def test_variables_of_popart_are_those_with_a_value() -> None:
    given = {"POPART_LOG_LEVEL": "INFO", "POPART_LOG_DEST": "", "POPXL_CACHE_DIR": "/here", "POPXL_OTHER": "1", "PATH": "/bin"}
    assert popart_variables(given) == {"POPART_LOG_LEVEL": "INFO", "POPXL_CACHE_DIR": "/here"}


@pytest.mark.parametrize(
    ("environ", "name", "num_ipus", "named"),
    [
        ({}, "bow-pod16", 16, False),
        ({"JAX_IPU_DEVICE_COUNT": "2"}, "bow-2000", 2, False),
        ({"JAX_IPU_VISIBLE_DEVICES": "1,3"}, "bow-2000", 4, False),
        ({"TILESTEP_MACHINE": "c600"}, "c600", 1, True),
        ({"TILESTEP_MACHINE": "m2000", "JAX_IPU_DEVICE_COUNT": "8"}, "m2000", 8, True),
        ({"TILESTEP_SIMULATED_IPUS": "4"}, "bow-pod16", 16, False),
    ],
)
def test_the_system_is_the_default_unless_a_setting_names_or_counts(environ: dict[str, str], name: str, num_ipus: int, named: bool) -> None:
    machine, is_named = emulated_system("bow-pod16", environ)
    assert (machine.name, machine.num_ipus, is_named, machine.num_simulated) == (name, num_ipus, named, num_ipus)
