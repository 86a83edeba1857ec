"""What happened from the begin of a recording to its end: a profile at once, and a recording if somebody wants to keep it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import Final, final

import jax

from tilestep.engine_options import BLOCKS_FILTER, PROGRAMS_FILTER, EngineOptions
from tilestep.errors import RecordingError, TileMemoryError
from tilestep.figures.reader.runs.blocks import BLOCK_PROGRAMS, BLOCKS, scopes_of
from tilestep.figures.records import Need, ProgramProfile, Unfit
from tilestep.pjrt.jax_private import compat
from tilestep.pjrt.running.jax_programs import is_jax_program
from tilestep.pjrt.running.player import Begin, Player
from tilestep.pjrt.running.program_source import ProgramSource
from tilestep.pjrt.running.recorded_programs import RefusedProgram
from tilestep.plan.memory.liveness import Liveness
from tilestep.plan.steps import Program, leaves
from tilestep.profiling.measure import profile_between
from tilestep.program.frames import without_frames
from tilestep.recording.capture import capture, notes_of
from tilestep.recording.history import history_since
from tilestep.recording.program import RecordedCompilation
from tilestep.recording.source_lines import source_files
from tilestep.recording.sources import Source
from tilestep.recording.storage.container import Builder, Tables
from tilestep.recording.sums import SimulationSpan
from tilestep.sim import Mark, System
from tilestep.views.profile import Profile

_MOST_NAMES: Final = 300_000  # characters of the names of blocks
MOST_IN_DETAIL: Final = 200  # programs of a recording with the lives of their values: a program is planned again for them


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """A part of a simulation.

    Attributes:
        profile: its figures.
        span: the part.
        sources: of the programs that ran in it, by key.
        engine: options.
        refused: programs that did not fit, so that they never ran, by key.
    """

    profile: Profile
    span: SimulationSpan
    sources: Mapping[int, ProgramSource]
    engine: EngineOptions
    refused: Mapping[int, ProgramSource] = field(default_factory=dict[int, ProgramSource])

    def ended(self, by: str, *, intervals: bool = True) -> Measurement:
        """The same, of a program that something ended before its own end.

        Args: by: such as 'SIGTERM'; '': nothing did. intervals: whether the profile keeps how sure its figures are.
        """
        return replace(self, profile=replace(self.profile, ended_by=by, interval=self.profile.interval if intervals else None))

    def recording(self, *, journal: bool = True, hlo: bool = True, lines: bool = True, memory: bool = True) -> Tables:
        """The recording of it. The MOST_IN_DETAIL programs of most cycles, and that of the fullest tile, are planned again for detail.

        Args: journal: whether the calls are kept, so that it can be played again. hlo: whether the programs' HLO is kept, so that they can
            be planned for another machine. lines: whether lines of the user's source are kept. memory: whether the lives of values are.
        """
        engine, history = self.engine, self.span.history if journal else None
        stated = notes_of(history, jax=jax.__version__, engine_options=engine.recorded(lines=lines))
        builder = Builder(kind="run", notes={**stated, **self._chosen_blocks()})
        self.add_to(builder, journal=journal, hlo=hlo, lines=lines, memory=memory)
        return builder.tables()

    def add_to(self, builder: Builder, *, journal: bool, hlo: bool, lines: bool, memory: bool = True) -> None:
        """Adds the emulated part of a recording to one that is being made."""
        span = self.span if journal else SimulationSpan(system=self.span.system, begin=self.span.begin, end=self.span.end, history=None)
        compiled = self._compiled(span, hlo=hlo, memory=memory)
        if not lines:
            compiled = {key: replace(of, hlo=None if of.hlo is None else without_frames(of.hlo)) for key, of in compiled.items()}
        capture(builder, span, compiled, runs_in_detail=self.engine.runs_in_detail, lines=lines)
        document = self.profile.as_document()
        document.pop("timeline", None)
        if lines:
            keys = [*(program.key for program in self.profile.programs), *(key for key in self.refused if key in compiled)]
            files = source_files(compiled[key].program for key in keys)
            if files:
                builder.put_json("sources", files)
        else:
            document.pop("findings", None)  # they name lines
        builder.put_json("profile", document)

    def _chosen_blocks(self) -> dict[str, list[str]]:
        """The names of scopes and of programs that the process's filters choose, for each filter that was stated.

        Raises: RecordingError if they are too many for a manifest.
        """
        engine, programs = self.engine, [self.span.system.programs[program.key] for program in self.profile.programs]
        chosen: dict[str, list[str]] = {}
        if engine.blocks is not None:
            names = {name for program in programs for leaf in leaves(program.body) for name in scopes_of(leaf.scope)}
            chosen[BLOCKS] = _matching(engine.blocks, names)
        if engine.programs is not None:
            chosen[BLOCK_PROGRAMS] = _matching(engine.programs, {program.name for program in programs})
        for option, names in zip((BLOCKS_FILTER, PROGRAMS_FILTER), (chosen.get(BLOCKS, []), chosen.get(BLOCK_PROGRAMS, [])), strict=True):
            if (size := sum(map(len, names))) > _MOST_NAMES:
                raise RecordingError(
                    f"engine option {option} chooses {len(names):,} names of {size:,} characters together: a recording holds "
                    f"{_MOST_NAMES:,}; filter for fewer"
                )
        return chosen

    def _compiled(self, span: SimulationSpan, *, hlo: bool, memory: bool) -> dict[int, RecordedCompilation]:
        """The programs of a span, those that ran in it first, then those that did not fit, and those that the process retains last."""
        profiled = {program.key: program for program in self.profile.programs}
        programs = span.system.programs
        detailed = _in_detail(self.profile.programs) if memory else frozenset[int]()
        plans = _Plans()
        needed = [*profiled, *(key for key in (span.history.programs if span.history else ()) if key not in profiled)]
        found: dict[int, RecordedCompilation] = {}
        for key in needed:
            source, figures = self.sources.get(key), profiled.get(key)
            compiled = RecordedCompilation(
                program=programs[key],
                origin="user" if figures is None else figures.origin,
                group="" if figures is None else figures.group,
            )
            told = key in detailed or (memory and figures is None and self.engine.retain_debug_information)
            found[key] = compiled if source is None else _with_source(compiled, source, plans, hlo=hlo, memory=told)
        apart = ((key, source) for key, source in self.refused.items() if key not in found)
        found |= {key: _with_source(None, source, plans, hlo=True, memory=memory) for key, source in apart}  # to say what would make it fit
        if self.engine.retain_debug_information:
            retained = ((key, source) for key, source in self.sources.items() if key not in found)
            found |= {key: _with_source(None, source, plans, hlo=hlo, memory=memory) for key, source in retained}
        return found


def _matching(pattern: str, names: Iterable[str]) -> list[str]:
    """The names that an expression matches whole, sorted."""
    return sorted(filter(re.compile(pattern).fullmatch, names))


@final
class _Plans:
    """What is worked out again from the sources of programs. Programs of one StableHLO have one fingerprint, and mostly one plan."""

    def __init__(self) -> None:
        self._first: dict[ProgramSource, ProgramSource] = {}
        self._plans: dict[ProgramSource, tuple[Program, Liveness]] = {}

    def fingerprint(self, source: ProgramSource) -> str:
        """Its fingerprint."""
        return self._equal(source).fingerprint

    def plan(self, source: ProgramSource, program: Program | None, text: str | None) -> tuple[Program, Liveness]:
        """The program as it was planned, and the lives of its values.

        Args: program: as it was planned; None: it never ran. text: its HLO.
        """
        first = self._equal(source)
        known = self._plans.get(first)
        if known is not None and program is not None and replace(program, dry=known[0].dry) == known[0]:
            return known
        found = source.kept_detail if program is None else source.detail(text)
        self._plans.setdefault(first, found)
        return found

    def _equal(self, source: ProgramSource) -> ProgramSource:
        """The first source of that StableHLO. XLA numbers the parts of HLO otherwise each time that it makes some."""
        return self._first.setdefault(replace(source, hlo=b""), source)


def _in_detail(programs: Iterable[ProgramProfile]) -> frozenset[int]:
    """The keys of the programs whose values' lives are recorded."""
    by_cycles = sorted(programs, key=lambda program: (-program.cycles.total, program.key))
    fullest = max(by_cycles, key=lambda program: program.peak_tile_bytes, default=None)
    return frozenset(program.key for program in (*by_cycles[:MOST_IN_DETAIL], *([fullest] if fullest else [])))


