"""Recordings that tests of several folders read: each is made once in a test run, whichever worker asks first."""

import fcntl
import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.processes import ROOT, run_python
from tests.unit.recording.recordings import members_of, zipped
from tilestep.plan.serialized import dump_program, program_of
from tilestep.plan.steps import Program
from tilestep.recording.edits.programs import with_leaves
from tilestep.recording.schema import TABLES
from tilestep.recording.storage.container import Builder, recording_bytes

PROGRAMS = ROOT / "tests" / "page" / "programs"
EXAMPLES: Mapping[str, tuple[str, ...]] = {
    "karate_club": (),
    "linear_regression": (),
    "mnist_classifier": ("--epochs", "2"),
    "mnist_plain": ("--epochs", "2"),
    "mnist_with_infeeds": ("--epochs", "2"),
    "pmap_quickstart": (),
    "quickstart": (),
    "results_while_running": (),
    "sharding_quickstart": (),
    "training_loop": (),
    "two_towers": (),
}
SHORTER: Mapping[str, tuple[str, str]] = {"two_towers": ("6, 32, 10, 96", "6, 32, 2, 96")}  # two epochs: a line, and what it is for that
SLOW_EXAMPLES: Mapping[str, tuple[str, ...]] = {"bert_pod": (), "pipeline_transformer": ()}

HOSTILE = (  # what a recording's names may hold; each is harmless as text
    "</script><script>window.PWNED=1</script>",
    "<img src=x onerror=window.PWNED=2>",
    "<!--<script>&lt;&#60;&quot;' onmouseover='window.PWNED=4",
    "\u2028\u2029`${window.PWNED=3}`",
    "\u202ertl\u2066",
    "\ud800\udfff\ud83d",
)
LONG = "n" * 10_000
HOSTILE_FOLDER = "<img src=x onerror=window.PWNED=6>&quot;'\u202e${x}"  # of the hostile recording: the page's title and its label
WORDS = ("__proto__", "constructor", "javascript:window.PWNED=5", "")  # in place of a name


@dataclass(frozen=True, kw_only=True)
class Made:
    """How a recording is made.

    Attributes:
        arguments: of Python; '%s' in one, as in a variable, is the folder.
        variables: of the process.
    """

    arguments: tuple[str, ...]
    variables: Mapping[str, str] = field(default_factory=dict[str, str])


_RUN = ("-m", "tilestep", "run")
RECORDINGS: Mapping[str, Made] = {
    "pipeline": Made(arguments=(*_RUN, "--report", "%s", str(PROGRAMS / "pipeline.py"))),
    "popart_pipeline": Made(
        arguments=(*_RUN, "--popart", str(PROGRAMS / "popart_pipeline.py")),
        variables={"POPLAR_ENGINE_OPTIONS": '{"autoReport.all": "true", "autoReport.directory": "%s"}'},
    ),
    "empty": Made(arguments=(*_RUN, "--report", "%s", "-c", "pass")),
    "out_of_memory": Made(
        arguments=(str(PROGRAMS / "out_of_memory.py"),),
        variables={
            "JAX_PLATFORMS": "ipu,cpu",
            "POPLAR_ENGINE_OPTIONS": '{"autoReport.all": "true", "autoReport.directory": "%s"}',
        },
    ),
    "host_only": Made(
        arguments=(str(PROGRAMS / "host_only.py"),),
        variables={"PVTI_OPTIONS": '{"enable": "true", "directory": "%s"}'},
    ),
}


def shared_folder(factory: pytest.TempPathFactory) -> Path:
    """A folder of this test run, one for all workers."""
    base = factory.getbasetemp()
    folder = (base.parent if base.name.startswith("popen-") else base) / "shared"
    folder.mkdir(exist_ok=True)
    return folder


