"""A profile in a notebook is HTML without scripts, whatever its names are."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser

from tests.unit.profiling.test_measure import profile_of, train
from tests.unit.sim.toy import Host, program, superstep
from tilestep.profiling.profiles import Recording

ALLOWED = {"div", "p", "strong", "ol", "li", "svg", "text", "rect", "table", "thead", "tbody", "tr", "th", "td"}
HOSTILE = ("</script><script>alert(1)</script>", "<img src=x onerror=alert(1)>", "\u2028${x}`", '" onload="alert(1)')


class Reader(HTMLParser):
    """Collects tags, their attributes and the text of a fragment."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: set[str] = set()
        self.texts: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_it_shows_the_time_the_findings_and_two_tables() -> None:
    host = Host()
    train(host, 3, host.put(200))
    profile = profile_of(host)
    page = Reader(profile._repr_html_())
    assert set(page.tags) <= ALLOWED
    assert page.tags.count("table") == 2
    assert page.tags.count("rect") == len([kind for kind in profile.cycles_by_kind.values() if kind]) + bool(profile.idle_cycles)
    assert [finding.text for finding in profile.findings] == [text for text in page.texts if text in {f.text for f in profile.findings}]
    assert len(profile._repr_html_()) < 100_000


def test_names_are_text_only() -> None:
    for name in HOSTILE:
        host = Host()
        hostile = replace(program(superstep(10, name=name, family=name), name=name), assumptions=(name,))
        host.run(hostile)
        page = Reader(profile_of(host)._repr_html_())
        assert set(page.tags) <= ALLOWED
        assert not any(attribute.startswith("on") for attribute in page.attributes)
        assert name in page.texts


def test_a_long_name_is_cut() -> None:
    host = Host()
    host.run(program(superstep(10), name="x" * 10_000))
    assert len(profile_of(host)._repr_html_()) < 20_000


def test_nothing_ran_is_said() -> None:
    assert "no program ran on an IPU" in profile_of(Host())._repr_html_()


def test_a_recording_that_runs_has_no_html_yet() -> None:
    recording = Recording()
    assert recording._repr_html_() is None
    host = Host()
    host.run(program(superstep(10)))
    recording.complete(profile_of(host), None)
    assert recording._repr_html_() == profile_of(host)._repr_html_()
