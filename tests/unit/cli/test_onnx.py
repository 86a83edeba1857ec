"""`tilestep onnx`: what it prints, where, and with which exit code."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from tests.in_turn import RunPython
from tests.unit.onnx import crafted
from tests.unit.onnx.models import linear, model, uniform
from tilestep.cli.onnx import inputs_of
from tilestep.onnx import import_onnx

RUN_ALL = """
import contextlib, io, json, sys
from tilestep.cli import main
results = []
for arguments in json.load(sys.stdin):
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        try:
            code = main(["onnx", *arguments])
        except SystemExit as end:
            code = end.code
    results.append([code, out.getvalue(), err.getvalue()])
print(json.dumps(results))
"""


Results = list[tuple[int, str, str]]
RunAll = Callable[..., Results]


@pytest.fixture
def run_all(run_python: RunPython) -> RunAll:
    """(exit code, stdout, stderr) of each command line, one after the other."""

    def run(lines: list[list[str]], **environ: str) -> Results:
        done = run_python("-c", RUN_ALL, text_in=json.dumps(lines), environ=environ)
        assert done.returncode == 0, done.stderr
        return [tuple(result) for result in json.loads(done.stdout.splitlines()[-1])]

    return run


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Some models, and files that are none."""
    found = tmp_path_factory.mktemp("models")
    wide = model(
        "(float[N,M] x) => (float[N,512] y, float l) { m = MatMul(x, w)  y = Relu(m)  l = ReduceMean <keepdims = 0> (y) }",
        w=uniform(256, 512),
    )
    reshaped = model("(float[N,3] x, int64[2] s) => (float[a,b] y) { z = Mul(x, w)  y = Reshape(z, s) }", w=np.float32(2))
    loop = model(
        "(float[2] x, bool c) => (float[2] y) { y = Loop(, c, x) <body = b (int64 i, bool p, float[2] s) => (bool q, float[2] t) "
        "{ t = Add(s, s)  m = ReduceMax <keepdims = 0> (t)  q = Less(m, k) }> }",
        k=np.float32(100),
    )
    unknown = model("(float[2] x) => (float[2] y) { a = Nothing(x)  y = other.Thing(a) }", imports=', "other": 1')
    unsized = model("(float[N,3] x) => (float[N,3] y) { y = Relu(x) }")
    unsized.graph.input[0].type.tensor_type.shape.dim[1].ClearField("dim_value")
    whole = model("(int64[2] x) => (int64[2] y) { y = Add(x, x) }")
    chosen = model(
        "(float[N,4] x, int64 sr) => (float[N,2] y) { c = Equal(sr, r)  y = If(c) <then_branch = t () => (float[N,2] u) "
        "{ u = MatMul(x, a) }, else_branch = e () => (float[N,2] v) { v = MatMul(x, b) }> }",
        r=np.array(16000),
        a=uniform(4, 2),
        b=uniform(6, 2),
    )
    alike = model("(float[Q,3,Q,Q] x) => (float[Q,3,Q,Q] y) { y = Relu(x) }")
    onnx.save(chosen, str(found / "chosen.onnx"))
    wants = model("(float[N,A,B] x, int64[1] s, int64[1] t) => (float[c] y) { u = Concat <axis = 0> (s, t)  y = Reshape(x, u) }")
    onnx.save(wants, str(found / "wants.onnx"))
    onnx.save(alike, str(found / "alike.onnx"))
    models = {"wide": wide, "linear": linear(), "reshaped": reshaped, "loop": loop, "unknown": unknown, "unsized": unsized, "whole": whole}
    for name, made in models.items():
        onnx.save(made, str(found / f"{name}.onnx"))
    idle: Any = linear()
    del idle.graph.node[:], idle.graph.output[:], idle.graph.initializer[:]
    onnx.save(idle, str(found / "idle.onnx"))
    (found / "text.onnx").write_text("no model")
    (found / "sneaky.onnx").write_bytes(b"\x1b[31m")
    return found


