"""A history in the tables of a recording, and back."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import numpy as np

from tilestep import typed_json
from tilestep.errors import RecordingError, StoredError
from tilestep.hints import EffectiveBatch
from tilestep.plan.serialized import program_of
from tilestep.plan.steps import Program
from tilestep.recording.history import History
from tilestep.recording.machine import machine_from_document
from tilestep.recording.storage.container import Builder, Tables
from tilestep.recording.storage.texts import from_json
from tilestep.recording.tables import json_text
from tilestep.sim import snapshot as snapshots
from tilestep.sim.call_log import MAX_NUMBERS
from tilestep.sim.calls import CallNames, Calls, HostLine
from tilestep.sim.snapshot import Snapshot

T = TypeVar("T")
_SNAPSHOT_CLASSES = typed_json.classes_of(snapshots)


@dataclass(frozen=True, kw_only=True)
class _Lines:
    lines: tuple[HostLine, ...]


_MOST_NOTE: Final = 2**31 - 1
_NAME_CLASSES = {"CallNames": CallNames, "EffectiveBatch": EffectiveBatch}


def put_history(builder: Builder, history: History, *, lines: bool = True) -> None:
    """Adds the calls and the snapshot to a recording. Its programs and its machine are put by others.

    Args: lines: whether lines of the user's source are kept.
    """
    calls = history.calls
    if len(calls):
        builder.extend("calls", call=np.frombuffer(calls.kinds, np.uint8))
        builder.extend("numbers", number=np.frombuffer(calls.numbers, np.int64))
    if lines and any(calls.notes):
        builder.extend("call_notes", note=np.frombuffer(calls.notes, np.intc).astype(np.int64))
        builder.put_json("call_lines", calls.lines)
    builder.put_text("call_names", typed_json.dump(calls.names))
    builder.put_text("snapshot", typed_json.dump(history.snapshot))


def has_history(tables: Tables) -> bool:
    """Whether the journal was kept."""
    return bool(tables.text("snapshot"))


def calls_of(tables: Tables) -> Calls:
    """The calls of a recording's journal, without the programs that they need.

    Raises: RecordingError if the journal was not kept, or is damaged.
    """
    if not has_history(tables):
        raise RecordingError("this recording has no journal, so it cannot be played again: record it with one")
    names = _loaded(tables, "call_names", CallNames, _NAME_CLASSES)
    rows = tables.rows("numbers")
    if rows > MAX_NUMBERS:
        raise RecordingError(f"the journal of the recording has {rows:,} numbers: at most {MAX_NUMBERS:,} are played again")
    return Calls(
        kinds=array("B", tables.column("calls", "call").tobytes()),
        numbers=array("q", tables.column("numbers", "number").tobytes()),
        names=names,
        notes=_notes(tables),
        lines=_lines(tables),
    )


def history_of(tables: Tables) -> History:
    """The history of a recording.

    Raises: RecordingError if the journal was not kept, or is damaged.
    """
    if not has_history(tables):
        raise RecordingError("this recording has no journal, so it cannot be played again: record it with one")
    return History(
        machine=machine_from_document(json_text(tables, "machine")),
        programs=programs_of(tables),
        snapshot=_loaded(tables, "snapshot", Snapshot, _SNAPSHOT_CLASSES),
        calls=calls_of(tables),
    )


def _notes(tables: Tables) -> array[int]:
    """Of each call; none if they were not kept. Raises: RecordingError if they are not as many as the calls."""
    notes = tables.column("call_notes", "note")
    if len(notes) not in (0, tables.rows("calls")):
        raise RecordingError(f"the recording has notes of {len(notes):,} calls: it has {tables.rows('calls'):,} calls")
    if len(notes) and not 0 <= int(notes.min()) <= int(notes.max()) <= _MOST_NOTE:
        raise RecordingError(f"notes of calls go from {notes.min()} to {notes.max()}: they must stay within 0 to {_MOST_NOTE}")
    return array("i", notes.astype(np.intc).tobytes())


def _lines(tables: Tables) -> tuple[HostLine, ...]:
    """Of the host program. Raises: RecordingError if they are damaged."""
    found: Any = json_text(tables, "call_lines") or []
    try:
        return typed_json.checked(["_Lines", found], _Lines, {"_Lines": _Lines}, "text 'call_lines' of the recording").lines
    except StoredError as error:
        raise RecordingError(str(error)) from None


def programs_of(tables: Tables) -> dict[int, Program]:
    """The programs of a recording by key, without those whose tree was not kept. Raises: RecordingError if one is damaged."""
    keys: list[int] = tables.column("programs", "key").tolist()
    trees: Any = json_text(tables, "trees") or []
    if not isinstance(trees, list) or len(trees) != len(keys):
        raise RecordingError(f"text 'trees' of the recording must be a list of {len(keys)} programs")
    try:
        return {key: program_of(tree) for key, tree in zip(keys, trees, strict=True) if tree is not None}
    except StoredError as error:
        raise RecordingError(f"text 'trees' of the recording: {error}") from None


def _loaded(tables: Tables, name: str, declared: type[T], classes: dict[str, type] | Any) -> T:
    what = f"text '{name}' of the recording"
    try:
        return typed_json.checked(from_json(tables.text(name), what=what), declared, classes, what)
    except StoredError as error:
        raise RecordingError(str(error)) from None
