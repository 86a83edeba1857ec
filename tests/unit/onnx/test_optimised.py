"""Files that ONNX Runtime's optimiser, quantiser and tools for transformers wrote give ONNX Runtime's results."""

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from tests.unit.onnx.models import model
from tests.unit.onnx.ops.agree import values
from tilestep.onnx import import_onnx

Network = tuple[onnx.ModelProto, Mapping[str, Any]]
Tool = Callable[[onnx.ModelProto, Mapping[str, Any], Path], onnx.ModelProto]


def weight(seed: int, *shape: int) -> np.ndarray[Any, Any]:
    return values(*shape, seed=seed) / 2


def convolutions() -> Network:
    text = """(float[N,3,8,8] x) => (float[N,5] y) {
        c1 = Conv <pads = [1,1,1,1]> (x, w1)  n1 = BatchNormalization(c1, g, b, m, v)  r1 = Relu(n1)
        c2 = Conv <pads = [1,1,1,1]> (r1, w2, b)  s2 = Add(c2, r1)  r2 = Relu(s2)  c3 = Conv(r2, w3, b)  l3 = LeakyRelu <alpha = 0.2> (c3)
        k = Concat <axis = 1> (l3, l3)  p = AveragePool <kernel_shape = [2,2], strides = [2,2]> (k)  q = Sigmoid(p)  e = Mul(q, p)
        a = GlobalAveragePool(e)  f = Flatten(a)  z = Gemm(f, w4, b4)  y = Softmax(z)
    }"""
    kernels = {"w1": weight(0, 4, 3, 3, 3), "w2": weight(5, 4, 4, 3, 3), "w3": weight(7, 4, 4, 3, 3), "w4": weight(8, 8, 5)}
    norms = {"g": 1 + weight(1, 4), "b": weight(2, 4), "m": weight(3, 4), "v": 1 + abs(weight(4, 4)), "b4": weight(9, 5)}
    return model(text, **kernels, **norms), {"x": values(2, 3, 8, 8)}


def layer_norm(x: str, y: str) -> str:
    return f"""m{y} = ReduceMean <axes = [-1]> ({x})  d{y} = Sub({x}, m{y})  p{y} = Pow(d{y}, two)  v{y} = ReduceMean <axes = [-1]> (p{y})
        e{y} = Add(v{y}, eps)  t{y} = Sqrt(e{y})  n{y} = Div(d{y}, t{y})  s{y} = Mul(n{y}, g)  {y} = Add(s{y}, b)"""


def transformer_block() -> Network:
    """As PyTorch exports one for version 14, which has no layer norm and no Gelu."""
    parts = (
        ("q", "q = Transpose <perm = [0,2,1,3]> "),
        ("k", "k = Transpose <perm = [0,2,3,1]> "),
        ("v", "v = Transpose <perm = [0,2,1,3]> "),
    )
    heads = " ".join(f"{x}0 = MatMul(x, w{x})  {x}1 = Add({x}0, b{x})  {x}2 = Reshape({x}1, heads)  {move}({x}2)" for x, move in parts)
    text = f"""(float[N,6,16] x) => (float[N,6,16] y) {{
        {heads}  s0 = MatMul(q, k)  s1 = Div(s0, root)  s = Softmax <axis = -1> (s1)  c0 = MatMul(s, v)
        c1 = Transpose <perm = [0,2,1,3]> (c0)  c = Reshape(c1, flat)  o0 = MatMul(c, wo)  o1 = Add(o0, bo)  o = Add(o1, x)
        {layer_norm("o", "h")}  f0 = MatMul(h, wf)  f1 = Add(f0, bf)  i = Div(f1, r2)  j = Erf(i)  l = Add(j, one)  f2 = Mul(f1, l)
        f = Mul(f2, half)  z0 = MatMul(f, wz)  z1 = Add(z0, bo)  z = Add(z1, h)  {layer_norm("z", "y")}
    }}"""
    square = {f"w{x}": weight(seed, 16, 16) for seed, x in enumerate("qkvo")}
    rest = {"wf": weight(4, 16, 32), "wz": weight(5, 32, 16), "bf": weight(6, 32), "g": 1 + weight(7, 16)}
    biases = {name: weight(seed, 16) for seed, name in enumerate(("bq", "bk", "bv", "bo", "b"), start=8)}
    numbers = {"root": 8**0.5, "two": 2, "eps": 1e-5, "r2": 2**0.5, "one": 1, "half": 0.5}
    shapes = {"heads": np.array([0, 0, 2, 8]), "flat": np.array([0, 0, 16])}
    made = model(text, opset=14, **square, **rest, **biases, **shapes, **{name: np.float32(number) for name, number in numbers.items()})
    return made, {"x": values(2, 6, 16)}


def recurrent() -> Network:
    text = (
        '(float[5,N,3] x) => (float[5,2,N,4] y, float[2,N,4] h) { y, h = LSTM <hidden_size = 4, direction = "bidirectional"> (x, w, r, b) }'
    )
    return model(text, w=weight(0, 2, 16, 3), r=weight(1, 2, 16, 4), b=weight(2, 2, 32)), {"x": values(5, 2, 3)}


def perceptron() -> Network:
    text = "(float[N,16] x) => (float[N,4] y) { a = Gemm <transB = 1> (x, w1, b)  r = Relu(a)  t = Transpose(r)  u = MatMul(w2, t)  "
    made = model(text + "v = Transpose(u)  y = Tanh(v) }", w1=weight(0, 32, 16), b=weight(1, 32), w2=weight(2, 4, 32))
    return made, {"x": values(3, 16)}


