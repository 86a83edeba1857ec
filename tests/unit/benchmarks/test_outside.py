"""Networks outside the fit: their sizes are the published ones, and rows ask for them under their conditions."""

from __future__ import annotations

from dataclasses import replace

import jax
import pytest

from benchmarks.measured import networks, outside
from benchmarks.measured.judge import judge
from benchmarks.measured.row_error import RowError
from benchmarks.measured.training.conditions import TrainingConditions, read_conditions
from benchmarks.measured.training.language import gpt2, stages_of
from benchmarks.models import language
from benchmarks.models.transformer import Encoder
from tests.unit.benchmarks.test_answers import CONDITIONS, Asked, row

SERIAL = replace(CONDITIONS, host_io="serial")


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


def test_batches_of_any_network_have_verdicts_with_their_fullness(asked: Asked) -> None:
    value = "2 fits, 4 out of memory"
    outcome = judge(row("BERT-Base SQuAD inference largest batch that fits", "SL256", "fp32", value=value, unit=""))
    found = [(verdict.what, verdict.measured, verdict.fullness) for verdict in outcome.answer.verdicts]
    assert found == [("bs 2 fp32", True, 5 / 6), ("bs 4 fp32", False, 5 / 6)]
    assert [array.shape for array in asked.inputs] == [(4, 256)] * 3


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
