"""The examples run, learn, refuse bad input, and give on the IPU what they give on the CPU."""

import functools
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests import recordings
from tests.in_turn import RunPython, in_turn
from tests.processes import ROOT

EXAMPLES = ROOT / "examples"

SHORT = recordings.EXAMPLES["mnist_classifier"]  # enough to tell numbers apart
BACKENDS = ["ipu", pytest.param("cpu", marks=pytest.mark.slow)]
Printed = Callable[..., str]


def printed_anew(run_python: RunPython, backend: str, example: str, *flags: str) -> str:
    """What an example prints to stdout: on 'ipu' under `tilestep run`, on 'cpu' by itself. Nothing may warn."""
    command = (str(EXAMPLES / example), "--backend", backend, *flags)
    done = run_python(*(("-m", "tilestep", "run") if backend == "ipu" else ()), *command)
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def run_python() -> Iterator[RunPython]:
    """One process for the examples, apart from that of other tests because tilestep.popart stays imported."""
    with in_turn() as run:
        yield run


@pytest.fixture(scope="module")
def printed_on(run_python: RunPython, tmp_path_factory: pytest.TempPathFactory) -> Printed:
    """The same, of a run that several tests ask: the one that `tests/recordings.py` records, where it is the same."""
    shared = recordings.shared_folder(tmp_path_factory)

    @functools.cache
    def printed(backend: str, example: str, *flags: str) -> str:
        name = Path(example).stem
        if backend == "cpu" or name in recordings.SHORTER or recordings.EXAMPLES.get(name) != flags:
            return printed_anew(run_python, backend, example, *flags)
        folder = recordings.example(name, shared)
        assert "Warning" not in (folder / "stderr.txt").read_text(encoding="utf-8")
        return (folder / "stdout.txt").read_text(encoding="utf-8")

    return printed


def test_the_quickstart_prints_its_values_and_an_ipu(run_python: RunPython) -> None:
    done = run_python(str(EXAMPLES / "quickstart.py"))
    assert (done.returncode, done.stderr) == (0, "")
    assert "Platform = ipu, the default is cpu\nNumber of devices = 4\n" in done.stdout
    assert "[ 2.  5. 10.] IpuDevice(id=0, num_tiles=1472, version=ipu2)\n" in done.stdout
    layers = re.findall(r"^(\[\[.*\]\]) on (.*)$", done.stdout, re.MULTILINE)
    assert len({values for values, _ in layers}) == 1
    assert [device[:14] for _, device in layers] == ["IpuDevice(id=0", "IpuDevice(id=3", "cpu:0"]
    draws = re.findall(r"^(?:cpu|ipu) (\[.*\])$", done.stdout, re.MULTILINE)
    assert len(draws) == 2
    assert draws[0] == draws[1]
    assert re.search(r"jit_product +4 +1 ", done.stdout), "four runs, one load"


@pytest.mark.parametrize(
    "example", [pytest.param(("mnist_classifier.py", *SHORT), marks=pytest.mark.slow), ("karate_club.py",)], ids=lambda words: words[0]
)
def test_an_example_prints_the_same_on_ipu_and_cpu(example: tuple[str, ...], printed_on: Printed) -> None:
    assert printed_on("ipu", *example) == printed_on("cpu", *example)


@pytest.mark.parametrize("example", ["mnist_classifier.py", pytest.param("mnist_plain.py", marks=pytest.mark.slow)])
def test_the_digits_classifier_gets_95_percent_of_unseen_digits_right(example: str, printed_on: Printed) -> None:
    accuracies = re.findall(r"test accuracy ([\d.]+)", printed_on("cpu", example))
    assert len(accuracies) == 10
    assert float(accuracies[-1]) > 0.95


