"""What `fuzzed.py` damages: sound inputs of each format, words of it, what reads it, and by which errors it may be refused."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import io
import tempfile
import warnings
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from tilestep.errors import CheckpointError, HloError, RecordingError, SettingsError, SpecError, StoredError

ROOT: Final = Path(__file__).resolve().parents[1]
SMALL: Final = 6_000  # characters of a sound program
ZIP_WORDS: Final = (b"PK\x01\x02", b"PK\x03\x04", b"\x93NUMPY", b"|O")
Read = Callable[[bytes], None]


@dataclass(frozen=True, kw_only=True)
class Format:
    """What is read.

    Attributes:
        seeds: gives sound inputs.
        words: of the format, which edits put in.
        reader: of a folder in which it may write and read; gives what reads one input.
        errors: by which it may refuse one.
        opens_any: whether an input is the user's own, and may name any file to read.
    """

    seeds: Callable[[], Sequence[bytes]]
    words: Sequence[bytes]
    reader: Callable[[Path], Read]
    errors: tuple[type[Exception], ...]
    opens_any: bool = False


def hlo_seeds() -> list[bytes]:
    from tests.golden.texts import hlo_text

    found = [path.stem for path in (ROOT / "tests" / "golden" / "hlo").glob("*.hlo")]
    return [text.encode() for name in sorted(found) if len(text := hlo_text(name)) < SMALL]


def hlo(folder: Path) -> Read:
    from tilestep.program.hlo import parse_hlo

    def read(data: bytes) -> None:
        module = parse_hlo(data.decode("utf-8", "replace"))
        for computation in module.computations.values():
            assert list(computation.parameters) is not None
            for instruction in computation.instructions:
                assert instruction.trip_count is None or instruction.trip_count >= 0
                assert sum(leaf.size_bytes for leaf in instruction.leaves) >= 0

    return read


def toml(folder: Path) -> Read:
    from tilestep.machine import describe, load_machine

    path = folder / "machine.toml"

    def read(data: bytes) -> None:
        path.write_bytes(data)
        machine = load_machine(str(path))
        assert machine.name.isprintable()
        assert all(entry.source.isprintable() for entry in describe(machine)[:5])

    return read


def engine_options(folder: Path) -> Read:
    from tilestep.engine_options import read_engine_options
    from tilestep.options import PlanOptions

    def read(data: bytes) -> None:
        text = data.decode("utf-8", "surrogateescape")
        if text.startswith("ipu_"):  # an option of a program's plan
            PlanOptions().changed(dict([text.partition(":")[::2]]))
            return
        assert all(note.isprintable() for note in read_engine_options(text).notes)

    return read


VARIABLES: Final = (
    b"JAX_IPU_USE_MODEL=true",
    b"JAX_IPU_MODEL_NUM_TILES=100",
    b"JAX_IPU_DEVICE_COUNT=4",
    b"JAX_IPU_VISIBLE_DEVICES=0,2,3",
    b"TILESTEP_MACHINE=bow-pod16",
    b"TILESTEP_SYNC_PATTERN=singlePipeline",
    b"JAX_IPU_PARTIALS_TYPE=half",
    b"JAX_IPU_FUSION=none",
    b"JAX_IPU_AVAILABLE_MEMORY_PROPORTION=0.4",
    b"JAX_IPU_NUM_IO_TILES=32",
    b"JAX_IPU_WEIGHT_LOAD_BITS=128",
    b'POPLAR_ENGINE_OPTIONS={"autoReport.all":"true"}',
    b'PVTI_OPTIONS={"enable":"true","channels":["a"],"duration":"3"}',
    b"POPART_LOG_LEVEL=DEBUG",
    b"POPART_LOG_DEST=stderr",
    b"POPXL_CACHE_DIR=cache",
)


def variables(folder: Path) -> Read:
    from tilestep.popart.diagnostics.environment import read_environment
    from tilestep.settings import read_settings, stated_settings, warn_of_unknown_variables
    from tilestep.tracing.options import parse_trace_options

    def read(data: bytes) -> None:
        text = data.decode("utf-8", "surrogateescape")
        environ = dict(line.partition("=")[::2] for line in text.split("\0\n"))
        stated_settings(environ)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # that a variable does nothing
            warn_of_unknown_variables(environ)
        notes = list(parse_trace_options(environ["PVTI_OPTIONS"])[1]) if environ.get("PVTI_OPTIONS") else []
        for ask in (read_settings, read_environment):
            found = ask(environ)
            notes += getattr(found, "notes", ())
        assert all(note.isprintable() for note in notes), notes

    return read


CHECKPOINT_STEP: Final = 7
FIRST: Final = "a0.0"  # the file of the state's first array


@functools.cache
def checkpoint() -> Mapping[str, bytes]:
    """The files of a checkpoint's part."""
    import jax
    import jax.numpy as jnp

    from tilestep.train import Checkpoints, InfeedQueue, OutfeedQueue, repeat

    outfeed = OutfeedQueue()

    def body(carry: Any, x: Any) -> Any:
        outfeed.enqueue({"a": x, "b": (x + 1, [x])})
        return {**carry, "w": carry["w"] + x}

    carry = {"w": jnp.arange(6, dtype=jnp.float32).reshape(2, 3), "b": jnp.ones(3, jnp.bfloat16), "key": jax.random.key(3), "n": np.int8(4)}
    with tempfile.TemporaryDirectory() as folder, jax.default_device(jax.devices("cpu")[0]):
        infeed = InfeedQueue(lambda: iter([np.float32(k) for k in range(20)]))
        repeat(CHECKPOINT_STEP, body, carry, infeed, outfeed, checkpoints=Checkpoints(folder, every=CHECKPOINT_STEP, background=False))
        part = Path(folder, "process-0", str(CHECKPOINT_STEP))
        return {path.name: path.read_bytes() for path in part.iterdir() if path.is_file() and not path.name.startswith("_")}


