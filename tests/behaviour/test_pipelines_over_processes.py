"""Pipelines whose stages are in several processes over localhost: values of one process, and what all do when one fails or ends."""

import re
import sys
from pathlib import Path

import pytest

from tests.documents import blocks

from .several import Ended, free_port, started

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(__file__).with_name("pipelines_program.py")
LIMIT_WALL_S = 280.0
TIMEOUT_S = 8.0  # until a process that has died, or stopped, is found
PATIENT_S = 120.0  # where none of them does, however busy the machine is


def run(count: int, *parts: str, timeout_s: float = TIMEOUT_S) -> list[Ended]:
    """Runs parts of the program in `count` processes. Args: timeout_s: that they wait for each other."""
    port = free_port()
    options = ["-u", str(PROGRAM)]
    return started(
        [[sys.executable, *options, *map(str, (own, count, port, timeout_s)), *parts] for own in range(count)], limit_wall_s=LIMIT_WALL_S
    )


def require_values_of_one_process(count: int, *parts: str) -> None:
    """To the bit; each array of the state is in one process, and the losses are in all."""
    (alone,) = run(1, *parts, timeout_s=PATIENT_S)
    assert alone.lines[-1:] == ["end"], alone
    ended = run(count, *parts, timeout_s=PATIENT_S)
    together: dict[str, int] = {}
    for end in ended:
        assert (end.status, end.lines[-1:]) == (0, ["end"]), end
        for line in end.lines:
            together[line] = together.get(line, 0) + 1
    assert set(together) == set(alone.lines)
    for line, times in together.items():
        assert times == 1 or line == "end" or re.match(r"raised|(\w+|after \w+|in turns \d \d+)(\[[12]\]| )", line), (line, times)


def require_failures(count: int) -> None:
    """Each process raises; who has not failed names who has, with stage and microbatch. All go on with the same values."""
    ended = run(count, "failures")
    first, last = ended[0], ended[-1]
    owner = count // 2  # of the second stage
    for process, end in enumerate(ended):
        assert (end.status, end.lines[-1:]) == (0, ["end"]), end
        for case, victim, words in (
            ("dataset", 0, "OSError: the disk is gone"),
            ("compilation", count * 3 // 4, r"incompatible devices.*raised by stage 2 \(unknown\) of the pipeline, when its forward"),
            (
                "zero_bubble nan",
                0,
                r"NotFiniteError: stage 0 \(lambda\) of the pipeline made a NaN or an infinity with microbatch 4: output 0",
            ),
            ("zero_bubble root", owner, r"NotFiniteError: stage 1 \(root\) of the pipeline .* with microbatch 4: output 0"),
            ("stale nan", 0, r"NotFiniteError: stage 0 \(lambda\) of the pipeline .* with microbatch 4: output 0"),
            ("stale root", owner, r"NotFiniteError: stage 1 \(root\) of the pipeline .* with microbatch 4: output 0"),
        ):
            line = end.found(case)
            assert re.search(words, line), line
            named = re.search(rf"ProcessFailedError: process {victim} \(pid \d+ on \S+\) has failed: ", line)
            assert (named is None) is (process == victim), line
    losses = [[line for line in end.lines if line.startswith("after ")] for end in ended]
    assert len(losses[0]) == 3
    assert all(own == losses[0] for own in losses)
    assert first.out != last.out


@pytest.mark.slow
def test_the_program_of_the_document_prints_what_is_shown(tmp_path: Path) -> None:
    page = (ROOT / "docs/how-to/several-processes.md").read_text(encoding="utf-8")
    (block,) = [block for block in blocks(page) if block.language == "py"]
    program = tmp_path / "two.py"
    program.write_text(block.text, encoding="utf-8")
    address = f"localhost:{free_port()}"
    ended = started([[sys.executable, str(program), str(process), address] for process in range(2)], limit_wall_s=LIMIT_WALL_S)
    assert [end.status for end in ended] == [0, 0], ended
    assert "".join(f"{line}\n" for end in ended for line in end.lines) == block.shown
    assert not [line for end in ended for line in end.err.splitlines() if "WatchTasksAsync" in line]


def test_two_processes_give_the_values_of_one() -> None:
    require_values_of_one_process(2, "brief", "in_turns")


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 4])
def test_each_schedule_and_option_has_the_values_of_one_process(count: int) -> None:
    require_values_of_one_process(count, "schedules", "across", "replicated", "queues")


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 4])
def test_a_failure_of_one_process_is_raised_in_all_and_they_go_on(count: int) -> None:
    require_failures(count)


@pytest.mark.slow
def test_runs_that_ctrl_c_has_ended_in_all_processes_go_on_with_each_element_once() -> None:
    for end in run(2, "resumed", timeout_s=PATIENT_S):
        assert (end.status, end.lines) == (0, [*["equal True"] * 4, "end"]), end


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 4])
def test_what_nobody_catches_ends_all_with_its_process_stage_and_microbatch(count: int) -> None:
    victim = count - 2
    for process, end in enumerate(run(count, "raise")):
        assert end.status != 0, end
        words = rf"too much[\s\S]*raised by stage {victim * 2 // (count // 2)} \(slow\) of the pipeline, forward of microbatch \d"
        assert re.search(words, end.err), end
        if process != victim:
            assert re.search(rf"ProcessFailedError: process {victim} \(pid \d+ on \S+\) has failed: ", end.err), end
