"""The page as one HTML document, in which no text of a recording is anything but text."""

import base64
import hashlib
import json
from collections.abc import Iterator, Mapping
from html import escape
from typing import Final

from tilestep.collection import collected_seldom
from tilestep.errors import RecordingError
from tilestep.figures.reader import Report
from tilestep.views.page.assets import script, style
from tilestep.views.page.block import packed
from tilestep.views.page.sections.comparison import comparison
from tilestep.views.page.sections.execution.section import MOST_PAGE_EVENTS, execution
from tilestep.views.page.sections.registry import ORIGINS, SECTIONS
from tilestep.views.page.terms import TERMS

PAGE_BYTES: Final = 20_000_000  # at most; larger pages hold fewer events, and say so
MOST_REPLAYED_CALLS: Final = 100_000  # a journal is played again, so that no run lacks its events
_TRIES: Final = 2  # to make a page smaller; what is not made of events stays
_LEAST_PART_OF_EVENTS: Final = 0.01  # a page keeps so many in any case
_MARGIN: Final = 0.9  # because packed events are not all of a size


def page_html(a: Report, b: Report | None = None, *, labels: tuple[str, str] = ("A", "B")) -> str:
    """The page of a recording, or of two to compare.

    Args:
        a: the recording.
        b: another.
        labels: what the page calls them.
    Returns: HTML that asks for nothing outside of itself.
    Raises: RecordingError if a recording is damaged.
    """
    code, look = script(), style()
    named = dict(zip("ab", labels, strict=True))
    shell = _inert(json.dumps({"labels": named, "origins": dict(ORIGINS), "terms": dict(TERMS)}))
    with collected_seldom():
        blocks = _fitting(a, b, others=len(code) + len(look) + len(shell))
    policy = "; ".join(
        (
            "default-src 'none'",
            f"script-src '{policy_hash(code)}'",
            f"style-src '{policy_hash(look)}'",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{escape(policy, quote=True)}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="referrer" content="no-referrer">',
        f"<title>{escape(_encodable(labels[0]))} · tilestep</title>",
        f"<style>{look}</style></head><body>",
        "<noscript><p>This page draws its pictures by JavaScript, which is off. summary.txt beside it has the summary.</p></noscript>",
        f'<script type="application/json" id="page">{shell}</script>',
        *(f'<script type="application/gzip;base64" id="data-{name}">{text}</script>' for name, text in blocks.items()),
        f'<script type="module">{code}</script></body></html>\n',
    ]
    return "\n".join(parts)


def _fitting(a: Report, b: Report | None, *, others: int) -> dict[str, str]:
    """The blocks of a page, packed. Args: others: bytes of the page beside them."""
    full = {f"{side}-execution": in_full(report) for side, report in (("a", a), ("b", b)) if report is not None}
    blocks = dict(_blocks("a", a, full))
    if b is not None:
        blocks |= _blocks("b", b, full)
        both = comparison(a, b)
        if both is not None:
            blocks["comparison"] = packed(both)
    _shorten(blocks, full, others)
    return blocks


def in_full(report: Report) -> Report:
    """The recording with the events of all runs, worked out from its journal, if that takes a second at most; else as it is."""
    short = 0 < report.tables.rows("calls") <= MOST_REPLAYED_CALLS
    if not short or "execution" not in report.parts or all(run.in_detail for run in report.execution.runs):
        return report
    try:
        return report.in_full()
    except RecordingError:  # its journal was cut, or another version has written it
        return report


def _blocks(side: str, report: Report, full: Mapping[str, Report]) -> Iterator[tuple[str, str]]:
    for name, section in SECTIONS.items():
        block = section(full.get(f"{side}-{name}", report))
        if block is not None:
            yield f"{side}-{name}", packed(block)


def _shorten(blocks: dict[str, str], full: Mapping[str, Report], others: int) -> None:
    """Leaves events between the first and the last runs out of a page that would be larger than PAGE_BYTES. View Execution says how many.

    Args: full: recordings with all events, by the names of their blocks. others: bytes of the page beside blocks.
    """
    part = 1.0
    for _ in range(_TRIES):
        excess = others + sum(map(len, blocks.values())) - PAGE_BYTES
        held = sum(len(blocks[name]) for name in full if name in blocks)
        if excess <= 0 or not held:
            return
        part *= max(_LEAST_PART_OF_EVENTS, 1 - excess / held) * _MARGIN
        for name, report in full.items():
            events = min(len(report.execution.events), MOST_PAGE_EVENTS) if name in blocks else 0
            shorter = execution(report, most_events=max(1, int(events * part)))
            if shorter is not None:
                blocks[name] = packed(shorter)


def policy_hash(text: str) -> str:
    """The text's hash, as a policy names it."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _encodable(text: str) -> str:
    """A text without lone surrogates, such as the name of a file that is no UTF-8 has."""
    return text.encode("utf-8", "replace").decode()


def _inert(text: str) -> str:
    """JSON that cannot end the element around it."""
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