@pytest.mark.door
def test_a_model_is_shown_and_priced_for_each_batch(folder: Path, tmp_path: Path, run_all: RunAll, rows_of: RowsOf) -> None:
    json_path, report = tmp_path / "figures.json", tmp_path / "report"
    path = str(folder / "wide.onnx")
    options = ["--json", str(json_path), "--report", str(report), "--machine", "c2-card"]
    ((code, out, err),) = run_all([[path, "--batch", "1,64", "--set", "M=256", *options]])
    assert (code, err) == (0, "")
    for part in (
        "net: 1 parameter of 131,072 numbers (0.52 MB); ai.onnx 17",
        "x      float32[N, M]",
        "MatMul",
        "inference on one IPU of c2-card",
        "limited by",
    ):
        assert part in out, out
    document = json.loads(json_path.read_text())
    one, many = document["rows"]
    told = [document[name] for name in ("schema", "version", "machine", "training", "half")]
    assert told == ["tilestep-onnx", 1, "c2-card", False, False]
    assert (one["batch"], many["batch"], one["fits"]) == (1, 64, True)
    assert many["latency_emulated_s"] > one["latency_emulated_s"] > 0
    assert many["throughput_per_s"] == pytest.approx(64 / many["run_emulated_s"])
    assert one["host_bytes_in"] == 256 * 4  # weights stay on the IPU
    assert many["flops"] > 60 * one["flops"]
    for batch in (1, 64):
        assert sorted(path.name for path in (report / f"batch-{batch}").iterdir()) == ["profile.json", "summary.txt"]


RowsOf = Callable[[list[list[str]]], list[dict[str, Any]]]


@pytest.fixture
def rows_of(run_all: RunAll, tmp_path: Path) -> RowsOf:
    """The last row of the JSON of each command line."""

    def rows(lines: list[list[str]]) -> list[dict[str, Any]]:
        files = [tmp_path / f"{number}.json" for number in range(len(lines))]
        for code, _, err in run_all([[*line, "--json", str(file)] for line, file in zip(lines, files, strict=True)]):
            assert (code, err) == (0, "")
        return [json.loads(file.read_text())["rows"][-1] for file in files]

    return rows


def test_each_option_changes_the_price(folder: Path, rows_of: RowsOf) -> None:
    path = str(folder / "wide.onnx")
    base = [path, "--batch", "512", "--set", "M=256"]
    lines = [base, [*base, "--half"], [*base, "--train"], [*base, "--train", "--loss", "l"], [path, "--batch", "512", "--set", "x[1]=256"]]
    plain, half, train, loss, by_axis = rows_of(lines)
    assert plain == by_axis
    assert half["peak_tile_bytes"] < plain["peak_tile_bytes"] < train["peak_tile_bytes"]
    assert half["host_bytes_in"] == plain["host_bytes_in"] // 2
    assert train["flops"] > loss["flops"] > 1.9 * plain["flops"]  # the matmul of the weights' gradients, and the update


def test_a_model_that_waits_for_the_host_link_is_told_what_helps(tmp_path: Path, rows_of: RowsOf) -> None:
    sums = "y = ReduceSum <keepdims = 0> (f, axes) }"
    products = "  ".join(f"m{step + 1} = MatMul(m{step}, v)" for step in range(9))
    texts = {
        "floats": f"(float[N,3072] x) => (float[N] y) {{ f = Relu(x)  {sums}",
        "bytes": f"(uint8[N,3072] x) => (float[N] y) {{ f = Cast <to=1>(x)  {sums}",
        "scores": "(float[N,8] x) => (float[N,4096] y) { y = MatMul(x, u) }",
        "class": "(float[N,8] x) => (int64[N] y) { s = MatMul(x, u)  y = ArgMax <axis=1, keepdims=0>(s) }",
        "products": f"(float[N,8] x) => (float[N] y) {{ m0 = MatMul(x, w)  {products}  f = Relu(m9)  {sums}",
    }
    weights = {
        "products": {"w": uniform(8, 512), "v": uniform(512, 512)},
        "scores": {"u": uniform(8, 4096)},
        "class": {"u": uniform(8, 4096)},
    }
    for name, text in texts.items():
        onnx.save(model(text, axes=np.array([1]), **weights.get(name, {})), str(tmp_path / f"{name}.onnx"))
    sizes = [("floats", 64), ("bytes", 64), ("scores", 64), ("class", 64), ("products", 1), ("products", 8), ("products", 2048)]
    rows = rows_of([[str(tmp_path / f"{name}.onnx"), "--batch", str(size)] for name, size in sizes])
    floats, few_bytes, scores, one_class, one, few, many = rows
    for row, advice in (
        (floats, "send fewer bytes, such as those of an image instead of floats"),
        (scores, "give back fewer bytes, such as a class instead of all scores"),
        (one, "each transfer has a latency, which the samples of a larger batch share"),
    ):
        assert row["limited_by"].startswith("host link ")
        assert re.fullmatch(rf"Inputs and results are on the host link for \d+ % of the program's time: {advice}\.", row["findings"][0])
    assert few_bytes["run_emulated_s"] < floats["run_emulated_s"]  # whoever follows gains
    assert one_class["run_emulated_s"] < scores["run_emulated_s"]
    assert few["throughput_per_s"] > 4 * one["throughput_per_s"]
    assert not many["limited_by"].startswith("host link")
    assert not any("host link" in finding for finding in many["findings"])


