"""Values that no argument takes are refused at once, by an error that names the argument, however odd the value is."""

import itertools
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import jax
import numpy as np
import optax
import pytest

from tests.bounded import ends_soon
from tests.together import each
from tilestep import dry_run, train
from tilestep.errors import TilestepError
from tilestep.train import InfeedQueue, OutfeedQueue, Pipeline, Replicas, repeat, schedules, while_loop

SGD = optax.sgd(0.1)
DATA = [np.float32(1)] * 4
KEY = jax.random.key(0)


@cache
def deep() -> Any:
    """Lists in lists. They are made once, because the garbage collector goes through all objects of the process several times meanwhile."""
    found: Any = []
    for _ in range(100_000):
        found = [found]
    return found


WRONG: dict[str, Callable[[], Any]] = {
    "None": lambda: None,
    "True": lambda: True,
    "-1": lambda: -1,
    "2**63": lambda: 2**63,
    "10**5000": lambda: 10**5000,
    "nan": lambda: float("nan"),
    "empty": lambda: "",
    "a": lambda: "a",
    "surrogate": lambda: "\ud800",
    "long": lambda: "x" * 100_000,
    "[]": list,
    "{}": dict,
    "set": set,
    "array(2)": lambda: np.array(2),
    "ones": lambda: np.ones(3),
    "object": object,
    "function": lambda: lambda: None,
    "generator": lambda: (number for number in ("a", "b")),
    "endless": lambda: itertools.repeat("a"),
    "deep": deep,
}


def same(carry: Any, *_: Any) -> Any:
    return carry


def scaled(w: Any, x: Any) -> Any:
    return x * w


def loss(w: Any, x: Any) -> Any:
    return ((x - w) ** 2).sum()


@cache
def schedule() -> schedules.Schedule:
    return schedules.grouped(2, 4)


def pipeline(**options: Any) -> Pipeline:
    given: dict[str, Any] = {"optimizer": SGD, "gradient_accumulation_count": 4, "device_mapping": [0, 0]} | options
    return Pipeline([scaled, loss], **given)


@cache
def trained() -> tuple[Pipeline, Any]:
    made = pipeline()
    return made, made.init([np.float32(1), np.float32(2)])


def in_dry_run(**options: Any) -> Any:
    with dry_run(**options):
        pass


