"""Models that somebody made to do harm: each file's name, its content, and the words that it has to be refused with."""

import functools
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
from onnx import external_data_helper, helper, numpy_helper

from tests.unit.onnx.models import linear, model

DAMAGED, NODE, UNSAFE, MISSING = "OnnxError", "NodeError", "UnsafeModelError", "UnsupportedOpError"
_FUNCTION: Final = '<domain: "f", opset_import: ["": 17, "f": 1]> {name} (x) => (y) {{ y = f.{calls}(x) }}'
_CALLS: Final = "(float[2] x) => (float[2] y) { y = f.a(x) }"


def _with(change: Callable[[onnx.ModelProto], Any], made: onnx.ModelProto | None = None) -> bytes:
    made = made or linear()
    change(made)
    return made.SerializeToString()


def _elsewhere(location: str, **entries: str) -> bytes:
    """A model whose first initialiser, of 48 bytes, stands in a file."""
    made = linear()
    tensor = made.graph.initializer[0]
    external_data_helper.set_external_data(tensor, location, 0, len(tensor.raw_data))
    tensor.ClearField("raw_data")
    for entry in tensor.external_data:
        entry.value = entries.get(entry.key, entry.value)
    return made.SerializeToString()


def _recursive(*calls: tuple[str, str]) -> bytes:
    functions = "\n".join(_FUNCTION.format(name=name, calls=other) for name, other in calls)
    return model(_CALLS, imports=', "f": 1', functions=functions).SerializeToString()


def _nested(depth: int) -> bytes:
    """Graphs within graphs, written from inside out, which protobuf's own bound on depth does not have to allow."""
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "g", [], [onnx.ValueInfoProto(name="y")])
    content = graph.SerializeToString()
    before, after, size = list[bytes](), list[bytes](), len(content)  # joined once at the end: what there is, is copied at no level
    for _ in range(depth):
        for number, first, last in (
            (6, field(1, b"then_branch"), b"\xa0\x01\x05"),
            (5, field(2, b"y") + field(4, b"If"), b""),
            (1, b"", field(2, b"g") + field(12, field(1, b"y"))),
        ):
            before.append(first + _head(number, size))
            after.append(last)
            size += len(before[-1]) + len(last)
    return b"\x08\x08" + field(8, b"\x10\x11") + field(7, b"".join([*reversed(before), content, *after]))


def field(number: int, content: bytes) -> bytes:
    """A field of a protobuf whose content is bytes."""
    return _head(number, len(content)) + content


def _head(number: int, length: int) -> bytes:
    size = bytearray()
    while True:
        size.append(length & 127 | (128 if length > 127 else 0))
        length >>= 7
        if not length:
            return bytes([number << 3 | 2, *size])


def _sparse(dims: list[int], indices: list[list[int]]) -> bytes:
    made = model("(float[2, 3] x) => (float[2, 3] y) { y = Add(x, w) }")
    values = numpy_helper.from_array(np.float32([5] * len(indices)), "w")
    made.graph.sparse_initializer.append(helper.make_sparse_tensor(values, numpy_helper.from_array(np.array(indices), "i"), dims))
    return made.SerializeToString()


def _large(text: str, **initializers: Any) -> bytes:
    """A few bytes that ask for many when the model runs."""
    return model(f"(float[2] x) => (float y) {{ {text} }}", **initializers).SerializeToString()


def _set(name: str, value: Any) -> Callable[[onnx.ModelProto], None]:
    return lambda made: setattr(made.graph.initializer[0], name, value)


def _dims(*dims: int) -> Callable[[onnx.ModelProto], None]:
    return lambda made: made.graph.initializer[0].dims.__setitem__(slice(None), dims)


