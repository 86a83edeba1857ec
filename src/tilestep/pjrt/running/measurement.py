"""What happened from the begin of a recording to its end: a profile at once, and a recording if somebody wants to keep it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import jax

from tilestep.engine_options import BLOCKS_FILTER, PROGRAMS_FILTER, EngineOptions
from tilestep.errors import RecordingError
from tilestep.pjrt.jax_private import compat
from tilestep.pjrt.running.jax_programs import is_jax_program
from tilestep.pjrt.running.journal import Begin, Journal
from tilestep.pjrt.running.program_source import ProgramSource
from tilestep.plan.steps import Branch, Loop, Node, Series
from tilestep.program.frames import without_frames
from tilestep.record.capture import Compiled, Span, capture, notes_of
from tilestep.record.container import Builder, Tables
from tilestep.record.history import history_since
from tilestep.record.source_lines import source_files
from tilestep.record.sources import Source
from tilestep.regex import Regex
from tilestep.report import Profile, profile_between
from tilestep.report.reader.blocks import BLOCK_PROGRAMS, BLOCKS, scopes_of
from tilestep.sim import Mark, System

_MOST_NAMES: Final = 300_000  # characters of the names of blocks


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """A part of a simulation.

    Attributes:
        profile: its figures.
        span: the part.
        sources: of the programs that ran in it, by key.
        engine: options.
    """

    profile: Profile
    span: Span
    sources: Mapping[int, ProgramSource]
    engine: EngineOptions

    def recording(self, *, journal: bool = True, hlo: bool = True, lines: bool = True, memory: bool = True) -> Tables:
        """The recording of it. Each program is planned again for its detail.

        Args: journal: whether the calls are kept, so that it can be played again. hlo: whether the programs' HLO is kept, so that they can
            be planned for another machine. lines: whether lines of the user's source are kept. memory: whether the lives of values are.
        """
        engine, history = self.engine, self.span.history if journal else None
        stated = notes_of(history, jax=jax.__version__, engine_options=dict(engine.stated))
        builder = Builder(kind="run", notes={**stated, **self._chosen_blocks()})
        self.add_to(builder, journal=journal, hlo=hlo, lines=lines, memory=memory)
        return builder.tables()

    def add_to(self, builder: Builder, *, journal: bool, hlo: bool, lines: bool, memory: bool = True) -> None:
        """Adds the emulated part of a recording to one that is being made."""
        span = self.span if journal else Span(system=self.span.system, begin=self.span.begin, end=self.span.end, history=None)
        compiled = self._compiled(span, hlo=hlo, memory=memory)
        if not lines:
            compiled = {key: replace(of, hlo=None if of.hlo is None else without_frames(of.hlo)) for key, of in compiled.items()}
        capture(builder, span, compiled, runs_in_detail=self.engine.runs_in_detail, lines=lines)
        document = self.profile.as_document()
        document.pop("timeline", None)
        if lines:
            files = source_files(span.system.programs[program.key] for program in self.profile.programs)
            if files:
                builder.put_json("sources", files)
        else:
            document.pop("findings", None)  # they name lines
        builder.put_json("profile", document)

    def _chosen_blocks(self) -> dict[str, list[str]]:
        """The names of scopes and of programs that the process's filters choose, for each filter that was stated.

        Raises: RecordingError if they are too many for a manifest, or matching takes too long.
        """
        engine, programs = self.engine, [self.span.system.programs[program.key] for program in self.profile.programs]
        chosen: dict[str, list[str]] = {}
        if engine.blocks is not None:
            names = {name for program in programs for scope in _scopes(program.body) for name in scopes_of(scope)}
            chosen[BLOCKS] = _matching(BLOCKS_FILTER, engine.blocks, names)
        if engine.programs is not None:
            chosen[BLOCK_PROGRAMS] = _matching(PROGRAMS_FILTER, engine.programs, {program.name for program in programs})
        for option, names in zip((BLOCKS_FILTER, PROGRAMS_FILTER), (chosen.get(BLOCKS, []), chosen.get(BLOCK_PROGRAMS, [])), strict=True):
            if (size := sum(map(len, names))) > _MOST_NAMES:
                raise RecordingError(
                    f"engine option {option} chooses {len(names):,} names of {size:,} characters together: a recording holds "
                    f"{_MOST_NAMES:,}; filter for fewer"
                )
        return chosen

    def _compiled(self, span: Span, *, hlo: bool, memory: bool) -> dict[int, Compiled]:
        """The programs of a span, those that ran in it first, and those that the process retains last."""
        profiled = {program.key: program for program in self.profile.programs}
        programs = span.system.programs
        needed = [*profiled, *(key for key in (span.history.programs if span.history else ()) if key not in profiled)]
        found: dict[int, Compiled] = {}
        for key in needed:
            source, figures = self.sources.get(key), profiled.get(key)
            compiled = Compiled(
                program=programs[key],
                origin="user" if figures is None else figures.origin,
                group="" if figures is None else figures.group,
            )
            found[key] = compiled if source is None else _with_source(compiled, source, hlo=hlo, memory=memory)
        if self.engine.retain_debug_information:
            retained = ((key, source) for key, source in self.sources.items() if key not in found)
            found |= {key: _with_source(None, source, hlo=hlo, memory=memory) for key, source in retained}
        return found


def _matching(option: str, pattern: str, names: Iterable[str]) -> list[str]:
    """The names that an option's expression matches, sorted. Raises: RecordingError if that takes too long."""
    try:
        return sorted(Regex(pattern).matching(names))
    except ValueError as error:
        raise RecordingError(f"engine option {option} chooses nothing: {error}") from None


def _scopes(node: Node) -> Iterator[str]:
    """The scope of each leaf of a tree."""
    match node:
        case Series(nodes=nodes):
            for child in nodes:
                yield from _scopes(child)
        case Loop(body=body):
            yield from _scopes(body)
        case Branch(arms=arms):
            for arm in arms:
                yield from _scopes(arm)
        case leaf:
            yield leaf.scope


def _with_source(compiled: Compiled | None, source: ProgramSource, *, hlo: bool, memory: bool) -> Compiled:
    """A program with what its source tells. Args: compiled: None: it never ran."""
    text = source.text if hlo or memory or compiled is None else None
    planned, detail = source.detail(text) if memory or compiled is None else (compiled.program, None)
    return Compiled(
        program=planned if compiled is None else compiled.program,
        detail=detail if memory else None,
        fingerprint=source.fingerprint,
        hlo=text if hlo else None,
        options=source.options,
        origin=("jax" if is_jax_program(source.name) else "user") if compiled is None else compiled.origin,
        group="" if compiled is None else compiled.group,
    )


def measured(journal: Journal, begin: Begin) -> Measurement:
    """The measurement from a begin to now. Waits for programs that count as they run."""
    return measurement_of(journal.system, begin, journal.mark(), journal.settings.engine, dict(journal.sources))


def measurement_of(system: System, begin: Begin, end: Mark, engine: EngineOptions, sources: Mapping[int, ProgramSource]) -> Measurement:
    """The measurement between two moments of a system."""
    history = None if begin.history is None else history_since(system, begin.history)
    profile = profile_between(
        system,
        begin.mark,
        end,
        of_jax=is_jax_program,
        history=history,
        sources={key: Source(text=partial(compat.hlo_text, source.hlo), options=source.options) for key, source in sources.items()},
        notes=engine.notes,
    )
    return Measurement(
        profile=profile,
        span=Span(system=system, begin=begin.mark, end=end, history=history),
        sources=sources,
        engine=engine,
    )
