"""What a row of a sweep says of a program."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tilestep
from tilestep.cli.sweep.setting import measured_of


@pytest.mark.parametrize(("streams", "limit"), [(False, "waits, loads and other programs"), (True, "host link")])
def test_what_limits_is_a_part_of_the_whole_step(streams: bool, limit: str) -> None:
    """A short program whose values stay on the IPU waits for the host's next call."""
    step = jax.jit(lambda x: jnp.tanh(x) + 1, donate_argnums=0)
    with tilestep.profile() as recording, jax.default_device(jax.devices("ipu")[0]):
        x = jax.device_put(np.zeros(1024, np.float32))
        for number in range(600):  # a load takes as long as two hundred calls
            x = step(np.full(1 << 18, number, np.float32) if streams else x)
        jax.block_until_ready(x)
    assert measured_of(recording.profile, "").limit.startswith(f"{limit} "), recording.profile.summary()


def test_steps_that_load_their_programs_anew_are_limited_by_that() -> None:
    """No step is warm where an operation outside of jit takes the place of each run's program."""
    step = jax.jit(lambda x: jnp.tanh(x) + 1, donate_argnums=0)
    with tilestep.profile() as recording, jax.default_device(jax.devices("ipu")[0]):
        x = jax.device_put(np.zeros(1024, np.float32))
        for _ in range(6):
            x = step(x * 2)
        jax.block_until_ready(x)
    assert recording.profile.steady is None
    assert measured_of(recording.profile, "").limit.startswith("loading programs "), recording.profile.summary()


def test_a_program_that_is_loaded_once_is_not_limited_by_that() -> None:
    """It runs too seldom to have a warm step; further runs would not load it."""
    with tilestep.profile() as recording, jax.default_device(jax.devices("ipu")[0]):
        jax.block_until_ready(jax.jit(jnp.tanh)(np.zeros(1024, np.float32)))
    assert recording.profile.steady is None
    assert measured_of(recording.profile, "").limit.startswith("waiting "), recording.profile.summary()
