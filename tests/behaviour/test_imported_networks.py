"""Networks that are imported from ONNX take the emulated time of the same networks written by hand."""

import jax
import pytest

from benchmarks.onnx_import import cycles, programs
from benchmarks.onnx_models import cases
from tests.in_turn import python

FOLDED = """
import jax, numpy as np, tilestep
from tests.unit.onnx.models import model
from tilestep.onnx import import_onnx
jax.config.update("jax_platforms", "ipu,cpu")
found = import_onnx(model(
    "(float[4] x) => (float[4] y) { k = Constant <value_floats = [1.0, 3.0]> ()  m = ReduceMean <keepdims = 0> (k)  y = Add(x, m) }"
))
@jax.jit
def step(x):
    return found.fn(found.params, x)
with tilestep.profile() as recording:
    [y] = step(np.ones(4, np.float32))
    print(*np.asarray(y), jax.devices()[0].platform)
print([program.name for program in recording.profile.programs])
"""


@pytest.mark.slow
@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("name", list(cases.SMALL))
def test_emulated_cycles_are_those_by_hand(name: str, frozen: bool, ipu: jax.Device) -> None:
    both = programs(cases.SMALL[name](), frozen=frozen)
    ours, again, theirs = (cycles(*both[which]) for which in ("imported", "imported", "by_hand"))
    assert ours == again
    assert ours <= 1.03 * theirs
    if not frozen:  # frozen, three products of BERT become one
        assert ours >= 0.97 * theirs


def test_what_is_known_before_is_computed_on_the_cpu_and_takes_no_emulated_time() -> None:
    assert python(FOLDED).stdout.splitlines() == ["3.0 3.0 3.0 3.0 ipu", "['jit_step']"]