# The argument that messages name -> a call, and the names of the wrong values that it takes after all. An array of one 2 is a count that
# some take where there are two devices.
CALLS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "simulated_together schedule": (lambda x: schedules.simulated_together(x, schedules.Costs()), ""),
    "simulated_together costs": (lambda x: schedules.simulated_together(schedule(), x), ""),
    "simulated_together host": (lambda x: schedules.simulated_together(schedule(), schedules.Costs(), host=x), ""),
    "simulated_together costs.forward": (lambda x: schedules.simulated_together(schedule(), schedules.Costs(forward=x)), "2**63"),
    "simulated_together costs.element": (lambda x: schedules.simulated_together(schedule(), schedules.Costs(element=x)), "2**63"),
    "simulate costs.forward": (lambda x: schedule().simulate(schedules.Costs(forward=x)), "2**63"),
    "simulate costs.backward": (lambda x: schedule().simulate(schedules.Costs(backward=x)), "None 2**63"),
    "simulate exchanges": (lambda x: schedule().simulate(exchanges=x), ""),
    "show width": (lambda x: schedule().show(timeline=schedule().simulate(), width=x), "array(2)"),
    "show timeline": (lambda x: schedule().show(timeline=x), "None"),
    "plot path": (lambda x: schedule().plot(x), "empty a surrogate long"),
    "sequential stages": (lambda x: schedules.sequential(x, 6), "array(2)"),
    "sequential stages mapping": (lambda x: schedules.sequential(x, 6, device_mapping=[0, 1, 2]), ""),
    "sequential microbatches": (lambda x: schedules.sequential(3, x, device_mapping=[0, 1, 2]), "array(2)"),
    "looped devices": (lambda x: schedules.looped(x, 6, strict=False), "array(2)"),
    "looped rounds": (lambda x: schedules.looped(2, 4, rounds=x), "array(2)"),
    "zero_bubble microbatches": (lambda x: schedules.zero_bubble(3, x), "array(2)"),
    "stale stages": (lambda x: schedules.stale(x, 6), "array(2)"),
    "stashed stages": (lambda x: schedules.stashed(x, 6), "array(2)"),
    "grouped device_mapping": (lambda x: schedules.grouped(3, 6, device_mapping=x), "None"),
    "grouped strict": (lambda x: schedules.grouped(3, 6, strict=x), "True"),
    "interleaved training": (lambda x: schedules.interleaved(3, 6, training=x), "True"),
    "offloading schedule": (lambda x: schedules.offloading(x, [0]), ""),
    "offloading stages": (lambda x: schedules.offloading(schedule(), x), "[]"),
    "phases schedule": (schedules.phases, ""),
    "traced schedule": (lambda x: schedules.traced(x, []), ""),
    "traced events": (lambda x: schedules.traced(schedule(), x), ""),
    "costs_of schedule": (lambda x: schedules.costs_of(x, schedule().simulate()), ""),
    "costs_of timeline": (lambda x: schedules.costs_of(schedule(), x), ""),
    "from_table row": (schedules.from_table, ""),
    "from_table device_mapping": (lambda x: schedules.from_table([["0F0"]], device_mapping=x), "None"),
    "from_table levels": (lambda x: schedules.from_table([["0F0"]], levels=x), "None"),
    "from_table weights": (lambda x: schedules.from_table([["0F0"]], weights=x), ""),
    "best_partition costs": (lambda x: schedules.best_partition(x, 2), ""),
    "best_partition stages": (lambda x: schedules.best_partition([schedules.LayerCost(name="a", work=1)], x), "2**63 10**5000 array(2)"),
    "LayerCost work": (lambda x: schedules.LayerCost(name="a", work=x), "2**63"),
    "LayerCost passing": (lambda x: schedules.LayerCost(name="a", work=1, passing=x), "2**63"),
    "Partition cuts": (lambda x: schedules.Partition(cuts=x, costs=(schedules.LayerCost(name="a", work=1),)), ""),
    "Partition costs": (lambda x: schedules.Partition(cuts=(0, 1), costs=x), ""),
    "pipeline_partition layers": (lambda x: schedules.pipeline_partition(x, [1.0], [1.0], jax.devices()), ""),
    "pipeline_partition params": (lambda x: schedules.pipeline_partition([scaled], x, [1.0], jax.devices()), ""),
    "pipeline_partition args": (lambda x: schedules.pipeline_partition([scaled], [1.0], x, jax.devices()), "[] ones generator deep"),
    "pipeline_partition devices": (lambda x: schedules.pipeline_partition([scaled], [1.0], [1.0], x), ""),
    "pipeline_partition profile": (
        lambda x: schedules.pipeline_partition([scaled], [1.0], [1.0], jax.devices(), profile=x),
        "None function",
    ),
    "pipeline_partition training": (lambda x: schedules.pipeline_partition([scaled], [1.0], [1.0], jax.devices(), training=x), "True"),
    "select_devices platform": (lambda x: train.select_devices(platform=x), "None"),
    "select_devices ids": (lambda x: train.select_devices(ids=x), "None array(2)"),
    "select_devices count": (train.select_devices, "None array(2)"),
    "Replicas count": (Replicas, "None array(2)"),
    "Replicas shards": (lambda x: Replicas(shards=x), "None array(2)"),
    "Replicas devices": (lambda x: Replicas(devices=x), "None"),
    "Replicas mesh": (lambda x: Replicas(mesh=x), "None"),
    "Replicas axis": (lambda x: Replicas(axis=x), "a surrogate long"),
    "element_key step": (lambda x: train.element_key(KEY, x), "array(2)"),
    "element_key key": (lambda x: train.element_key(x, 0), ""),
    "replica_key key": (train.replica_key, ""),
    "cross_replica_sum group_size": (lambda x: train.cross_replica_sum(1.0, group_size=x), "None"),
    "cross_replica_reduce_scatter reduction": (lambda x: train.cross_replica_reduce_scatter(np.ones(2), reduction=x), ""),
    "cross_replica_all_to_all split_axis": (lambda x: train.cross_replica_all_to_all(np.ones((1, 2)), split_axis=x), "-1"),
    "cross_replica_all_to_all concat_axis": (lambda x: train.cross_replica_all_to_all(np.ones((1, 2)), concat_axis=x), "-1"),
    "cross_replica optimizer": (train.cross_replica, ""),
    "require_equal_replicas tree": (lambda x: train.require_equal_replicas(x, Replicas(1)), ""),
    "require_equal_replicas replicas": (lambda x: train.require_equal_replicas(jax.numpy.ones(2), x), ""),
    "placed kind": (lambda x: train.placed({}, kind=x), ""),
    "placed platform": (lambda x: train.placed({}, platform=x), "None"),
    "placed offload": (lambda x: train.placed({}, x), "None True {} function"),
    "offloaded platform": (lambda x: train.offloaded(SGD, platform=x).init({"w": np.ones(2)}), "None"),
    "offloaded offload": (lambda x: train.offloaded(SGD, x), "None True {} function"),
    "offloaded optimizer": (train.offloaded, ""),
    "sharded group_size": (lambda x: train.sharded(SGD, group_size=x), "None 2**63 10**5000 array(2)"),
    "sharded least_elements": (lambda x: train.sharded(SGD, least_elements=x), "2**63 10**5000 array(2)"),
    "gradient_accumulation optimizer": (lambda x: train.gradient_accumulation(x, 2), ""),
    "gradient_accumulation count": (lambda x: train.gradient_accumulation(SGD, x), "function array(2)"),
    "gradient_accumulation dtype": (lambda x: train.gradient_accumulation(SGD, 2, dtype=x), "None function"),
    "gradient_accumulation reduction": (lambda x: train.gradient_accumulation(SGD, 2, reduction=x), ""),
    "gradient_accumulation shard_optimizer_state": (
        lambda x: train.gradient_accumulation(SGD, 2, shard_optimizer_state=x),
        "True 2**63 10**5000 array(2)",
    ),
    "accumulate_gradients recompute": (lambda x: train.accumulate_gradients(loss, 1.0, np.ones(2), recompute=x), "None function"),
    "accumulate_gradients loss_fn": (lambda x: train.accumulate_gradients(x, 1.0, np.ones(2)), "function"),
    "effective_batch_size count": (lambda x: train.effective_batch_size(2, x), "2**63 10**5000 array(2)"),
    "microbatches_of count": (lambda x: train.microbatches_of(np.ones(4), x), "array(2)"),
    "recomputed function": (train.recomputed, "function"),
    "recomputed recompute": (lambda x: train.recomputed(same, x), "None function"),
    "InfeedQueue dataset": (InfeedQueue, "[] ones set function generator endless deep object"),
    "InfeedQueue sharding": (lambda x: InfeedQueue(DATA, sharding=x), "None"),
    "InfeedQueue replicas": (lambda x: InfeedQueue(DATA, replicas=x), "None array(2)"),
    "InfeedQueue prefetch_depth": (lambda x: InfeedQueue(DATA, prefetch_depth=x), "array(2)"),
    "InfeedQueue copy": (lambda x: InfeedQueue(DATA, copy=x), "True"),
    "OutfeedQueue mode": (OutfeedQueue, ""),
    "OutfeedQueue when_full": (lambda x: OutfeedQueue(when_full=x), ""),
    "OutfeedQueue buffer_depth": (lambda x: OutfeedQueue(buffer_depth=x), "None 2**63 10**5000 array(2)"),
    "dataset_benchmark dataset": (lambda x: train.dataset_benchmark(x, 1, 1), "ones generator endless"),
    "dataset_benchmark number_of_epochs": (lambda x: train.dataset_benchmark(DATA, x, 4), "array(2)"),
    "infeed_benchmark queue": (lambda x: train.infeed_benchmark(x, 1, 1), ""),
    "set_feed_timeout time-out": (train.set_feed_timeout, "None"),
    "repeat n": (lambda x: repeat(x, same, 1.0), "array(2)"),
    "repeat body": (lambda x: repeat(1, x, 1.0), "function"),
    "repeat chunk": (lambda x: repeat(1, same, 1.0, chunk=x), "None array(2)"),
    "repeat donate": (lambda x: repeat(1, same, 1.0, donate=x), "True"),
    "repeat progress": (lambda x: repeat(1, same, 1.0, progress=x), "True"),
    "repeat replicas": (lambda x: repeat(1, same, 1.0, replicas=x), "None"),
    "repeat recompute": (lambda x: repeat(1, same, 1.0, recompute=x), "None function"),
    "repeat plan_options": (lambda x: repeat(1, same, 1.0, plan_options=x), "None {}"),
    "repeat infeed": (lambda x: repeat(1, same, 1.0, x), "None"),
    "repeat outfeed": (lambda x: repeat(1, same, 1.0, None, x), "None"),
    "while_loop condition": (lambda x: while_loop(x, same, 1.0), "function"),
    "while_loop maximum_iterations": (lambda x: while_loop(lambda _: True, same, 1.0, maximum_iterations=x), "None 2**63 array(2)"),
    "while_loop donate": (lambda x: while_loop(lambda _: False, same, 1.0, donate=x), "True"),
    "Pipeline stages": (lambda x: Pipeline(x), ""),
    "Pipeline optimizer": (lambda x: pipeline(optimizer=x), "None function"),
    "Pipeline gradient_accumulation_count": (lambda x: pipeline(gradient_accumulation_count=x, strict=False), "array(2)"),
    "Pipeline pipeline_schedule": (lambda x: pipeline(pipeline_schedule=x), ""),
    "Pipeline reduction": (lambda x: pipeline(reduction=x), ""),
    "Pipeline devices": (lambda x: pipeline(devices=x), "None"),
    "Pipeline device_mapping": (lambda x: pipeline(device_mapping=x), "None"),
    "Pipeline replicas": (lambda x: pipeline(replicas=x), "array(2)"),
    "Pipeline recompute": (lambda x: pipeline(recompute=x), "None function"),
    "Pipeline offload_activations": (lambda x: pipeline(offload_activations=x), "None True []"),
    "Pipeline offload": (lambda x: pipeline(offload_optimizer_state=x), "None True {} function"),
    "Pipeline outfeed_mask": (lambda x: pipeline(outfeed_mask=x), "None []"),
    "Pipeline program": (lambda x: pipeline(program=x), ""),
    "Pipeline strict": (lambda x: pipeline(strict=x), "True"),
    "Pipeline plan_options": (lambda x: pipeline(plan_options=x), "None {}"),
    "Pipeline check_nans": (lambda x: pipeline(check_nans=x), "True"),
    "Pipeline tied": (lambda x: pipeline(tied=x), "[]"),
    "Pipeline accumulate_outfeed_dtype": (lambda x: pipeline(accumulate_outfeed_dtype=x), "None"),
    "Pipeline.init params": (lambda x: trained()[0].init(x), ""),
    "Pipeline.step state": (lambda x: trained()[0].step(x, np.ones(4)), ""),
    "Pipeline.step microbatches": (lambda x: trained()[0].step(trained()[1], x), ""),
    "Pipeline.step inputs": (lambda x: trained()[0].step(trained()[1], np.ones(3), inputs=x), "[] ones generator deep"),
    "Pipeline.run repeat_count": (lambda x: trained()[0].run(trained()[1], None, repeat_count=x), "array(2)"),
    "Pipeline.run infeed": (lambda x: trained()[0].run(trained()[1], x), ""),
    "start_processes timeout_s": (lambda x: train.start_processes(timeout_s=x), ""),
    "start_processes initialization_timeout_s": (lambda x: train.start_processes(initialization_timeout_s=x), ""),
    "dry_run values": (lambda x: in_dry_run(values=x), ""),
    "dry_run trip_count": (lambda x: in_dry_run(trip_count=x), "None 2**63 10**5000"),
}


