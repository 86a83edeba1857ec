"""What reports say of anchors that leave with each microbatch, and of sessions of one stage."""

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from tests.unit.popart.session.emulation.models import Chain, emulated, options
from tests.unit.popart.session.models import prepared
from tilestep import popart
from tilestep.advice import Line
from tilestep.popart.session.emulation.advice_words import said_at
from tilestep.popart.session.emulation.session_machine import watched_sessions

Profile = Mapping[str, Any]


@functools.cache
def one_stage(how: str, *, rows: int = 64, batches: int = 2, accumulation: int = 4, replicas: int = 1, losses: str = "Final") -> Profile:
    """The profile of a session of one layer on an IPU for each replica, called eight times."""
    builder = popart.Builder()
    x = builder.addInputTensor(popart.TensorInfo("FLOAT", [rows, 512]), "x")
    w = builder.addInitializedInputTensor(np.zeros((512, 512), np.float32), "w")
    y = builder.aiOnnx.tanh([builder.aiOnnx.matmul([x, w])])
    loss = builder.aiGraphcore.identityloss([y], reduction=popart.ReductionType.Sum)
    anchors = {loss: popart.AnchorReturnType(losses), y: popart.AnchorReturnType(how)}
    chosen = options(pipelined=False, accumulation=accumulation if accumulation > 1 else 0, replicas=replicas)
    chosen.virtualGraphMode = popart.VirtualGraphMode.Off
    with watched_sessions():
        made = popart.TrainingSession(
            builder.getModelProto(),
            popart.DataFlow(batches, anchors),
            loss=loss,
            optimizer=popart.SGD({"defaultLearningRate": (0.1, True)}),
            deviceInfo=popart.DeviceManager().createIpuModelDevice({"numIPUs": replicas, "tilesPerIPU": 256}),
            userOptions=chosen,
        )
        prepared(made)
        shape = [size for size in (batches, accumulation, replicas) if size > 1]
        for _ in range(8):
            made.run(popart.PyStepIO({x: np.zeros((*shape, rows, 512), np.float32)}, made.initAnchorArrays()))
        return made.getReport().profile


@functools.cache
def staged(how: str) -> Profile:
    chain = Chain(ipus=range(2), width=512, rows=64, anchors={"y0": how, "loss": "Final"})
    return emulated(chain, options(accumulation=6), tiles=1472, calls=3).report().profile


def about_anchors(profile: Profile) -> list[Mapping[str, Any]]:
    return [finding for finding in profile["findings"] if finding["kind"] == "results"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "of", [one_stage, staged, functools.partial(one_stage, accumulation=1, batches=8), functools.partial(one_stage, replicas=2)]
)
def test_large_anchors_of_each_microbatch_are_told_what_the_last_one_would_save_and_it_comes_true(of: Any) -> None:
    before, after = of("All"), of("Final")
    [finding] = about_anchors(before)
    assert finding["edit"] == "return Tanh:0 as Final in place of All"
    assert not about_anchors(after)
    saved = before["emulated_cycles"] - after["emulated_cycles"]
    assert finding["gain_cycles"] == pytest.approx(saved, rel=0.2)


def test_the_finding_says_how_much_leaves_and_what_to_write() -> None:
    [finding] = about_anchors(one_stage("All"))
    assert "AnchorReturnType All: 8 values, 1.00 MiB a call" in finding["text"]
    [finding] = about_anchors(one_stage("All", replicas=2))
    assert "16 values, 2.00 MiB a call" in finding["text"]


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ('flow = popart.DataFlow(4, {\n    y: popart.AnchorReturnType("ALL"),\n    z: popart.AnchorReturnType("Sum"),\n})\n', 2),
        ("flow = popart.DataFlow(4, [y])\nprepare()\n", 1),
        ('a = popart.AnchorReturnType("All")\nb = popart.AnchorReturnType()\n', 9),
    ],
)
def test_the_line_is_the_only_one_that_says_all_or_that_of_the_data_flow(text: str, number: int, tmp_path: Any) -> None:
    (tmp_path / "train.py").write_text(text)
    assert said_at(Line(file=str(tmp_path / "train.py"), number=9)) == Line(file=str(tmp_path / "train.py"), number=number)
