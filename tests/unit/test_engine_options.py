"""Engine options: what each of Poplar's names means here, which values it may have, and what is refused."""

import json
import re
from pathlib import Path

import pytest

from tests.bounded import ends_soon
from tests.processes import ROOT
from tests.together import each
from tilestep.engine_options import EFFECTIVE, EngineOptions, read_engine_options
from tilestep.errors import SettingsError
from tilestep.poplar_keys import NO_EFFECT

PARTS = ("graph_profile", "execution_profile", "debug_info", "serialized_graph", "lowered_vars")
GOOD = {  # a value of each kind, as programs write it
    "flag": ["true", "false", True, False],
    "whole number": ["0", "64", 40, "0x200"],
    "number": ["300.00", 900, "0"],
    "text": ["./archive.a"],
    "word": [],
}
BAD: dict[str, list[object]] = {
    "flag": ["yes", 1, "", None, ["true"]],
    "whole number": ["many", -1, "-1", 1.5, True, "", 2**64, None],
    "number": ["soon", -1.0, "nan", "inf", True, {}],
    "text": ["", 3, None, "a\0b"],
    "word": ["", "any other", True, 1],
}


def read(**options: object) -> EngineOptions:
    return read_engine_options(json.dumps({key.replace("_", ".", 1): value for key, value in options.items()}))


def parts(options: EngineOptions) -> set[str]:
    return {part for part in PARTS if getattr(options, part)}


def test_nothing_stated_asks_for_nothing() -> None:
    assert read_engine_options(" ") == read_engine_options("{}") == EngineOptions()
    assert (EngineOptions().directory, parts(EngineOptions()), EngineOptions().runs_in_detail) == (None, set(), 2)
    assert (EngineOptions().blocks, EngineOptions().programs, EngineOptions().notes) == (None, None, ())


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"autoReport_all": "true"}, {"graph_profile", "execution_profile", "debug_info"}),
        ({"autoReport_all": True, "autoReport_outputExecutionProfile": "false"}, {"graph_profile", "debug_info"}),
        ({"autoReport_all": "true", "autoReport_outputSerializedGraph": True}, {*PARTS} - {"lowered_vars"}),
        ({"autoReport_outputLoweredVars": "true"}, {"lowered_vars"}),
        ({"autoReport_all": "false", "autoReport_outputGraphProfile": "true"}, {"graph_profile"}),
        ({"autoReport_outputGraphProfile": "false"}, set()),
        ({"autoReport_all": "false", "autoReport_directory": "out"}, set()),
        ({"autoReport_directory": "out"}, {"graph_profile", "execution_profile", "debug_info"}),
        ({"autoReport_directory": "out", "autoReport_outputExecutionProfile": "false"}, {"graph_profile", "debug_info"}),
        ({"autoReport_directory": "out", "autoReport_outputExecutionProfile": "true"}, {"execution_profile"}),
        ({"autoReport_executionProfileProgramRunCount": "7"}, set()),
    ],
)
def test_parts_are_added_to_all_and_taken_from_it(options: dict[str, object], wanted: set[str]) -> None:
    found = read(**options)
    assert parts(found) == wanted
    directory = Path.cwd() / "out" if "autoReport_directory" in options else Path.cwd()
    assert found.directory == (directory if wanted else None)


def test_programs_have_folders_where_anything_of_them_is_wanted() -> None:
    assert read(autoReport_all=True).of_programs
    assert read(autoReport_outputSerializedGraph="true").of_programs
    assert not read(autoReport_outputExecutionProfile="true", autoReport_outputDebugInfo=True).of_programs


@pytest.mark.parametrize(("value", "runs"), [("1", 1), (3, 3), ("0x10", 16)])
def test_runs_in_detail_are_counted_from_one(value: object, runs: int) -> None:
    assert read(autoReport_executionProfileProgramRunCount=value).runs_in_detail == runs


