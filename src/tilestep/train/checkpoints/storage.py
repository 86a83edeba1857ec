"""A folder of checkpoints on Orbax: one part for each process, whole or not there, each array with a digest of its bytes.

Each process saves its own arrays, because Orbax's own handlers refuse arrays that only one of several processes has, and a pipeline's
stages are such. Orbax writes a part beside its place and moves it there when it is whole.
So DIRECTORY/process-K is a folder of Orbax's with the steps that process K has saved. A step is there when all of its processes have it.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib
import re
import shutil
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from tilestep.errors import CheckpointError, UnsupportedError
from tilestep.train.checkpoints.metadata import Metadata, Stored, as_json, dtype_of, read, size_bytes

_ARRAYS: Final = "arrays"
_METADATA: Final = "metadata"
_PART: Final = re.compile(r"process-(\d{1,6})")
_STEP: Final = re.compile(r"\d{1,18}")
_LEFT: Final = re.compile(r"orbax-checkpoint-tmp|\.dropped")
_NAME: Final = re.compile(r"[af]\d{1,9}(\.\d{1,9})?")
_PLAIN_KINDS: Final = "biufc"


class _Orbax(NamedTuple):
    """What is used of Orbax. Attributes: save, restore: arguments for files of arrays, with the names of all. handler: of them."""

    library: Any
    save: Any
    restore: Any
    handler: Any


@functools.cache
def _orbax() -> _Orbax:
    """Raises: UnsupportedError where it is not installed."""
    try:
        ocp: Any = importlib.import_module("orbax.checkpoint")
    except ImportError as error:
        raise UnsupportedError(f"checkpoints need Orbax ({error}): pip install 'tilestep[checkpoints]'") from None

    class FilesHandler(ocp.CheckpointHandler):  # type: ignore[misc]
        """An array in each file, in NumPy's format without pickles. Orbax's own handler saves NumPy's arrays in process 0 alone."""

        def save(self, directory: Any, args: Any) -> None:
            for name, array in args.arrays.items():
                with (directory / name).open("wb") as file:
                    np.lib.format.write_array(file, _saved(array), allow_pickle=False)

        def restore(self, directory: Any, args: Any) -> dict[str, NDArray[Any]]:
            return {name: self._read(directory / name) for name in args.names}

        def _read(self, path: Any) -> NDArray[Any]:
            with path.open("rb") as file:
                return np.lib.format.read_array(file, allow_pickle=False)

    @ocp.args.register_with_handler(FilesHandler, for_save=True)
    @dataclass
    class SaveFiles(ocp.args.CheckpointArgs):  # type: ignore[misc]
        arrays: Mapping[str, NDArray[Any]]

    @ocp.args.register_with_handler(FilesHandler, for_restore=True)
    @dataclass
    class RestoreFiles(ocp.args.CheckpointArgs):  # type: ignore[misc]
        names: Collection[str]

    return _Orbax(ocp, SaveFiles, RestoreFiles, FilesHandler)


def require_installed() -> None:
    """Raises: UnsupportedError where Orbax is not installed."""
    _orbax()


def digest(array: NDArray[Any]) -> str:
    """SHA-256 of an array's bytes, row by row."""
    return hashlib.sha256(memoryview(np.ascontiguousarray(array).reshape(-1).view(np.uint8))).hexdigest()  # pyright: ignore[reportArgumentType]