@pytest.mark.parametrize("backend", BACKENDS)
def test_ten_steps_give_ten_rows_of_sums_and_differences(backend: str, printed_on: Printed) -> None:
    count, *results = printed_on(backend, "training_loop.py").splitlines()
    assert re.fullmatch(r"10 steps on (IpuDevice\(id=0, .*\)|cpu:0); elements taken: 10", count)
    assert sorted(results) == ["difference: float32[10, 800], all [0.0]", "sum: float32[10, 800], all [2.0]"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_hundred_losses_are_printed_in_order_before_training_returns(backend: str, printed_on: Printed) -> None:
    *steps, last = printed_on(backend, "results_while_running.py").splitlines()
    found = [re.fullmatch(r"step +(\d+): loss ([\d.]+)", line) for line in steps]
    assert [int(match[1]) for match in found if match] == list(range(100))
    losses = [float(match[2]) for match in found if match]
    assert losses[0] > 1 > 0.05 > max(losses[80:])
    weights = re.fullmatch(r"train\(\) has returned: 100 losses are printed, weights are \[([\d.-]+), ([\d.-]+)\]", last)
    assert weights
    assert [float(weight) for weight in weights.groups()] == pytest.approx([1, -2], abs=0.1)


def test_the_karate_club_splits_with_one_member_wrong(printed_on: Printed) -> None:
    *_, last_step, wrong = printed_on("cpu", "karate_club.py").splitlines()
    assert last_step.endswith("33 of 34 right (0.971)")
    assert wrong.startswith("member 8 ")


def test_linear_regression_finds_the_line_and_its_state_stays_on_the_ipu(printed_on: Printed) -> None:
    on_ipu, on_cpu = printed_on("ipu", "linear_regression.py"), printed_on("cpu", "linear_regression.py")
    w, b = map(float, re.findall(r"-?[\d.]+\d", on_cpu))
    assert w == pytest.approx(2, abs=0.15)  # three standard errors of 128 points with noise 0.5
    assert b == pytest.approx(-1, abs=0.15)
    assert on_ipu.startswith(on_cpu)
    state_bytes = 4 * (2 + 2 * 128)
    assert f"{state_bytes:,} bytes in at the first run, 0 at each one after it\n  0 bytes out at each run\n" in on_ipu


@pytest.mark.slow
def test_the_transformer_in_stages_learns_shakespeare(printed_on: Printed) -> None:
    on_ipu, on_cpu = (printed_on(backend, "pipeline_transformer.py") for backend in ("ipu", "cpu"))
    assert on_ipu.startswith(on_cpu)
    losses = [float(loss) for loss in re.findall(r"update \d+: ([\d.]+) nats a character", on_ipu)]
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < 2.6
    assert "below 2.6: True\n" in on_ipu
    bubbles = re.findall(r"([\d.]+)% (?:of the IPUs' time|if stages were alike)", on_ipu)
    assert float(bubbles[0]) > float(bubbles[1]) == 27.3


@pytest.mark.slow
def test_a_popart_pipeline_learns_with_accumulated_and_with_stale_weights(run_python: RunPython) -> None:
    done = run_python(str(EXAMPLES / "popart_pipeline.py"))
    assert (done.returncode, done.stderr) == (0, "")
    assert "the same operators in the same places: True" in done.stdout
    assert "The model's own 4 stages: the slowest takes 33,176 cycles (1.00 times as many)." in done.stdout
    for name in ("accumulated", "stale"):
        found = re.search(rf"^{name} +([\d. ]+) mean loss of each epoch$", done.stdout, re.MULTILINE)
        assert found
        losses = [float(loss) for loss in found[1].split()]
        assert losses == sorted(losses, reverse=True)
        assert losses[0] > 1.5 > 0.25 > losses[-1]
    accumulated, stale = (int(cycles.replace(",", "")) for cycles in re.findall(r"^\w+ +([\d,]+) cycles$", done.stdout, re.MULTILINE))
    assert stale < accumulated  # it is never flushed


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_pmap_quickstart_gives_known_arrays(backend: str, printed_on: Printed) -> None:
    printed = " ".join(printed_on(backend, "pmap_quickstart.py").split())
    for known in (
        "[[ 0. 1. 4.] [ 9. 16. 25.] [ 36. 49. 64.] [ 81. 100. 121.]]",
        "[[0. 0.2 0.2857143 ] [1. 0.8 0.71428573]] columns add up to [1. 1. 1.]",
        "columns add up to 1: [[0. 0.25] [1. 0.75]] rows do: [[0. 1. ] [0.4 0.6]] all do: [[0. 0.16666667] [0.33333334 0.5 ]]",
        "[[0.8 0.8235294 0.84210527] [1.2 1.1764706 1.1578947 ]]",
    ):
        assert known in printed


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_sharding_quickstart_shows_which_part_lies_where(backend: str, printed_on: Printed) -> None:
    printed = printed_on(backend, "sharding_quickstart.py")
    assert "P('x', 'y'):\n  device 0: [[0.0], [4.0], [16.0], [36.0]]\n  device 1: [[1.0], [9.0], [25.0], [49.0]]\n" in printed
    assert "P('x', 'y') (128, 64)\nas NumPy has it: True\nas NumPy has it: True\n" in printed
    assert printed.endswith("[ 1. -2.  3.]\nadds up gradients: True\n")


def test_a_bert_that_cannot_be_run_is_refused_before_the_work(run_python: RunPython) -> None:
    for flags, says in (
        (("--layers", "0", "0", "0", "0"), "--layers 0 0 0 0: the model has no layer, and needs one or more"),
        (("--replicas", "5"), "--replicas 5: they have 20 IPUs together, and bow-pod16 has 16"),
        (("--machine", "bow-pod17"), "--machine bow-pod17: no machine is called 'bow-pod17' (did you mean 'bow-pod16'?)"),
    ):
        done = run_python("examples/bert_pod.py", *flags)
        assert (done.returncode, done.stdout) == (2, ""), flags
        assert f"error: {says}" in done.stderr


@pytest.mark.slow
def test_a_run_that_is_killed_goes_on_with_the_same_bits(run_python: RunPython) -> None:
    """Three times by SIGKILL, in processes of its own."""
    done = run_python("examples/resume.py")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[:5] == ["whole: exit status 0", *["killed by signal 9"] * 3, "exit status 0"]
    assert re.fullmatch(r"accuracy (0\.9\d+), and \1 of the run that was killed 3 times", lines[5])
    assert lines[6:] == ["176 losses, each with the same bits"]