@pytest.fixture(autouse=True)
def _own_timeout() -> Iterator[None]:
    before = train.set_feed_timeout(None)
    train.set_feed_timeout(before)
    yield
    train.set_feed_timeout(before)


@each("call", CALLS)
def test_wrong_values_are_refused_by_name(call: str) -> None:
    function, taken = CALLS[call]
    name = call.split()[1]
    for wrong, make in WRONG.items():
        if wrong in taken.split():
            continue
        value = make()
        with ends_soon(), pytest.raises((ValueError, TypeError, TilestepError)) as found:
            function(value)
        text = str(found.value)
        assert name in text, f"{wrong}: {text[:300]}"
        assert len(text) < 1000, f"{wrong}: {len(text)} characters: {text[:200]}"
        assert "\ud800" not in text, wrong


@ends_soon()
def test_a_length_is_compared_before_anything_is_listed() -> None:
    for many in (2**31, 2**63):
        with pytest.raises(ValueError, match=f"device_mapping has 3 devices, but there are {many} stages"):
            schedules.sequential(many, 6, device_mapping=[0, 1, 2])
        with pytest.raises(ValueError, match=r"microbatches .*a schedule has at most 250,000 stages x microbatches"):
            schedules.sequential(3, many)
        with pytest.raises(ValueError, match=f"stages is {many} and microbatches 6: a schedule has at most 250,000"):
            schedules.sequential(many, 6)
        with pytest.raises(ValueError, match=r"stages is .*: a schedule has at most"):
            schedules.grouped([1, many], 6, strict=False)


