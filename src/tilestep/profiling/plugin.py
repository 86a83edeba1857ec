"""Where JAX finds the platform: the `jax_plugins` entry point. What reports, traces and profilers need is imported when they are wanted."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from tilestep.pjrt import plugin
from tilestep.pjrt.running.door import Door, Reports
from tilestep.tracing import process as tracing

if TYPE_CHECKING:
    from tilestep.engine_options import EngineOptions
    from tilestep.recording.storage.container import Builder


@functools.cache
def initialize() -> None:
    """Registers the platform. JAX calls this, perhaps more than once. It starts nothing."""
    plugin.initialize(Door(reports=_reports, profiler_session=_profiler_session, at_exit=_at_exit))
    tracing.include(add_emulated)


def _reports(engine: EngineOptions) -> Reports:
    from tilestep.profiling.program_reports import ProgramReports

    return ProgramReports(engine)


def _profiler_session(options: bytes) -> Any:
    from tilestep.profiling.profiler import ProfilerSession

    return ProfilerSession(options)


def _at_exit() -> None:
    write_report()
    tracing.close()  # while the journal can still be replayed


def add_emulated(builder: Builder) -> None:
    """Adds what happened on the emulated machine to the trace of this process."""
    from tilestep.pjrt.table.client import started_client

    client = started_client()
    if client is not None and client.in_use:
        from tilestep.profiling.measurement import measured

        measured(client.player, client.player.origin).add_to(builder, journal=False, hlo=False, lines=True)


def write_report() -> None:
    """Writes the profile of the whole process if POPLAR_ENGINE_OPTIONS asks for it.

    The program has ended as it did: a report that cannot be written is told on stderr, and the exit status stays.
    """
    from tilestep.pjrt.table.client import started_client

    client = started_client()
    if client is None or not client.in_use:
        return
    engine = client.settings.engine
    if engine.directory is None or not engine.execution_profile:
        return
    from tilestep.errors import RecordingError
    from tilestep.files import writable_directory
    from tilestep.profiling.measurement import measured
    from tilestep.views.files import tell_unwritten, unwritten, write_report

    measurement = measured(client.player, client.player.origin)
    recording = None
    try:
        recording = measurement.recording(lines=engine.debug_info, hlo=engine.serialized_graph, memory=engine.graph_profile)
    except RecordingError as error:
        tell_unwritten(unwritten(error))
    try:
        directory = writable_directory(engine.directory)
        tell_unwritten(write_report(measurement.profile, directory, recording=recording, lines=not engine.hides_lines))
    except (OSError, RecordingError) as error:
        tell_unwritten(unwritten(error))
