"""Tables of recordings as Parquet files."""

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.unit.figures.reader.recorded import liveness, report_of, two_stages
from tests.unit.figures.reader.test_system import read, traced
from tilestep.errors import UnsupportedError
from tilestep.views.export.parquet import write_parquet


def rows(path: Path) -> list[dict[str, Any]]:
    """The rows of a file."""
    return importlib.import_module("pyarrow.parquet").read_table(path).to_pylist()


def test_without_source_no_line_and_no_path_is_written(tmp_path: Path) -> None:
    write_parquet(report_of(two_stages(), detail=liveness()), tmp_path, source=False)
    assert not (tmp_path / "frames.parquet").exists()
    assert {row["frame"] for row in rows(tmp_path / "lives.parquet")} == {0}
    write_parquet(read(traced()), tmp_path, source=False)
    assert rows(tmp_path / "processes.parquet") == [{"pid": 42, "name": None}]


def test_without_pyarrow_the_error_has_the_way_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(UnsupportedError, match=r"Parquet files need pyarrow, which is not installed: pip install 'tilestep\[parquet\]'"):
        write_parquet(report_of(two_stages()), tmp_path / "new", source=True)
    assert not (tmp_path / "new").exists()
