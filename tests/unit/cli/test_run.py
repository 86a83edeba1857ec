"""`tilestep run` is `python` with another platform and a summary."""

import argparse
import contextlib
import functools
import json
import re
import signal
import subprocess
import sys
import textwrap
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from tests import processes
from tests.in_turn import RunPython
from tests.processes import ROOT, clean_environ
from tests.unit.views.page.test_block import unpacked
from tests.unit.views.page.test_document import parts
from tilestep.cli import main, make_parser
from tilestep.cli.run import FLAGS, TAKE_A_VALUE, environ_of, split_words
from tilestep.figures.comparison import compare
from tilestep.figures.reader import open_report
from tilestep.recording.storage.container import read_recording

WHO_AM_I = """
import sys, threading
main = sys.modules["__main__"]
print(sys.argv, sys.path[0])
print(__name__, globals().get("__file__"), __spec__ and __spec__.name, __package__, main.__dict__ is globals(), type(__builtins__).__name__)
threading.Thread(target=lambda: print("thread done"), daemon=False).start()
"""
NOTHING_RAN = "tilestep: nothing ran on bow-2000"


TilestepRun = Callable[..., CompletedProcess[str]]


@pytest.fixture
def tilestep_run(run_python: RunPython) -> TilestepRun:
    return functools.partial(run_python, "-m", "tilestep", "run")


@contextlib.contextmanager
def started(words: Sequence[str]) -> Iterator[subprocess.Popen[str]]:
    """A process that has ended behind the block, also if the test fails."""
    with subprocess.Popen(words, cwd=ROOT, env=clean_environ(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        try:
            yield child
        finally:
            child.kill()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "script.py").write_text(WHO_AM_I)
    (tmp_path / "linked.py").symlink_to(tmp_path / "script.py")
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "__main__.py").write_text(WHO_AM_I)
    with zipfile.ZipFile(tmp_path / "app.zip", "w") as archive:
        archive.writestr("__main__.py", WHO_AM_I)
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("")
    (tmp_path / "package" / "__main__.py").write_text(WHO_AM_I)
    (tmp_path / "package" / "inner.py").write_text(WHO_AM_I)
    return tmp_path


@pytest.mark.process
def test_ctrl_c_from_outside_prints_the_summary_and_gives_130(tmp_path: Path) -> None:
    script = tmp_path / "sleeps.py"
    script.write_text("import jax, time\njax.jit(lambda x: x + 1)(1.0).block_until_ready()\nprint('ready', flush=True)\ntime.sleep(60)\n")
    words = (sys.executable, "-m", "tilestep", "run", str(script))
    with started(words) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        child.send_signal(signal.SIGINT)
        _, told = child.communicate(timeout=60)
    assert child.returncode == 130
    assert "KeyboardInterrupt" in told
    assert "\nEnded by Ctrl-C: these are the figures of what ran until then.\n" in told


@pytest.mark.slow
@pytest.mark.process
def test_sigterm_from_outside_writes_the_report_though_threads_go_on(tmp_path: Path) -> None:
    script = tmp_path / "sleeps.py"
    waits = "import threading, time\nthreading.Thread(target=time.sleep, args=(60,)).start()\nprint('ready', flush=True)\ntime.sleep(60)"
    script.write_text(f"{TRAINS}\n{waits}")
    with started((sys.executable, "-m", "tilestep", "run", "--report", str(tmp_path), str(script))) as child:
        assert child.stdout is not None
        while child.stdout.readline() != "ready\n":
            pass
        child.terminate()
        _, told = child.communicate(timeout=60)
    assert child.returncode == -signal.SIGTERM, "as under python"
    assert told.endswith(f"tilestep run: {tmp_path}/report.html shows this run in a browser\n")
    assert "Traceback" not in told
    assert "\nEnded by SIGTERM: these are the figures of what ran until then.\n" in told
    document = json.loads((tmp_path / "profile.json").read_text())
    assert document["ended_by"] == "SIGTERM"
    [step] = [each for each in document["programs"] if each["donated"]]
    assert step["runs"] == 3
    kept = open_report(tmp_path)
    assert compare(kept, kept).ended_by == ("SIGTERM", "SIGTERM")


