"""`tilestep bench-data`: what it finds, prints and refuses."""

import argparse
import json
import sys
import textwrap
from pathlib import Path

import pytest

from tests.in_turn import RunPython
from tilestep.cli import bench_data

DATA = """
import numpy as np

def batches():
    while True:
        yield {"image": np.ones((2, 8), np.float32), "label": np.zeros(2, np.int32)}

class Sets:
    train = [np.ones(3)] * 500

def short():
    return [np.ones(2)] * 5

def broken():
    raise OSError("disk gone")
    yield

number = 3
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with my_data.py, forgotten afterwards."""
    (tmp_path / "my_data.py").write_text(DATA)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "my_data", raising=False)
    return tmp_path


def command(*arguments: str) -> int:
    parser = argparse.ArgumentParser()
    bench_data.add_parser(parser.add_subparsers())
    args = parser.parse_args(["bench-data", *arguments])
    return args.run(args)


@pytest.mark.parametrize("target", ["my_data:batches", "my_data.py:batches", "my_data:Sets.train", "{folder}/my_data.py:batches"])
def test_a_dataset_is_found_by_module_and_by_file(target: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(target.format(folder=folder)) == 0
    out, err = capsys.readouterr()
    # A long path wraps the table's title, so rows are found by what they hold: the epoch and its elements.
    rows = [line.split() for line in out.splitlines()]
    assert [row[0] for row in rows if row[1:2] == ["100"]] == ["1", "2", "3"]
    assert "GB/s" in out
    assert err == ""


def test_the_flags_say_how_much_and_in_which_form(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command("my_data:batches", "--json", "--epochs", "2", "--elements", "7", "--no-copy") == 0
    found = json.loads(capsys.readouterr().out)
    assert [epoch["elements_processed"] for epoch in found["epochs"]] == [7, 7]
    assert found["epochs"][0]["total_bytes_processed"] == 7 * (2 * 8 * 4 + 2 * 4)
    assert len(found["details"]["epochs"]) == 2


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("my_data", "name a dataset as MODULE:NAME or FILE.py:NAME"),
        ("my_data:", "name a dataset as"),
        (":batches", "name a dataset as"),
        ("my_data:bat-ches", "name a dataset as"),
        ("my_data:missing", "module 'my_data' has no attribute 'missing'; name what is defined there"),
        ("other.py:x", "there is no file 'other.py' in "),
        ("no_such_module:x", "there is no module 'no_such_module' in "),
        ("no_such.module:x", "there is no module 'no_such.module' in "),
        ("my_data:number", "dataset is a int: it must be an iterable"),
    ],
)
def test_what_is_not_there_leaves_with_2(target: str, message: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(target) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"tilestep bench-data: {target}: ")
    assert message in err


def test_a_dataset_that_ends_early_leaves_with_1(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command("my_data:short", "--elements", "3") == 1
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert "ended after 5 elements, in epoch 2 of 3" in err


def test_what_the_dataset_raises_is_shown_with_its_traceback(folder: Path, run_python: RunPython) -> None:
    done = run_python("-m", "tilestep", "bench-data", str(folder / "my_data.py:broken"))
    assert (done.returncode, done.stdout) == (1, "")
    assert 'my_data.py", line 15, in broken' in done.stderr
    assert done.stderr.endswith("OSError: disk gone\nraised by the dataset after 0 elements, in epoch 1 of 3\n")


@pytest.mark.parametrize("arguments", [("--epochs", "0"), ("--elements", "x"), ("--elements", "-1"), ("--epochs", "2000000000")])
def test_a_bad_number_is_refused(arguments: tuple[str, str], folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        command("my_data:batches", *arguments)
    assert caught.value.code == 2
    assert f"{arguments[1]!r} must be a whole number, 1 to 1,000,000,000" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("ends", "code", "said"),
    [
        ("sys.exit(4)", 4, "{target}: its code called sys.exit(4) when 1 of 3 epochs were measured"),
        ("os.kill(os.getpid(), signal.SIGINT), time.sleep(60)", 130, "Ctrl-C came when 1 of 3 epochs were measured"),
    ],
)
def test_a_dataset_that_ends_the_process_leaves_the_epochs_that_are_measured(
    ends: str, code: int, said: str, run_python: RunPython, tmp_path: Path
) -> None:
    source = f"""
        import os, signal, sys, time
        import numpy as np

        def batches():
            for _ in range(7):
                yield np.ones(3)
            {ends}
    """
    (tmp_path / "ends.py").write_text(textwrap.dedent(source))
    target = str(tmp_path / "ends.py:batches")
    done = run_python("-m", "tilestep", "bench-data", target, "--json", "--elements", "5")
    assert (done.returncode, done.stderr) == (code, f"tilestep bench-data: {said.format(target=target)}\n")
    assert len(json.loads(done.stdout)["epochs"]) == 1
