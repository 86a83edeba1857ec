"""Files of a report: which parts a folder of a program has, when it is written again, and what stays."""

import os
import resource
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.golden.texts import hlo_text
from tests.unit.figures.reader.recorded import report_of, two_stages
from tests.unit.recording.recordings import small_recording
from tilestep.errors import RecordingError
from tilestep.machine import load_machine
from tilestep.options import PlanOptions
from tilestep.plan import lower_in_detail
from tilestep.profiling.measure import profile_between
from tilestep.program import parse_hlo
from tilestep.recording.storage.container import read_recording
from tilestep.sim import System
from tilestep.views.files import PlannedProgram, ProgramParts, has_program, program_folder, write_program, write_report

MACHINE = load_machine("bow-2000")
TEXT = hlo_text("mlp_train_step")
PROGRAM, DETAIL = lower_in_detail(parse_hlo(TEXT), MACHINE, name="jit_step", num_ipus=1)
MARK = "0123456789abcdef" * 4
PLANNED = PlannedProgram(
    program=PROGRAM, detail=DETAIL, machine=MACHINE, options=PlanOptions(), key=7, fingerprint=MARK, lines="ab", hlo=TEXT
)
EVERYTHING = ProgramParts(hlo=True, variables=True)
ALL_FILES = ["hlo.txt", "lowered_vars.txt", "memory.txt", "program.tilestep"]


def write(folder: Path, parts: ProgramParts = EVERYTHING, *, mark: str = MARK, lines: str = "ab") -> None:
    notes = {"jax": "1.2.3", "engine_options": {"autoReport.all": True}}
    write_program(folder, replace(PLANNED, fingerprint=mark, lines=lines), parts, notes)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize(
    ("name", "folder"),
    [
        ("jit_step", "jit_step-01234567"),
        ("jit_<lambda>", "jit__lambda_-01234567"),
        ("../../etc", "_.._etc-01234567"),
        ("", "program-01234567"),
        ("...", "program-01234567"),
        ("a/b\0c\n", "a_b_c_-01234567"),
        ("schritt_\u00e4", "schritt__-01234567"),
        ("x" * 500, "x" * 100 + "-01234567"),
    ],
)
def test_the_folder_of_a_program_has_its_name_and_fingerprint(name: str, folder: str, tmp_path: Path) -> None:
    found = program_folder(tmp_path, name, MARK)
    assert found == tmp_path / "programs" / folder
    found.mkdir(parents=True)


def test_a_folder_has_the_parts_that_are_wanted(tmp_path: Path) -> None:
    write(tmp_path / "all")
    assert names(tmp_path / "all") == ALL_FILES
    assert (tmp_path / "all" / "hlo.txt").read_text() == TEXT
    write(tmp_path / "hlo", ProgramParts(memory=False, hlo=True))
    assert names(tmp_path / "hlo") == ["hlo.txt"]
    write(tmp_path / "variables", ProgramParts(memory=False, variables=True))
    assert names(tmp_path / "variables") == ["lowered_vars.txt"]
    write(tmp_path / "memory", ProgramParts())
    assert names(tmp_path / "memory") == ["memory.txt", "program.tilestep"]


def test_a_folder_without_lines_has_none_in_its_hlo_either(tmp_path: Path) -> None:
    text = TEXT.replace("\n", '\n\nFileNames\n1 "/home/me/train.py"\n\n', 1)
    for lines in (True, False):
        parts = ProgramParts(hlo=True, lines=lines)
        write_program(tmp_path, replace(PLANNED, lines="", hlo=text), parts, {})
        recorded = read_recording(tmp_path / "program.tilestep").text("hlo")
        assert ["train.py" in each for each in ((tmp_path / "hlo.txt").read_text(), recorded)] == [lines, lines]


def test_the_recording_of_a_program_has_its_compilation_and_nothing_else(tmp_path: Path) -> None:
    write(tmp_path)
    found = read_recording(tmp_path / "program.tilestep")
    assert {note: found.manifest[note] for note in ("kind", "fingerprint", "lines", "jax", "engine_options")} == {
        "kind": "program",
        "fingerprint": MARK,
        "lines": "ab",
        "jax": "1.2.3",
        "engine_options": {"autoReport.all": True},
    }
    assert found.column("programs", "key").tolist() == [7]
    assert found.rows("lives") == len(DETAIL.lives)
    assert found.rows("ticks") == len(DETAIL.steps)
    assert '"ipu.tile.sram_bytes"' in found.text("machine")
    assert not any(found.has(table) for table in ("runs", "events", "lanes", "calls"))


