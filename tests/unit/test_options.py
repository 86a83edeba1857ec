"""Options of a plan: what is allowed, and what the message says of what is not."""

import pytest

from tilestep.errors import SettingsError
from tilestep.options import PlanOptions


def test_strings_and_numbers_mean_the_same() -> None:
    as_text = PlanOptions().changed({"ipu_available_memory_proportion": "0.3", "ipu_num_io_tiles": "32", "ipu_weight_load_bits": "128"})
    as_numbers = PlanOptions().changed({"ipu_available_memory_proportion": 0.3, "ipu_num_io_tiles": 32.0, "ipu_weight_load_bits": 128})
    assert as_text == as_numbers == PlanOptions(available_memory_proportion=0.3, num_io_tiles=32, weight_load_bits=128)


def test_what_is_not_given_stays() -> None:
    assert PlanOptions(partials_type="half").changed({"ipu_num_io_tiles": 1}) == PlanOptions(partials_type="half", num_io_tiles=1)


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("ipu_partials_type", "bfloat16", "'float' or 'half'"),
        ("ipu_available_memory_proportion", 0, "more than 0 and at most 1"),
        ("ipu_available_memory_proportion", "much", "a number"),
        ("ipu_num_io_tiles", -1, "0 to 99,999"),
        ("ipu_num_io_tiles", 1.5, "a whole number"),
        ("ipu_num_io_tiles", True, "a whole number"),
        ("ipu_weight_load_bits", 96, "64 or 128"),
        ("ipu_fusion", "all", "'clusters' or 'none'"),
        ("ipu_fusion", True, "'clusters' or 'none'"),
        ("ipu_partial_type", "half", "the nearest that does is 'ipu_partials_type'"),
    ],
)
def test_a_bad_option_names_itself_its_value_and_what_is_allowed(name: str, value: object, says: str) -> None:
    with pytest.raises(SettingsError, match=says) as caught:
        PlanOptions().changed({name: value})
    assert name in str(caught.value)


@pytest.mark.parametrize(("value", "allowed"), [(True, True), ("true", True), (1, True), (False, False), ("False", False), ("0", False)])
def test_running_out_of_memory_is_allowed_by_a_truth_value_or_its_name(value: object, allowed: bool) -> None:
    assert PlanOptions().changed({"ipu_allow_out_of_memory": value}).allow_out_of_memory is allowed


def test_another_value_does_not_say_whether_it_is_allowed() -> None:
    with pytest.raises(SettingsError, match="ipu_allow_out_of_memory is 'perhaps': it must be true or false"):
        PlanOptions().changed({"ipu_allow_out_of_memory": "perhaps"})
