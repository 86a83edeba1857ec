"""What the host did, read from recordings, and reports on files and folders."""

import re
from pathlib import Path

import pytest

import tilestep
from tests.unit.recording.recordings import small_recording
from tilestep import RecordingError
from tilestep.figures.reader import Report
from tilestep.recording.storage.container import Builder, parse_recording, recording_bytes, write_recording


def traced() -> Builder:
    """A process whose thread has nested tracepoints, a line and a heat map."""
    builder = Builder(kind="trace")
    builder.append("processes", pid=42, name="python train.py")
    builder.append("threads", process=0, tid=7, name="MainThread")
    builder.append("threads", process=0, tid=8, name="feeder")
    builder.append("channels", name="Framework")
    for label, start, duration, parent in (
        ("Epoch #1", 1000, 9000, -1),
        ("step", 2000, 3000, 0),
        ("step", 6000, 2500, 0),
        ("Loss=", 9000, 0, 0),
    ):
        builder.append("spans", thread=0, channel=0, label=label, start_ns=start, duration_ns=duration, parent=parent)
    builder.append("spans", thread=1, channel=-1, label="fill", start_ns=0, duration_ns=500, parent=-1)
    builder.append("series", name="loss", graph="training", unit="nats")
    builder.extend("points", series=[0, 0], time_ns=[1, 5], value=[2.5, 1.5])
    builder.append("heat_maps", name="latency", unit="ms")
    builder.extend("edges", heat_map=[0, 0], edge=[1.0, 10.0])
    builder.extend("heat", heat_map=[0, 0, 0], time_ns=[3, 3, 9], cell=[0, 2, 1], times=[4, 1, 2])
    return builder


def read(builder: Builder) -> Report:
    """The report, as a file would give it."""
    return Report(parse_recording(recording_bytes(builder.tables())))


def test_events_nest() -> None:
    (process,) = read(traced()).system.processes
    assert (process.pid, process.name) == (42, "python train.py")
    main, feeder = process.threads
    (epoch,) = main.events
    assert (epoch.label, epoch.channel, epoch.timestamp, epoch.duration) == ("Epoch #1", "Framework", 1.0, 9.0)
    assert [child.label for child in epoch.children()] == ["step", "step", "Loss="]
    for child in epoch.children():
        assert epoch.start_ns <= child.start_ns
        assert child.start_ns + child.duration_ns <= epoch.start_ns + epoch.duration_ns
        assert child.children() == ()
    assert len(main.all_events) == 4
    assert main.channels == ("Framework",)
    assert [event.channel for event in feeder.events] == [""]


def test_lines_and_heat_maps_are_arrays() -> None:
    system = read(traced()).system
    (line,) = system.series
    assert (line.name, line.graph, line.unit, line.times_ns.tolist(), line.values.tolist()) == (
        "loss",
        "training",
        "nats",
        [1, 5],
        [2.5, 1.5],
    )
    (heat_map,) = system.heat_maps
    assert (heat_map.name, heat_map.unit, heat_map.edges) == ("latency", "ms", (1.0, 10.0))
    assert heat_map.times_ns.tolist() == [3, 9]
    assert heat_map.counts.tolist() == [[4, 0, 1], [0, 2, 0]]
    assert system.channels == ("Framework",)
    assert len(system.events) == 5


def test_a_span_within_itself_is_a_named_error() -> None:
    builder = traced()
    builder.append("spans", thread=0, channel=-1, label="x", start_ns=0, duration_ns=0, parent=5)
    with pytest.raises(RecordingError, match="column 'spans/parent' has 5 in row 5: a span comes behind the one around it"):
        _ = read(builder).system.processes[0].threads[0].events


def test_a_cell_that_a_heat_map_lacks_is_a_named_error() -> None:
    builder = traced()
    builder.append("heat", heat_map=0, time_ns=3, cell=3, times=1)
    with pytest.raises(RecordingError, match="heat map 'latency' has cells 0 to 3: it has 3 cells"):
        _ = read(builder).system.heat_maps


def test_a_file_and_its_folder_are_opened(tmp_path: Path) -> None:
    write_recording(tmp_path / "run.tilestep", traced().tables())
    for path in (tmp_path, tmp_path / "run.tilestep", str(tmp_path)):
        report = tilestep.open_report(path)
        assert report.parts == ("system",)
        assert report.version == tilestep.__version__
        assert report.notes["kind"] == "trace"
    assert repr(report).endswith("run.tilestep': system>")


