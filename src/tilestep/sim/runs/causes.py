"""Keeps events of IPUs and links with what decided when they began. Called only while events are kept."""

from collections.abc import Sequence

from tilestep.plan.steps import Counts
from tilestep.sim.runs.run import ProgramRun, RunPart
from tilestep.sim.state.prepared import PreparedProgram
from tilestep.sim.state.residency import IpuState, Value
from tilestep.sim.trace import DISPATCH, NO_EVENT, TRANSFER, WAIT, Lane, LaneKind, PipelineTask, Recorder, RunRow, Trip


def note(
    recorder: Recorder,
    state: IpuState,
    start: int,
    end: int,
    kind: int,
    key: int,
    run: ProgramRun | None = None,
    part: RunPart | None = None,
) -> None:
    """Keeps an event of an IPU."""
    cause = cause_of(recorder, state, start, run, part)
    state.event = recorder.add(state.index, start, end, kind, key, NO_EVENT if run is None else run.number, cause)
    state.event_end = end


def note_transfer(recorder: Recorder, lane: Lane, start: int, end: int, key: int, run: int, cause: int = NO_EVENT) -> None:
    """Keeps a transfer within a longer event of an IPU: it decides nothing.

    Args: cause: of the longer event, for a transfer that begins in the middle of it.
    """
    ended = recorder.ended_at(start)
    recorder.add(recorder.lane(lane), start, end, TRANSFER, key, run, cause if ended == NO_EVENT else ended, decides=False)


def note_move(recorder: Recorder, link: LaneKind, machine_index: int, start: int, end: int, value: Value) -> None:
    """Keeps a transfer between host and streaming memory."""
    key = 0 if value.made_by is None else value.made_by.key
    lane = recorder.lane(Lane(link, machine_index))
    value.event = recorder.add(lane, start, end, TRANSFER, key, NO_EVENT, recorder.ended_at(start))


def note_beside(recorder: Recorder, state: IpuState, kind: int, pieces: tuple[tuple[int, int], ...], key: int, run: ProgramRun) -> None:
    """Keeps what the I/O tiles do beside the others, piece by piece: it decides nothing."""
    lane = recorder.io_lane(state.index)
    for begin, end in pieces:
        recorder.add(lane, begin, end, kind, key, run.number, cause_of(recorder, state, begin, run), decides=False)


def note_link_beside(
    recorder: Recorder, state: IpuState, link: LaneKind, span: tuple[int, int], key: int, run: ProgramRun, *, decides: bool
) -> None:
    """Keeps the link's part of a transfer of the I/O tiles."""
    begin, end = span
    lane, cause = recorder.lane(Lane(link, state.machine)), cause_of(recorder, state, begin, run)
    recorder.add(lane, begin, end, TRANSFER, key, run.number, cause, decides=decides)


def cause_of(recorder: Recorder, state: IpuState, start: int, run: ProgramRun | None, part: RunPart | None = None) -> int:
    """The event whose end decided that the IPU begins something at `start`: its own, if that ended then."""
    if state.event_end == start and state.event >= 0:
        return state.event
    if part is not None and part.ready == start and part.cause >= 0:
        return part.cause
    if run is not None and run.host == start and run.host_event >= 0:
        return run.host_event
    return recorder.ended_at(start)


def freed_by(recorder: Recorder, state: IpuState) -> int:
    """The event whose end has freed the IPU: its own, or that of another which it waited for."""
    return state.event if state.event_end == state.free else recorder.ended_at(state.free)


def note_dispatch(
    recorder: Recorder,
    prepared: PreparedProgram,
    number: int,
    span: tuple[int, int],
    group: tuple[str, int] | None,
    task: PipelineTask | None,
    counts: Sequence[Counts],
) -> None:
    """Keeps a dispatch, and what it counts.

    Args: number: of the dispatch. span: cycles of the host's clock before and after it.
    """
    begin, end = span
    key = prepared.ledger.key
    if end > begin:
        recorder.add_of_host(begin, end, DISPATCH, key, number, recorder.host_event)
    name, entry = group or ("", 0)
    recorder.add_run(RunRow(number, key, end, name, entry, task))
    if prepared.body.counted:
        for position, counted in enumerate(counts):
            recorder.trips.extend(Trip(number, position, site, arm, times) for (site, arm), times in counted.times.items())


def note_wait(recorder: Recorder, begin: int, end: int, value: Value) -> None:
    """Keeps a wait of the host for a value. Its cause is what made the value available."""
    cause = value.event if value.event >= 0 else recorder.ended_at(end)
    recorder.add_of_host(begin, end, WAIT, 0 if value.made_by is None else value.made_by.key, NO_EVENT, cause)
