"""PVTI_OPTIONS: one file of each process, with the program's own tracepoints and what JAX did, however the process ends."""

import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.in_turn import attempt, python
from tests.processes import PROCESS_TIMEOUT_WALL_S, clean_environ
from tilestep import open_report
from tilestep.recording.storage.container import Tables, read_recording

LOOKS = """
    import time
    from tilestep.tracing.process import _tracer

    def looks():
        '''Waits until the tracer's thread has looked around: once it begins again, it has.'''
        for _ in range(2):
            _tracer._wake.set()
            while _tracer._wake.is_set():
                time.sleep(0.001)
"""

TRACES = """
    import tilestep
    with tilestep.tracepoint("here"):
        pass
"""
COMPUTES = """
    import jax, jax.numpy as jnp
    f = jax.jit(lambda x: (x @ x) / 100)
    x = f(jnp.ones((100, 100)))
    x.block_until_ready()
"""
NAME = re.compile(r"\d{8}T\d{6}\.\d{3}[+-]\d{4}-\d+\.tilestep")


def options(directory: Path, **others: Any) -> str:
    return json.dumps({"directory": str(directory), **others})


def only_file(directory: Path) -> Tables:
    (path,) = directory.iterdir()
    assert NAME.fullmatch(path.name)
    return read_recording(path)


def texts(tables: Tables, table: str, column: str) -> list[str]:
    return [tables.strings[int(number)] for number in tables.column(table, column)]


def notes(tables: Tables) -> list[str]:
    """Without that of the seconds between one session of JAX's profiler and the next, which a slow computer has at any time."""
    return [note for note in tables.manifest["notes"] if "ended one session and began the next" not in note]


def spans(tables: Tables, *channels: str) -> list[tuple[str, str, str]]:
    """(thread, label, label of the span around it or '') of the channels' spans."""
    threads, names, labels = texts(tables, "threads", "name"), texts(tables, "channels", "name"), texts(tables, "spans", "label")
    rows = zip(labels, *(tables.column("spans", name).tolist() for name in ("thread", "channel", "parent")), strict=True)
    return [(threads[t], label, labels[p] if p >= 0 else "") for label, t, c, p in rows if names[c] in channels]


def require_nested(tables: Tables) -> None:
    """Every span lies within the one around it, in the same thread."""
    start, parent, thread = (tables.column("spans", name) for name in ("start_ns", "parent", "thread"))
    end = start + tables.column("spans", "duration_ns")
    inner = parent >= 0
    outer = parent[inner]
    assert (start[outer] <= start[inner]).all()
    assert (end[outer] >= end[inner]).all()
    assert (thread[outer] == thread[inner]).all()


def test_garbage_turns_tracing_on(tmp_path: Path) -> None:
    ended = [python(TRACES, folder=tmp_path, PVTI_OPTIONS="garbage") for _ in range(2)]
    assert {process.stderr.count("\n") for process in ended} == {1}
    assert all("PVTI_OPTIONS is 'garbage', which is no JSON" in process.stderr for process in ended)
    files = sorted(tmp_path.iterdir())
    assert len(files) == 2
    assert all(NAME.fullmatch(file.name) for file in files)
    assert [spans(read_recording(file), "User") for file in files] == [[("MainThread", "here", "")]] * 2


def test_a_process_without_tracing_writes_nothing(tmp_path: Path) -> None:
    program = f"{TRACES}\n    assert tilestep.tracing.current_file() is None"
    for text in ('{"enable": "false", "directory": "."}', '{"enable": false, "directory": "."}', ""):
        assert python(program, folder=tmp_path, PVTI_OPTIONS=text).stderr == ""
    assert not list(tmp_path.iterdir())