def storage_in(folder: Path) -> tuple[Any, Path]:
    """(the storage of a checkpoint in a folder, where its part is)."""
    from tilestep.train.checkpoints.storage import Storage

    part = folder / "checkpoints" / "process-0" / str(CHECKPOINT_STEP)
    part.mkdir(parents=True)
    for file, content in checkpoint().items():
        (part / file).write_bytes(content)
    return Storage(folder / "checkpoints", 0, None), part


def checkpoints(folder: Path) -> Read:
    from tilestep.train.checkpoints.metadata import states_of, unpacked

    storage, part = storage_in(folder)

    def read(data: bytes) -> None:
        (part / "metadata.json").write_bytes(data)
        metadata = storage.metadata(CHECKPOINT_STEP, 0)
        arrays = {name: functools.partial(np.asarray, array) for name, array in storage.arrays(metadata).items()}
        for what in ("infeeds", "outfeeds"):
            for key, value in states_of(getattr(metadata, what), what).items():
                unpacked(value, f"{what} {key}", arrays)

    return read


def npy(folder: Path) -> Read:
    """The first array's file; the metadata are sound."""
    storage, part = storage_in(folder)
    whole = storage.metadata(CHECKPOINT_STEP, 0)
    leaf = next(leaf for leaf in whole.leaves if leaf.pieces[0].array.name == FIRST)
    metadata = replace(whole, leaves=(leaf,), feed_arrays=())

    def read(data: bytes) -> None:
        (part / FIRST).write_bytes(data)
        storage.arrays(metadata)

    return read


def npy_seeds() -> list[bytes]:
    return [checkpoint()[FIRST]]


