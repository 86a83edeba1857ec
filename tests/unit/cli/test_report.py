"""`tilestep report`: what its commands print, where, and with which exit code."""

import contextlib
import io
import json
import re
from pathlib import Path

import pytest

import tilestep
from tests.unit.figures.reader.recorded import journaled, larger, liveness, recorded, run_of, step, two_stages
from tests.unit.figures.reader.test_system import traced
from tests.unit.recording.recordings import members_of, zipped
from tests.unit.sim.toy import Host, program
from tilestep.cli import main
from tilestep.profiling.measure import profile_between
from tilestep.recording.storage.container import write_recording


@pytest.fixture
def runs(tmp_path: Path) -> dict[str, str]:
    """Recordings: of 5 trips, of 6 trips, of a trace of the host."""
    for name, trips in (("five", 5), ("six", 6)):
        host = run_of(two_stages(trips=trips), runs=3)
        called = host._programs[0]
        profile = profile_between(host.system, host.start, host.system.mark()).as_document()
        write_recording(tmp_path / f"{name}.tilestep", recorded(host, [called], {called.name: liveness()}, profile=profile))
    write_recording(tmp_path / "trace.tilestep", traced().tables())
    return {name: str(tmp_path / f"{name}.tilestep") for name in ("five", "six", "trace")}


def test_show_says_of_how_many_programs_the_lives_are_known(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    host = run_of(two_stages())
    known, other = host._programs[0], program(step("other", "", 1), name="other")
    host.run(other)
    write_recording(tmp_path / "run.tilestep", recorded(host, [known, other], {known.name: liveness()}))
    assert main(["report", "show", str(tmp_path)]) == 0
    assert "\nThe lives of values are those of 1 of 2 programs; of others only the peak.\n" in capsys.readouterr().out


def test_show_prints_a_trace_of_the_host(runs: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "show", runs["trace"]]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"recording of tilestep {tilestep.__version__} with system\n")
    assert "MainThread" in out
    assert "Programs" not in out


def test_compare_of_equal_recordings_says_so(runs: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "compare", runs["five"], runs["five"], "--fail-above", "0"]) == 0
    assert "No cycle and no byte differs." in capsys.readouterr().out


@pytest.fixture
def many(tmp_path: Path) -> tuple[str, str]:
    """Two recordings of three programs, and of others: nine in the first and one in the second. Two have one name."""
    for name, changed, others in (("a", 10, 9), ("b", 14, 1)):
        host = Host(on=larger())
        programs = [program(step(each, "", 10), name=each) for each in ("equal", "twice")]
        programs += [program(step("changed", "", changed), name="twice")]
        programs += [program(step("other", "", 1 + index), name=f"of_{name}_{index}") for index in range(others)]
        for called in programs:
            host.run(called)
        write_recording(tmp_path / f"{name}.tilestep", recorded(host, programs))
    return str(tmp_path / "a.tilestep"), str(tmp_path / "b.tilestep")


