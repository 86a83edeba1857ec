"""ONNX's operators where PopART gives them a meaning of its own. Sessions see these; the importer does not."""

from __future__ import annotations

from typing import Any, Final

from tilestep.onnx.interpret import Call
from tilestep.onnx.registry import op
from tilestep.onnx.values import is_known, module_of
from tilestep.popart.ops.batch_norm import batch_norm
from tilestep.popart.ops.checks import DIALECT
from tilestep.popart.ops.gradients import magnitude, rounded

_MEAN, _VARIANCE = 3, 4  # positions of a batch norm's running statistics
_STEPS: Final = {"Ceil": "ceil", "Floor": "floor", "Sign": "sign"}  # ONNX's name -> NumPy's


def _step(name: str, function: str) -> None:
    @op(name, dialect=DIALECT)
    def handler(call: Call, x: Any, *, consumed_inputs: Any = None) -> Any:
        return rounded(x, getattr(module_of(x), function)(x))

    handler.__doc__ = f"NumPy's `{function}` of each element. Its gradient is 0."


for _name, _function in _STEPS.items():
    _step(_name, _function)


@op("Abs", dialect=DIALECT)
def absolute(call: Call, x: Any, *, consumed_inputs: Any = None) -> Any:
    """|x|. Its gradient at 0 is 0."""
    return abs(x) if is_known(x) else magnitude(x)


@op("BatchNormalization", dialect=DIALECT, state=(_MEAN, _VARIANCE))
def batch_norm_by_outputs(
    call: Call,
    x: Any,
    scale: Any,
    bias: Any,
    mean: Any,
    variance: Any,
    *,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
    spatial: int = 1,
    consumed_inputs: Any = None,
    is_test: int = 0,
) -> Any:
    """Batch norm of [N, C, D1, ...], in training if the node names more outputs than the first."""
    return batch_norm(call, (x, scale, bias, mean, variance), epsilon=epsilon, momentum=momentum, spatial=bool(spatial), unbiased=False)
