"""The exception of a session whose programs do not fit."""

from __future__ import annotations

from typing import Final

from tilestep.errors import StreamingMemoryError, TileMemoryError
from tilestep.popart.exceptions import OutOfMemoryException

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
