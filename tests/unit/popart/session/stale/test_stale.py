"""Sessions with stale weights: the same values as a `Pipeline` with the stale schedule, and as the rule of versions written out."""

from __future__ import annotations

import pytest

from tests.unit.popart.session.stale.models import chain, close, inputs, pipeline, run, session, weights_of


@pytest.mark.parametrize("stages", [2, 3, 4])
def test_a_session_computes_what_a_stale_pipeline_does(stages: int) -> None:
    model = chain(stages)
    batches = 2 * stages + 2
    runs = [inputs(batches, seed) for seed in (5, 6)]
    made = session(model, [model.loss, *(f"Gradient___{name}" for name in model.weights)], batches)
    found = [run(made, x) for x in runs]
    expected = pipeline(model, runs)
    for one, losses in zip(found, expected.losses, strict=True):
        close(one[model.loss], losses)
    for name, weight in weights_of(made, model).items():
        close(found[-1][f"Gradient___{name}"], expected.gradients[name])
        close(weight, expected.weights[name])