def test_ctrl_c_while_the_summary_prints_ends_it_without_a_traceback(tmp_path: Path, tilestep_run: TilestepRun) -> None:
    interrupted = """
        import os, signal, time
        from tilestep.views.profile import Profile
        own = Profile.summary
        def summary(self, **_):
            Profile.summary = own
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(60)
        Profile.summary = summary
    """
    done = tilestep_run("-c", textwrap.dedent(interrupted))
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")
    done = tilestep_run("--report", str(tmp_path / "report"), "-c", textwrap.dedent(interrupted))
    said = f"tilestep run: Ctrl-C came while the run was summed up: {tmp_path / 'report'} may be missing or incomplete\n"
    assert (done.returncode, done.stdout, done.stderr) == (130, "", said)


@pytest.mark.parametrize("option", ["--report", "--json"])
def test_an_output_that_is_named_twice_is_refused(option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["run", option, str(tmp_path / "a"), option, str(tmp_path / "b"), "-c", "print(1)"])
    out, err = capsys.readouterr()
    assert (end.value.code, out) == (2, "")
    assert f"argument {option}: it is given twice: '{tmp_path / 'a'}' and '{tmp_path / 'b'}'" in err
    assert not list(tmp_path.iterdir())


@pytest.mark.process
def test_forks_of_the_program_end_as_under_python_and_print_no_summary() -> None:
    """The profile goes to a pipe, behind what the program prints."""
    forks = """
        import os, signal, sys, time
        if os.fork() == 0:
            sys.exit(5)
        print(os.waitstatus_to_exitcode(os.wait()[1]))
        if not (child := os.fork()):
            time.sleep(60)
            os._exit(0)
        os.kill(child, signal.SIGTERM)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """
    done = processes.run_python("-m", "tilestep", "run", "--json", "/dev/stdout", "-c", textwrap.dedent(forks))
    *printed, profile = done.stdout.splitlines()
    assert (done.returncode, printed, json.loads(profile)["schema"]) == (0, ["5", str(-signal.SIGTERM)], "tilestep-profile"), done.stderr
    assert done.stderr.count(NOTHING_RAN) == 1
    assert done.stderr.endswith(
        "tilestep run: the program forked; what its other processes ran is not counted: tilestep.profile(DIR) in one of them reports it\n"
    )


TRAINS = """
import os, sys
import jax, numpy as np
print(jax.devices()[0].platform, len(jax.devices()), jax.devices()[0].num_tiles, len(jax.devices("cpu")))
step = jax.jit(lambda state, x: (state + x, state.sum()), donate_argnums=0)
state = np.zeros(16, np.float32)
for _ in range(3):
    state, total = step(state, np.ones(16, np.float32))
print(state[0], total)
if len(sys.argv) > 1:
    raise RuntimeError(sys.argv[1])
"""


def test_findings_that_save_little_are_named_if_all_are_asked_for(tilestep_run: TilestepRun) -> None:
    """A result of four bytes that nobody reads."""
    code = (
        "import jax, numpy as np\nf = jax.jit(lambda x: (x.sum(), x.max()))\n"
        "for _ in range(5):\n    total, most = f(np.ones(100000, np.float32))\n    float(total)"
    )
    some, every = (tilestep_run(*flags, "-c", code).stderr for flags in ((), ("--all",)))
    assert "do not return" not in some
    assert "do not return f32[] from jit__lambda" in every


def test_figures_are_followed_by_how_sure_they_are_unless_nobody_wants_that(tmp_path: Path, tilestep_run: TilestepRun) -> None:
    sure, alone = tmp_path / "sure", tmp_path / "alone"
    for flags, folder, there in (((), sure, True), (("--no-intervals",), alone, False)):
        done = tilestep_run("--report", str(folder), *flags, "-c", TRAINS)
        assert done.returncode == 0, done.stderr
        assert ("80 % sure: " in done.stderr) == there
        recorded = json.loads(read_recording(folder / "run.tilestep").text("profile"))
        for document in (recorded, json.loads((folder / "profile.json").read_text())):
            assert (document["interval"] is not None) == there


