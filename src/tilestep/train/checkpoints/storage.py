"""A folder of checkpoints on Orbax: one part for each process, whole or not there, each array with a digest of its bytes.

Each process saves its own arrays, because Orbax's own handlers refuse arrays that only one of several processes has, and a pipeline's
stages are such. Orbax writes a part beside its place and moves it there when it is whole.
So DIRECTORY/process-K/STEP is what process K has saved: metadata.json, and a file in NumPy's format for each array. A step is there when
all of its processes have it. Files may come from anywhere: nothing is unpickled, and nothing larger than the metadata say is read.
A file or folder that is a link is refused: it could lead elsewhere.
"""

import contextlib
import functools
import hashlib
import importlib
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, final

import numpy as np
from numpy.typing import NDArray

from tilestep.errors import CheckpointError, UnsupportedError
from tilestep.files import opened_file, read_file
from tilestep.train.checkpoints.lock import require_no_link
from tilestep.train.checkpoints.metadata import Metadata, Stored, as_json, dtype_of, read, size_bytes

_METADATA: Final = "metadata.json"
_PART: Final = re.compile(r"process-(0|[1-9]\d{0,5})")
_STEP: Final = re.compile(r"0|[1-9]\d{0,17}")
_LEFT: Final = re.compile(r"\d+\.(orbax-checkpoint-tmp.*|dropped)")
_NAME: Final = re.compile(r"[af]\d{1,9}(\.\d{1,9})?")
_PLAIN_KINDS: Final = "biufc"
_MOST_METADATA_BYTES: Final = 1 << 25  # some 100,000 arrays; as objects of Python they take up to twenty times as much
_MOST_HEADER_BYTES: Final = 1 << 16


@functools.cache
def orbax() -> tuple[Any, Any]:
    """(a checkpointer's class, that of what it saves). Raises: UnsupportedError where Orbax is not installed."""
    try:
        ocp: Any = importlib.import_module("orbax.checkpoint")
    except ImportError as error:
        raise UnsupportedError(f"checkpoints need Orbax ({error}): pip install 'tilestep[checkpoints]'") from None

    class FilesHandler(ocp.CheckpointHandler):
        """Writes files; a part is read without Orbax."""

        def save(self, directory: Any, args: Any) -> None:
            for name, content in args.files.items():
                with open(os.fspath(directory / name), "wb") as file:
                    if not isinstance(content, bytes):
                        header = np.lib.format.header_data_from_array_1_0(content)
                        np.lib.format.write_array_header_2_0(file, header)
                        content = memoryview(content.reshape(-1).view(np.uint8))
                    file.write(content)
                    file.flush()
                    os.fsync(file.fileno())  # a renamed file is there in whole, even if the machine is taken back

        def restore(self, directory: Any, args: Any = None) -> None:
            """Orbax wants it; nobody calls it."""
            raise NotImplementedError

    @ocp.args.register_with_handler(FilesHandler, for_save=True, for_restore=True)
    @dataclass
    class Files(ocp.args.CheckpointArgs):
        files: Mapping[str, Any]

    def checkpointer(process: int) -> Any:
        """For one process alone: it waits for no other."""
        alone = ocp.options.MultiprocessingOptions(
            primary_host=process, active_processes={process}, barrier_sync_key_prefix=f"process-{process}"
        )
        return ocp.Checkpointer(FilesHandler(), multiprocessing_options=alone)

    return checkpointer, Files


