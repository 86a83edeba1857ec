"""Pipelines against plain accumulation on one device."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from tests.together import each
from tests.unit.train.pipeline.pipelines import (
    CLASSES,
    ROWS,
    WIDTH,
    assert_near,
    batches,
    dense,
    embed,
    head,
    left,
    matrix,
    reference,
    right,
)
from tilestep.train import gradient_accumulation
from tilestep.train.pipeline.pipeline import Pipeline
from tilestep.train.schedules.standard import interleaved


def test_a_looped_schedule_goes_round_the_devices() -> None:
    stages, params = (
        [embed, dense, dense, head],
        [
            {"table": matrix(np.random.default_rng(0), 11, WIDTH)},
            *({"w": matrix(np.random.default_rng(k), WIDTH, WIDTH), "b": np.ones(WIDTH, np.float16)} for k in (1, 2)),
            {"w": matrix(np.random.default_rng(3), WIDTH, CLASSES)},
        ],
    )
    optimizer = optax.sgd(0.1)
    pipeline = Pipeline(stages, optimizer, 4, pipeline_schedule="looped", device_mapping=[0, 1, 0, 1])
    state, _ = pipeline.step(pipeline.init(params), batches(5, 4))
    assert_near(state.params, reference(stages, params, optimizer, batches(5, 4), 1, "sum")[0])
    with pytest.raises(ValueError, match=r"device_mapping must be \[0, 1, 0, 1\]"):
        Pipeline(stages, optimizer, 4, pipeline_schedule="looped", device_mapping=[0, 1, 1, 0])
    with pytest.raises(ValueError, match="equally many stages on each device, but there are 4 on 3: give a multiple of 3 stages"):
        Pipeline(stages, optimizer, 4, pipeline_schedule="looped", device_mapping=[0, 1, 2, 0])
    with pytest.raises(ValueError, match="the looped schedule is for training: give an optimizer"):
        Pipeline(stages, None, 4, pipeline_schedule="looped", device_mapping=[0, 1, 0, 1])


@pytest.mark.parametrize(
    ("schedule", "reduction"), [("stale", "sum"), ("stashed", "running_mean"), pytest.param("stashed", "mean", marks=pytest.mark.slow)]
)
def test_weights_that_change_within_a_run_have_the_versions_of_the_rule(schedule: str, reduction: Any) -> None:
    """Against a reference that does one microbatch at a time with the versions of the rule. An update is of one: nothing is reduced."""
    stages, rng = [dense, dense, head], np.random.default_rng(7)
    params = [{"w": matrix(rng, WIDTH, WIDTH), "b": matrix(rng, WIDTH)}, {"w": matrix(rng, WIDTH, WIDTH), "b": matrix(rng, WIDTH)}]
    params.append({"w": matrix(rng, WIDTH, CLASSES)})
    count, rate = 9, 0.1
    elements = (rng.normal(size=(count, ROWS, WIDTH)).astype(np.float32), rng.integers(0, CLASSES, (count, ROWS)).astype(np.int32))
    pipeline = Pipeline(stages, optax.sgd(rate), count, pipeline_schedule=schedule, recompute="full", reduction=reduction)
    state, _ = pipeline.step(pipeline.init(params), elements)

    last = len(stages) - 1
    versions: list[list[Any]] = [[own] for own in params]  # of each stage, after so many updates
    for m in range(count):
        forward = [max(0, m - (2 if schedule == "stale" else 1) * (last - stage)) for stage in range(len(stages))]
        x, label = elements[0][m], elements[1][m]
        inputs = [x]
        for stage in range(last):
            inputs.append(stages[stage](versions[stage][forward[stage]], inputs[-1], label)[0])
        gradient: Any = None
        for stage in reversed(range(len(stages))):
            weights = versions[stage][m if schedule == "stale" else forward[stage]]
            _, pull = jax.vjp(lambda w, x, stage=stage, label=label: stages[stage](w, x, label)[0], weights, inputs[stage])
            of_weights, gradient = pull(jnp.float32(1) if stage == last else gradient)
            versions[stage].append(jax.tree.map(lambda w, g: w - rate * g, versions[stage][m], of_weights))
    assert_near(state.params, [own[count] for own in versions], 1e-5)


captured = np.ones(3, np.float32)


@each(
    "arguments, options, error, message",
    [
        (((embed, head), optax.sgd(1.0), 0), {}, ValueError, "gradient_accumulation_count is 0"),
        ((embed, optax.sgd(1.0), 4), {}, TypeError, "stages is a function: it must be a list"),
        (([], optax.sgd(1.0), 4), {}, ValueError, "stages is empty"),
        (([embed, []], optax.sgd(1.0), 4), {}, ValueError, r"stages\[1\] is empty"),
        (([embed, 3], optax.sgd(1.0), 4), {}, TypeError, r"stages\[1\] is or has a int"),
        (([embed, [[left], right], head], optax.sgd(1.0), 4), {}, TypeError, "concurrent stages are not nested"),
        (([embed, [left, right]], optax.sgd(1.0), 4), {}, ValueError, "the last stage is 2 concurrent ones"),
        (([embed, head], optax.sgd(1.0), 4), {"device_mapping": [0]}, ValueError, "device_mapping has 1 entries, but there are 2 stages"),
        (
            ([embed, [left, right], head], optax.sgd(1.0), 6),
            {"device_mapping": [0, 1, 2]},
            ValueError,
            r"device_mapping\[1\] must be a list",
        ),
        (([embed, head], optax.sgd(1.0), 4), {"device_mapping": [0, 9]}, ValueError, "device_mapping names device 9, counted from 0, but"),
        (([embed, head], optax.sgd(1.0), 4), {"device_mapping": [0, -1]}, ValueError, "an entry of device_mapping is -1"),
        (([embed, head], optax.sgd(1.0), 3), {}, ValueError, "grouped: the count of microbatches is 3, which must be a multiple of 4: 4"),
        (([embed, head], optax.sgd(1.0), 4), {"pipeline_schedule": "gpipe"}, ValueError, "pipeline_schedule is 'gpipe'"),
        (([embed, head], optax.sgd(1.0), 4), {"pipeline_schedule": 3}, TypeError, "pipeline_schedule is a int"),
        (([embed, head], optax.sgd(1.0), 4), {"reduction": "max"}, ValueError, "reduction is 'max'"),
        (([embed, head], None, 4), {"pipeline_schedule": "zero_bubble"}, ValueError, "the zero_bubble schedule is for training"),
        (([embed, head], optax.sgd(1.0), 4), {"pipeline_schedule": interleaved(3, 3)}, ValueError, r"is for levels of \(1, 1, 1\) stages"),
        (([embed, head], optax.sgd(1.0), 4), {"pipeline_schedule": interleaved(2, 2)}, ValueError, "is for 2 microbatches, grad"),
    ],
)
def test_bad_arguments_are_refused_before_anything_runs(arguments: Any, options: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        Pipeline(*arguments, **options)


def test_a_pipeline_says_what_it_is() -> None:
    pipeline = Pipeline([embed, [dense, dense], head], optax.sgd(1.0), 12)
    assert repr(pipeline) == f"<Pipeline: embed; dense, dense; head; {pipeline.schedule}>"
    assert "name='grouped'" in repr(pipeline)


def test_too_few_devices_are_said_without_a_mapping_that_nobody_gave() -> None:
    one = jax.devices()[:1]
    with pytest.raises(ValueError, match=r"^the number of stages is 2, a device for each, but there is 1 device: give more"):
        Pipeline([embed, head], optax.sgd(1.0), 4, devices=one)
    with pytest.raises(
        ValueError,
        match=r"^device_mapping names device 1, counted from 0, and with 2 replicas of 2 devices each there must be 4, but there",
    ):
        Pipeline([embed, head], optax.sgd(1.0), 4, devices=one, device_mapping=[0, 1], replicas=2)


def test_what_a_stage_does_wrong_names_the_stage() -> None:
    params = [{"table": matrix(np.random.default_rng(0), 11, WIDTH)}, {"w": matrix(np.random.default_rng(0), WIDTH, CLASSES)}]
    elements = batches(0, 4)

    def captures(p: Any, x: Any, label: Any) -> Any:
        return (x[:, :3] * captured).sum()

    pipeline = Pipeline([embed, captures], optax.sgd(1.0), 4)
    with pytest.raises(
        ValueError, match=r"stage 1 \(captures\) has captured captured \(float32\[3\]\): what a stage computes with must come"
    ):
        pipeline.step(pipeline.init(params), elements)
    pipeline = Pipeline([embed, lambda p, x: x], optax.sgd(1.0), 4)
    with pytest.raises(TypeError, match="positional argument") as caught:
        pipeline.step(pipeline.init(params), elements)
    assert any(
        note == f"raised by stage 1 (lambda) of the pipeline, with arguments ['float32[{ROWS},{WIDTH}]', 'int32[{ROWS}]']"
        for note in caught.value.__notes__
    )
    pipeline = Pipeline([lambda p, x, label: x @ x, head], optax.sgd(1.0), 4)  # an element as the first stage sees it
    with pytest.raises(TypeError) as caught:
        pipeline.step(pipeline.init(params), elements)
    assert any(note.endswith(f"with arguments ['int32[{ROWS},5]', 'int32[{ROWS}]']") for note in caught.value.__notes__)
    pipeline = Pipeline([embed, lambda p, x, label: x], optax.sgd(1.0), 4)
    with pytest.raises(ValueError, match=r"the last stage \(lambda\) must return the loss, a real scalar, or \(loss, outputs\)"):
        pipeline.step(pipeline.init(params), elements)
    pipeline = Pipeline([embed, head], optax.sgd(1.0), 4)
    with pytest.raises(
        ValueError, match=r"microbatches has an array of shape \(3, 4, 5\): the first axis of each must be the 4 microbatches"
    ):
        pipeline.step(pipeline.init(params), batches(0, 3))
    with pytest.raises(ValueError, match="params has 1 entries, but there are 2 stages"):
        pipeline.init(params[:1])


def test_a_pipeline_accumulates_by_itself() -> None:
    with pytest.raises(ValueError, match=r"wrapped in gradient_accumulation\(\), but a pipeline accumulates by itself"):
        Pipeline([embed, head], gradient_accumulation(optax.sgd(1.0), 4), 4).init([np.ones((3, 3), np.float32), np.ones(3, np.float32)])
