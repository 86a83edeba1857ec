"""Whether the IPUs of a session hold its programs, what takes the most there, and what recomputation would free."""

import math
from typing import Final, NamedTuple

import numpy as np

from tilestep.errors import StreamingMemoryError, TileMemoryError
from tilestep.machine.spec import MachineSpec
from tilestep.plan.memory.liveness import check_fits
from tilestep.plan.memory.streaming import check_streaming_memory
from tilestep.popart.exceptions import OutOfMemoryException
from tilestep.popart.session.emulation.notes import Notes
from tilestep.popart.session.emulation.play import SessionPlay
from tilestep.popart.session.emulation.program import EmulatedProgram

_ANYWAY: Final = """POPLAR_ENGINE_OPTIONS='{"debug.allowOutOfMemory":"true"}' runs it anyway and says so"""
_HOW_TO_KEEP: Final = """engineOptions["autoReport.all"] = "true" keeps the program's memory step by step"""
_OUT_OF_MEMORY: Final = "Out of memory: Cannot fit all variable data onto one or more tiles"


def out_of_memory(error: TileMemoryError | StreamingMemoryError, *, summary: str, path: str, first: str = "") -> OutOfMemoryException:
    """The exception.

    Args: summary: of the program's memory. path: of the program's recording; '' if none was kept. first: what to try before all else.
    """
    ways = "; ".join(filter(None, (first, _way_out(error))))
    message = f"{_OUT_OF_MEMORY}: {error.facts}\n  try: {ways}; {_ANYWAY}\n  report: {path or _HOW_TO_KEEP}"
    return OutOfMemoryException(message, summary=summary, profile_path=path)


def _way_out(error: TileMemoryError | StreamingMemoryError) -> str:
    """What may help a program that does not fit, in PopART's words."""
    if isinstance(error, StreamingMemoryError):
        return "fewer batches in a step (DataFlow), or fewer anchors"
    if error.of_code:
        return "a loop over equal layers (aiOnnx.loop), or a model in several sessions"
    return "a smaller microbatch, with gradient accumulation in training; FLOAT16; more tiles (tilesPerIPU)"


_MOST_PLANNED: Final = 1 << 40  # bytes of an input: more is not even tried
_LARGE_SHARE: Final = 0.25  # share of the bytes that an IPU needs on a tile


class StageUnfit(NamedTuple):
    """What does not fit.

    Attributes:
        error: for a program, or for the programs of an IPU together.
        key: of that program, or of the largest of those.
    """

    error: TileMemoryError | StreamingMemoryError
    key: int


def too_large(machine: MachineSpec, program: EmulatedProgram) -> TileMemoryError | None:
    """The error for an input that all tiles of an IPU together do not hold, so that nothing is planned for it. None: there is none."""
    tiles, available = machine.ipu.num_tiles, machine.ipu.tile.sram_bytes
    parts = [
        (name, -(-math.prod(spec.shape) * np.dtype(spec.dtype).itemsize // tiles))
        for name, spec in zip(program.stages.inputs, program.stages.elements, strict=False)
    ]
    parts.sort(key=lambda part: -part[1])
    if not parts or parts[0][1] * tiles <= _MOST_PLANNED:
        return None
    return TileMemoryError(tile=0, superstep="program start", needed_bytes=parts[0][1], available_bytes=available, largest=parts)


def unfit(play: SessionPlay, machine: MachineSpec, program: EmulatedProgram) -> StageUnfit | None:
    """The program, or programs of an IPU together, that needs most of what does not fit. None: all fit."""
    ipus = range(machine.num_ipus)
    found: StageUnfit | None = None
    programs = play.player.system.programs
    for key in sorted(programs, key=lambda key: programs[key].memory.peak_bytes):
        try:
            check_fits(programs[key], machine)
            check_streaming_memory(programs[key], machine, ipus[: programs[key].num_ipus])
        except (TileMemoryError, StreamingMemoryError) as error:
            found = StageUnfit(error, key)
    if found is not None:
        return found
    available = machine.ipu.tile.sram_bytes
    for ipu in ipus:
        use = play.uses[ipu]
        if use.peak_bytes > available:
            waiting, kept = _waiting_bytes(play, ipu), _stash(program, ipu)
            what = (
                f"activations of up to {kept} microbatches, which wait for backward" if kept > 1 else "values that wait for other programs"
            )
            parts = {
                "code": use.code_bytes - use.shared_bytes,
                "stacks and the like": use.fixed_bytes,
                "values that stay": use.resident_bytes,
                "values of the largest program": use.transient_bytes - waiting,
                what: waiting,
            }
            error = TileMemoryError(
                tile=0,
                superstep=f"the programs of IPU {ipu}",
                needed_bytes=use.peak_bytes,
                available_bytes=available,
                largest=sorted(((name, size) for name, size in parts.items() if size), key=lambda part: -part[1]),
            )
            return StageUnfit(error, max(_keys_on(play, ipu), key=lambda key: programs[key].memory.peak_bytes))
    return None


def way_out_of_stash(notes: Notes, play: SessionPlay, program: EmulatedProgram) -> str:
    """What recomputation would do for a session in which an IPU does not fit that keeps many activations: it is planned.

    Returns: '' where no such IPU keeps many, recomputation is on, or it would free nothing.
    """
    available = notes.machine.ipu.tile.sram_bytes
    full = [ipu for ipu, use in enumerate(play.uses) if use.peak_bytes > available]
    large = [ipu for ipu in full if _stash(program, ipu) > 1 and _waiting_bytes(play, ipu) >= _LARGE_SHARE * play.uses[ipu].peak_bytes]
    if not large or program.recomputed is None:
        return ""
    again = program.recomputed()
    planned = SessionPlay(notes, again)
    if planned.uses[large[0]].peak_bytes >= play.uses[large[0]].peak_bytes:
        return ""
    edit = "options.autoRecomputation = RecomputationType.Pipeline, with which IPU"
    if unfit(planned, notes.machine, again) is not None:
        worst = max(full, key=lambda ipu: planned.uses[ipu].peak_bytes)
        return f"{edit} {worst} needs {planned.uses[worst].peak_bytes:,} B of a tile, which is not enough by itself"
    return f"{edit} {large[0]} needs {planned.uses[large[0]].peak_bytes:,} B of a tile, and all fit"


def _waiting_bytes(play: SessionPlay, ipu: int) -> int:
    """Bytes on the fullest tile of what waits for other programs of the IPU, beyond what its largest program needs by itself."""
    return play.uses[ipu].waiting_bytes(play.start.programs[key].program for key in _keys_on(play, ipu))


def _keys_on(play: SessionPlay, ipu: int) -> list[int]:
    return [key for (_, of_ipu), group in play.start.groups.items() if of_ipu == ipu for key in group.members]


def _stash(program: EmulatedProgram, ipu: int) -> int:
    """The most microbatches whose values a stage of an IPU keeps for backward. The stage of the loss keeps none: its two parts are one."""
    schedule = program.schedule
    kept = schedule.stash()[:-1]
    homes = [program.ipus[device] for device in schedule.device_mapping][: len(kept)]
    return max((count for count, home in zip(kept, homes, strict=True) if home == ipu % program.num_ipus), default=0)
