"""A page in a notebook: all of it stands in one attribute of a frame that may run scripts, and nothing else."""

from html.parser import HTMLParser
from typing import Any

import pytest

from tests.unit.figures.reader.recorded import journaled, two_stages
from tests.unit.profiling.test_measure import profile_of
from tests.unit.sim.toy import Host, program, superstep
from tilestep.figures.reader import Report
from tilestep.profiling.profiles import Recording
from tilestep.views.page import page_html
from tilestep.views.page.frame import PageFrame


class Frames(HTMLParser):
    """Tags of a fragment, with their attributes."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def test_a_page_is_one_attribute_whatever_it_holds() -> None:
    hostile = "<!doctype html><p title=\"a\" lang='b'>&amp; &lt; </iframe><script>alert(1)</script>\u2028</p>"
    [(tag, attributes)] = Frames(PageFrame(html=hostile, height=300)._repr_html_()).found
    assert tag == "iframe"
    assert attributes["srcdoc"] == hostile
    assert attributes["style"] == "width: 100%; height: 300px; border: 1px solid #8a939e"


def test_in_a_terminal_it_is_one_line() -> None:
    assert repr(PageFrame(html="x" * 1234, height=1)) == "<tilestep page, 1,234 characters: a notebook shows it>"


def complete(tables: bool) -> Recording:
    host = Host()
    host.run(program(superstep(10)))
    recording = Recording()
    recording.complete(profile_of(host), journaled(two_stages()) if tables else None)
    return recording


def test_a_recording_shows_the_page_of_its_tables() -> None:
    recording = complete(tables=True)
    frame = recording.show(height=500)
    assert recording.tables is not None
    assert frame.html == page_html(Report(recording.tables), labels=(recording.machine.name, ""))
    assert frame.height == 500


@pytest.mark.parametrize("height", [-5, 0, True, None, '1px" onload="alert(1)'])
def test_a_height_that_is_none_is_an_error(height: Any) -> None:
    with pytest.raises(ValueError, match="must be a whole number of pixels, 1 or more"):
        complete(tables=True).show(height=height)


def test_what_was_not_recorded_is_not_shown() -> None:
    with pytest.raises(RuntimeError, match="complete when its block has ended"):
        Recording().show()
    with pytest.raises(ValueError, match=r"name a directory, as in `with tilestep.profile\('report'\) as profile:`"):
        complete(tables=False).show()
