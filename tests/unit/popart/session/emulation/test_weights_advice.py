"""What reports say of weights that the host reads again and again."""

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.unit.popart.session.emulation.models import Chain, emulated, options
from tests.unit.popart.session.models import prepared
from tilestep import popart
from tilestep.popart.session.emulation.session_machine import watched_sessions

EDIT = "call session.weightsToHost() once, after the last session.run(...)"
RUNS = 4
Profile = Mapping[str, Any]


@functools.cache
def one_stage(reads: int, *, twice: bool = False) -> Profile:
    """The profile of a session of one layer, whose weights the host reads behind the last of its runs."""
    builder = popart.Builder()
    x = builder.addInputTensor(popart.TensorInfo("FLOAT", [16, 512]), "x")
    w = builder.addInitializedInputTensor(np.zeros((512, 512), np.float32), "w")
    loss = builder.aiGraphcore.identityloss([builder.aiOnnx.matmul([x, w])], reduction=popart.ReductionType.Sum)
    with watched_sessions():
        made = popart.TrainingSession(
            builder.getModelProto(),
            popart.DataFlow(1, {loss: popart.AnchorReturnType("Final")}),
            loss=loss,
            optimizer=popart.SGD({"defaultLearningRate": (0.1, True)}),
            deviceInfo=popart.DeviceManager().createIpuModelDevice({"numIPUs": 1, "tilesPerIPU": 256}),
        )
        prepared(made)
        for run in range(RUNS):
            made.run(popart.PyStepIO({x: np.zeros((16, 512), np.float32)}, made.initAnchorArrays()))
            if run >= RUNS - reads:
                made.weightsToHost()
        if twice:
            made.weightsToHost()
        return made.getReport().profile


@functools.cache
def staged(reads: int) -> Profile:
    emulation = emulated(Chain(ipus=range(2), width=512, rows=16), options(accumulation=4), tiles=256, calls=0)
    for run in range(RUNS):
        emulation.ran()
        if run >= RUNS - reads:
            emulation.weights_to_host()
    return emulation.report().profile


def about_reads(profile: Profile) -> list[Mapping[str, Any]]:
    return [finding for finding in profile["findings"] if finding["kind"] == "reads"]


@pytest.mark.slow
@pytest.mark.parametrize(("of", "size"), [(one_stage, "1.00 MiB"), (staged, "4.00 MiB")])
def test_weights_that_the_host_reads_after_each_run_are_told_what_one_read_saves_and_it_comes_true(of: Any, size: str) -> None:
    before, after = of(RUNS), of(1)
    [finding] = about_reads(before)
    assert finding["edit"] == EDIT
    assert f"4 times (weightsToHost or modelToHost, {size} each time)" in finding["text"]
    assert Path(finding["line"]["file"]).name == Path(__file__).name
    assert finding["gain_cycles"] == pytest.approx(before["emulated_cycles"] - after["emulated_cycles"], rel=0.02)


def test_weights_that_are_read_twice_after_the_last_run_are_not_said_to_be_twice_as_many() -> None:
    [finding] = about_reads(one_stage(RUNS, twice=True))
    assert "5 times (weightsToHost or modelToHost, 1.00 MiB each time)" in finding["text"]


@pytest.mark.parametrize("of", [one_stage, staged])
@pytest.mark.parametrize("reads", [pytest.param(0, marks=pytest.mark.slow), 1])
def test_weights_that_the_host_reads_once_need_no_advice(of: Any, reads: int) -> None:
    assert not about_reads(of(reads))
