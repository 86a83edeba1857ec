"""`tilestep run --popart`: a program that imports popart runs as it is."""

import functools
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.in_turn import RunPython, in_turn
from tests.unit.cli.test_run import assert_nothing_is_named
from tilestep.figures.reader import open_report
from tilestep.recording.storage.container import read_recording

PROGRAM = """
import sys
import popart
import jax
print(popart.__name__, sys.argv[1:], __name__, jax.devices()[0].platform)
device = popart.DeviceManager().createIpuModelDevice({"numIPUs": 2, "tilesPerIPU": 4})
machine = device.machine()
print(machine.name, machine.num_ipus, machine.ipu.num_tiles, machine.sync_pattern)
"""


@pytest.fixture
def program(tmp_path: Path) -> str:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return str(path)


@pytest.fixture(scope="module")
def run_python() -> Iterator[RunPython]:
    """A process apart from that of other commands, because tilestep.popart stays imported."""
    with in_turn() as run:
        yield run


@pytest.fixture
def tilestep_run(run_python: RunPython) -> RunPython:
    return functools.partial(run_python, "-m", "tilestep", "run")


TRACED = """
import libpvti as pvti, numpy as np, popart
channel = pvti.createTraceChannel("Own")
assert pvti.checkTraceChannel(channel) and ["Own", True] in pvti.listTraceChannel()
with pvti.Tracepoint(channel, "outer"):
    pvti.Tracepoint.begin(channel, "inner")
    pvti.Tracepoint.end(channel, "inner")
    pvti.Tracepoint.event(channel, "moment")

@pvti.instrument_fn(channel)
def called(): pass

class Data:
    def __len__(self): return 3

called()
data = Data()
pvti.instrument(data, ["__len__"], channel)
assert len(data) == 3 and isinstance(data, Data)
pvti.Graph("Loss", "nats").addSeries("training").add(0.5)
pvti.HeatmapDouble("weights", [0.0, 1.0], "").add(np.float32([0.5]))
print(pvti.getCurrentTraceFilename())
"""


def test_libpvti_is_there_and_traces_the_program(tilestep_run: RunPython, tmp_path: Path) -> None:
    options = json.dumps({"enable": "true", "directory": str(tmp_path)})
    done = tilestep_run("--popart", "-c", TRACED, environ={"PVTI_OPTIONS": options})
    assert done.returncode == 0, done.stderr
    (path,) = tmp_path.glob("*.tilestep")
    assert done.stdout == f"{path}\n"
    system = open_report(path).system
    assert {event.label for event in system.events if event.channel == "Own"} == {"outer", "inner", "moment", "called", "Data.__len__"}
    assert [(line.graph, line.name, line.unit, line.values.tolist()) for line in system.series] == [("Loss", "training", "nats", [0.5])]
    assert [heat_map.name for heat_map in system.heat_maps] == ["weights"]


def test_libpvti_does_nothing_in_a_program_that_is_not_traced(tilestep_run: RunPython) -> None:
    program = TRACED.replace("assert pvti.checkTraceChannel(channel) and ", "assert not pvti.checkTraceChannel(channel) and not ")
    done = tilestep_run("--popart", "-c", program)
    assert (done.returncode, done.stdout, done.stderr) == (0, "\n", "")


def test_a_program_of_old_times_gets_numpys_former_names(tilestep_run: RunPython) -> None:
    done = tilestep_run("--popart", "-c", "import numpy as np\nimport popart\nprint(np.product([2, 3]), np.zeros(1, np.int).dtype)")
    assert (done.returncode, done.stdout) == (0, "6 int64\n")
    assert re.fullmatch(
        r"tilestep run: NumPy \S+ has no np.product any more: tilestep gives it to the program, and other .*\n", done.stderr
    )


