"""The benchmark of a dataset: its figures, in the units and form that are promised, and what it refuses."""

import itertools
import json
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tilestep.errors import DatasetError
from tilestep.train import InfeedQueue, dataset_benchmark, infeed_benchmark

KEYS = {"elements_processed", "total_bytes_processed", "time_elapsed", "elements_per_second", "bandwidth"}


def batch() -> dict[str, Any]:
    return {"image": np.ones((4, 8), np.float32), "label": (np.zeros(4, np.int8),)}


def endless() -> Iterator[dict[str, Any]]:
    while True:
        yield batch()


def test_each_epoch_has_the_five_figures_in_their_units() -> None:
    text = dataset_benchmark(endless, 3, 7)
    assert isinstance(text, str)
    epochs = json.loads(text)["epochs"]
    assert [set(epoch) for epoch in epochs] == [KEYS] * 3
    for epoch in epochs:
        assert all(isinstance(value, float) and value > 0 for value in epoch.values())
        assert epoch["elements_processed"] == 7
        assert epoch["total_bytes_processed"] == 7 * (4 * 8 * 4 + 4)
        assert epoch["elements_per_second"] == pytest.approx(7 / epoch["time_elapsed"])
        assert epoch["bandwidth"] == pytest.approx(epoch["total_bytes_processed"] / 1e9 / epoch["time_elapsed"])


def test_a_second_key_has_latencies_and_the_machine() -> None:
    found = json.loads(dataset_benchmark(endless(), 2, 9))
    assert set(found) == {"epochs", "details"}
    for details in found["details"]["epochs"]:
        latency = details["latency_wall_s"]
        assert 0 < latency["p50"] <= latency["p90"] <= latency["p99"] <= latency["max"]
    assert found["details"]["host"]["cpus"] >= 1
    assert "numpy" in found["details"]["host"]["versions"]


def test_the_time_is_that_of_the_dataset() -> None:
    def slow() -> Iterator[np.ndarray]:
        for index in itertools.count():
            time.sleep(0.02 if index == 3 else 0.001)
            yield np.ones(2)

    found = json.loads(dataset_benchmark(slow, 1, 5))
    assert found["epochs"][0]["time_elapsed"] >= 0.024
    assert found["details"]["epochs"][0]["latency_wall_s"]["max"] >= 0.02


def test_one_pass_serves_all_epochs_and_takes_no_element_more() -> None:
    taken = iter(range(10))
    dataset_benchmark(({"x": np.full(3, number)} for number in taken), 2, 4)
    assert next(taken) == 8


def test_a_dataset_that_is_too_short_is_an_error() -> None:
    with pytest.raises(
        DatasetError, match="ended after 40 elements, in epoch 2 of 3: 3 epochs of 30 elements need 90; ask for less, or let the dataset"
    ):
        dataset_benchmark([np.ones(2)] * 40, 3, 30)
    with pytest.raises(DatasetError, match="ended after 0 elements"):
        dataset_benchmark([], 1, 1)


def test_an_exception_of_the_dataset_comes_through_and_says_where() -> None:
    def broken() -> Iterator[np.ndarray]:
        yield from [np.ones(2)] * 5
        raise OSError("disk gone")

    with pytest.raises(OSError, match="disk gone") as caught:
        dataset_benchmark(broken, 2, 4)
    assert caught.value.__notes__ == ["raised by the dataset after 5 elements, in epoch 2 of 2"]


@pytest.mark.parametrize(
    ("elements", "message"),
    [
        ([{"x": np.ones(3)}, {"x": np.ones(2)}], r"element 1\['x'\] is float64\[2\], in the first one it was float64\[3\]; .* drop the"),
        ([{"x": np.ones(3)}, {"x": np.ones(3, np.float32)}], r"element 1\['x'\] is float32\[3\], in the first one it was float64\[3\]"),
        ([{"x": np.ones(3)}, {"y": np.ones(3)}], r"element 1 is PyTreeDef.*'y'.*first one was PyTreeDef.*'x'"),
        ([[np.ones(3)], (np.ones(3),)], r"element 1 is PyTreeDef"),
        ([np.ones((2, 0))], "element 0 has only empty arrays"),
        ([{}], "element 0 has no arrays"),
        ([None], "element 0 has no arrays"),
        ([(1, "text")], r"element 0\[1\] is <U4 \(str\), no array of numbers"),
        ([(1, object())], r"element 0\[1\] is object \(object\)"),
        ([([[1, 2], [3]],), 1], r"element 1 is PyTreeDef"),
    ],
)
def test_elements_that_cannot_be_fed_are_named(elements: list[Any], message: str) -> None:
    with pytest.raises(DatasetError, match=message):
        dataset_benchmark(elements, 1, 2)


# ------------------------------------------------------------------------------------------------------------- queues


def numbers() -> Iterator[dict[str, np.ndarray]]:
    for number in itertools.count():
        yield {"x": np.full(3, number, np.float32)}


def test_a_queue_has_the_same_figures_and_its_chunks() -> None:
    with InfeedQueue(numbers) as queue:
        found = json.loads(infeed_benchmark(queue, 2, 10, chunk=4))
    assert [set(epoch) for epoch in found["epochs"]] == [KEYS] * 2
    for epoch, details in zip(found["epochs"], found["details"]["epochs"], strict=True):
        assert (epoch["elements_processed"], epoch["total_bytes_processed"]) == (10, 120)
        assert 0 < details["latency_wall_s"]["p50"] <= details["latency_wall_s"]["max"] <= epoch["time_elapsed"]
    assert found["details"]["chunk_steps"] == 4
    assert found["details"]["host"]["cpus"] >= 1


def test_elements_of_replicas_count_each() -> None:
    with InfeedQueue(numbers, replicas=2) as queue:
        (epoch,) = json.loads(infeed_benchmark(queue, 1, 6))["epochs"]
        assert (epoch["elements_processed"], epoch["total_bytes_processed"], queue.consumed) == (6, 72, 6)
        with pytest.raises(ValueError, match="elements_per_epoch is 5: it must be a multiple of 2, the elements of a step"):
            infeed_benchmark(queue, 1, 5)
