"""A model in stages computes what the model computes, and trains as it does."""

from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import optax
import pytest

from tests.unit.onnx.models import model, uniform
from tilestep.onnx import OnnxError, OnnxModel, import_onnx
from tilestep.train import Pipeline

WIDTH, ROWS, COUNT = 8, 4, 12
RNG = np.random.default_rng(1)


def network(*, norm: bool = False, tied: bool = False, indices: bool = False, dropout: bool = False) -> onnx.ModelProto:
    """Four layers; the last reshapes to the shape of the input."""
    lines, weights, x = [], {}, "x"
    for k in range(4):
        name = "w0" if tied and k == 3 else f"w{k}"
        weights.setdefault(name, uniform(WIDTH, WIDTH) / 2)
        lines.append(f"m{k} = MatMul({x}, {name})")
        x = f"m{k}"
        if norm:
            weights |= {f"{part}{k}": np.full(WIDTH, part in "sv", np.float32) for part in "sbuv"}
            lines.append(f"n{k} = BatchNormalization({x}, s{k}, b{k}, u{k}, v{k})")
            x = f"n{k}"
        lines.append(f"t{k} = Tanh({x})")
        x = f"t{k}"
        if indices:
            weights[f"p{k}"] = RNG.permutation(WIDTH)
            lines.append(f"g{k} = Gather <axis = 1> ({x}, p{k})")
            x = f"g{k}"
        if dropout:
            lines.append(f"d{k} = Dropout({x}, ratio)")
            weights["ratio"] = np.float32(0.5)
            x = f"d{k}"
    lines += ["shape = Shape(x)", f"out = Reshape({x}, shape)"]
    return model(f"(float[N,{WIDTH}] x) => (float[N,{WIDTH}] out) {{ {'  '.join(lines)} }}", **weights)


def squares(out: Any, label: Any) -> Any:
    return ((out - label) ** 2).mean()


def data() -> tuple[Any, Any]:
    return uniform(COUNT, ROWS, WIDTH), uniform(COUNT, ROWS, WIDTH)


def one_update(found: OnnxModel, xs: Any, labels: Any) -> tuple[Any, Any, Any]:
    """(parameters after an update of plain gradient descent, losses, state)."""

    def mean(params: Any) -> Any:
        losses, state = [], found.state
        for x, label in zip(xs, labels, strict=True):
            if found.training:
                (out,), state = found.fn(params, state, x)
            else:
                (out,) = found.fn(params, x)
            losses.append(squares(out, label))
        return jnp.stack(losses).mean(), (jnp.stack(losses), state)

    gradients, (losses, state) = jax.jit(jax.grad(mean, has_aux=True))(found.params)
    return {name: array - 0.1 * gradients[name] for name, array in found.params.items()}, losses, state


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "cuts"),
    [({}, ["t0", "t2"]), ({"indices": True}, ["t0", "g2"]), ({"tied": True, "indices": True}, ["m1"]), ({"norm": True}, ["t1", "n2"])],
)
def test_a_pipeline_of_stages_trains_as_the_model_does(options: dict[str, bool], cuts: list[str]) -> None:
    found = import_onnx(network(**options), training=options.get("norm", False))
    made = found.stages(cuts, sizes={"N": ROWS}, loss=squares)
    stages, params, tied = made
    assert bool(tied) == options.get("tied", False)
    xs, labels = data()
    pipeline = Pipeline(stages, optax.sgd(0.1), COUNT, device_mapping=[0] * len(stages), reduction="mean", tied=tied)
    state, losses = pipeline.step(pipeline.init(params, made.aux), (xs, labels))
    wanted, wanted_losses, wanted_state = one_update(found, xs, labels)
    np.testing.assert_allclose(losses, wanted_losses, rtol=1e-5)
    assert {name for own in state.params for name in own} == set(found.params)
    for own in state.params:
        for name, array in own.items():
            np.testing.assert_allclose(array, wanted[name], rtol=1e-4, atol=1e-6)
    for own in state.aux or []:
        for name, array in (own or {}).items():
            np.testing.assert_allclose(array, wanted_state[name], rtol=1e-4, atol=1e-6)


def test_a_pipeline_without_training_gives_the_models_outputs() -> None:
    found = import_onnx(network())
    stages, params, _ = found.stages(["t0", "t2"], sizes={"N": ROWS})
    xs, _ = data()
    pipeline = Pipeline(stages, None, COUNT, device_mapping=[0, 0, 0])
    _, outputs = pipeline.step(pipeline.init(params), xs)
    np.testing.assert_allclose(outputs, np.stack([found(x)[0] for x in xs]), rtol=1e-4, atol=1e-6)


@pytest.mark.slow
def test_values_that_later_stages_need_are_passed_on() -> None:
    made = import_onnx(
        model(
            "(float[N,4] x, float[N,1] mask, int64[N] i) => (float[N,4] y, float[N,4] a) "
            "{ a = Mul(x, w)  b = Relu(a)  c = Tanh(b)  d = Mul(c, mask)  e = Gather(d, i)  y = Add(e, a) }",
            w=uniform(4),
        )
    )
    cut = made.stages(["b", "c"], sizes={"N": 3})
    assert cut.passed == (("mask", "i", "a", "b"), ("mask", "i", "a", "c"))
    x, mask, i = uniform(3, 4), uniform(3, 1), np.array([2, 0, 1])
    values: Any = (x, mask, i, "extra")
    for stage, params in zip(cut.stages, cut.params, strict=True):
        values = stage(params, *values)
    np.testing.assert_allclose(values[0], made(x, mask, i)[0], rtol=1e-6)
    assert values[2] == "extra"