def digest(array: NDArray[Any]) -> str:
    """SHA-256 of an array's bytes, row by row."""
    return hashlib.sha256(memoryview(np.ascontiguousarray(array).reshape(-1).view(np.uint8))).hexdigest()  # pyrefly: ignore[bad-argument-type]


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
        checkpointer, files = orbax()
        part, place = self.folder(self._process), self.folder(self._process, metadata.step)
        described = json.dumps(as_json(metadata)).encode()
        if len(described) > _MOST_METADATA_BYTES:
            raise CheckpointError(
                f"step {metadata.step:,} cannot be saved in {self.directory}: its {len(metadata.arrays):,} arrays and the states of its "
                f"feeds need {len(described):,} B of metadata, and {_MOST_METADATA_BYTES:,} B are read again: keep large states of "
                "feeds in arrays, or fewer arrays"
            )
        with _refusing(f"the checkpoint of step {metadata.step:,} in {self.directory} was not saved"):
            part.mkdir(parents=True, exist_ok=True)
            for folder in sorted(part.iterdir()):
                # What a process that was killed has left; and steps from this one on, which other processes ended without.
                if _LEFT.fullmatch(folder.name) or (_STEP.fullmatch(folder.name) and int(folder.name) >= metadata.step):
                    _drop(folder)
            content = {_METADATA: described, **{name: _saved(array) for name, array in arrays.items()}}
            try:
                with contextlib.closing(checkpointer(self._process)) as writer:
                    writer.save(place, args=files(content))
            except BaseException:
                for folder in part.glob(f"{place.name}.orbax-checkpoint-tmp*"):  # a full disk would stay full
                    shutil.rmtree(folder, ignore_errors=True)
                raise
        with _refusing(f"the checkpoint of step {metadata.step:,} in {self.directory} was saved, and an older one could not be removed"):
            own = sorted(int(folder.name) for folder in part.iterdir() if _STEP.fullmatch(folder.name))
            for step in own[: -self._keep] if self._keep else ():
                _drop(self.folder(self._process, step))

    def folder(self, process: int, step: int | None = None) -> Path:
        """What a process has saved, at a step or at all."""
        part = self.directory / f"process-{process}"
        return part if step is None else part / str(step)

    def steps(self) -> tuple[list[int], dict[int, CheckpointError]]:
        """(The steps that all of their processes have saved, in order; those whose metadata cannot be read, with the error)."""
        parts, steps, damaged = self._parts(), list[int](), dict[int, CheckpointError]()
        for step in sorted(set[int]().union(*parts.values())):
            own = {process for process, saved in parts.items() if step in saved}
            try:
                if all(process in own for process in range(self.metadata(step, min(own)).processes)):
                    steps.append(step)
            except CheckpointError as error:
                if self.folder(min(own), step).exists():  # else another process has just put away what a killed run has left
                    damaged[step] = error
        return steps, damaged

    def _parts(self) -> dict[int, set[int]]:
        """The steps that each process has saved. A part that is being written has another name."""
        try:
            folders = sorted(self.directory.iterdir()) if self.directory.exists() else []
            parts = {int(match[1]): folder for folder in folders if (match := _PART.fullmatch(folder.name))}
            return {
                process: {int(step.name) for step in folder.iterdir() if _STEP.fullmatch(step.name) and step.is_dir()}
                for process, folder in parts.items()
            }
        except OSError as error:
            raise CheckpointError(f"checkpoints in {self.directory} cannot be listed: {error.strerror or error}") from None

    def metadata(self, step: int, process: int) -> Metadata:
        """What a process has saved at a step. Raises: CheckpointError if that is damaged."""
        where = self.folder(process, step)
        with _refusing(f"{where} cannot be read"):
            require_no_link(where.parent, where, where / _METADATA)
            value = json.loads(read_file(where / _METADATA, most_bytes=_MOST_METADATA_BYTES))
        metadata = read(value, str(where))
        if (metadata.step, metadata.process) != (step, process):
            raise CheckpointError(f"{where} says that it is step {metadata.step:,} of process {metadata.process}: it was moved")
        if odd := next((array.name for array, _ in metadata.arrays if not _NAME.fullmatch(array.name)), None):
            raise CheckpointError(f"{where} names a file {odd[:40]!r}, which no checkpoint has")
        return metadata

    def array(self, metadata: Metadata, array: Stored, name: str) -> NDArray[Any]:
        """An array of a part, as its digest wants it. Raises: CheckpointError, which names what is damaged. Args: name: of it there."""
        where = self.folder(metadata.process, metadata.step)
        with _refusing(f"{where} is damaged: {name} cannot be read"):
            value = _read(where / array.name, array)
        if value is None or digest(value) != array.sha256:
            raise CheckpointError(
                f"{where} is damaged: {name} is not what was saved (its SHA-256 differs); restore an earlier step, or remove this one"
            )
        return value

    def arrays(self, metadata: Metadata) -> dict[str, NDArray[Any]]:
        """All arrays of a part by name. Raises: CheckpointError, which names the first that is damaged."""
        return {array.name: self.array(metadata, array, name) for array, name in metadata.arrays}


def _drop(folder: Path) -> None:
    """Removes a folder, which is no checkpoint from the beginning of that on."""
    if _STEP.fullmatch(folder.name):
        folder = folder.rename(folder.with_name(f"{folder.name}.dropped"))
    if folder.is_dir() and not folder.is_symlink():
        shutil.rmtree(folder)
    else:
        folder.unlink()


@contextlib.contextmanager
def _refusing(what: str) -> Iterator[None]:
    """Orbax and NumPy raise errors of many types for damaged files and full disks: each becomes one that names the folder."""
    try:
        yield
    except CheckpointError:
        raise
    except Exception as error:
        reason = getattr(error, "strerror", None) or str(error)
        line = next((line.strip() for line in reason.splitlines() if line.strip()), type(error).__name__)
        raise CheckpointError(f"{what}: {line[:300]}") from error


def _saved(array: NDArray[Any]) -> NDArray[Any]:
    """As a file keeps it: numbers that NumPy's format does not know as bytes."""
    array = np.ascontiguousarray(array).reshape(array.shape)
    return array if array.dtype.kind in _PLAIN_KINDS and array.dtype.isbuiltin == 1 else array.reshape(-1).view(np.uint8)


def _read(path: Path, wanted: Stored) -> NDArray[Any] | None:
    """The array that was saved; None if the file has another size."""
    size = size_bytes(wanted)
    require_no_link(path)
    with opened_file(path) as file:
        if not size <= os.fstat(file.fileno()).st_size <= size + _MOST_HEADER_BYTES:
            return None
        value = np.lib.format.read_array(file, allow_pickle=False)
        if value.nbytes != size or file.read(1):
            return None
    return value.reshape(-1).view(np.uint8).view(dtype_of(wanted.dtype)).reshape(wanted.shape)
