"""How fast a dataset gives its elements, without any device: the rate that a training loop cannot exceed.

Sources: TensorFlow for the IPU, `ipu.dataset_benchmark` (SDK 2.4 documentation), for the form and units of the first key of the result.
"""

from __future__ import annotations

import json
import operator
import os
import platform
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.metadata import version
from typing import Any, Final, TypeGuard

import jax
import numpy as np
from numpy.typing import NDArray

from tilestep.errors import DatasetError

PERCENTILES: Final = (50, 90, 99)
_NO_NUMBERS: Final = "OSUMm"  # dtype kinds of objects, strings and dates: nothing that a device can hold

Dataset = Iterable[Any] | Callable[[], Iterable[Any]]

_tree: Any = jax.tree_util  # whose types say nothing of what is in a tree


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
    Returns: JSON text of an object. "epochs" is a list with an object for each epoch: `elements_processed`, `total_bytes_processed`,
        `time_elapsed` (seconds), `elements_per_second`, `bandwidth` (1e9 bytes per second), all floats above 0. "details" has "epochs",
        a list with the elements' `latency_wall_s` of each epoch (`p50`, `p90`, `p99`, `max`), and "host", facts of the machine.
    Raises: TypeError for a dataset or number of the wrong kind, ValueError for a number below 1. DatasetError if the dataset ends early,
        or an element has no arrays, an empty one, one of no numbers, or others than the first element's. What the dataset raises comes
        through as it is, with a note that says after how many elements.
    """
    epochs = _at_least_1("number_of_epochs", number_of_epochs)
    elements = _at_least_1("elements_per_epoch", elements_per_epoch)
    return benchmark_json(_sizes(iterator_maker(dataset), copy=copy), epochs, elements)


def benchmark_json(element_bytes: Iterator[int], number_of_epochs: int, elements_per_epoch: int) -> str:
    """Times an iterator that gives the size of each element as it hands it on; returns the JSON text of `dataset_benchmark`."""
    measured = [
        _epoch(element_bytes, epoch=epoch, epochs=number_of_epochs, elements=elements_per_epoch) for epoch in range(1, number_of_epochs + 1)
    ]
    details = {"epochs": [{"latency_wall_s": latencies} for _, latencies in measured], "host": _host()}
    return json.dumps({"epochs": [figures for figures, _ in measured], "details": details})


def _epoch(element_bytes: Iterator[int], *, epoch: int, epochs: int, elements: int) -> tuple[dict[str, float], dict[str, float]]:
    """(the figures of one epoch, the latencies of its elements)."""
    total_bytes = 0
    ends_ns = [time.perf_counter_ns()]
    for taken in range(elements):
        try:
            total_bytes += next(element_bytes)
        except StopIteration:
            had = (epoch - 1) * elements + taken
            raise DatasetError(
                f"the dataset ended after {had:,} elements, in epoch {epoch} of {epochs}: {epochs:,} epochs of {elements:,} elements need "
                f"{epochs * elements:,}; ask for less, or let the dataset repeat"
            ) from None
        except DatasetError:
            raise
        except Exception as error:
            error.add_note(f"raised by the dataset after {(epoch - 1) * elements + taken:,} elements, in epoch {epoch} of {epochs}")
            raise
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


def _sizes(make_iterator: Callable[[], Iterator[Any]], *, copy: bool) -> Iterator[int]:
    """The size of each element in bytes, once it has been taken over. The iterator is made when the first one is asked for."""
    structure, buffers = None, list[NDArray[Any]]()
    for index, element in enumerate(make_iterator()):
        leaves, own_structure = _tree.tree_flatten(element)
        arrays = [_array(leaf, element, position, index) for position, leaf in enumerate(leaves)]
        if structure is None:
            structure = own_structure
            buffers = [_buffer(array, element, position) for position, array in enumerate(arrays)]
            if not buffers:
                raise DatasetError(f"element 0 has no arrays ({own_structure}): give a dataset whose elements are pytrees of arrays")
        if own_structure != structure:
            raise DatasetError(f"element {index} is {own_structure}, the elements before were {structure}: all must have one structure")
        for position, (array, buffer) in enumerate(zip(arrays, buffers, strict=True)):
            if array.shape != buffer.shape or array.dtype != buffer.dtype:
                raise DatasetError(
                    f"element {index}{_path(element, position)} is {_kind(array)}, it was {_kind(buffer)} in the elements before: shapes "
                    "and dtypes must stay the same; drop or pad what is left over at the end of the data"
                )
            if copy:
                np.copyto(buffer, array)
        yield sum(buffer.nbytes for buffer in buffers)


def _array(leaf: Any, element: Any, position: int, index: int) -> NDArray[Any]:
    try:
        array = np.asarray(leaf)
    except (TypeError, ValueError) as error:
        raise DatasetError(f"element {index}{_path(element, position)} is a {type(leaf).__name__}, no array of numbers: {error}") from error
    if array.dtype.kind in _NO_NUMBERS:
        raise DatasetError(f"element {index}{_path(element, position)} is {array.dtype} ({type(leaf).__name__}), no array of numbers")
    return array


def _buffer(array: NDArray[Any], element: Any, position: int) -> NDArray[Any]:
    if array.size == 0:
        raise DatasetError(f"element 0{_path(element, position)} is {_kind(array)}, an empty array: each dimension must be 1 or more")
    return np.empty(array.shape, array.dtype)


def _path(element: Any, position: int) -> str:
    """Where in an element its array number `position` is, like "['image'][0]"."""
    return _tree.keystr(_tree.tree_flatten_with_path(element)[0][position][0])


def _kind(array: NDArray[Any]) -> str:
    return f"{array.dtype}[{','.join(map(str, array.shape))}]"


def iterator_maker(dataset: object) -> Callable[[], Iterator[Any]]:
    """What begins a pass over a dataset. Raises: TypeError if this is none."""
    if isinstance(dataset, Mapping | str | bytes):
        raise TypeError(f"dataset is a {type(dataset).__name__}: that is one element, not an iterable of them; put it into a list")  # pyright: ignore[reportUnknownArgumentType]
    if _is_iterable(dataset):
        return lambda: iter(dataset)
    if callable(dataset):
        return lambda: iter(_iterable(dataset()))
    raise TypeError(f"dataset is a {type(dataset).__name__}: it must be an iterable of pytrees of arrays, or a callable that returns one")


def _is_iterable(value: object) -> TypeGuard[Iterable[Any]]:
    """Whether `iter` takes it: by its type, without making an iterator."""
    return hasattr(type(value), "__iter__") or hasattr(type(value), "__getitem__")


def _iterable(returned: object) -> Iterable[Any]:
    if not _is_iterable(returned):
        raise TypeError(f"the dataset's callable returned a {type(returned).__name__}: it must return an iterable of pytrees of arrays")
    return returned


def _at_least_1(name: str, value: Any) -> int:
    if isinstance(value, bool):
        raise TypeError(f"{name} is {value}: it must be a whole number, 1 or more")
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} is {value!r}: it must be a whole number, 1 or more") from None
    if number < 1:
        raise ValueError(f"{name} is {number}: it must be 1 or more")
    return number


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