@pytest.mark.door
def test_options_choose_the_machine_and_where_the_profile_goes(tmp_path: Path, tilestep_run: TilestepRun) -> None:
    document, report = tmp_path / "profile.json", tmp_path / "new" / "report"
    done = tilestep_run(
        "--machine", "m2000", "--ipus", "2", "--tiles", "16", "--json", str(document), "--report", str(report), "-c", TRAINS,
        environ={"JAX_PLATFORMS": "cpu", "JAX_IPU_DEVICE_COUNT": "3"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout == "ipu 2 16 1\n3.0 32.0\n"
    assert "emulated on m2000 (2 IPUs of 16 tiles, 1.33 GHz)" in done.stderr
    profile = json.loads(document.read_text())
    assert json.loads((report / "profile.json").read_text()) == profile
    assert (report / "summary.txt").read_text().strip() in done.stderr
    assert done.stderr.endswith(f"tilestep run: {report}/report.html shows this run in a browser\n")
    [step] = [program for program in profile["programs"] if len(program["donated"]) == 1]
    assert (step["runs"], step["host_bytes_in"], step["first_run_host_bytes_in"]) == (3, 64, 128)
    assert profile["machine"]["num_ipus"] == 2


DOES_NOT_FIT = """
def too_large():
    return jax.numpy.ones((30000, 30000))
try:
    jax.jit(too_large)()
except jax.errors.JaxRuntimeError as error:
    assert "memory.txt" in str(error)
else:
    raise SystemExit(9)
"""


def test_a_report_has_the_source_unless_it_is_to_be_left_out_of_every_file(tmp_path: Path, tilestep_run: TilestepRun) -> None:
    script = tmp_path / "secret.py"
    script.write_text(TRAINS + DOES_NOT_FIT)
    with_source, without = tmp_path / "with", tmp_path / "without"
    for flags, folder in (((), with_source), (("--no-source",), without)):
        done = tilestep_run("--report", str(folder), *flags, str(script))
        assert done.returncode == 0, done.stderr
        assert "(secret.py:" in done.stderr  # the terminal is the user's own
    kept, left_out = (read_recording(folder / "run.tilestep") for folder in (with_source, without))
    assert json.loads(kept.text("sources")) == {str(script): script.read_text()}
    assert left_out.text("sources") == ""
    shown = page_text(with_source / "report.html")
    code = [json.dumps(line, ensure_ascii=False)[1:-1] for line in script.read_text().splitlines() if len(line) > 12]
    assert [text for text in ("secret", *code) if text not in shown] == []
    assert_nothing_is_named(without, script, at_least=("memory.txt", "program.tilestep", "report.html", "profile.json", "summary.txt"))


def assert_nothing_is_named(report: Path, script: Path, *, at_least: tuple[str, ...]) -> None:
    """No file of a report, and no member of a recording, has a line, a file or a folder of the script."""
    files = [path for path in report.rglob("*") if path.is_file()]
    assert {path.name for path in files} >= set(at_least)
    texts = {str(path): page_text(path) if path.suffix == ".html" else path.read_bytes().decode("latin-1") for path in files}
    for path in files:
        if path.suffix == ".tilestep":
            with zipfile.ZipFile(path) as archive:
                texts |= {f"{path}: {name}": archive.read(name).decode("latin-1") for name in archive.namelist()}
    told = ("secret", script.parent.name, "pytest-of-", *(line for line in script.read_text().splitlines() if len(line) > 12))
    written = [form for text in told for form in (text, json.dumps(text)[1:-1])]
    assert [(where, form) for where, text in texts.items() for form in written if form in text] == []


def page_text(path: Path) -> str:
    """All that a page holds, its data unpacked."""
    text = path.read_text()
    return text + "".join(unpacked(block)[1].decode("latin-1") for name, block in parts(text).items() if name != "page")


def test_a_run_whose_page_cannot_be_written_keeps_its_recording_and_its_exit_status(tmp_path: Path, tilestep_run: TilestepRun) -> None:
    (tmp_path / "report.html").mkdir()
    done = tilestep_run("--report", str(tmp_path), "-c", "raise SystemExit(7)")
    why = f"{tmp_path}/report.html is not written: Is a directory"
    assert done.returncode == 7
    assert done.stderr.endswith(f"tilestep run: {why}; run.tilestep is: `tilestep report html {tmp_path} -o FILE` makes a page of it\n")
    assert read_recording(tmp_path / "run.tilestep").manifest["kind"] == "run"


def test_a_report_is_written_though_the_script_removes_its_directory(tmp_path: Path, tilestep_run: TilestepRun) -> None:
    done = tilestep_run("--report", str(tmp_path / "out"), "-c", f"import shutil; shutil.rmtree({str(tmp_path / 'out')!r})")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out" / "report.html").exists()


@pytest.mark.parametrize(
    ("json_name", "message"),
    [
        ("out/run.tilestep", "would both write run.tilestep there: name another file"),
        ("link/../out/report.html", "would both write report.html there: name another file"),
        ("link/profile.json", "would both write profile.json there: name another file"),
        ("out", "is the directory of --report: name a file"),
    ],
)
def test_two_outputs_of_one_name_are_refused_before_anything_runs(
    tmp_path: Path, json_name: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "out")
    if json_name != "out":
        (tmp_path / "out").mkdir()
    assert main(["run", "--report", str(tmp_path / "out"), "--json", str(tmp_path / json_name), "-c", "print('ran')"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert f"--json {tmp_path / json_name} " in err
    assert message in err
    assert list((tmp_path / "out").iterdir()) == []


def test_options_that_need_others_are_refused_before_anything_runs(capsys: pytest.CaptureFixture[str]) -> None:
    for words, said in (
        (["--no-source"], "--no-source says what a recording leaves out; it goes with --report"),
        (["--trip-count", "5"], "--trip-count says what a dry run cannot know; it goes with --dry-run"),
        (["--propose-stages", "2"], "--propose-stages is about the sessions of a PopART program; it goes with --popart"),
    ):
        assert main(["run", *words, "-c", "print(1)"]) == 2
        assert capsys.readouterr() == ("", f"tilestep run: {said}\n")


ON_TWO = """
import jax, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
over = NamedSharding(Mesh(np.array(jax.devices()), "i"), PartitionSpec("i"))
double = jax.jit(lambda x: 2 * x)
for _ in range(3):
    result = double(jax.device_put(np.ones((2, 100_000), np.float32), over))
print(float(result.sum()))
"""


def test_what_is_left_out_has_no_values(tilestep_run: TilestepRun) -> None:
    done = tilestep_run("--machine", "bow-pod16", "--simulated-ipus", "4", "-c", "1")
    assert (done.returncode, "it goes with --dry-run" in done.stderr) == (2, True), done.stderr
    done = tilestep_run("--machine", "bow-pod16", "--simulated-ipus", "3", "--dry-run", "-c", "1")
    assert (done.returncode, "simulated_ipus is 3: it must divide the number of IPUs of bow-pod16" in done.stderr) == (2, True), done.stderr


def test_the_ipus_of_the_environment_are_those_of_which_a_part_is_simulated() -> None:
    options = argparse.Namespace(machine="c600", ipus=None, tiles=None, sync_pattern=None, simulated_ipus=2)
    assert environ_of(options, {"JAX_IPU_DEVICE_COUNT": "8"})["TILESTEP_SIMULATED_IPUS"] == "2"


def test_a_sync_pattern_says_who_waits_at_an_access_to_the_host(tmp_path: Path, tilestep_run: TilestepRun) -> None:
    profiles: dict[str, dict[str, Any]] = {}
    for pattern in ("full", "singlePipeline"):
        document = tmp_path / f"{pattern}.json"
        done = tilestep_run("--ipus", "2", "--sync-pattern", pattern, "--json", str(document), "-c", ON_TWO)
        assert (done.returncode, done.stdout) == (0, "400000.0\n"), done.stderr
        profiles[pattern] = json.loads(document.read_text())
    assert [profiles[pattern]["machine"]["sync_pattern"] for pattern in profiles] == ["full", "singlePipeline"]
    starts = {
        pattern: [row[1] for row in profile["timeline"]["rows"] if row[3] == "compute" and "lambda" in row[4]]
        for pattern, profile in profiles.items()
    }
    assert [len(set(found)) for found in starts.values()] == [3, 6]  # both at once, or each when it has its part
    assert profiles["singlePipeline"]["emulated_cycles"] < profiles["full"]["emulated_cycles"]


def test_an_exception_keeps_its_traceback_its_exit_code_and_the_summary(tmp_path: Path, tilestep_run: TilestepRun) -> None:
    script = tmp_path / "trains.py"
    script.write_text(TRAINS)
    done = tilestep_run(str(script), "boom")
    assert done.returncode == 1
    told, _, summary = done.stderr.partition("\ntilestep: ")
    assert "forked" not in told
    assert "tilestep.popart" not in done.stderr
    assert told.startswith(f'Traceback (most recent call last):\n  File "{script}", line 11, in <module>\n')
    assert told.endswith("RuntimeError: boom\n")
    assert "emulated on bow-2000 (4 IPUs of 1,472 tiles, 1.85 GHz)" in summary


def test_a_recording_plays_on_another_machine_as_the_program_runs_there(
    tmp_path: Path, tilestep_run: TilestepRun, capsys: pytest.CaptureFixture[str]
) -> None:
    code = "import jax\nf = jax.jit(lambda x: (x @ x) / 512)\nx = jax.numpy.ones((512, 512))\nfor _ in range(3):\n  x = f(x)"
    assert tilestep_run("--machine", "m2000", "--report", str(tmp_path / "here"), "-c", code).returncode == 0
    assert tilestep_run("--machine", "bow-pod16", "--json", str(tmp_path / "there.json"), "-c", code).returncode == 0
    assert main(["report", "what-if", str(tmp_path / "here"), "--machine", "bow-pod16", "--json"]) == 0
    told, there = json.loads(capsys.readouterr().out), json.loads((tmp_path / "there.json").read_text(encoding="utf-8"))
    assert (told["machine"], told["turned_cycles"]) == ("bow-pod16", there["emulated_cycles"])
    assert told["turned_s"] == there["emulated_s"]
    assert "jit__lambda" in told["planned_again"]


def test_a_program_that_does_not_fit_keeps_its_error_and_is_told_what_would_make_it_fit(tilestep_run: TilestepRun) -> None:
    done = tilestep_run("-c", "import jax\njax.jit(lambda x: x @ x).lower(jax.ShapeDtypeStruct((20_000, 20_000), 'float32')).compile()")
    assert done.returncode == 1
    told, _, summary = done.stderr.partition("\ntilestep: ")
    assert "TileMemoryError: tile 0 needs 3,408,309 B" in told
    head = " ".join(summary.partition("\n\n")[0].split())
    assert head == (
        "does not fit: jit__lambda needs 3.25 MiB of the 624 KiB of tile 0 of IPU 0 (533 %, 2,769,333 B too many), so it never ran "
        "Nothing ran on bow-2000 (4 IPUs of 1,472 tiles, 1.85 GHz)."
    )
    assert "\nWhat to do\n  1. divide x along axis 1 over 4 IPUs" in summary
    assert "All together neither: all of it divided needs 6 IPUs or more (bow-pod16); or a Pipeline" in " ".join(summary.split())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "SCRIPT, -m MODULE or -c CODE must say what to run\nusage: tilestep run ["),
        (["-m"], "-m must be followed by what to run"),
        (["-c"], "-c must be followed by what to run"),
        (["nowhere.py"], "there is no file 'nowhere.py' in "),
        (["--"], "SCRIPT, -m MODULE or -c CODE must say what to run"),
        (["docs"], "directory 'docs' has no __main__.py; name the file to run"),
        (["-m", "no_such_module.inner"], "there is no module 'no_such_module' in "),
        (["--machine", "ipu-9000", "-c", "0"], "--machine: "),
        (
            ["--json", "nowhere/p.json", "-c", "0"],
            "--json nowhere/p.json: No such file or directory; name a file in a directory that exists",
        ),
        (["--report", "README.md/x", "-c", "0"], "--report README.md/x: Not a directory; name a directory that can be written to"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_mistakes_are_found_before_anything_runs(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    assert main(["run", *words]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("tilestep run: ")
    assert message in captured.err


@pytest.mark.parametrize("words", [["run", "--json", "", "-c", "0"], ["run", "--report", "", "-c", "0"], ["onnx", ""]], ids=" ".join)
def test_an_empty_name_is_no_file(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(words)
    assert end.value.code == 2
    assert "the name is empty: name a file or a directory" in capsys.readouterr().err


@pytest.mark.parametrize(("option", "value"), [("--ipus", "0"), ("--ipus", "257"), ("--ipus", "two"), ("--tiles", "0"), ("--tiles", "1.5")])
def test_numbers_out_of_range_name_the_bound(option: str, value: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["run", option, value, "-c", "0"])
    assert end.value.code == 2
    bound = "256" if option == "--ipus" else "100,000"
    assert f"argument {option}: {value!r} must be a whole number, 1 to {bound}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("variable", "value"),
    [("TILESTEP_SYNC_PATTERN", "Full"), ("TILESTEP_MACHINE", "nope"), ("JAX_IPU_DEVICE_COUNT", "-1"), ("POPLAR_ENGINE_OPTIONS", "{")],
)
def test_bad_variables_are_found_before_anything_runs(
    variable: str, value: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)
    assert main(["run", "-c", "0"]) == 2
    assert f"tilestep run: {variable}" in capsys.readouterr().err


def test_a_machine_file_is_found_after_the_program_changes_directory(tmp_path: Path, tilestep_run: TilestepRun) -> None:
    (tmp_path / "mine.toml").write_text('inherits = "bow-2000"\n[ipu]\nnum_tiles = 7\n')
    code = "import os; os.chdir('/'); import jax; print(jax.devices()[0].num_tiles)"
    ours = tilestep_run("--machine", "mine.toml", "-c", code, folder=tmp_path)
    assert (ours.returncode, ours.stdout) == (0, "7\n"), ours.stderr


@pytest.mark.parametrize(
    ("own", "program"),
    [
        ([], ["s.py", "-m", "x", "--ipus", "2"]),
        (["--ipus", "2"], ["-m", "x", "s.py", "--ipus", "3"]),
        (["--json=a b", "--machine", "-c"], ["-c", "0", "--", "-h"]),
        (["--report", "d"], ["--", "-s.py", "--json", "f"]),
        (["--jsn"], ["x"]),
        ([], ["-mx", "--ipus", "2"]),
        (["--help"], []),
    ],
)
def test_what_follows_belongs_to_the_program(own: list[str], program: list[str]) -> None:
    args = make_parser().parse_args(["run", *own, *program])
    assert split_words(args.words) == (own, program)


def test_an_unknown_option_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["run", "--jsn", "x", "s.py"])
    assert end.value.code == 2
    assert "tilestep run: error: unrecognized arguments: --jsn" in capsys.readouterr().err


def test_two_dashes_end_the_options(tmp_path: Path, tilestep_run: TilestepRun) -> None:
    (tmp_path / "-odd.py").write_text("import sys; print(sys.argv)")
    ours = tilestep_run("--", "-odd.py", "--", "x", folder=tmp_path)
    assert ours.stdout == "['-odd.py', '--', 'x']\n", ours.stderr


LOOP = "import jax, jax.numpy as jnp; print(jax.lax.while_loop(lambda v: v.sum() < 100, lambda v: v * 2, jnp.ones((4, 4))).shape)"


def test_a_dry_run_computes_nothing_and_needs_to_be_told_how_often_loops_run(tilestep_run: TilestepRun) -> None:
    told = tilestep_run("--dry-run", "--trip-count", "5", "-c", LOOP)
    assert (told.returncode, told.stdout) == (0, "(4, 4)\n")
    assert "run 5 times (trip_count)" in " ".join(told.stderr.split())
    untold = tilestep_run("--dry-run", "-c", LOOP)
    assert (untold.returncode, untold.stdout) == (1, "")
    assert "a dry run has no data" in " ".join(untold.stderr.split())


READS = "import jax.numpy as jnp; print(float(jnp.ones((4, 4)).sum()))"


def test_a_value_that_a_dry_run_reads_is_an_error_that_names_the_flag_for_zeros(tilestep_run: TilestepRun) -> None:
    refused = tilestep_run("--dry-run", "-c", READS)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "`tilestep run --dry-run=zeros`" in refused.stderr
    zeros = tilestep_run("--dry-run=zeros", "-c", READS)
    assert (zeros.returncode, zeros.stdout) == (0, "0.0\n")
    assert tilestep_run("--dry-run=ones", "-c", READS).returncode == 2


def test_a_module_within_a_module_ends_as_under_python_without_a_traceback(tmp_path: Path, tilestep_run: TilestepRun) -> None:
    own, python = (run("-m", "os.path.x", folder=tmp_path) for run in (tilestep_run, processes.run_python))
    assert own.returncode == python.returncode == 1
    assert own.stderr.startswith(python.stderr)


def test_an_option_that_the_program_refused_is_told_to_come_before_it(tilestep_run: TilestepRun) -> None:
    for code, word, is_told in ((2, "--report=r", True), (2, "--json", True), (2, "--jsn", False), (1, "--report", False)):
        done = tilestep_run("-c", f"raise SystemExit({code})", word)
        assert done.returncode == code
        option = word.partition("=")[0]
        said = (
            f"tilestep run: {option} stands after the program, so it is the program's own; where `tilestep run` is meant, put it before\n"
        )
        assert (said in done.stderr) is is_told, word
        assert ("stands after" in done.stderr) is is_told, word


def test_an_output_that_the_program_did_not_write_is_told_to_be_named_before_it(tilestep_run: TilestepRun) -> None:
    for words, is_told in (
        (("--report", "there"), True),
        (("--json=there",), True),
        (("--report", "."), False),
        (("--report", "--x"), False),
    ):
        done = tilestep_run("-c", "0", *words)
        assert (done.returncode, "stands after the program" in done.stderr) == (0, is_told), words


def test_each_option_may_be_told_so(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["run", "--help"])
    assert set(re.findall(r"^  (--[a-z-]+)", capsys.readouterr().out, re.MULTILINE)) == {*TAKE_A_VALUE, *FLAGS}
