"""`tilestep view`: what it prints, when it opens a browser, and how it ends."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import urllib.request
import webbrowser
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.unit.figures.reader.recorded import journaled, two_stages
from tilestep.cli import main
from tilestep.recording.container import write_recording
from tilestep.views.page.server import ADDRESS

PATIENCE_WALL_S = 60


class Browser(webbrowser.BaseBrowser):
    """A browser that is there. `does` says what opening an address does."""

    def __init__(self) -> None:
        super().__init__("of these tests")
        self.opened: list[str] = []
        self.does: Callable[[], bool] = lambda: True

    def open(self, url: str, new: int = 0, autoraise: bool = True) -> bool:
        del new, autoraise
        self.opened.append(url)
        return self.does()


class Seen:
    """What a command printed to stdout, and what the page that it serves said to a user who asks once and then presses Ctrl-C."""

    def __init__(self, *words: str) -> None:
        self.page = ""
        self.answer: dict[str, Any] = {}
        self.lines: list[str] = []
        read, write = os.pipe()
        user = threading.Thread(target=self._use, args=(read,))
        user.start()
        with open(write, "w", buffering=1) as stdout, contextlib.redirect_stdout(stdout):
            self.code = main(["view", *words])
        user.join(PATIENCE_WALL_S)
        gc.collect()  # a socket that is still open is a warning, and so an error

    def _use(self, read: int) -> None:
        with open(read) as stdout:
            for line in stdout:
                self.lines.append(line.rstrip("\n"))
                if line in ("Ctrl-C ends it.\n", "and open the address there.\n") and not self._is_remote():
                    try:
                        self._ask(self.lines[0])
                    finally:
                        os.kill(os.getpid(), signal.SIGINT)

    def _is_remote(self) -> bool:
        return "SSH_CONNECTION" in os.environ and self.lines[-1] == "Ctrl-C ends it."

    def _ask(self, url: str) -> None:
        question = json.dumps({"side": "a", "settings": ["host.load=/2"]}).encode()
        request = urllib.request.Request(f"{url}what-if", question, {"Content-Type": "application/json"})
        with urllib.request.urlopen(url, timeout=PATIENCE_WALL_S) as page:
            self.page = page.read().decode()
        with urllib.request.urlopen(request, timeout=PATIENCE_WALL_S) as answer:
            self.answer = json.load(answer)


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    folder = tmp_path / "before"
    folder.mkdir()
    write_recording(folder / "run.tilestep", journaled(two_stages()))
    return folder


@pytest.fixture
def browser_there(monkeypatch: pytest.MonkeyPatch) -> Browser:
    """The only browser of this machine; and nobody is at another."""
    found = Browser()
    monkeypatch.delenv("SSH_CONNECTION", raising=False)
    monkeypatch.setattr(webbrowser, "_tryorder", ["mine"])
    monkeypatch.setitem(webbrowser._browsers, "mine", [None, found])  # type: ignore[attr-defined]
    return found


@pytest.mark.process
def test_it_serves_the_page_and_opens_it(recording: Path, browser_there: Browser, capsys: pytest.CaptureFixture[str]) -> None:
    opened = threading.Event()
    browser_there.does = lambda: opened.set() or True
    seen = Seen(str(recording))
    url, end, *_ = seen.lines
    assert seen.code == 0
    assert url.startswith(f"http://{ADDRESS}:")
    assert end == "Ctrl-C ends it."
    assert opened.wait(PATIENCE_WALL_S)
    assert capsys.readouterr().err == ""
    assert browser_there.opened == [url]
    assert "<title>before · tilestep</title>" in seen.page
    assert "connect-src" in seen.page
    assert seen.answer["turned_cycles"] < seen.answer["cycles"]


@pytest.mark.process
def test_two_recordings_are_compared_at_a_port_that_is_chosen_and_no_browser_only_prints(recording: Path, browser_there: Browser) -> None:
    with socket.socket() as free:
        free.bind((ADDRESS, 0))
        port = free.getsockname()[1]
    seen = Seen(str(recording), str(recording / "run.tilestep"), "--no-browser", "--port", str(port))
    assert seen.code == 0
    assert 'id="data-comparison"' in seen.page
    assert browser_there.opened == []
    assert seen.lines == [seen.lines[0], "Ctrl-C ends it.", ""]
    assert seen.lines[0].startswith(f"http://{ADDRESS}:{port}/")


def refuses() -> bool:
    return False


def fails() -> bool:
    raise webbrowser.Error("it cannot start")


@pytest.mark.process
@pytest.mark.parametrize("does", [refuses, fails])
def test_without_a_browser_it_says_to_open_the_address(
    does: Callable[[], bool], recording: Path, browser_there: Browser, capsys: pytest.CaptureFixture[str]
) -> None:
    before = set(threading.enumerate())
    browser_there.does = does
    seen = Seen(str(recording))
    for opening in set(threading.enumerate()) - before:
        opening.join(PATIENCE_WALL_S)
    assert "open the address in one yourself" in capsys.readouterr().err
    assert "<title>before" in seen.page


@pytest.mark.process
def test_a_browser_in_the_terminal_does_not_keep_the_page_from_being_served(recording: Path, browser_there: Browser) -> None:
    left = threading.Event()
    browser_there.does = lambda: left.wait(PATIENCE_WALL_S)
    seen = Seen(str(recording))
    left.set()
    assert (seen.code, "<title>before" in seen.page) == (0, True)


@pytest.mark.process
def test_ctrl_c_ends_it_while_a_journal_is_played(recording: Path) -> None:
    """In a process of its own, in which a replay never ends."""
    code = f"""