def test_the_tutorial_of_graphcores_tracing_library(tmp_path: Path) -> None:
    python(
        """
        import tilestep
        channel = tilestep.tracing.create_channel("MyChannel")
        loss = tilestep.series("Loss")
        for epoch in range(3):
            with tilestep.tracepoint(f"Epoch #{epoch}", channel=channel):
                for _ in range(4):
                    with tilestep.tracepoint("step", channel=channel):
                        pass
                value = 1 / (epoch + 1)
                tilestep.event(f"Loss={value:.2f}", channel=channel)
                loss.add(value)
        assert tilestep.tracing.list_channels()[-1] == ("MyChannel", True)
        """,
        PVTI_OPTIONS=options(tmp_path / "new" / "folder"),
    )
    tables = only_file(tmp_path / "new" / "folder")
    found = Counter(spans(tables, "MyChannel"))
    assert found["MainThread", "Epoch #1", ""] == 1
    assert found["MainThread", "Loss=0.50", "Epoch #1"] == 1
    assert {number: found["MainThread", "step", f"Epoch #{number}"] for number in range(3)} == {0: 4, 1: 4, 2: 4}
    assert found.total() == 3 * (1 + 4 + 1)
    assert tables.column("points", "value").tolist() == [1, 1 / 2, 1 / 3]
    require_nested(tables)
    (path,) = (tmp_path / "new" / "folder").iterdir()
    system = open_report(path).system
    (process,) = system.processes
    (thread,) = [thread for thread in process.threads if thread.name == "MainThread"]
    assert (process.pid, process.pid) == (thread.tid, int(path.stem.rpartition("-")[2]))  # the main thread has its process's number
    assert [event.label for event in thread.events if event.channel == "MyChannel"] == ["Epoch #0", "Epoch #1", "Epoch #2"]
    epoch = next(event for event in thread.events if event.label == "Epoch #1")
    children = [child for child in epoch.children() if child.channel == "MyChannel"]
    assert [child.label for child in children] == ["step"] * 4 + ["Loss=0.50"]
    assert all(
        epoch.timestamp <= child.timestamp <= child.timestamp + child.duration <= epoch.timestamp + epoch.duration for child in children
    )
    assert [line.name for line in system.series] == ["Loss"]


def test_threads_of_python_have_their_names_and_what_jax_did_is_inside_of_tracepoints(tmp_path: Path) -> None:
    python(
        LOOKS
        + COMPUTES
        + """
    import threading, tilestep
    def work():
        with tilestep.tracepoint("outside"):
            f(x).block_until_ready()
        looks()  # it sees the thread
    thread = threading.Thread(target=work, name="worker")
    thread.start()
    thread.join()
    """,
        PVTI_OPTIONS=options(tmp_path),
    )
    tables = only_file(tmp_path)
    found = spans(tables, "Framework")
    assert ("worker", "PjitFunction(<lambda>)", "outside") in found
    assert any(thread.startswith("tf_XLA") for thread, _, _ in found)
    assert not any(label.startswith("ThreadpoolListener") for _, label, _ in found)
    assert all(
        tid > 0 for tid, name in zip(tables.column("threads", "tid"), texts(tables, "threads", "name"), strict=True) if "Main" in name
    )
    require_nested(tables)


def test_nothing_is_recorded_after_the_duration(tmp_path: Path) -> None:
    python(
        """
        import time, tilestep
        tracing = tilestep.tracing
        with tilestep.tracepoint("within"):
            pass
        with tilestep.tracepoint("until the end"):
            while tracing.is_channel_enabled("User"):
                time.sleep(0.01)
        with tilestep.tracepoint("after"):
            pass
        """,
        PVTI_OPTIONS=options(tmp_path, duration=1),
    )
    assert [label for _, label, _ in spans(only_file(tmp_path), "User")] == ["within", "until the end"]


def test_a_profile_that_the_program_takes_goes_before_and_both_are_right(tmp_path: Path) -> None:
    ended = python(
        LOOKS
        + COMPUTES
        + f"""
    import glob, time, tilestep
    def work(times):
        for _ in range(times):
            f(x).block_until_ready()
    with tilestep.tracepoint("outer"):
        work(3)
        with jax.profiler.trace({str(tmp_path / "mine")!r}):
            with tilestep.tracepoint("inside"):
                work(5)
            looks()  # whether it may go on
        while tilestep.tracing.logs.current.annotation is not None:  # until the session goes on
            time.sleep(0.01)
        with tilestep.tracepoint("after"):
            work(7)
    (path,) = glob.glob({str(tmp_path / "mine")!r} + "/plugins/profile/*/*.xplane.pb")
    planes = jax.profiler.ProfileData.from_file(path).planes
    names = [event.name for plane in planes if plane.name == "/host:CPU" for line in plane.lines for event in line.events]
    print(names.count("ParseArguments"), names.count("inside"), names.count("outer"), names.count("after"))
    """,
        PVTI_OPTIONS=options(tmp_path / "ours"),
    )
    assert ended.stdout.split() == ["5", "1", "0", "0"]
    tables = only_file(tmp_path / "ours")
    assert spans(tables, "User") == [("MainThread", "outer", ""), ("MainThread", "inside", "outer"), ("MainThread", "after", "outer")]
    calls = Counter(parent for _, label, parent in spans(tables, "Framework") if label == "PjitFunction(<lambda>)")
    assert (calls["outer"], calls["inside"], calls["after"]) == (3, 0, 7)
    (note,) = notes(tables)
    assert re.fullmatch(r"from [\d.]+ s to [\d.]+ s JAX's threads are missing, because the program took a profile with jax.profiler", note)


