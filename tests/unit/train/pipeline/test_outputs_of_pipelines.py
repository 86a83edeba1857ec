"""What pipelines give out, show and pass on."""

import contextlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from tests.unit.train.pipeline.pipelines import (
    assert_near,
)
from tilestep.train import InfeedQueue, OutfeedQueue, progress_bar, watched
from tilestep.train.pipeline.pipeline import Pipeline
from tilestep.train.pipeline.run.progress import Progress


def outputs(params: Any, x: Any) -> Any:
    return x * params, {"twice": 2 * x}


@pytest.mark.slow
def test_what_is_hidden_and_what_is_summed() -> None:
    x = np.arange(4, dtype=np.float32)

    def given(**options: Any) -> Any:
        pipeline = Pipeline([lambda p, x: x, outputs], optax.sgd(0.0), 4, **options)
        return jax.tree.map(np.asarray, pipeline.step(pipeline.init([(), np.float32(3)]), x)[1])

    assert given(outfeed_loss=True).tolist() == (3 * x).tolist()
    assert given(outfeed_mask=[True, False])["twice"].tolist() == (2 * x).tolist()
    assert given(outfeed_mask=[True, True]) == ()
    for reduction in ("mean", "running_mean"):
        loss, others = given(accumulate_outfeed=True, reduction=reduction)
        assert (loss, others["twice"]) == (18, 12)
    half = given(accumulate_outfeed=True, accumulate_outfeed_dtype=jnp.float16, outfeed_loss=True)
    assert (half, half.dtype) == (18, np.float16)
    pipeline, queue = Pipeline([lambda p, x: x, outputs], optax.sgd(0.0), 4, accumulate_outfeed=True, outfeed_loss=True), OutfeedQueue()
    pipeline.run(pipeline.init([(), np.float32(3)]), InfeedQueue([np.float32(k) for k in range(8)]), queue, repeat_count=2)
    assert queue.dequeue().tolist() == [18, 66]
    pipeline = Pipeline([lambda p, x: x, outputs], optax.sgd(0.0), 4, outfeed_mask=[True, True])
    with pytest.raises(ValueError, match="outfeed_mask hides all that the last stage returns"):
        pipeline.run(pipeline.init([(), np.float32(3)]), InfeedQueue([]), OutfeedQueue())


@pytest.mark.few(3)
@pytest.mark.parametrize("program", ["stages", "single"])
@pytest.mark.parametrize("options", [{}, {"outfeed_mask": [True, True]}, {"outfeed_mask": [True, False]}, {"outfeed_loss": True}])
def test_an_optimiser_and_a_watch_have_what_is_hidden(program: Any, options: dict[str, Any]) -> None:
    def scaled(params: Any, x: Any) -> Any:
        loss = watched(x * params, "loss")
        return loss, x / 8

    def done(**more: Any) -> Any:
        pipeline = Pipeline(
            [lambda p, x: x, scaled], lambda loss, rate: (optax.sgd(rate), loss), 4, program=program, watch={"loss": "all"}, **more
        )
        state = pipeline.init([(), np.float32(3)])
        for _ in range(3):
            state, seen = pipeline.step(state, np.arange(4, dtype=np.float32))
        return jax.tree.map(np.asarray, (state.params, seen.values, seen.outputs))

    params, values, outputs = done()
    own_params, own_values, own_outputs = done(**options)
    assert_near((own_params, own_values), (params, values))
    shown = {"": outputs, "[True, True]": (), "[True, False]": outputs[1], "True": outputs[0]}["".join(map(str, options.values()))]
    assert_near(own_outputs, shown)


def test_a_bar_tells_of_compilation_microbatches_and_updates(capsys: pytest.CaptureFixture[str]) -> None:
    pipeline = Pipeline([lambda p, x: x * p, lambda p, x: (x * p).sum()], optax.sgd(0.01), 4)
    pipeline.run(pipeline.init([np.float32(1), np.float32(1)]), InfeedQueue([np.float32(1)] * 8), repeat_count=2, progress=True)
    shown = capsys.readouterr().out
    assert "8/8" in shown
    assert "update 2 of 2" in shown


def test_a_bar_says_how_many_programs_are_compiled_until_all_are(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    monkeypatch.setattr(progress_bar, "shown", lambda *_: contextlib.nullcontext((lambda _: None, told.append)))
    with Progress(None, name="lm", count=4, updates=1, bar=True) as progress:
        for done in (1, 2):
            progress.compiled(done, 2)
    assert told == ["lm, 1 of 2 programs compiled", "lm"]