import sys, time
from tilestep.cli import main
from tilestep.views.page import server
def outcome(*_, **__):
    print("plays", flush=True)
    while True: time.sleep(0.001)
server.outcome = outcome
sys.exit(main(["view", {str(recording)!r}, "--no-browser"]))
"""
    with subprocess.Popen((sys.executable, "-c", code), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        assert process.stdout.readline() == "Ctrl-C ends it.\n"
        host, port = url.split("/")[2].split(":")
        with socket.create_connection((host, int(port)), timeout=60) as connection:
            body = b'{"side": "a", "settings": ["host.load=/2"]}'
            head = f"POST /{url.split('/')[3]}/what-if HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Type: application/json\r\n"
            connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            assert process.stdout.readline() == "plays\n"
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (0, "\n", "")


@pytest.mark.process
def test_over_ssh_it_says_how_to_reach_it(recording: Path, browser_there: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSH_CONNECTION", "10.0.0.2 50000 10.0.0.1 22")
    seen = Seen(str(recording))
    assert seen.code == 0
    assert browser_there.opened == []  # it would be on this machine
    url, _, on, tunnel, then, *_ = seen.lines
    port = url.split(":")[2].split("/")[0]
    assert on == "On the machine in front of you:"
    assert tunnel.startswith(f"  ssh -N -L {port}:{ADDRESS}:{port} ")
    assert tunnel.endswith(f"@{socket.gethostname()}")
    assert then == "and open the address there."


@pytest.mark.process
def test_a_port_that_is_taken_is_told(recording: Path, browser_there: Browser, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind((ADDRESS, 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert main(["view", str(recording), "--port", str(port)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err == (
        f"tilestep view: port {port} of this machine cannot be listened on: Address already in use; --port 0 takes one that is free\n"
    )
    assert browser_there.opened == []


def test_a_port_is_a_number(recording: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for port in ("-1", "65536", "http", "٣", "1e3", ""):
        with pytest.raises(SystemExit) as ended:
            main(["view", str(recording), f"--port={port}"])
        assert ended.value.code == 2
        assert "a port is a number from 0 to 65535" in capsys.readouterr().err, port


@pytest.mark.parametrize("other", [False, True])
def test_a_path_without_a_recording_is_told(
    recording: Path, browser_there: Browser, other: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = str(recording / "gone")
    assert main(["view", *([str(recording)] if other else []), gone]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err == f"tilestep view: {gone}: No such file or directory\n"
    assert browser_there.opened == []


def test_a_file_that_is_no_recording_is_told(tmp_path: Path, browser_there: Browser, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "run.tilestep").write_text("no")
    assert main(["view", str(tmp_path)]) == 2
    assert capsys.readouterr().err.startswith("tilestep view: recording ")
