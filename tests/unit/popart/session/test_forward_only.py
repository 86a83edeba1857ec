"""The forward part of a pipeline that trains, as a program of its own."""

from typing import Any

import numpy as np
import pytest

from tests.unit.popart.session.stale.models import ROWS, WIDTH, chain, close, options, run, session, weights_of
from tilestep import popart
from tilestep.popart import popart_exception

BATCHES, ACCUMULATION = 2, 5
HANDLE = "implicitPipeliningFwdOnly"


def inputs(replicas: int = 1) -> np.ndarray[Any, Any]:
    leading = (BATCHES, ACCUMULATION, replicas) if replicas > 1 else (BATCHES, ACCUMULATION)
    return np.random.default_rng(2).normal(size=(*leading, ROWS, WIDTH)).astype(np.float32)


def made(*, forward: bool = True, replicas: int = 1) -> tuple[Any, popart.TrainingSession]:
    model = chain(2)
    chosen = options(enableGradientAccumulation=True, accumulationFactor=ACCUMULATION, createImplicitPipeliningFwdOnlyProgram=forward)
    if replicas > 1:
        chosen.enableReplicatedGraphs, chosen.replicatedGraphCount = True, replicas
    return model, session(model, [model.loss, model.tensors[0][2], "Gradient___w0"], BATCHES, chosen=chosen, ipus=2 * replicas)


@pytest.mark.slow
@pytest.mark.parametrize("replicas", [1, 2])
def test_the_forward_part_gives_its_anchors_and_changes_no_weight(replicas: int) -> None:
    model, both = made(replicas=replicas)
    _, plain = made(forward=False, replicas=replicas)
    x = inputs(replicas)
    run(both, x)
    run(plain, x)
    before = weights_of(both, model)
    anchors = both.initAnchorArrays()
    anchors["Gradient___w0"][...] = 7
    both.run(HANDLE, popart.PyStepIO({"x": x}, anchors))
    assert (anchors["Gradient___w0"] == 7).all()  # the backward part did not run
    for name, weight in weights_of(both, model).items():
        np.testing.assert_array_equal(weight, before[name])
    h = np.tanh(x @ before["w0"].T) * before["v0"]
    close(anchors[model.tensors[0][2]], h)
    close(anchors[model.loss], 0.5 * np.abs(np.tanh(h @ before["w1"].T) * before["v1"]).sum((-1, -2)))
    after = run(both, x)  # goes on as if nothing had been
    for name, array in run(plain, x).items():
        close(after[name], array)


def test_other_handles_are_refused() -> None:
    _, with_forward = made()
    _, without = made(forward=False)
    io = popart.PyStepIO({"x": inputs()}, with_forward.initAnchorArrays())
    for own, handle in ((with_forward, "other"), (without, HANDLE)):
        with pytest.raises(popart_exception, match=rf"^\[Devicex::run\] Program {handle} not found"):
            own.run(handle, io)
    functions = popart.PyStepIOCallback(lambda *_: inputs(), lambda _: None, lambda _: inputs(), lambda _: None)
    with pytest.raises(popart_exception, match="must be a PyStepIO"):
        with_forward.run(HANDLE, functions)