def test_generators_and_arrays_of_numbers_are_gone_through_once() -> None:
    wanted = train.select_devices(ids=[1, 2], platform="ipu")
    assert train.select_devices(ids=(number for number in (1, 2)), platform="ipu") == wanted
    assert train.select_devices(ids=np.array([1, 2]), platform="ipu") == wanted
    groups = train.select_devices(ids=[[1], [2]], platform="ipu")
    assert train.select_devices(ids=((number for number in (one,)) for one in (1, 2)), platform="ipu") == groups
    assert train.select_devices(np.array([1, 2]), platform="ipu") == train.select_devices([1, 2], platform="ipu")


def test_a_partition_keeps_what_generators_gave() -> None:
    made: Any = schedules.Partition
    found = made(cuts=iter((0, 1, 2)), costs=(schedules.LayerCost(name="a", work=work) for work in (1, 2)))
    assert found.stage_costs == (1, 2)


@pytest.mark.parametrize("step", [0.5, 0.0, float("nan"), 1j, True, np.float32(1), np.array([0, 1])])
def test_a_step_that_is_no_whole_number_has_no_key(step: Any) -> None:
    for given in (step, jax.numpy.asarray(step)):
        with pytest.raises(TypeError, match=r"step is .*: it must be"):
            train.element_key(KEY, given)


