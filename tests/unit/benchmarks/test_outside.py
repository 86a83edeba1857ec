"""Networks outside the fit: their sizes are the published ones, and rows ask for them under their conditions."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks.measured import networks, outside
from benchmarks.measured.judge import judge
from benchmarks.measured.row_error import RowError
from benchmarks.measured.training.conditions import TrainingConditions, read_conditions
from benchmarks.measured.training.language import gpt2, stages_of
from benchmarks.models import language, swin, yolov4
from benchmarks.models.transformer import Encoder
from tests.unit.benchmarks.test_answers import CONDITIONS, Asked, row

SERIAL = replace(CONDITIONS, host_io="serial")
TINY_LANGUAGE = language.Language(encoder=Encoder(width=8, layers=1, heads=2), vocabulary=11, tokens=6, dropout=0.0)
TINY_SWIN = swin.Swin(width=8, depths=(2, 1), heads=(2, 4), window=2, image=16, classes=5, drop_path=0.0)
KEY = jax.random.key(0)


def drawn(shapes: Any) -> Any:
    """Arrays of these shapes, equal in every run."""
    random = np.random.default_rng(0)
    return jax.tree.map(lambda shape: jnp.asarray((0.3 * random.standard_normal(shape.shape)).astype(shape.dtype)), shapes)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    stands_for = Asked()
    for module in (networks, outside):
        monkeypatch.setattr(module, "predict", stands_for)
    return stands_for


@pytest.mark.parametrize(
    ("workload", "shape", "parameters"),
    [
        ("YOLOv4-P5 inference", "128 px bs 2", 70_792_284 + 6_656),  # and the kept statistics of two norms' channels
        ("CLIP inference", "bs 4, 100 texts", 151_277_313),  # of openai/CLIP's ViT-B/32
        ("Swin-Tiny inference", "bs 3", 28_288_354),  # torchvision's swin_t
        ("ResNeXt-50 inference, memory proportion 0.8", "bs 3", 25_028_904 - 34_112),  # torchvision's, scales of norms folded
    ],
)
def test_a_network_has_its_parameters(asked: Asked, workload: str, shape: str, parameters: int) -> None:
    outcome = judge(row(workload, shape, conditions=SERIAL))
    assert (outcome.status, outcome.reason) == ("judged", "")
    assert asked.parameters == parameters
    assert asked.how["machine"] == "c600"


def test_norms_that_nobody_folds_keep_their_statistics(asked: Asked) -> None:
    judge(row("ResNeXt-50 inference, memory proportion 0.8", "bs 3", conditions=replace(SERIAL, ops="norm=kept")))
    assert asked.parameters == 25_028_904 + 2 * 34_112  # torchvision's, and a mean and a variance of each channel


def test_a_latency_is_that_of_a_call_with_its_transfers(asked: Asked) -> None:
    outcome = judge(row("YOLOv4-P5 inference", "320 px b1", "fp32", value="2", unit="ms", conditions=SERIAL))
    assert outcome.answer.predicted == pytest.approx(5e-3 + 2 * 10e-3)  # two streams wait, as none of them moves anything here
    assert [(image.shape, str(image.dtype)) for image in asked.inputs] == [((1, 320, 320, 3), "float32")]


@pytest.mark.parametrize("workload", ["YOLOv4-P5 inference", "CLIP inference"])
def test_several_ipus_are_left_out(asked: Asked, workload: str) -> None:
    outcome = judge(row(workload, "128 px bs 2, 100 texts", n_ipus=4))
    assert (outcome.status, "several IPUs" in outcome.reason) == ("left out", True)


def test_batches_of_any_network_have_verdicts_with_their_fullness(asked: Asked) -> None:
    value = "2 fits, 4 out of memory"
    outcome = judge(row("BERT-Base SQuAD inference largest batch that fits", "SL256", "fp32", value=value, unit=""))
    found = [(verdict.what, verdict.measured, verdict.fullness) for verdict in outcome.answer.verdicts]
    assert found == [("bs 2 fp32", True, 5 / 6), ("bs 4 fp32", False, 5 / 6)]
    assert [array.shape for array in asked.inputs] == [(4, 256)] * 3


def test_batches_of_what_no_network_is_are_left_out(asked: Asked) -> None:
    assert judge(row("LSTM inference largest batch that fits", "SL256", value="2 fits", unit="")).status == "left out"


@pytest.mark.parametrize(("value", "measured"), [("20 out of memory", False), ("20 fits", True)])
def test_one_batch_that_says_whether_it_fits_has_no_figure(asked: Asked, value: str, measured: bool) -> None:
    outcome = judge(row("ResNeXt-50 inference, memory proportion 0.8", "bs 20", "fp32", value=value, unit=""))
    assert [(verdict.measured, verdict.right) for verdict in outcome.answer.verdicts] == [(measured, measured)]
    assert outcome.answer.predicted is None


def test_two_products_stay_on_the_ipu(asked: Asked) -> None:
    shape = "9000x6000, 6000x300, 300x200"
    outcome = judge(row("two products after each other, arrays mapped linearly", shape, "fp32", value="does not fit", unit=""))
    assert [array.shape for array in asked.state] == [(9000, 6000), (9000, 6000), (6000, 300), (300, 200)]  # as mapped, and as planned
    assert [(verdict.what, verdict.measured) for verdict in outcome.answer.verdicts] == [(shape, False)]


def test_a_detector_keeps_the_best_box() -> None:
    corners = jnp.asarray([[[0, 0, 4, 4], [1, 1, 5, 5], [20, 20, 30, 30]]], jnp.float32)
    classes = jnp.full((1, 3, yolov4.CLASSES), 0.1).at[0, 1, 7].set(0.9)
    boxes, more = jax.jit(yolov4.chosen)(corners, jnp.asarray([[0.6, 0.95, 0.7]]), classes)
    assert boxes.shape == (1, 300, 6)
    np.testing.assert_allclose(boxes[0, 0], [1, 1, 5, 5, 0.9 * 0.95, 7], rtol=1e-5)
    assert not boxes[0, 1:].any()
    assert more.shape == (1,)


def test_a_detector_with_random_weights_finds_nothing() -> None:
    boxes, more = jax.jit(yolov4.chosen)(jnp.ones((1, 3, 4)), jnp.full((1, 3), 0.5), jnp.full((1, 3, yolov4.CLASSES), 0.5))
    assert not boxes[..., 4].any()
    assert not more.any()


def test_a_detector_has_a_box_for_each_anchor_of_each_point() -> None:
    images = jax.ShapeDtypeStruct((2, 128, 128, 3), jnp.float16)
    corners, scores, classes = jax.eval_shape(yolov4.candidates, yolov4.shapes(), images)
    count = 4 * (16 * 16 + 8 * 8 + 4 * 4)
    assert (corners.shape, scores.shape, classes.shape) == ((2, count, 4), (2, count), (2, count, 80))


def hidden(params: Any, words: jax.Array) -> jax.Array:
    parts: list[language.Part] = ["words", "positions", "layer", "norm"]
    x, _ = language.stage(TINY_LANGUAGE, parts)(params, words, words, key=KEY)
    return x


def test_a_language_model_does_not_see_the_words_to_come() -> None:
    parts: list[language.Part] = ["words", "positions", "layer", "norm"]
    params = [drawn(language.parameters(TINY_LANGUAGE, part, jnp.float32)) for part in parts]
    words = jnp.asarray([[1, 2, 3, 4, 5, 6]])
    before, after = (jax.jit(functools.partial(hidden, params))(x) for x in (words, words.at[0, 4].set(9)))
    np.testing.assert_allclose(before[:, :4], after[:, :4], rtol=1e-4)
    assert not np.allclose(before[:, 4:], after[:, 4:])


def test_gpt2_has_124_million_parameters() -> None:
    model = language.Language(encoder=Encoder(width=768, layers=12, heads=12), vocabulary=50_257, tokens=1024)
    parts: list[language.Part] = ["words", "positions", *["layer"] * 12, "norm"]
    assert sum(leaf.size for part in parts for leaf in jax.tree.leaves(language.parameters(model, part))) == 124_439_808


@pytest.fixture(scope="module")
def conditions() -> dict[str, TrainingConditions]:
    return dict(read_conditions())


def test_gpt2_has_its_words_beside_its_head(conditions: dict[str, TrainingConditions]) -> None:
    program = gpt2(row("GPT-2 small train"), conditions["GP01"])
    assert program is not None
    assert program.ipus == (0, 1, 2, 3, 0)
    assert [len(params) for params in program.params] == [1, 5, 4, 5, 1]
    assert program.tied == ([(0, 0, "words"), (4, 0, "words")],)
    assert gpt2(row("BERT-Large"), conditions["TR29"]) is None


@pytest.mark.parametrize(
    ("changed", "says"),
    [({"model": "GPT-2 tiny"}, "must be one of small"), ({"stage_split": "[0,4,4]"}, "must list the 12 layers of 4 IPUs")],
)
def test_words_that_name_nothing_known_are_errors(conditions: dict[str, TrainingConditions], changed: dict[str, str], says: str) -> None:
    with pytest.raises(RowError, match=says):
        gpt2(row("GPT-2"), replace(conditions["GP01"], **changed))


def test_the_first_ipu_may_have_layers_too(conditions: dict[str, TrainingConditions]) -> None:
    assert stages_of(replace(conditions["GP01"], stage_split="[3,3,3,3]"), 12)[0] == ("words", "positions", "layer", "layer", "layer")


def test_a_swin_for_inference_is_its_parts_after_each_other() -> None:
    parts = swin.parts_of(TINY_SWIN)
    params = [drawn(swin.parameters(TINY_SWIN, part)) for part in parts]
    images, labels = jnp.ones((2, 16, 16, 3)), jnp.eye(5)[:2]
    logits = jax.jit(functools.partial(swin.forward, TINY_SWIN))(params, images)
    loss = jax.jit(swin.stage(TINY_SWIN, parts, by_block=False))(params, images, labels, key=KEY)
    assert float(loss) == pytest.approx(float(-(jax.nn.log_softmax(logits) * labels).sum(-1).mean()), rel=1e-5)
