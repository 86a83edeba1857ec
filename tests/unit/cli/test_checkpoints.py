"""`tilestep checkpoints`: tables, JSON, and whether each array is as it was saved."""

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

from tilestep.cli import main
from tilestep.train import Checkpoints, InfeedQueue


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    with Checkpoints(tmp_path) as checkpoints:
        for step in (10, 20):
            checkpoints.save(step, {"w": jnp.ones((2, 3)), "key": jax.random.key(0)}, feeds={"data": InfeedQueue([1.0])})
    return tmp_path


def test_the_table_has_each_step(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["checkpoints", str(directory)]) == 0
    title, _, _, _, *rows, _ = capsys.readouterr().out.splitlines()
    assert "2 checkpoints in" in title
    cells = [[cell.strip() for cell in row.strip("\u2502").split("\u2502")] for row in rows]
    assert [(row[0], *row[2:6]) for row in cells] == [(step, "2", "32 bytes", "1", "data") for step in ("10", "20")]


def test_a_step_shows_its_arrays(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["checkpoints", str(directory), "--step", "20"]) == 0
    rows = [[cell.strip() for cell in row.strip("\u2502").split("\u2502")] for row in capsys.readouterr().out.splitlines()[4:-1]]
    assert rows == [["['key']", "random key, threefry2x32", "[2]", "1"], ["['w']", "float32", "[2, 3]", "1"]]


def test_the_json_has_each_step_and_a_steps_arrays(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (directory / "process-0" / "10" / "metadata.json").write_text("{")
    assert main(["checkpoints", str(directory), "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert [(row["step"], row["arrays"], row["bytes"], row["infeeds"]) for row in told["checkpoints"]] == [(20, 2, 32, ["data"])]
    assert list(told["damaged"]) == ["10"]
    assert "process-0/10 cannot be read" in told["damaged"]["10"]
    assert main(["checkpoints", str(directory), "--step", "20", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["checkpoints"][0]["leaves"] == [
        {"path": "['key']", "dtype": "uint32", "shape": [2], "random_key": "threefry2x32", "pieces": 1},
        {"path": "['w']", "dtype": "float32", "shape": [2, 3], "random_key": None, "pieces": 1},
    ]


def test_a_damaged_array_is_found(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["checkpoints", str(directory), "--verify"]) == 0
    assert "every array as it was saved" in capsys.readouterr().out
    file = directory / "process-0" / "20" / "a1.0"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    assert main(["checkpoints", str(directory)]) == 0  # no array is read
    capsys.readouterr()
    assert main(["checkpoints", str(directory), "--verify"]) == 1
    told = capsys.readouterr()
    assert "1 checkpoint in" in told.out
    assert "process-0/20 is damaged: state['w'] is not what was saved (its SHA-256 differs)" in told.err


def test_damaged_metadata_are_found_beside_what_is_well(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (directory / "process-0" / "20" / "metadata.json").write_text("{")
    for further in ([], ["--verify"]):
        assert main(["checkpoints", str(directory), *further]) == 1
        told = capsys.readouterr()
        assert "1 checkpoint in" in told.out
        assert "process-0/20 cannot be read" in told.err
    assert main(["checkpoints", str(directory), "--step", "20"]) == 1
    assert "process-0/20 cannot be read" in capsys.readouterr().err
    assert main(["checkpoints", str(directory), "--step", "10"]) == 0


def test_what_is_not_there_is_named(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["checkpoints", str(directory), "--step", "15"]) == 2
    assert "has no checkpoint of step 15: it has 10, 20" in capsys.readouterr().err
    assert main(["checkpoints", str(directory / "no\x1bwhere")]) == 2
    error = capsys.readouterr().err
    assert "there is no directory" in error
    assert "\x1b" not in error