@pytest.mark.door
def test_the_program_gets_tilesteps_popart_and_its_own_arguments(program: str, tilestep_run: RunPython) -> None:
    done = tilestep_run("--popart", program, "--machine", "a")
    assert (done.returncode, done.stdout.splitlines(), done.stderr) == (
        0,
        ["tilestep.popart ['--machine', 'a'] __main__ cpu", "m2000 2 4 full"],
        "",
    )


def test_without_the_flag_there_is_no_popart(program: str, tilestep_run: RunPython) -> None:
    done = tilestep_run(program)
    assert done.returncode == 1
    assert "No module named 'popart'" in done.stderr
    assert "tilestep run: --popart before the program gives it tilestep.popart under that name" in done.stderr


def test_a_run_that_counts_what_sessions_do_through_jax_names_the_flag(tilestep_run: RunPython) -> None:
    told = "--popart before the program emulates each by itself, on the machine of its device"
    program = "import jax, numpy as np, tilestep.popart"
    assert told in tilestep_run("-c", f"{program}\njax.jit(lambda x: x + 1)(np.ones(8))").stderr
    assert told not in tilestep_run("-c", program).stderr


@pytest.mark.parametrize(
    ("words", "machine"),
    [
        (["--machine", "bow-2000"], "bow-2000 2 1472 full"),
        (["--machine", "bow-2000", "--tiles", "20"], "bow-2000 2 20 full"),
    ],
)
def test_a_machine_on_the_command_line_wins_and_says_so(program: str, words: list[str], machine: str, tilestep_run: RunPython) -> None:
    done = tilestep_run(*words, "--popart", program)
    assert (done.returncode, done.stdout.splitlines()[1]) == (0, machine)
    tiles = f"{int(machine.split()[2]):,}"
    assert f"machine bow-2000: it is emulated, with {tiles} tiles on each IPU, where the program asks for m2000 with 4" in done.stderr
    assert len(done.stderr.splitlines()) == 1


SYSTEM = """
import popart
manager = popart.DeviceManager()
print([len(manager.enumerateDevices(numIpus=count)) for count in (1, 4, 16, 32)])
with manager.acquireAvailableDevice(4, 64) as device:
    print(device.machine().name, device.machine().num_ipus, device.machine().ipu.num_tiles)
"""


@pytest.mark.parametrize(
    ("words", "printed"),
    [
        ([], ["[16, 4, 1, 0]", "bow-pod16 4 64"]),
        (["--ipus", "32"], ["[32, 8, 2, 1]", "bow-2000 4 64"]),
        (["--machine", "m2000", "--ipus", "8"], ["[8, 2, 0, 0]", "m2000 4 1472"]),
    ],
)
def test_the_system_has_as_many_ipus_as_the_command_line_says(words: list[str], printed: list[str], tilestep_run: RunPython) -> None:
    done = tilestep_run(*words, "--popart", "-c", SYSTEM)
    assert (done.returncode, done.stdout.splitlines()) == (0, printed)


PIPELINE = """
import numpy as np
import popart
builder = popart.Builder()
x = y = builder.addInputTensor("FLOAT", [2, 8])
for ipu in range(2):
    with builder.virtualGraph(ipu):
        y = builder.aiOnnx.matmul([y, builder.addInitializedInputTensor(np.eye(8, dtype=np.float32))])
        loss = builder.aiGraphcore.identityloss([y]) if ipu else ""
options = popart.SessionOptions()
options.virtualGraphMode, options.enablePipelining = popart.VirtualGraphMode.Manual, True
options.enableGradientAccumulation, options.accumulationFactor = True, 4
options.weightTensorLocationSettings.location.storage = popart.TensorStorage.OffChip
options.instrumentWithHardwareCycleCounter = True
flow, sgd = popart.DataFlow(1, [loss]), popart.SGD({"defaultLearningRate": (0.1, True)})
with popart.DeviceManager().acquireAvailableDevice(2, 16) as device:
    session = popart.TrainingSession(builder.getModelProto(), flow, loss, sgd, device, userOptions=options)
    session.prepareDevice()
    session.weightsFromHost()
    session.run(popart.PyStepIO({x: np.ones((4, 2, 8), np.float32)}, session.initAnchorArrays()))
    print(session.getCycleCount() > 0)
"""


