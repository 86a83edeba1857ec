"""PVTI_OPTIONS: what each value asks for, and what is told of a value that cannot be read."""

import json

import pytest

from tests.together import each
from tilestep.settings import trace_options
from tilestep.tracing.options import TraceOptions, parse_trace_options

DEFAULTS = TraceOptions()


@each(
    "text, options",
    [
        ("{}", DEFAULTS),
        ('{"enable":"true", "directory":"./reports"}', TraceOptions(directory="./reports")),
        ('{"enable": true}', DEFAULTS),
        ('{"enable": "True"}', DEFAULTS),
        ('{"enable": null}', DEFAULTS),
        ('{"enable": "false"}', TraceOptions(enable=False)),
        ('{"enable": false}', TraceOptions(enable=False)),
        ('{"channels": []}', DEFAULTS),
        ('{"channels": ["Framework", " POPLAR "]}', TraceOptions(channels=("framework", "poplar"))),
        ('{"channels": "Framework"}', TraceOptions(channels=("framework",))),
        ('{"duration": 0}', DEFAULTS),
        ('{"duration": 2.5}', TraceOptions(duration_wall_s=2.5)),
        ('{"duration": "10"}', TraceOptions(duration_wall_s=10.0)),
    ],
)
def test_a_good_value_is_taken_as_it_is(text: str, options: TraceOptions) -> None:
    assert parse_trace_options(text) == (options, ())


@pytest.mark.parametrize(
    "text", ["garbage", "true", "[1]", '"on"', "{", "[" * 100_000, "\0", '{"enable": ' + "9" * 5000 + "}", "null", "1"]
)
def test_what_is_no_object_traces_with_all_defaults_and_says_so_in_one_line(text: str) -> None:
    options, (line,) = parse_trace_options(text)
    assert options == DEFAULTS
    assert line.startswith("PVTI_OPTIONS is ")
    assert line.endswith("this process is traced with all defaults")
    assert line.isprintable()
    assert len(line) < 600


@each(
    "found, told",
    [
        ({"enable": 1}, "enable is 1: it must be true or false; it counts as true"),
        ({"enable": "off"}, "enable is 'off': it must be true or false"),
        ({"directory": ""}, "directory is '': it must be the path of a directory; it counts as the working directory"),
        ({"directory": "a\0b"}, "directory is 'a\\x00b'"),
        ({"directory": "\udc80\ud800"}, "directory is"),
        ({"directory": 3}, "directory is 3"),
        ({"channels": [1]}, "channels is [1]: it must be a list of names; it counts as all channels"),
        ({"channels": [""]}, "channels is ['']"),
        ({"channels": {"Poplar": True}}, "channels is {'Poplar': True}"),
        ({"duration": -1}, "duration is -1: it must be a number of seconds, 0 (without end) to 1e+09; it counts as 0"),
        ({"duration": True}, "duration is True"),
        ({"duration": "soon"}, "duration is 'soon'"),
        ({"duration": float("nan")}, "duration is nan"),
        ({"duration": float("inf")}, "duration is inf"),
        ({"duration": 10**400}, "duration is a whole number of 1,329 bits"),
    ],
)
def test_a_bad_member_counts_as_its_default_and_is_told(found: dict[str, object], told: str) -> None:
    options, (line,) = parse_trace_options(json.dumps(found))
    assert options == DEFAULTS
    assert line.startswith("PVTI_OPTIONS: ")
    assert told in line
    assert line.isprintable()


def test_an_unknown_member_is_told_with_the_nearest_known_one_and_the_others_count() -> None:
    options, (line,) = parse_trace_options('{"dir": "a", "direktory": "a", "duration": 3}'.replace('"dir": "a", ', ""))
    assert options == TraceOptions(duration_wall_s=3.0)
    assert "has 'direktory', which does nothing" in line
    assert line.endswith("the nearest is directory")


def test_channels_are_wanted_by_name_in_any_case() -> None:
    assert DEFAULTS.wants("anything")
    assert TraceOptions(channels=("framework",)).wants("FrameWork")
    assert not TraceOptions(channels=("framework",)).wants("Poplar")


def test_an_unset_or_empty_variable_traces_nothing() -> None:
    assert trace_options({}) is None
    assert trace_options({"PVTI_OPTIONS": " "}) is None
    assert trace_options({"PVTI_OPTIONS": "{}"}) == "{}"
