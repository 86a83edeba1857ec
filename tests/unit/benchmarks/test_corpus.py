"""Files that were harmful once, or would be: each is refused by its format's error. `tests/corpus` has them, by format."""

from pathlib import Path

import pytest

from benchmarks.fuzzed import fault_of
from benchmarks.fuzzed_formats import formats

CORPUS = Path(__file__).parents[2] / "corpus"
FOLDERS = {name: CORPUS / name.replace(" ", "_").replace("'", "") for name in formats()}


def test_each_format_has_files() -> None:
    assert set(FOLDERS.values()) == set(CORPUS.iterdir())
    assert all(any(folder.iterdir()) for folder in FOLDERS.values())


@pytest.mark.slow
@pytest.mark.parametrize("name", FOLDERS)
def test_a_bad_file_is_refused_by_its_formats_error(name: str, tmp_path: Path) -> None:
    kind = formats()[name]
    read = kind.reader(tmp_path)
    for file in FOLDERS[name].iterdir():
        with pytest.raises(kind.errors):
            read(file.read_bytes())
        assert fault_of(kind, read, file.read_bytes())[0] == "", file