def test_a_pipeline_is_emulated_though_the_process_has_no_emulated_platform(tilestep_run: RunPython) -> None:
    done = tilestep_run("--popart", "-c", PIPELINE)
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr


def test_a_system_with_too_few_ipus_says_how_to_get_more(tilestep_run: RunPython) -> None:
    done = tilestep_run("--ipus", "2", "--popart", "-c", "import popart; popart.DeviceManager().acquireAvailableDevice(4)")
    assert done.returncode == 1
    assert "Failed to acquire device with 4 IPUs." in done.stderr
    assert "The emulated system has 2 IPUs: `tilestep run --popart --ipus N`" in done.stderr


def test_what_changes_a_machine_needs_one(program: str, tilestep_run: RunPython) -> None:
    done = tilestep_run("--tiles", "20", "--popart", program)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("tilestep run: --tiles changes the machine of --machine with --popart")


@pytest.mark.parametrize("words", [["--dry-run"], ["--json", "x.json"], ["--all"], ["--sync-pattern", "full"]])
def test_options_that_say_nothing_of_a_popart_program_are_refused(
    program: str, words: list[str], tmp_path: Path, tilestep_run: RunPython
) -> None:
    done = tilestep_run(*words, "--popart", program, folder=tmp_path)
    assert done.returncode == 2
    assert f"{words[0]} doesn't go with --popart: " in done.stderr
    assert not done.stdout
    assert {path.name for path in tmp_path.iterdir()} == {"program.py"}


def test_the_programs_exit_code_is_the_commands(tmp_path: Path, tilestep_run: RunPython) -> None:
    (tmp_path / "program.py").write_text("import popart, sys\nsys.exit(7)\n")
    assert tilestep_run("--popart", str(tmp_path / "program.py")).returncode == 7


def test_code_and_modules_run_as_scripts_do(tilestep_run: RunPython) -> None:
    done = tilestep_run("--popart", "-c", "import popart; print(popart.__name__)")
    assert (done.returncode, done.stdout) == (0, "tilestep.popart\n")


SESSION = """
import numpy as np
import popart

builder = popart.Builder()
a = builder.addInputTensor(popart.TensorInfo("FLOAT", [2]))
b = builder.aiOnnx.add([a, a])
builder.addOutputTensor(b)
flow = popart.DataFlow(1, {b: popart.AnchorReturnType("All")})
device = popart.DeviceManager().createIpuModelDevice({"numIPUs": 1, "tilesPerIPU": 4})
session = popart.InferenceSession(builder.getModelProto(), flow, device)
session.prepareDevice()
anchors = session.initAnchorArrays()
session.run(popart.PyStepIO({a: np.array([1, 2], np.float32)}, anchors))
print(anchors[b])
"""


def test_the_figures_of_each_session_come_last(tmp_path: Path, tilestep_run: RunPython) -> None:
    done = tilestep_run("--popart", "-c", SESSION + SESSION.replace('"tilesPerIPU": 4', '"tilesPerIPU": 8'))
    assert (done.returncode, done.stdout) == (0, "[2. 4.]\n[2. 4.]\n")
    told = [line for line in done.stderr.splitlines() if line.startswith(("session", "tilestep:"))]
    assert told[0] == told[2] == "session 'inference' on m2000"
    assert all(verdict.startswith("tilestep: fits: run, the fullest, ") for verdict in told[1::2])
    ran = [line for line in done.stderr.splitlines() if line.endswith("1 program run")]
    assert ["(1 IPU of 4 tiles, 1.33 GHz)" in ran[0], "(1 IPU of 8 tiles, 1.33 GHz)" in ran[1]] == [True, True]