@final
class Storage:
    """The checkpoints of a directory, of which this process writes one part.

    Args: directory: of all parts. process: of this part. keep: newest checkpoints that stay; None: all.
    """

    def __init__(self, directory: Path, process: int, keep: int | None) -> None:
        self.directory = directory
        self._process, self._keep = process, keep

    def write(self, metadata: Metadata, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Saves this process's part of a step. Raises: CheckpointError naming the folder if that cannot be done."""
        ocp, save, _, _ = _orbax()
        part = self._folder(self._process)
        with _told(f"the checkpoint of step {metadata.step:,} in {self.directory} was not saved"):
            part.mkdir(parents=True, exist_ok=True)
            for folder in sorted(part.iterdir()):
                # What a process that was killed has left; and steps from this one on, which other processes ended without.
                if _LEFT.search(folder.name) or (_STEP.fullmatch(folder.name) and int(folder.name) >= metadata.step):
                    _drop(folder)
            items = {_METADATA: ocp.args.JsonSave(as_json(metadata)), _ARRAYS: save(arrays)}
            with self._checkpointer() as checkpointer:
                checkpointer.save(part / str(metadata.step), args=ocp.args.Composite(**items))
            for step in sorted(int(folder.name) for folder in part.iterdir() if _STEP.fullmatch(folder.name))[
                : -self._keep if self._keep else 0
            ]:
                _drop(part / str(step))

    def _folder(self, process: int) -> Path:
        return self.directory / f"process-{process}"

    def _checkpointer(self) -> contextlib.closing[Any]:
        """Orbax for this process alone: it waits for no other."""
        ocp, _, _, files = _orbax()
        process = self._process
        alone = ocp.options.MultiprocessingOptions(
            primary_host=process, active_processes={process}, barrier_sync_key_prefix=f"process-{process}"
        )
        handlers = {_METADATA: ocp.JsonCheckpointHandler(multiprocessing_options=alone), _ARRAYS: files()}
        handler = ocp.CompositeCheckpointHandler(composite_options=ocp.CompositeOptions(multiprocessing_options=alone), **handlers)
        return contextlib.closing(ocp.Checkpointer(handler, multiprocessing_options=alone))

    def steps(self) -> list[int]:
        """The steps that all of their processes have saved, in order."""
        parts = self._parts()
        found: set[int] = set().union(*parts.values())
        return sorted(step for step in found if self._is_whole(step, parts))

    def _is_whole(self, step: int, parts: Mapping[int, Collection[int]]) -> bool:
        own = [process for process, steps in parts.items() if step in steps]
        return set(range(self.metadata(step, own[0]).processes)) <= set(own)

    def _parts(self) -> dict[int, set[int]]:
        """The steps that each process has saved. A part that is being written has another name."""
        try:
            folders = sorted(self.directory.iterdir()) if self.directory.exists() else []
            parts = {int(match[1]): folder for folder in folders if (match := _PART.fullmatch(folder.name))}
            return {
                process: {int(step.name) for step in folder.iterdir() if _STEP.fullmatch(step.name) and (step / _METADATA).is_dir()}
                for process, folder in parts.items()
            }
        except OSError as error:
            raise CheckpointError(f"checkpoints in {self.directory} cannot be listed: {error.strerror or error}") from None

    def metadata(self, step: int, process: int) -> Metadata:
        """What a process has saved at a step. Raises: CheckpointError if that is damaged."""
        ocp, where = _orbax().library, self._folder(process) / str(step)
        with _told(f"{where} cannot be read"), self._checkpointer() as checkpointer:
            value = checkpointer.restore(where, args=ocp.args.Composite(**{_METADATA: ocp.args.JsonRestore()}))[_METADATA]
        metadata = read(value, str(where))
        if (metadata.step, metadata.process) != (step, process):
            raise CheckpointError(f"{where} says that it is step {metadata.step:,} of process {metadata.process}: it was moved")
        return metadata

    def arrays(self, metadata: Metadata) -> dict[str, NDArray[Any]]:
        """All arrays of a part by name, each as its digest wants it. Raises: CheckpointError, which names the leaf that is damaged."""
        orbax, where = _orbax(), self._folder(metadata.process) / str(metadata.step)
        if odd := next((name for name in metadata.arrays if not _NAME.fullmatch(name)), None):
            raise CheckpointError(f"{where} names a file {odd[:40]!r}, which no checkpoint has")
        args = orbax.library.args.Composite(**{_ARRAYS: orbax.restore(tuple(metadata.arrays))})
        with _told(f"{where} cannot be read"), self._checkpointer() as checkpointer:
            found = checkpointer.restore(where, args=args)[_ARRAYS]
        paths = {piece.array.name: leaf.path for leaf in metadata.leaves for piece in leaf.pieces}
        arrays: dict[str, NDArray[Any]] = {}
        for name, array in metadata.arrays.items():
            value = _loaded(found[name], array)
            if value is None or digest(value) != array.sha256:
                raise CheckpointError(
                    f"{where} is damaged: {paths.get(name, 'a state of a feed')} is not what was saved (its SHA-256 differs); restore an "
                    "earlier step"
                )
            arrays[name] = value
        return arrays


def _drop(folder: Path) -> None:
    """Removes a folder, which is no checkpoint from the beginning of that on."""
    if _STEP.fullmatch(folder.name):
        folder = folder.rename(folder.with_name(f"{folder.name}.dropped"))
    shutil.rmtree(folder)


@contextlib.contextmanager
def _told(what: str) -> Iterator[None]:
    """Orbax and tensorstore raise errors of many types for a damaged or full disk: each becomes one that names the folder."""
    try:
        yield
    except CheckpointError:
        raise
    except Exception as error:
        reason = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise CheckpointError(f"{what}: {reason[:300]}") from error


def _saved(array: NDArray[Any]) -> NDArray[Any]:
    """As a file keeps it: numbers that NumPy's format does not know as bytes."""
    array = np.ascontiguousarray(array).reshape(array.shape)
    return array if array.dtype.kind in _PLAIN_KINDS and array.dtype.isbuiltin == 1 else array.reshape(-1).view(np.uint8)


def _loaded(array: NDArray[Any], wanted: Stored) -> NDArray[Any] | None:
    """The array that was saved; None if it has another size."""
    if array.nbytes != size_bytes(wanted) or array.dtype.hasobject:
        return None
    return np.ascontiguousarray(array).reshape(-1).view(dtype_of(wanted.dtype)).reshape(wanted.shape)
