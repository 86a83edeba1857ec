"""The example that asks whether BERT fits into a pod, with other sizes, replicas and machines than the published run's."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.in_turn import RunPython, in_turn

SMALL = ("--width", "64", "--heads", "2", "--tokens", "32", "--microbatch", "2", "--replicas", "1", "--machine", "bow-2000")


@pytest.fixture(scope="module")
def run_python() -> Iterator[RunPython]:
    with in_turn() as run:
        yield run


def test_what_cannot_be_run_is_refused_before_the_work(run_python: RunPython) -> None:
    for flags, says in (
        (("--layers", "0", "0", "0", "0"), "--layers 0 0 0 0: the model has no layer, and needs one or more"),
        (("--replicas", "5"), "--replicas 5: they have 20 IPUs together, and bow-pod16 has 16"),
        (("--machine", "bow-pod17"), "--machine bow-pod17: no machine is called 'bow-pod17' (did you mean 'bow-pod16'?)"),
    ):
        done = run_python("examples/bert_pod.py", *flags)
        assert (done.returncode, done.stdout) == (2, ""), flags
        assert f"error: {says}" in done.stderr


def test_another_configuration_is_compared_with_no_published_rate(run_python: RunPython) -> None:
    done = run_python("examples/bert_pod.py", *SMALL, "--layers", "0", "1", "0", "1")
    assert (done.returncode, done.stderr) == (0, "")
    shares = re.findall(r"\n(each program by itself|all of IPU \d together) fits: yes, the fullest tile needs (\d+)% of", done.stdout)
    assert [what for what, _ in shares][:1] == ["each program by itself"]
    assert len(shares) == 2  # and the fullest IPU's programs together
    assert int(shares[0][1]) <= int(shares[1][1]) <= 100
    assert "published" not in done.stdout
    update = re.search(r"an update of 4,096 sequences: ([\d.]+) s\nsequences a second: ([\d,]+)\n", done.stdout)
    assert update is not None, done.stdout
    assert float(update[2].replace(",", "")) == pytest.approx(4096 / float(update[1]), rel=1e-3)
    microbatch = re.search(r"a microbatch: ([\d.]+) ms", done.stdout)
    assert microbatch is not None
    assert float(update[1]) == pytest.approx(2048e-3 * float(microbatch[1]), rel=0.1)


def test_a_model_that_does_not_fit_is_said_not_to(run_python: RunPython) -> None:
    wide = ("--width", "4096", "--microbatches", "2", "--layers", "0", "0", "0", "1")
    done = run_python("examples/bert_pod.py", *SMALL, *wide)
    assert (done.returncode, done.stderr) == (0, "")
    share = re.search(r"\neach program by itself fits: no, the fullest tile needs (\d+)% of its memory\n", done.stdout)
    assert share is not None, done.stdout
    assert int(share[1]) > 100
    assert "an update of 4 sequences: " in done.stdout
