"""A unit test starts no process and opens no port, unless it has the marker `process` or looks at a browser."""

import socket
import sys
from collections.abc import Iterator

import pytest

from tests.unit.sim.toy import Host

_STARTS = {"os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.system", "subprocess.Popen"}
_LISTS_FONTS = "fc-list"  # matplotlib starts it in whichever test draws first on a machine
_happened: list[str] = []


def _hear(event: str, arguments: tuple[object, ...]) -> None:
    """Python calls this with each event that it audits. Source: PEP 578; the table of audit events in Python's documentation."""
    if event in _STARTS and arguments[:1] != (_LISTS_FONTS,):
        _happened.append(f"{event} {arguments[0] if arguments else ''}")
    elif event == "socket.bind" and isinstance(arguments[0], socket.socket) and arguments[0].family in (socket.AF_INET, socket.AF_INET6):
        _happened.append(f"{event} {arguments[1]}")


sys.addaudithook(_hear)


@pytest.fixture(autouse=True)
def _unit_tests_start_no_process(request: pytest.FixtureRequest) -> Iterator[None]:
    _happened.clear()
    yield
    if not any(request.node.get_closest_marker(name) for name in ("process", "browser")):
        assert not _happened, f"a unit test without the marker `process` did this: {_happened}"


@pytest.fixture
def host() -> Host:
    return Host()
