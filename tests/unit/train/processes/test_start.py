"""What `start_processes` refuses, and what it finds out from JAX, before it talks to anybody."""

import json
from pathlib import Path
from types import SimpleNamespace

import jax
import pytest

from tests.processes import run_python
from tilestep.train import start_processes
from tilestep.train.jax_private import distributed
from tilestep.train.processes import start
from tilestep.train.processes.watchdog import own_watchdog

OF_SLURM = {
    "SLURM_JOB_ID": "7",
    "SLURM_STEP_NODELIST": "node[003-005],login",
    "SLURM_NTASKS": "6",
    "SLURM_PROCID": "4",
    "SLURM_LOCALID": "1",
}


def test_processes_start_before_anything_else_of_jax() -> None:
    jax.devices()
    assert distributed.has_started()
    with pytest.raises(RuntimeError, match="JAX has started its devices already: call start_processes before"):
        start_processes(coordinator_address="localhost:1", num_processes=1, process_id=0)


PROGRAM = """
import json, sys, threading, time
from concurrent.futures import ThreadPoolExecutor
from tests.processes import run_python
from tilestep.train import start_processes
from tilestep.train.processes import hosts
from tilestep.train.processes.check_in import CheckInServer, Member
from tilestep.train.patience import Aloud

def said(**arguments):
    try:
        start_processes(**arguments)
    except Exception as error:
        return f"{type(error).__name__}: {error}"

found = {}
for address, count, number in json.loads(sys.argv[1]):
    found[f"{address} {count} {number}"] = said(coordinator_address=address, num_processes=count, process_id=number)
found["listen_host"] = said(coordinator_address="localhost:1234", num_processes=1, process_id=0, listen_host="255.255.255.254")

listener = hosts.listener("127.0.0.1", 0)
port = listener.getsockname()[1]
member = Member(address=f"127.0.0.1:{port}", host="127.0.0.1", port=port, count=2, number=0)
with ThreadPoolExecutor(1) as threads, Aloud("", str(member)) as waiting:
    hub = threads.submit(CheckInServer(listener, member, waiting).wait_for_all, time.monotonic() + 60)
    found["told"] = said(coordinator_address=member.address, num_processes=2, process_id=2)
    found["hub"] = f"{type(hub.exception()).__name__}: {hub.exception()}"

with hosts.listener("127.0.0.1", 0) as free:
    port = free.getsockname()[1]
once = {"coordinator_address": f"127.0.0.1:{port}", "num_processes": 1, "process_id": 0}
found["alone"] = said()
found["first"], found["second"], found["host"] = said(**once), said(**once), hosts.listening_host()
print(json.dumps(found))
"""
CANNOT_BE = {
    ("localhost", 2, 0): "coordinator_address is 'localhost': it must be \"host:port\"",
    ("0.0.0.0:1234", 2, 0): "coordinator_address is '0.0.0.0:1234', at which nobody can be reached",
    ("[::]:1234", 2, 0): "coordinator_address is '[::]:1234', at which nobody can be reached",
    ("localhost:1234", 0, 0): "num_processes is 0: it must be 1 to 2,147,483,647",
    ("localhost:1234", 2, -1): "process_id is -1: with num_processes=2 it must be 0 to 1",
}


@pytest.mark.slow
@pytest.mark.process
def test_what_cannot_be_is_refused_and_process_0_is_told_and_processes_start_once() -> None:
    """In a process in which JAX has not started."""
    result = run_python("-c", PROGRAM, json.dumps(list(CANNOT_BE)), environ={"JAX_PLATFORMS": "cpu"})
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    for (address, count, number), words in CANNOT_BE.items():
        assert found[f"{address} {count} {number}"].startswith(f"ValueError: {words}")
    words = "ValueError: listen_host is '255.255.255.254', which is no address of this machine"
    assert found["listen_host"].startswith(words)
    words = "a process was started with process_id=2: with num_processes=2 it must be 0 to 1"
    assert (found["hub"], found["told"]) == (f"ValueError: {words}", f"ValueError: {words}")
    assert found["alone"].startswith(
        "ValueError: coordinator_address, num_processes, process_id not given, and no cluster that JAX knows says so: start"
    )
    assert (found["first"], found["host"]) == (None, "127.0.0.1")
    assert found["second"].startswith(
        "RuntimeError: JAX has joined this process with others already: call start_processes once, and not jax."
    )


def test_what_is_not_given_is_found_in_the_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in OF_SLURM.items():
        monkeypatch.setenv(name, value)
    assert distributed.in_cluster(None, None, None, 5.0) == ("node003:61447", 6, 4)
    assert distributed.in_cluster("10.0.0.1:80", None, None, 5.0) == ("10.0.0.1:80", 6, 4)
    assert distributed.in_cluster("10.0.0.1:80", 2, 1, 5.0) == ("10.0.0.1:80", 2, 1)


@pytest.mark.process
def test_what_no_cluster_says_is_an_error_behind_what_jax_lacks() -> None:
    code = "from tilestep.train import start_processes; start_processes()"
    ended = run_python("-c", code, environ={"JAX_PLATFORMS": "cpu", "KUBERNETES_SERVICE_HOST": "10.0.0.1"})
    last = ended.stderr.splitlines()[-1]
    assert last.startswith(
        "ValueError: coordinator_address, num_processes, process_id not given, and no cluster that JAX knows says so: start"
    )
    assert "the `kubernetes` package is not installed" in " ".join(ended.stderr.split())


def test_process_0_says_at_once_where_its_address_may_lead_nobody() -> None:
    def note(host: str, own: str) -> str:
        member = start.Member(address=f"{host}:1", host=host, port=1, count=2, number=0)
        return start.note_of(member, own)

    assert note("localhost", "127.0.0.1") == note("10.0.0.5", "10.0.0.5") == ""
    assert note("host0", "127.0.1.1").startswith("; host0 is 127.0.1.1 on this machine, where no other machine reaches it: ")
    for far in ("203.0.113.77", "fe80::1%nowhere"):  # the latter has no address
        assert note(far, "10.0.0.5") == f"; process 0 listens at 10.0.0.5, which is not what {far} is here"


def test_a_text_that_is_none_is_told_all_the_same(tmp_path: Path) -> None:
    """A file's name in an error may have bytes that are no UTF-8."""
    with (tmp_path / "said").open("wb") as pipe:
        own_watchdog.say(SimpleNamespace(stdin=pipe), "error 1.0 FileNotFoundError: caf\udce9")
    assert (tmp_path / "said").read_bytes() == b"error 1.0 FileNotFoundError: caf\\udce9\n"