@functools.cache
def files() -> Mapping[str, tuple[bytes, str]]:
    """By name: content, and the words."""
    return {
        "empty": (b"", DAMAGED),
        "endless-number": (b"\x08" + b"\xff" * 100, DAMAGED),
        "calls-itself": (_recursive(("a", "a")), UNSAFE),
        "call-each-other": (_recursive(("a", "b"), ("b", "a")), UNSAFE),
        "two-functions-of-a-name": (_recursive(("a", "b"), ("a", "b"), ("b", "b")), DAMAGED),
        "nested-65": (_nested(65), DAMAGED),
        "nested-20000": (_nested(20_000), DAMAGED),
        "cycle": (_with(lambda made: made.graph.node[0].input.__setitem__(0, "y")), DAMAGED),
        "made-twice": (_with(lambda made: made.graph.node.append(made.graph.node[0])), DAMAGED),
        "named-twice": (_with(lambda made: made.graph.initializer.append(made.graph.initializer[0])), DAMAGED),
        "no-utf-8": (linear().SerializeToString().replace(b"MatMul", b"Mat\xfful"), DAMAGED),
        "dims-overflow": (_with(_dims(2**62, 2**62)), DAMAGED),
        "dims-negative": (_with(_dims(-1, 12)), DAMAGED),
        "type-unknown": (_with(_set("data_type", 10**6)), DAMAGED),
        "opset-newest": (_with(lambda made: setattr(made.opset_import[0], "version", 2**40)), DAMAGED),
        "name-long": (_with(lambda made: setattr(made.graph.node[0], "op_type", "n" * 10**6)), MISSING),
        "sparse-huge": (_sparse([2**40, 2**20], [[0, 0]]), UNSAFE),
        "sparse-outside": (_sparse([2, 3], [[0, -1], [5, 5]]), DAMAGED),
        "above": (_elsewhere("../secret"), UNSAFE),
        "above-inside": (_elsewhere("inner/../../secret"), UNSAFE),
        "absolute": (_elsewhere("/etc/passwd"), UNSAFE),
        "link": (_elsewhere("link"), UNSAFE),
        "linked-folder": (_elsewhere("linked/secret"), UNSAFE),
        "hard-link": (_elsewhere("hard"), UNSAFE),
        "pipe": (_elsewhere("pipe"), UNSAFE),
        "device": (_elsewhere("/dev/zero"), UNSAFE),
        "nul": (_elsewhere("weights\0"), UNSAFE),
        "folder": (_elsewhere("inner"), UNSAFE),
        "offset-overflow": (_elsewhere("weights", offset=str(2**64 - 8)), DAMAGED),
        "offset-negative": (_elsewhere("weights", offset="-8"), DAMAGED),
        "length-negative": (_elsewhere("weights", length="-48"), DAMAGED),
        "length-huge": (_elsewhere("weights", length=str(2**61)), DAMAGED),
        "fill": (_large("y = ConstantOfShape(s)", s=np.array([2**31, 2**10])), NODE),
        "range": (_large("y = Range(a, b, c)", a=np.float32(0), b=np.float32(1e18), c=np.float32(1)), NODE),
        "expand": (_large("y = Expand(x, s)", s=np.array([2**30, 2**20, 2])), NODE),
        "tile": (_large("y = Tile(x, s)", s=np.array([2**50])), NODE),
        "pad": (_large("y = Pad(x, s)", s=np.array([2**40, 2**40])), NODE),
        "resize": (_large("y = Resize(x, , s)", s=np.float32([1e18])), NODE),
        "one-hot": (_large("y = OneHot(x, d, v)", d=np.array(2**50), v=np.float32([0, 1])), NODE),
        "eye": (_large("a = ConstantOfShape(s)  y = EyeLike(a)", s=np.array([2**25, 2**25])), NODE),
        "random": (_large("y = RandomUniform <shape = [1099511627776]> ()"), DAMAGED),
    }


def write(folder: Path) -> None:
    """Writes the files into `folder`/models, and beside it what they may not read."""
    models = folder / "models"
    (models / "inner").mkdir(parents=True)
    secret = folder / "secret"
    secret.write_bytes(b"s" * 64)
    (models / "link").symlink_to(secret)
    (models / "linked").symlink_to(folder)
    os.link(secret, models / "hard")
    os.mkfifo(models / "pipe")
    (models / "weights").write_bytes(bytes(64))
    for name, (content, _) in files().items():
        (models / f"{name}.onnx").write_bytes(content)
