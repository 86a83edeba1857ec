"""What is given to the wrong argument is refused before work starts, by an error that names the right one."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import optax
import pytest
from jax.sharding import Mesh

from tests.together import each
from tilestep import train
from tilestep.train import InfeedQueue, OutfeedQueue, Pipeline, Replicas, repeat, schedules, while_loop
from tilestep.train.schedules.schedule import Kind, Task, from_table

DEVICES = jax.devices()
MESH = Mesh(np.array(DEVICES[:1]), ("x",))
SGD = optax.sgd(0.1)
DATA = [np.float32(1)] * 4
SCHEDULE = schedules.grouped(2, 4)


def scaled(w: Any, x: Any) -> Any:
    return x * w


def loss(w: Any, x: Any) -> Any:
    return ((x - w) ** 2).sum()


def same(carry: Any, *_: Any) -> Any:
    return carry


def pipeline(*args: Any, **options: Any) -> Pipeline:
    return Pipeline([scaled, loss], *args, **({"device_mapping": [0, 0]} | options))


def trained(then: Callable[[Pipeline, Any], Any]) -> Any:
    made = pipeline(SGD, 4)
    return then(made, made.init([np.float32(1), np.float32(2)]))


def concurrent(**options: Any) -> Pipeline:
    return Pipeline([scaled, [scaled, scaled], loss], SGD, 4, **({"device_mapping": [0, [0, 0], 0], "strict": False} | options))


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "Replicas(devices)": (lambda: Replicas(DEVICES), "count is .*: it must be a whole number, 1 or more; devices are given as devices="),
    "Replicas(device)": (lambda: Replicas(DEVICES[0]), "count is .*devices are given as devices="),
    "Replicas(mesh)": (lambda: Replicas(MESH), "count is Mesh.*a mesh is given as mesh="),
    "Replicas(platform)": (lambda: Replicas("ipu"), r"count is 'ipu': .*devices=jax.devices\('ipu'\)"),
    "Replicas(devices=platform)": (lambda: Replicas(devices="ipu"), r"devices is 'ipu': .*such as jax.devices\('ipu'\)"),
    "Replicas(mesh=devices)": (lambda: Replicas(mesh=DEVICES), "mesh is .*devices are given as devices="),
    "select_devices(platform)": (lambda: train.select_devices("cpu"), "count is 'cpu'.*a platform's name is given as platform="),
    "select_devices(devices)": (lambda: train.select_devices(DEVICES), r"count\[0\] is .*: .*what has devices needs no select_devices"),
    "Pipeline(devices)": (lambda: Pipeline(DEVICES), r"stages\[0\] is or has a .*devices are given as devices="),
    "Pipeline(function)": (lambda: Pipeline(loss), r"stages is a function: .*such as \[embed, head\], or \[embed, \[left, right\], head\]"),
    "Pipeline(..., count)": (lambda: pipeline(4), "optimizer is 4: .*given as gradient_accumulation_count="),
    "Pipeline(..., devices)": (lambda: pipeline(DEVICES), "optimizer is .*devices are given as devices="),
    "Pipeline(..., name)": (lambda: pipeline(SGD, "grouped"), "gradient_accumulation_count is 'grouped'.*given as pipeline_schedule="),
    "Pipeline(..., schedule)": (lambda: pipeline(SGD, SCHEDULE), "gradient_accumulation_count is Schedule.*given as pipeline_schedule="),
    "Pipeline(devices=platform)": (lambda: pipeline(SGD, 4, devices="cpu"), r"devices is 'cpu': .*jax.devices\('cpu'\)"),
    "Pipeline(devices=number)": (lambda: pipeline(SGD, 4, devices=2), r"devices is 2: it must be a list of devices"),
    "Pipeline(devices=mesh)": (lambda: pipeline(SGD, 4, devices=MESH), r"devices is Mesh.*: it must be a list of devices"),
    "Pipeline(devices=numbers)": (lambda: pipeline(SGD, 4, devices=[0, 1]), r"devices has 0: it must have jax.Devices"),
    "Pipeline(device_mapping=devices)": (
        lambda: pipeline(SGD, 4, device_mapping=[DEVICES[0]] * 2),
        "an entry of device_mapping is .*an index of devices; devices are given as devices=",
    ),
    "Pipeline(replicas=devices)": (lambda: pipeline(SGD, 4, replicas=DEVICES), "replicas is .*devices are given as devices="),
    "Pipeline(outfeed_mask=True)": (lambda: pipeline(SGD, 4, outfeed_mask=True), "outfeed_mask is True: it must be a list of bool"),
    "Pipeline(offload_activations=1)": (
        lambda: pipeline(SGD, 4, offload_activations=1),
        r"offload_activations is 1: it must be True, False or a list of stages' numbers, such as \[0, 1\]",
    ),
    "Pipeline(pipeline_schedule=function)": (
        lambda: pipeline(SGD, 4, pipeline_schedule=schedules.grouped),
        r"pipeline_schedule is a function: .*call it: schedules.grouped\(\[1, 1\], 4\)",
    ),
    "Pipeline(pipeline_schedule=table)": (
        lambda: pipeline(SGD, 4, pipeline_schedule=[["0F0"]]),
        "pipeline_schedule is a list: .*from_table makes a Schedule of a table",
    ),
    "init(number)": (lambda: pipeline(SGD, 4).init(1), "params is a int: it must be a list with an entry for each of the 2 stages"),
    "init(mapping)": (lambda: pipeline(SGD, 4).init({"a": 1, "b": 2}), "params is a dict: it must be a list"),
    "step(params)": (lambda: pipeline(SGD, 4).step([1, 2], np.ones(4)), "state is a list: it must be a PipelineState, as init"),
    "step(queue)": (
        lambda: trained(lambda made, state: made.step(state, InfeedQueue(DATA))),
        r"microbatches is .*; run\(\) takes elements",
    ),
    "run(dataset)": (lambda: trained(lambda made, state: made.run(state, DATA)), r"infeed is a list: .*such as InfeedQueue\(dataset\)"),
    "run(outfeed)": (lambda: trained(lambda made, state: made.run(state, OutfeedQueue())), "infeed is a OutfeedQueue: .*given as outfeed="),
    "run(..., count)": (
        lambda: trained(lambda made, state: made.run(state, InfeedQueue(DATA), 2)),
        "outfeed is a int: it must be an OutfeedQueue; a number of updates is given as repeat_count=",
    ),
    "repeat(body, n)": (lambda: repeat(same, 3, 0), r"n is .*: it must be a whole number, 0 or more: repeat\(n, body, carry, ...\)"),
    "repeat(n, carry)": (lambda: repeat(3, 0, same), r"body is 0: it must be a function \(carry, ...\) -> carry: repeat\(n, body"),
    "repeat(..., dataset)": (lambda: repeat(3, same, 0, DATA), r"infeed is a list: .*; InfeedQueue\(dataset\) makes one"),
    "repeat(..., outfeed)": (lambda: repeat(3, same, 0, OutfeedQueue()), "infeed is a OutfeedQueue: .*given as outfeed="),
    "repeat(replicas=devices)": (lambda: repeat(3, same, 0, replicas=DEVICES), r"replicas is .*such as Replicas\(devices=\["),
    "while_loop(n)": (lambda: while_loop(3, same, 0), r"condition is 3: it must be a function .*a number of steps is for repeat"),
    "while_loop(..., carry)": (lambda: while_loop(lambda c: c < 3, 0, same), r"body is 0: it must be a function"),
    "gradient_accumulation(count)": (lambda: train.gradient_accumulation(4, SGD), "the optimizer is 4: it must be"),
    "gradient_accumulation(..., name)": (lambda: train.gradient_accumulation(SGD, "mean"), "count is 'mean'.*given as reduction="),
    "accumulate_gradients(losses)": (
        lambda: train.accumulate_gradients([loss, loss], np.float32(1), np.ones(4)),
        r"loss_fn is \[.*: it must be a function \(params, ...\) -> loss",
    ),
    "pipeline_partition(number)": (lambda: train.pipeline_partition([scaled], [1.0], (1.0,), 2), "devices is 2: it must be a list"),
    "best_partition(numbers)": (lambda: train.best_partition([1, 2], 2), r"costs\[0\] is a int: it must be a LayerCost, such as"),
    "replica_differences(number)": (lambda: train.replica_differences(np.ones(3), 2), "replicas is a int: it must be the Replicas"),
    "grouped(functions)": (lambda: schedules.grouped([scaled, loss], 4), r"stages\[0\] is .*such as \[1, 2, 1\]; Pipeline takes their"),
    "grouped(text)": (lambda: schedules.grouped("2", 4), "stages is '2': it must be a whole number"),
    "offloading(name)": (lambda: schedules.offloading("grouped", [0]), "schedule is a str: it must be a Schedule"),
    "offloading(..., number)": (lambda: schedules.offloading(SCHEDULE, 0), r"stages is 0: .*such as \[0, 1\]"),
    "simulate(number)": (lambda: SCHEDULE.simulate(4), r"costs is a int: it must be Costs, such as Costs\(forward=1"),
    "from_table(tasks)": (lambda: from_table([[Task(0, Kind.FORWARD, 0)]]), r"is a Task: it must be text such as 2F3"),
}


@each("guess", REFUSED)
def test_what_is_given_to_the_wrong_argument_names_the_right_one(guess: str) -> None:
    call, message = REFUSED[guess]
    with pytest.raises(TypeError, match=message):
        call()


def test_what_no_other_argument_takes_gets_no_hint() -> None:
    with pytest.raises(TypeError, match=r"count is 2\.5: it must be a whole number, 1 or more$"):
        Replicas(2.5)


def test_a_number_in_place_of_a_mode_may_be_a_depth() -> None:
    with pytest.raises(ValueError, match="mode is 4: it must be one of 'all', 'last'; a number of steps is given as buffer_depth="):
        OutfeedQueue(4)
    with pytest.raises(ValueError, match="a feed's time-out is '1s': it must be a number of seconds above 0 and at most 1e9, or None"):
        train.set_feed_timeout("1s")


@pytest.mark.parametrize(
    ("name", "here"),
    [
        ("1F1B", "interleaved"),
        ("ScheduleInterleaved1F1B", "looped"),
        ("PipelineSchedule.Grouped", "grouped"),
        ("zero-bubble", "zero_bubble"),
        ("ZB-H1", "zero_bubble"),
        ("PipeDream", "stashed"),
    ],
)
def test_schedules_by_other_names_are_refused_with_theirs(name: str, here: str) -> None:
    with pytest.raises(ValueError, match=f"pipeline_schedule is '{name}': .*; the name here is '{here}'"):
        pipeline(SGD, 4, pipeline_schedule=name)


def test_a_schedule_by_an_unknown_name_is_refused_with_all_names() -> None:
    with pytest.raises(ValueError, match=r"pipeline_schedule is 'gpipe': it must be a Schedule or one of sequential, .*, stashed$"):
        pipeline(SGD, 4, pipeline_schedule="gpipe")


def test_errors_about_levels_say_how_levels_are_given() -> None:
    how = r"schedules.grouped\(\[1, 2, 1\], 4\), or from_table\(rows, levels=\[\[0\], \[1, 2\], \[3\]\]\)"
    with pytest.raises(ValueError, match=rf"is for levels of \(1, 1, 1, 1\) stages, these are \(1, 2, 1\): .*{how}; or change stages"):
        concurrent(pipeline_schedule=schedules.grouped(4, 4, strict=False))
    with pytest.raises(ValueError, match=r"device_mapping\[1\] must be a list .*2 concurrent stages, as stages\[1\] is a list of 2"):
        concurrent(device_mapping=[0, 0, 0])
    with pytest.raises(TypeError, match=r"concurrent stages are not nested, as in \[embed, \[left, right\], head\]"):
        Pipeline([scaled, [[scaled], scaled], loss], SGD, 4)
    with pytest.raises(ValueError, match=r"the last stage is 2 concurrent ones: .*as in \[embed, \[left, right\], loss\]"):
        Pipeline([scaled, [loss, loss]], SGD, 4)
    own = schedules.grouped([1, 2, 1], 4, strict=False, device_mapping=[0, 0, 0, 0])
    assert concurrent(pipeline_schedule=own).schedule == own
    assert concurrent(pipeline_schedule=from_table(own.table(), levels=[[0], [1, 2], [3]])).schedule.levels == ((0,), (1, 2), (3,))