CHILDREN = """
import multiprocessing, os, sys, tilestep

def child(name):
    with tilestep.tracepoint(name):
        tilestep.series("Loss").add(0.25)

if __name__ == "__main__":
    tilestep.series("Loss").add(0.5)
    with tilestep.tracepoint("parent"):
        number = os.fork()
        if not number:
            child("os.fork")
            sys.exit()
        os.waitpid(number, 0)
        for way in ("fork", "spawn", "forkserver"):
            process = multiprocessing.get_context(way).Process(target=child, args=(way,))
            process.start()
            process.join()
            assert process.exitcode == 0
"""


@pytest.mark.slow
def test_children_have_files_of_their_own_however_they_begin_and_all_stand_on_one_axis(tmp_path: Path) -> None:
    """Each runs within a span of the program, and so it does in what is read of all."""
    program, traces = tmp_path / "program.py", tmp_path / "traces"
    program.write_text(CHILDREN)
    settings = clean_environ({"PVTI_OPTIONS": options(traces)})
    subprocess.run([sys.executable, program], env=settings, check=True, timeout=PROCESS_TIMEOUT_WALL_S)
    files = [read_recording(path) for path in traces.iterdir()]
    labels = sorted([label for _, label, _ in spans(file, "User")] for file in files)
    assert labels == [["fork"], ["forkserver"], ["os.fork"], ["parent"], ["spawn"]]
    assert len({int(file.column("processes", "pid")[0]) for file in files}) == 5
    assert {texts(file, "processes", "name")[0] for file in files if spans(file, "User")[0][1] == "parent"} == {"program.py"}
    system = open_report(traces).system
    assert len({process.pid for process in system.processes}) == 5
    parent, *children = sorted((event for event in system.events if event.channel == "User"), key=lambda event: event.start_ns)
    assert (parent.label, [child.label for child in children]) == ("parent", ["os.fork", "fork", "spawn", "forkserver"])
    for child in children:
        assert parent.start_ns < child.start_ns <= child.start_ns + child.duration_ns < parent.start_ns + parent.duration_ns
    assert sorted(line.values.tolist() for line in system.series)[0] == [0.25]
    assert sorted(line.values.tolist() for line in system.series)[-1] == [0.5]
    assert {line.name for line in system.series} == {f"Loss of process {process.pid}" for process in system.processes}
    alone = [open_report(file).system for file in sorted(traces.iterdir())]
    assert sorted(event.duration_ns for event in system.events) == sorted(event.duration_ns for each in alone for event in each.events)
    require_nested(open_report(traces).tables)


def test_a_program_on_ipu_is_traced_and_ends_well(tmp_path: Path) -> None:
    ended = python(
        """
        import jax
        x = jax.device_put(1.0, jax.devices("ipu")[0])
        for _ in range(5):
            x = x + 1
        print(x)
        """,
        PVTI_OPTIONS=options(tmp_path),
    )
    assert (ended.stdout, ended.stderr) == ("6.0\n", "")
    tables = only_file(tmp_path)
    assert any(label == "PjitFunction(add)" for _, label, _ in spans(tables, "Framework"))
    assert not [name for name in texts(tables, "threads", "name") if "emulated" in name]
    assert [run.name for run in open_report(next(tmp_path.iterdir())).execution.runs].count("jit_add") == 5
    assert notes(tables) == []


def test_a_file_that_cannot_be_written_is_one_line_and_the_exit_status_stays(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    ended = attempt(TRACES + "\n    raise SystemExit(7)", PVTI_OPTIONS=options(tmp_path / "file"))
    assert ended.returncode == 7
    assert ended.stderr.count("\n") == 1
    assert ended.stderr.startswith(f"tilestep: PVTI_OPTIONS: {tmp_path}/file")
    assert ended.stderr.endswith("cannot be written: File exists\n")


def test_a_closed_trace_is_in_its_file_and_records_no_more(tmp_path: Path) -> None:
    python(
        TRACES
        + """
    path = tilestep.tracing.current_file()
    tilestep.tracing.close()
    assert __import__("os").path.exists(path)
    assert tilestep.tracing.current_file() is None
    with tilestep.tracepoint("later"):
        pass
    tilestep.tracing.close()
    """,
        PVTI_OPTIONS=options(tmp_path),
    )
    assert spans(only_file(tmp_path), "User") == [("MainThread", "here", "")]


def test_feeds_show_when_they_stall(tmp_path: Path) -> None:
    python(
        """
        import time, numpy, jax, tilestep
        from tilestep.train import InfeedQueue, repeat
        def slow():
            for number in range(3):
                time.sleep(0.1)
                yield numpy.full(3, number, numpy.float32)
        repeat(3, lambda carry, x: carry + x.sum(), jax.numpy.float32(0), InfeedQueue(slow)).block_until_ready()
        """,
        PVTI_OPTIONS=options(tmp_path),
    )
    labels = texts(only_file(tmp_path), "spans", "label")
    assert {"tilestep: a loop waits for its infeed", "tilestep: an infeed gathers elements"} <= {*labels}