def test_what_does_not_fit_comes_before_what_is_slow(tmp_path: Path, rows_of: RowsOf) -> None:
    onnx.save(model("(float[N,3072] x) => (float[N,3072] y) { y = Relu(x) }"), str(tmp_path / "relu.onnx"))
    (row,) = rows_of([[str(tmp_path / "relu.onnx"), "--batch", "100000"]])
    assert not row["fits"]
    assert "does not fit" in row["findings"][0]
    assert "host link" in row["findings"][1]


def test_a_batch_may_be_set_by_its_name(folder: Path, rows_of: RowsOf) -> None:
    path = str(folder / "linear.onnx")
    lines = [[path, "--batch", "5"], [path, "--set", "N=5"], [path, "--set", "x[0]=5"]]
    by_batch, by_name, by_axis = rows_of(lines)
    assert by_batch == by_name == by_axis
    assert by_batch["batch"] == 5
    assert by_batch["throughput_per_s"] == pytest.approx(5 / by_batch["run_emulated_s"])


def test_a_batch_is_the_size_of_other_dimensions_of_its_name() -> None:
    both = import_onnx(model("(float[N,3] x, float[3,N] y) => (float[N,N] z) { z = MatMul(x, y) }"))
    assert [value.shape for value in inputs_of(both, {}, 4)] == [(4, 3), (3, 4)]


def test_what_chooses_a_branch_may_be_set_and_each_dimension_of_one_name(folder: Path, rows_of: RowsOf) -> None:
    alike, chosen = str(folder / "alike.onnx"), str(folder / "chosen.onnx")
    large = ["--set", "x[2]=48", "--set", "x[3]=192"]
    by_axis, by_name, _ = rows_of([[alike, *large], [alike, "--set", "Q=48", *large[2:]], [chosen, "--set", "sr=16000"]])
    assert (by_axis["batch"], by_axis["flops"]) == (1, 3 * 48 * 192)  # one operation an element
    assert by_name["flops"] == 48 * by_axis["flops"]


def test_static_inputs_and_loops_get_their_values(folder: Path, run_all: RunAll, rows_of: RowsOf) -> None:
    loop = str(folder / "loop.onnx")
    lines = [
        [str(folder / "reshaped.onnx"), "--set", "s=3,4", "--batch", "4"],
        [loop, "--trip-count", "10"],
        [loop, "--trip-count", "1000"],
    ]
    _, few, many = rows_of(lines)
    assert many["latency_emulated_s"] > 2 * few["latency_emulated_s"]
    ((code, _, err),) = run_all([[loop]])
    assert (code, err.count("\n")) == (1, 1)
    assert "trip_count" in err


def test_the_machine_is_that_of_the_environment(folder: Path, run_all: RunAll) -> None:
    ((code, out, _),) = run_all([[str(folder / "linear.onnx")]], TILESTEP_MACHINE="c600")
    assert (code, "on one IPU of c600" in out) == (0, True)


