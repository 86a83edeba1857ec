"""Files that were harmful once, or would be: each is refused by its format's error, which says why. `tests/corpus` has them, by format."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.fuzzed import fault_of
from benchmarks.fuzzed_formats import formats

CORPUS = Path(__file__).parents[2] / "corpus"
FILES = {
    "PopART's executables": {"bomb": "has more than", "cut": "not a zip file", "no_zip": "not a zip file"},
    "checkpoints": {
        "deep_feeds": "a form that no checkpoint has",
        "dtype_of_objects": "the dtype 'object', which is none of numbers",
        "escape_in_a_path": "a text that cannot be printed",
        "huge_shape": "a shape that there is none of",
        "nested": "process-0/7 cannot be read: ",
        "path_outside": "names a file '../a0.0', which no checkpoint has",
    },
    "engine options": {
        "digits": "target.hostSyncTimeout is '9999",
        "escape": r"\x1b[31m",
        "nested": "it must be a JSON object",
        "slow_pattern": "it must be a regular expression",
    },
    "hlo": {
        "bidirectional_name": r"\u202e",
        "digits_of_a_layout": "is no shape",
        "digits_of_a_shape": "is no shape",
        "escape_in_a_shape": r"'f\x1b[31m32[2]' is no shape",
        "nested_shapes": "more than 100 tuples in each other",
        "superscript_parameter": "a parameter needs a number, found '²'",
    },
    "npy": {
        "code": "malformed node or string",
        "cut": "only read 3 elements",
        "flipped": "its SHA-256 differs",
        "huge_shape": "cannot be read",
        "objects": "Object arrays cannot be loaded",
    },
    "onnx": {"cut": "is damaged", "weights_outside": "only a file in the model's folder may be named"},
    "recordings": {
        "cut": "truncated or damaged",
        "member_outside": "has the member '../outside'",
        "no_zip": "truncated",
        "objects": "elements of type",
    },
    "serialised programs": {
        "another_magic": "no stored program of platform ipu begins with",
        "cut": "compile ",
        "infinity": "compile ",
        "nested": "has no header",
    },
    "toml": {
        "clock_not_a_number": "ipu.clock_hz is nan",
        "digits": "more than 1,000 digits",
        "escape_in_a_key": r"'ipu.\x1b[31m' is no field",
        "nested_lists": "nested too deep",
        "not_utf8": "this is no TOML",
    },
    "variables": {
        "digits": "it must be a whole number, 1 to 100,000",
        "escape": r"\x1b[31m",
        "nested_options": "it must be a JSON object",
        "superscript": "is '²'",
        "surrogate": r"is '\udced\udca0\udc80'",
    },
}


def folder_of(name: str) -> Path:
    return CORPUS / name.replace(" ", "_").replace("'", "")


def test_each_format_has_files_and_each_file_is_expected() -> None:
    assert set(FILES) == set(formats())
    assert {(name, file.name) for name in FILES for file in folder_of(name).iterdir()} == {
        (name, file) for name, files in FILES.items() for file in files
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_a_bad_file_is_refused_by_its_formats_error_which_says_why(name: str, tmp_path: Path) -> None:
    kind = formats()[name]
    read = kind.reader(tmp_path)
    for file, words in FILES[name].items():
        data = (folder_of(name) / file).read_bytes()
        with pytest.raises(kind.errors) as raised:
            read(data)
        assert words in str(raised.value), file
        assert fault_of(kind, read, data)[0] == "", file
