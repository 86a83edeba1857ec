"""Executables in files: a session's traced program, its weights, and what it was made for. Nothing in them is code of Python.

A file is a zip archive: `manifest.json` (form, fingerprint of the session, sync pattern of the device, names of the weights, and hashes by
SHA-256), `step.stablehlo` (of `jax.export`) and `weights.npz`, of which one may be left out. A file that was altered, that belongs to
another session, or is for another sync pattern, is an error. XLA compiles the program when the file is loaded.
"""

import contextlib
import hashlib
import io
import json
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import jax
import numpy as np
import onnx
from jax import export

from tilestep.files import opened_file, write_file
from tilestep.messages import plain
from tilestep.onnx.interpreter.values import Array
from tilestep.popart.builder.graph.attribute_names import DEBUG_INFO_ID, DEBUG_INPUT
from tilestep.popart.builder.graph.graph_walk import graphs_of, nodes_of
from tilestep.popart.exceptions import popart_exception, popart_runtime_error, poplar_exception
from tilestep.train.jaxprs import programs_of

SUFFIX: Final = ".popef"
_FORM: Final = "tilestep executable 2"
_PROGRAM: Final = "step.stablehlo"
_WEIGHTS: Final = "weights.npz"
_MANIFEST: Final = "manifest.json"
_MOST_HEADER_BYTES: Final = 4096  # an array's in a file, or a manifest's without names
_MOST_CHARACTER_BYTES: Final = 12  # in a manifest
_MOST_OPERATION_BYTES: Final = 64 << 10  # they are some hundred
_UNPACKED_BYTES: Final = 1 << 20  # at once


@dataclass(frozen=True, kw_only=True)
class Executable:
    """What a file has.

    Attributes:
        program: as `jax.export` serialises it; None if it was left out.
        weights: of the variables and the optimiser's state, by name; None if they were left out.
    """

    program: bytes | None
    weights: Mapping[str, Array] | None


@dataclass(frozen=True, kw_only=True)
class Owner:
    """The session that a file belongs to.

    Attributes:
        mark: its fingerprint.
        sync_pattern: of its device.
    """

    mark: str
    sync_pattern: str


def fingerprint(model: onnx.ModelProto, variables: Mapping[str, Array], *others: object) -> str:
    """A number that is the same for sessions with one program.

    Args:
        model: of the session.
        variables: initialisers whose values are no part of the program.
        others: what else decides the program, with a stable repr.
    """
    bare = onnx.ModelProto()
    bare.CopyFrom(model)
    for tensor in bare.graph.initializer:
        if tensor.name in variables:
            for part in ("raw_data", "float_data", "int32_data", "int64_data", "double_data", "uint64_data"):
                tensor.ClearField(part)  # names of fields
    _drop_numbers(bare.graph)
    facts = [entry for entry in bare.metadata_props if not entry.key.startswith(DEBUG_INPUT)]
    del bare.metadata_props[:]
    bare.metadata_props.extend(facts)
    digest = hashlib.sha256(bare.SerializeToString(deterministic=True))
    digest.update(repr((jax.__version__, *others)).encode())
    return digest.hexdigest()


def _drop_numbers(graph: onnx.GraphProto) -> None:
    """Takes away what counts the models that the process has made before: the graph's name, and nodes' numbers in debug information."""
    for inner in graphs_of(graph):
        inner.ClearField("name")
    for node in nodes_of(graph):
        kept = [attribute for attribute in node.attribute if attribute.name != DEBUG_INFO_ID]
        del node.attribute[:]
        node.attribute.extend(kept)


def exported(step: Callable[..., Any], arguments: Any) -> bytes:
    """A program as bytes. Args: step: of the arguments. arguments: a tree of shapes and dtypes.

    Raises: popart_exception for a program that calls Python, such as one that prints.
    """
    leaves, tree = jax.tree.flatten(arguments)

    def flat(*leaves: Any) -> Any:
        return jax.tree.leaves(step(*jax.tree.unflatten(tree, leaves)))

    try:
        return bytes(export.export(jax.jit(flat))(*leaves).serialize())
    except (NotImplementedError, ValueError) as error:
        raise popart_exception(f"The session's program can't be saved, because it calls functions of this process: {error}") from error


