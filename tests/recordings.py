"""Recordings that tests of several folders read: each is made once in a test run, whichever worker asks first."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from tests.processes import ROOT, run_python
from tests.unit.record.recordings import members_of, zipped

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
    """The folder with the recording of a script of `examples`."""
    flags = {**EXAMPLES, **SLOW_EXAMPLES}[name]
    script = str(ROOT / "examples" / f"{name}.py")
    return once(shared / name, lambda folder: _run(*_RUN, "--report", str(folder), script, *flags, variables={}))


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
        strings: list[str] = json.loads(members["strings.json"])
        members["strings.json"] = json.dumps([hostile_text(text) for text in strings]).encode()
        members["sources.json"] = json.dumps(_hostile_texts(json.loads(members["sources.json"]))).encode()
        (folder / "run.tilestep").write_bytes(zipped(members))

    return once(shared / "hostile", make)


def hostile_text(text: str) -> str:
    """Something hostile in place of a text, the same each time; most have the text at their end."""
    choice = sha256(text.encode()).digest()[0]
    return WORDS[choice // 16 % len(WORDS)] if choice % 16 == 0 else "".join(HOSTILE) + (LONG if choice % 4 == 1 else "") + text


def _hostile_texts(value: Any) -> Any:
    if isinstance(value, str):
        return hostile_text(value)
    if isinstance(value, list):
        return [_hostile_texts(each) for each in value]
    return {hostile_text(key): _hostile_texts(each) for key, each in value.items()} if isinstance(value, dict) else value


def _run(*arguments: str, variables: Mapping[str, str]) -> None:
    done = run_python(*arguments, environ=variables)
    assert done.returncode == 0, done.stdout + done.stderr
