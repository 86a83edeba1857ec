"""What operations say of dimensions: which of an operand's and of the result's are one, and which cannot be longer than they are."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tilestep.program.hlo import Instruction
from tilestep.program.work import ArrayShape

Place = tuple[int, int]  # operand, or one more than the last for the result; dimension
Dims = tuple[int, ...]
_NUMBER: Final = re.compile(r"-?\d+")
_LABELS: Final = re.compile(r"(\w+)_(\w+)->(\w+)")

ALIKE: Final = frozenset({
    "abs", "add", "all-reduce", "and", "atan2", "bitcast-convert", "cbrt", "ceil", "clamp", "collective-permute", "compare",
    "convert", "copy", "cosine", "count-leading-zeros", "divide", "erf", "exponential", "exponential-minus-one", "floor", "imag",
    "is-finite", "log", "log-plus-one", "logistic", "maximum", "minimum", "multiply", "negate", "not", "or", "popcnt", "power",
    "real", "reduce-precision", "remainder", "reverse", "round-nearest-afz", "round-nearest-even", "rsqrt", "select",
    "shift-left", "shift-right-arithmetic", "shift-right-logical", "sign", "sine", "sqrt", "subtract", "tan", "tanh", "xor",
})  # fmt: skip
"""Opcodes whose operands and result have the same dimensions, scalars aside."""


@dataclass(frozen=True, kw_only=True)
class Links:
    """What an operation says."""

    links: Sequence[tuple[Place, Place]]  # pairs of dimensions that are one
    fixed: Sequence[Place] = ()  # dimensions that cannot be longer


def numbers(text: str) -> list[int]:
    """All whole numbers of a text."""
    return [int(found) for found in _NUMBER.findall(text)]


def physical(shape: ArrayShape) -> Dims:
    """The dimensions as they lie in memory, the outermost first."""
    return tuple(reversed(shape.minor_to_major)) if shape.minor_to_major else tuple(range(len(shape.dims)))


def groups_of(before: Sequence[int], after: Sequence[int]) -> Iterator[tuple[list[int], list[int]]]:
    """Positions of dimensions that become others when an array is reshaped, in the smallest groups. Those of one element are left out."""
    left = [k for k, size in enumerate(before) if size != 1]
    right = [k for k, size in enumerate(after) if size != 1]
    while left and right:
        one, other = [left.pop(0)], [right.pop(0)]
        mine, its = before[one[0]], after[other[0]]
        while mine != its:
            if mine < its:
                one.append(left.pop(0))
                mine *= before[one[-1]]
            else:
                other.append(right.pop(0))
                its *= after[other[-1]]
        yield one, other


def _attribute(instruction: Instruction, key: str) -> list[int]:
    return numbers(instruction.attributes.get(key, ""))


def _broadcast(instruction: Instruction, shapes: Sequence[Dims]) -> Links:
    places = _attribute(instruction, "dimensions")
    return Links(links=[((0, dim), (1, place)) for dim, place in enumerate(places)])


def _transpose(instruction: Instruction, shapes: Sequence[Dims]) -> Links:
    return Links(links=[((0, place), (1, dim)) for dim, place in enumerate(_attribute(instruction, "dimensions"))])


def _reduce(instruction: Instruction, shapes: Sequence[Dims]) -> Links:
    gone, count = _attribute(instruction, "dimensions"), len(shapes) // 2
    left = [dim for dim in range(len(shapes[0])) if dim not in gone]
    arrays = [((k, dim), (0, dim)) for k in range(1, count) for dim in range(len(shapes[0]))]
    return Links(links=[*arrays, *(((0, place), (len(shapes), dim)) for dim, place in enumerate(left))])


def _dot(instruction: Instruction, shapes: Sequence[Dims]) -> Links:
    keys = ("lhs_batch_dims", "rhs_batch_dims", "lhs_contracting_dims", "rhs_contracting_dims")
    lhs_batch, rhs_batch, lhs_gone, rhs_gone = (_attribute(instruction, key) for key in keys)
    links = [((0, one), (1, other)) for one, other in zip([*lhs_batch, *lhs_gone], [*rhs_batch, *rhs_gone], strict=True)]
    free = [(0, dim) for dim in range(len(shapes[0])) if dim not in (*lhs_batch, *lhs_gone)]
    free += [(1, dim) for dim in range(len(shapes[1])) if dim not in (*rhs_batch, *rhs_gone)]
    kept = [*((0, dim) for dim in lhs_batch), *free]
    return Links(links=[*links, *((place, (2, dim)) for dim, place in enumerate(kept))])


def _convolution(instruction: Instruction, shapes: Sequence[Dims]) -> Links:
    found = _LABELS.search(instruction.attributes.get("dim_labels", ""))
    whole = [(place, dim) for place, shape in enumerate((*shapes, instruction.leaves[0].dims)) for dim in range(len(shape))]
    grouped = any(instruction.attributes.get(key, "1") != "1" for key in ("feature_group_count", "batch_group_count"))
    if found is None or grouped:
        return Links(links=[], fixed=whole)
    lhs, rhs, out = found.groups()
    links = [((0, lhs.index("b")), (2, out.index("b"))), ((0, lhs.index("f")), (1, rhs.index("i")))]
    links.append(((1, rhs.index("o")), (2, out.index("f"))))
    moving = {place for link in links for place in link}
    return Links(links=links, fixed=[place for place in whole if place not in moving])


def _joined(instruction: Instruction, shapes: Sequence[Dims]) -> Links:
    """Of concatenations and sorts, along one dimension."""
    [along], count = _attribute(instruction, "dimensions"), len(shapes)
    places = [(k, dim) for k in range(count) for dim in range(len(shapes[0]))]
    fixed = [(k, along) for k in range(count + 1)]
    return Links(links=[(place, (count, place[1])) for place in places if place[1] != along], fixed=fixed)


def _part(instruction: Instruction, shapes: Sequence[Dims]) -> Links:
    """Of slices and of paddings: dimensions that keep their size are the same ones."""
    result, last = instruction.leaves[0].dims, len(shapes)
    same = [dim for dim, (one, other) in enumerate(zip(shapes[0], result, strict=True)) if one == other]
    padded = instruction.attributes.get("padding", "").split("x") if instruction.opcode == "pad" else []
    same = [dim for dim in same if not padded or set(padded[dim].split("_")) == {"0"}]
    others = [dim for dim in range(len(result)) if dim not in same]
    return Links(links=[((0, dim), (last, dim)) for dim in same], fixed=[(place, dim) for place in (0, last) for dim in others])


def _updated(instruction: Instruction, shapes: Sequence[Dims]) -> Links:
    last = len(shapes)
    links = [((0, dim), (last, dim)) for dim in range(len(shapes[0]))]
    pairs = list(enumerate(zip(shapes[0], shapes[1], strict=True)))
    links += [((0, dim), (1, dim)) for dim, (one, other) in pairs if one == other]
    return Links(links=links, fixed=[(place, dim) for dim, (one, other) in pairs if one != other for place in (0, 1)])


def _gather(instruction: Instruction, shapes: Sequence[Dims]) -> Links:
    """Dimensions that are taken as a whole are the same ones. One that is indexed may be longer: then there is more to take from."""
    sizes, offsets = _attribute(instruction, "slice_sizes"), _attribute(instruction, "offset_dims")
    gone, batching = _attribute(instruction, "collapsed_slice_dims"), _attribute(instruction, "operand_batching_dims")
    window = [dim for dim in range(len(shapes[0])) if dim not in (*gone, *batching)]
    links, fixed = _windows(instruction, shapes, window, offsets, sizes, len(instruction.leaves[0].dims), places=(1, 2))
    return Links(links=links, fixed=fixed)


def _scatter(instruction: Instruction, shapes: Sequence[Dims]) -> Links:
    if len(shapes) != 3:
        return Links(links=[], fixed=[(place, dim) for place, shape in enumerate(shapes) for dim in range(len(shape))])
    offsets = _attribute(instruction, "update_window_dims")
    gone, batching = _attribute(instruction, "inserted_window_dims"), _attribute(instruction, "input_batching_dims")
    window = [dim for dim in range(len(shapes[0])) if dim not in (*gone, *batching)]
    sizes = [1] * len(shapes[0])
    for dim, offset in zip(window, offsets, strict=True):
        sizes[dim] = shapes[2][offset]
    links, fixed = _windows(instruction, shapes, window, offsets, sizes, len(shapes[2]), places=(1, 2))
    return Links(links=[*links, *(((0, dim), (3, dim)) for dim in range(len(shapes[0])))], fixed=fixed)


def _windows(
    instruction: Instruction,
    shapes: Sequence[Dims],
    window: Sequence[int],
    offsets: Sequence[int],
    sizes: Sequence[int],
    rank: int,
    *,
    places: tuple[int, int],
) -> tuple[list[tuple[Place, Place]], list[Place]]:
    """Of a gather or a scatter. Args: places: of the indices, and of the array of windows."""
    indices, windows = places
    pairs = list(zip(window, offsets, strict=True))
    links = [((0, dim), (windows, offset)) for dim, offset in pairs if sizes[dim] == shapes[0][dim]]
    fixed = [(windows, offset) for dim, offset in pairs if sizes[dim] != shapes[0][dim]]
    along = int(instruction.attributes.get("index_vector_dim", "-1"))
    rows = [dim for dim in range(len(shapes[indices])) if dim != along]
    links += [((indices, row), (windows, dim)) for row, dim in zip(rows, (d for d in range(rank) if d not in offsets), strict=True)]
    operand, start = ("operand", "start_indices") if instruction.opcode == "gather" else ("input", "scatter_indices")
    shared = zip(_attribute(instruction, f"{operand}_batching_dims"), _attribute(instruction, f"{start}_batching_dims"), strict=True)
    return [*links, *(((0, dim), (indices, row)) for dim, row in shared)], fixed


ARRAYS: Final[Mapping[str, Callable[[Instruction, Sequence[Dims]], Links]]] = {
    "broadcast": _broadcast,
    "transpose": _transpose,
    "reduce": _reduce,
    "dot": _dot,
    "convolution": _convolution,
    "concatenate": _joined,
    "sort": _joined,
    "slice": _part,
    "dynamic-slice": _part,
    "pad": _part,
    "dynamic-update-slice": _updated,
    "gather": _gather,
    "scatter": _scatter,
}
"""What each of these opcodes says. All operands are arrays."""
