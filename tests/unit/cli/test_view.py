"""`tilestep view`: what it prints, when it opens a browser, and how it ends."""

from __future__ import annotations

import json
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

from tests.unit.report.reader.recorded import journaled, two_stages
from tilestep.cli import main
from tilestep.cli import view as command
from tilestep.record.container import write_recording
from tilestep.report.page.server import ADDRESS, PageServer


class Seen:
    """What happened while the command ran."""

    def __init__(self) -> None:
        self.opened: list[str] = []  # addresses, by a browser
        self.page = ""
        self.answer: dict[str, Any] = {}

    def open(self, url: str) -> bool:
        """A browser that is there."""
        self.opened.append(url)
        return True


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    folder = tmp_path / "before"
    folder.mkdir()
    write_recording(folder / "run.tilestep", journaled(two_stages()))
    return folder


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Seen:
    """No browser is started, and the user asks the page once and then presses Ctrl-C."""
    found = Seen()
    monkeypatch.delenv("SSH_CONNECTION", raising=False)
    monkeypatch.setattr(command.webbrowser, "open", found.open)
    serve: Callable[[PageServer], None] = PageServer.serve

    def once(server: PageServer) -> None:
        def ask() -> None:
            question = json.dumps({"side": "a", "settings": ["host.load=/2"]}).encode()
            request = urllib.request.Request(f"{server.url}what-if", question, {"Content-Type": "application/json"})
            try:
                with urllib.request.urlopen(server.url, timeout=60) as page, urllib.request.urlopen(request, timeout=60) as answer:
                    found.page, found.answer = page.read().decode(), json.load(answer)
            finally:
                server.close()

        thread = threading.Thread(target=ask)
        thread.start()
        serve(server)
        thread.join(60)
        raise KeyboardInterrupt

    monkeypatch.setattr(PageServer, "serve", once)
    return found


def test_it_serves_the_page_and_opens_it(recording: Path, seen: Seen, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["view", str(recording)]) == 0
    out, err = capsys.readouterr()
    url, end, *_ = out.splitlines()
    assert url.startswith(f"http://{ADDRESS}:")
    assert end == "Ctrl-C ends it."
    assert err == ""
    assert seen.opened == [url]
    assert "<title>before · tilestep</title>" in seen.page
    assert "connect-src" in seen.page
    assert seen.answer["turned_cycles"] < seen.answer["cycles"]


def test_two_recordings_are_compared(recording: Path, seen: Seen) -> None:
    assert main(["view", str(recording), str(recording / "run.tilestep")]) == 0
    assert 'id="data-comparison"' in seen.page


def test_no_browser_only_prints(recording: Path, seen: Seen, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["view", str(recording), "--no-browser"]) == 0
    assert seen.opened == []
    assert "ssh" not in capsys.readouterr().out


def none_found(_: str) -> bool:
    return False


@pytest.mark.parametrize("missing", [none_found, webbrowser.get])
def test_without_a_browser_it_says_to_open_the_address(
    missing: Callable[[str], object], recording: Path, seen: Seen, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command.webbrowser, "open", missing)
    assert main(["view", str(recording)]) == 0
    assert "open the address in one yourself" in capsys.readouterr().err
    assert "<title>before" in seen.page


def test_a_browser_in_the_terminal_does_not_keep_the_page_from_being_served(
    recording: Path, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = threading.Event()

    def stays(_: str) -> bool:
        return left.wait(10)

    monkeypatch.setattr(command.webbrowser, "open", stays)
    assert main(["view", str(recording)]) == 0
    left.set()
    assert "<title>before" in seen.page


def test_ctrl_c_ends_it_while_a_journal_is_played(recording: Path) -> None:
    """In a process of its own, in which a replay never ends."""
    code = f"""
import sys, time
from tilestep.cli import main
from tilestep.report.page import server
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


def test_over_ssh_it_says_how_to_reach_it(
    recording: Path, seen: Seen, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SSH_CONNECTION", "10.0.0.2 50000 10.0.0.1 22")
    assert main(["view", str(recording)]) == 0
    assert seen.opened == []  # it would be on this machine
    url, _, on, tunnel, then, *_ = capsys.readouterr().out.splitlines()
    port = url.split(":")[2].split("/")[0]
    assert on == "On the machine in front of you:"
    assert tunnel.startswith(f"  ssh -N -L {port}:{ADDRESS}:{port} ")
    assert tunnel.endswith(f"@{socket.gethostname()}")
    assert then == "and open the address there."


def test_a_port_can_be_chosen(recording: Path, seen: Seen, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as free:
        free.bind((ADDRESS, 0))
        port = free.getsockname()[1]
    assert main(["view", str(recording), "--port", str(port)]) == 0
    assert capsys.readouterr().out.startswith(f"http://{ADDRESS}:{port}/")


def test_a_port_that_is_taken_is_told(recording: Path, seen: Seen, capsys: pytest.CaptureFixture[str]) -> None:
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
    assert seen.opened == []


@pytest.mark.parametrize("port", ["-1", "65536", "http", "٣", "1e3", ""])
def test_a_port_is_a_number(recording: Path, port: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["view", str(recording), f"--port={port}"])
    assert ended.value.code == 2
    assert "a port is a number from 0 to 65535" in capsys.readouterr().err


@pytest.mark.parametrize("other", [False, True])
def test_a_path_without_a_recording_is_told(recording: Path, seen: Seen, other: bool, capsys: pytest.CaptureFixture[str]) -> None:
    gone = str(recording / "gone")
    assert main(["view", *([str(recording)] if other else []), gone]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err == f"tilestep view: {gone}: No such file or directory\n"
    assert seen.opened == []


def test_a_file_that_is_no_recording_is_told(tmp_path: Path, seen: Seen, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "run.tilestep").write_text("no")
    assert main(["view", str(tmp_path)]) == 2
    assert capsys.readouterr().err.startswith("tilestep view: recording ")
