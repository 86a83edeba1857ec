"""A profile in a notebook is its summary, without scripts, whatever its names are."""

from dataclasses import replace
from html import escape

from tests.unit.profiling.test_measure import profile_of
from tests.unit.sim.toy import Host, program, superstep
from tilestep.profiling.profiles import Recording


def test_it_is_the_summary_and_names_are_text_only() -> None:
    for name in ("", "</script><script>alert(1)</script>", "<img src=x onerror=alert(1)>", '" onload="alert(1)'):
        host = Host()
        host.run(replace(program(superstep(10, name=name, family=name), name=name or "step"), assumptions=(name,)))
        profile = profile_of(host)
        shown = profile._repr_html_()
        assert shown == f"<pre>{escape(profile.summary())}</pre>"
        assert shown.count("<") == 2


def test_a_recording_that_runs_has_no_html_yet() -> None:
    recording = Recording()
    assert recording._repr_html_() is None
    host = Host()
    host.run(program(superstep(10)))
    recording.complete(profile_of(host), None)
    assert recording._repr_html_() == profile_of(host)._repr_html_()
