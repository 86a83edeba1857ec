"""A profile as text: advice, then tables."""

import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from tilestep.advice import NEARLY_FULL, Finding, Steady, Together
from tilestep.advice.phrases import left_texts
from tilestep.advice.verdict import verdict
from tilestep.figures.lane_names import KIND_TEXTS
from tilestep.figures.quantities import bytes_text, count_text, names_text, share_text, time_text
from tilestep.figures.records import BatchProfile, Figures, ProgramProfile, StepProfile
from tilestep.messages import sentences
from tilestep.units import seconds_from_cycles

MOST_PROGRAMS: Final = 12
MOST_STEPS: Final = 8
MOST_ALIVE: Final = 8  # values at the peak of a program's memory
_LAYER: Final = re.compile(r"(?:(?<=[A-Za-z]_)|(?<=\[)|(?<=/))[0-9]+(?=[\]/).]|$)")  # the number of a layer, as in Block_3/Dense_0/dot
LEAST_WIDTH: Final = 90  # columns that the tables need; a narrower terminal wraps


@dataclass(frozen=True, kw_only=True)
class Headings:
    """The headings of one table. docs/reference/profile.md explains them under its title."""

    title: str
    words: tuple[str, ...]  # give way where space is short
    figures: tuple[str, ...]


_KINDS: Final = Headings(title="Time", words=("what",), figures=("time", "share"))
_PROGRAMS: Final = Headings(
    title="Programs",
    words=("program",),
    figures=("runs", "loads", "time", "share", "compute", "exchange", "sync", "host", "in/run", "out/run", "tile"),
)
_EVICTED: Final = Headings(title="Values of evicted programs", words=("program",), figures=("loads", "saved", "restored"))
_BATCHES: Final = Headings(
    title="Effective batch of an update", words=("loop",), figures=("steps", "microbatch", "accumulated", "replicas", "an update")
)
_MEMORY: Final = Headings(title="Memory", words=("what",), figures=("bytes", "share"))
_STEPS: Final = Headings(
    title="Largest supersteps",
    words=("superstep", "operation", "program"),
    figures=("times", "time", "share", "compute", "exchange", "sync"),
)
TABLES: Final = (_KINDS, _PROGRAMS, _EVICTED, _BATCHES, _MEMORY, _STEPS)
"""All that a summary can print."""


def render(
    figures: Figures,
    advice: Sequence[Finding],
    steady: Steady | None,
    *,
    together: Together | None = None,
    width: int,
    color: bool,
) -> str:
    """The text of `Profile.summary`, with the findings in the order of `advice`, and what a step takes once the system is warm.

    Args: together: what the findings save all together.
    """
    stream = io.StringIO()
    console = Console(
        file=stream,
        width=max(width, LEAST_WIDTH),
        force_terminal=color,
        force_jupyter=False,  # rich would show the text in the notebook, and return none
        color_system="standard" if color else None,
        legacy_windows=False,
        _environ={},
    )
    for part in _parts(figures, advice, steady, together):
        console.print(part, highlight=False)
    return "\n".join(line.rstrip() for line in stream.getvalue().rstrip().splitlines())


def _parts(figures: Figures, advice: Sequence[Finding], steady: Steady | None, together: Together | None) -> list[RenderableType]:
    machine = figures.machine
    ipus = f"{machine.num_ipus} IPU" + ("" if machine.num_ipus == 1 else "s")
    head = f"emulated on {machine.name} ({ipus} of {machine.num_tiles:,} tiles, {machine.clock_hz / 1e9:.3g} GHz)"
    found = verdict(figures)
    parts: list[RenderableType] = [] if found is None else [_text(f"tilestep: {found.text}", style="bold")]
    if not figures.programs:
        nothing = f"othing ran {head.removeprefix('emulated ')}"
        told = f"tilestep: n{nothing}: no program ran on an IPU." if found is None else f"N{nothing}."
        return [*parts, _text(told), *_advice(advice, together)]
    runs = sum(program.runs for program in figures.programs)
    title = Text.assemble((time_text(figures.emulated_s), "bold"), f" {sentences(head)}, {count_text(runs, 'program run')}")
    parts.append(title)
    if figures.ended_by:
        parts.append(_text(f"Ended by {figures.ended_by}: these are the figures of what ran until then.", style="bold"))
    if figures.interval is not None:
        parts.append(_text(f"80 % sure: {figures.interval.text('' if found is None else found.tile_word)}"))
    if steady is not None:
        parts.append(_text(steady.text(machine.clock_hz)))
    parts += _advice(advice, together) or [Text()]
    parts += _section(f"{_KINDS.title} of IPU {figures.busiest_ipu}, the busiest", _kinds_table(figures))
    parts += _section(_PROGRAMS.title, _programs_table(figures))
    if len(figures.programs) > MOST_PROGRAMS:
        parts.append(Text(f"  and {count_text(len(figures.programs) - MOST_PROGRAMS, 'more program')}; the JSON profile has all\n"))
    if any(program.host_bytes_saved or program.host_bytes_restored for program in figures.programs):
        parts += _section(_EVICTED.title, _evicted_table(figures))
    if figures.batches:
        parts += _section(_BATCHES.title, _batches_table(figures))
    fullest = max((program for program in figures.programs if program.runs), key=lambda program: program.peak_tile_bytes, default=None)
    if fullest is not None and fullest.peak_tile_bytes > NEARLY_FULL * machine.tile_sram_bytes:
        where = f"tile {fullest.peak_tile:,} in superstep '{fullest.peak_step}'"
        parts += _section(f"{_MEMORY.title} of {figures.label(fullest.key)}, the fullest: {where}", _memory_table(fullest))
    if figures.supersteps:
        parts += _section(_STEPS.title, _steps_table(figures))
    notes = [*figures.assumptions]
    notes += [
        f"Priced roughly, without an estimator of its own (~): {op}."
        for op in sorted({op for p in figures.programs for op in p.fallback_ops})
    ]
    if notes:
        parts.append(Text("Assumptions and fallbacks", style="bold"))
        parts += [Padding(_bullet("-", note), (0, 0, 0, 2)) for note in notes]
    return parts


