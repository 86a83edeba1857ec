"""Shapes of HLO values: arrays, and tuples of them nested to any depth."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tilestep.errors import HloError
from tilestep.messages import shortened
from tilestep.program.text import closing, split_top_level
from tilestep.program.work import ArrayShape

_SIZE = "(?:<=)?[0-9]{1,19}"  # XLA's sizes have 64 bits
_ARRAY = re.compile(rf"([a-z]\w*)\[((?:{_SIZE}(?:, ?{_SIZE})*)?)\](?:\{{((?:[0-9]{{1,9}}(?:,[0-9]{{1,9}})*)?)(?::([^}}]*))?\}})?$")
_SPACE = re.compile(r"S\(([0-9]{1,9})\)")
_DEEPEST = 100  # tuples in each other


@dataclass(frozen=True, kw_only=True)
class Shape:
    """Shape of a value."""

    leaves: tuple[ArrayShape, ...]  # its arrays in order, with tuples flattened
    elements: tuple[Shape, ...] | None = None  # elements of a tuple; None for an array
    spaces: tuple[int, ...] = ()  # memory space of each leaf: 0 device, 5 host

    @property
    def size_bytes(self) -> int:
        """Bytes of all leaves."""
        return sum(leaf.size_bytes for leaf in self.leaves)

    def span(self, index: int) -> tuple[int, int]:
        """Position of the first leaf of element `index` of a tuple, and the position behind its last leaf."""
        if self.elements is None or index >= len(self.elements):
            raise HloError(f"shape {shortened(str(self))} has no element {index}")
        start = sum(len(element.leaves) for element in self.elements[:index])
        return start, start + len(self.elements[index].leaves)

    def leaf(self, path: tuple[int, ...]) -> int:
        """Position among the leaves of the first leaf at `path`; () is the value itself."""
        if not path:
            return 0
        start, _ = self.span(path[0])
        assert self.elements is not None  # span() has looked
        return start + self.elements[path[0]].leaf(path[1:])

    def __str__(self) -> str:
        if self.elements is None:
            return str(self.leaves[0])
        return f"({', '.join(map(str, self.elements))})"


def array_of(text: str) -> ArrayShape | None:
    """The array whose shape a text is; None if it is the shape of none, or of several."""
    try:
        found = parse_shape(text)
    except HloError:
        return None
    return found.leaves[0] if found.elements is None else None


EMPTY_TUPLE = Shape(leaves=(), elements=())


def parse_shape(text: str, depth: int = 0) -> Shape:
    """Reads 'f32[2,3]{1,0}', 'token[]' or '(s32[], (f32[2]{0}, f32[2]{0:S(5)}))'. Args: depth: tuples around it.

    Raises:
        HloError: for text that is no shape, for an unknown dtype, and for tuples nested too deep.
    """
    text = text.strip()
    if text.startswith("("):
        if depth == _DEEPEST:
            raise HloError(f"a shape has more than {_DEEPEST} tuples in each other")
        end = closing(text, 1, "(")
        if text[end + 1 :]:
            raise HloError(f"{text[end + 1 :][:80]!r} follows the shape {text[: end + 1][:80]!r}")
        elements = tuple(parse_shape(part, depth + 1) for part in split_top_level(text[1:end]))
        leaves = tuple(leaf for element in elements for leaf in element.leaves)
        spaces = tuple(space for element in elements for space in element.spaces)
        return Shape(leaves=leaves, elements=elements, spaces=spaces)
    found = _ARRAY.match(text)
    if found is None:
        raise HloError(f"{text[:160]!r} is no shape")
    dtype, dims, layout, tiling = found.groups()
    sizes = tuple(int(dim.strip().removeprefix("<=")) for dim in dims.split(",")) if dims else ()
    order = tuple(int(dim) for dim in layout.split(",")) if layout else ()
    space = _SPACE.search(tiling) if tiling else None
    return Shape(leaves=(ArrayShape(dtype, sizes, order),), spaces=(int(space.group(1)) if space else 0,))