def test_operators_are_listed(folder: Path, run_all: RunAll) -> None:
    ((code, out, err),) = run_all([["--ops"]])
    assert (code, err) == (0, "")
    rows = {line.split()[1]: line.split() for line in out.splitlines() if line.startswith("  ai.onnx ")}
    assert rows["Softmax"][2:] == ["1,", "11,", "13"]
    assert rows["Reshape"][2:] == ["1,", "5,", "13,", "14,", "19,", "21,", "23,", "24,", "25", "shape"]
    assert rows["ImageDecoder"][2] == "none"


WRONG: list[tuple[list[str], str]] = [
    ([], "name a model, as in `tilestep onnx model.onnx`, or give --ops"),
    (["nowhere.onnx"], "nowhere.onnx: No such file or directory"),
    (["."], ".: Is a directory"),
    (["text.onnx"], "text.onnx: 'text.onnx' is no ONNX model, or is damaged"),
    (["sneaky.onnx"], "sneaky.onnx: 'sneaky.onnx' is no ONNX model"),
    (["unknown.onnx"], "unknown.onnx: no implementation of these operators: ; ai.onnx.Nothing of version 17".replace(": ;", ":;")),
    (["linear.onnx", "--loss", "y"], "--loss names the output to differentiate; it goes with --train"),
    (["linear.onnx", "--train", "--loss", "z"], "linear.onnx: --loss is 'z', and the model's outputs are y"),
    (["whole.onnx", "--train"], "whole.onnx: none of the outputs has floating-point numbers"),
    (["whole.onnx", "--train", "--loss", "y"], "whole.onnx: output 'y' does not have floating-point numbers"),
    (["whole.onnx", "--batch", "3"], "--batch: the first dimensions of the model's inputs are fixed: x int64[2]"),
    (["linear.onnx", "--machine", "abacus"], "--machine: no machine is called 'abacus'"),
    (["linear.onnx", "--batch", "3", "--set", "N=5"], "--batch: --set gives the size of the first dimensions, too: leave one"),
    (["linear.onnx", "--set", "M=3"], "--set 'M': the model has no such dimension; it has N, x[AXIS]"),
    (["linear.onnx", "--set", "x[1]=3"], "--set 'x[1]': the model has no such dimension without a size: x float32[N, 3]"),
    (["linear.onnx", "--set", "N"], "--set 'N': write NAME=N, such as seq=128, or NAME[AXIS]=N"),
    (["linear.onnx", "--set", "N=2", "--set", "N=3"], "--set 'N=3': N is given twice, before as '2'"),
    (["linear.onnx", "--ops"], "--ops lists the operators that are covered, and takes no model"),
    (["--ops", "--batch", "3"], "--ops lists the operators that are covered, and takes no --batch"),
    (["--ops", "--trip-count", "3"], "takes no --trip-count"),
    (["idle.onnx"], "idle.onnx: the model computes nothing when it runs, and gives nothing back: there is nothing to price"),
    (["linear.onnx", "--set", f"N={'9' * 5000}"], "a dimension has a whole number of elements"),
    (["linear.onnx", "--set", f"x[{'9' * 5000}]=2"], "the model has no such dimension"),
    (["linear.onnx", "--set", "N=0"], "--set N='0': a dimension has a whole number of elements, 1 to 1,000,000,000"),
    (["wide.onnx"], "'M' of input 'x' (float32[N, M]) has no size: give --set M=N"),
    (["alike.onnx"], "'Q' of input 'x' (float32[Q, 3, Q, Q]) has no size: give --set Q=N"),
    (
        ["wants.onnx"],
        "wants.onnx: input 's' (int64[1]), input 't' (int64[1]) are static, so their values must be known: give --set s=N --set t=N or N,N",
    ),
    (
        ["wants.onnx", "--set", "s=1", "--set", "t=1"],
        "'A' of input 'x' (float32[N, A, B]), 'B' of input 'x' (float32[N, A, B]) have no sizes: give --set A=N --set B=N",
    ),
    (["chosen.onnx"], "name the input it comes from in import_onnx(..., static=['sr']). Here: --set sr=N"),
    (["unsized.onnx"], "dimension 1 of input 'x' (float32[N, ?]) has no size: give --set 'x[1]=N'"),
    (["wide.onnx", "--set", "M=1"], "wide.onnx: node (MatMul-17, which makes m) can't take (float32[1, 1], float32[256, 512])"),
    (
        ["wide.onnx", "--set", "M=1000000000", "--batch", "1000000000"],
        "input 'x' [1000000000,1000000000] has 1,000,000,000,000,000,000 elements: ",
    ),
    (["reshaped.onnx"], "reshaped.onnx: input 's' (int64[2]) is static, so its value must be known: give --set s=N or N,N"),
    (["reshaped.onnx", "--set", "s=a"], "--set s='a': give a number, or several with commas"),
    (["reshaped.onnx", "--set", "s=1,2,3"], "reshaped.onnx: input 's' has shape [3], so dimension 0 is 3 and not 2"),
    (["linear.onnx", "--json", "nowhere/f.json"], "--json nowhere/f.json: No such file or directory"),
    (["linear.onnx", "--report", "text.onnx"], "--report text.onnx: Not a directory; name a directory"),
]


