"""Entry points that only answer."""

from __future__ import annotations

import pytest

from tilestep.pjrt.table.entry_points import answers


def test_an_answer_names_results_of_its_entry_point() -> None:
    with pytest.raises(ValueError, match="PJRT_Client_ProcessIndex has no result platform: it has process_index"):
        answers("PJRT_Client_ProcessIndex", "platform", lambda _: 0)
    with pytest.raises(ValueError, match="has no result client"):  # the object that is asked is no result
        answers("PJRT_Client_ProcessIndex", "client", lambda _: 0)
