"""The exceptions that tilestep raises.

TilestepError
├── SettingsError (ValueError)     a flag, environment variable or option with a bad value
├── SpecError (ValueError)         a machine description that cannot be
├── HloError (ValueError)          a program text that the reader does not understand
├── StoredError (ValueError)       a serialised program that cannot be used here
├── RecordingError (ValueError)    a recording that is damaged, too large, or of a newer form
├── DatasetError (ValueError)      a dataset that ends early, or whose elements differ in form
├── CheckpointError (ValueError)   a checkpoint that cannot be saved, is damaged, or is of another program
├── QueueError (RuntimeError)      a feed of a training loop that is closed, in use, full or empty
├── NotFiniteError (FloatingPointError)  a step or a pipeline's microbatch that has made a NaN or an infinity
├── ProcessFailedError (RuntimeError)  another process of a pipeline has failed, or is gone
├── ReplicasDifferError            arrays that should be equal on all replicas and are not
├── UnsupportedError               something this build or platform cannot do
├── TileMemoryError (MemoryError)  a program that does not fit into the tiles
└── StreamingMemoryError (MemoryError)  a program whose values in pinned_host do not fit into streaming memory
KeyboardInterrupt
└── LoopInterrupt                  Ctrl-C in a training loop or pipeline, with what the loop had done
SystemExit
└── Preempted                      SIGTERM in a training loop or pipeline that has saved a checkpoint
"""

from __future__ import annotations

import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from tilestep.messages import printable

_SIGNALLED: Final = 128  # a shell's exit status for a program that a signal has ended, less the signal's number
_MOST_DIFFERENCES: Final = 8
_ANYWAY: Final = """POPLAR_ENGINE_OPTIONS='{"debug.allowOutOfMemory":"true"}' runs it anyway and says so"""
_WAYS_OUT: Final = "`tilestep run --dry-run` with the program says what would make it fit, and what that frees"
_HOW_TO_KEEP: Final = """POPLAR_ENGINE_OPTIONS='{"autoReport.all":"true"}' keeps the program's memory step by step"""
_DRIFTED: Final = (
    "the mean of gradients before the update (cross_replica(optimizer)), or of what else the replicas' own data changes "
    "(cross_replica_mean); equal random keys where draws change the carry"
)
_BEGAN_APART: Final = (
    "equal values in all processes before the loop, because they began it with different ones: the same random seed, and the same "
    "checkpoint restored in each"
)


class TilestepError(Exception):
    """Root of every exception that tilestep defines."""

    def __str__(self) -> str:
        """The message. Names in it may come from a stranger's file, so characters that a terminal would obey are written out."""
        return printable(super().__str__())


class SettingsError(TilestepError, ValueError):
    """A setting has a value that is not allowed. The message names the setting, the value and the allowed values."""


class SpecError(TilestepError, ValueError):
    """A machine description is wrong. The message names the field, the value and the bound."""


class HloError(TilestepError, ValueError):
    """An HLO module could not be read. The message names the line."""


class StoredError(TilestepError, ValueError):
    """A serialised program is damaged, or was made for another machine or by another version. The message says which."""


class RecordingError(TilestepError, ValueError):
    """A recording cannot be read or written. The message names the file, the part of it, what was found, and the bound."""


class DatasetError(TilestepError, ValueError):
    """A dataset ended early, or gave an element that cannot be fed. The message says at which element."""


class QueueError(TilestepError, RuntimeError):
    """A feed of a training loop cannot serve a call now: it is closed, in use by another loop, full, or empty."""


class CheckpointError(TilestepError, ValueError):
    """A checkpoint cannot be saved or restored. The message names the directory, the step, and what is wrong or differs."""


class Preempted(SystemExit):
    """SIGTERM came in a run that has checkpoints: it has saved one, and the program ends with status 143.

    Attributes:
        step: steps or updates done, which the newest checkpoint has.
        directory: of the checkpoints, a `pathlib.Path`.
    """

    def __init__(self, step: int, directory: Path) -> None:
        self.step, self.directory = step, directory
        super().__init__(_SIGNALLED + signal.SIGTERM)


class ReplicasDifferError(TilestepError):
    """Arrays that should be equal on all replicas differ.

    Args:
        differences: one `tilestep.train.ReplicaDifference` for each array.
        before_loop: whether no loop has run on them yet: processes have given it different carries.
    Attributes:
        differences: one `tilestep.train.ReplicaDifference` for each array: where it differs, and by how much.
    """

    def __init__(self, *, differences: Sequence[Any], before_loop: bool = False) -> None:
        self.differences = tuple(differences)
        some = "".join(f"\n  {difference}" for difference in self.differences[:_MOST_DIFFERENCES])
        more = f"\n  and {len(self.differences) - _MOST_DIFFERENCES:,} more" if len(self.differences) > _MOST_DIFFERENCES else ""
        super().__init__(
            f"{len(self.differences):,} array{'s differ' if len(self.differences) > 1 else ' differs'} between replicas{some}{more}\n"
            f"  try: {_BEGAN_APART if before_loop else _DRIFTED}"
        )


class NotFiniteError(TilestepError, FloatingPointError):
    """A stage of a pipeline, or a step of a loop, has made numbers that are not finite. They updated nothing.

    Attributes:
        path: the array with such numbers, for example "gradient of mlp/w1", "output 0" or "carry['w1']".
        stage: index of the stage; None for a loop.
        microbatch: index of the first microbatch with such numbers; None for a loop.
        step: index of the first step with such numbers, in the whole run of the loop; None for a pipeline.
        state: of the pipeline, after the last finished update.
    """

    def __init__(self, *, name: str, path: str, stage: int | None = None, microbatch: int | None = None, step: int | None = None) -> None:
        self.path, self.stage, self.microbatch, self.step = path, stage, microbatch, step
        super().__init__(
            f"step {step:,} of {name}, counted from 0, made a NaN or an infinity: {path}; its chunk of steps is not done"
            if step is not None
            else f"stage {stage} ({name}) of the pipeline made a NaN or an infinity with microbatch {microbatch}: {path}; the exception's "
            "state is that before the update"
        )