def embedded() -> Network:
    text = """(int64[N,6] ids) => (float[N,6,8] y) {
        e = Gather(table, ids)  p = Add(e, places)  t = MatMul(p, w)  s = Mul(t, k)  g = Sigmoid(s)  y = Mul(t, g) }"""
    made = model(text, table=weight(0, 20, 8), places=weight(1, 6, 8), w=weight(2, 8, 8), k=np.float32(1.702))
    return made, {"ids": np.random.default_rng(0).integers(0, 20, (2, 6))}


def session(made: onnx.ModelProto, level: str, written: Path | None = None) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1  # with several a recurrent network quantises parts of the batch apart
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, f"ORT_{level}")
    if written is not None:
        options.optimized_model_filepath = str(written)
    return onnxruntime.InferenceSession(made.SerializeToString(), options, providers=["CPUExecutionProvider"])


def optimised(level: str) -> Tool:
    def run(made: onnx.ModelProto, inputs: Mapping[str, Any], folder: Path) -> onnx.ModelProto:
        session(made, f"ENABLE_{level}", folder / "optimised.onnx")
        return onnx.load(folder / "optimised.onnx")

    return run


def dynamic(made: onnx.ModelProto, inputs: Mapping[str, Any], folder: Path) -> onnx.ModelProto:
    from onnxruntime import quantization

    onnx.save(made, folder / "made.onnx")
    # Without reduce_range some computers' sums of products saturate.
    quantization.quantize_dynamic(
        folder / "made.onnx", folder / "dynamic.onnx", reduce_range=True, weight_type=quantization.QuantType.QInt8
    )
    return onnx.load(folder / "dynamic.onnx")


def static(form: str) -> Tool:
    def run(made: onnx.ModelProto, inputs: Mapping[str, Any], folder: Path) -> onnx.ModelProto:
        from onnxruntime import quantization

        left = iter([inputs])

        class Reader(quantization.CalibrationDataReader):
            def get_next(self) -> Any:
                return next(left, None)

        onnx.save(made, folder / "made.onnx")
        options = {"quant_format": quantization.QuantFormat[form], "reduce_range": True}
        quantization.quantize_static(folder / "made.onnx", folder / "static.onnx", Reader(), **options)
        return onnx.load(folder / "static.onnx")

    return run


def for_transformers(made: onnx.ModelProto, inputs: Mapping[str, Any], folder: Path) -> onnx.ModelProto:
    from onnxruntime.transformers import fusion_options, optimizer

    onnx.save(made, folder / "made.onnx")
    options = fusion_options.FusionOptions("bert")
    options.enable_shape_inference = False  # which another package does
    found = optimizer.optimize_model(
        str(folder / "made.onnx"), "bert", num_heads=2, hidden_size=16, opt_level=0, optimization_options=options
    )
    found.save_model_to_file(str(folder / "fused.onnx"))
    return onnx.load(folder / "fused.onnx")


def then(*tools: Tool) -> Tool:
    def run(made: onnx.ModelProto, inputs: Mapping[str, Any], folder: Path) -> onnx.ModelProto:
        for tool in tools:
            made = tool(made, inputs, folder)
        return made

    return run


EXTENDED, INTEGERS, PAIRS = optimised("EXTENDED"), static("QOperator"), static("QDQ")
MADE: list[tuple[Callable[[], Network], Tool, set[str]]] = [  # the operators of com.microsoft that must be among its own
    (convolutions, EXTENDED, {"FusedConv", "QuickGelu"}),
    (
        convolutions,
        INTEGERS,
        {f"QLinear{name}" for name in ("Add", "Mul", "Concat", "Softmax", "Sigmoid", "LeakyRelu", "GlobalAveragePool")} | {"QGemm"},
    ),
    (transformer_block, EXTENDED, {"BiasGelu", "FusedMatMul", "SkipLayerNormalization"}),
    (transformer_block, for_transformers, {"Attention", "BiasGelu", "SkipLayerNormalization"}),
    (transformer_block, then(dynamic, EXTENDED), {"DynamicQuantizeMatMul", "MatMulIntegerToFloat", "Gelu"}),
    (recurrent, dynamic, {"DynamicQuantizeLSTM"}),
    (perceptron, EXTENDED, {"FusedGemm", "FusedMatMul"}),
    (embedded, then(PAIRS, EXTENDED), {"QLinearSigmoid"}),
]


@pytest.mark.few(4)
@pytest.mark.parametrize(("network", "tool", "wanted"), MADE)
def test_a_file_gives_the_results_of_onnx_runtime(
    network: Callable[[], Network], tool: Tool, wanted: set[str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    proto, inputs = network()
    made = tool(proto, inputs, tmp_path)
    assert wanted <= {node.op_type for node in made.graph.node if node.domain == "com.microsoft"}
    expected = session(made, "DISABLE_ALL").run(None, dict(inputs))
    for got, one in zip(import_onnx(made).run(inputs).values(), expected, strict=True):
        # A sum whose order differs may round to the neighbouring one of 256 numbers.
        np.testing.assert_allclose(got, one, rtol=1e-4, atol=float(np.ptp(one)) / 60 if "Q" in str(made.graph.node) else 1e-5)
