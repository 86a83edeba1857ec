"""Damaged models: fields of sound ones, changed at random; benchmarks/fuzzed.py changes bytes. Equal seeds make equal mutants."""

import random
from typing import Any, Final

import numpy as np
import onnx
from onnx import external_data_helper, helper, numpy_helper

from tests.unit.onnx.models import linear, model

_INTEGERS: Final = (0, 1, -1, 2, 7, 127, 2**31 - 1, 2**31, 2**40, 2**62, 2**63 - 1, -(2**31), -(2**63))
_FLOATS: Final = (0.0, -1.0, 1e30, -1e30, float("inf"), float("nan"))
_TEXTS: Final = ("", "x", "y", "w", "a", "../secret", "/etc/passwd", "ai.onnx", "é" * 40, "n" * 5000, "Loop", "If", "Reshape", "Cast")

FUNCTION: Final = '<domain: "f", opset_import: ["": 17, "f": 1]> f0 <k> (x) => (y) { c = Constant <value_int: int = @k> ()  y = Add(x, x) }'
BRANCHES: Final = """(float[2] x, bool c) => (float[2] y) {
  y = If (c) <then_branch = t () => (float[2] a) { a = Relu(x) }, else_branch = e () => (float[2] b) { b = Add(x, w) }> }"""
TURNS: Final = """(float[2] x) => (float[2] y, float[k, 2] z) {
  n = Constant <value = int64 {3}> ()  c = Constant <value = bool {1}> ()
  y, z = Loop (n, c, x) <body = b (int64 i, bool on, float[2] s) => (bool on2, float[2] t, float[2] row)
    { on2 = Identity(on)  t = Add(s, w)  row = Relu(t) }> }"""


def _external() -> onnx.ModelProto:
    made = linear()
    for tensor in made.graph.initializer:
        external_data_helper.set_external_data(tensor, "weights", 0, len(tensor.raw_data))
        tensor.ClearField("raw_data")
    return made


def _sparse() -> onnx.ModelProto:
    made = model("(float[2, 3] x) => (float[2, 3] y) { y = Add(x, w) }")
    values, indices = numpy_helper.from_array(np.float32([5, 7]), "w"), numpy_helper.from_array(np.array([[0, 1], [1, 2]]), "i")
    made.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [2, 3]))
    return made


def sound() -> list[onnx.ModelProto]:
    """Models of many kinds of fields. They read "weights", of 64 bytes, beside them."""
    f = np.float32
    return [
        linear(),
        _external(),
        _sparse(),
        model(BRANCHES, w=f([1, 2])),
        model(TURNS, w=f([1, 2])),
        model("(float[2] x) => (float[2] y) { y = f.f0 <k = 3> (x) }", imports=', "f": 1', functions=FUNCTION),
        model(
            "(float[1, 2, 5, 5] x) => (float y) { a = Conv <pads = [1, 1, 1, 1], strides = [2, 1]> (x, w)  b = Relu(a) "
            "c = MaxPool <kernel_shape = [2, 2]> (b)  d = GlobalAveragePool(c)  e = Flatten(d)  y = Softmax(e) }",
            w=np.ones((3, 2, 3, 3), f),
        ),
        model(
            "(float[4, 6] x) => (float y, float z) { a = Slice(x, s, e)  b = Tile(a, r)  c = Expand(b, sh)  d = Pad(c, p) "
            "y = Transpose <perm = [1, 0]> (d)  z, i = TopK(x, k) }",
            s=np.array([0, 1]),
            e=np.array([3, 4]),
            r=np.array([2, 1]),
            sh=np.array([6, 3]),
            p=np.array([0, 1, 0, 1]),
            k=np.array([2]),
        ),
        model(
            "(float[3, 4] x) => (float y) { q = QuantizeLinear(x, s, z)  d = DequantizeLinear(q, s, z)  n = NonZero(d)  t = Transpose(n) "
            "g = GatherND(d, t)  r = Resize(i, , sc)  y = ReduceSum(r) }",
            s=f(0.1),
            z=np.int8(3),
            i=np.ones((1, 1, 2, 2), f),
            sc=f([1, 1, 2, 2]),
        ),
        model(
            "(seq(float[2]) x) => (float y) { a = SequenceAt(x, i)  s = SequenceInsert(x, a)  y = ConcatFromSequence <axis = 0> (s) }",
            i=np.int64(0),
        ),
        model(
            '(float[2, 3] x) => (float y) { t = Constant <value_strings = ["ab", "c"]> ()  n = StringNormalizer(t) '
            'y = Einsum <equation = "ab,cb->ac"> (x, x) }'
        ),
    ]


def mutants(seed: int, count: int) -> list[bytes]:
    """Files, no two alike."""
    rng = random.Random(seed)
    models = sound()
    made: dict[bytes, None] = {}
    while len(made) < count:
        changed = onnx.ModelProto()
        changed.CopyFrom(rng.choice(models))
        for _ in range(rng.choice((1, 1, 1, 2, 4))):
            _change(rng, changed)
        made[changed.SerializeToString()] = None
    return list(made)


def _change(rng: random.Random, message: Any) -> None:
    """Changes one field of a message, or of one within it."""
    fields = [field for field, _ in message.ListFields()]
    if fields and rng.random() < 0.85:
        field = rng.choice(fields)
        inner = getattr(message, field.name)
        if field.message_type is not None and rng.random() < 0.8:
            _change(rng, rng.choice(inner) if field.is_repeated else inner)
            return
    else:
        field = rng.choice(message.DESCRIPTOR.fields)
    _set(rng, message, field)


def _set(rng: random.Random, message: Any, field: Any) -> None:
    if field.is_repeated:
        values = getattr(message, field.name)
        way = rng.randrange(4)
        if way == 0 or (way == 1 and not values):
            message.ClearField(field.name)
        elif way == 1:
            values.append(rng.choice(values))
        elif way == 2 and len(values) > 1:
            del values[rng.randrange(len(values))]
        elif field.message_type is not None:
            _change(rng, values.add())
        else:
            values.append(_value(rng, field))
    elif field.message_type is not None:
        inner = getattr(message, field.name)
        if rng.random() < 0.5:
            message.ClearField(field.name)
        else:
            inner.SetInParent()
    else:
        setattr(message, field.name, _value(rng, field))


def _value(rng: random.Random, field: Any) -> Any:
    if field.enum_type is not None:
        return rng.choice(field.enum_type.values).number
    match field.cpp_type:
        case field.CPPTYPE_STRING:
            text = rng.choice(_TEXTS)
            return text.encode() if field.type == field.TYPE_BYTES else text
        case field.CPPTYPE_FLOAT | field.CPPTYPE_DOUBLE:
            return rng.choice(_FLOATS)
        case field.CPPTYPE_BOOL:
            return rng.random() < 0.5
        case kind:
            chosen = rng.choice(_INTEGERS) if rng.random() < 0.7 else rng.randrange(40)
            bits = 31 if kind in (field.CPPTYPE_INT32, field.CPPTYPE_UINT32) else 63
            return max(min(chosen, 2**bits - 1), 0 if kind in (field.CPPTYPE_UINT32, field.CPPTYPE_UINT64) else -(2**bits))