class ProcessFailedError(TilestepError, RuntimeError):
    """Another process of a pipeline has failed or has disappeared; the message says which, and how. Its results updated nothing.

    Attributes:
        process: index of the process.
        text: how it has failed.
        interrupted: whether a Ctrl-C ended it.
        state: of the pipeline, after the last finished update.
    """

    def __init__(self, *, process: int, name: str, text: str, interrupted: bool = False) -> None:
        self.process = process
        self.text = text
        self.interrupted = interrupted
        self.state: Any = None
        super().__init__(f"process {process} ({name}) {text}")


class UnsupportedError(TilestepError):
    """This platform or build cannot do what a call asks."""


class TileMemoryError(TilestepError, MemoryError):
    """A program needs more bytes on a tile than the tile has.

    Attributes:
        tile: index of the fullest tile.
        superstep: name of the superstep at which the tile is fullest.
        needed_bytes: bytes that the tile would need.
        available_bytes: bytes that the tile has.
        largest: (part, bytes per tile) of the largest parts, largest first.
        of_code: whether the bytes are code alone, and the bound is the part of a tile that can hold code.
        report: path of the report of the program's memory; '' if none was kept.
        facts: the message without what to try and where the report is.
    """

    def __init__(
        self,
        *,
        tile: int,
        superstep: str,
        needed_bytes: int,
        available_bytes: int,
        largest: Sequence[tuple[str, int]],
        of_code: bool = False,
        report: str = "",
    ) -> None:
        self.tile = tile
        self.superstep = superstep
        self.needed_bytes = needed_bytes
        self.available_bytes = available_bytes
        self.largest = tuple(largest)
        self.of_code = of_code
        self.report = report
        parts = ", ".join(f"{what} {size:,} B" for what, size in self.largest)
        needs = f"tile {tile} needs {needed_bytes:,} B in superstep '{superstep}' but has {available_bytes:,} B "
        if of_code:
            needs = f"each tile needs {needed_bytes:,} B of code but can execute {available_bytes:,} B "
        self.facts = f"{needs}({needed_bytes - available_bytes:,} B over)\n  largest: {parts}"
        super().__init__(f"{self.facts}\n  try: {_WAYS_OUT}; {_ANYWAY}\n  report: {report or _HOW_TO_KEEP}")

    def reported(self, report: str) -> TileMemoryError:
        """The same error, which names the report of the program's memory."""
        return TileMemoryError(
            tile=self.tile,
            superstep=self.superstep,
            needed_bytes=self.needed_bytes,
            available_bytes=self.available_bytes,
            largest=self.largest,
            of_code=self.of_code,
            report=report,
        )


class StreamingMemoryError(TilestepError, MemoryError):
    """A program keeps more bytes in pinned_host than the streaming memory of an IPU-Machine holds.

    Attributes:
        ipu_machine: index of the IPU-Machine.
        num_ipus: IPUs of the program in it.
        needed_bytes: bytes that these IPUs need there.
        available_bytes: bytes that the IPU-Machine has.
        largest: (argument or result, bytes of all these IPUs), largest first.
        report: path of the report of the program's memory; '' if none was kept.
        facts: the message without what to try and where the report is.
    """

    def __init__(
        self,
        *,
        ipu_machine: int,
        num_ipus: int,
        needed_bytes: int,
        available_bytes: int,
        largest: Sequence[tuple[str, int]],
        report: str = "",
    ) -> None:
        self.ipu_machine = ipu_machine
        self.num_ipus = num_ipus
        self.needed_bytes = needed_bytes
        self.available_bytes = available_bytes
        self.largest = tuple(largest)
        self.report = report
        parts = ", ".join(f"{what} {size:,} B" for what, size in self.largest)
        ipus = "1 IPU keeps" if num_ipus == 1 else f"{num_ipus} IPUs keep"
        self.facts = (
            f"IPU-Machine {ipu_machine}, in which {ipus} {needed_bytes:,} B in pinned_host, has {available_bytes:,} B of streaming memory "
            f"({needed_bytes - available_bytes:,} B over)\n"
            f"  largest: {parts}"
        )
        super().__init__(f"{self.facts}\n  try: {_WAYS_OUT}; {_ANYWAY}\n  report: {report or _HOW_TO_KEEP}")

    def reported(self, report: str) -> StreamingMemoryError:
        """The same error, which names the report of the program's memory."""
        return StreamingMemoryError(
            ipu_machine=self.ipu_machine,
            num_ipus=self.num_ipus,
            needed_bytes=self.needed_bytes,
            available_bytes=self.available_bytes,
            largest=self.largest,
            report=report,
        )


class LoopInterrupt(KeyboardInterrupt):
    """Ctrl-C came in a training loop. All steps that the loop began are done, so another loop can continue from `carry`.

    Attributes:
        carry: the result of the last finished step; of a pipeline its state, also as `state`.
        steps: finished steps of the loop, or updates of the pipeline.
        outputs: of a pipeline, the outputs of the last finished update. `step` would have returned them beside the state; `run` has sent
            them to its outfeed. None if no update is finished.
    """

    def __init__(self, *, carry: Any, steps: int, what: str = "steps of the loop", outputs: Any = None) -> None:
        self.carry = self.state = carry
        self.steps, self.outputs = steps, outputs
        super().__init__(f"interrupted after {steps:,} {what}")
