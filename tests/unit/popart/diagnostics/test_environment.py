"""PopART's environment variables."""

from pathlib import Path

import pytest

from tests.together import each
from tilestep.errors import SettingsError
from tilestep.popart.diagnostics.environment import NO_EFFECT, read_environment


@each("variable", NO_EFFECT)
def test_a_variable_without_effect_has_a_note(variable: str) -> None:
    assert read_environment({variable: "1"}).notes == (f"Variable {variable} has no effect: {NO_EFFECT[variable]}.",)


def test_an_unknown_variable_has_a_note_with_the_nearest() -> None:
    assert read_environment({"POPART_LOGLEVEL": "INFO"}).notes == (
        "Variable POPART_LOGLEVEL does not exist; the nearest that does is POPART_LOG_LEVEL.",
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[", "it must be the path of a JSON file"),
        ("[1]", "must hold a JSON object of parts and levels"),
        ('{"ir": "LOUD"}', "has 'LOUD': a level must be one of TRACE"),
        ('{"ir": 3}', "has 3: a level must be one of TRACE"),
    ],
)
def test_a_bad_file_of_levels(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "levels.json"
    path.write_text(text)
    with pytest.raises(SettingsError, match=f"^POPART_LOG_CONFIG.*{message}"):
        read_environment({"POPART_LOG_CONFIG": str(path)})


def test_bad_levels_and_missing_files() -> None:
    with pytest.raises(SettingsError, match=r"^POPART_LOG_LEVEL has 'info': a level must be one of TRACE, DEBUG, INFO"):
        read_environment({"POPART_LOG_LEVEL": "info"})
    with pytest.raises(SettingsError, match=r"^POPART_LOG_CONFIG is '/nowhere': it must be the path of a JSON file"):
        read_environment({"POPART_LOG_CONFIG": "/nowhere"})