def _advice(advice: Sequence[Finding], together: Together | None) -> list[RenderableType]:
    """The findings under their headings, with an empty line before and behind them; [] without findings."""
    parts: list[RenderableType] = [Text()] if advice else []
    for title, part in (("What to do", "first"), ("Fixed costs", "fixed"), ("Worth knowing", "aside")):
        told = [(number, finding) for number, finding in enumerate(advice, 1) if finding.part == part]
        if told:
            parts.append(_text(title, style="bold"))
        if part == "first" and together is not None:
            numbers = names_text([str(number) for number in together.numbers], most=9)
            parts.append(Padding(_text(f"All together ({numbers}, played one after the other): {together.gain}"), (0, 0, 0, 2)))
            parts += [
                Padding(_text(f"Not in it: {phrase}"), (0, 0, 0, 2)) for phrase in left_texts(zip(together.left, together.why, strict=True))
            ]
        for number, finding in told:
            head = f"{sentences(finding.headline)}\n" if finding.headline else ""
            ways = "".join(f"\n{sentences(f'or {other}')}" for other in finding.others)
            parts.append(Padding(_bullet(f"{number}.", Text.assemble((head, "bold"), sentences(finding.text), ways)), (0, 0, 0, 2)))
        if told:
            parts.append(Text())
    return parts


def _section(title: str, table: Table) -> list[RenderableType]:
    return [_text(title, style="bold"), Padding(table, (0, 0, 1, 2))]


def _bullet(mark: str, text: str | Text) -> Table:
    grid = Table.grid(padding=(0, 1))
    grid.add_column(justify="right")
    grid.add_column(overflow="fold")
    grid.add_row(Text(mark), _text(text) if isinstance(text, str) else text)
    return grid


def table_of(columns: Headings, rows: Sequence[Sequence[str]], *, least_width: int = 8) -> Table:
    """A table whose first columns hold words and give way where space is short, and whose others hold figures.

    Args: least_width: of a column of words, however short the space.
    """
    table = Table(box=None, padding=(0, 1, 0, 0), header_style="dim")
    for name in columns.words:
        table.add_column(name, overflow="ellipsis", min_width=least_width)  # may shrink: rich leaves columns with no_wrap as they are
    for index, name in enumerate(columns.figures, len(columns.words)):
        table.add_column(name, justify="right", no_wrap=True, min_width=max(len(name), *(len(row[index]) for row in rows)))
    for row in rows:
        table.add_row(*(_text(cell) for cell in row))
    return table


def _kinds_table(figures: Figures) -> Table:
    spent: dict[str, int] = {kind: cycles for kind, cycles in figures.cycles_by_kind.items() if cycles}
    if figures.idle_cycles:
        spent["idle"] = figures.idle_cycles
    kinds = sorted(spent, key=lambda kind: -spent[kind])
    rows = [(KIND_TEXTS[kind], _time(figures, spent[kind]), share_text(spent[kind], figures.emulated_cycles)) for kind in kinds]
    if figures.io_tiles_cycles:
        share = share_text(figures.io_tiles_cycles, figures.emulated_cycles)
        rows.append(("beside it, over I/O tiles", _time(figures, figures.io_tiles_cycles), share))
    return table_of(_KINDS, rows)