def test_an_output_is_the_loss() -> None:
    made = import_onnx(model("(float[4] x) => (float[4] y, float l) { y = Relu(x)  l = ReduceSum <keepdims = 0> (y) }"))
    x = np.float32([1, -1, 2, 3])
    assert made.stages([], loss="l").stages[0]({}, x)[0] == 6
    assert made.stages([]).stages[0]({}, x)[1] == 6
    with pytest.raises(OnnxError, match="loss is 'z', and the model's outputs are y, l"):
        made.stages([], loss="z")


@pytest.mark.parametrize(
    ("cuts", "sizes", "message"),
    [
        (["zz"], {"N": 4}, "cuts names 'zz', at which the model can't be cut: no node makes it"),
        (["x"], {"N": 4}, "no node makes it"),
        (["shape"], {"N": 4}, "its value depends on shapes alone"),
        (["t2", "t0"], {"N": 4}, "cuts has 't0' in place 1, but stages before it compute that already"),
        ("t0", {"N": 4}, r"cuts is the text 't0': it must be a list of values' names, such as \['t0'\]"),
        (["t0"], {}, r"no size is known of 'N' of input 'x' \(float32\[N, 8\]\): give sizes=\{'N': ...\}"),
        (["t0"], {"N": 4, "x[1]": 3}, r"sizes names 'x\[1\]', and the inputs' named dimensions are N"),
        (["t0"], {"N": 4, "M": 3}, "sizes names 'M', and the inputs' named dimensions are N"),
        (0, {"N": 4}, "stages is 0: it must be a number of stages, at least 1"),
    ],
)
def test_cuts_that_cannot_be_are_refused(cuts: Any, sizes: dict[str, int], message: str) -> None:
    with pytest.raises(OnnxError, match=message):
        import_onnx(network()).stages(cuts, sizes=sizes)


def test_a_stage_is_for_the_sizes_that_it_was_made_for() -> None:
    made = import_onnx(network()).stages(["t0"], sizes={"N": 4})
    with pytest.raises(OnnxError, match=r"net_0 gets 'x' of shape \[5, 8\], and is made for \[4, 8\]"):
        made.stages[0](made.params[0], uniform(5, 8))
    with pytest.raises(OnnxError, match="net_0 gets 0 values, and takes x"):
        made.stages[0](made.params[0])


def test_static_inputs_are_fixed_first() -> None:
    made = model("(float[6] x, int64[2] s) => (float[a,b] y) { z = Relu(x)  y = Reshape(z, s) }")
    with pytest.raises(OnnxError, match=r"input 's' is static, and a stage gets arrays only: fix it by import_onnx"):
        import_onnx(made).stages(["z"])
    stages, params, _ = import_onnx(made, static={"s": (2, 3)}).stages(["z"])
    assert stages[1](params[1], stages[0](params[0], uniform(6))[0]).shape == (2, 3)


def test_statistics_belong_to_one_stage() -> None:
    weights = {name: np.ones(4, np.float32) for name in ("s", "b", "u", "v")}
    text = "(float[N,4] x) => (float[N,4] y) { a = BatchNormalization(x, s, b, u, v)  y = BatchNormalization(a, s, b, u, v) }"
    found = import_onnx(model(text, **weights), training=True)
    with pytest.raises(OnnxError, match=r"state '[uv]' would be changed in stages 0 and 1"):
        found.stages(["a"], sizes={"N": 3})


def test_sequences_are_not_passed_on() -> None:
    made = import_onnx(
        model("(float[2] x) => (float[4] y) { s = SequenceConstruct(x, x)  t = Identity(s)  y = ConcatFromSequence <axis = 0> (t) }")
    )
    with pytest.raises(OnnxError, match="would have to pass on 's', which is no array: cut elsewhere"):
        made.stages(["s"])


@pytest.mark.slow
@pytest.mark.parametrize("training", [False, True])
def test_stages_are_balanced_by_emulated_cost(training: bool) -> None:
    widths = [256, 256, 256, 256, 1024, 1024, 1024]
    lines = [f"m{k} = MatMul({f't{k - 1}' if k else 'x'}, w{k})  t{k} = Tanh(m{k})" for k in range(6)]
    text = f"(float[N,256] x) => (float[N,1024] t5) {{ {'  '.join(lines)} }}"
    found = import_onnx(model(text, **{f"w{k}": np.zeros(pair, np.float32) for k, pair in enumerate(pairwise(widths))}))
    made = found.stages(2, sizes={"N": 64}, machine="bow-2000", training=training)
    assert made.partition is not None
    assert (len(made.stages), made.partition.unit) == (2, "cycles")
    assert made.partition.balance > 0.6
    assert made.passed == (("t2",),)  # the last layers are the large ones, but what they pass on is large, too
    with pytest.raises(OnnxError, match=r"an emulated machine, which cannot be had: .*no machine is called 'other'"):
        found.stages(2, sizes={"N": 64}, machine="other")