def test_the_other_options_are_what_they_say() -> None:
    options = {"debug_retainDebugInformation": True, "profiler_blocks.filter": "stage.*", "profiler_programs.filter": "dot|conv"}
    found = read(debug_allowOutOfMemory="true", **options)
    assert (found.allow_out_of_memory, found.retain_debug_information) == (True, True)
    assert (found.blocks, found.programs) == ("stage.*", "dot|conv")
    assert dict(found.stated)["debug.retainDebugInformation"] is True
    assert found.directory is None
    assert not read(debug_allowOutOfMemory=False, debug_retainDebugInformation="false").retain_debug_information


@each("key", NO_EFFECT)
def test_every_option_of_poplar_takes_its_values_and_says_that_it_does_nothing(key: str) -> None:
    for value in (*GOOD[NO_EFFECT[key].kind], *NO_EFFECT[key].words):
        found = read_engine_options(json.dumps({key: value}))
        assert found.stated == ((key, value),)
        assert found.notes == (f"Engine option {key} has no effect: {NO_EFFECT[key].why}.",)
        assert (found.directory, parts(found)) == (None, set())


@each("key", NO_EFFECT)
def test_every_option_of_poplar_refuses_values_of_another_kind(key: str) -> None:
    for value in BAD[NO_EFFECT[key].kind]:
        with pytest.raises(
            SettingsError, match=rf"^POPLAR_ENGINE_OPTIONS: {re.escape(key)} is .*: it must be {re.escape(NO_EFFECT[key].allowed)}"
        ):
            read_engine_options(json.dumps({key: value}))


BAD_VALUES: dict[str, list[object]] = {
    '"true" or "false"': BAD["flag"],
    "the path of a directory": ["", 3, True, "a\0", "\ud800"],
    "a whole number from 1": [0, "0", *BAD["whole number"]],
    "a regular expression": ["", 1, "(", "[a", "*", "a{99999999999}", "(" * 900, "x" * 1001, "(?P<n>a)(?P<n>b)"],
}


@each("key", EFFECTIVE)
def test_every_option_that_works_refuses_values_of_another_kind(key: str) -> None:
    message = rf"^POPLAR_ENGINE_OPTIONS: {re.escape(key)} is .*: it must be {re.escape(EFFECTIVE[key])}"
    for value in BAD_VALUES[EFFECTIVE[key]]:
        with ends_soon(), pytest.raises(SettingsError, match=message):
            read_engine_options(json.dumps({key: value}))


@pytest.mark.parametrize(
    ("key", "nearest"),
    [
        ("autoReport.outputGraphprofile", "autoReport.outputGraphProfile"),
        ("target.hostSyncTimeOut", "target.hostSyncTimeout"),
        ("profiler.block.filter", "profiler.blocks.filter"),
    ],
)
def test_an_unknown_option_is_an_error_with_the_nearest(key: str, nearest: str) -> None:
    with pytest.raises(
        SettingsError, match=rf"^POPLAR_ENGINE_OPTIONS has '{key}': it may have autoReport.all, .*; the nearest is {nearest}$"
    ):
        read_engine_options(json.dumps({key: "true"}))


def documented(heading: str) -> dict[str, tuple[str, ...]]:
    """Rows of the first table behind a heading: the first cell without its backquotes -> the others."""
    text = (ROOT / "docs" / "reference" / "engine-options.md").read_text(encoding="utf-8")
    lines = text.split(f"\n## {heading}\n", 1)[1].splitlines()
    rows = [line for line in lines[: next((i for i, line in enumerate(lines) if line.startswith("## ")), None)] if line.startswith("| `")]
    cells = [[cell.strip() for cell in row.strip("|").split(" | ")] for row in rows]
    return {first.strip("`"): tuple(others) for first, *others in cells}


def test_the_page_of_engine_options_lists_each_with_its_values() -> None:
    assert {key: values for key, (values, _) in documented("Options that work").items()} == {
        key: values.replace('"true"', '`"true"`').replace('"false"', '`"false"`') for key, values in EFFECTIVE.items()
    }
    assert documented("Options without effect") == {
        key: (re.sub(r'"[^"]*"', r"`\g<0>`", declared.allowed), declared.why) for key, declared in NO_EFFECT.items()
    }
