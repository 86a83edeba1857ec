"""What a sweep says: its table, the settings that answer a question, the same as CSV and JSON, and its picture."""

import csv
import io
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from rich import box
from rich.table import Table

from tilestep.cli.sweep.setting import Measured
from tilestep.cli.sweep.settings import SweepPoint
from tilestep.figures.quantities import count_text, share_text, time_text
from tilestep.messages import plain
from tilestep.views.front import Choice, draw

_NEARLY_FASTEST: Final = 0.99  # share of the fastest rate: a setting that surely fits goes before one that likely does


@dataclass(frozen=True, kw_only=True)
class SweepRow:
    """A setting and what it takes."""

    setting: SweepPoint  # setting of the sweep
    command: str  # command that runs it
    found: Measured  # result of a dry run
    items: int | None = None  # items of a step, as --items says; None: what the program's inputs show

    @property
    def items_per_s(self) -> float | None:
        """Per emulated second of a warm step; None if its items or its time are unknown."""
        items = self.items if self.items is not None else self.found.samples
        return None if items is None or not self.found.step_s else items / self.found.step_s

    def document(self) -> dict[str, Any]:
        """It in the sweep's JSON document."""
        return {
            "setting": self.setting.cells(),
            "command": self.command,
            **asdict(self.found),
            "full": self.found.full,
            "items_per_s": self.items_per_s,
        }


class Answer(NamedTuple):
    """A question, and the row that answers it."""

    question: str
    row: SweepRow


def answers(rows: Sequence[SweepRow]) -> list[Answer]:
    """The smallest that fits, the fastest, and the fastest per IPU; [] if nothing fits.

    The fastest are by items a second if each that fits has those, else by the time of a warm step, else by that of the whole run.
    """
    fitting = [row for row in rows if row.found.fits]
    if not fitting:
        return []
    rate, _ = rate_of(rows)

    def per_ipu(row: SweepRow) -> float:
        return rate(row) / _ipus(row)

    smallest = min(fitting, key=lambda row: (_ipus(row), row.found.outcome != "fits", -rate(row)))
    answers = [Answer("the smallest that fits", smallest)]
    for question, of in (("the fastest that fits", rate), ("the fastest per IPU", per_ipu)):
        near = [row for row in fitting if of(row) >= _NEARLY_FASTEST * max(map(of, fitting))]
        sure = [row for row in near if row.found.outcome == "fits"]
        answers.append(Answer(question, max(sure or near, key=lambda row: (of(row), -_ipus(row)))))
    return answers


def rate_of(rows: Sequence[SweepRow]) -> tuple[Callable[[SweepRow], float], str]:
    """(how fast a row is, higher is faster; the figure that this is by: 'items_per_s', 'step_s' or 'whole_s')."""
    fitting = [row for row in rows if row.found.fits]
    if all(row.items_per_s is not None for row in fitting):
        return lambda row: row.items_per_s or 0.0, "items_per_s"
    if all(row.found.step_s for row in fitting):
        return lambda row: 1 / row.found.step_s if row.found.step_s else 0.0, "step_s"
    return lambda row: 1 / row.found.whole_s if row.found.whole_s else 0.0, "whole_s"


def _ipus(row: SweepRow) -> int:
    return row.found.num_ipus or 1


