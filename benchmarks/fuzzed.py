"""What does each reader of a file or a setting do with a hundred thousand damaged ones?

    benchmarks/fuzzed.py                                      all formats, a line for each
    benchmarks/fuzzed.py --only hlo --only csv --count 1000
    benchmarks/fuzzed.py --nice 15 --json benchmarks/results/fuzzing.json

Each input is a sound one with some edits: bits that differ, parts that are dropped, repeated or from another input, words of the
format, and numbers that are odd. A reader may take it, or refuse it by the error that its format is documented to have. It is a fault
if it ends in another error, in a message that a terminal would obey, or that says nothing or pages; if it opens a file outside of its
folder, starts a process, connects, or unpickles; if it takes 5 s of a CPU, or waits; or if the process comes to take 1 GB more. Equal
seeds make equal inputs. A format has a process of its own. `--keep` names a folder for inputs with faults. `--atheris` lets atheris,
where it is installed, choose the inputs by what they reach.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import faulthandler
import functools
import hashlib
import io
import json
import os
import random
import re
import resource
import sys
import tempfile
import time
import traceback
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final, final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run as a script, this file is in no package

import numpy as np

from benchmarks.commit import commit
from tilestep.errors import CheckpointError, HloError, RecordingError, SettingsError, SpecError, StoredError

ROOT: Final = Path(__file__).resolve().parents[1]
COUNT: Final = 100_000
MOST_CPU_S: Final = 5.0
HUNG_WALL_S: Final = 300.0  # of a hundred inputs, on a busy machine
MOST_BYTES: Final = 1 << 30
LONGEST: Final = 12_000  # characters of a message
SMALL: Final = 6_000  # characters of a sound program
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


@dataclass(frozen=True, kw_only=True)
class Edit:
    """A change of an input. Attributes: kind: 0 to 6. at: where, of 2**16. size: of what is changed. payload: what comes there."""

    kind: int
    at: int
    size: int
    payload: bytes


KINDS: Final = 7
HOSTILE: Final = (
    *(bytes([byte]) for byte in b"\0\xff\r\n\"'\\{}[](),:="),
    *(b"\x1b[31m", b"\\u001b", b"\\ud800", b"\xe2\x80\xae", b"\xed\xa0\x80"),  # what a terminal would obey, and no text
    *(b"../", b"/etc/passwd", b"__reduce__", b"%s", b"NaN", b"-1", b"1e400", b"true", b"null"),
    *(b"9" * 400, b"9" * 5000, b"[" * 5000, b"{" * 5000, b"(" * 5000, b"a" * 2000),
)
NUMBERS: Final = (
    *(b"", b"0", b"-1", b"1", b"2", b"127", b"2147483648", b"9223372036854775807", b"18446744073709551616"),
    *(b"9" * 400, b"9" * 5000, b"1e5", b"0x7", b"1_0", b"\xc2\xb2"),
)
ZIP_WORDS: Final = (b"PK\x01\x02", b"PK\x03\x04", b"\x93NUMPY", b"|O")
_NUMBER: Final = re.compile(rb"\d+")


def edited(data: bytes, others: Sequence[bytes], edits: Sequence[Edit]) -> bytes:
    """An input with changes. Args: others: of which parts may come."""
    for edit in edits:
        at = edit.at * len(data) >> 16
        if edit.kind == 0 and data:  # a bit
            data = data[:at] + bytes([data[at] ^ (1 << edit.size % 8)]) + data[at + 1 :]
        elif edit.kind == 1:  # something comes in
            data = data[:at] + edit.payload + data[at:]
        elif edit.kind == 2:  # something goes
            data = data[:at] + data[at + edit.size :]
        elif edit.kind == 3:  # something comes again
            data = data[: at + edit.size] + data[at : at + edit.size] * (edit.size % 5 + 1) + data[at + edit.size :]
        elif edit.kind == 4:  # part of another
            other = others[edit.size % len(others)]
            there = edit.at * len(other) >> 16
            data = data[:at] + other[there : there + 4 * edit.size] + data[at + edit.size :]
        elif edit.kind == 5 and (found := _NUMBER.search(data, at)):  # another number
            data = data[: found.start()] + edit.payload + data[found.end() :]
        elif edit.kind == 6:  # the end
            data = data[:at]
    return data


def random_edits(rng: random.Random, words: Sequence[bytes]) -> list[Edit]:
    """Some edits, mostly few."""

    def edit() -> Edit:
        kind = rng.choice((0, 0, 1, 1, 1, 2, 3, 4, 5, 5, 5)) if rng.random() < 0.97 else 6
        payload = rng.choice(NUMBERS) if kind == 5 else rng.choice(HOSTILE) if rng.random() < 0.4 else rng.choice(words)
        return Edit(kind=kind, at=rng.randrange(1 << 16), size=rng.choice((1, 1, 2, 4, 9, 40, 300)), payload=payload)

    return [edit() for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 6)))]


def inputs(kind: Format, seed: int, count: int) -> Iterator[bytes]:
    """Damaged inputs. Equal seeds make equal ones."""
    rng, seeds = random.Random(seed), kind.seeds()
    for _ in range(count):
        yield edited(rng.choice(seeds), seeds, random_edits(rng, kind.words))


@final
class Heard:
    """What this process opens and does beside reading in a folder and importing."""

    _FORBIDDEN: Final = (
        "subprocess.Popen",
        "os.system",
        "os.exec",
        "os.posix_spawn",
        "socket.connect",
        "pickle.find_class",
        "ctypes.dlopen",
    )
    _LIBRARIES: Final = tuple({os.path.realpath(path) for path in (sys.prefix, sys.base_prefix, ROOT)})

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = os.path.realpath(folder) if folder else ""  # inside of which files may be opened; "": anywhere
        self.listening = False
        self.wrong: list[str] = []

    def listen(self) -> Heard:
        """Hears what happens from now on, until the process ends."""
        sys.addaudithook(self._hear)
        return self

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.listening:
            return
        if event in self._FORBIDDEN:
            self.wrong.append(f"{event} {arguments!r}"[:200])
        elif event == "open" and self._folder and isinstance(arguments[0], str | bytes | os.PathLike):
            path = os.fsdecode(arguments[0])
            if not os.path.realpath(path).startswith((self._folder, *self._LIBRARIES)) and not path.startswith(("/proc/", "/dev/null")):
                self.wrong.append(f"opened {path!r}"[:200])


def fault_of(kind: Format, read: Read, data: bytes, ears: Heard | None = None) -> tuple[str, str]:
    """(what is wrong, the error by which it was refused); either may be ''. Args: ears: what else the process does counts, too."""
    ears = ears or Heard()
    ears.listening = True
    try:
        read(data)
        refused = ""
    except kind.errors as error:
        told, refused = str(error), type(error).__name__
        if not all(character.isprintable() or character in "\n\t" for character in told):
            return f"a terminal would obey the message {told[:300]!r}", refused
        if not 5 < len(told) < LONGEST:
            return f"a message of {len(told):,} characters: {told[:300]!r}", refused
    except BaseException as error:
        return f"{type(error).__name__}: {''.join(traceback.format_exception(error)[-4:])[-1500:]}", ""
    finally:
        ears.listening = False
        wrong, ears.wrong = ears.wrong, []
    return "; ".join(wrong), refused


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
    b"TILESTEP_TINY_STEPS=0",
    b'POPLAR_ENGINE_OPTIONS={"autoReport.all":"true"}',
    b'PVTI_OPTIONS={"enable":"true","channels":["a"],"duration":"3"}',
    b"POPART_LOG_LEVEL=DEBUG",
    b"POPART_LOG_DEST=stderr",
    b"POPXL_CACHE_DIR=cache",
)


def variables(folder: Path) -> Read:
    from tilestep.popart.environment import read_environment
    from tilestep.settings import read_settings, stated_settings, tiny_steps_wanted, warn_of_unknown_variables
    from tilestep.tracing.options import parse_trace_options

    def read(data: bytes) -> None:
        text = data.decode("utf-8", "surrogateescape")
        environ = dict(line.partition("=")[::2] for line in text.split("\0\n"))
        stated_settings(environ)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # that a variable does nothing
            warn_of_unknown_variables(environ)
        notes = list(parse_trace_options(environ["PVTI_OPTIONS"])[1]) if environ.get("PVTI_OPTIONS") else []
        for ask in (read_settings, tiny_steps_wanted, read_environment):
            found = ask(environ)
            notes += getattr(found, "notes", ())
        assert all(note.isprintable() for note in notes), notes

    return read


def csv_seeds() -> list[bytes]:
    from tilestep.train import schedules

    made = [schedules.SCHEDULES[name](3, 4, strict=False) for name in ("grouped", "interleaved", "sequential")]
    whole = [*made, schedules.grouped([1, 2, 1], 2, strict=False), schedules.offloading(made[0], [1])]
    rows = [schedule.to_csv(tasks_only=True) for schedule in made[:2]]
    return [text.encode() for text in (*(schedule.to_csv() for schedule in whole), *rows)]


def csv(folder: Path) -> Read:
    from tilestep.train import Schedule

    def read(data: bytes) -> None:
        assert Schedule.from_csv(data.decode("utf-8", "surrogateescape")).stages >= 1

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
        arrays = storage.arrays(metadata)
        for what in ("infeeds", "outfeeds"):
            for key, value in states_of(getattr(metadata, what), what).items():
                unpacked(value, f"{what} {key}", arrays.get)

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
    from tests.unit.record.recordings import small_recording, zipped
    from tilestep.record.container import recording_bytes

    data = recording_bytes(small_recording())
    return [data, zipped(zipped_members(data), zipfile.ZIP_STORED)]


def recordings(folder: Path) -> Read:
    from tilestep.record.container import parse_recording
    from tilestep.record.schema import TABLES, TEXTS

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
    from tests.unit.record.recordings import zipped
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
    from tests.unit.machine.test_hostile_files import TEMPLATE

    return [TEMPLATE.encode(), b'inherits = "c600"\n[ipu]\nnum_tiles = 10\n[ipu.tile]\nsram_bytes = 1_000_000\n[host]\n']


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
        "schedules": Format(
            seeds=csv_seeds,
            words=words('0F0¦1B1¦0U¦,¦# levels: ¦# devices: 2\n¦[[0], [1]]¦# name: ¦"same"¦0I0¦1W1¦2L0'),
            reader=csv,
            errors=(ValueError,),
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


def run(name: str, seed: int, count: int, keep: Path | None, most_wall_s: float, answers: Any) -> None:
    """Reads damaged inputs of a format, in a process of its own; puts the answer in a queue."""
    faulthandler.enable()
    warnings.simplefilter("ignore")
    warnings.simplefilter("error", DeprecationWarning)
    kind = formats()[name]
    ends: collections.Counter[str] = collections.Counter()
    faults: dict[str, str] = {}
    longest = 0.0
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as made:
        folder = Path(made)
        read = kind.reader(folder)
        ears = Heard(None if kind.opens_any else folder).listen()
        for data in kind.seeds():
            assert fault_of(kind, read, data, ears) == ("", ""), f"a sound input of {name} is refused"
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
        for number, data in enumerate(inputs(kind, seed, count)):
            if time.monotonic() - begin > most_wall_s:
                break
            if number % 100 == 0:  # a hang ends the process with a picture of its stack
                faulthandler.dump_traceback_later(HUNG_WALL_S, exit=True)
            start = time.process_time()
            wrong, refused = fault_of(kind, read, data, ears)
            took = time.process_time() - start
            longest = max(longest, took)
            wrong = wrong or (f"took {took:.1f} s" if took > MOST_CPU_S else "")
            ends["fault" if wrong else refused or "accepted"] += 1
            if wrong:
                known = re.sub(r"\d+|'.*?'", "", wrong)[-160:]
                if keep is not None and known not in faults:
                    keep.mkdir(parents=True, exist_ok=True)
                    (keep / f"{name.replace(' ', '_')}.{len(faults)}").write_bytes(data)
                faults.setdefault(known, f"input {number} of seed {seed}: {wrong}")
        faulthandler.cancel_dump_traceback_later()
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10) - before
    if grown > MOST_BYTES:
        faults["memory"] = f"the process came to take {grown:,} B more"
    accepted = ends.pop("accepted", 0)
    answers.put(
        {
            "name": name,
            "seed": seed,
            "inputs": accepted + sum(ends.values()),
            "accepted": accepted,
            "refused": sum(value for key, value in ends.items() if key != "fault"),
            "faults": ends["fault"] + ("memory" in faults),
            "errors": dict(ends),
            "longest_cpu_s": round(longest, 4),
            "grown_bytes": grown,
            "wall_s": round(time.monotonic() - begin, 1),
            "told": list(faults.values()),
        }
    )


def with_atheris(name: str, seconds: int) -> None:
    """Inputs that reach new lines, found by atheris. Ends the process."""
    import atheris  # type: ignore[import-not-found]

    with atheris.instrument_imports(include=["tilestep"]), tempfile.TemporaryDirectory() as made:
        kind, folder = formats()[name], Path(made)
        read = kind.reader(folder)
        (corpus := folder / "corpus").mkdir()
        for number, data in enumerate(kind.seeds()):
            (corpus / str(number)).write_bytes(data)

        def one(data: bytes) -> None:
            wrong, _ = fault_of(kind, read, data)
            if wrong:
                raise AssertionError(wrong)

        atheris.Setup([sys.argv[0], f"-max_total_time={seconds}", "-max_len=20000", "-timeout=5", str(corpus)], one)
        atheris.Fuzz()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", action="append", choices=list(formats()), help="a format; may be given again")
    parser.add_argument("--count", type=int, default=COUNT, help="inputs of a format (default: %(default)s)")
    parser.add_argument("--most-wall-s", type=float, default=1e9, help="of a format, after which it has fewer inputs")
    parser.add_argument("--seed", type=int, default=0, help="of the inputs (default: %(default)s)")
    parser.add_argument("--nice", type=int, default=0, help="how far to stand back behind other processes")
    parser.add_argument("--keep", type=Path, help="a folder for inputs with faults")
    parser.add_argument("--json", type=Path, help="the record, to which answers are added")
    parser.add_argument("--atheris", type=int, metavar="S", help="let atheris find inputs of one format for so many seconds")
    flags = parser.parse_args()
    os.nice(flags.nice)
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    if flags.atheris is not None:
        with_atheris((flags.only or ["hlo"])[0], flags.atheris)
    failed = False
    spawn = get_context("spawn")
    for name in flags.only or formats():
        answers = spawn.Queue()
        process = spawn.Process(target=run, args=(name, flags.seed, flags.count, flags.keep, flags.most_wall_s, answers))
        process.start()
        answer = None
        while answer is None and (process.is_alive() or not answers.empty()):
            with contextlib.suppress(Exception):
                answer = answers.get(timeout=1)
        process.join()
        if answer is None:
            answer = {"name": name, "seed": flags.seed, "faults": 1, "told": [f"the process ended with status {process.exitcode}"]}
        failed |= bool(answer["faults"])
        told = answer.pop("told")
        print(json.dumps(answer), *told, sep="\n  ", flush=True)
        if flags.json is not None:
            record = json.loads(flags.json.read_text(encoding="utf-8")) if flags.json.exists() else {"answers": []}
            record |= {
                "question": __doc__.splitlines()[0],
                "commit": commit(),
                "host": {"cpus": os.cpu_count(), "load": os.getloadavg()[0]},
            }
            record["answers"] = [each for each in record["answers"] if each["name"] != name] + [answer]
            flags.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    sys.exit(failed)


if __name__ == "__main__":
    main()
