"""`dataset_benchmark`: JSON with the original's keys."""

import json
from typing import Any

import numpy as np
import pytest

from tilestep.errors import DatasetError
from tilestep.tensorflow.ipu.queues import IPUInfeedQueue, dataset_benchmark, infeed_benchmark

KEYS = {"elements_processed", "total_bytes_processed", "time_elapsed", "elements_per_second", "bandwidth"}


def test_each_epoch_has_the_figures_of_the_original(tf: Any, capsys: pytest.CaptureFixture[str]) -> None:
    data = tf.placeholder(np.float32, (25,))
    dataset = tf.data.Dataset.from_tensors(data).repeat()
    text = dataset_benchmark(dataset, 2, 8)
    queue = infeed_benchmark(IPUInfeedQueue(dataset), 1, 4, print_stats=False)
    with tf.Session() as session:
        epochs = json.loads(session.run(text, {data: np.zeros(25)})[0])["epochs"]
        (of_queue,) = json.loads(session.run(queue, {data: np.ones(25)})[0])["epochs"]
    assert [set(epoch) for epoch in epochs] == [KEYS, KEYS]
    assert [(epoch["elements_processed"], epoch["total_bytes_processed"]) for epoch in epochs] == [(8, 800), (8, 800)]
    assert epochs[0]["bandwidth"] == pytest.approx(800 / 1e9 / epochs[0]["time_elapsed"])
    assert of_queue["elements_processed"] == 4
    assert capsys.readouterr().out.count("elements/s") == 2


def test_a_dataset_that_ends_early_is_an_error(tf: Any) -> None:
    text = dataset_benchmark(tf.data.Dataset.range(3), 1, 8)
    with tf.Session() as session, pytest.raises(DatasetError, match="3 elements"):
        session.run(text)