def once(path: Path, make: Callable[[Path], None]) -> Path:
    """`path`, which `make` has made: in one process, while others wait."""
    done = path.with_name(f"{path.name}.done")
    with path.with_name(f"{path.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            make(path)
            done.touch()
    return path


def example(name: str, shared: Path) -> Path:
    """The folder with the recording of a script of `examples`, and with what the script printed: stdout.txt and stderr.txt."""
    flags = {**EXAMPLES, **SLOW_EXAMPLES}[name]

    def make(folder: Path) -> None:
        script = _script(name, folder.with_name(f"{name}.examples"))
        done = run_python(*_RUN, "--report", str(folder), script, *flags)
        assert done.returncode == 0, done.stdout + done.stderr
        for stream, text in (("stdout", done.stdout), ("stderr", done.stderr)):
            (folder / f"{stream}.txt").write_text(text, encoding="utf-8")

    return once(shared / name, make)


def _script(name: str, shorter: Path) -> str:
    """The script of an example, or if it has no flag that makes it short, a copy of it that is, in a folder with what it imports."""
    if name not in SHORTER:
        return str(ROOT / "examples" / f"{name}.py")
    shutil.copytree(ROOT / "examples", shorter, ignore=shutil.ignore_patterns("*.ipynb", "__pycache__"))
    text, (long, short) = (shorter / f"{name}.py").read_text(encoding="utf-8"), SHORTER[name]
    assert text.count(long) == 1
    (shorter / f"{name}.py").write_text(text.replace(long, short), encoding="utf-8")
    return str(shorter / f"{name}.py")


def recording(name: str, shared: Path) -> Path:
    """The file of a recording of `RECORDINGS`."""
    made = RECORDINGS[name]

    def make(folder: Path) -> None:
        folder.mkdir()
        arguments = [each.replace("%s", str(folder)) for each in made.arguments]
        _run(*arguments, variables={key: value.replace("%s", str(folder)) for key, value in made.variables.items()})

    found = sorted(path for path in once(shared / name, make).rglob("*.tilestep") if path.name != "program.tilestep")
    return found[0]


def hostile(source: Path, shared: Path) -> Path:
    """A recording with hostile texts in place of those of another."""

    def make(folder: Path) -> None:
        folder.mkdir()
        members = members_of((source / "run.tilestep").read_bytes())
        members["manifest.json"] = json.dumps({**json.loads(members["manifest.json"]), "engine_options": {HOSTILE[0]: HOSTILE[1]}}).encode()
        strings: list[str] = json.loads(members["strings.json"])
        trace = members_of(recording_bytes(_trace().tables()))
        members |= {name: _moved(name, data, len(strings)) for name, data in trace.items() if "/" in name}
        strings += json.loads(trace["strings.json"])
        members["strings.json"] = json.dumps([hostile_text(text) for text in strings]).encode()
        members["sources.json"] = json.dumps(_hostile_texts(json.loads(members["sources.json"]))).encode()
        trees = [tree and json.loads(dump_program(_hostile_program(program_of(tree)))) for tree in json.loads(members["trees.json"])]
        members["trees.json"] = json.dumps(trees).encode()
        (folder / "run.tilestep").write_bytes(zipped(members))

    return once(shared / HOSTILE_FOLDER, make)


def hostile_text(text: str) -> str:
    """Something hostile in place of a text, the same each time; most have the text at their end."""
    choice = sha256(text.encode()).digest()[0]
    return WORDS[choice // 16 % len(WORDS)] if choice % 16 == 0 else "".join(HOSTILE) + (LONG if choice % 4 == 1 else "") + text


def _hostile_program(program: Program) -> Program:
    """The program with hostile names of its steps, scopes, lines and values."""
    changed = with_leaves(program, lambda leaf: replace(leaf, name=hostile_text(leaf.name), scope=hostile_text(leaf.scope)))
    frames = tuple(replace(each, file=hostile_text(each.file), function=hostile_text(each.function)) for each in program.frames)
    arguments = tuple(replace(each, name=hostile_text(each.name)) for each in program.arguments)
    return replace(changed, name=hostile_text(program.name), frames=frames, arguments=arguments)


def _trace() -> Builder:
    """Tracepoints and lines of numbers of a host."""
    builder = Builder(kind="trace")
    builder.append("processes", pid=1, name="python")
    builder.append("threads", process=0, tid=1, name="MainThread")
    builder.append("channels", name="mine")
    builder.append("spans", thread=0, channel=0, label="epoch", start_ns=0, duration_ns=9_000, parent=-1)
    builder.append("spans", thread=0, channel=0, label="step", start_ns=100, duration_ns=5_000, parent=0)
    builder.append("series", name="loss", graph="training", unit="nats")
    builder.append("points", series=0, time_ns=50, value=0.5)
    builder.append("points", series=0, time_ns=5_000, value=0.25)
    return builder


def _moved(member: str, data: bytes, by: int) -> bytes:
    """A column of a recording whose texts stand behind those of another."""
    table, column = member.removesuffix(".npy").split("/")
    if TABLES[table][column].table != "strings":
        return data
    numbers: NDArray[np.int64] = np.load(BytesIO(data))
    file = BytesIO()
    np.save(file, np.where(numbers >= 0, numbers.astype(np.int64) + by, numbers).astype(np.int32))
    return file.getvalue()


def _hostile_texts(value: Any) -> Any:
    if isinstance(value, str):
        return hostile_text(value)
    if isinstance(value, list):
        return [_hostile_texts(each) for each in value]
    return {hostile_text(key): _hostile_texts(each) for key, each in value.items()} if isinstance(value, dict) else value


def _run(*arguments: str, variables: Mapping[str, str]) -> None:
    done = run_python(*arguments, environ=variables)
    assert done.returncode == 0, done.stdout + done.stderr
