"""Draws schedules: as text, and as pictures whose axis of time names its unit."""

import math
from io import BytesIO
from pathlib import Path
from typing import Any, Final

from tilestep.files import write_file
from tilestep.train.schedules.task_order import TaskOrder
from tilestep.train.schedules.tasks import Kind, Task, Timeline

_WIDEST: Final = 400  # columns of time that a text has at most
_UNREADABLE: Final = 10**15  # columns of time; nobody reads their number if there are more
_COLORS: Final = {
    Kind.FORWARD: "#4c8bf5",
    Kind.BACKWARD: "#5fb87a",
    Kind.INPUT_GRADIENT: "#8ccf9f",
    Kind.WEIGHT_GRADIENT: "#c9a227",
    Kind.UPDATE: "#b5533c",
    Kind.STORE: "#b9b9b9",
    Kind.LOAD: "#d9d9d9",
    Kind.LOAD_PARAMETERS: "#b9a3d6",
    Kind.STORE_PARAMETERS: "#d8cbe8",
}
_DARK: Final = "#333333"
_DARK_LABELS: Final = {
    Kind.INPUT_GRADIENT: "#1d3b26",
    Kind.STORE: _DARK,
    Kind.LOAD: _DARK,
    Kind.LOAD_PARAMETERS: _DARK,
    Kind.STORE_PARAMETERS: _DARK,
}
_AXIS_POINTS: Final = 730  # in a picture 11 inches wide
_LETTER_WIDTH: Final = 0.7  # a share of its size. DejaVu Sans, which Matplotlib has: 0.64 of digits, 0.58 to 0.99 of the capitals here
_LARGEST_LABEL_POINTS: Final = 7.0
_SECONDS: Final = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
_NUMBERS: Final = ((1e9, "billion"), (1e6, "million"), (1e4, "thousand"), (1.0, ""))
_LEAST_LABEL_POINTS: Final = 4.3  # smaller ones are left away


def _label(schedule: TaskOrder, task: Task, timeline: Timeline) -> str:
    """A task as its device's row writes it: without the stage where there is only one, and with the backward that is one with it."""
    alone = schedule.device_mapping.count(schedule.device(task)) == 1
    label = str(task)[len(str(task.stage)) :] if alone else str(task)
    return label.replace("F", "FB") if _is_both(task, timeline) else label


def _is_both(task: Task, timeline: Timeline) -> bool:
    """Whether a forward task is backward, too: that one follows at once and takes no time."""
    if task.kind is not Kind.FORWARD:
        return False
    backward = (Task(task.stage, kind, task.microbatch) for kind in (Kind.BACKWARD, Kind.INPUT_GRADIENT))
    return any(timeline.begin.get(after) == timeline.end[after] == timeline.end[task] for after in backward if after in timeline.end)


def _in_order_of_stages(schedule: TaskOrder) -> list[int]:
    """Devices, those of the first stages first."""
    return list(dict.fromkeys(schedule.device_mapping))


def as_text(schedule: TaskOrder, timeline: Timeline) -> str:
    """A row for each device, time to the right; a last line with what comes of it."""
    lengths = [timeline.end[task] - timeline.begin[task] for task in timeline.begin]
    unit = min((length for length in lengths if length > 0), default=1.0)
    columns = max(1, math.ceil(min(timeline.makespan / unit - 1e-9, _UNREADABLE)))
    title = f"{schedule.name}: {schedule.stages} stages, {schedule.microbatches} microbatches"
    if columns > _WIDEST:
        return f"{title}; too long for text ({columns:,} columns): draw it with plot()\n{_summary(schedule, timeline)}"
    width = 1 + max(len(_label(schedule, task, timeline)) for task in timeline.begin)
    lines = [title]
    for device, tasks in enumerate(schedule.tasks):
        cells = ["." for _ in range(columns)]
        for task in tasks:
            first, last = round(timeline.begin[task] / unit), round(timeline.end[task] / unit)
            for column in range(first, max(last, first)):
                label = _label(schedule, task, timeline)
                cells[column] = label if column == first else "-" * len(label)
        lines.append(f"{device:>3} |" + "".join(cell.rjust(width) for cell in cells).rstrip())
    return "\n".join([*lines, _summary(schedule, timeline)])


def _summary(schedule: TaskOrder, timeline: Timeline) -> str:
    stash = f", microbatches kept by stage {' '.join(map(str, schedule.stash()))}" if schedule.training else ""
    return f"makespan {timeline.makespan:,.10g}, bubble {timeline.bubble:.1%}{stash}"


