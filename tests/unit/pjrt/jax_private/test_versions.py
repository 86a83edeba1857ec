"""Versions of JAX: too old is an error, untested a warning, the ones between say nothing."""

import re
import warnings
from typing import Any

import pytest

from tests.processes import ROOT
from tilestep.errors import UnsupportedError
from tilestep.pjrt.jax_private import compat
from tilestep.pjrt.jax_private.versions import OLDEST, PROFILED, parse, require_not_too_old, warn_if_untested


@pytest.mark.parametrize(
    ("text", "version"), [("0.10.2", (0, 10, 2)), ("0.12.0.1", (0, 12, 0)), ("1.0", (1, 0, 0)), ("0.13.0.dev20270101", (0, 13, 0))]
)
def test_versions_are_read(text: str, version: tuple[int, int, int]) -> None:
    assert parse(text) == version


@pytest.mark.parametrize("version", ["0.10.1", "0.9.2", "0.4.38"])
def test_too_old_is_an_error_that_names_the_bound_and_the_way_out(version: str) -> None:
    with pytest.raises(UnsupportedError, match=rf"jax {version} is too old .* 0\.10\.2 or newer \(pip install -U jax\)"):
        require_not_too_old(version)


def test_newer_than_tested_warns_with_the_range() -> None:
    with pytest.warns(UserWarning, match=r"jax 0\.14\.0 is newer .* \(0\.10\.2 to 0\.12\.0\)"):
        warn_if_untested("0.14.0")


@pytest.mark.parametrize("version", ["0.10.2", "0.11.0", "0.12.0.1"])
def test_what_was_tested_says_nothing(version: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        require_not_too_old(version)
        warn_if_untested(version)


def test_the_documents_name_the_versions_whose_profiler_shows_emulated_time() -> None:
    page = (ROOT / "docs/how-to/jax-profiler.md").read_text(encoding="utf-8")
    told = page.partition("**Versions of jaxlib.**")[2].partition(", because")[0]
    assert tuple(re.findall(r"\d+(?:\.\d+)+", told)) == PROFILED
    assert all(parse(version) >= OLDEST for version in PROFILED)


def test_a_context_serves_further_blocks_and_never_two_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compat, "_idle_contexts", [])
    with compat.make_context() as first, compat.make_context() as inside:
        assert inside is not first
        first.allow_unregistered_dialects = True
    for _ in range(2):
        with compat.make_context() as later:
            assert later is first  # the one that was left last
            assert not later.allow_unregistered_dialects


def test_a_context_in_which_something_failed_is_not_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compat, "_idle_contexts", [])
    with pytest.raises(ValueError, match="no program"), compat.make_context():
        raise ValueError("no program")
    assert compat._idle_contexts == []


def test_a_context_does_not_serve_for_ever_because_it_keeps_all_it_has_had(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compat, "_idle_contexts", [])
    monkeypatch.setattr(compat, "_CONTEXT_TURNS", 2)
    served: list[Any] = []
    for _ in range(7):
        with compat.make_context() as context:
            served.append(context)
    assert len({id(context) for context in served}) == 3
    assert served[0] is served[2]
    assert served[2] is not served[3]