def stored_seeds() -> list[bytes]:
    from tests.golden.texts import hlo_text
    from tilestep.machine import load_machine
    from tilestep.pjrt.programs.serialized import Serialized, machine_id, pack
    from tilestep.plan.lower import lower
    from tilestep.program.hlo import parse_hlo

    machine = load_machine("bow-2000")
    made: list[bytes] = []
    for name in ("cond", "conv"):
        program = lower(parse_hlo(hlo_text(name)), machine, name=name, num_ipus=1)
        whole = Serialized(
            name=name,
            machine=machine_id(machine),
            plan_options="PlanOptions()",
            counted=((3, 4), (5, 6)),
            site_locations=("a.py:3",),
            program=program,
            code=b"ML\xefR",
            options=b"\x12\x03",
            hlo=b"\n\x05",
            values=b"ELF",
        )
        made.append(pack(whole))
    return made


def stored(folder: Path) -> Read:
    """Each twice: as it is, and with a checksum that is right."""
    from tilestep.pjrt.programs.serialized import unpack

    def read(data: bytes) -> None:
        magic, _, rest = data.partition(b"\n")
        body = rest.partition(b"\n")[2]
        with contextlib.suppress(StoredError):
            unpack(data)
        unpack(magic + b"\n" + hashlib.sha256(body).hexdigest().encode() + b"\n" + body)

    return read


