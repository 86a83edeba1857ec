"""`tilestep plan`: what it prints, where, and with which exit code."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import optax
import pytest

from tests.unit.planner.small_models import classifier
from tilestep.cli import plan

TINY = """
inherits = "m2000"
num_ipus = 1
[ipu]
num_tiles = 16
"""


def command(*arguments: str) -> int:
    parser = argparse.ArgumentParser()
    plan.add_parser(parser.add_subparsers())
    args = parser.parse_args(["plan", *arguments])
    return args.run(args)


def model(width: int = 16) -> dict[str, Any]:
    small = classifier([width, width])
    return {"layers": small.layers, "params": small.params, "microbatch": small.microbatch, "optimizer": optax.sgd(0.1)}


@pytest.fixture(autouse=True)
def _module(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("planned_model")
    vars(module).update(
        layers=model,
        mapping=model(),
        huge=lambda: model(4096),
        number=4,
        short={"layers": []},
        more={**model(), "lost": 1},
        uneven={**model(), "params": []},
        misfit={**model(), "params": [*classifier([16]).params, classifier([4]).params[-1]]},
    )
    monkeypatch.setitem(sys.modules, "planned_model", module)


@pytest.fixture
def tiny(tmp_path: Path) -> str:
    path = tmp_path / "tiny.toml"
    path.write_text(TINY, encoding="utf-8")
    return str(path)


def test_the_verdict_and_a_row_for_each_plan_are_printed(capsys: pytest.CaptureFixture[str], tiny: str) -> None:
    assert command("planned_model:layers", "--machine", tiny, "--global-batch", "4", "--microbatch-sizes", "2,4", "--replays", "2") == 0
    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert lines[0].startswith("best of 4: 2 replayed; none can be more than ")
    assert sum("1 stage x 1 replica" in line for line in lines) == 2
    assert err == ""


def test_json_is_what_the_plans_say(capsys: pytest.CaptureFixture[str], tiny: str) -> None:
    assert (
        command("planned_model:mapping", "--machine", tiny, "--global-batch", "2", "--microbatch-sizes", "2", "--exhaustive", "--json") == 0
    )
    document = json.loads(capsys.readouterr().out)
    assert (document["considered"], document["gap"]) == (2, 0)
    assert document["plans"][0]["microbatch"] == 2


def test_nothing_that_fits_is_exit_code_1(capsys: pytest.CaptureFixture[str], tiny: str) -> None:
    assert command("planned_model:huge", "--machine", tiny, "--global-batch", "2") == 1
    out, err = capsys.readouterr()
    assert out.startswith("none of 4 plans fits ")
    assert "alone need" in out
    assert err == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["planned_model", "--global-batch", "2"], "'planned_model' names no model: name a module and what gives the model in it"),
        (["planned_modul:layers", "--global-batch", "2"], "there is no module 'planned_modul'"),
        (["planned_model:layer", "--global-batch", "2"], "has no attribute 'layer'"),
        (["planned_model:number", "--global-batch", "2"], "'planned_model:number' gives a int: it must give a mapping with layers, params"),
        (["planned_model:short", "--global-batch", "2"], "'planned_model:short' gives a mapping with layers: it must"),
        (
            ["planned_model:more", "--global-batch", "2"],
            "lost: it must give a mapping with layers, params, optimizer, microbatch, and perhaps loss, schedules",
        ),
        (["planned_model:uneven", "--global-batch", "2"], "there are 3 layers and 0 entries of params"),
        (["planned_model:misfit", "--global-batch", "2"], "raised by layer "),
        (["planned_model:mapping", "--global-batch", "2", "--machine", "m2001"], "m2001"),
        (["planned_model:mapping", "--global-batch", "2", "--microbatch-sizes", "3"], "at least one must divide the global batch of 2"),
    ],
)
def test_what_cannot_be_planned_is_exit_code_2(capsys: pytest.CaptureFixture[str], arguments: list[str], message: str) -> None:
    assert command(*arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("tilestep plan: ")
    assert message in err
    assert "internal frames" not in err
