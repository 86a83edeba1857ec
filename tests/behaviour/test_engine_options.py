"""POPLAR_ENGINE_OPTIONS in programs: what a report has, what stays away, and what a program without room leaves."""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from tests.in_turn import attempt
from tilestep import open_report
from tilestep.recording.schema import EVENT_KINDS
from tilestep.recording.storage.container import Tables, read_recording

RUN = ["profile.json", "report.html", "run.tilestep", "summary.txt"]
SQUARE = """
import jax, numpy as np
jax.config.update("jax_default_device", jax.devices("ipu")[0])
def simple_net(x):
    return x * x
f = jax.jit(simple_net)
print(np.asarray(f(np.full((2, 2), 10))).sum())
"""
HUGE = """
import jax, jax.numpy as jnp, numpy as np, tilestep
def no_room(x):
    return jnp.sin(x) + x.T
def compile():
    with jax.default_device(jax.devices("ipu")[0]):
        return jax.jit(no_room).lower(jax.ShapeDtypeStruct((16384, 16384), np.float32)).compile()
def attempt():
    try:
        compile()
    except (MemoryError, jax.errors.JaxRuntimeError) as error:
        return str(error).splitlines()[-1].removeprefix("  report: ")
"""


def files(folder: Path) -> list[str]:
    """Paths of the files below a folder; of a program's fingerprint eight dots."""
    paths = (str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    return sorted("/".join(part[:-8] + "." * 8 if "-" in part[-9:-8] else part for part in path.split("/")) for path in paths)


def run(code: str, folder: Path, text: str | None = None, **options: object) -> str:
    """Output of a program in a folder. Args: text: of POPLAR_ENGINE_OPTIONS as it is."""
    stated = json.dumps({key.replace("_", ".", 1): value for key, value in options.items()}) if text is None else text
    ended = attempt(code, folder=folder, POPLAR_ENGINE_OPTIONS=stated)
    assert (ended.returncode, ended.stderr) == (0, ""), ended.stderr
    return ended.stdout


def run_each(code: str, folder: Path, options: Sequence[Mapping[str, object]]) -> list[Path]:
    """Folders, each with what a process with its options has left there."""
    folders = [folder / str(number) for number in range(len(options))]
    for path, each in zip(folders, options, strict=True):
        path.mkdir()
        run(code, path, **each)
    return folders


def program_in(folder: Path, name: str = "jit_simple_net") -> Path:
    (found,) = (folder / "programs").glob(f"{name}-*")
    return found


def runs_with_events(tables: Tables) -> list[int]:
    computed = tables.column("events", "kind") == EVENT_KINDS.index("compute")
    return np.unique(tables.column("events", "run")[computed]).tolist()


# ------------------------------------------------------------------------------ the six cases of TensorFlow's reports for the IPU


def test_a_report_is_in_the_working_directory_with_a_folder_for_each_program(tmp_path: Path) -> None:
    run(SQUARE, tmp_path, autoReport_all="true")
    assert files(tmp_path) == [
        "profile.json",
        "programs/jit_simple_net-......../memory.txt",
        "programs/jit_simple_net-......../program.tilestep",
        "report.html",
        "run.tilestep",
        "summary.txt",
    ]
    found = read_recording(program_in(tmp_path) / "program.tilestep")
    assert json.loads(found.text("trees"))[0][0] == "Program"
    assert "x" in {found.strings[number] for number in found.column("lives", "name")}


def test_the_folder_of_a_program_is_used_again_within_a_process(tmp_path: Path) -> None:
    run(f"{SQUARE}f(np.full((2, 2), 3)); jax.clear_caches(); f(np.full((2, 2), 3))", tmp_path, autoReport_all="true")
    assert program_in(tmp_path).is_dir()  # though another line has called it


def test_the_folder_of_a_program_is_used_again_by_the_next_process(tmp_path: Path) -> None:
    run(SQUARE, tmp_path, autoReport_all="true")
    program = program_in(tmp_path)
    before = {path.name: os.stat(path).st_mtime_ns for path in program.iterdir()}
    run(SQUARE, tmp_path, autoReport_all="true")
    assert {path.name: os.stat(path).st_mtime_ns for path in program_in(tmp_path).iterdir()} == before
    run(SQUARE.replace("x * x", "x + x"), tmp_path, autoReport_all="true")
    assert len(list((tmp_path / "programs").iterdir())) == 2


# ------------------------------------------------------------------------------------------------------------- parts


PARTS: tuple[tuple[Mapping[str, object], list[str]], ...] = (
    ({"autoReport_all": True, "autoReport_outputExecutionProfile": "false"}, ["memory.txt", "program.tilestep"]),
    ({"autoReport_all": "true", "autoReport_outputGraphProfile": False}, RUN),
    ({"autoReport_outputSerializedGraph": "true"}, ["hlo.txt"]),
    ({"autoReport_outputLoweredVars": "true"}, ["lowered_vars.txt"]),
    ({"autoReport_outputExecutionProfile": "true"}, RUN),
    (
        {"autoReport_all": "true", "autoReport_outputSerializedGraph": True, "autoReport_outputLoweredVars": True},
        ["hlo.txt", "lowered_vars.txt", "memory.txt", *RUN[:1], "program.tilestep", *RUN[1:]],
    ),
)


def test_parts_that_are_asked_for_are_there_and_no_others(tmp_path: Path) -> None:
    for folder, (_, found) in zip(run_each(SQUARE, tmp_path, [options for options, _ in PARTS]), PARTS, strict=True):
        assert sorted(path.rsplit("/", 1)[-1] for path in files(folder)) == sorted(found)


def test_without_debug_information_no_line_of_the_source_is_there(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(SQUARE)
    wanted = {"autoReport_all": "true", "autoReport_outputLoweredVars": "true"}
    run("import model", tmp_path, **wanted, autoReport_directory="with")
    run("import model", tmp_path, **wanted, autoReport_directory="without", autoReport_outputDebugInfo="false")
    for folder, there in (("with", True), ("without", False)):
        for path in (tmp_path / folder / "run.tilestep", program_in(tmp_path / folder) / "program.tilestep"):
            found = read_recording(path)
            assert any("model.py" in text for text in (*found.strings, found.text("trees"), found.text("sources"))) is there
        assert ("model.py:5 in simple_net" in (program_in(tmp_path / folder) / "lowered_vars.txt").read_text()) is there


def test_so_many_runs_of_a_program_are_kept_event_by_event(tmp_path: Path) -> None:
    kept: dict[object, list[int]] = {None: [0, 4], "3": [0, 1, 4], 1: [0], "100": [0, 1, 2, 3, 4]}
    code = f"{SQUARE}for _ in range(4): f(np.full((2, 2), 10)).block_until_ready()"
    options = [
        {"autoReport_all": "true"} | ({} if count is None else {"autoReport_executionProfileProgramRunCount": count}) for count in kept
    ]
    for folder, runs in zip(run_each(code, tmp_path, options), kept.values(), strict=True):
        found = read_recording(folder / "run.tilestep")
        assert found.column("programs", "runs").tolist() == [5]
        assert runs_with_events(found) == runs


def test_options_without_effect_are_told_in_the_summary(tmp_path: Path) -> None:
    run(SQUARE, tmp_path, autoReport_all="true", target_hostSyncTimeout=900, opt_useAutoloader="true")
    summary = " ".join((tmp_path / "summary.txt").read_text().split())
    assert "Engine option opt.useAutoloader has no effect: programs are loaded" in summary
    assert "Engine option target.hostSyncTimeout has no effect: no hardware is waited for." in summary
    assert json.loads((tmp_path / "profile.json").read_text())["assumptions"][-1].startswith("Engine option target.hostSyncTimeout")
    run(SQUARE, tmp_path, autoReport_all="true")
    assert "Engine option" not in (tmp_path / "summary.txt").read_text()


def test_the_options_are_in_the_manifest_of_a_recording(tmp_path: Path) -> None:
    run(SQUARE, tmp_path, autoReport_all="true", **{"profiler_blocks.filter": "stage.*"})
    for path in (tmp_path / "run.tilestep", program_in(tmp_path) / "program.tilestep"):
        assert read_recording(path).manifest["engine_options"] == {"autoReport.all": "true", "profiler.blocks.filter": "stage.*"}


FILTERS: tuple[tuple[dict[str, object], list[str]], ...] = (
    ({}, ["early", "late", "inner"]),
    ({"profiler_blocks.filter": "earl|inne."}, ["inner"]),  # the whole name
    ({"profiler_programs.filter": "jit_st.*"}, ["jit_stages", "early", "late", "inner"]),
    ({"profiler_blocks.filter": "(?i)LATE", "profiler_programs.filter": "stages"}, ["late"]),
)


def test_filters_choose_the_blocks_that_a_reader_gets(tmp_path: Path) -> None:
    code = """
import jax, numpy as np, jax.numpy as jnp
jax.config.update("jax_default_device", jax.devices("ipu")[0])
def stages(x):
    with jax.named_scope("early"): x = x @ x
    with jax.named_scope("late"):
        x = x @ x
        with jax.named_scope("inner"): return x @ x
jax.jit(stages)(np.ones((64, 64), np.float32)).block_until_ready()
"""
    options = [{"autoReport_all": "true"} | filters for filters, _ in FILTERS]
    for folder, (_, blocks) in zip(run_each(code, tmp_path, options), FILTERS, strict=True):
        assert [block.name for block in open_report(folder / "run.tilestep").execution.blocks()] == blocks


def test_a_folder_that_cannot_be_written_is_one_line_and_the_program_goes_on(tmp_path: Path) -> None:
    (tmp_path / "programs").touch()
    ended = attempt(f"{SQUARE}f(np.full((3, 3), 10))", folder=tmp_path, POPLAR_ENGINE_OPTIONS='{"autoReport.all":"true"}')
    assert (ended.returncode, ended.stdout) == (0, "400\n")
    assert ended.stderr.count("\n") == 1
    assert ended.stderr.startswith(f"tilestep: POPLAR_ENGINE_OPTIONS: autoReport.directory: {tmp_path}/programs/jit_simple_net-")
    assert files(tmp_path) == ["profile.json", "programs", "report.html", "run.tilestep", "summary.txt"]


# ----------------------------------------------------------------------------------------------------- out of memory


def test_a_program_without_room_leaves_a_report_that_the_error_names(tmp_path: Path) -> None:
    told = run(f"{HUGE}print(attempt())", tmp_path, autoReport_all="true").strip()
    assert told == str(program_in(tmp_path, "jit_no_room") / "memory.txt")
    text = Path(told).read_text()
    assert "it does not fit\n" in text
    assert "1.00 GiB" in text
    found = read_recording(Path(told).with_name("program.tilestep"))
    assert found.manifest["kind"] == "program"
    assert found.rows("lives")


def test_a_profile_under_way_gets_the_report_too(tmp_path: Path) -> None:
    code = f"{HUGE}\nwith tilestep.profile('outer'), tilestep.profile('inner'), tilestep.profile(): print(attempt())"
    assert run(code, tmp_path).strip() == str(program_in(tmp_path / "inner", "jit_no_room") / "memory.txt")
    assert files(tmp_path / "outer") == files(tmp_path / "inner")
    both = run(code, tmp_path, autoReport_outputExecutionProfile="true", autoReport_directory=str(tmp_path / "stated"))
    assert both.strip() == str(program_in(tmp_path / "stated", "jit_no_room") / "memory.txt")


def test_what_is_allowed_is_no_error_and_leaves_its_report(tmp_path: Path) -> None:
    told = run(f"{HUGE}print(attempt())", tmp_path, autoReport_all="true", debug_allowOutOfMemory=True)
    assert told == "None\n"
    assert "it does not fit\n" in (program_in(tmp_path, "jit_no_room") / "memory.txt").read_text()


def test_a_report_that_cannot_be_kept_is_told_in_the_error(tmp_path: Path) -> None:
    (tmp_path / "report").mkdir()
    (tmp_path / "report" / "programs").touch()
    told = run(f"{HUGE}\nwith tilestep.profile('report'): print(attempt())", tmp_path)
    assert told.startswith(str(tmp_path / "report" / "programs" / "jit_no_room-"))
    assert told.endswith(" cannot be written: Not a directory\n")
