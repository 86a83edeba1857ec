"""Every kind of workload is recognised by its columns, whatever its row is called, and asked for under its conditions."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from benchmarks.measured import convolutions, feeding, footprints, kernels, networks, products, stencils
from benchmarks.measured.judge import judge, summarise
from benchmarks.measured.predict import Prediction
from benchmarks.measured.rows import Conditions, Row
from tilestep.figures.records import FamilyCycles
from tilestep.options import PlanOptions

CONDITIONS = Conditions(
    implementation="library",
    partials="half",
    memory_proportion="0.4",
    weight_load_bits="128",
    io_tiles="32",
    ops="",
    packing="none",
    host_io="none",
    loop="1",
    unknown="",
    conditions_source="a script",
)


def row(workload: str, shape: str = "-", dtype: str = "fp16", *, value: str = "100", unit: str = "images/s", **more: Any) -> Row:
    fields: dict[str, Any] = {"id": "XY7", "generation": "C600 (IPU21)", "n_ipus": 1, "metric": "throughput", "source": "a paper"}
    fields |= {"workload": workload, "shape": shape, "dtype": dtype, "value": value, "unit": unit, "conditions": CONDITIONS} | more
    return Row(**fields)


class Asked:
    """Stands for the platform: keeps what was asked, and answers a run of 3,000 cycles at 1 GHz with 2 µs between calls."""

    def __init__(self) -> None:
        self.state: Any = None
        self.inputs: Sequence[Any] = ()
        self.how: dict[str, Any] = {}
        self.to_ipus_bytes = 0

    def __call__(self, step: Any, state: Any, inputs: Sequence[Any] = (), **how: Any) -> Prediction:
        mesh = jax.sharding.AbstractMesh((how.get("num_ipus", 1),), ("ipus",), axis_types=(jax.sharding.AxisType.Auto,))
        with jax.sharding.use_abstract_mesh(mesh):
            new_state, _ = jax.eval_shape(step, state, *inputs)
        assert jax.tree.map(lambda array: (array.shape, array.dtype), new_state) == jax.tree.map(lambda a: (a.shape, a.dtype), state)
        self.state, self.inputs, self.how = state, inputs, how
        return Prediction(
            compute_cycles=2000,
            exchange_cycles=900,
            sync_cycles=100,
            call_seconds=5e-6,
            to_ipus_bytes=self.to_ipus_bytes,
            to_host_bytes=0,
            streams=len(inputs) + 1,
            clock_hz=1e9,
            num_tiles=1000,
            peak_tile_bytes=500_000,
            values_bytes=420_000 * 1000,
            tile_bytes=600_000,
            families=(FamilyCycles(family="copy", compute=300, exchange=0, sync=0, host=0),),
        )

    @property
    def parameters(self) -> int:
        return sum(leaf.size for leaf in jax.tree.leaves(self.state))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    stands_for = Asked()
    for module in (products, networks, kernels, stencils, convolutions, feeding, footprints):
        monkeypatch.setattr(module, "predict", stands_for)
    for cached in (stencils._blurred, stencils._meshed, convolutions._convolved, kernels._matrix_vector):
        cached.cache_clear()
    return stands_for


def test_resnet50_has_its_parameters_and_runs_under_its_conditions(asked: Asked) -> None:
    conditions = replace(CONDITIONS, ops="input=uint8")
    outcome = judge(row("ResNet-50 inference, synthetic data on IPU", "3x224x224 bs 6", conditions=conditions))
    assert asked.parameters == 25_557_032 - 26_560  # torchvision's ResNet-50, its batch norms' scales folded into the kernels
    assert [(array.shape, str(array.dtype)) for array in asked.inputs] == [((6, 224, 224, 3), "uint8")]
    assert (asked.how["machine"], asked.how["options"]) == (
        "c600",
        PlanOptions(partials_type="half", available_memory_proportion=0.4, weight_load_bits=128, num_io_tiles=32),
    )
    assert outcome.answer.predicted == pytest.approx(6 / 3e-6)
    assert (outcome.status, outcome.ratio) == ("judged", pytest.approx(20_000))


def test_the_first_batch_of_a_call_waits_for_its_copy_and_later_ones_do_not(asked: Asked) -> None:
    asked.to_ipus_bytes = 94_000_000  # 10 ms of the host's copy; the first stream's wait is in the 5 us of the call
    took = {
        loop: 1
        / (judge(row("ResNet-50 inference", "bs 1", conditions=replace(CONDITIONS, host_io="serial", loop=loop))).answer.predicted or 0)
        for loop in ("1", "8")
    }
    assert took == pytest.approx({"1": 5e-6 + 10e-6 + 0.01, "8": 5e-6 + 10e-6})


@pytest.mark.parametrize(("workload", "parameters"), [("BERT-Base inference", 108_893_186), ("BERT-Large inference", 334_094_338)])
def test_bert_has_its_parameters(asked: Asked, workload: str, parameters: int) -> None:
    judge(row(workload, "SL384 bs 2", unit="sequences/s"))
    assert asked.parameters == parameters  # transformers' BertForQuestionAnswering
    assert [array.shape for array in asked.inputs] == [(2, 384)] * 3


def test_verdicts_are_asked_batch_by_batch(asked: Asked) -> None:
    outcome = judge(row("ResNet-50 inference largest batch that fits", "fp32", "fp32", value="16 fits, 32 out of memory", unit=""))
    assert asked.inputs[0].shape[0] == 32
    assert [(verdict.what, verdict.measured, verdict.right) for verdict in outcome.answer.verdicts] == [
        ("bs 16 fp32", True, True),
        ("bs 32 fp32", False, False),
    ]


def test_a_batch_that_ran_out_of_memory_gives_a_verdict(asked: Asked) -> None:
    (verdict,) = judge(row("ResNet-50 inference, synthetic data on IPU", "3x224x224 bs 32", "fp32", value="oom")).answer.verdicts
    assert (verdict.measured, verdict.predicted) == (False, True)


def test_a_network_in_8_bit_floats_keeps_what_its_source_says_in_halves(asked: Asked) -> None:
    conditions = replace(CONDITIONS, ops="input=uint8 fp16=first_conv+head")
    workload = "ResNet-50 inference, host data with overlapped I/O"
    assert judge(row(workload, "3x224x224 bs 2", "fp8", conditions=conditions)).status == "judged"
    assert {leaf.dtype for leaf in jax.tree.leaves(asked.state)} == {jnp.dtype(jnp.float16), jnp.dtype(jnp.float8_e4m3fnuz)}
    kept = (asked.state["stem"]["kernel"], asked.state["head"]["kernel"], asked.state["blocks"][0]["reduce"]["bias"])
    assert {leaf.dtype for leaf in kept} == {jnp.dtype(jnp.float16)}
    judge(row(workload, "3x224x224 bs 2", "fp8", conditions=replace(CONDITIONS, ops="")))
    assert asked.state["stem"]["kernel"].dtype == jnp.float8_e4m3fnuz


def test_a_product_on_a_tile_needs_no_platform() -> None:
    outcome = judge(
        row(
            "on-tile matmul ConvPartial1x1 on all 1472 tiles",
            "[1024,16]x[16,16] per tile",
            "fp16 in fp16 out",
            generation="Bow",
            unit="cycles",
            value="4425",
            conditions=replace(CONDITIONS, weight_load_bits="64"),
        )
    )
    assert outcome.answer.predicted == pytest.approx(4 * 1024 + 330, rel=0.01)  # four cycles a position, and the published overhead


def test_a_dense_product_runs_in_a_loop(asked: Asked) -> None:
    conditions = replace(CONDITIONS, loop="10")
    outcome = judge(row("dense matmul poptorch", "m=k=256 n=64", generation="Bow (inferred)", unit="TFLOPS", conditions=conditions))
    assert (asked.state.shape, asked.inputs[0].shape, asked.how["machine"]) == ((256, 256), (256, 64), "bow-2000")
    assert outcome.answer.predicted == pytest.approx(2 * 256 * 256 * 64 * 10 / 5e-6 / 1e12)


@pytest.mark.parametrize(("kernel", "arrays"), [("Copy", 2), ("Scale", 2), ("Add", 3), ("Triad", 3)])
def test_streams_kernels_by_their_bytes(asked: Asked, kernel: str, arrays: int) -> None:
    outcome = judge(row(f"STREAM {kernel} vendor ops", "6x500 floats per tile per array", "fp32", generation="Mk2 GC200", unit="GB/s"))
    assert len(asked.state) == arrays - 1
    assert outcome.answer.predicted == pytest.approx(arrays * 4 * 3000 * 1472 / 3e-6 / 1e9)


def test_a_stencil_is_cut_by_rows_over_its_ipus(asked: Asked) -> None:
    outcome = judge(
        row("3x3 Gaussian blur stencil RGBA, 50 passes", "leaf 30x17", "half4", unit="s", value="0.001", generation="Mk1 GC2", n_ipus=4)
    )
    assert (asked.state.shape, str(asked.state.dtype), asked.how["num_ipus"]) == ((20, 30, 4), "float16", 4)
    assert outcome.answer.predicted == pytest.approx(50 * 3e-6)


@pytest.mark.parametrize(
    ("workload", "shape", "num_ipus", "state"),
    [
        ("2D 5-point heat 100 steps", "30x20", 4, [(32, 20)]),
        ("3D 7-point heat 100 steps", "9^3", 1, [(9, 9, 9)]),
        ("2D Aliev-Panfilov 100 steps", "10x20", 2, [(10, 20)] * 2),
    ],
)
def test_meshes_are_cut_by_rows_over_their_ipus(
    asked: Asked, workload: str, shape: str, num_ipus: int, state: list[tuple[int, ...]]
) -> None:
    outcome = judge(row(workload, shape, "fp32", unit="s", generation="Mk2 GC200", n_ipus=num_ipus))
    assert [field.shape for field in asked.state] == state
    assert (asked.how["num_ipus"], outcome.answer.predicted) == (num_ipus, pytest.approx(100 * 3e-6))


@pytest.mark.parametrize(
    ("workload", "channels", "groups"),
    [
        ("3x3 conv (poplin) 4 in to 4 out channels, plus copy back, 50 times", 4, 1),
        ("3x3 conv 8 in to 8 out channels in 4 groups, 50 times", 8, 4),
        ("3x3 conv 4 in to 4 out channels, backward data, 50 times", 4, 1),
        ("3x3 conv 4 in to 4 out channels, weight gradient, 50 times", 4, 1),
    ],
)
@pytest.mark.parametrize("num_ipus", [1, 2])
def test_a_convolution_runs_in_a_loop(asked: Asked, workload: str, channels: int, groups: int, num_ipus: int) -> None:
    outcome = judge(row(workload, "leaf 30x17 availMem>=0.2", "half", unit="s", generation="Mk1 GC2", n_ipus=num_ipus))
    image, kernel = asked.state
    assert image.shape == (1, 17 + num_ipus - 1, 30, channels)
    assert (kernel.shape, str(kernel.dtype)) == ((3, 3, channels // groups, channels), "float16")
    assert (outcome.status, outcome.answer.predicted) == ("judged", pytest.approx(3e-6))


def test_a_row_that_nothing_expresses_is_left_out_with_a_reason(asked: Asked) -> None:
    outcome = judge(row("static SpMM PopSparse", "m=k=4096 n=512"))
    assert (outcome.status, "sparse" in outcome.reason) == ("left out", True)
    assert judge(row("weather forecast")).reason == "nothing here expresses this workload"


BROKE = jax.errors.JaxRuntimeError("INTERNAL: it broke\nwith details")


@pytest.mark.parametrize(
    ("error", "conditions", "missed", "reason"),
    [
        (BROKE, CONDITIONS, 1, "JaxRuntimeError: INTERNAL: it broke"),
        (BROKE, None, 0, "JaxRuntimeError: INTERNAL: it broke"),
        (KeyError("sequences"), CONDITIONS, 1, "KeyError: 'sequences'"),
    ],
)
def test_a_row_whose_program_fails_is_left_out_and_misses_the_bar_if_it_counts(
    monkeypatch: pytest.MonkeyPatch, error: Exception, conditions: Conditions | None, missed: int, reason: str
) -> None:
    def failing_program(*_: Any, **__: Any) -> Prediction:
        raise error

    monkeypatch.setattr(networks, "predict", failing_program)
    failing = judge(row("ViT inference", "bs 4", conditions=conditions))
    assert failing.reason == f"its program failed: {reason}"
    assert (failing.status, failing.failed) == ("left out", bool(missed))
    assert len(summarise([failing]).failures) == missed
    assert any("failed" in sentence for sentence in summarise([failing]).shortfalls) is bool(missed)
