"""`tilestep plan`: what it prints, where, and with which exit code."""

import argparse
import contextlib
import json
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import onnx
import optax
import pytest

from tests.unit.onnx.models import model as onnx_model
from tests.unit.onnx.models import uniform
from tests.unit.planner.small_models import classifier
from tests.unit.train.moments import ctrl_c_heard
from tilestep.cli import plan
from tilestep.cli.usage import INTERRUPTED

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
        broken=lambda: int("own"),
        number=4,
        short={"layers": []},
        more={**model(), "lost": 1},
        config={**model(), **dict.fromkeys("abcd")},
        empty={},
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


@pytest.mark.parametrize(
    ("played", "printed", "told"),
    [
        (0, "", "Ctrl-C: no plan has been emulated yet\n"),
        (1, "best of 4: 1 replayed; none can be more than ", "Ctrl-C: 1 plan emulated, 3 left that may fit\n"),
    ],
)
def test_ctrl_c_tells_what_is_known(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tiny: str, played: int, printed: str, told: str
) -> None:
    @contextlib.contextmanager
    def bar(_: int | None) -> Iterator[Callable[[int, str], None]]:
        yield lambda done, _: signal.raise_signal(signal.SIGINT) if done == played else None

    monkeypatch.setattr(plan, "_bar", bar)
    with ctrl_c_heard():
        assert command("planned_model:layers", "--machine", tiny, "--global-batch", "4", "--microbatch-sizes", "2,4") == INTERRUPTED
    out, err = capsys.readouterr()
    assert out.startswith(printed)
    assert bool(out) == bool(printed)
    assert err == f"tilestep plan: {told}"


def test_nothing_that_fits_is_exit_code_1(capsys: pytest.CaptureFixture[str], tiny: str) -> None:
    assert command("planned_model:huge", "--machine", tiny, "--global-batch", "2") == 1
    out, err = capsys.readouterr()
    assert out.startswith("none of 4 plans fits ")
    assert "alone need" in out
    assert err == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["planned_model", "--global-batch", "2"],
            "'planned_model' names no model: it must be a file, such as model.onnx, or a module and",
        ),
        (["planned_modul:layers", "--global-batch", "2"], "there is no module 'planned_modul'"),
        (["planned_model.py:layers", "--global-batch", "2"], "'planned_model.py' is no name that `import` takes"),
        (["./planned_model:layers", "--global-batch", "2"], "'./planned_model' is no name that `import` takes"),
        (["planned_model:layer", "--global-batch", "2"], "has no attribute 'layer'"),
        (["planned_model:broken", "--global-batch", "2"], "raised by planned_model:broken"),
        (
            ["planned_model:number", "--global-batch", "2"],
            "'planned_model:number' gives a value of type int: it must give a mapping with layers, params",
        ),
        (["planned_model:short", "--global-batch", "2"], "'planned_model:short' gives a mapping with layers: it must"),
        (
            ["planned_model:more", "--global-batch", "2"],
            "with lost, layers, params, microbatch, optimizer: it must give a mapping with layers, params",
        ),
        (
            ["planned_model:config", "--global-batch", "2"],
            "gives a mapping with a, b, c, d, layers and 3 more: it must give a mapping with layers",
        ),
        (["planned_model:empty", "--global-batch", "2"], "gives a mapping with nothing in it: it must"),
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


def saved(path: Path, graph: str, **initializers: Any) -> str:
    onnx.save(onnx_model(graph, **initializers), str(path))
    return str(path)


PRODUCT = "(float[N,16] x) => (float[N,16] y, float l) { m = MatMul(x, w)  y = Relu(m)  l = ReduceMean <keepdims = 0> (y) }"


def test_an_onnx_model_is_planned(capsys: pytest.CaptureFixture[str], tiny: str, tmp_path: Path) -> None:
    path = saved(tmp_path / "product.onnx", PRODUCT, w=uniform(16, 16))
    options = ["--loss", "l", "--optimizer", "momentum", "--half", "--set", "N=2"]
    assert command(path, "--machine", tiny, "--global-batch", "2", "--replays", "1", "--json", *options) == 0
    out, err = capsys.readouterr()
    assert [plan["microbatch"] for plan in json.loads(out)["plans"]] == [2]  # which --set fixes
    assert err == ""


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--loss", "q"], "product.onnx: loss is 'q', and the model's outputs are y, l"),
        (["--set", "M=3"], "--set 'M': the model has no such dimension; it has N"),
        (["--set", "N=0"], "--set N='0': a dimension has a whole number of elements, 1 to "),
        (["--set", "N=3"], "microbatch_sizes is [3]: at least one must divide the global batch of 2"),
        (["--set", "N=2", "--microbatch-sizes", "1"], "product.onnx is a model of 2 samples only"),
    ],
)
def test_what_an_onnx_model_lacks_is_said(capsys: pytest.CaptureFixture[str], tmp_path: Path, options: list[str], message: str) -> None:
    assert command(saved(tmp_path / "product.onnx", PRODUCT, w=uniform(16, 16)), "--global-batch", "2", *options) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err


def test_options_of_onnx_models_go_with_them_only(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert command(str(tmp_path / "none.onnx"), "--global-batch", "2") == 2
    assert "none.onnx: No such file" in capsys.readouterr().err
    scaled = saved(tmp_path / "scaled.onnx", "(float[N,4] x, float s) => (float[N,4] y) { y = Mul(x, s) }")
    assert command(scaled, "--global-batch", "2") == 2
    assert "input 's' has no dimension for samples: give its value, --set NAME=N" in capsys.readouterr().err
    assert command("planned_model:layers", "--global-batch", "2", "--optimizer", "sgd") == 2
    assert "--optimizer is of an ONNX model, and 'planned_model:layers' is none" in capsys.readouterr().err
