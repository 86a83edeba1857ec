"""Shapes as programs and recordings write them."""

from __future__ import annotations

import pytest

from tilestep.program.shapes import array_of


@pytest.mark.parametrize(
    ("text", "dims"),
    [
        ("f32[2,3]{1,0}", (2, 3)),
        ("s32[]", ()),
        ("", None),
        ("(f32[2], f32[3])", None),
        ("x7[2]", None),
        (f"f32[{'9' * 5_000}]", None),  # of a recording that anybody may have made
    ],
)
def test_the_array_of_a_text_is_none_where_there_is_not_one(text: str, dims: tuple[int, ...] | None) -> None:
    found = array_of(text)
    assert (None if found is None else found.dims) == dims
