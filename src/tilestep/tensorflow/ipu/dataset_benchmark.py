"""`tensorflow.python.ipu.dataset_benchmark`: how fast a dataset gives its elements."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from tilestep import train
from tilestep.tensorflow.ipu.queues import IPUInfeedQueue
from tilestep.tensorflow.tf_private import graphs, sessions
from tilestep.tensorflow.untyped import Session, Tensor, tf, v1


def dataset_benchmark(
    dataset: Any,
    number_of_epochs: int,
    elements_per_epochs: int,
    print_stats: bool = True,
    apply_debug_options: bool = True,
    do_memcpy: bool = True,
) -> Tensor:
    """Takes elements from a dataset as fast as it gives them, without any device.

    Args:
        dataset: a `tf.data.Dataset` with fixed shapes.
        number_of_epochs, elements_per_epochs: how many, 1 or more.
        print_stats: whether each epoch's figures are printed.
        apply_debug_options: no effect.
        do_memcpy: whether the elements are copied.
    Returns:
        string[1], JSON of {"epochs": [...]}. Each epoch has elements_processed, total_bytes_processed, time_elapsed (seconds),
        elements_per_second and bandwidth (1e9 bytes per second). In a graph it is a tensor that measures when it is run.
    Raises: ValueError for shapes that are not fixed, or a number below 1; DatasetError when the dataset ends early.
    """

    def measure(elements: Any) -> Any:
        epochs = json.loads(train.dataset_benchmark(elements, number_of_epochs, elements_per_epochs, copy=do_memcpy))["epochs"]
        if print_stats:
            for number, epoch in enumerate(epochs):
                print(f"epoch {number}: {epoch['elements_per_second']:.1f} elements/s, {epoch['bandwidth']:.3f} GB/s")
        return np.array([json.dumps({"epochs": epochs}).encode()], dtype=object)

    if tf.executing_eagerly():
        return tf.constant(measure(dataset.as_numpy_iterator))
    graph = graphs.outermost()
    with graph.as_default(), tf.device("/CPU:0"):
        iterator = v1.data.make_initializable_iterator(dataset)
        element = tf.nest.flatten(iterator.get_next())

    def run(session: Session) -> Any:
        return measure(lambda: sessions.elements(session, element))

    with graph.as_default(), tf.device("/CPU:0"), tf.control_dependencies([iterator.initializer]):
        made = sessions.node(graph, run, [], tf.string, "dataset_benchmark")
    made.set_shape([1])
    return made


def infeed_benchmark(
    infeed_queue: IPUInfeedQueue, number_of_epochs: int, elements_per_epochs: int, print_stats: bool = True, do_memcpy: bool = True
) -> Tensor:
    """`dataset_benchmark` of a queue's dataset, from its beginning."""
    return dataset_benchmark(infeed_queue.dataset, number_of_epochs, elements_per_epochs, print_stats, True, do_memcpy)
