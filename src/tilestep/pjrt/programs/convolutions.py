"""Convolutions within loops and functions, written as XLA:CPU computes them quickly.

XLA:CPU has quick kernels for convolutions whose channels are last. Its pass conv-canonicalization writes others so, but only outside of
loops and branches. There a convolution with channels first, and most gradients of one, can take ten times as long. This file writes
those as the pass would, for the program that computes the values. The plan is made of the program as it was.
`tilestep.train.convolutions` does the same for programs of the CPU's own platform.
"""

from collections.abc import Sequence
from typing import Any, Final

from tilestep.pjrt.jax_private.mlir import entries, hlo, ir, walk

_CONVOLUTION: Final = "stablehlo.convolution"
_QUICK_DTYPES: Final = frozenset({"f16", "f32"})
_MOST_WINDOW_DIMENSIONS: Final = 3
_SHARDINGS: Final = ("mhlo.sharding", "sdy.sharding")
_NUMBERS: Final = "dimension_numbers"
_GROUPS: Final = "batch_group_count"
_REVERSAL: Final = "window_reversal"


def quicken_convolutions(module: Any) -> int:
    """Writes slow convolutions within loops, branches and called functions with their channels last. Returns: how many."""
    found: list[Any] = []

    def visit(operation: Any) -> None:
        if operation.name == _CONVOLUTION and not _is_in_main(operation) and _is_slow(operation):
            found.append(operation)

    walk(module, visit)
    for operation in found:
        _put_channels_last(operation)
    return len(found)


def _is_in_main(operation: Any) -> bool:
    """Whether the pass sees a convolution by itself."""
    parent = operation.parent
    return parent.name == "func.func" and ir.StringAttr(parent.attributes["sym_name"]).value == "main"


def _orders(operation: Any) -> tuple[list[int], list[int], list[int]]:
    """The dimensions of both operands and of the result, in the order of the quick kernels."""
    numbers = hlo.ConvDimensionNumbers(operation.attributes[_NUMBERS])
    return (
        [numbers.input_batch_dimension, *numbers.input_spatial_dimensions, numbers.input_feature_dimension],
        [*numbers.kernel_spatial_dimensions, numbers.kernel_input_feature_dimension, numbers.kernel_output_feature_dimension],
        [numbers.output_batch_dimension, *numbers.output_spatial_dimensions, numbers.output_feature_dimension],
    )


def _is_slow(operation: Any) -> bool:
    types = [ir.RankedTensorType(value.type) for value in (*operation.operands, *operation.results)]
    attributes = operation.attributes
    return (
        0 < types[0].rank - 2 <= _MOST_WINDOW_DIMENSIONS
        and all(str(kind.element_type) in _QUICK_DTYPES and kind.has_static_shape for kind in types)
        and (_GROUPS not in attributes or ir.IntegerAttr(attributes[_GROUPS]).value == 1)
        and (_REVERSAL not in attributes or not any(ir.DenseBoolArrayAttr(attributes[_REVERSAL])))
        and not any(name in attributes for name in _SHARDINGS)
        and any(order != sorted(order) for order in _orders(operation))
    )


def _put_channels_last(operation: Any) -> None:
    data, kernel, result = _orders(operation)
    last, window = len(data) - 1, list(range(1, len(data) - 1))
    numbers = hlo.ConvDimensionNumbers.get(0, last, window, last - 1, last, list(range(last - 1)), 0, last, window)
    kind = ir.RankedTensorType(operation.results[0].type)
    with ir.InsertionPoint(operation), operation.location:
        new = ir.Operation.create(
            _CONVOLUTION,
            results=[ir.RankedTensorType.get([kind.shape[dimension] for dimension in result], kind.element_type)],
            operands=[_transposed(operand, order) for operand, order in zip(operation.operands, (data, kernel), strict=True)],
            attributes={**entries(operation.attributes), _NUMBERS: numbers},
        )
        value = _transposed(new.results[0], [result.index(dimension) for dimension in range(len(result))])
    operation.results[0].replace_all_uses_with(value)
    operation.erase()


def _transposed(value: Any, order: Sequence[int]) -> Any:
    return value if list(order) == sorted(order) else hlo.transpose(value, ir.DenseI64ArrayAttr.get(list(order)))
