"""The files of a profile: whole or not there, never through a link. A disk without room does not change how a program ends."""

import json
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.in_turn import attempt, python
from tests.processes import PROCESS_TIMEOUT_WALL_S, clean_environ

ADDS = "import jax; jax.device_put(1.0, jax.devices('ipu')[0]) + 1"
DISK_BYTES = 2**16
IN_NAMESPACE = ("unshare", "--user", "--map-root-user", "--mount", "bash", "-euc")
NO_ROOM = "profile.json cannot be written: No space left on device\n"


def auto_report(directory: object) -> str:
    return json.dumps({"autoReport.all": "true", "autoReport.directory": str(directory)})


@pytest.fixture
def full_disk(tmp_path: Path) -> Path:
    """Where `on_full_disk` mounts a file system and fills it."""
    folder = tmp_path / "small"
    folder.mkdir()
    if shutil.which("unshare") is None:
        pytest.skip("mounting a small file system needs unshare")
    tried = subprocess.run((*IN_NAMESPACE, f"mount -t tmpfs -o size={DISK_BYTES} none {folder}"), capture_output=True, check=False)
    if tried.returncode:
        pytest.skip(f"this user may not mount a small file system: {tried.stderr.decode().strip()}")
    return folder


def on_full_disk(folder: Path, *words: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """Runs python where `folder` is a full file system with an old profile.json; what is there in the end is printed last."""
    script = f"""
        mount -t tmpfs -o size={DISK_BYTES} none {folder}
        echo old > {folder}/profile.json
        set +e
        head -c {2 * DISK_BYTES} /dev/zero > {folder}/filling 2> /dev/null
        {shlex.join([sys.executable, *words])}
        status=$?
        ls -A {folder}
        cat {folder}/profile.json
        exit $status
    """
    return subprocess.run(
        (*IN_NAMESPACE, script), env=clean_environ(settings), capture_output=True, text=True, timeout=PROCESS_TIMEOUT_WALL_S, check=False
    )


def test_reports_without_room_are_an_error_of_the_block_and_a_line_at_the_end_and_the_exit_status_stays(full_disk: Path) -> None:
    code = f"""
import tilestep
try:
    with tilestep.profile({str(full_disk)!r}) as found: {ADDS}
except OSError as error: print(error.filename, error.strerror, found.dispatches)
1 / 0
"""
    ended = on_full_disk(full_disk, "-c", code, POPLAR_ENGINE_OPTIONS=auto_report(full_disk))
    told = f"{full_disk}/profile.json No space left on device 1\n"
    assert (ended.returncode, ended.stdout) == (1, f"{told}filling\nprofile.json\nold\n")
    assert ended.stderr.endswith(f"tilestep: POPLAR_ENGINE_OPTIONS: autoReport.directory: {full_disk}/{NO_ROOM}")
    assert ended.stderr.count("Traceback") == 1


@pytest.mark.slow
@pytest.mark.parametrize("option", ["--json={}/profile.json", "--report={}"])
def test_a_profile_of_a_run_without_room_is_a_line_and_an_exit_status(option: str, full_disk: Path) -> None:
    ended = on_full_disk(full_disk, "-m", "tilestep", "run", option.format(full_disk), "-c", ADDS)
    assert (ended.returncode, ended.stdout) == (1, "filling\nprofile.json\nold\n"), ended.stderr
    assert ended.stderr.endswith(f"tilestep run: the profile could not be written: {full_disk}/profile.json: No space left on device\n")
    assert "Traceback" not in ended.stderr


def test_an_automatic_report_without_its_page_is_a_line_and_the_recording_is_there(tmp_path: Path) -> None:
    (tmp_path / "report.html").mkdir()
    ended = attempt(ADDS, strict=False, POPLAR_ENGINE_OPTIONS=auto_report(tmp_path))
    told = f"tilestep: POPLAR_ENGINE_OPTIONS: autoReport.directory: {tmp_path}/report.html is not written: Is a directory; "
    assert (ended.returncode, ended.stderr.splitlines()[-1].startswith(told)) == (0, True), ended.stderr
    assert (tmp_path / "run.tilestep").is_file()


def test_links_in_the_place_of_a_report_s_files_are_replaced(tmp_path: Path) -> None:
    report = tmp_path / "report"
    report.mkdir()
    for name in ("profile.json", "report.html", "summary.txt", "run.tilestep"):
        (tmp_path / name).write_text("the user's")
        (report / name).symlink_to(tmp_path / name)
    (report / ".tilestep-probe").write_text("the user's")
    python(ADDS, POPLAR_ENGINE_OPTIONS=auto_report(report))
    assert sorted(path.name for path in report.iterdir()) == [
        ".tilestep-probe",
        "profile.json",
        "programs",
        "report.html",
        "run.tilestep",
        "summary.txt",
    ]
    assert json.loads((report / "profile.json").read_text())["programs"]
    assert (report / "summary.txt").read_text().startswith("tilestep: ")
    for path in (
        tmp_path / "profile.json",
        tmp_path / "report.html",
        tmp_path / "summary.txt",
        tmp_path / "run.tilestep",
        report / ".tilestep-probe",
    ):
        assert path.read_text() == "the user's"


@pytest.mark.slow
def test_processes_that_report_into_one_directory_leave_whole_files(tmp_path: Path) -> None:
    settings = clean_environ({"POPLAR_ENGINE_OPTIONS": auto_report(tmp_path / "report")})
    several = [subprocess.Popen((sys.executable, "-c", ADDS), env=settings, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    ends = [(process.communicate(timeout=PROCESS_TIMEOUT_WALL_S)[1], process.returncode) for process in several]
    assert ends == [("", 0)] * 2
    assert sorted(path.name for path in (tmp_path / "report").iterdir()) == [
        "profile.json",
        "programs",
        "report.html",
        "run.tilestep",
        "summary.txt",
    ]
    for program in (tmp_path / "report" / "programs").iterdir():
        assert sorted(path.name for path in program.iterdir()) == ["memory.txt", "program.tilestep"]
    assert json.loads((tmp_path / "report" / "profile.json").read_text())["dispatches"] == 1
