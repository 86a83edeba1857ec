"""Options of the planner: checked everywhere, in effect on emulated IPUs."""

import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tilestep
from tilestep.errors import SettingsError
from tilestep.train import Pipeline, repeat, select_devices, while_loop
from tilestep.train.planned import plan_options_of, plan_options_of_devices

HALF = {"partials_type": "half"}
WIDTH = 128


def dense(w: Any, x: Any) -> Any:
    return jnp.tanh(x @ w)


def loss(w: Any, x: Any) -> Any:
    return (dense(w, x).astype(jnp.float32) ** 2).mean()


def compute_cycles(profile: Any) -> dict[int, int]:
    """Cycles of compute by IPU."""
    found: dict[int, int] = {}
    for event in profile.timeline:
        if event.kind == "compute":
            found[event.ipu] = found.get(event.ipu, 0) + event.end_cycle - event.start_cycle
    return found


def test_names_go_with_and_without_their_prefix() -> None:
    wanted = (("ipu_available_memory_proportion", 0.2), ("ipu_partials_type", "half"))
    assert plan_options_of({"partials_type": "half", "ipu_available_memory_proportion": "0.2"}) == wanted
    assert plan_options_of({"num_io_tiles": np.int64(32), "allow_out_of_memory": "true"}) == (
        ("ipu_allow_out_of_memory", True),
        ("ipu_num_io_tiles", 32),
    )
    assert plan_options_of(None) == plan_options_of({}) == ()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"partial_type": "half"}, r"plan_options: option 'ipu_partial_type' does not exist; the nearest that does is 'ipu_partials_type'"),
        ({"partials_type": "quarter"}, "plan_options: ipu_partials_type is 'quarter': it must be 'float' or 'half'"),
        ({"available_memory_proportion": 1.5}, "ipu_available_memory_proportion is 1.5: it must be more than 0 and at most 1"),
        ({"partials_type": "half", "ipu_partials_type": "half"}, "plan_options has ipu_partials_type twice"),
        ([{}, HALF], "plan_options has 2 entries, but a replica has 3 devices"),
        ([{}, {}, {"weight_load_bits": 32}], r"plan_options\[2\]: ipu_weight_load_bits is 32: it must be 64 or 128"),
    ],
)
def test_wrong_options_are_refused_on_any_platform(given: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Pipeline([dense, dense, loss], devices=jax.devices("cpu") * 3, plan_options=given)
    if isinstance(given, dict):
        with pytest.raises(SettingsError, match=message):
            repeat(1, lambda carry: carry, 1.0, plan_options=given)


@pytest.mark.parametrize("given", ["half", 3, [HALF, 3, None], [HALF, {1: 2}, None], {"partials_type": ["half"]}])
def test_what_is_no_mapping_is_refused(given: Any) -> None:
    with pytest.raises(TypeError, match=r"plan_options.* must be a "):
        Pipeline([dense, dense, loss], devices=jax.devices("cpu") * 3, plan_options=given)


def test_a_list_goes_with_indices_only() -> None:
    with pytest.raises(ValueError, match="device_mapping has a mesh, whose devices have no index: give one mapping"):
        plan_options_of_devices([HALF, None], None)
    assert plan_options_of_devices(HALF, None) == [plan_options_of(HALF)]
    message = re.escape("plan_options[0] and plan_options[1] differ, but a stage is on both devices")
    with pytest.raises(ValueError, match=message):
        Pipeline([loss], devices=select_devices(2, platform="ipu"), device_mapping=[(0, 1)], plan_options=[HALF, None])


@pytest.mark.parametrize("options", [{"num_io_tiles": 1472}, [None, None, {"num_io_tiles": 2000}]])
def test_io_tiles_that_leave_none_to_compute_are_refused_with_the_pipeline(options: Any) -> None:
    message = r"^plan_options: ipu_num_io_tiles is (1,472|2,000): it must be less than the 1,472 tiles of an IPU$"
    with pytest.raises(SettingsError, match=message):
        Pipeline([dense, dense, loss], devices=select_devices(3, platform="ipu"), plan_options=options)
    Pipeline([dense, dense, loss], devices=jax.devices("cpu") * 3, plan_options=options, strict=False)  # which has no tiles


@pytest.mark.slow
@pytest.mark.parametrize("platform", ["ipu", "cpu"])
def test_loops_take_options(platform: str) -> None:
    def body(carry: Any) -> Any:
        return jnp.tanh(carry @ carry)

    def run(options: Any, *, is_while: bool) -> Any:
        carry = jax.device_put(np.full((WIDTH, WIDTH), 0.01, np.float16), jax.devices(platform)[0])
        with tilestep.profile() as profile:
            if is_while:
                result = while_loop(lambda _: True, body, carry, maximum_iterations=3, plan_options=options)
            else:
                result = repeat(3, body, carry, plan_options=options)
            result.block_until_ready()
        return np.asarray(result), compute_cycles(profile).get(0, 0)

    for is_while in (False, True):
        (plain, cycles), (half, fewer) = run(None, is_while=is_while), run(HALF, is_while=is_while)
        np.testing.assert_array_equal(plain, half)
        assert fewer < cycles if platform == "ipu" else fewer == cycles == 0
