"""The block of view What to do: the profile's findings in their order, and nothing that a recording cannot know."""

from typing import Any

import pytest

from tests.unit.figures.reader.recorded import journaled, larger, recorded, two_stages
from tests.unit.sim.toy import Host
from tests.view_names import VIEWS
from tilestep.advice import Finding, Gain, Line
from tilestep.advice.finding import ASIDE
from tilestep.figures.reader import Report
from tilestep.recording.schema import EVENT_KINDS
from tilestep.views.page.assets import asset
from tilestep.views.page.block import PageBlock, packed
from tilestep.views.page.sections.findings import findings

LINE = Line(file="/home/me/train.py", number=9)


def block_of(profile: object) -> PageBlock:
    """The block of a recording whose profile is this document."""
    found = findings(Report(journaled(two_stages(), profile=profile)))
    assert found is not None
    packed(found)
    return found


def found_in(*each: object) -> list[dict[str, Any]]:
    return block_of({"findings": list(each)}).json["found"]


def test_a_recording_without_a_profile_has_no_block() -> None:
    assert findings(Report(recorded(Host(on=larger()), []))) is None
    assert findings(Report(journaled(two_stages(), profile=["no", "object"]))) is None


def test_a_finding_has_its_lines_as_other_views_name_files() -> None:
    finding = Finding(kind="products", text="t", edit="e", line=LINE, shares=((LINE, 0.75), (Line(file=LINE.file, number=3), 0.25)))
    (found,) = found_in(finding.as_document())
    assert found["line"] == {"file": "train.py", "number": 9, "label": "train.py:9"}
    assert found["others"] == [
        {"file": "train.py", "number": 9, "label": "train.py:9", "share": 0.75},
        {"file": "train.py", "number": 3, "label": "train.py:3", "share": 0.25},
    ]
    cell = Line(file="/tmp/ipykernel_41/1234.py", number=2)
    (found,) = found_in(Finding(kind="donation", text="t", line=cell).as_document())
    assert found["line"]["label"] == str(cell) == "line 2 of a cell"


def test_a_gain_of_memory_is_in_bytes_of_the_fullest_tile() -> None:
    gain = Gain(tile_bytes=12_288, how="about", basis="as planned")
    (found,) = found_in(Finding(kind="memory", text="t", gain=gain).as_document())
    assert found["gain"] == {**dict.fromkeys(("cycles", "share", "step_cycles", "step_share")), "tile_bytes": 12_288}
    assert (found["how"], found["basis"]) == ("about", "as planned")


@pytest.mark.slow
def test_what_proves_it_is_a_view() -> None:
    for kind in ("memory", "donation", "loads", "fixed", "products", "halves", "pipeline", "bubbles", "limit", "of tomorrow"):
        (found,) = found_in({"kind": kind, "text": "t"})
        assert found["proof"] in VIEWS, kind
        assert f'name: "{found["proof"]}"' in asset(f"views/{found['proof']}.js"), kind
        assert (found["part"] != "first") is (kind in ASIDE), kind


def test_it_names_the_program_that_it_speaks_of() -> None:
    told, untold, part = found_in({"text": "two_stages streams x in."}, {"text": "the host waits"}, {"text": "two_stages_more has a loop"})
    assert (told["program"], untold["program"], part["program"]) == (0, None, None)


def test_execution_shows_the_events_that_it_is_about() -> None:
    loads, donation, idle = found_in(
        {"kind": "loads", "text": "1 load"}, {"kind": "donation", "text": "two_stages streams x in"}, {"kind": "idle"}
    )
    assert set(EVENT_KINDS) - set(loads["see"]["kinds"].split(",")) == {"load"}
    assert set(EVENT_KINDS) - set(donation["see"]["kinds"].split(",")) == {"stream-in"}
    assert donation["see"]["find"] == "two_stages"
    assert set(EVENT_KINDS) - set(idle["see"]["kinds"].split(",")) == {"wait", "dispatch", "read"}
    assert "find" not in idle["see"]  # the host waits for any program


def test_operations_are_found_by_a_line_that_has_one() -> None:
    here, elsewhere = [
        Finding(kind="products", text="t", line=Line(file="/home/me/train.py", number=number)).as_document() for number in (3, 77)
    ]
    assert [each["see"] for each in found_in(here, elsewhere)] == [{"q": "train.py:3", "group": "none"}, {}]


HOSTILE: tuple[Any, ...] = (
    None,
    7,
    "text",
    [],
    {},
    {"kind": 5, "text": ["x"], "edit": None, "line": "here", "lines": {"file": "a"}, "urgent": 1},
    {"line": {"file": 3, "line": "x"}, "lines": [None, {"file": "a"}, {"line": 3}, {"file": "a", "line": True}], "how": "replayed"},
    {"how": "replayed", "gain_share": float("1e300"), "gain_cycles": True, "gain_tile_bytes": "many"},
    {"how": 3, "gain_share": 0.5},
    {"how": "surely", "gain_share": 0.5, "basis": 4},
)


def test_what_has_another_type_is_absent() -> None:
    found = found_in(*HOSTILE)
    assert len(found) == sum(isinstance(each, dict) for each in HOSTILE)
    for each in found:
        assert isinstance(each["text"], str)
        assert isinstance(each["edit"], str)
        assert each["urgent"] is False
        assert each["line"] is None
        assert each["others"] == []
    assert [each["gain"] for each in found] == [None] * len(found)


def test_the_rest_of_a_profile_may_be_anything() -> None:
    for odd in (None, 5, "x", [1], {"steps": "many"}):
        block = block_of(
            {"findings": odd, "steady": odd, "cycles_by_kind": odd, "assumptions": odd, "programs": odd, "machine": odd, "options": odd}
        )
        assert block.json["found"] == []
        assert block.json["assumptions"] == block.json["fallbacks"] == block.json["options"] == []
        assert block.json["idle_cycles"] is None


def test_operations_without_an_estimator_are_named_once() -> None:
    programs = [{"fallback_ops": ["topk", "sort"]}, {"fallback_ops": ["topk", 3, None]}, {"fallback_ops": 4}, 5]
    assert block_of({"programs": programs}).json["fallbacks"] == ["sort", "topk"]