def test_steps_of_python_and_of_jax_have_the_same_keys() -> None:
    for step in (0, 3, 2**31 - 1):
        wanted = jax.random.key_data(jax.random.fold_in(KEY, step))
        for given in (step, np.int64(step), jax.numpy.int32(step)):
            assert (jax.random.key_data(train.element_key(KEY, given)) == wanted).all()
    largest = jax.random.key_data(train.element_key(KEY, 2**32 - 1))
    assert (largest == jax.random.key_data(jax.random.fold_in(KEY, 2**32 - 1))).all()
    with pytest.raises(ValueError, match="step is 4294967296: it must be 0 to 4,294,967,295"):
        train.element_key(KEY, 2**32)


@pytest.mark.parametrize("tree", [5, [], {"a": None}, "x", np.ones(3)])
def test_equality_of_nothing_is_refused(tree: Any) -> None:
    for count in (1, 2):
        there = Replicas(devices=train.select_devices(count, platform="ipu"))
        with pytest.raises(ValueError, match=r"tree .*so nothing could be compared: give what the loop has returned"):
            train.require_equal_replicas(tree, there)


def test_a_saved_state_is_placed_where_shapes_and_dtypes_are_those_of_the_new_one() -> None:
    like = {"w": jax.numpy.ones((4, 4)), "n": jax.numpy.int32(0)}
    saved = jax.tree.map(np.asarray, like)
    assert jax.tree.all(jax.tree.map(np.array_equal, train.placed_like(saved, like), saved))
    for change, message in (
        ({"w": np.ones((2, 2), np.float32)}, r"the leaf w is float32\[2,2\] in tree, but float32\[4,4\] in like"),
        ({"w": np.ones((4, 4), np.int64)}, r"the leaf w is int64\[4,4\] in tree, but float32\[4,4\] in like"),
        ({"w": "a"}, r"the leaf w is a str in tree, but float32\[4,4\] in like"),
        ({"n": (np.int32(0),)}, "tree has another structure than like: it has no leaf n; give"),
        ({"more": np.int32(0)}, "tree has another structure than like: like has no leaf more; give"),
    ):
        with pytest.raises(ValueError, match=message):
            train.placed_like(saved | change, like)
    traced = jax.jit(lambda tree: train.placed_like(tree, jax.tree.map(jax.numpy.zeros_like, tree)))(like)
    assert jax.tree.all(jax.tree.map(np.array_equal, traced, saved))


def test_a_partition_is_one_and_its_costs_are_finite() -> None:
    costs = tuple(schedules.LayerCost(name="a", work=1) for _ in range(3))
    for cuts in ((5,), (0,), (1, 3), (0, 2), (0, 2, 2, 3), (0, 3, 2)):
        with pytest.raises(ValueError, match=r"cuts is .*: it must rise from 0 to the 3 layers of costs"):
            schedules.Partition(cuts=cuts, costs=costs)
    with pytest.raises(ValueError, match="work of the layer a is inf: it must be a number, 0 or more, and finite"):
        schedules.LayerCost(name="a", work=float("inf"))
    with pytest.raises(ValueError, match="costs of the layers add up to more than a float holds"):
        schedules.best_partition([schedules.LayerCost(name="a", work=1e308)] * 3, 2)


def test_an_axis_may_be_any_whole_number() -> None:
    class One:
        def __index__(self) -> int:
            return 1

    given: Any = One()
    assert train.cross_replica_all_to_all(np.ones((1, 2)), split_axis=given, concat_axis=given).shape == (1, 2)
