"""The bar: medians, families, verdicts."""

import json
from pathlib import Path

import pytest

from benchmarks import tensorflow_judge, tensorflow_values
from benchmarks.accuracy import main, record
from benchmarks.measured.answer import Answer, Verdict
from benchmarks.measured.bars import CONVOLUTIONS, LISTED, MAIN, OUTSIDE, TRAINING, Group, group_of
from benchmarks.measured.judge import Outcome, Status, shortfalls, summaries, summarise
from benchmarks.measured.rows import MEASUREMENTS, read_rows
from benchmarks.measured.training.conditions import read_conditions
from benchmarks.measured.training.update import Peak, Update
from tests.processes import ROOT
from tests.together import each
from tests.unit.benchmarks.test_answers import row


def outcome(name: str, ratio: float, *, status: Status = "judged", fits: bool | None = None, workload: str = "x") -> Outcome:
    verdicts = () if fits is None else (Verdict(what="bs 1", measured=True, predicted=fits),)
    return Outcome(row=row(workload, id=name), status=status, measured=100.0, answer=Answer(predicted=100 * ratio, verdicts=verdicts))


def missed(*outcomes: Outcome) -> tuple[str, ...]:
    return shortfalls(summaries(outcomes), outcomes)


def test_errors_are_gathered_by_family_and_only_of_what_is_judged() -> None:
    summary = summarise([outcome("AB1", 1.1), outcome("AB2", 0.96), outcome("CD1", 1.02), outcome("AB3", 9.0, status="reported")])
    first, second = summary.families
    assert (first.family, second.family) == ("AB", "CD")
    assert first.mean == pytest.approx(0.03)
    assert first.median == pytest.approx(0.07)
    assert first.worst == pytest.approx(0.1)
    assert summary.median == pytest.approx(0.04)


def test_the_bar_is_met_by_small_errors_of_both_signs() -> None:
    summary = summarise([outcome("AB1", 1.03), outcome("AB2", 0.97), outcome("CD1", 1.0, fits=True)])
    assert summary.shortfalls == ()


@pytest.mark.parametrize(
    ("outcomes", "says"),
    [
        ([outcome("AB1", 1.07), outcome("CD1", 0.93), outcome("CD2", 1.07)], "median absolute error 7.0%"),
        ([*(outcome(f"AB{i}", 1.0) for i in range(8)), outcome("AB8", 0.7), outcome("AB9", 0.7)], "90th percentile 30.0%"),
        ([*(outcome(f"AB{i}", 1.0) for i in range(20)), outcome("CD1", 0.87)], "family CD: mean signed error -13.0%"),
        ([outcome("AB1", 1.0, fits=False)], "AB1, bs 1: does not fit, but it fits"),
        ([outcome("AB1", float("nan"))], "median absolute error nan"),
    ],
)
def test_each_way_to_miss_the_bar_is_said(outcomes: list[Outcome], says: str) -> None:
    assert any(sentence.startswith(says) for sentence in summarise(outcomes).shortfalls)


def training(name: str, ratio: float, full: float) -> Outcome:
    update = Update(seconds=1.0, sram_bytes=1000, peaks=(Peak(program="f", tile_bytes=round(1000 * full), largest=()),))
    verdict = Verdict(what="training", measured=True, predicted=update.fits)
    answer = Answer(predicted=100 * ratio, update=update, verdicts=(verdict,))
    return Outcome(row=row("x training", id=name), status="judged", measured=100.0, answer=answer)


def test_groups_that_stand_apart_have_a_bar_of_their_own_or_none() -> None:
    good = outcome("AB1", 1.0)
    conv = "3x3 conv 4 in to 4 out channels"
    thin = [outcome("A1", 1.2, workload=conv), outcome("A2", 1.3, workload=conv), outcome("A3", 1.0, workload=conv)]
    assert missed(good, outcome("B1", 2.0, workload="2D 5-point heat 10 steps"), *thin) == ()
    assert missed(good, outcome("A1", 1.3, workload=conv)) == (
        "convolutions of few channels: median absolute error 30.0%: at most 25% wanted",
    )
    assert len(summarise([good, *thin]).errors) == 1


