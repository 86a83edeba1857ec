"""A profile as HTML for notebooks: findings, bars and two tables. It has no script, so it shows in untrusted notebooks, too."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Final

from tilestep.advice import Finding
from tilestep.advice.verdict import verdict
from tilestep.figures.lane_names import KIND_TEXTS
from tilestep.figures.quantities import bytes_text, share_text, time_text
from tilestep.figures.records import Figures
from tilestep.units import seconds_from_cycles

_MOST_FINDINGS: Final = 8
_MOST_ROWS: Final = 12
_LONGEST: Final = 600  # characters of a text
_BAR_WIDTH, _BAR_HEIGHT, _LABEL_WIDTH = 420, 18, 180
_BAR_COLOR: Final = "#0072B2"  # of Okabe and Ito's palette, on light and on dark ground
_LEFT: Final = "text-align:left"
_RIGHT: Final = "text-align:right"


def html_of(figures: Figures, findings: Sequence[Finding]) -> str:
    """The fragment.

    Args:
        figures: of the profile.
        findings: about it, the most valuable first.
    """
    found = verdict(figures)
    if found is None:
        return f"<div><p>tilestep: nothing ran on {_text(figures.machine.name)}: no program ran on an IPU.</p></div>"
    ipus = f"{figures.machine.num_ipus} IPU{'' if figures.machine.num_ipus == 1 else 's'}"
    head = f"<p><strong>tilestep: {_text(found.text)}</strong></p>"
    head += f"<p><strong>{time_text(figures.emulated_s)}</strong> emulated on {_text(figures.machine.name)} ({ipus})</p>"
    parts = [head, *_findings(findings), *_bars(figures), *_programs(figures), *_steps(figures)]
    return f"<div>{''.join(parts)}</div>"


def _findings(findings: Sequence[Finding]) -> Iterable[str]:
    if findings:
        items = "".join(f"<li>{_text(finding.text)}</li>" for finding in findings[:_MOST_FINDINGS])
        yield f"<p><strong>What to do</strong></p><ol>{items}</ol>"


def _bars(figures: Figures) -> Iterable[str]:
    """Time of the busiest IPU by kind, as a picture whose text says the same."""
    spent: dict[str, int] = {kind: cycles for kind, cycles in figures.cycles_by_kind.items() if cycles}
    if figures.idle_cycles:
        spent["idle"] = figures.idle_cycles
    if not spent or not figures.emulated_cycles:
        return
    rows: list[str] = []
    for index, kind in enumerate(sorted(spent, key=lambda kind: -spent[kind])):
        top, width = index * (_BAR_HEIGHT + 4), max(1, round(_BAR_WIDTH * spent[kind] / max(spent.values())))
        seconds = seconds_from_cycles(spent[kind], figures.machine.clock_hz)
        label = f"{time_text(seconds)}, {share_text(spent[kind], figures.emulated_cycles)}"
        rows.append(
            f'<text x="{_LABEL_WIDTH - 6}" y="{top + 13}" text-anchor="end" fill="currentColor">{_text(KIND_TEXTS[kind])}</text>'
            f'<rect x="{_LABEL_WIDTH}" y="{top}" width="{width}" height="{_BAR_HEIGHT}" fill="{_BAR_COLOR}"></rect>'
            f'<text x="{_LABEL_WIDTH + width + 6}" y="{top + 13}" fill="currentColor">{_text(label)}</text>'
        )
    height = len(rows) * (_BAR_HEIGHT + 4)
    title = f"Time of IPU {figures.busiest_ipu}, the busiest"
    yield f"<p><strong>{title}</strong></p>"
    yield (
        f'<svg role="img" aria-label="{title}" width="{_LABEL_WIDTH + _BAR_WIDTH + 140}" height="{height}" '
        f'font-family="sans-serif" font-size="12">{"".join(rows)}</svg>'
    )


def _programs(figures: Figures) -> Iterable[str]:
    shown = sorted(figures.programs, key=lambda program: -program.cycles.total)[:_MOST_ROWS]
    rows = [
        (
            figures.label(program.key),
            f"{program.runs:,}",
            f"{program.loads:,}",
            time_text(seconds_from_cycles(program.cycles.total, figures.machine.clock_hz)),
            share_text(program.cycles.total, figures.emulated_cycles),
            bytes_text(program.host_bytes_in),
            bytes_text(program.host_bytes_out),
            share_text(program.peak_tile_bytes, figures.machine.tile_sram_bytes),
        )
        for program in shown
    ]
    yield _table("Programs", ("program", "runs", "loads", "time", "share", "in/run", "out/run", "tile"), rows)


def _steps(figures: Figures) -> Iterable[str]:
    rows = [
        (
            step.name,
            step.scope or step.family,
            figures.label(step.key),
            f"{step.executions:,}",
            time_text(seconds_from_cycles(step.total, figures.machine.clock_hz)),
            share_text(step.total, figures.emulated_cycles),
        )
        for step in figures.supersteps[:_MOST_ROWS]
    ]
    if rows:
        yield _table("Largest supersteps", ("superstep", "operation", "program", "times", "time", "share"), rows)


def _table(title: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    words = {"program", "superstep", "operation"}
    styles = [_LEFT if head in words else _RIGHT for head in heads]
    head = "".join(f'<th style="{style}">{_text(name)}</th>' for name, style in zip(heads, styles, strict=True))
    body = "".join(f"<tr>{''.join(_cell(cell, style) for cell, style in zip(row, styles, strict=True))}</tr>" for row in rows)
    return f"<p><strong>{_text(title)}</strong></p><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(text: str, style: str) -> str:
    return f'<td style="{style}">{_text(text)}</td>'


def _text(text: str) -> str:
    """A text that is nothing but text, whatever stands in it."""
    shown = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
    return escape(shown)
