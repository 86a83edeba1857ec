"""Numbers for people."""

from __future__ import annotations

from tilestep.figures.quantities import bytes_text, count_text, names_text, share_text, time_text


def test_times() -> None:
    for seconds, text in (
        (0, "0 s"),
        (1.234e-9, "1.23 ns"),
        (5e-13, "0.00 ns"),
        (45.6e-6, "45.6 µs"),
        (0.123, "123 ms"),
        (1, "1.00 s"),
        (119.7, "120 s"),
        (150, "2.5 min"),
        (7200, "2.0 h"),
    ):
        assert time_text(seconds) == text, seconds


def test_bytes() -> None:
    for size, text in ((0, "0 B"), (1023, "1023 B"), (1536, "1.50 KiB"), (1 << 20, "1.00 MiB"), (250 << 30, "250 GiB")):
        assert bytes_text(size) == text, size


def test_shares() -> None:
    for part, whole, text in ((0, 10, "0 %"), (1, 3, "33 %"), (1, 30, "3.3 %"), (1, 30_000, "<0.1 %"), (1, 0, "-"), (3, 2, "150 %")):
        assert share_text(part, whole) == text, part


def test_counts_and_names() -> None:
    assert count_text(1, "load") == "1 load"
    assert count_text(2000, "load") == "2,000 loads"
    assert names_text(["a", "b"]) == "a, b"
    assert names_text(["a", "b", "c"], most=2) == "a, b and 1 more"