@each(
    "workload, group",
    [
        ("BERT-Large ph1 SL128 PopART", TRAINING),
        ("ViT-B fine-tune", TRAINING),
        ("MLP 8-4 SGD training, bs 1", TRAINING),
        ("3x3 conv (poplin) 4 in to 4 out channels, 10 times", CONVOLUTIONS),
        ("3x3 conv (poplin) 64 in to 64 out channels, 10 times", MAIN),
        ("3D 7-point heat 1000 steps", LISTED),
        ("BERT-Base SL384 inference (host path, queue)", LISTED),
        ("BERT-Base inference", MAIN),
        ("YOLOv4-P5 inference", OUTSIDE),
        ("GPT-2 small train PyTorch", OUTSIDE),
        ("Swin-Tiny inference", OUTSIDE),
        ("Swin-Tiny 224 pretrain", TRAINING),
    ],
)
def test_a_row_s_group_is_what_was_run_whatever_its_id(workload: str, group: Group) -> None:
    for name in ("MY04", "TR04", "CV1"):
        assert group_of(row(workload, id=name)) is group
        assert group_of(row(workload, id=name, metric="total tile memory")) is MAIN
        assert group_of(row(workload, id=name, fitted=False)) is OUTSIDE


def test_the_published_rows_have_the_groups_of_their_families() -> None:
    groups = {"TR": TRAINING, "ML": TRAINING, "CO": TRAINING, "CV": CONVOLUTIONS, "HE": LISTED, "BY": LISTED}
    judged = [row for row in read_rows(MEASUREMENTS, read_conditions()) if not row.not_judged]
    assert [row.id for row in judged if group_of(row) is not groups.get(row.family, MAIN)] == []


def test_training_has_a_bar_for_its_time_and_its_memory() -> None:
    rows = [training(f"TR{number}", 1.04, 0.8) for number in range(8)]
    assert missed(*rows, training("ML1", 0.9, 1.0)) == ()
    assert missed(*rows, training("ML1", 1.5, 1.3), training("ML2", 1.5, 0.9)) == (
        "training: 90th percentile 50.0%: at most 14% wanted",
        "training: ML1, training: does not fit, but it fits",
        "training: ML1: its fullest tile is 130% full, at most 120% wanted",
    )
    assert missed(*rows, training("ML1", 1.04, 1.1)) == ("training: ML1, training: does not fit, but it fits",)


def test_networks_outside_the_fit_have_bars_of_their_own() -> None:
    rows = [outcome(f"YO{number}", 0.91, workload="YOLOv4-P5 inference", fits=True) for number in range(7)]
    assert missed(*rows) == ()
    wrong = [outcome(f"YO{number}", 0.85, workload="YOLOv4-P5 inference", fits=False) for number in (8, 9)]
    sentences = missed(*rows, *wrong)
    assert [sentence.partition(":")[0] for sentence in sentences] == ["networks outside the fit"] * 2
    assert all("does not fit, but it fits" in sentence for sentence in sentences)


@pytest.mark.process  # git names the commit
def test_a_record_can_be_read_again() -> None:
    outcomes = [outcome("AB1", 1.25, fits=False), outcome("CD1", 0.5, status="reported")]
    found = json.loads(json.dumps(record(outcomes, summaries(outcomes), wall_s=1.26)))
    assert found["groups"]["operations and inference"]["wrong_verdicts"] == ["AB1 bs 1"]
    assert [entry["ratio"] for entry in found["rows"]] == [1.25, 0.5]
    assert found["bar_met"] is False


