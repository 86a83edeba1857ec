"""Several processes of one program over localhost: values, each process's share of the data, and what the others do when one ends."""

import re
import sys
from pathlib import Path

import pytest

from .several import Ended, free_port, started

PROGRAM, STATE_PROGRAM, IPU_PROGRAM = (Path(__file__).with_name(f"processes_{name}.py") for name in ("program", "state", "with_ipus"))
LIMIT_WALL_S = 90.0
TIMEOUT_S = 8.0


def run(count: int, *, victim: int = 0, how: str = "nothing") -> list[Ended]:
    """Runs the program in `count` processes; process `victim` ends in the way `how`."""
    return run_program(PROGRAM, count, TIMEOUT_S, victim, how)


def run_program(program: Path, count: int, *arguments: object) -> list[Ended]:
    """Runs `program PROCESS COUNT PORT ARGUMENTS...` in `count` processes."""
    port = free_port()
    options = ["-W", "error", "-u", str(program)]
    return started(
        [[sys.executable, *options, *map(str, (process, count, port, *arguments))] for process in range(count)], limit_wall_s=LIMIT_WALL_S
    )


def expected_values(count: int) -> str:
    """The program's line with one process of as many devices, by hand: 5 steps, two replicas for each process."""
    elements = [[float(step * 2 * count + replica) for replica in range(2 * count)] for step in range(5)]
    w = 0.0
    for row in elements:
        w = w / 2 + sum(row) / len(row)
    return f"values {elements} {w} 10"


def require_named(ended: list[Ended], victim: int, words: str) -> None:
    """Each process but the victim has ended with an error that names it."""
    for process, end in enumerate(ended):
        if process == victim:
            continue
        assert end.status != 0, end
        assert "end" not in end.out.split(), end
        lines = [
            line for line in end.err.splitlines() if line.startswith("tilestep: ") and " has waited " not in line
        ]  # which a busy machine says
        assert len(lines) == 1, end
        assert lines[0].startswith(f"tilestep: process {victim} of {len(ended)} (pid "), lines
        assert words in lines[0], lines
        assert lines[0].endswith(f"; process {process} ends, too"), lines


@pytest.mark.slow
def test_two_processes_share_data_and_end_when_one_is_killed() -> None:
    ended = run(2, victim=1, how="kill")
    for process, end in enumerate(ended):
        assert f"{expected_values(2)} {(2 * process, 2 * process + 1)} 3 6.0" in end.out, end
        differ = (
            "differ ['w']: 1 of 1 elements on replica 3 differ from replica 0's, by 1 at most try: equal values in all processes before"
        )
        assert differ in end.out, end
        elsewhere = rf"elsewhere carry\['w'\] is on .*, which is process {1 - process}'s, and this is process {process}: make it on one of"
        assert re.search(elsewhere, end.out), end
    require_named(ended, 1, "died: it was killed, or it crashed")
    assert (ended[0].status, ended[1].status) == (1, -9)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("victim", "how", "words"),
    [
        (2, "kill", "died: it was killed, or it crashed"),
        (0, "kill", "died: it was killed, or it crashed"),
        (3, "stop", "has not answered for 6 s"),
        (1, "raise", "ended with an error: RuntimeError: no more data"),
        (0, "raise", "ended with an error: RuntimeError: no more data"),
        (2, "leave", "ended before the others"),
        (0, "leave", "ended before the others"),
    ],
)
def test_four_processes_end_within_the_time_out_when_one_does(victim: int, how: str, words: str) -> None:
    ended = run(4, victim=victim, how=how)
    assert "victim" in ended[victim].out, ended[victim]
    assert all(expected_values(4) in end.out for end in ended)
    require_named(ended, victim, words)


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 4])
def test_processes_that_all_end_well_say_nothing(count: int) -> None:
    for end in run(count):
        assert (end.status, "tilestep" in end.err, "WatchTasksAsync" in end.err) == (0, False, False), end
        assert end.out.splitlines()[-1] == "end 3.0"


@pytest.mark.slow
def test_a_state_that_is_divided_among_processes_is_what_it_is_whole() -> None:
    """9,100 elements over four replicas, two in each process, and over two; kept on the devices and in the host's memory."""
    ended = run_program(STATE_PROGRAM, 2)
    for end in ended:
        assert end.status == 0, end
        expected = [line for kind in ("device", "pinned_host") for line in (f"{kind} [(2275,), (2275,)] True", f"{kind} [(4550,)]")]
        assert end.lines == expected, end


@pytest.mark.slow
def test_processes_that_also_have_ipus_run_and_end_well() -> None:
    address = f"localhost:{free_port()}"
    ended = started(
        [[sys.executable, "-u", str(IPU_PROGRAM), str(process), "2", address] for process in range(2)],
        limit_wall_s=LIMIT_WALL_S,
        platforms=None,
    )
    for end in ended:
        assert (end.status, end.lines) == (0, ["ipu 2 6.0"]), end.err