def test_a_report_of_each_session_is_written_with_or_without_the_source(tmp_path: Path, tilestep_run: RunPython) -> None:
    (tmp_path / "secret.py").write_text(SESSION + SESSION)
    texts: list[str] = []
    for flags in ([], ["--no-source"]):
        folder = tmp_path / f"reports{len(flags)}"
        done = tilestep_run("--report", str(folder), *flags, "--popart", str(tmp_path / "secret.py"))
        assert done.returncode == 0, done.stderr
        names = ["inference", "inference-2"]
        assert sorted(path.name for path in folder.iterdir()) == names
        pages = [f"tilestep run: {folder / name / 'report.html'} shows session 'inference' in a browser" for name in names]
        assert [line for line in done.stderr.splitlines() if "browser" in line] == pages
        assert all((folder / name / "report.html").is_file() for name in names)
        texts.append(read_recording(folder / "inference" / "run.tilestep").text("sources"))
    assert_nothing_is_named(folder, tmp_path / "secret.py", at_least=("memory.txt", "program.tilestep", "report.html", "profile.json"))
    assert "secret.py" in texts[0]
    assert texts[1] == ""


def test_a_report_in_the_folder_that_a_session_names_itself_is_one_report(tmp_path: Path, tilestep_run: RunPython) -> None:
    named = SESSION.replace("session = popart.InferenceSession(builder.getModelProto(), flow, device)", OWN_FOLDER)
    own, other_own = tmp_path / "own", tmp_path / "own of the other"
    alike = tilestep_run("--report", str(own), "--popart", "-c", named.replace("FOLDER", str(own)))
    assert [path.name for path in own.iterdir()] == ["inference"]
    assert "no session wrote" not in alike.stderr
    other = tilestep_run("--report", str(tmp_path / "asked"), "--popart", "-c", named.replace("FOLDER", str(other_own)))
    page = other_own / "inference" / "report.html"
    assert f"{page} shows session" in other.stderr
    said = f"tilestep run: no session wrote a report to {tmp_path / 'asked'}: their engineOptions name another place\n"
    assert said in other.stderr
    nothing = tilestep_run("--report", str(tmp_path / "asked"), "--popart", "-c", "0")
    assert nothing.stderr == f"tilestep run: no session wrote a report to {tmp_path / 'asked'}: the program made none\n"


OWN_FOLDER = """options = popart.SessionOptions()
options.engineOptions = {"autoReport.directory": "FOLDER", "autoReport.all": "true"}
session = popart.InferenceSession(builder.getModelProto(), flow, device, userOptions=options)"""


@pytest.mark.parametrize("named", ["asked", "other"])
def test_the_flag_s_folder_goes_before_the_variable_s_which_is_told(named: str, tmp_path: Path, tilestep_run: RunPython) -> None:
    options = json.dumps({"autoReport.directory": str(tmp_path / named)})
    done = tilestep_run("--report", str(tmp_path / "asked"), "--popart", "-c", SESSION, environ={"POPLAR_ENGINE_OPTIONS": options})
    assert (tmp_path / "asked" / "inference" / "run.tilestep").is_file()
    told = f"reports go to --report {tmp_path / 'asked'}; POPLAR_ENGINE_OPTIONS names {tmp_path / 'other'}, which gets none"
    assert (told in done.stderr) is (named == "other")
    assert "no session wrote" not in done.stderr


def test_stages_are_proposed_for_each_session(tmp_path: Path, tilestep_run: RunPython) -> None:
    path = tmp_path / "stages.json"
    done = tilestep_run("--propose-stages", "2", "--json", str(path), "--popart", "-c", SESSION)
    assert (done.returncode, done.stdout) == (0, "[2. 4.]\n")
    assert "session 'inference': proposed stages\n1 stage for inference on m2000, balance 100.0%\n" in done.stderr
    (proposal,) = json.loads(path.read_text())
    assert (proposal["session"], proposal["asked"], len(proposal["stages"])) == ("inference", 2, 1)
