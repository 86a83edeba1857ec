"""`benchmarks/accuracy.py` with anybody's rows: what is refused before the work, and what is said of rows that nobody has measured."""

import csv
import json
import re
from pathlib import Path

import pytest

from benchmarks.accuracy import main
from benchmarks.measured.bars import TRAINING, group_of
from benchmarks.measured.rows import read_rows
from benchmarks.measured.training.conditions import COLUMNS, read_conditions
from tests.processes import ROOT

HEADER = "id,generation,n_ipus,workload,shape,dtype,metric,value,unit,source"
ON_TILE = 'MY1,Bow,1,on-tile matmul ConvPartial1x1,"[512,16]x[16,16] per tile",fp16,cycles,{value},cycles,IPU Peak Flops.ipynb'
TRAINED = "MY04,Bow,2,ViT train,my images,fp16,throughput,{value},images/s,mine"
CONDITIONS = {
    "id": "MY04",
    "model": "ViT-B/16 32, 2 layers",
    "ipus_per_replica": "2",
    "replicas": "1",
    "stage_split": "[1,1]",
    "micro_batch": "1",
    "accumulation": "20",
    "precision": "fp16.16",
    "partials": "half",
    "amp": "0.3 each",
    "recompute": "checkpoint every layer",
    "optimizer": "Adam",
    "opt_state": "m,v fp32, on chip",
    "io_tiles": "0",
    "batches_per_step": "1",
    "certainty": "stated",
}


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    return tmp_path / "rows.csv"


@pytest.fixture
def conditions(tmp_path: Path) -> Path:
    path = tmp_path / "conditions.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, restval="")
        writer.writeheader()
        writer.writerow(CONDITIONS)
    return path


def write(path: Path, *lines: str) -> None:
    path.write_text("\n".join((HEADER, *lines)) + "\n", encoding="utf-8")


@pytest.mark.parametrize("value", ["abc", "nan", "inf", "0", "-5", "<many", "12 s", "profits"])
def test_a_value_that_nobody_can_have_measured_is_refused(rows: Path, capsys: pytest.CaptureFixture[str], value: str) -> None:
    write(rows, ON_TILE.format(value=2377), ON_TILE.format(value=value).replace("MY1", "MY2"))
    assert main(["--rows", str(rows)]) == 2
    shown = capsys.readouterr()
    assert f"--rows {rows}, line 3, row MY2: value is '{value}': it must be a number above 0" in shown.err
    assert not shown.out


@pytest.mark.parametrize("option", ["--rows", "--conditions"])
def test_a_file_that_is_not_there_is_named_with_its_option(tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str) -> None:
    assert main([option, str(tmp_path / "nofile")]) == 2
    shown = capsys.readouterr().err
    assert shown.startswith(f"accuracy: {option} {tmp_path / 'nofile'} cannot be read: No such file or directory; give a CSV file")
    assert "Errno" not in shown


@pytest.mark.parametrize(("name", "near"), [("tr33", "; the nearest is TR33"), ("RT33", "; the nearest is TR33"), ("???", "")])
def test_an_unknown_name_has_the_nearest_one_beside_it(capsys: pytest.CaptureFixture[str], name: str, near: str) -> None:
    assert main(["--only", name]) == 2
    assert capsys.readouterr().err == f"accuracy: --only {name}: no row and no family has this name{near}\n"


@pytest.mark.process  # git names the commit
def test_a_row_without_a_value_is_predicted_and_in_no_median(rows: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(rows, ON_TILE.format(value=""), ON_TILE.format(value=2377).replace("MY1", "MY2"))
    assert main(["--rows", str(rows), "--json", str(rows.with_suffix(".json"))]) == 0
    first, second = json.loads(rows.with_suffix(".json").read_text(encoding="utf-8"))["rows"]
    assert (first["status"], first["measured"], first["ratio"]) == ("predicted", None, None)
    assert first["predicted"] == second["predicted"]
    assert "judged rows                       1" in capsys.readouterr().out


def test_a_training_row_without_conditions_is_told_where_they_belong(
    rows: Path, conditions: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(rows, TRAINED.replace("MY04", "MY05").format(value=""), TRAINED.replace("MY04", "MY06").format(value=100))
    assert main(["--rows", str(rows), "--conditions", str(conditions)]) == 1
    shown = capsys.readouterr().out
    assert f"no conditions: MY05 MY06: training rows, and {conditions} (--conditions) has no line with their id" in shown
    assert "missed: no row could be judged" in shown


@pytest.fixture
def documented(tmp_path: Path) -> tuple[Path, Path]:
    """The two files that the page on accuracy shows."""
    page = (ROOT / "docs" / "explanation" / "accuracy.md").read_text(encoding="utf-8")
    for name in ("rows.csv", "conditions.csv"):
        block = re.search(rf"<!-- {name} -->\n\n```text\n(.*?)```", page, re.DOTALL)
        assert block is not None
        (tmp_path / name).write_text(block[1], encoding="utf-8")
    return tmp_path / "rows.csv", tmp_path / "conditions.csv"


def test_the_example_of_the_page_is_a_training_run_with_its_conditions(documented: tuple[Path, Path]) -> None:
    rows, conditions = documented
    (row,) = read_rows(rows, read_conditions(conditions))
    assert row.training is not None
    assert (row.value, row.not_judged, row.n_ipus) == ("", "", row.training.num_ipus)
    assert group_of(row) is TRAINING
