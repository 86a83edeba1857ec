"""Networks outside the fit: their sizes are the published ones, and rows ask for them under their conditions."""

from dataclasses import replace

import jax
import pytest

from benchmarks.measured import networks, outside
from benchmarks.measured.judge import judge
from benchmarks.measured.training.conditions import TrainingConditions, read_conditions
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
        ("ViT inference", "bs 4", 86_567_656),  # google/vit-base-patch16-224
        ("Swin-Tiny inference", "bs 3", 28_288_354),  # torchvision's swin_t
        ("ResNeXt-50 inference, memory proportion 0.8", "bs 3", 25_028_904 - 34_112),  # torchvision's, scales of norms folded
    ],
)
def test_a_network_has_its_parameters(asked: Asked, workload: str, shape: str, parameters: int) -> None:
    outcome = judge(row(workload, shape, conditions=SERIAL))
    assert (outcome.status, outcome.reason) == ("judged", "")
    assert asked.parameters == parameters
    assert asked.how["machine"] == "c600"


def test_batches_of_any_network_have_verdicts_with_their_fullness(asked: Asked) -> None:
    value = "2 fits, 4 out of memory"
    outcome = judge(row("BERT-Base SQuAD inference largest batch that fits", "SL256", "fp32", value=value, unit=""))
    found = [(verdict.what, verdict.measured, verdict.fullness) for verdict in outcome.answer.verdicts]
    assert found == [("bs 2 fp32", True, 5 / 6), ("bs 4 fp32", False, 5 / 6)]
    assert [array.shape for array in asked.inputs] == [(4, 256)] * 3


def test_gpt2_has_124_million_parameters() -> None:
    model = language.Language(encoder=Encoder(width=768, layers=12, heads=12), vocabulary=50_257, tokens=1024)
    parts: list[language.Part] = ["words", "positions", *["layer"] * 12, "norm"]
    assert sum(leaf.size for part in parts for leaf in jax.tree.leaves(language.parameters(model, part))) == 124_439_808


@pytest.fixture(scope="module")
def conditions() -> dict[str, TrainingConditions]:
    return dict(read_conditions())
