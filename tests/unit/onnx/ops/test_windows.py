"""Where windows are: sizes and padding by hand."""

from __future__ import annotations

import pytest

from tests.together import each
from tilestep.onnx.ops.windows import windows


@each(
    "size, attributes, outputs, padding",
    [
        (5, {}, 3, (0, 0)),
        (5, {"strides": (2,)}, 2, (0, 0)),
        (6, {"strides": (2,), "pads": (1, 0)}, 3, (1, 0)),
        (7, {"dilations": (3,)}, 1, (0, 0)),
        (5, {"auto_pad": "SAME_UPPER", "strides": (2,)}, 3, (1, 1)),
        (6, {"auto_pad": "SAME_UPPER", "strides": (2,)}, 3, (0, 1)),
        (6, {"auto_pad": "SAME_LOWER", "strides": (2,)}, 3, (1, 0)),
        (6, {"auto_pad": "SAME_UPPER", "strides": (4,)}, 2, (0, 1)),
        (5, {"auto_pad": "VALID", "strides": (2,), "pads": (9, 9)}, 2, (0, 0)),
        (6, {"ceil_mode": 1, "strides": (2,)}, 3, (0, 1)),  # the last window reaches one beyond the field
        (5, {"ceil_mode": 1, "strides": (2,)}, 2, (0, 0)),
        (4, {"ceil_mode": 1, "strides": (4,), "pads": (1, 2)}, 2, (1, 2)),
        (3, {"ceil_mode": 1, "strides": (3,), "pads": (0, 1)}, 1, (0, 1)),  # a second one would start behind the field
    ],
)
def test_windows_of_three(size: int, attributes: dict[str, object], outputs: int, padding: tuple[int, int]) -> None:
    at = windows((size,), (3,), **attributes)
    assert (at.outputs, at.padding) == ((outputs,), (padding,))


@each(
    "attributes, message",
    [
        ({"strides": (0, 1)}, r"strides is \[0, 1\], and each must be at least 1"),
        ({"dilations": (1,)}, "dilations has 1 values, and the input wants 2"),
        ({"pads": (0, 0, 0, -1)}, r"pads is \[0, 0, 0, -1\], and each must be at least 0"),
        ({"auto_pad": "SAME"}, "auto_pad is 'SAME', and may be NOTSET, SAME_UPPER, SAME_LOWER or VALID"),
        ({"dilations": (3, 1)}, "a window of 7 is larger than the padded field of 5"),
    ],
)
def test_what_cant_be_says_why(attributes: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        windows((5, 5), (3, 3), **attributes)
