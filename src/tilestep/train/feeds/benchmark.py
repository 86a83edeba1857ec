"""How fast a dataset gives its elements, without any device, or an InfeedQueue on one: the rate that a training loop cannot exceed.

Sources: TensorFlow for the IPU, `ipu.dataset_benchmark` (SDK 2.4 documentation), for the form and units of the first key of the result.
"""

import json
import os
import platform
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import version
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tilestep.errors import DatasetError, QueueError
from tilestep.train.datasets import Dataset, iterator_maker
from tilestep.train.feeds.chunks import DEFAULT_CHUNK
from tilestep.train.feeds.elements import ElementSpec
from tilestep.train.feeds.infeed_queue import InfeedQueue
from tilestep.train.numbers import whole_number
from tilestep.train.other_arguments import require_bools
from tilestep.train.patience import Aloud
from tilestep.train.untyped import Pytree
from tilestep.train.untyped import jax as _jax

_MOST: Final = 2**31 - 1  # epochs, elements of one
PERCENTILES: Final = (50, 90, 99)
Epoch = tuple[dict[str, float], dict[str, float]]  # (the figures of one epoch, its latencies)


def dataset_benchmark(dataset: Dataset, number_of_epochs: int, elements_per_epoch: int, *, copy: bool = True) -> str:
    """Takes `number_of_epochs * elements_per_epoch` elements from one pass over a dataset and says how long each epoch took.

    An element's time is that of producing it and, with `copy`, of copying its arrays into memory that is there already, which is the
    least that any way to a device does. Making the iterator belongs to the first epoch.

    Args:
        dataset: an iterable of pytrees of arrays (anything that `np.asarray` takes), or a callable without arguments that returns one.
            Every element has the first one's structure, shapes and dtypes.
        number_of_epochs: at least 1.
        elements_per_epoch: at least 1.
        copy: whether the arrays are copied.

    Returns:
        JSON text of an object. "epochs" is a list with an object for each epoch: `elements_processed`, `total_bytes_processed`,
        `time_elapsed` (seconds), `elements_per_second`, `bandwidth` (1e9 bytes per second), all floats above 0. "details" has "epochs",
        a list with the elements' `latency_wall_s` in each epoch (`p50`, `p90`, `p99`, `max`), and "host", facts of the machine.

    Raises:
        TypeError: for a dataset or number of the wrong kind.
        ValueError: for a number below 1.
        DatasetError: when the dataset ends early, or an element has no arrays, nothing in them, no numbers, or others than the first
            element's. What the dataset raises comes through as it is, with a note that says after how many elements.
    """
    return benchmark_text(list(dataset_epochs(dataset, number_of_epochs, elements_per_epoch, copy=copy)))


def dataset_epochs(dataset: Dataset, number_of_epochs: int, elements_per_epoch: int, *, copy: bool = True) -> Iterator[Epoch]:
    """Measures one epoch of `dataset_benchmark` after the other, with its arguments and errors."""
    epochs = whole_number("number_of_epochs", number_of_epochs, least=1, most=_MOST)
    elements = whole_number("elements_per_epoch", elements_per_epoch, least=1, most=_MOST)
    require_bools(copy=copy)
    sizes = _sizes(iterator_maker(dataset), copy=copy)
    for number in range(epochs):
        yield _epoch(lambda: (1, next(sizes)), number=number, epochs=epochs, elements=elements)


