"""A profile is read back from a recording as it was written; of what anybody may have written, no part is believed unseen."""

import json
import random
from typing import Any

import pytest

from tests.unit.advice.test_gains import DONATING, STEP, trained, two_faults
from tests.unit.figures.reader.recorded import journaled, two_stages
from tilestep.errors import RecordingError
from tilestep.figures.reader import Report
from tilestep.views.profile import Profile
from tilestep.views.stored import stored_profile


def stored(document: Any) -> Profile | None:
    return stored_profile(Report(journaled(two_stages(), profile=document)))


@pytest.mark.parametrize("profile", [trained(STEP, 20), trained(DONATING, 3), two_faults(donates=False, returns=True)])
def test_what_is_read_back_says_what_was_said(profile: Profile) -> None:
    found = stored(profile.as_document())
    assert found is not None
    assert found.summary(width=100) == profile.summary()
    assert found.findings == profile.findings
    assert found.together == profile.together
    assert found.as_document() == {**profile.as_document(), "timeline": {**profile.as_document()["timeline"], "rows": []}}


def test_a_recording_without_a_profile_has_none() -> None:
    assert stored(None) is None
    assert stored({"findings": []}) is None


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("emulated_cycles", "many", "'many' as profile.emulated_cycles: it must be int"),
        ("programs", [3], r"3 as profile.programs\[0\]: it must be an object"),
        ("findings", {"kind": "idle"}, ".* as profile.given.findings: it must be "),
        ("steady", 5, "5 as profile.given.steady: it must be an object"),
        ("machine", None, "None as profile.machine: it must be an object"),
        ("supersteps", [{"key": 1}], r"None as profile.supersteps\[0\].program: it must be str"),
    ],
)
def test_a_damaged_profile_is_told(name: str, value: object, problem: str) -> None:
    document = {**trained(STEP, 5).as_document(), name: value}
    with pytest.raises(RecordingError, match=f"the profile of the recording has {problem}"):
        stored(document)


def test_any_value_is_read_or_refused() -> None:
    """No other exception comes of a profile in which something was changed."""
    text, chosen = json.dumps(trained(STEP, 5).as_document()), random.Random(7)
    outcomes: set[str] = set()
    for _ in range(150):
        document = json.loads(text)
        owner: Any = document
        while True:
            key = chosen.choice(list(owner) if isinstance(owner, dict) else range(len(owner)))
            if not isinstance(owner[key], dict | list) or not owner[key] or chosen.random() < 0.2:
                break
            owner = owner[key]
        owner[key] = chosen.choice([None, -1, 0, 10**40, 1e308, "x", [], {}, True])
        try:
            found = stored(document)
            outcomes.add("read")
            if found is not None:
                found.summary(width=100)
        except RecordingError:
            outcomes.add("refused")
    assert outcomes == {"read", "refused"}
