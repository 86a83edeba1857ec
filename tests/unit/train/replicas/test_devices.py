"""Selection of devices: a number, groups, explicit ids. TensorFlow for the IPU's auto_select_ipus and select_ipus are the cases' source."""

from typing import Any

import jax
import pytest

from tests.together import each
from tilestep.train import select_devices


def ids(selected: Any) -> Any:
    return [ids(item) for item in selected] if isinstance(selected, tuple) else selected.id


def test_a_number_a_list_of_numbers_and_nothing() -> None:
    assert select_devices() == tuple(jax.devices())
    assert ids(select_devices(platform="ipu")) == [0, 1, 2, 3]
    assert ids(select_devices(2, platform="ipu")) == [0, 1]
    assert ids(select_devices([1, 2], platform="ipu")) == ids(select_devices((1, 2), platform="ipu")) == [[0], [1, 2]]


def test_explicit_ids_keep_their_order() -> None:
    assert ids(select_devices(ids=[3, 1], platform="ipu")) == [3, 1]
    assert ids(select_devices(ids=2, platform="ipu")) == [2]
    assert ids(select_devices(ids=[[3, 1], [0]], platform="ipu")) == [[3, 1], [0]]


@each(
    "arguments, error, message",
    [
        (
            {"count": 5},
            ValueError,
            r"5 devices were asked for, but there are 4 on platform ipu: jax.config.update\('jax_ipu_device_count', n\)",
        ),
        ({"count": [2, 3]}, ValueError, r"2 \+ 3 = 5 devices were asked for, but there are 4 on platform ipu"),
        ({"count": 0}, ValueError, r"count is 0: it must be 1 or more"),
        ({"count": [1, 0]}, ValueError, r"count\[1\] is 0"),
        ({"count": []}, ValueError, r"count is an empty list"),
        ({"count": True}, TypeError, r"count is True: it must be a whole number"),
        ({"count": "4"}, TypeError, r"count is '4': it must be a whole number"),
        ({"count": [True]}, TypeError, r"count\[0\] is True"),
        ({"ids": [0, 4]}, ValueError, r"ids names device 4, but platform ipu has those with ids 0, 1, 2, 3"),
        ({"ids": [1, 2, 1]}, ValueError, r"ids names device 1 2 times: each device can be selected once"),
        ({"ids": [[0, 1], [1]]}, ValueError, r"ids names device 1 2 times"),
        ({"ids": [[0], 1]}, ValueError, r"it must be a list of numbers, or a list of such lists"),
        ({"ids": [[0], []]}, ValueError, r"none of them empty"),
        ({"ids": []}, ValueError, r"ids is an empty list"),
        ({"ids": [False]}, TypeError, r"ids is False"),
        ({"count": 1, "ids": [0]}, ValueError, r"count is 1 and ids is \[0\]: give one of them"),
    ],
)
def test_what_cannot_be_selected_says_why(arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        select_devices(**arguments, platform="ipu")