def _programs_table(figures: Figures) -> Table:
    shown = sorted(figures.programs, key=lambda program: -program.cycles.total)[:MOST_PROGRAMS]
    return table_of(_PROGRAMS, [_program_row(figures, program) for program in shown])


def _program_row(figures: Figures, program: ProgramProfile) -> list[str]:
    cycles = program.cycles
    tile_bytes = figures.machine.tile_sram_bytes
    full = "!" if program.peak_tile_bytes > NEARLY_FULL * tile_bytes else ""
    return [
        figures.label(program.key),
        f"{program.runs:,}",
        f"{program.loads:,}",
        _time(figures, cycles.total),
        share_text(cycles.total, figures.emulated_cycles),
        *(share_text(part, cycles.total) for part in (cycles.compute, cycles.exchange, cycles.sync, cycles.host)),
        *(bytes_text(size) for size in _bytes_of_a_run(program)),
        f"{share_text(program.peak_tile_bytes, tile_bytes)}{full}",
    ]


def _bytes_of_a_run(program: ProgramProfile) -> tuple[int, int]:
    """Bytes in and out of a usual run, with the average bytes of its host calls."""
    runs = max(program.runs, 1)
    return program.host_bytes_in + program.call_bytes_in // runs, program.host_bytes_out + program.call_bytes_out // runs


def _evicted_table(figures: Figures) -> Table:
    """Bytes that the runs of each program saved and restored, for the programs with most of both."""

    def moved(program: ProgramProfile) -> int:
        return program.host_bytes_saved + program.host_bytes_restored

    shown = sorted((program for program in figures.programs if moved(program)), key=lambda program: -moved(program))[:MOST_PROGRAMS]
    rows = [(figures.label(p.key), f"{p.loads:,}", bytes_text(p.host_bytes_saved), bytes_text(p.host_bytes_restored)) for p in shown]
    return table_of(_EVICTED, rows)


def _batches_table(figures: Figures) -> Table:
    def row(batch: BatchProfile) -> list[str]:
        microbatch = "?" if batch.microbatch is None else count_text(batch.microbatch, "sample")
        update = f"{batch.microbatches:,} microbatches" if batch.samples is None else count_text(batch.samples, "sample")
        return [batch.loop, f"{batch.steps:,}", microbatch, f"x {batch.count:,}", f"x {batch.replicas:,}", f"= {update}"]

    return table_of(_BATCHES, [row(batch) for batch in figures.batches])


def _memory_table(program: ProgramProfile) -> Table:
    parts = [*program.tile_bytes_by_kind, *((f"  {name}", size) for name, size in program.alive_tile_bytes[:MOST_ALIVE])]
    return table_of(_MEMORY, [(what, bytes_text(size), share_text(size, program.peak_tile_bytes)) for what, size in parts])


def _steps_table(figures: Figures) -> Table:
    """Steps of one program that are alike but for the number of a layer, and take equal cycles, are one row."""
    alike: dict[tuple[object, ...], list[StepProfile]] = {}
    for step in figures.supersteps:
        operation = _LAYER.sub("#", _operation(figures, step), count=1)
        alike.setdefault(
            (step.key, operation, step.family, step.executions, step.compute, step.exchange, step.sync, step.host, step.fallback), []
        ).append(step)

    def row(steps: Sequence[StepProfile]) -> list[str]:
        step, count = steps[0], len(steps)
        layers = sorted({int(found[0]) for each in steps if (found := _LAYER.search(_operation(figures, each)))})
        operation = _operation(figures, step)
        if len(layers) > 1:
            between = f"{layers[0]}..{layers[-1]}" if layers[-1] - layers[0] + 1 == len(layers) else ",".join(map(str, layers))
            operation = _LAYER.sub(between, operation, count=1)
        return [
            ("~" if step.fallback else "") + step.name + (f" and {count - 1:,} equal" if count > 1 else ""),
            operation,
            figures.label(step.key),
            f"{step.executions * count:,}",
            _time(figures, step.total * count),
            share_text(step.total * count, figures.emulated_cycles),
            *(share_text(part, step.total) for part in (step.compute, step.exchange, step.sync)),
        ]

    largest = sorted(alike.values(), key=lambda steps: -steps[0].total * len(steps))
    return table_of(_STEPS, [row(steps) for steps in largest[:MOST_STEPS]])


def _operation(figures: Figures, step: StepProfile) -> str:
    return figures.operation_of(step.scope) or step.family


def _text(text: str, style: str = "") -> Text:
    """What a summary prints, but for code: names in it are anybody's."""
    return Text(sentences(text), style=style)


def _time(figures: Figures, cycles: int) -> str:
    return time_text(seconds_from_cycles(cycles, figures.machine.clock_hz))