def loaded(program: bytes, results: Any, arguments: Any) -> Callable[..., Any]:
    """The function that `exported` saved.

    Args: results: of the step, of any leaves. arguments: as there.
    Raises: popart_runtime_error if it takes others.
    """
    structure = jax.tree.structure(results)
    types = [(leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(arguments)]
    try:
        call = export.deserialize(bytearray(program))
    except Exception as error:  # flatbuffers and XLA have errors of many classes
        raise popart_runtime_error(f"The executable's program is damaged: {plain(error)}") from error
    if [(value.shape, value.dtype) for value in call.in_avals] != types:
        raise popart_runtime_error("The executable's program takes other arguments than the session gives")

    def again(*given: Any) -> Any:
        return jax.tree.unflatten(structure, call.call(*jax.tree.leaves(given)))

    return again


def save(path: Path, executable: Executable, owner: Owner) -> None:
    """Writes a file, and the folders above it. Raises: OSError."""
    members = {} if executable.program is None else {_PROGRAM: executable.program}
    if executable.weights is not None:
        buffer = io.BytesIO()
        np.savez(buffer, allow_pickle=False, **{f"{number:06}": value for number, value in enumerate(executable.weights.values())})
        members[_WEIGHTS] = buffer.getvalue()
    manifest = {
        "form": _FORM,
        "session": owner.mark,
        "sync_pattern": owner.sync_pattern,
        "sha256": _hashes(members, list(executable.weights or ()), owner.sync_pattern),
        "weights": list(executable.weights or ()),
    }
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(_MANIFEST, json.dumps(manifest, indent=1))
        for name, data in members.items():
            archive.writestr(name, data)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_file(path, whole.getvalue())


def _hashes(members: Mapping[str, bytes], weights: Sequence[str], sync_pattern: str) -> dict[str, str]:
    parts = {**members, "weights": json.dumps(list(weights)).encode(), "sync_pattern": sync_pattern.encode()}
    return {name: hashlib.sha256(data).hexdigest() for name, data in parts.items()}


def read(path: Path, owner: Owner, *, weights: Mapping[str, Array], program_bytes: Callable[[], int]) -> Executable:
    """Reads a file. What belongs to another session, or is larger than this one's, is not unpacked.

    Args:
        owner: the session that reads it.
        weights: of the session, by name, as large as those of the file.
        program_bytes: gives a bound of the program's bytes; called if the file has a program.

    Raises:
        popart_exception: if it can't be opened.
        popart_runtime_error: if it is no executable, was altered, or belongs to another session.
        poplar_exception: if it was compiled for another sync pattern.
    """
    with contextlib.ExitStack() as stack:
        try:
            file = stack.enter_context(opened_file(path))
        except OSError as error:
            raise popart_exception(f"Could not open file {plain(path)}: {plain(error)}") from error
        try:
            with zipfile.ZipFile(file) as archive:
                most = sum(array.nbytes for array in weights.values()) + _MOST_HEADER_BYTES * (len(weights) + 1)
                _require_known_form(path, archive)
                manifest = _manifest_of(
                    path, archive, owner, _MOST_HEADER_BYTES + _MOST_CHARACTER_BYTES * sum(len(name) + 1 for name in weights)
                )
                bounds: dict[str, Callable[[], int]] = {_PROGRAM: program_bytes, _WEIGHTS: lambda: most}
                present = {name: bound() for name, bound in bounds.items() if name in archive.namelist()}
                _require_unaltered(path, archive, manifest, present)
                return Executable(
                    program=archive.read(_PROGRAM) if _PROGRAM in present else None,
                    weights=_weights_of(path, archive.read(_WEIGHTS), manifest["weights"], most) if _WEIGHTS in present else None,
                )
        except (popart_runtime_error, poplar_exception):
            raise
        except Exception as error:  # a damaged archive gives errors of many classes
            raise popart_runtime_error(f"{plain(path)} is no executable, or it is damaged: {plain(error)}") from error


def _manifest_of(path: Path, archive: zipfile.ZipFile, owner: Owner, most_bytes: int) -> dict[str, Any]:
    """Raises: popart_runtime_error for the manifest of another session or version; poplar_exception for that of another sync pattern."""
    manifest = json.loads(b"".join(_parts(path, archive, _MANIFEST, most_bytes)))
    if not isinstance(manifest, dict) or manifest.get("form") != _FORM:
        raise popart_runtime_error(f"{plain(path)} is no executable of this version of tilestep")
    if manifest.get("session") != owner.mark:
        raise popart_runtime_error(
            f"{plain(path)} belongs to another session: another model, data flow, optimiser, device or options. "
            "Compile this one with compileAndExport"
        )
    pattern = plain(manifest.get("sync_pattern", ""))
    if pattern != owner.sync_pattern:
        raise poplar_exception(
            f"Attempt to load graph compiled with target options {{SyncConfiguration: {pattern}}} onto a device with "
            f"{{SyncConfiguration: {owner.sync_pattern}}}. {plain(path)} needs a device whose pattern is {pattern}: "
            "compile it again for this one"
        )
    return {**manifest, "weights": [str(name) for name in manifest.get("weights", ())], "sync_pattern": pattern}


def _require_unaltered(path: Path, archive: zipfile.ZipFile, manifest: Mapping[str, Any], present: Mapping[str, int]) -> None:
    """Raises: popart_runtime_error for a member with another hash. Args: present: members, and bounds of their bytes."""
    hashes = _hashes({}, manifest["weights"], manifest["sync_pattern"])
    for name, most_bytes in present.items():
        digest = hashlib.sha256()
        for part in _parts(path, archive, name, most_bytes):
            digest.update(part)
        hashes[name] = digest.hexdigest()
    if hashes != manifest.get("sha256"):
        raise popart_runtime_error(f"{plain(path)} was altered: the hash of a member is not that of its manifest")


def _weights_of(path: Path, weights: bytes, names: Sequence[str], most_bytes: int) -> dict[str, Array]:
    with zipfile.ZipFile(io.BytesIO(weights)) as archive:
        size = sum(info.file_size for info in archive.infolist())
        if size > most_bytes:
            raise popart_runtime_error(
                f"{plain(path)} was altered: its weights have {size:,} B, and those of the session {most_bytes:,} B at most"
            )
        _require_known_form(path, archive)
    with np.load(io.BytesIO(weights), allow_pickle=False) as arrays:
        return {name: arrays[f"{number:06}"] for number, name in enumerate(names)}


def _require_known_form(path: Path, archive: zipfile.ZipFile) -> None:
    """Raises: popart_runtime_error for a compression that `save` never takes; one part of it may unpack to any size."""
    if any(info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) for info in archive.infolist()):
        raise popart_runtime_error(f"{plain(path)} was altered: a member is compressed otherwise than by deflate")


def _parts(path: Path, archive: zipfile.ZipFile, name: str, most_bytes: int) -> Iterator[bytes]:
    """A member's bytes, part by part. Raises: popart_runtime_error where they become more than `most_bytes`."""
    left = most_bytes
    with archive.open(name) as file:
        while part := file.read(_UNPACKED_BYTES):
            left -= len(part)
            if left < 0:
                raise popart_runtime_error(
                    f"{plain(path)} was altered: its member {name} has more than {most_bytes:,} B, and that of the session at most so many"
                )
            yield part


def most_program_bytes(program: Any) -> int:
    """More bytes than a traced program has when it is exported: of its constants, and a share for each of its equations.

    Args: program: open or closed.
    """
    constants = [*getattr(program, "consts", ()), *(atom.val for eqn in program.eqns for atom in eqn.invars if hasattr(atom, "val"))]
    inside = sum(most_program_bytes(inner) for equation in program.eqns for inner in programs_of(equation))
    return _MOST_OPERATION_BYTES * (len(program.eqns) + 1) + 2 * sum(np.asarray(value).nbytes for value in constants) + inside
