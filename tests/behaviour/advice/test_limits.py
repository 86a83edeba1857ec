"""What is said of programs on the whole."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas
from jax.experimental.pallas.tpu import InterpretParams

from tests.behaviour.advice.fault import dry, of_kind, profiled
from tilestep.train import repeat
from tilestep.views.profile import Profile


def told(profile: Profile) -> str:
    return "\n".join(finding.text for finding in profile.findings)


@pytest.mark.slow
def test_a_loop_is_named_by_its_group() -> None:
    def program(steps: int) -> Profile:
        return dry(lambda: repeat(steps, lambda w: jnp.tanh(w @ w), np.ones((64, 64), np.float32)))

    few, many = program(100), program(100_000)
    assert few.steady is not None
    assert (few.steady.label, few.steady.steps) == ("the loop over lambda", 100)
    [found] = of_kind(few, "set-up")
    assert "Once warm, a step of the loop over lambda takes" in found.text
    assert of_kind(many, "fixed") == of_kind(many, "set-up") == []


def test_a_kernel_of_pallas_that_is_interpreted_is_told_as_such_and_limits_nothing() -> None:
    def kernel(x: Any, out: Any) -> None:
        out[...] = x[...] * 2

    def program(interpret: Any) -> Callable[[], Any]:
        shape = jax.ShapeDtypeStruct((8, 128), jnp.float32)
        doubled = jax.jit(lambda x: pallas.pallas_call(kernel, out_shape=shape, interpret=interpret)(x))
        return lambda: [doubled(np.full((8, 128), number, np.float32)) for number in range(6)]

    found, plain = profiled(program(InterpretParams())), profiled(program(True))
    [told_so] = of_kind(found, "fallback")
    assert told_so.text.startswith("jit__lambda interprets a Pallas kernel at test_limits.py:")
    assert told_so.text.endswith("are an interpreter's, and no kernel's on an IPU.")
    assert of_kind(found, "limit") == []
    assert "Pallas" not in told(plain)
