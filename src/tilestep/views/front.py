"""Time against IPUs and against memory, with what no other beats in both: the picture of a sweep, and of plans."""

from collections.abc import Iterable, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, Final, NamedTuple

from tilestep.figures.quantities import time_text
from tilestep.files import write_file

FORMS: Final = ("png", "svg")
_GOOD, _BAD, _FRONT = "#2b6cb0", "#c05621", "#1a202c"
_MOST_LABELS: Final = 12


class Choice(NamedTuple):
    """What may be chosen.

    Attributes: num_ipus: that it uses. full: what its fullest tile needs, as part of what it has. seconds: what it takes. fits: whether
        it does. name: in words.
    """

    num_ipus: int
    full: float
    seconds: float
    fits: bool
    name: str


class Point(NamedTuple):
    """A choice in one panel. Smaller is better in both; `x` and `y` are as they are drawn."""

    x: float
    y: float
    choice: Choice


def front(points: Iterable[Point]) -> list[Point]:
    """Those that no other beats in one of the two without being worse in the other, by x. Of equal ones the first."""
    best: list[Point] = []
    for point in sorted(points, key=lambda each: (each.x, each.y)):
        if not best or point.y < best[-1].y:
            best.append(point)
    return best


def require_matplotlib() -> None:
    """Raises: ImportError that says how to get it."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise ImportError("drawing needs Matplotlib: pip install 'tilestep[plots]'; CSV and JSON have the figures without") from error


def draw(choices: Sequence[Choice], path: Path, *, time_of: str, note: str = "") -> None:
    """Draws choices to a file of one of `FORMS`, by its suffix.

    Args: time_of: what takes the time, in words. note: what else its title says.
    Raises: OSError naming the file; ImportError without Matplotlib.
    """
    require_matplotlib()
    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator

    figure: Any = Figure(figsize=(11, 4.6), layout="constrained")
    panels: Any = figure.subplots(1, 2, sharey=True)
    of_ipus = [Point(each.num_ipus, each.seconds, each) for each in choices]
    of_memory = [Point(100 * each.full, each.seconds, each) for each in choices]
    for panel, points, label in zip(panels, (of_ipus, of_memory), ("IPUs", "fullest tile (% of what it has)"), strict=True):
        _draw(panel, points)
        panel.set_xlabel(label, fontsize=9)
        if points:
            panel.set_yscale("log")
    ticks: Any = LogLocator(subs=(1, 2, 5))
    numbers = sorted({point.x for point in of_ipus})
    if numbers:
        panels[0].yaxis.set_major_locator(ticks)
        panels[0].yaxis.set_major_formatter(_time)
        panels[0].set_xscale("log", base=2)
        panels[0].set_xticks(numbers, [f"{number:g}" for number in numbers])
    panels[0].minorticks_off()
    panels[0].set_ylabel(time_of, fontsize=9)
    panels[1].axvline(100, color=_BAD, linewidth=0.8, linestyle=":")
    panels[0].set_title("best in both: joined by the line" + (f"; {note}" if note else ""), fontsize=10, loc="left")
    handles, labels = panels[1].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
    drawing = BytesIO()
    same: Any = matplotlib  # the same file each time, whose text is text
    form = path.suffix[1:].lower()
    with same.rc_context({"svg.hashsalt": "tilestep", "svg.fonttype": "none"}):
        figure.savefig(drawing, format=form, dpi=120, metadata={"Date": None} if form == "svg" else None)
    write_file(path, drawing.getvalue())


def _time(seconds: float, _: object = None) -> str:
    return time_text(seconds)


def _draw(panel: Any, points: Sequence[Point]) -> None:
    fitting = [point for point in points if point.choice.fits]
    others = [point for point in points if not point.choice.fits]
    best = front(fitting)
    panel.plot(
        [each.x for each in best], [each.y for each in best], color=_FRONT, linewidth=1, drawstyle="steps-post", label="best in both"
    )
    panel.scatter([each.x for each in fitting], [each.y for each in fitting], color=_GOOD, s=36, label="fits", zorder=3)
    panel.scatter([each.x for each in others], [each.y for each in others], color=_BAD, marker="x", s=36, label="does not fit", zorder=3)
    for point in best[:_MOST_LABELS]:
        panel.annotate(point.choice.name, (point.x, point.y), xytext=(5, 5), textcoords="offset points", fontsize=7)
    for side in ("top", "right"):
        panel.spines[side].set_visible(False)
    panel.tick_params(labelsize=8)
