"""What pipelines give out, show and pass on."""

from __future__ import annotations

from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from tests.unit.train.pipeline.pipelines import (
    CLASSES,
    ROWS,
    WIDTH,
    assert_near,
    batches,
    head,
    matrix,
    reference,
    runs_noted,
)
from tilestep.train import InfeedQueue, OutfeedQueue, watched
from tilestep.train.pipeline.pipeline import Pipeline


def outputs(params: Any, x: Any) -> Any:
    return x * params, {"twice": 2 * x}


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


@pytest.mark.slow
def test_one_program_gives_out_the_same() -> None:
    x = np.arange(4, dtype=np.float32)
    for options in ({"outfeed_mask": [True, False]}, {"accumulate_outfeed": True}):
        both = []
        for program in ("stages", "single"):
            pipeline = Pipeline([lambda p, x: x, outputs], optax.sgd(0.0), 4, program=program, **options)
            both.append(pipeline.step(pipeline.init([(), np.float32(3)]), x)[1])
        jax.tree.map(np.testing.assert_array_equal, *both)
    pipeline = Pipeline([lambda p, x: x, [lambda p, x: x * 2, lambda p, x: (x, x)]], None, 4, program="single")
    found = pipeline.step(pipeline.init([(), [(), ()]]), x)[1]
    assert [leaf.tolist() for leaf in found] == [(2 * x).tolist(), x.tolist(), x.tolist()]


def test_microbatches_have_dtypes_that_jax_has() -> None:
    pipeline = Pipeline([lambda p, x: x, lambda p, x: x * p], None, 4, program="stages")
    state = pipeline.init([(), np.float32(2)])
    for dtype in (np.int8, np.float16, np.float64, jnp.bfloat16, bool):
        found = pipeline.step(state, np.arange(4).astype(dtype))[1]
        np.testing.assert_array_equal(found, 2 * np.arange(4).astype(dtype).astype(np.float32))
    with pytest.raises(TypeError, match="not a valid JAX array type"):
        pipeline.step(state, np.arange(4, dtype=">f4"))


def test_a_bar_tells_of_compilation_microbatches_and_updates(capsys: pytest.CaptureFixture[str]) -> None:
    pipeline = Pipeline([lambda p, x: x * p, lambda p, x: (x * p).sum()], optax.sgd(0.01), 4)
    pipeline.run(pipeline.init([np.float32(1), np.float32(1)]), InfeedQueue([np.float32(1)] * 8), repeat_count=2, progress=True)
    shown = capsys.readouterr().out
    assert "8/8" in shown
    assert "update 2 of 2" in shown


def test_what_stages_hand_on_goes_to_those_that_read_it() -> None:
    """Labels from the first stage to the last; a mask that the second one reads, and its own count, which it makes anew."""

    def first(p: Any, x: Any, labels: Any) -> Any:
        return x @ p, labels, x[:, 0] > 0, jnp.int32(1)

    def second(p: Any, x: Any, labels: Any, mask: Any, count: Any) -> Any:
        return jnp.where(mask[:, None], x @ p, x), labels, mask, count + 1

    def third(p: Any, x: Any, labels: Any, mask: Any, count: Any) -> Any:
        return x * p, labels, mask, count

    def last(p: Any, x: Any, labels: Any, mask: Any, count: Any) -> Any:
        return (((x * p)[:, 0] - labels) ** 2 * mask * count).mean(), (labels, mask, count)

    rng = np.random.default_rng(0)
    stages = [first, second, third, last]
    params = [matrix(rng, WIDTH, WIDTH), matrix(rng, WIDTH, WIDTH), matrix(rng, WIDTH), matrix(rng, WIDTH)]
    elements = rng.normal(size=(6, ROWS, WIDTH)).astype(np.float32), rng.integers(0, 3, (6, ROWS)).astype(np.int32)
    expected, _ = reference(stages, params, optax.sgd(0.1), elements, 2, "sum")
    for recompute in (None, "full"):
        pipeline = Pipeline(stages, optax.sgd(0.1), 6, program="stages", recompute=recompute, pipeline_schedule="interleaved", strict=False)
        state = pipeline.init(params)
        with runs_noted() as runs:
            for _ in range(2):
                state, (_, (labels, masks, counts)) = pipeline.step(state, elements)
        assert_near(state.params, expected)
        np.testing.assert_array_equal(labels, elements[1])
        np.testing.assert_array_equal(masks, elements[0][:, :, 0] > 0)
        assert counts.tolist() == [2] * 6
        routes = runs[-1][0].routes
        ways = [[(sent[way.source], way.destination) for way in own] for own, sent in zip(routes.ways, routes.sent, strict=True)]
        # From the first: labels (1) to the last, the mask (2) to the second and the last, the count (3) to the second, which adds one.
        assert ways == [[(0, 1), (2, 1), (3, 1), (1, 3), (2, 3)], [(0, 2), (3, 3)], [(0, 3)], []], recompute
        assert routes.sent[:3] == ((0, 1, 2, 3), (0, 3), (0,))  # programs return nothing else


@pytest.mark.parametrize(("count", "recompute"), [(8, None), (1, None), pytest.param(8, "full", marks=pytest.mark.slow)])
def test_elements_that_are_small_are_on_the_first_device_at_once(
    count: int, recompute: Literal["full"] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def noisy(p: Any, rate: Any, tokens: Any, *, label: Any, key: Any) -> Any:
        x = p["table"][tokens].mean(1)
        return x + rate * jax.random.normal(key, x.shape), label

    def counted(p: Any, rate: Any, tokens: Any, *, label: Any, key: Any) -> Any:
        return p["w"] * rate * jnp.cos(tokens[:, :1])

    def last(p: Any, x: Any, label: Any, more: Any) -> Any:
        return head(p, x * more, label)

    rng = np.random.default_rng(0)
    stages: list[Any] = [[noisy, counted], last]
    params = [[{"table": matrix(rng, 11, WIDTH)}, {"w": matrix(rng, 1, 1)}], {"w": matrix(rng, WIDTH, CLASSES)}]
    tokens, labels = batches(0, count)
    elements = {"tokens": jnp.asarray(tokens), "label": labels}
    found: list[Any] = []
    for most in (4 * 2**20, 0):
        monkeypatch.setattr("tilestep.train.pipeline.run.batches.SMALL_BYTES", most)
        options: Any = {"strict": False, "recompute": recompute, "program": "stages", "pipeline_schedule": "interleaved"}
        pipeline = Pipeline(stages, optax.sgd(0.1), count, **options)
        state = pipeline.init(params)
        with runs_noted() as runs:
            for update in range(2):
                state, outputs = pipeline.step(state, elements, inputs=(np.float32(0.1),), key=jax.random.key(update))
        assert {compiled.traced.is_whole for compiled, _ in runs} == {most > 0 and count > 1}
        found.append((state, outputs))
    jax.tree.map(np.testing.assert_array_equal, *found)
