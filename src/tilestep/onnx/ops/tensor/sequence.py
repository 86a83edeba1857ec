"""Sequences and optionals. A sequence's length and the positions in it are known when the program is made; its elements may be traced."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilestep.onnx.interpreter.interpret import Call
from tilestep.onnx.interpreter.registry import op
from tilestep.onnx.interpreter.values import Array, SequenceValue, known, known_scalar, module_of


def _position(position: Any, length: int, *, most: int) -> int:
    """A position from 0 on. Args: most: the largest one that is allowed. Raises: ValueError beyond."""
    given = int(known_scalar(position, "the position"))
    if not -length <= given <= most:
        raise ValueError(f"position {given} in a sequence of {length}")
    return given + length if given < 0 else given


def _require_sequence(value: Any) -> None:
    if not isinstance(value, SequenceValue):
        raise ValueError("its input is not a sequence")


@op("SequenceConstruct", since=11)
def sequence_construct(call: Call, *elements: Any) -> SequenceValue:
    """A sequence of the inputs."""
    return SequenceValue(elements)


@op("SequenceEmpty", since=11)
def sequence_empty(call: Call, *, dtype: int = 1) -> SequenceValue:
    """A sequence of nothing. Its type has no effect here."""
    return SequenceValue()


@op("SequenceAt", since=11, needs=(1,))
def sequence_at(call: Call, sequence: SequenceValue, position: Any) -> Any:
    """The element at a position; negative ones count from the end."""
    _require_sequence(sequence)
    return sequence[_position(position, len(sequence), most=len(sequence) - 1)]


@op("SequenceInsert", since=11, needs=(2,))
def sequence_insert(call: Call, sequence: SequenceValue, element: Any, position: Any = None) -> SequenceValue:
    """The sequence with one more element before a position, or at its end."""
    _require_sequence(sequence)
    at = len(sequence) if position is None else _position(position, len(sequence), most=len(sequence))
    return SequenceValue((*sequence[:at], element, *sequence[at:]))


@op("SequenceErase", since=11, needs=(1,))
def sequence_erase(call: Call, sequence: SequenceValue, position: Any = None) -> SequenceValue:
    """The sequence without the element at a position, or without the last."""
    _require_sequence(sequence)
    last = np.asarray(-1) if position is None else position
    at = _position(last, len(sequence), most=len(sequence) - 1)
    return SequenceValue((*sequence[:at], *sequence[at + 1 :]))


@op("SequenceLength", since=11)
def sequence_length(call: Call, sequence: SequenceValue) -> Any:
    """How many elements it has."""
    _require_sequence(sequence)
    return np.asarray(len(sequence), np.int64)


@op("SplitToSequence", since=11, needs=(1,))
def split_to_sequence(call: Call, x: Any, split: Any = None, *, axis: int = 0, keepdims: int = 1) -> SequenceValue:
    """The parts of an array along an axis: of the sizes `split`, of `split` each if it is one number, else of one."""
    if not -x.ndim <= axis < x.ndim:
        raise ValueError(f"axis {axis} of an array that has {x.ndim} axes")
    size = x.shape[axis]
    if split is None:
        return SequenceValue(_part(x, at, at + 1 if keepdims else None, axis) for at in range(size))
    ends = np.cumsum(_split_sizes(known(split, "the split"), size))
    return SequenceValue(_part(x, start, end, axis) for start, end in zip([0, *ends[:-1]], ends, strict=True))


def _split_sizes(split: Array, size: int) -> Sequence[int]:
    if split.ndim:
        if split.sum() != size or (split < 0).any():
            raise ValueError(f"the split {split.tolist()} of an axis that has {size} elements")
        return split.tolist()
    each = int(split)
    if each < 1:
        raise ValueError(f"the split {each}, which must be at least 1")
    return [min(each, size - start) for start in range(0, size, each)]


def _part(x: Any, start: int, end: int | None, axis: int) -> Any:
    """Elements along an axis; only the first one, without the axis, if there is no end."""
    return x[(slice(None),) * (axis % x.ndim) + (start if end is None else slice(start, end),)]


@op("ConcatFromSequence", since=11)
def concat_from_sequence(call: Call, sequence: SequenceValue, *, axis: int, new_axis: int = 0) -> Any:
    """The elements as one array, along an axis of theirs or a new one."""
    _require_sequence(sequence)
    if not sequence:
        raise ValueError("a sequence of nothing has no array")
    module = module_of(sequence)
    return module.stack(sequence, axis) if new_axis else module.concatenate(sequence, axis)


@op("Optional", since=15)
def optional(call: Call, element: Any = None, *, type: Any = None) -> Any:
    """The element, or an optional that has none."""
    return element


@op("OptionalHasElement", since=15)
def optional_has_element(call: Call, element: Any = None) -> Any:
    """Whether an optional has an element. Arrays and sequences count as elements."""
    return np.asarray(element is not None)


@op("OptionalGetElement", since=15)
def optional_get_element(call: Call, element: Any = None) -> Any:
    """The element of an optional. An array or a sequence is its own."""
    if element is None:
        raise ValueError("the optional has no element")
    return element