def infeed_benchmark(queue: InfeedQueue, number_of_epochs: int, elements_per_epoch: int, *, chunk: int | None = None) -> str:
    """Takes `number_of_epochs * elements_per_epoch` elements out of a queue as fast as they arrive on their devices.

    The queue's thread takes them from the dataset, stacks and uploads them, as it does for `repeat`; nothing is computed with them. They
    count as consumed: the next loop goes on after them.

    Args:
        queue: which no loop uses meanwhile.
        number_of_epochs: at least 1.
        elements_per_epoch: at least 1, and a multiple of the elements of a step (the queue's `replicas`).
        chunk: steps that are uploaded at once; None: as `repeat` has it for that many steps.

    Returns:
        JSON text as that of `dataset_benchmark`, with two differences: a latency is that of a chunk, and "details" has `chunk_steps`.
        Bytes are those on the device, where 64-bit numbers are 32-bit ones unless `jax_enable_x64` is set.

    Raises:
        TypeError: for a queue or number of the wrong kind.
        ValueError: for a number out of its bounds.
        QueueError: when the queue is closed or in use.
        DatasetError: when the dataset ends early, or its elements cannot be fed. What the dataset raises comes through as it is.
    """
    if not isinstance(queue, InfeedQueue):  # a caller's mistake
        raise TypeError(f"queue is a {type(queue).__name__}: it must be an InfeedQueue; dataset_benchmark takes a dataset")
    epochs = whole_number("number_of_epochs", number_of_epochs, least=1, most=_MOST)
    elements = whole_number("elements_per_epoch", elements_per_epoch, least=1, most=_MOST)
    steps, rest = divmod(elements, queue.elements_per_step)
    if rest:
        raise ValueError(f"elements_per_epoch is {elements}: it must be a multiple of {queue.elements_per_step}, the elements of a step")
    chunk_steps = min(steps, DEFAULT_CHUNK if chunk is None else whole_number("chunk", chunk, least=1, most=_MOST))

    def take() -> tuple[int, int]:
        taken = queue.take()
        with Aloud(lambda: "elements of a dataset to be on their device"):
            _jax.block_until_ready(taken.on_device)
        return taken.elements, sum(leaf.nbytes for leaf in _jax.tree.leaves(taken.on_device))

    measured: list[Epoch] = []
    queue.reserve("infeed_benchmark")
    try:
        for number in range(epochs):
            queue.begin(chunk_steps=chunk_steps, steps=steps, carry_sharding=None)
            measured.append(_epoch(take, number=number, epochs=epochs, elements=elements))
    finally:
        queue.release()
    return benchmark_text(measured, {"chunk_steps": chunk_steps})


def _epoch(take: Callable[[], tuple[int, int]], *, number: int, epochs: int, elements: int) -> Epoch:
    """Measures an epoch; `take` gives the next elements and says how many and how many bytes they were."""
    taken = total_bytes = 0
    ends_ns = [time.perf_counter_ns()]
    while taken < elements:
        try:
            count, num_bytes = take()
        except StopIteration:
            raise DatasetError(
                f"the dataset ended after {number * elements + taken:,} elements, in epoch {number + 1} of {epochs}: {epochs:,} epochs of "
                f"{elements:,} elements need {epochs * elements:,}; ask for less, or let the dataset repeat"
            ) from None
        except (DatasetError, QueueError):
            raise
        except Exception as error:
            error.add_note(f"raised by the dataset after {number * elements + taken:,} elements, in epoch {number + 1} of {epochs}")
            raise
        taken, total_bytes = taken + count, total_bytes + num_bytes
        ends_ns.append(time.perf_counter_ns())
    elapsed_wall_s = max(1, ends_ns[-1] - ends_ns[0]) / 1e9  # a clock too coarse to tell them apart shows its own step
    figures = {
        "elements_processed": float(elements),
        "total_bytes_processed": float(total_bytes),
        "time_elapsed": elapsed_wall_s,
        "elements_per_second": elements / elapsed_wall_s,
        "bandwidth": total_bytes / 1e9 / elapsed_wall_s,
    }
    latencies: NDArray[np.float64] = np.diff(ends_ns) / 1e9
    percentiles = zip(PERCENTILES, np.percentile(latencies, PERCENTILES).tolist(), strict=True)
    return figures, {f"p{percent}": float(value) for percent, value in percentiles} | {"max": float(latencies.max())}


def benchmark_text(measured: Sequence[Epoch], facts: Mapping[str, Any] = MappingProxyType({})) -> str:
    """The JSON text of epochs. Args: facts: that "details" has beside them and the host."""
    details = {"epochs": [{"latency_wall_s": latencies} for _, latencies in measured], **facts, "host": _host()}
    return json.dumps({"epochs": [figures for figures, _ in measured], "details": details})


def _sizes(make_iterator: Callable[[], Iterator[Pytree]], *, copy: bool) -> Iterator[int]:
    """The size of each element in bytes, once it has been taken over. The iterator is made when the first one is asked for."""
    spec: ElementSpec | None = None
    buffers: list[NDArray[Any]] = []
    for index, element in enumerate(make_iterator()):
        if spec is None:
            spec = ElementSpec(element, index, x64=True)
            buffers = [np.empty(array.shape, array.dtype) for array in spec.arrays(element, index)]
            if not sum(buffer.nbytes for buffer in buffers):
                raise DatasetError(f"element {index} has only empty arrays: at least one must have something in it")
        arrays = spec.arrays(element, index)
        for array, buffer in zip(arrays, buffers, strict=True):
            if copy:
                np.copyto(buffer, array)
        yield sum(array.nbytes for array in arrays)


def _host() -> dict[str, Any]:
    """What the figures depend on."""
    return {
        "system": platform.system(),
        "architecture": platform.machine(),
        "cpus": os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "load": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        "versions": {name: version(name) for name in ("jax", "numpy", "tilestep")},
    }
