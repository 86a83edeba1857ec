import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tilestep import popart
from tilestep.popart import Builder, DebugContext, DebugInfo, TensorInfo


def inner(value: int, context: DebugContext) -> None:
    DebugInfo(context, "layer").setValue("value", str(value))


def outer(context: DebugContext) -> None:
    info = DebugInfo(context, "layer")
    info.setValue("value", "1")
    inner(2, DebugContext(info, "inner"))


def written(path: Path) -> dict[str, Any]:
    popart.closePoplarDebugInfo()
    return json.loads(path.read_text())


def test_steps_are_written_as_they_end(tmp_path: Path) -> None:
    popart.initializePoplarDebugInfo(str(tmp_path / "debug.json"), "json")
    outer(DebugContext())
    document = written(tmp_path / "debug.json")
    first, second = document["contexts"]
    texts = document["stringTable"]
    assert (first["layer"], first["value"], first["parentId"], second["id"]) == ("layer", "2", 1, 1)
    assert [texts[one["name"]] for one in (first, second)] == ["inner", ""]
    assert [texts[one["location"]["functionName"]] for one in (first, second)] == ["outer", "test_steps_are_written_as_they_end"]
    assert all(texts[one["location"]["fileName"]].endswith("test_debug.py") for one in (first, second))
    assert second["location"]["lineNumber"] > first["location"]["lineNumber"]
    assert "parentId" not in second


def test_nodes_and_inputs_are_steps(tmp_path: Path) -> None:
    popart.initializePoplarDebugInfo(str(tmp_path / "debug.json"))
    builder = Builder()
    x = builder.addInputTensor(TensorInfo("FLOAT", [2]), "data")
    builder.addInitializedInputTensor(np.ones(2, np.float32), "w")
    y = builder.aiOnnx.add([x, "w"], "sum")
    document = written(tmp_path / "debug.json")
    assert [one.get("api") for one in document["contexts"]] == ["addInputTensor", "addInitializedInputTensor", "add"]
    node = document["contexts"][2]
    assert (node["inputs"], node["outputs"], document["stringTable"][node["name"]]) == (["data", "w"], [y], "sum")
    assert builder.getInt64NodeAttribute("__debug_info_id", {y}) == node["id"]


def test_other_arguments_are_refused() -> None:
    for args in ((3,), ("name", "loc"), ("a", None, None)):
        with pytest.raises(TypeError, match="DebugContext: incompatible constructor arguments"):
            DebugContext(*args)
    with pytest.raises(popart.popart_exception, match="format 'cbor' is not written here"):
        popart.initializePoplarDebugInfo("file", "cbor")