def test_what_is_wrong_is_said_in_one_line(folder: Path, run_all: RunAll) -> None:
    def path(word: str) -> str:
        return str(folder / word) if word.endswith((".onnx", ".json")) or word == "." else word

    results = run_all([[path(word) for word in words] for words, _ in WRONG])
    for (words, message), (code, _, err) in zip(WRONG, results, strict=True):
        assert code == 2, (words, err)
        assert err.count("\n") == 1, (words, err)
        assert err.startswith("tilestep onnx: "), (words, err)
        assert message in err.replace(f"{folder}/", "").replace(str(folder), "."), (words, err)
        assert "\x1b" not in err


ONLY_LARGE = {"random"}  # a result for which there is no room has a price all the same


def test_hostile_files_are_refused_in_one_line(tmp_path: Path, run_all: RunAll) -> None:
    crafted.write(tmp_path)
    results = run_all([[str(tmp_path / "models" / f"{name}.onnx")] for name in crafted.files()])
    assert {name for name, (code, _, _) in zip(crafted.files(), results, strict=True) if not code} == ONLY_LARGE
    for code, _, err in (result for result in results if result[0]):
        assert (code, err.count("\n")) == (2, 1), err
        assert err.startswith(f"tilestep onnx: {tmp_path}/models/"), err
        assert len(err) < 2000


def test_a_size_that_is_none_is_an_error_of_the_option(folder: Path, run_all: RunAll) -> None:
    results = run_all([[str(folder / "linear.onnx"), "--batch", text] for text in ("0", "1,x", "", "1.5")])
    assert [code for code, _, _ in results] == [2, 2, 2, 2]
    assert ["argument --batch: '" in err for _, _, err in results] == [True, True, False, True]
    assert "argument --batch: the list is empty: give values with commas" in results[2][2]
    results = run_all([[str(folder / "linear.onnx"), "--trip-count", trips] for trips in ("0", str(2**31))])  # trips are counted in 32 bits
    assert [code for code, _, _ in results] == [2, 2]
    assert all("must be a whole number, 1 to " in err for _, _, err in results)


def test_onnx_is_named_where_it_is_missing(folder: Path, run_python: RunPython) -> None:
    code = """
import sys
for name in [name for name in sys.modules if name.startswith(("onnx", "tilestep.onnx"))]:
    del sys.modules[name]
sys.modules["onnx"] = None
from tilestep.cli import main
sys.exit(main(["onnx", sys.argv[1]]))
"""
    done = run_python("-c", code, str(folder / "linear.onnx"))
    assert done.returncode == 2
    assert done.stderr == "tilestep onnx: tilestep.onnx needs the package onnx: pip install 'tilestep[onnx]'\n"


def test_a_model_that_onnx_finds_wrong_is_shown_with_what_it_says(folder: Path, tmp_path: Path, run_all: RunAll) -> None:
    made: Any = linear()
    made.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.DOUBLE
    onnx.save(made, str(tmp_path / "m.onnx"))
    ((code, out, _),) = run_all([[str(tmp_path / "m.onnx")]])
    assert code == 0
    assert "ONNX's checker says: " in out
