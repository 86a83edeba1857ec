"""Reductions into places, and reads in groups, by NumPy's own loops."""

import itertools
from typing import Any

import numpy as np
import pytest

from tests.together import each
from tests.unit.popart.ops.graphcore import gradient, holds, outputs
from tilestep.popart.exceptions import popart_exception

F = np.float32
DATA = np.random.default_rng(0).integers(1, 9, (4, 3)).astype(F)
INDEX = np.array([0, 2, 0, 3], np.int32)
COMBINE: dict[str, Any] = {"sum": np.add, "max": np.maximum, "min": np.minimum, "mul": np.multiply, "none": lambda a, b: b}


def scattered(data: Any, indices: Any, size: int, axis: int, reduction: str, initial: Any = None) -> Any:
    """One element after the other. Args: indices: with the shape of data."""
    shape = [size if i == axis else length for i, length in enumerate(data.shape)]
    first = {"mul": 1, "max": -np.inf, "min": np.inf}.get(reduction, 0)
    result = np.full(shape, first, data.dtype) if initial is None else initial.copy()
    for place in itertools.product(*map(range, indices.shape)):
        target = tuple(indices[place] if i == axis else n for i, n in enumerate(place))
        result[target] = COMBINE[reduction](result[target], data[place])
    return np.where(np.isfinite(result), result, 0)


def test_groups_are_reduced_on_their_own() -> None:
    data, index = np.stack([DATA, DATA + 1]), np.stack([INDEX, INDEX[::-1]])
    expected = np.stack([scattered(d, np.broadcast_to(i[:, None], d.shape), 5, 0, "max") for d, i in zip(data, index, strict=True)])
    holds([expected], "ScatterReduce", [data, index], axis_size=5, axis=1, reduction="max", group_size=2)


def test_without_broadcast_data_is_cut_to_the_indices() -> None:
    index = np.array([[0, 1], [2, 0]], np.int32)
    expected = scattered(DATA[:2, :2], index, 4, 0, "sum")
    holds([expected], "ScatterReduce", [DATA, index], axis_size=4, axis=0, enable_index_broadcast=0)


def test_the_last_axis_is_the_default() -> None:
    index = np.array([1, 1, 0], np.int32)
    expected = scattered(DATA, np.broadcast_to(index, DATA.shape), 2, 1, "sum")
    holds([expected], "ScatterReduce", [DATA, index], axis_size=2)


def test_gradients_of_reductions() -> None:
    data, index, seed = np.array([3, 3, 2, 5], F), np.array([0, 0, 0, 1], np.int32), np.array([10, 20], F)
    given: dict[str, Any] = {"inputs": [data, index], "cotangent": seed, "axis_size": 2, "axis": 0}
    np.testing.assert_allclose(gradient("ScatterReduce", reduction="sum", **given), [10, 10, 10, 20])
    np.testing.assert_allclose(gradient("ScatterReduce", reduction="max", **given), [10, 10, 0, 20])  # each of the equal ones
    np.testing.assert_allclose(gradient("ScatterReduce", reduction="min", **given), [0, 0, 10, 20])
    np.testing.assert_allclose(gradient("ScatterReduce", reduction="mul", **given), [60, 60, 90, 20], 1e-6)
    given["inputs"] = [data, index, np.array([7, 4], F)]
    np.testing.assert_allclose(gradient("ScatterReduce", reduction="max", **given), [0, 0, 0, 20])
    np.testing.assert_allclose(gradient("ScatterReduce", reduction="max", position=2, **given), [10, 0])
    np.testing.assert_allclose(gradient("ScatterReduce", reduction="none", position=2, **given), [0, 0])


@each(
    "attributes, message",
    [
        ({"axis_size": 0}, "axis_size = 0 is not valid"),
        ({"axis_size": 2, "axis": 2}, r"axis = 2 is outside the acceptable range \[-2, 1\]"),
        ({"axis_size": 2, "group_size": 0}, "group_size = 0"),
        ({"axis_size": 2, "enable_index_broadcast": 2}, "enable_index_broadcast = 2"),
    ],
)
def test_attributes_that_do_not_fit(attributes: dict[str, int], message: str) -> None:
    with pytest.raises(popart_exception, match=message):
        outputs("ScatterReduce", [DATA, INDEX], **attributes)


def test_indices_that_do_not_fit() -> None:
    with pytest.raises(popart_exception, match="Failed to expand 'indices' shape"):
        outputs("ScatterReduce", [DATA, np.zeros(5, np.int32)], axis_size=2, axis=0)


def test_gathers_in_groups() -> None:
    data, index = np.stack([DATA, DATA + 10]), np.array([[0, 1], [3, 2]], np.int32)
    expected = np.stack([d[i] for d, i in zip(data, index, strict=True)])
    holds([expected], "GroupedGather", [data, index], axis=1, group_size=2)
    holds([DATA[index]], "GroupedGather", [DATA, index], axis=0)
    holds([data[:, :0]], "GroupedGather", [data, index[:, :0]], axis=1, group_size=2)
    with pytest.raises(popart_exception, match="indicates the dimension of the group"):
        outputs("GroupedGather", [data, index], axis=0, group_size=2)