def to_scale(schedule: TaskOrder, timeline: Timeline, width: int) -> str:
    """A row of so many columns for each device."""
    lines = [f"{schedule.name}: {schedule.stages} stages, {schedule.microbatches} microbatches"]
    first = min(timeline.begin.values())
    for device in _in_order_of_stages(schedule):
        row = [" "] * width
        for task in schedule.tasks[device]:
            start, end = (round((times[task] - first) / (timeline.makespan or 1) * width) for times in (timeline.begin, timeline.end))
            if end > start:
                label = _label(schedule, task, timeline)
                row[start:end] = "|" + (label if len(label) < end - start else "").ljust(end - start - 1, "-")
        lines.append(f"{device:>3} {''.join(row)}".rstrip())
    return "\n".join([*lines, _summary(schedule, timeline)])


def plot(schedule: TaskOrder, path: str | Path, timeline: Timeline) -> None:
    """Draws the schedule to a file. Raises: as `Schedule.plot`."""
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("drawing a schedule needs Matplotlib: pip install 'tilestep[plots]'; show() draws it as text without") from error
    figure: Any = Figure(figsize=(11, 1.4 + 0.42 * len(schedule.tasks)), layout="constrained")
    panel: Any = figure.subplots()
    _draw(panel, schedule, timeline)
    kinds = [kind for kind in Kind if any(task.kind is kind and timeline.end[task] > timeline.begin[task] for task in timeline.begin)]
    handles = [panel.barh(0, 0, color=_COLORS[kind], label=kind.meaning) for kind in kinds]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(kinds), frameon=False)
    target = Path(path) if Path(path).suffix else Path(f"{path}.png")
    form, drawing = target.suffix[1:], BytesIO()
    same: Any = matplotlib  # the same file each time, whose text is text
    with same.rc_context({"svg.hashsalt": "tilestep", "svg.fonttype": "none"}):
        figure.savefig(drawing, format=form, dpi=120, metadata={"Date": None} if form == "svg" else None)
    write_file(target, drawing.getvalue())


def _scale(longest: float, unit: str) -> tuple[float, str]:
    """(a power of 1000 that divides the times of an axis up to `longest`, the unit of its numbers in words)."""
    scales = _SECONDS if unit == "s" else _NUMBERS
    factor, word = next(((factor, word) for factor, word in scales if longest >= factor), scales[-1])
    factor = 1e3 if word == "thousand" else factor  # four digits need no word
    return factor, word if unit == "s" else f"{word} {unit or 'units of the costs'}".strip()


def _draw(panel: Any, schedule: TaskOrder, timeline: Timeline) -> None:
    order = _in_order_of_stages(schedule)
    for task, begin in timeline.begin.items():
        length = timeline.end[task] - begin
        if length <= 0:
            continue
        row = order.index(schedule.device(task))
        panel.barh(row, length, left=begin, height=0.86, color=_COLORS[task.kind], edgecolor="white", linewidth=0.6)
        if _is_both(task, timeline):
            panel.barh(row + 0.215, length, left=begin, height=0.43, color=_COLORS[Kind.BACKWARD], edgecolor="white", linewidth=0.6)
        label = _label(schedule, task, timeline)
        points = min(_LARGEST_LABEL_POINTS, length / timeline.makespan * _AXIS_POINTS / (_LETTER_WIDTH * len(label)))
        if points >= _LEAST_LABEL_POINTS:
            panel.text(
                begin + length / 2, row, label, ha="center", va="center", fontsize=points, color=_DARK_LABELS.get(task.kind, "white")
            )
    first = min(timeline.begin.values())
    panel.set_xlim(first, first + (timeline.makespan or 1))
    panel.set_ylim(len(order) - 0.5, -0.5)
    panel.set_yticks(range(len(order)), [f"device {device}" for device in order])
    factor, unit = _scale(first + timeline.makespan, timeline.unit)
    panel.xaxis.set_major_formatter(lambda time, _: f"{time / factor:,.6g}")
    panel.set_xlabel(f"time ({unit})", fontsize=9)
    panel.set_title(f"{schedule.name}: {timeline.bubble:.1%} of the time in bubbles", fontsize=10, loc="left")
    for side in ("top", "right", "left"):
        panel.spines[side].set_visible(False)
    panel.tick_params(left=False)