def test_a_folder_of_a_program_is_opened(tmp_path: Path) -> None:
    write_recording(tmp_path / "program.tilestep", small_recording())
    assert tilestep.open_report(tmp_path).parts == ("compilation", "execution")


def test_a_folder_with_one_recording_of_any_name_is_opened(tmp_path: Path) -> None:
    write_recording(tmp_path / "20261123T140509.123+0100-4711.tilestep", traced().tables())
    (tmp_path / "notes.txt").touch()
    assert tilestep.open_report(tmp_path).parts == ("system",)


def test_a_folder_with_several_recordings_names_the_last_ones(tmp_path: Path) -> None:
    for number in range(9):
        (tmp_path / f"{number}.tilestep").touch()
    last = ", ".join(f"{number}.tilestep" for number in range(3, 9))
    with pytest.raises(RecordingError, match=re.escape(f"has 9 recordings: name one of them (the last 6 are {last})")):
        tilestep.open_report(tmp_path)


def test_a_folder_says_which_of_its_recordings_is_damaged(tmp_path: Path) -> None:
    write_recording(tmp_path / "1.tilestep", job(5000).tables())
    (tmp_path / "2.tilestep").write_bytes(b"PK")
    with pytest.raises(RecordingError, match=r"has 2 recordings: name one of them .*; together they cannot be read: .*2\.tilestep"):
        tilestep.open_report(tmp_path)


def job(begin_ns: int, pid: int = 1, **notes: object) -> Builder:
    """The trace of a process that is 1,000 ns long."""
    builder = Builder(kind="trace", notes={"begin_unix_ns": begin_ns, **notes})
    builder.append("processes", pid=pid, name="python")
    builder.append("threads", process=0, tid=pid, name="MainThread")
    builder.append("channels", name=f"channel {pid}")
    builder.append("spans", thread=0, channel=0, label=f"whole {pid}", start_ns=0, duration_ns=1000, parent=-1)
    builder.append("spans", thread=0, channel=0, label="within", start_ns=10, duration_ns=500, parent=0)
    return builder


def test_traces_that_overlap_are_one_job_and_others_are_not(tmp_path: Path) -> None:
    for number, (begins, together) in enumerate({(5000, 5900, 6800): True, (5000, 7000): False, (5000, 5000): True}.items()):
        folder = tmp_path / str(number)
        folder.mkdir()
        for pid, begin in enumerate(begins):
            write_recording(folder / f"{pid}.tilestep", job(begin, pid).tables())
        if not together:
            with pytest.raises(RecordingError, match="has 2 recordings: name one of them"):
                tilestep.open_report(folder)
            continue
        system = tilestep.open_report(folder).system
        found = {(event.label, event.start_ns, event.channel) for event in system.events}
        assert found == {
            (label, begin - min(begins) + start, f"channel {pid}")
            for pid, begin in enumerate(begins)
            for label, start in ((f"whole {pid}", 0), ("within", 10))
        }
        assert [(process.name, [event.label for event in process.threads[0].events]) for process in system.processes] == [
            ("python", [f"whole {pid}"]) for pid in range(len(begins))
        ]
    write_recording(tmp_path / "0" / "part1.tilestep", job(5000, 0).tables())  # a piece of the first
    with pytest.raises(RecordingError, match="has 4 recordings"):
        tilestep.open_report(tmp_path / "0")


def test_threads_have_sums() -> None:
    for process in read(traced()).system.processes:
        for thread in process.threads:
            assert thread.num_events == len(thread.all_events)
            assert thread.busy_ns == sum(event.duration_ns for event in thread.events)


def test_a_folder_of_programs_alone_says_where_they_are(tmp_path: Path) -> None:
    (tmp_path / "programs").mkdir()
    with pytest.raises(RecordingError, match=re.escape(f"has no run.tilestep: name the folder of a program in {tmp_path}/programs")):
        tilestep.open_report(tmp_path)


def test_a_folder_without_a_recording_says_what_it_has(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match=r"folder '.*' is empty: name a \.tilestep file, or a folder with one"):
        tilestep.open_report(tmp_path)
    (tmp_path / "profile.pop").touch()
    with pytest.raises(RecordingError, match=r"has no run\.tilestep and no program\.tilestep, but profile\.pop: name a \.tilestep file"):
        tilestep.open_report(tmp_path)


def test_a_path_that_is_not_there_is_an_error_of_the_system(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nothing"):
        tilestep.open_report(tmp_path / "nothing")
