"""MLIR contexts, which serve one block after the other."""

from __future__ import annotations

from typing import Any

import pytest

from tilestep.pjrt.jax_private import compat


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
