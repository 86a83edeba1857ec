"""Options of Poplar's libraries are checked by name, and those of operators reach their nodes."""

import pytest

from tests.together import each
from tilestep.popart.exceptions import poplar_exception
from tilestep.popart.options import SessionOptions, require_known, tuning_of
from tilestep.popart.options.libraries import KNOWN


def test_engine_options_are_read(options: SessionOptions) -> None:
    options.engineOptions = {"debug.allowOutOfMemory": "true", "autoReport.all": "true", "debug.instrument": "true"}
    engine = require_known(options)
    assert (engine.allow_out_of_memory, engine.graph_profile) == (True, True)
    assert engine.notes == ("Engine option debug.instrument has no effect: cycles are exact without counters in the program.",)
    assert not require_known(SessionOptions()).of_programs


@each("name", ["engineOptions", *KNOWN])
def test_an_unknown_option_ends_with_the_originals_words(name: str) -> None:
    options = SessionOptions()
    setattr(options, name, {"option": "value"})
    with pytest.raises(poplar_exception, match=f"^SessionOptions.{name}: .*Unrecognised option 'option'$"):
        require_known(options)


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        (
            "engineOptions",
            {"autoReport.all": "perhaps"},
            "SessionOptions.engineOptions: autoReport.all is 'perhaps': it must be \"true\" or",
        ),
        ("convolutionOptions", {"partialsType": "int"}, "'partialsType'] is 'int': it must be half or float"),
        ("matmulOptions", {"availableMemoryProportion": "2"}, "'availableMemoryProportion'] is '2': it must be a number more than 0"),
        ("lstmOptions", {"availableMemoryProportion": "much"}, "'availableMemoryProportion'] is 'much': it must be a number"),
    ],
)
def test_a_bad_value_is_an_error(options: SessionOptions, name: str, given: dict[str, str], message: str) -> None:
    setattr(options, name, given)
    with pytest.raises(poplar_exception) as caught:
        require_known(options)
    assert message in str(caught.value)


def test_operators_get_the_attributes_of_their_library(options: SessionOptions) -> None:
    options.convolutionOptions = {"partialsType": "half", "availableMemoryProportion": "0.3", "pass": "TRAINING_FWD"}
    options.lstmOptions = {"partialsType": "float"}
    assert tuning_of(options, "Conv") == {"__partials_type": "half", "__available_memory": 0.3}
    assert tuning_of(options, "LSTM") == {"__partials_type": "float"}
    assert tuning_of(options, "MatMul") == tuning_of(options, "Relu") == {}


def test_the_partials_of_matmuls_have_an_option_of_their_own(options: SessionOptions) -> None:
    options.matmulOptions = {"partialsType": "float", "availableMemoryProportion": "0.5"}
    options.partialsTypeMatMuls = "HALF"
    assert tuning_of(options, "MatMul") == {"__partials_type": "half", "__available_memory": 0.5}
    assert tuning_of(options, "Conv") == {}