def test_a_folder_is_known_by_all_that_it_should_have(tmp_path: Path) -> None:
    def known(parts: ProgramParts = EVERYTHING, mark: str = MARK, lines: str = "ab") -> bool:
        return has_program(tmp_path, mark, parts, lines=lines)

    assert not known()
    write(tmp_path, ProgramParts())
    assert known(ProgramParts())
    assert not known()  # hlo.txt is missing
    write(tmp_path)
    assert known()
    assert known(ProgramParts(memory=False, hlo=True))
    assert not known(mark=MARK[:8] + "0" * 56)  # another program with a folder of that name
    assert not known(ProgramParts(lines=False))
    assert not known(lines="cd")  # somebody has edited the file above the program
    (tmp_path / "program.tilestep").write_bytes(b"PK damaged")
    assert not known()


def test_files_of_parts_that_are_turned_off_stay(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "hlo.txt").write_text("of an earlier run")
    write(tmp_path, ProgramParts(lines=False))
    assert names(tmp_path) == ALL_FILES
    assert (tmp_path / "hlo.txt").read_text() == "of an earlier run"
    assert read_recording(tmp_path / "program.tilestep").manifest["lines"] == ""


def test_equal_programs_give_equal_files(tmp_path: Path) -> None:
    write(tmp_path / "one")
    write(tmp_path / "two")
    assert [(tmp_path / "one" / name).read_bytes() for name in ALL_FILES] == [(tmp_path / "two" / name).read_bytes() for name in ALL_FILES]


def test_a_folder_that_cannot_be_written_names_its_file(tmp_path: Path) -> None:
    (tmp_path / "programs").touch()
    with pytest.raises(OSError, match="programs"):
        write(program_folder(tmp_path, "jit_step", MARK))
    (tmp_path / "folder" / "memory.txt").mkdir(parents=True)
    with pytest.raises(OSError, match=r"folder/memory\.txt"):
        write(tmp_path / "folder")


def test_a_program_that_a_full_disk_does_not_take_leaves_no_empty_folder(tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    old = tmp_path / "programs" / "old"
    old.mkdir(parents=True)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8, before[1]))  # bytes of a file
    try:
        for folder in (tmp_path / "programs" / "new", tmp_path / "new" / "programs" / "new", old):
            with pytest.raises(OSError, match=r"memory\.txt"):
                write(folder)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert names(tmp_path) == ["programs"]
    assert names(tmp_path / "programs") == ["old"]


def test_the_report_of_a_run_has_its_recording_if_there_is_one(tmp_path: Path) -> None:
    system = System(MACHINE, record=False)
    profile = profile_between(system, system.mark(), system.mark())
    write_report(profile, tmp_path)
    assert names(tmp_path) == ["profile.json", "summary.txt"]
    write_report(profile, tmp_path, recording=report_of(two_stages(), runs=2).tables)
    assert names(tmp_path) == ["profile.json", "report.html", "run.tilestep", "summary.txt"]
    before = os.stat(tmp_path / "run.tilestep").st_mtime_ns
    write_report(profile, tmp_path)
    assert os.stat(tmp_path / "run.tilestep").st_mtime_ns == before


def test_a_recording_that_cannot_be_read_again_leaves_the_other_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilestep.recording.storage.container.MOST_FILE_BYTES", 10)
    system = System(MACHINE, record=False)
    with pytest.raises(RecordingError, match="files of at most 10 B are read"):
        write_report(profile_between(system, system.mark(), system.mark()), tmp_path, recording=small_recording())
    assert names(tmp_path) == ["profile.json", "summary.txt"]


@pytest.mark.parametrize(
    ("error", "why"),
    [(RecordingError("the tree is damaged"), "the tree is damaged"), (ZeroDivisionError("of a view"), "ZeroDivisionError: of a view")],
)
def test_whatever_a_page_fails_by_the_recording_is_written(
    error: Exception, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> str:
        raise error

    system = System(MACHINE, record=False)
    profile = profile_between(system, system.mark(), system.mark())
    folder = tmp_path / "of a run"
    folder.mkdir()
    (folder / "report.html").touch()
    monkeypatch.setattr("tilestep.views.page.page_html", fail)
    assert write_report(profile, folder, recording=small_recording()) == (
        f"{folder}/report.html is not written (the file there is of an earlier run): {why}; run.tilestep is: "
        f"`tilestep report html '{folder}' -o FILE` makes a page of it"
    )
    assert read_recording(folder / "run.tilestep").manifest["kind"] == "run"
