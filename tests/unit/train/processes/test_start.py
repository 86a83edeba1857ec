"""What `start_processes` refuses, and what it finds out from JAX, before it talks to anybody."""

from __future__ import annotations

import subprocess

import jax
import pytest

from tilestep.train import start_processes
from tilestep.train.jax_private import distributed
from tilestep.train.processes import hosts, own_watchdog, start

OF_SLURM = {
    "SLURM_JOB_ID": "7",
    "SLURM_STEP_NODELIST": "node[003-005],login",
    "SLURM_NTASKS": "6",
    "SLURM_PROCID": "4",
    "SLURM_LOCALID": "1",
}


@pytest.mark.parametrize("name", ["timeout_s", "initialization_timeout_s"])
@pytest.mark.parametrize("wall_s", [0.5, -1, float("nan"), float("inf")])
def test_a_time_out_out_of_bounds_is_refused(name: str, wall_s: float) -> None:
    with pytest.raises(ValueError, match=rf"{name} is {wall_s!r}: it must be 1 to 1,000,000 seconds"):
        start_processes(**{name: wall_s})  # type: ignore[arg-type]


def test_processes_start_before_anything_else_of_jax() -> None:
    jax.devices()
    assert distributed.has_started()
    with pytest.raises(RuntimeError, match="JAX has started its devices already: call start_processes before"):
        start_processes(coordinator_address="localhost:1", num_processes=1, process_id=0)


def test_processes_start_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jax.distributed, "is_initialized", lambda: True)
    with pytest.raises(RuntimeError, match=r"call start_processes once, and not jax\.distributed\.initialize"):
        start_processes(coordinator_address="localhost:1", num_processes=1, process_id=0)


@pytest.mark.parametrize(
    ("address", "count", "number", "words"),
    [
        ("localhost", 2, 0, "coordinator_address is 'localhost': it must be \"host:port\""),
        ("0.0.0.0:1234", 2, 0, "coordinator_address is '0.0.0.0:1234', at which nobody can be reached"),
        ("[::]:1234", 2, 0, r"coordinator_address is '\[::\]:1234', at which nobody can be reached"),
        ("localhost:1234", 0, 0, "num_processes is 0: it must be 1 to 2,147,483,647"),
        ("localhost:1234", 2, -1, "process_id is -1: with num_processes=2 it must be 0 to 1"),
        ("localhost:1234", 2, 2, "process_id is 2: with num_processes=2 it must be 0 to 1"),
    ],
)
def test_a_number_or_address_that_cannot_be_is_refused(
    monkeypatch: pytest.MonkeyPatch, address: str, count: int, number: int, words: str
) -> None:
    told: list[int] = []
    monkeypatch.setattr(distributed, "has_started", lambda: False)
    monkeypatch.setattr(start, "report_mistake", lambda member: told.append(member.number))
    with pytest.raises(ValueError, match=words):
        start_processes(coordinator_address=address, num_processes=count, process_id=number)
    assert told == ([2] if number == 2 else [])


def test_a_listen_host_of_another_machine_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distributed, "has_started", lambda: False)
    with pytest.raises(ValueError, match=r"listen_host is '203.0.113.77', which is no address of this machine"):
        start_processes(coordinator_address="localhost:1234", num_processes=1, process_id=0, listen_host="203.0.113.77")


def test_what_is_not_given_is_found_in_the_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in OF_SLURM.items():
        monkeypatch.setenv(name, value)
    assert distributed.in_cluster(None, None, None, 5.0) == ("node003:61447", 6, 4)
    assert distributed.in_cluster("10.0.0.1:80", None, None, 5.0) == ("10.0.0.1:80", 6, 4)
    assert distributed.in_cluster("10.0.0.1:80", 2, 1, 5.0) == ("10.0.0.1:80", 2, 1)


def test_process_0_says_at_once_where_its_address_may_lead_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    addresses = {"host0": ["127.0.1.1"], "localhost": ["127.0.0.1"], "near": ["10.0.0.5"], "far": ["203.0.113.77"]}
    monkeypatch.setattr(hosts, "addresses_of", addresses.__getitem__)

    def note(host: str, own: str) -> str:
        member = start.Member(address=f"{host}:1", host=host, port=1, count=2, number=0)
        return start.note_of(member, own)

    assert note("localhost", "127.0.0.1") == note("near", "10.0.0.5") == ""
    assert note("host0", "127.0.1.1").startswith("; host0 is 127.0.1.1 on this machine, where no other machine reaches it: ")
    assert note("far", "10.0.0.5") == "; process 0 listens at 10.0.0.5, which is not what far is here"


def test_a_text_that_is_none_is_told_all_the_same() -> None:
    """A file's name in an error may have bytes that are no UTF-8."""
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as cat:
        own_watchdog.say(cat, "error 1.0 FileNotFoundError: caf\udce9")
        assert cat.stdin is not None
        assert cat.stdout is not None
        cat.stdin.close()
        assert cat.stdout.read() == b"error 1.0 FileNotFoundError: caf\\udce9\n"
