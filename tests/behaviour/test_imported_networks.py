"""Networks that are imported from ONNX take the emulated time of the same networks written by hand."""

import jax
import pytest

from benchmarks.onnx_import import cycles, programs
from benchmarks.onnx_models import cases


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
