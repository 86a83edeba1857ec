"""Pieces of a trace are gone when the whole file is there, and when there shall be none."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilestep.tracing.pieces import Pieces

BEGIN_NS = 1_700_000_000_000_000_000


@pytest.fixture
def pieces(tmp_path: Path) -> Pieces:
    """Two have been written."""
    written = Pieces(tmp_path, BEGIN_NS)
    for _ in range(2):
        written.write(written.new_table(), [])
    assert sorted(path.name.split(".")[-2] for path in tmp_path.iterdir()) == ["part1", "part2"]
    return written


def test_the_whole_file_takes_the_place_of_its_pieces(pieces: Pieces, tmp_path: Path) -> None:
    pieces.finish(pieces.new_table(), [], None)
    assert list(tmp_path.iterdir()) == [pieces.path]


def test_a_trace_without_a_file_leaves_no_piece(pieces: Pieces, tmp_path: Path) -> None:
    pieces.remove()
    assert list(tmp_path.iterdir()) == []
