"""Steps whose inputs and anchors come and go by functions, one microbatch after another."""

import itertools
from typing import Any

import numpy as np
import pytest

from tests.unit.popart.session.models import Arrays, Model, numbers, run, same, squares, training, weights_of
from tilestep import popart


class Host:
    """Gives microbatches and takes anchors, and notes each call."""

    def __init__(self, inputs: Arrays, shapes: dict[str, tuple[int, ...]]) -> None:
        self.calls: list[tuple[str, str]] = []
        self.taken: dict[str, list[Any]] = {}
        self._inputs = {name: iter(array) for name, array in inputs.items()}
        self._shapes = shapes

    def give(self, name: str, prefetch: bool) -> Any:
        assert not prefetch
        self.calls.append(("give", name))
        return next(self._inputs[name])

    def take(self, name: str) -> Any:
        self.calls.append(("take", name))
        self.taken.setdefault(name, []).append(np.full(self._shapes[name], np.nan, np.float32))
        return self.taken[name][-1]

    def io(self) -> popart.PyStepIOCallback:
        return popart.PyStepIOCallback(
            self.give, lambda name: self.calls.append(("given", name)), self.take, lambda name: self.calls.append(("taken", name))
        )


def host_of(model: Model, inputs: Any, *more: str) -> Host:
    shapes = {
        model.y: (2, 2),
        "w": (3, 2),
        "UpdatedVar___w": (3, 2),
        "Gradient___w": (3, 2),
        "Accl___w": (3, 2),
        model.loss: (),
        model.x: (2, 3),
    }
    return Host({model.x: inputs.reshape(-1, 2, 3)}, shapes)


@pytest.mark.few(6)
@pytest.mark.parametrize(("kind", "batches", "accumulation"), [*itertools.product(["All", "Final", "EveryN", "Sum"], [1, 3], [1, 2])])
def test_callbacks_give_what_arrays_give(kind: str, batches: int, accumulation: int) -> None:
    model, inputs = squares(), numbers(batches, accumulation)
    art = popart.AnchorReturnType(kind, batches) if kind == "EveryN" else popart.AnchorReturnType(kind)
    anchors = dict.fromkeys([model.y, "w", "UpdatedVar___w", "Gradient___w", "Accl___w", model.loss], art)
    session = training(model, anchors, batches=batches, accumulation=accumulation)
    expected, weights = run(session, {model.x: inputs}), weights_of(session, "w")
    session.weightsFromHost()
    host = host_of(model, inputs)
    session.run(host.io())
    assert set(host.taken) == set(anchors)
    for name, arrays in host.taken.items():
        np.testing.assert_allclose(np.array(arrays).reshape(expected[name].shape), expected[name], rtol=1e-6)
    same(weights_of(session, "w")["w"], weights["w"])


class Stop(Exception):
    """Of a test."""


@pytest.mark.slow
def test_a_step_that_fails_half_way_leaves_weights_and_accumulators_as_they_were() -> None:
    model, inputs = squares(), numbers(2, 2)
    session = training(model, {"w": "Final", "Accl___w": "All"}, batches=2, accumulation=2)
    expected = run(training(model, {"w": "Final", "Accl___w": "All"}, batches=2, accumulation=2), {model.x: inputs})
    left = iter(inputs.reshape(4, 2, 3)[:3])

    def give(_name: str, _prefetch: bool) -> Any:
        try:
            return next(left)
        except StopIteration:
            raise Stop from None

    spare = np.zeros((3, 2), np.float32)
    with pytest.raises(Stop):
        session.run(popart.PyStepIOCallback(give, lambda _name: None, lambda _name: spare, lambda _name: None))
    found = run(session, {model.x: inputs})
    for name, value in expected.items():
        same(found[name], value)


def test_with_synthetic_data_no_function_is_called() -> None:
    model = squares()
    session = training(model, {model.y: "All"}, batches=2, syntheticDataMode=popart.SyntheticDataMode.RandomNormal)

    def never(*_: Any) -> None:
        raise Stop

    session.run(popart.PyStepIOCallback(never, never, never, never))


def test_a_function_that_gives_nothing_or_too_much_is_an_error() -> None:
    model = squares()
    session = training(model, {model.y: "All"})

    def step(array: Any) -> None:
        session.run(popart.PyStepIOCallback(lambda _name, _prefetch: array, lambda _name: None, lambda _name: None, lambda _name: None))

    with pytest.raises(popart.popart_runtime_error, match=r"^The input callback gave no array for tensor 'input' though"):
        step(None)
    with pytest.raises(popart.popart_runtime_error, match="Expected 6, but received 7"):
        step(np.zeros(7, np.float32))
    with pytest.raises(popart.popart_runtime_error, match=r"^Type discrepancy for tensor input"):
        step(np.zeros(6, np.float64))
    with pytest.raises(popart.popart_exception, match="not c-contiguous"):
        step(np.zeros((3, 2), np.float32).T)
    with pytest.raises(TypeError, match="the output of tensor 'MatMul:0' is a NoneType"):
        step(np.zeros(6, np.float32))