def table_of(rows: Sequence[SweepRow]) -> Table:
    """A row for each setting."""
    table = Table(box=box.SIMPLE_HEAD)
    names = list(dict.fromkeys(name for row in rows for name in row.setting.cells()))
    for name in names:
        table.add_column("IPUs" if name == "ipus" else plain(name), justify="right" if name == "ipus" else "left", overflow="fold")
    table.add_column("does it fit?", overflow="fold")
    for heading in ("fullest\ntile", "warm step", "items/s"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("what limits, or what went wrong", overflow="fold")
    for row in rows:
        found, rate, cells = row.found, row.items_per_s, row.setting.cells()
        table.add_row(
            *(plain(cells.get(name, "")) for name in names),
            found.text,
            share_text(found.needed_bytes, found.available_bytes),
            "-" if found.step_s is None else _time(found),
            "-" if rate is None else f"{rate:,.0f}",
            plain(found.error or found.limit),
        )
    return table


def _time(found: Measured) -> str:
    return time_text(found.step_s or 0.0, *(end for end in (found.step_low_s, found.step_high_s) if end is not None))


def answers_text(rows: Sequence[SweepRow]) -> str:
    """What stands below the table."""
    if not rows:
        return "No setting has ended yet."
    found, (_, figure) = answers(rows), rate_of(rows)
    lines: list[str] = []
    for answer in found:
        rate, of = answer.row.items_per_s, answer.row.found
        speed = {
            "items_per_s": f"{rate or 0.0:,.0f} items a second",
            "step_s": f"a step {time_text(of.step_s or 0.0)}",
            "whole_s": f"{time_text(of.whole_s)} in all",
        }[figure]
        doubt = ", likely" if of.outcome != "fits" else ""
        lines.append(f"{answer.question}{doubt} ({count_text(of.num_ipus or 1, 'IPU')}, {speed}):\n  {plain(answer.row.command)}")
    if not found:
        lines.append(_nearest(rows))
    elif figure == "whole_s":
        lines.append(
            "A setting has no warm step: its steps are too few, or each loads its program anew. So 'fastest' is of whole runs"
            f"{', and --items does nothing' if any(row.items for row in rows) else ''}: let the program do more steps, or keep its step "
            "loaded, as 'tilestep run' advises."
        )
    elif figure == "step_s" and len({row.setting.values for row in rows}) > 1:
        lines.append("'fastest' is by the time of a step; where its items differ, say how many they are by --items.")
    return "\n".join(lines)


def _nearest(rows: Sequence[SweepRow]) -> str:
    near = min((row for row in rows if row.found.text.endswith("x")), key=lambda row: row.found.full or 0.0, default=None)
    if near is None:
        return "nothing fits, because nothing ran: the last column says why"
    return f"nothing fits; the nearest needs {near.found.full:.3g}x of {near.found.where}:\n  {plain(near.command)}"


def json_text(rows: Sequence[SweepRow]) -> str:
    """The sweep as a JSON document."""
    named = {answer.question: rows.index(answer.row) for answer in answers(rows)}
    document = {"schema": "tilestep-sweep", "version": 1, "rows": [row.document() for row in rows], "answers": named}
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def csv_text(rows: Sequence[SweepRow]) -> str:
    """The sweep as a table of comma-separated values, with a line of headings: the setting's names first."""
    names = list(dict.fromkeys(name for row in rows for name in row.setting.cells()))
    stream = io.StringIO()
    documents = [row.document() for row in rows]
    figures = [name for name in (documents[0] if documents else {}) if name != "setting" and name not in names]
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow([*names, *figures])
    for document in documents:
        writer.writerow([*(document["setting"].get(name, "") for name in names), *(document[name] for name in figures)])
    return stream.getvalue()


_TITLES: Final = {
    "items_per_s": "time of an item",
    "step_s": "time of a warm step",
    "whole_s": "time of the whole run",
}


def plot(rows: Sequence[SweepRow], path: Path) -> None:
    """Draws the sweep to a file, whose suffix is one of `FORMS`. Raises: OSError naming the file; ImportError without Matplotlib."""
    rate, figure_name = rate_of(rows)
    choices = [
        Choice(row.found.num_ipus or 1, row.found.full, 1 / rate(row), row.found.fits, " ".join(row.setting.cells().values()))
        for row in rows
        if rate(row) > 0 and row.found.full is not None
    ]
    absent = len(rows) - len(choices)
    draw(choices, path, time_of=_TITLES[figure_name], note=f"{absent} of {len(rows)} settings have no time" if absent else "")
