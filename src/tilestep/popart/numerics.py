"""NumericsReport: whether two ways of training changed the weights of a model alike."""

from pathlib import Path
from typing import Final, final

import numpy as np

from tilestep.messages import shown
from tilestep.onnx.interpreter.values import Array
from tilestep.onnx.reading.load import load
from tilestep.popart.exceptions import popart_exception

_FLOOR: Final = 1e-8  # added to |dA||dB|, so that two models that never changed differ by 0

Arrays = dict[str, Array]


@final
class NumericsReport:
    """Compares how the initialisers of two pairs of models changed.

    With dA and dB the changes of one initialiser, its relative error is |dA - dB|^2 / (|dA| |dB| + 1e-8). Integers are left out.

    Args: A0, A1, B0, B1: paths of ONNX models: the first of pair A, its last, the first of pair B, its last.
    Raises: popart_exception if a file is none, or the models' initialisers differ in number, name, type or shape.
    """

    def __init__(self, A0: str, A1: str, B0: str, B1: str) -> None:
        models = [_initializers(path) for path in (A0, A1, B0, B1)]
        _require_alike(models)
        self._errors: dict[str, float] = {}
        self._reports: dict[str, str] = {}
        for name, start in models[0].items():
            if start.dtype.kind in "iub":
                continue
            a0, a1, b0, b1 = (model[name].astype(np.float64) for model in models)
            change_a, change_b = a1 - a0, b1 - b0
            size_a, size_b = float(np.linalg.norm(change_a)), float(np.linalg.norm(change_b))
            error = float(np.sum((change_a - change_b) ** 2)) / (size_a * size_b + _FLOOR)
            self._errors[name] = error
            self._reports[name] = (
                f"|dA - dB|^2 / (|dA||dB| + 1e-8)  = {error:.16g}  and  |dA||dB| = {size_a * size_b:.16g}  "
                f"and  |dA| = {size_a:.16g}  and  |dB| = {size_b:.16g}"
            )

    def report(self, id: str) -> str:
        """The comparison of one initialiser. Raises: popart_exception if there is none of that name."""
        if id not in self._reports:
            raise popart_exception(f"No report available for {id}. There is one for {', '.join(self._reports) or 'nothing'}.")
        return self._reports[id]

    def fullReport(self) -> str:
        """The comparison of all initialisers."""
        return "".join(f"\n{name} : \n{text}" for name, text in sorted(self._reports.items()))

    def getRelativeErrors(self) -> dict[str, float]:
        """Name -> relative error."""
        return dict(self._errors)


def _initializers(path: str) -> Arrays:
    if not Path(path).is_file():
        raise popart_exception(f"{shown(path)} is not a regular file: NumericsReport takes paths of ONNX models")
    return dict(load(Path(path)).initializers)


def _require_alike(models: list[Arrays]) -> None:
    first = models[0]
    if any(len(model) != len(first) for model in models):
        raise popart_exception(f"GraphProtos have different number of initializers: {', '.join(str(len(model)) for model in models)}")
    for model in models:
        if list(model) != list(first):
            names = sorted(set(model) ^ set(first)) or list(model)
            raise popart_exception(f"Tensor names do not correspond between TensorProtos: {', '.join(names)}")
        for name, array in model.items():
            if (array.dtype, array.shape) != (first[name].dtype, first[name].shape):
                raise popart_exception(
                    f"TensorProto infos differ: {name} is {array.dtype}{list(array.shape)} in one model, "
                    f"{first[name].dtype}{list(first[name].shape)} in another"
                )
