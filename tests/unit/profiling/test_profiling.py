"""`tilestep.profile()` over the real platform, in programs of their own."""

import json
from pathlib import Path

import pytest

from tests import in_turn

FEW_TILES = """
inherits = "bow-2000"

[ipu]
num_tiles = 64
"""
TOO_LARGE = "np.zeros(17_391_305, np.float32)"  # for 64 tiles


@pytest.fixture(scope="module")
def few_tiles(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A machine on which small arrays do not fit. As one of the catalogue, and unlike a number of tiles, it refuses them."""
    path = tmp_path_factory.mktemp("machine") / "few.toml"
    path.write_text(FEW_TILES)
    return str(path)


PASSING = "import warnings; warnings.filterwarnings('ignore', 'backend and device argument')\n"  # of jit: JAX deprecates it without a date
PROGRAMS = {
    "blocks": """
import tilestep, jax
import numpy as np
with tilestep.profile() as before: pass
with tilestep.profile() as on_cpu: jax.numpy.ones(3) + 1
for p in (before, on_cpu): print(p.emulated_s, p.programs, p.timeline)
print("nothing ran" in p.summary().splitlines()[0])
f, g = (jax.jit(h, backend="ipu") for h in (lambda x: x + 1, lambda x: x * 2))
x = np.ones(4, np.float32)
f(x)
with tilestep.profile() as outer:
    f(x)
    with tilestep.profile() as inner: g(x)
    f(x)
print([(p.runs, p.loads) for p in outer.programs], [(p.runs, p.loads) for p in inner.programs])
print(outer.emulated_s > inner.emulated_s > 0, len(outer.timeline) > len(inner.timeline) > 0)
try:
    with tilestep.profile() as p:
        f(x)
        try: p.emulated_s
        except RuntimeError as error: print(error)
        raise KeyError("mine")
except KeyError as error: print(error, len(p.programs))
with tilestep.profile(FOLDER + "/new") as p: f(x)
print(p.emulated_s)
""",
    "directories": """
import os, shutil, tilestep
os.chdir(FOLDER)
try:
    with tilestep.profile("file/below"): print("ran")
except NotADirectoryError: print("not a directory")
directory = FOLDER + "/gone"
try:
    with tilestep.profile(directory):
        shutil.rmtree(directory)
        open(directory, "w").close()
        raise KeyError("mine")
except KeyError as error: print(error, *error.__notes__)
with tilestep.profile("here"):
    shutil.rmtree("here")
    os.chdir("/")
""",
    "page": """
import tilestep, warnings
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    with tilestep.profile(FOLDER + "/page"): pass
for each in told: print(each.category.__name__, each.filename, each.message, sep="|")
try:
    with tilestep.profile(FOLDER + "/page"): raise KeyError("mine")
except KeyError as error: print(error, *error.__notes__)
""",
    "cleared": """
import jax, jax.extend, numpy as np, os, tilestep
for option in ("jax_ipu_model_num_tiles", "jax_ipu_device_count"):
    device, other = jax.devices("ipu")[:2]
    x, compiled = jax.device_put(1.0, device), jax.jit(lambda x: x + 3)
    y = jax.device_put(compiled(x), other)
    uses = {
        "compile": lambda: jax.jit(lambda x: x + 1)(x), "run": lambda: compiled(x), "put": lambda: jax.device_put(np.ones(3), device),
        "copy": lambda: jax.device_put(x, other), "devices": lambda: jax.devices("ipu"), "count": lambda: jax.device_count("ipu"),
        "profile": lambda: tilestep.profile().__enter__(), "dry_run": lambda: tilestep.dry_run().__enter__(),
        "cpu": lambda: jax.devices("cpu"), "read": lambda: float(compiled(1.0) + jax.device_get(y)),
    }
    if option == "jax_ipu_model_num_tiles":
        os.environ["TILESTEP_MACHINE"] = "bow-2000"  # which it was
        for use in uses.values(): use()
        del os.environ["TILESTEP_MACHINE"]
        os.environ["JAX_IPU_MODEL_NUM_TILES"] = "8"
    else:
        jax.config.update(option, 8)
    told = f"{option.upper()} is {8 if 'count' in option else repr('8')} and was unset, changed after JAX had started its platforms"
    for name, use in uses.items():
        try: use()
        except Exception as error: told in str(error) and print(name, end=" ")
    print()
    os.environ.pop(option.upper(), "")
    if option == "jax_ipu_model_num_tiles":
        use()
        jax.config.update(option, 8)
    jax.extend.backend.clear_backends()
    first = jax.devices("ipu")[0]
    print(first.num_tiles, len(jax.devices("ipu")), jax.device_put(2.0, first) + 1, x)
with tilestep.profile() as p: jax.jit(lambda x: x + 1, backend="ipu")(np.zeros(2_000_000, np.float32))
print(p.programs[0].out_of_memory, p.programs[0].peak_tile_bytes > 1_000_000)
""",
}  # FOLDER is that of the tests


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("profiles")
    (folder / "file").touch()
    (folder / "page/report.html").mkdir(parents=True)
    return folder


def printed(name: str, folder: Path) -> list[str]:
    """Lines that one of PROGRAMS prints."""
    return lines(f"FOLDER = {str(folder)!r}\n{PROGRAMS[name]}")


def lines(code: str, **environ: str) -> list[str]:
    """Lines that a program prints."""
    return in_turn.python(PASSING + code, **environ).stdout.splitlines()


@pytest.mark.process
def test_a_block_has_a_profile_of_its_own_which_is_complete_when_it_ends(folder: Path) -> None:
    """In one process: of blocks without work, of nested ones, of one that ends by an exception, and of one with a directory."""
    out = printed("blocks", folder)
    assert out[:3] == [*["0.0 () ()"] * 2, "True"]
    assert out[3:5] == ["[(2, 1), (1, 1)] [(1, 1)]", "True True"]  # f was loaded before the block, g took its place
    assert out[5:7] == ["a profile is complete when its block has ended; read it after the `with`", "'mine' 1"]
    assert json.loads((folder / "new/profile.json").read_text())["emulated_s"] == float(out[7]) > 0
    assert "tilestep:" in (folder / "new/summary.txt").read_text()


@pytest.mark.process
def test_directories_that_cannot_be_made_or_change_in_the_block(folder: Path) -> None:
    """One that cannot be made is an error before the block runs. A relative one counts from before the block, and is made again."""
    out = printed("directories", folder)
    assert out == ["not a directory", f"'mine' tilestep.profile: {folder / 'gone'} cannot be written: Not a directory"]
    assert sorted(path.name for path in (folder / "here").iterdir()) == ["profile.json", "report.html", "run.tilestep", "summary.txt"]


@pytest.mark.process
def test_a_program_that_does_not_fit_is_refused_with_the_largest_tensors_named_unless_it_may_be_too_large(few_tiles: str) -> None:
    code = f"""
import jax, numpy as np, tilestep
large = {TOO_LARGE}
with tilestep.profile() as p:
    jax.jit(lambda x: x + 1, backend="ipu", compiler_options=dict(ipu_allow_out_of_memory=True))(large)
print(p.programs[0].out_of_memory, p.programs[0].alive_tile_bytes[0], "does not fit" in p.summary())
try: jax.jit(lambda weights: weights + 1, backend="ipu")(large)
except jax.errors.JaxRuntimeError as error: print(error)
"""
    out = lines(code, TILESTEP_MACHINE=few_tiles)
    assert out[0] == "True ('x', 1086960) True"
    # 17,391,305 floats over 64 tiles: 1,086,957 bytes on each, in a region of 1,086,960. Beside them 3,168 of stacks, 1,104 reserved,
    # and of code 700 + 36 of control, 298 + 2 x 16 for the host, 288 of the vertex, 45 of its state and 8 of a constant.
    assert out[1].startswith("RESOURCE_EXHAUSTED: TileMemoryError: tile 0 needs 1,092,639 B in superstep 'program start'")
    assert "largest: weights 1,086,960 B, stacks 3,168 B, reserved 1,104 B, control code 736 B" in out[2]


@pytest.mark.process
def test_a_setting_changed_too_late_is_an_error_until_the_backends_are_cleared(folder: Path) -> None:
    out = printed("cleared", folder)
    assert out == [
        "compile run put copy devices count profile dry_run ",  # and neither other platforms nor what was computed before
        "8 4 3.0 1.0",
        "compile run put copy devices count profile dry_run ",
        "8 8 3.0 1.0",
        "True True",
    ]  # at last, what does not fit is no error with an explicit number of tiles


@pytest.mark.process
def test_a_page_that_cannot_be_written_is_a_warning_after_the_files(folder: Path) -> None:
    out, folder = printed("page", folder), folder / "page"
    missing = (
        f"{folder}/report.html is not written: Is a directory; run.tilestep is: `tilestep report html {folder} -o FILE` makes a page of it"
    )
    assert out == [f"RuntimeWarning|<string>|tilestep.profile: {missing}", f"'mine' tilestep.profile: {missing}"]
    assert sorted(path.name for path in folder.iterdir()) == ["profile.json", "report.html", "run.tilestep", "summary.txt"]