def _with_source(
    compiled: RecordedCompilation | None, source: ProgramSource, plans: _Plans, *, hlo: bool, memory: bool
) -> RecordedCompilation:
    """A program with what its source tells. Args: compiled: None: it never ran. plans: of this recording."""
    text = source.text if hlo or memory or compiled is None else None
    program = None if compiled is None else compiled.program
    planned, detail = (program, None) if program is not None and not memory else plans.plan(source, program, text)
    return RecordedCompilation(
        program=planned if compiled is None else compiled.program,
        detail=detail if memory else None,
        fingerprint=plans.fingerprint(source),
        hlo=text if hlo else None,
        options=source.options,
        origin=("jax" if is_jax_program(source.name) else "user") if compiled is None else compiled.origin,
        group="" if compiled is None else compiled.group,
    )


def measured(player: Player, begin: Begin) -> Measurement:
    """The measurement from a begin to now. Waits for programs that count as they run."""
    programs, engine = player.programs, player.settings.engine
    return measurement_of(player.system, begin, player.mark(), engine, dict(programs.sources), dict(programs.refused))


def measurement_of(
    system: System,
    begin: Begin,
    end: Mark,
    engine: EngineOptions,
    sources: Mapping[int, ProgramSource],
    refused: Mapping[int, RefusedProgram] = MappingProxyType({}),
) -> Measurement:
    """The measurement between two moments of a system. Args: refused: programs that did not fit, so that they never ran."""
    history = None if begin.history is None else history_since(system, begin.history)
    profile = profile_between(
        system,
        begin.mark,
        end,
        of_jax=is_jax_program,
        history=history,
        sources={key: _source(source) for key, source in sources.items()},
        notes=engine.notes,
        refused=[_need(each) for each in refused.values()],
    )
    unfit = [Unfit(program=each.program, source=_source(each.source), machine=each.source.machine) for each in refused.values()]
    return Measurement(
        profile=replace(profile, unfit=unfit),
        span=SimulationSpan(system=system, begin=begin.mark, end=end, history=history),
        sources=sources,
        engine=engine,
        refused={key: each.source for key, each in refused.items()},
    )


def _source(source: ProgramSource) -> Source:
    return Source(text=partial(compat.hlo_text, source.hlo), options=source.options)


def _need(refused: RefusedProgram) -> Need:
    """What a program needs that was refused for it."""
    _, source, ipu, error = refused
    of_tile = isinstance(error, TileMemoryError) and not error.of_code
    if isinstance(error, TileMemoryError):
        where = f"each tile of IPU {ipu} for code" if error.of_code else f"tile {error.tile:,} of IPU {ipu}"
    else:
        where = f"IPU-Machine {error.ipu_machine} for pinned_host"
    needed, available = error.needed_bytes, error.available_bytes
    return Need(what=source.name, where=where, needed_bytes=needed, available_bytes=available, of_tile=of_tile, ran=False)