def test_compare_leaves_equal_programs_out_and_sums_up_those_of_one_recording(
    many: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", "compare", *many]) == 0
    out = capsys.readouterr().out
    assert re.search(r"^twice #3 +name +cycles/run +10 +14 +\+4 \+40.00 % *$", out, re.MULTILINE)
    assert "2 programs of 3 in both without a difference; --all shows them\n" in out
    assert re.search(r"^Only in A: 9 programs with [\d,]+ cycles in 9 runs$", out, re.MULTILINE)
    assert re.search(r"^Only in B: 1 program with [\d,]+ cycles in 1 run$", out, re.MULTILINE)
    assert re.findall(r"^of_\w+", out, re.MULTILINE) == ["of_a_8", "of_a_7", "of_a_6", "of_a_5", "of_a_4", "of_b_0"]
    assert "and 4 more rows; --all shows them\n" in out
    assert "equal" not in out


def test_compare_with_all_prints_every_row(many: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "compare", *many, "--all"]) == 0
    out = capsys.readouterr().out
    assert "--all" not in out
    for row in ("equal", "twice #2", "twice #3", *(f"of_a_{index}" for index in range(9)), "of_b_0"):
        assert f"\n{row} " in out
    assert main(["report", "compare", *many, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [each["label"] for each in document["programs"]][:3] == ["twice #3", "equal", "twice #2"]
    assert len(document["programs"]) == 3 + 9 + 1


@pytest.mark.parametrize(("bound", "code"), [(None, 0), ("0", 1), ("2%", 1), ("2 %", 1), ("90.5%", 0)])
def test_compare_fails_where_the_second_is_slower(
    runs: dict[str, str], capsys: pytest.CaptureFixture[str], bound: str | None, code: int
) -> None:
    arguments = [] if bound is None else ["--fail-above", bound]
    assert main(["report", "compare", runs["five"], runs["six"], *arguments]) == code
    out, err = capsys.readouterr()
    assert "No cycle" not in out
    assert "train.py:3" in out
    assert ("slower by more than" in err) is bool(code)
    assert main(["report", "compare", runs["six"], runs["five"], *arguments]) == 0


def test_compare_as_json_has_relative_changes(runs: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "compare", runs["five"], runs["six"], "--json", "--fail-above", "1%"]) == 1
    document = json.loads(capsys.readouterr().out)
    cycles = document["programs"][0]["cycles_per_run"]
    assert cycles["b"] - cycles["a"] == 21
    assert cycles["relative"] == pytest.approx(cycles["b"] / cycles["a"] - 1)
    assert "program 'two_stages'" in document["slower"]


def test_compare_goes_by_time_where_clocks_differ(runs: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    host = run_of(two_stages(trips=6), runs=3, clock_hz=2e6)  # each cycle takes half as long as in 'five'
    write_recording(tmp_path / "quick.tilestep", recorded(host, list(host._programs)))
    quick = str(tmp_path / "quick.tilestep")
    assert main(["report", "compare", quick, runs["five"], "--fail-above", "0"]) == 1
    out, err = capsys.readouterr()
    assert "Their clocks differ, so times are compared." in out
    assert "slower by more than 0 %: the whole, program 'two_stages'" in err
    assert re.search(r"^two_stages +name +time/run +\S+ [mµ]?s +\S+ [mµ]?s +\+\S+ [mµ]?s +\+[\d.]+ % *$", out, re.MULTILINE)
    assert "cycles/run" not in out
    assert "Emulated cycles" not in out
    assert main(["report", "compare", runs["five"], quick, "--fail-above", "0", "--json"]) == 0
    whole = json.loads(capsys.readouterr().out)
    assert whole["emulated_cycles"]["relative"] > 0 > whole["emulated_s"]["relative"]
    assert whole["emulated_s"]["b"] == whole["emulated_cycles"]["b"] / 2e6
    main(["report", "compare", runs["five"], runs["six"]])
    assert "time" not in capsys.readouterr().out


@pytest.mark.parametrize("bound", ["two", "-1%", "", "%", "1e3"])
def test_a_bound_that_is_no_percentage_is_a_usage_error(runs: dict[str, str], capsys: pytest.CaptureFixture[str], bound: str) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["report", "compare", runs["five"], runs["six"], f"--fail-above={bound}"])
    assert caught.value.code == 2
    assert "must be a number of percent" in capsys.readouterr().err


def test_export_writes_what_is_named(runs: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = {"--chrome": tmp_path / "a.json", "--parquet": tmp_path / "tables"}
    assert main(["report", "export", runs["five"], *(str(part) for pair in files.items() for part in pair)]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert "B of emulated time" in out
    assert b"train.py:3" in files["--chrome"].read_bytes()
    assert (files["--parquet"] / "events.parquet").exists()
    assert b"/home" not in b"".join(file.read_bytes() for file in tmp_path.glob("a.*"))


def test_export_without_source_leaves_lines_out(runs: dict[str, str], tmp_path: Path) -> None:
    arguments = ["--chrome", str(tmp_path / "a.json"), "--parquet", str(tmp_path / "tables"), "--no-source"]
    assert main(["report", "export", runs["five"], *arguments]) == 0
    assert b"train.py" not in (tmp_path / "a.json").read_bytes()
    assert not (tmp_path / "tables" / "frames.parquet").exists()


def test_export_takes_the_clock_that_is_there(runs: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "a.json"
    assert main(["report", "export", runs["trace"], "--chrome", str(file)]) == 0
    assert json.loads(file.read_bytes())["otherData"]["clock"] == "wall time"
    assert main(["report", "export", runs["trace"], "--chrome", str(file), "--time", "emulated"]) == 2
    assert "has no execution" in capsys.readouterr().err
    assert main(["report", "export", runs["five"], "--chrome", str(file), "--time", "wall"]) == 2
    assert "has no system" in capsys.readouterr().err


def test_export_of_nothing_is_an_error(runs: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "export", runs["five"]]) == 2
    assert "nothing to write: name a file by --chrome" in capsys.readouterr().err


def test_export_overwrites_no_recording(runs: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = Path(runs["five"]).read_bytes()
    link = tmp_path / "link.json"
    link.hardlink_to(runs["five"])
    for target in (runs["five"], str(link), str(tmp_path / "other.tilestep")):
        assert main(["report", "export", runs["five"], "--chrome", target]) == 2
        assert "is a recording: a trace goes into another file" in capsys.readouterr().err
    assert Path(runs["five"]).read_bytes() == before


@pytest.fixture
def played(tmp_path: Path) -> str:
    """A recording with its journal."""
    write_recording(tmp_path / "played.tilestep", journaled(two_stages(trips=5)))
    return str(tmp_path / "played.tilestep")


def test_what_if_prints_a_table_of_knobs(played: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "what-if", played]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    first, _, rest = out.partition("\n")
    assert " would save " in first
    assert rest.startswith("Emulated time\nknob ")
    assert "\nhost.load " in out
    assert "No effect on this recording: " in out
    assert "played" not in out


def test_what_if_with_settings_says_what_changes(played: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "what-if", played, "--set", "host.load=/2", "--set", "host.dispatch=/2"]) == 0
    assert re.fullmatch(r"host\.load=/2, host\.dispatch=/2: [\d.]+ µs in place of [\d.]+ µs \(-[\d.]+ %\)\n", capsys.readouterr().out)
    assert main(["report", "what-if", played, "--set", "host.load=/2", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["settings"] == ["host.load=/2"]
    assert document["turned_cycles"] == document["emulated_cycles"] - 50
    assert document["change"] == document["turned_cycles"] / document["emulated_cycles"] - 1


def test_what_if_as_json_has_all_knobs(played: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "what-if", played, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["complete"] is True
    assert {row["knob"] for row in document["knobs"]} > {"host.link", "links", "sync.pattern"}


@pytest.mark.parametrize(
    ("setting", "problem"),
    [
        ("host.lonk=x2", "knob 'host.lonk' does not exist; the nearest that does is 'host.link'"),
        ("sram=1", "ipu.tile.sram_bytes would be 1 B, and must be 1024 to 1e+09"),
        ("amp=x2", "cannot be planned again, because its HLO was not kept"),
    ],
)
def test_what_if_tells_what_cannot_be(played: str, setting: str, problem: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "what-if", played, "--set", setting]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("tilestep report what-if: ")
    assert problem in err


def test_what_if_needs_a_journal(runs: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "what-if", runs["five"]]) == 2
    assert "this recording has no journal, so it cannot be played again" in capsys.readouterr().err


def test_what_if_of_a_recording_in_which_nothing_ran_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "nothing.tilestep"
    write_recording(path, journaled(two_stages(), runs=0))
    assert main(["report", "what-if", str(path)]) == 2
    assert "has no execution: no program ran" in capsys.readouterr().err


def test_a_recording_without_programs_names_their_folders(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_recording(tmp_path / "run.tilestep", recorded(Host(on=larger(1)), []))
    for name in ("a", "b"):
        assert main(["report", "show", str(tmp_path)]) == 0
        assert ("name the folder of one" in capsys.readouterr().err) == (name == "b")
        (tmp_path / "programs" / name).mkdir(parents=True)
        (tmp_path / "programs" / name / "program.tilestep").touch()
    assert main(["report", "html", str(tmp_path)]) == 0
    folder = tmp_path / "programs" / "a"
    assert f"has no program: name the folder of one, {folder} (and 1 more there)" in capsys.readouterr().err
    write_recording(tmp_path / "run.tilestep", journaled(two_stages()))
    assert main(["report", "show", str(tmp_path)]) == 0
    assert capsys.readouterr().err == ""


def test_a_profile_of_a_newer_form_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for form, status in ((2, 0), (3, 2)):
        write_recording(tmp_path / "run.tilestep", journaled(two_stages(), profile={"version": form, "findings": []}))
        assert main(["report", "html", str(tmp_path)]) == status
    assert "has a profile of form 3: this version of tilestep reads forms up to 2: install a newer one" in capsys.readouterr().err


HOSTILE = "x\x1b[31m\x9b31m\x7f\u2028\u202e\ud800</script>"


@pytest.mark.parametrize("arguments", [("show",), ("show", "--json"), ("compare",), ("compare", "--json")])
def test_texts_of_a_file_do_not_reach_the_terminal_as_they_are(
    runs: dict[str, str], arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    path = Path(runs["five"])
    members = members_of(path.read_bytes())
    strings = json.loads(members["strings.json"])
    path.write_bytes(zipped({**members, "strings.json": json.dumps([HOSTILE + text for text in strings]).encode()}))
    assert main(["report", *arguments, str(path), *([runs["six"]] if "compare" in arguments else [])]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert {character for character in out if not character.isprintable()} == {"\n"}
    if "--json" in arguments:
        json.loads(out)


def test_the_name_of_a_file_does_not_reach_the_terminal_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "show", "no\x1b[31m\nfile"]) == 2
    assert capsys.readouterr().err == "tilestep report show: no\\x1b[31m\\nfile: No such file or directory\n"


@pytest.mark.parametrize("arguments", [(), ("--json",)])
def test_show_prints_to_a_terminal_that_knows_ascii_alone(runs: dict[str, str], arguments: tuple[str, ...]) -> None:
    printed = io.BytesIO()
    terminal = io.TextIOWrapper(printed, encoding="ascii", write_through=True)
    with contextlib.redirect_stdout(terminal):
        assert main(["report", "show", runs["five"], *arguments]) == 0
        assert printed.getvalue().isascii()
    assert b"two_stages" in printed.getvalue()
