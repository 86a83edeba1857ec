"""Numbers for people."""

from __future__ import annotations

import pytest

from tilestep.report.quantities import bytes_text, count_text, names_text, share_text, time_text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (1.234e-9, "1.23 ns"),
        (5e-13, "0.00 ns"),
        (45.6e-6, "45.6 µs"),
        (0.123, "123 ms"),
        (1, "1.00 s"),
        (119.7, "120 s"),
        (150, "2.5 min"),
        (7200, "2.0 h"),
    ],
)
def test_times(seconds: float, text: str) -> None:
    assert time_text(seconds) == text


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.50 KiB"), (1 << 20, "1.00 MiB"), (250 << 30, "250 GiB")]
)
def test_bytes(size: int, text: str) -> None:
    assert bytes_text(size) == text


@pytest.mark.parametrize(
    ("part", "whole", "text"), [(0, 10, "0 %"), (1, 3, "33 %"), (1, 30, "3.3 %"), (1, 30_000, "<0.1 %"), (1, 0, "-"), (3, 2, "150 %")]
)
def test_shares(part: float, whole: float, text: str) -> None:
    assert share_text(part, whole) == text


def test_counts_and_names() -> None:
    assert count_text(1, "load") == "1 load"
    assert count_text(2000, "load") == "2,000 loads"
    assert names_text(["a", "b"]) == "a, b"
    assert names_text(["a", "b", "c"], most=2) == "a, b and 1 more"
