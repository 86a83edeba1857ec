"""Values as text, in lines of a given width, as the operator PrintTensor writes them."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

_AUTO, _SCIENTIFIC = 0, 2  # numbers of formats of floats; 1 is that without exponent, 3 the shortest text of each
_LARGEST_FIXED, _SMALLEST_FIXED = 1e8, 1e-4  # magnitudes between which numbers are written without an exponent


@dataclass(frozen=True, kw_only=True)
class Format:
    """How values are written.

    Attributes:
        threshold: elements above which only those at the edges are written; 0: all are.
        edge_items: of each axis, at its beginning and its end.
        line_width: characters; 0: a line has no end.
        digits: of a float.
        floats: the number of its format: automatic, fixed, with exponent, none.
        separator: between elements.
        brackets: around each axis.
    """

    threshold: int
    edge_items: int
    line_width: int
    digits: int
    floats: int
    separator: str
    brackets: tuple[str, str]


def written(values: np.ndarray[Any, Any], form: Format) -> str:
    """The text of an array."""
    decimals, exponent = _decimals(values, form), _has_exponent(values, form)
    formatter: Any = {"float_kind": lambda value: _number(value, form, decimals, exponent)}
    text = np.array2string(
        values,
        max_line_width=form.line_width or sys.maxsize,
        separator=form.separator,
        threshold=form.threshold or sys.maxsize,
        edgeitems=form.edge_items,
        formatter=formatter if values.dtype.kind == "f" else None,
    )
    return text.translate(str.maketrans("[]", "".join(form.brackets)))


def _finite(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    magnitudes = np.abs(values[np.isfinite(values)].astype(np.float64))
    return magnitudes[magnitudes > 0]


def _has_exponent(values: np.ndarray[Any, Any], form: Format) -> bool:
    if form.floats != _AUTO:
        return form.floats == _SCIENTIFIC
    magnitudes = _finite(values)
    return bool(magnitudes.size) and (magnitudes.max() >= _LARGEST_FIXED or magnitudes.min() < _SMALLEST_FIXED)


def _decimals(values: np.ndarray[Any, Any], form: Format) -> int:
    """Digits behind the point, so that the largest number has `digits` in all."""
    magnitudes = _finite(values)
    before = len(str(int(magnitudes.max()))) if magnitudes.size else 1
    return max(form.digits - before, 0)


def _number(value: Any, form: Format, decimals: int, exponent: bool) -> str:
    if form.floats > _SCIENTIFIC:
        return str(value)
    return f"{value:.{max(form.digits - 1, 0)}e}" if exponent else f"{value:.{decimals}f}"
