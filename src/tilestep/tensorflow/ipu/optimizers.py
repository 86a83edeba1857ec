"""`tensorflow.python.ipu.optimizers`: optimisers that combine the gradients of replicas, or of several steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilestep.tensorflow import markers
from tilestep.tensorflow.untyped import Operation, Tensor, tf, v1

GradientsAndVariables = Sequence[tuple[Tensor | None, Any]]


class _Wrapping(v1.train.Optimizer):
    """An optimiser around another one, whose gradients and slots are the latter's."""

    def __init__(self, opt: Any, name: str) -> None:
        super().__init__(False, name)
        self._opt = opt

    def compute_gradients(self, *arguments: Any, **options: Any) -> GradientsAndVariables:
        return self._opt.compute_gradients(*arguments, **options)

    def apply_gradients(self, grads_and_vars: GradientsAndVariables, global_step: Any = None, name: str | None = None) -> Operation:
        return self._opt.apply_gradients(grads_and_vars, global_step, name)

    def get_slot(self, *arguments: Any, **options: Any) -> Any:
        return self._opt.get_slot(*arguments, **options)

    def get_slot_names(self, *arguments: Any, **options: Any) -> Any:
        return self._opt.get_slot_names(*arguments, **options)

    def variables(self) -> Any:
        return self._opt.variables()


class CrossReplicaOptimizer(_Wrapping):
    """Updates with the mean over replicas of the gradients, so that all replicas do the same update. Args: opt: of `tf.train`."""

    def __init__(self, opt: Any, name: str = "CrossReplicaOptimizer") -> None:
        super().__init__(opt, name)

    def apply_gradients(self, grads_and_vars: GradientsAndVariables, global_step: Any = None, name: str | None = None) -> Operation:
        combined = [
            (None if gradient is None else markers.collective("mean", tf.convert_to_tensor(gradient)), variable)
            for gradient, variable in grads_and_vars
        ]
        return self._opt.apply_gradients(combined, global_step, name)
