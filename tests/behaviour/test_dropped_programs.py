"""Programs that are compiled, run and dropped leave nothing on platform `ipu`."""

import gc
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import tilestep
from tilestep.pjrt.running.timeline import current_player
from tilestep.train import repeat

PROGRAMS = 12


def emulated_programs() -> int:
    """How many programs the emulated machine knows."""
    player = current_player()
    assert player is not None
    gc.collect()
    player.mark()
    return len(player.system.programs)


def run_and_drop(x: Any, name: str = "dropped") -> None:
    """A program that nobody has later. All of one name have one plan, of which a machine keeps 256."""

    def function(x: Any) -> Any:
        return jnp.tanh(x).sum()

    function.__name__ = name
    float(jax.jit(function)(x))


def test_a_program_that_is_dropped_leaves_no_object(ipu: jax.Device) -> None:
    x = jax.device_put(np.ones((4, 4), np.float32), ipu)

    def objects_after() -> int:
        for _ in range(PROGRAMS):
            run_and_drop(x)
        emulated_programs()
        return sum(str(type(found).__module__).startswith("tilestep.") for found in gc.get_objects())

    first, second = (objects_after() for _ in range(2))  # in one line, because a plan has the lines of its program's callers
    assert second - first < PROGRAMS  # a program that stays has a dozen


def test_the_machine_forgets_programs_and_the_groups_of_loops(ipu: jax.Device) -> None:
    def loop(number: int) -> None:
        repeat(4, lambda x: x + number, jax.device_put(np.float32(0), ipu), chunk=2)

    loop(0)
    before = emulated_programs()
    for number in range(1, 4):
        loop(number)
    assert emulated_programs() <= before


def test_a_profile_has_the_programs_that_were_dropped_meanwhile(ipu: jax.Device) -> None:
    x = jax.device_put(np.ones((4, 4), np.float32), ipu)
    with tilestep.profile() as profile:
        for number in range(3):
            run_and_drop(x, f"dropped_{number}")
            emulated_programs()
    assert [program.name for program in profile.programs] == [f"jit_dropped_{number}" for number in range(3)]
