"""Hostile files end in an error of this package, in little time and memory, and nothing outside of their folder is opened."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import onnx
import pytest
from onnx import helper

from tests.processes import run_python
from tests.unit.onnx import crafted
from tests.unit.onnx.models import model
from tilestep.onnx import OnnxError, OnnxModel, export_onnx, import_onnx

pytestmark = pytest.mark.process


def read(folder: Path, *words: str) -> list[dict[str, Any]]:
    """What tests.unit.onnx.hostile says of models: first of files, then of damaged ones."""
    done = run_python("-m", "tests.unit.onnx.hostile", str(folder), *words)
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("count", [40, pytest.param(5000, marks=pytest.mark.slow)])
def test_crafted_files_are_refused_and_damaged_ones_are_refused_or_run(count: int, tmp_path: Path) -> None:
    crafted.write(tmp_path)
    made, damaged = read(tmp_path / "models", "0", str(count), *(f"{name}.onnx" for name in crafted.files()))
    assert made["wrong"] == []
    assert made["ends"] == {f"{name}.onnx": end for name, (_, end) in crafted.files().items()}
    assert damaged["wrong"] == []
    assert sum(damaged["counts"].values()) == count
    assert damaged["counts"]["sound"] > count // 20  # some damage leaves a model
    assert damaged["counts"]["OnnxError"] > count // 2


EVIL = "\x1b[31m\x9b2J\n\u202eevil" + "x" * 5000
X = np.ones((2, 3), np.float32)
SIZE = np.array([2, 3])
FUNCTION = '<domain: "f", opset_import: ["": 17]> EVIL (x) => (y) '


def renamed(message: Any) -> Any:
    """The message with the hostile text wherever it has EVIL."""
    for field, value in message.ListFields():
        if field.message_type is not None:
            for inner in value if field.is_repeated else [value]:
                renamed(inner)
        elif field.type in (field.TYPE_STRING, field.TYPE_BYTES) and field.name != "raw_data":
            is_text = field.type == field.TYPE_STRING
            evil, name = (EVIL, "EVIL") if is_text else (EVIL.encode(), b"EVIL")
            if field.is_repeated:
                value[:] = [text.replace(name, evil) for text in value]
            else:
                setattr(message, field.name, value.replace(name, evil))
    return message


def node(op_type: str, *inputs: str, name: str = "EVIL", domain: str = "", **attributes: Any) -> onnx.ModelProto:
    """A model of one node with a hostile name."""
    made = model("(float[2,3] EVIL, int64[2] s) => (float[a,b] EVILy) {}")
    made.graph.node.append(helper.make_node(op_type, inputs or ("EVIL",), ["EVILy"], name=name, domain=domain, **attributes))
    return made


def changed(proto: onnx.ModelProto, change: Callable[[onnx.ModelProto], Any]) -> onnx.ModelProto:
    change(proto)
    return proto


READ: dict[str, onnx.ModelProto] = {
    "missing operator": node("EVIL"),
    "value of an attribute": node("Softmax", axis="EVIL"),
    "made twice": model("(float[2] x) => (float[2] EVIL) { EVIL = Relu(x)  EVIL = Neg(x) }"),
    "external tensor": changed(
        model("(float[2] x) => (float[2] y) { y = Add(x, EVIL) }", EVIL=np.float32(1)),
        lambda m: (
            setattr(m.graph.initializer[0], "data_location", 1),
            m.graph.initializer[0].external_data.append(onnx.StringStringEntryProto(key="location", value="EVIL")),
        ),
    ),
    "function reads": model(
        "(float[2] x) => (float[2] y) { y = f.EVIL(x) }", imports=', "f": 1', functions=FUNCTION + "{ y = Relu(EVILz) }"
    ),
}


@pytest.mark.parametrize("case", READ)
def test_an_error_of_reading_shows_names_written_out(case: str) -> None:
    with pytest.raises(OnnxError) as found:
        import_onnx(renamed(READ[case]))
    require_plain(str(found.value))


RUN: dict[str, tuple[onnx.ModelProto, Callable[[OnnxModel], Any]]] = {
    "equation": (node("Einsum", equation="EVIL"), lambda made: made(X, SIZE)),
    "shapes": (node("MatMul", "EVIL", "EVIL"), lambda made: made(X, SIZE)),
    "static": (node("Reshape", "EVIL", "s"), lambda made: jax.jit(made.fn)({}, X, SIZE)),
    "type of an input": (node("Relu"), lambda made: made(X > 0, SIZE)),
    "parameters": (model("(float[2] x) => (float[2] y) { y = Mul(x, EVIL) }", EVIL=np.float32(1)), lambda made: made.fn({}, X[0, :2])),
    "sizes": (model("(float[EVIL,3] x) => (float[EVIL,3] y) { y = Relu(x) }"), lambda made: made.stages([EVIL])),
    "export": (
        model("(float[2] x) => (float[2] y) { y = Mul(x, EVIL) }", EVIL=np.float32(1)),
        lambda made: export_onnx(made, {}, "nowhere.onnx"),
    ),
}


@pytest.mark.parametrize("case", RUN)
def test_an_error_of_running_shows_names_written_out(case: str) -> None:
    proto, run = RUN[case]
    made = import_onnx(renamed(proto))
    with pytest.raises(OnnxError) as found:
        run(made)
    require_plain(str(found.value))


def test_what_a_model_says_of_itself_is_written_out() -> None:
    made = import_onnx(renamed(model("(float[EVIL,3] EVIL) => (float[EVIL,3] EVILy) { EVILy = Relu(EVIL) }")))
    for text in (repr(made), made.summary()):
        require_plain(text)
        assert "\\x1b" in text


def require_plain(text: str) -> None:
    """Lines of bounded length, of which no character does anything but to be seen; notes of JAX stand behind them."""
    lines = text.partition("\n--------------------\n")[0].split("\n")
    assert "\\x1b[31m\\x9b2J\\n\\u202eevil" in text or "evil" not in text, text
    assert all(line.isprintable() and len(line) <= 5200 for line in lines), text
