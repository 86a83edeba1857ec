"""Training rows: their conditions, their stages, and the time of an update."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

from benchmarks.measured.judge import judge
from benchmarks.measured.row_error import RowError
from benchmarks.measured.rows import MEASUREMENTS, OUTSIDE, read_rows
from benchmarks.measured.training.answers import machine_for
from benchmarks.measured.training.bert import stages_of
from benchmarks.measured.training.conditions import COLUMNS, TrainingConditions, read_conditions
from benchmarks.measured.training.optimizers import group_size_of, is_off_chip, is_sharded, optimizer_of
from tests.unit.benchmarks.test_answers import row

CONDITIONS = read_conditions()


def small(**changes: str) -> TrainingConditions:
    """Conditions of a run on two IPUs."""
    given = {
        "model": "BERT",
        "ipus_per_replica": "2",
        "replicas": "1",
        "micro_batch": "2",
        "accumulation": "40",
        "partials": "half",
        "amp": "0.3 each",
        "optimizer": "LAMB",
        "opt_state": "m,v fp32, on chip",
        "io_tiles": "0",
        "certainty": "stated",
        **changes,
    }
    return TrainingConditions(**{column: given.get(column, "") for column in COLUMNS})


@pytest.mark.parametrize(
    ("split", "ipus", "layers", "stages"),
    [
        ("[3,7,7,7] encoder layers; IPU0 also embedding (stage 0) and head (stage 4)", 4, 24, [(0, 7), (1, 14), (2, 14), (3, 14), (0, 1)]),
        ("IPU0: embedding + MLM head; IPU1-3: [4,4,4] encoder layers", 4, 12, [(0, 1), (1, 8), (2, 8), (3, 8), (0, 1)]),
        ("[0,4,4,4]; IPU0 embedding + heads", 4, 12, [(0, 1), (1, 8), (2, 8), (3, 8), (0, 1)]),
        ("[1,2]; embedding IPU0; SQuAD head on last IPU", 2, 3, [(0, 3), (1, 5)]),
        ("[emb+1 | 2 | enc_out,pool,heads] on IPUs [0,1,0]", 2, 3, [(0, 3), (1, 4), (0, 1)]),
        ("att/FFN: IPU1 2/1, IPU0 1/2 + heads", 2, 3, [(0, 1), (1, 3), (0, 4)]),
    ],
)
def test_stages_are_what_the_words_say(split: str, ipus: int, layers: int, stages: list[tuple[int, int]]) -> None:
    assert [(ipu, len(parts)) for ipu, parts in stages_of(split, ipus, layers, "heads")] == stages


@pytest.mark.parametrize(
    ("split", "says"),
    [
        ("somewhere", "it has no list of layers"),
        ("[3,7]", "10 attentions"),
        ("[emb | 24] on IPUs [0,1,2]", "2 stages on 3 IPUs"),
        ("[8,8,8,0,0]", "it has 5"),
        ("IPU1 2/2, IPU7 22/22", "on 4 IPUs"),
        ("IPU1 23/1, IPU2 1/23", "IPU1 has 12 attentions and 12 feed-forward nets in a row of layers, not 23 and 1"),
    ],
)
def test_stages_that_cannot_be_are_refused(split: str, says: str) -> None:
    with pytest.raises(RowError, match=says):
        stages_of(split, 4, 24, "heads")


@pytest.mark.parametrize(
    ("text", "updates"),
    [
        ("1", 1),
        ("1 weight update per host call, buffering depth 3", 1),
        ("8 device iterations", 8),
        ("steps-per-execution 240 micro-batches = 10 updates", 10),
        ("1000 max; one host call = 1/5 epoch or less", 1000),
        ("?", math.inf),
        ("", math.inf),
    ],
)
def test_updates_of_a_call_from_the_host_are_read(text: str, updates: float) -> None:
    assert small(batches_per_step=text).updates_per_call == updates


@pytest.mark.parametrize(
    ("text", "proportions"),
    [
        ("[0.1,0.2]", (0.1, 0.2)),
        ("[0.1 x2]", (0.1, 0.1)),
        ("0.23 each", (0.23, 0.23)),
        ("default 0.6", (0.6, 0.6)),
        ("1.0 each", (1.0, 1.0)),
    ],
)
def test_memory_proportions_are_read(text: str, proportions: tuple[float, ...]) -> None:
    assert small(amp=text).proportions() == proportions


@pytest.mark.parametrize("text", ["[0.1]", "[0.1,x]", "much", "0.1 or 0.15"])
def test_memory_proportions_that_say_nothing_are_refused(text: str) -> None:
    with pytest.raises(RowError, match="amp is"):
        small(amp=text).proportions()


@pytest.mark.parametrize(
    ("text", "state", "off_chip", "sharded"),
    [
        ("LAMB", "m,v fp32, off chip (streaming memory), RTS", True, True),
        ("Adam", "m fp16, v fp32, on chip, no RTS", False, False),
        ("LARS mom 0.9", "fp16, on chip", False, False),
        ("SGD momentum 0.9", "fp16", False, False),
    ],
)
def test_optimizers_have_the_state_that_the_words_say(text: str, state: str, off_chip: bool, sharded: bool) -> None:
    conditions = small(optimizer=text, opt_state=state, replicas="4")
    assert (is_off_chip(conditions), is_sharded(conditions)) == (off_chip, sharded)
    assert not is_sharded(replace(conditions, replicas="1"))
    made = optimizer_of(conditions).init({"w": jnp.ones((2, 2), jnp.float16)})
    dtypes = {leaf.dtype.name for leaf in jax.tree.leaves(made) if leaf.ndim}
    assert dtypes == {"LAMB": {"float32"}, "Adam": {"float16", "float32"}}.get(text, {"float16"})


@pytest.mark.parametrize(("words", "group_size"), [("RTS", None), ("RTS within a host of 16 IPUs", 4), ("RTS within a host of 8 IPUs", 2)])
def test_a_state_is_divided_within_the_host_that_the_words_say(words: str, group_size: int | None) -> None:
    conditions = small(opt_state=f"m,v fp32, on chip, {words}", replicas="16", ipus_per_replica="4")
    assert is_sharded(conditions)
    assert group_size_of(conditions) == group_size


@pytest.mark.parametrize("ipus", [0, 2, 18])
def test_a_host_of_no_whole_number_of_replicas_is_refused(ipus: int) -> None:
    conditions = small(opt_state=f"m,v fp32, RTS within a host of {ipus} IPUs", replicas="16", ipus_per_replica="4")
    with pytest.raises(RowError, match=f"opt_state has a host of {ipus} IPUs: with ipus_per_replica 4 that is no whole number"):
        group_size_of(conditions)


def test_an_unknown_optimizer_is_refused() -> None:
    with pytest.raises(RowError, match="'Shampoo'"):
        optimizer_of(small(optimizer="Shampoo"))


def test_every_given_row_has_conditions_that_fit_it() -> None:
    rows = {row.id: row for path in (MEASUREMENTS, OUTSIDE) for row in read_rows(path, CONDITIONS)}
    assert set(CONDITIONS) <= set(rows)
    for name, conditions in CONDITIONS.items():
        if not conditions.not_judged:
            assert conditions.num_ipus == rows[name].n_ipus, name
            assert machine_for(rows[name])


def test_a_row_without_conditions_is_reported() -> None:
    found = judge(row("BERT-Large ph1 SL128 PopART", id="TR99", n_ipus=16, conditions=None))
    assert (found.status, found.ratio) == ("reported", None)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"replicas": "4"}, "the row is of 2 IPUs, but its conditions are of 8"),
        ({"model": "a network that nobody knows"}, "a network that is not written in benchmarks/models"),
        ({"certainty": "unknown", "note": "two could be"}, "configuration is not known: two could be"),
        ({"micro_batch": "4 or 6", "model": "BERT-Base", "seq_len": "128", "stage_split": "[6,6]"}, "micro_batch is '4 or 6'"),
    ],
)
def test_what_cannot_be_run_is_left_out_with_the_reason(changes: dict[str, str], says: str) -> None:
    found = judge(replace(row("x train", n_ipus=2, generation="Bow"), training=small(**changes)))
    assert found.status == "left out"
    assert says in found.reason
    assert not found.failed


def test_conditions_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "conditions.csv"
    path.write_text("id,model\n", encoding="utf-8")
    with pytest.raises(ValueError, match="has no column 'ipus_per_replica'"):
        read_conditions(path)
    header = ",".join(COLUMNS)
    path.write_text(f"{header}\nA1{',' * (len(COLUMNS) - 1)}\nA1\n", encoding="utf-8")
    with pytest.raises(ValueError, match="line 3: id is 'A1'"):
        read_conditions(path)
    fields = ["A1", "", "", "", "as B7"] + [""] * (len(COLUMNS) - 5)
    path.write_text(f"{header}\n{','.join(fields)}\n", encoding="utf-8")
    with pytest.raises(ValueError, match="A1 has the stages of 'B7'"):
        read_conditions(path)
    for rate in ("many", "nan", "0", "-1"):
        path.write_text(f"{header}\nA1{',' * (len(COLUMNS) - 1)}{rate}\n", encoding="utf-8")
        with pytest.raises(ValueError, match=f"line 2, row A1: steady_rate_items_per_s is '{rate}'"):
            read_conditions(path)


@pytest.mark.parametrize("column", ["micro_batch", "accumulation", "replicas", "ipus_per_replica"])
def test_numbers_of_a_run_are_1_or_more(column: str) -> None:
    with pytest.raises(RowError, match=f"{column} is '0': it must be 1 or more"):
        small(**{column: "0"}).number(column)
    assert small().number("io_tiles") == 0