def zipped_members(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def recording_seeds() -> list[bytes]:
    from tests.unit.recording.recordings import small_recording, zipped
    from tilestep.recording.storage.container import recording_bytes

    data = recording_bytes(small_recording())
    return [data, zipped(zipped_members(data), zipfile.ZIP_STORED)]


def recordings(folder: Path) -> Read:
    from tilestep.recording.schema import TABLES, TEXTS
    from tilestep.recording.storage.container import parse_recording

    def read(data: bytes) -> None:
        tables = parse_recording(data)
        for table, columns in TABLES.items():
            for column in columns:
                tables.column(table, column)
        for text in TEXTS:
            tables.text(text)

    return read


def executable_weights() -> dict[str, Any]:
    return {"w": np.arange(6, dtype=np.float32), "b": np.ones((2, 2), np.int32)}


def executables(folder: Path) -> Read:
    from tilestep.popart.session.executables import Owner, read

    path = folder / "model.popef"

    def read_one(data: bytes) -> None:
        path.write_bytes(data)
        read(path, Owner(mark="ab" * 32, sync_pattern="full"), weights=executable_weights(), program_bytes=lambda: 1 << 16)

    return read_one


def executable_seeds() -> list[bytes]:
    from tests.unit.recording.recordings import zipped
    from tilestep.popart.session.executables import Executable, Owner, save

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.popef")
        save(path, Executable(program=b"StableHLO" * 20, weights=executable_weights()), Owner(mark="ab" * 32, sync_pattern="full"))
        data = path.read_bytes()
    return [data, zipped(zipped_members(data), zipfile.ZIP_STORED)]


def onnx_seeds() -> list[bytes]:
    from tests.unit.onnx.mutants import sound

    return [model.SerializeToString() for model in sound()]


def onnx(folder: Path) -> Read:
    from tilestep.onnx import import_onnx

    (folder / "weights").write_bytes(bytes(64))
    path = folder / "model.onnx"

    def read(data: bytes) -> None:
        path.write_bytes(data)
        import_onnx(path)

    return read


def popart_errors() -> tuple[type[Exception], ...]:
    from tilestep.popart.exceptions import popart_exception, popart_runtime_error, poplar_exception

    return popart_exception, popart_runtime_error, poplar_exception


def onnx_errors() -> tuple[type[Exception], ...]:
    from tilestep.onnx import OnnxError

    return OnnxError, OSError


def toml_seeds() -> list[bytes]:
    own = b'inherits = "bow-2000"\nname = "mine"\nnum_ipus = 16\n[ipu]\nclock_hz = 1.5e9\n[ipu.tile]\nsram_bytes = 1_277_952\n[link]\n'
    return [own, b'inherits = "c600"\n[ipu]\nnum_tiles = 10\n[ipu.tile]\nsram_bytes = 1_000_000\n[host]\n']


def words(text: str) -> tuple[bytes, ...]:
    """Words between broken bars."""
    return tuple(word.encode() for word in text.split("¦"))


@functools.cache
def formats() -> Mapping[str, Format]:
    """All formats by name."""
    options = (
        b'{"autoReport.all": "true", "autoReport.directory": "reports", "debug.allowOutOfMemory": false, "profiler.blocks.filter": "a+"}'
    )
    return {
        "hlo": Format(
            seeds=hlo_seeds,
            words=words(
                "ENTRY ¦ROOT ¦%a.1¦ = ¦f32[2,3]{1,0}¦f32[<=2]¦(¦parameter(¦constant(¦while(¦to_apply=%b¦metadata={¦S(5)¦token[]¦HloModule "
                '¦{0}: (0, {}, may-alias)¦, num_partitions=2¦/*index=5*/¦backend_config={"known_trip_count":{"n":"3"}}¦\nFileNames\n1 "a"\n'
            ),
            reader=hlo,
            errors=(HloError,),
        ),
        "toml": Format(
            seeds=toml_seeds,
            words=words("[ipu]\n¦[[ipu]]\n¦clock_hz¦num_ipus = 3\n¦inherits¦\"\"\"¦'''¦1979-05-27¦nan¦inf¦a.b.c=¦{a=¦#"),
            reader=toml,
            errors=(SpecError,),
        ),
        "engine options": Format(
            seeds=lambda: [options, b'{"target.hostSyncTimeout": "300"}', b"ipu_num_io_tiles:32", b"ipu_partials_type:half"],
            words=words('"autoReport.all":¦"profiler.programs.filter":"¦(a|b)*¦(?P<x>¦[a-z]{3,9}¦\\¦true¦1.5¦[1,2]'),
            reader=engine_options,
            errors=(SettingsError,),
        ),
        "variables": Format(
            seeds=lambda: [*VARIABLES, b"\0\n".join(VARIABLES[::2]), b"\0\n".join(VARIABLES[1::2])],
            words=(*VARIABLES, *words("\0\n¦=¦true¦0,1¦half¦bow-2000¦JAX_IPU_")),
            reader=variables,
            errors=(SettingsError,),
            opens_any=True,
        ),
        "checkpoints": Format(
            seeds=lambda: [checkpoint()["metadata.json"]],
            words=words('["Leaf",¦["Stored",¦["Piece",¦float32¦bfloat16¦a0.0¦$tuple¦$dict¦\\"$array\\"¦[]¦key<fry>¦object¦V8¦S4'),
            reader=checkpoints,
            errors=(CheckpointError,),
        ),
        "npy": Format(
            seeds=npy_seeds,
            words=(
                *(b"\x93NUMPY" + bytes([version, 0]) for version in (1, 2, 3)),
                *words("'descr': '|O'¦'fortran_order': True¦(2, 3)¦<f4¦|V8¦', ¦__import__('os')"),
            ),
            reader=npy,
            errors=(CheckpointError,),
        ),
        "serialised programs": Format(
            seeds=stored_seeds,
            words=words('["Superstep",¦["Loop",¦["Series",[¦"sizes": [¦"counted": [[¦null¦Infinity¦[[1,2]]¦]]'),
            reader=stored,
            errors=(StoredError,),
        ),
        "recordings": Format(
            seeds=recording_seeds,
            words=(*ZIP_WORDS, *words("events/end.npy¦<i8")),
            reader=recordings,
            errors=(RecordingError,),
        ),
        "PopART's executables": Format(
            seeds=executable_seeds,
            words=(*ZIP_WORDS, *words('manifest.json¦"form"¦"weights": [')),
            reader=executables,
            errors=popart_errors(),
        ),
        "onnx": Format(
            seeds=onnx_seeds,
            words=words("Relu¦Loop¦If¦\x12\x04¦w¦../weights¦\x08\x01¦ai.onnx.ml"),
            reader=onnx,
            errors=onnx_errors(),
        ),
    }