HEADER = "id,generation,n_ipus,workload,shape,dtype,metric,value,unit,source\n"
ON_TILE = (
    'AMP1,Bow,1,on-tile matmul ConvPartial1x1,"[512,16]x[16,16] per tile",fp16,cycles,{value},cycles,'
    "tessellate-ipu notebooks/IPU Peak Flops.ipynb\n"
)


@pytest.mark.process  # git names the commit
@pytest.mark.parametrize(("value", "status"), [(2377, 0), (3000, 1)])
def test_the_exit_status_says_whether_the_bar_is_met(tmp_path: Path, capsys: pytest.CaptureFixture[str], value: int, status: int) -> None:
    rows, written = tmp_path / "rows.csv", tmp_path / "record.json"
    rows.write_text(HEADER + ON_TILE.format(value=value), encoding="utf-8")
    assert main(["--rows", str(rows), "--json", str(written)]) == status
    assert "judged rows                       1" in capsys.readouterr().out
    assert json.loads(written.read_text(encoding="utf-8"))["groups"]["operations and inference"]["judged"] == 1


def test_rows_that_cannot_be_read_end_with_two(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = tmp_path / "rows.csv"
    assert main(["--rows", str(rows)]) == 2
    assert "rows.csv" in capsys.readouterr().err
    rows.write_text("id,value\n", encoding="utf-8")
    assert main(["--rows", str(rows)]) == 2
    assert "no column 'generation'" in capsys.readouterr().err


def test_a_record_that_cannot_be_written_is_refused_before_the_work(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = tmp_path / "rows.csv"
    rows.write_text(HEADER + ON_TILE.format(value=2377), encoding="utf-8")
    for record_path in (tmp_path, tmp_path / "no folder" / "record.json"):
        assert main(["--rows", str(rows), "--json", str(record_path)]) == 2
        shown = capsys.readouterr()
        assert str(record_path) in shown.err
        assert not shown.out


def test_the_record_has_each_program_of_the_list_with_a_result_and_a_reason() -> None:
    listed = tensorflow_judge.programs()
    record = json.loads(tensorflow_judge.RECORD.read_text(encoding="utf-8"))
    assert [row["program"] for row in record["answers"]] == [tensorflow_judge.path_of(row) for row in listed]
    for one, answer in zip(listed, record["answers"], strict=True):
        assert answer["arguments"] == one["arguments"]
        assert (answer["result"] == "excluded") == bool(one["excluded"])
        assert answer["result"] == "ran" or answer["why"]
    assert record["counts"] == tensorflow_judge.counts(record["answers"])
    assert len(listed) >= 40
    assert record["counts"]["excluded"] <= len(listed) / 4


def test_what_was_compared_is_what_the_list_says_and_within_the_bound() -> None:
    answers = json.loads(tensorflow_judge.RECORD.read_text(encoding="utf-8"))["answers"]
    values = {answer["program"]: answer["values"] for answer in answers if "values" in answer}
    assert set(values) == {program for program, _ in tensorflow_values.PROGRAMS}
    assert len(values) >= 10
    assert [name for name, found in values.items() if not found.get("equal") or found["largest_difference"] > tensorflow_values.BOUND] == []


def test_the_page_shows_the_record() -> None:
    page = (ROOT / "docs" / "reference" / "tensorflow-programs.md").read_text(encoding="utf-8")
    assert page.endswith(f"{tensorflow_judge.table()}\n")
    counts = json.loads(tensorflow_judge.RECORD.read_text(encoding="utf-8"))["counts"]
    words = "Of {programs} programs {excluded} are excluded. Of the other {judged}, {ran} run to their end; {nothing_on_ipu} of these"
    assert words.format(**counts) in page


def test_a_failure_is_told_by_its_exception() -> None:
    said = "Traceback:\n  File x\nValueError: no such size\n\ntilestep: nothing ran on bow-2000\n"
    assert tensorflow_judge.reason(said) == "ValueError: no such size"
    assert tensorflow_judge.reason("killed\n") == "killed"
