"""Random programs give on `ipu` the bits that they give on CPU."""

from typing import Any

import jax
import numpy as np
import pytest

from tests.behaviour.random_programs import arguments, program


def bits(device: jax.Device, seed: int) -> Any:
    """Dtype, shape and bytes of each result. Every NaN is the same."""

    def of(leaf: Any) -> tuple[str, tuple[int, ...], bytes]:
        array = np.array(leaf)
        if array.dtype.kind == "f":
            array[np.isnan(array)] = np.nan
        return str(array.dtype), array.shape, array.tobytes()

    results = jax.jit(program(seed))(*jax.device_put(arguments(seed), device))
    assert {leaf.device for leaf in jax.tree.leaves(results)} == {device}
    return [of(leaf) for leaf in jax.tree.leaves(results)]


@pytest.mark.few(2)
@pytest.mark.parametrize("seed", [*range(3), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(3, 53))])
def test_a_random_program_gives_the_bits_that_it_gives_on_cpu(seed: int, ipu: jax.Device, cpu: jax.Device) -> None:
    on_ipu = bits(ipu, seed)
    assert len(on_ipu) > 5
    assert on_ipu == bits(cpu, seed)


def test_equal_seeds_make_equal_programs_and_others_make_others() -> None:
    first, again, other = (str(jax.make_jaxpr(program(seed))(*arguments(0))) for seed in (3, 3, 4))
    assert first == again
    assert first != other
