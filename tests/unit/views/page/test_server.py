"""The server of `tilestep view` on a real socket: whom it answers, and what."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPResponse
from pathlib import Path
from typing import Any

import pytest

from tests.unit.figures.reader.recorded import journaled, report_of, two_stages
from tilestep.cli import main
from tilestep.figures.reader import Report
from tilestep.recording.container import write_recording
from tilestep.views.page.server import ADDRESS, MOST_BYTES, MOST_SETTINGS, PageServer, what_if_answer

pytestmark = pytest.mark.process  # it listens on ports
PAGE = "<!doctype html><p>the page</p>\u2028"
JSON = {"Content-Type": "application/json"}


@dataclass(frozen=True, kw_only=True)
class Said:
    """An answer."""

    status: int
    body: bytes
    headers: dict[str, str]


@dataclass(frozen=True, kw_only=True)
class Served:
    """A server that runs, and how a browser speaks to it."""

    server: PageServer
    path: str  # of the page, with its token

    def ask(self, method: str, path: str | None = None, body: bytes | None = None, **headers: str) -> Said:
        """One request. `headers` are as given, with '-' for '_'; `Host` is the server's own unless it is among them."""
        connection = HTTPConnection(ADDRESS, self.server.port, timeout=60)
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        try:
            connection.putrequest(method, self.path if path is None else path, skip_host=True)
            for name, value in {"Host": f"{ADDRESS}:{self.server.port}", **given}.items():
                connection.putheader(name, value)
            if body is not None and "Content-Length" not in given:
                connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body)
            response: HTTPResponse = connection.getresponse()
            return Said(status=response.status, body=response.read(), headers=dict(response.getheaders()))
        finally:
            connection.close()

    def what_if(self, question: object, **headers: str) -> Said:
        body = question if isinstance(question, bytes) else json.dumps(question).encode()
        return self.ask("POST", f"{self.path}what-if", body, **{"Content_Type": "application/json", **headers})


@pytest.fixture(scope="module")
def tables() -> Any:
    return journaled(two_stages())


@pytest.fixture(scope="module")
def served(tables: Any) -> Iterator[Served]:
    with serving(PageServer(PAGE, what_if_answer({"a": Report(tables), "b": report_of(two_stages())}))) as found:
        yield found


def eventually(true: Callable[[], bool]) -> bool:
    """Whether something becomes true in a minute."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        with contextlib.suppress(OSError, HTTPException):
            if true():
                return True
        time.sleep(0.02)
    return False


@contextlib.contextmanager
def serving(server: PageServer) -> Iterator[Served]:
    """A server that runs."""
    thread = threading.Thread(target=server.serve)
    thread.start()
    yield Served(server=server, path=server.url.removeprefix(f"http://{ADDRESS}:{server.port}"))
    server.close()
    thread.join(10)
    assert not thread.is_alive()


def test_its_address_shows_the_page(served: Served) -> None:
    said = served.ask("GET")
    assert (said.status, said.body.decode()) == (200, PAGE)
    assert said.headers["Content-Type"] == "text/html; charset=utf-8"
    assert said.headers["Cache-Control"] == "no-store"
    assert said.headers["Referrer-Policy"] == "no-referrer"
    assert said.headers["X-Frame-Options"] == "DENY"
    assert "Access-Control-Allow-Origin" not in said.headers
    assert served.ask("GET", Host=f"localhost:{served.server.port}").status == 200


def test_the_token_is_long_and_new_each_time(served: Served) -> None:
    other = PageServer(PAGE, lambda _: {})
    tokens = {served.path, f"/{other.url.split('/')[3]}/"}
    other._server.server_close()
    assert len(tokens) == 2
    assert min(map(len, tokens)) >= 22


def test_without_the_token_nothing_is_there(served: Served) -> None:
    for path in ("/", "", "/wrong/", "*", "//", "http://127.0.0.1/", "/%2e%2e/", "/" + "x" * 9000):
        for method, body in (("GET", None), ("POST", b"{}")):
            said = served.ask(method, path, body, Content_Type="application/json")
            assert said.status == 404, path
            assert b"page" not in said.body, path


def test_below_the_token_is_only_the_page(served: Served) -> None:
    assert served.ask("GET", f"{served.path}run.tilestep").status == 404
    assert served.ask("GET", served.path[:-1]).status == 404
    assert served.ask("GET", f"{served.path}what-if").status == 404
    assert served.ask("POST", f"{served.path}other", b"{}", Content_Type="application/json").status == 404
    assert served.ask("POST", None, b"{}", Content_Type="application/json").status == 404
    assert served.ask("GET", f"{served.path}?theme=dark").status == 200


def test_a_host_of_another_name_is_refused(served: Served) -> None:
    """A web site that resolves its own name to 127.0.0.1 sends its own name."""
    for host in ("evil.example", "127.0.0.1", "localhost", "127.0.0.1:80", "0.0.0.0:{port}", "evil.example:{port}", ""):
        named = host.replace("{port}", str(served.server.port))
        assert served.ask("GET", Host=named).status == 403, host
        assert served.what_if({"side": "a", "settings": ["links=x2"]}, Host=named).status == 403, host


def test_another_origin_is_refused(served: Served) -> None:
    for origin in ("https://evil.example", "null", "http://127.0.0.1", "http://127.0.0.1:80", "https://127.0.0.1:{port}", "file://"):
        named = origin.replace("{port}", str(served.server.port))
        assert served.what_if({"side": "a", "settings": ["links=x2"]}, Origin=named).status == 403, origin
        assert served.ask("GET", Origin=named).status == 403, origin


def test_its_own_origin_is_not(served: Served) -> None:
    for name in (ADDRESS, "localhost"):
        assert served.what_if({"side": "a", "settings": ["links=x2"]}, Origin=f"http://{name}:{served.server.port}").status == 200


def test_a_body_that_is_too_large_is_not_read(served: Served) -> None:
    for length in (str(MOST_BYTES + 1), "9" * 30, "-1", "1e3", "٣", "", "+5"):
        assert served.what_if(b"", Content_Length=length.encode().decode("latin-1")).status == 413, length


def test_a_form_of_another_site_is_no_question(served: Served) -> None:
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
        assert served.what_if({"side": "a", "settings": ["links=x2"]}, Content_Type=kind).status == 415


DEEP = b'{"side": "a", "settings": [' + b"[" * 20_000


def test_what_is_no_question_is_refused(served: Served) -> None:
    for body in (b"", b"{", b"[]", b"3", b'"x"', b"\xff\xfe", b"[" * 60_000, DEEP):
        assert served.what_if(body).status == 400, body


def test_a_question_has_a_side_and_settings(served: Served) -> None:
    for question in (
        {},
        {"side": "c", "settings": ["links=x2"]},
        {"side": ["a"], "settings": ["links=x2"]},
        {"side": "a"},
        {"side": "a", "settings": []},
        {"side": "a", "settings": "links=x2"},
        {"side": "a", "settings": ["links=x2"] * (MOST_SETTINGS + 1)},
    ):
        said = served.what_if(question)
        assert said.status == 200, question
        assert "a question has a side of a, b, and 1 to 64 settings" in json.loads(said.body)["error"], question


@pytest.mark.parametrize(
    ("side", "setting", "why"),
    [
        ("a", "host.lonk=x2", "knob 'host.lonk' does not exist"),
        ("a", "sram=1", "ipu.tile.sram_bytes would be 1 B"),
        ("a", "amp=x2", "its HLO was not kept"),
        ("a", "\x1b[31m=\u2028", "must be of the form KNOB=xFACTOR"),
        ("b", "links=x2", "this recording has no journal"),
    ],
)
def test_what_cannot_be_is_told(served: Served, side: str, setting: str, why: str) -> None:
    error = json.loads(served.what_if({"side": side, "settings": [setting]}).body)["error"]
    assert why in error
    assert "\x1b" not in error


def test_its_answers_are_those_of_the_command_line(served: Served, tables: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_recording(tmp_path / "run.tilestep", tables)
    for settings in (["host.load=/2"], ["host.link=x2", "host.dispatch=/2"], ["family.toy=x1.414"], ["sync.pattern=singlePipeline"]):
        assert main(["report", "what-if", str(tmp_path), "--json", *(part for text in settings for part in ("--set", text))]) == 0
        document = json.loads(capsys.readouterr().out)
        answer = json.loads(served.what_if({"side": "a", "settings": settings}).body)
        assert answer["cycles"] == document["emulated_cycles"]
        assert answer["turned_cycles"] == document["turned_cycles"]
        assert answer["planned_again"] == document["planned_again"]


def test_other_methods_are_not_known(served: Served) -> None:
    for method in ("PUT", "DELETE", "OPTIONS", "HEAD", "TRACE"):
        assert served.ask(method).status == 501


def test_a_request_that_stops_halfway_stops_nobody(served: Served) -> None:
    with socket.create_connection((ADDRESS, served.server.port), timeout=60) as silent:
        silent.sendall(b"POST / HTTP/1.1\r\nContent-Le")
        assert served.ask("GET").status == 200


def test_it_listens_on_this_machine_alone(served: Served) -> None:
    assert served.server._server.socket.getsockname()[0] == ADDRESS == "127.0.0.1"
    with pytest.raises(OSError, match=r"."):
        PageServer(PAGE, lambda _: {}, port=served.server.port)


def test_nothing_is_said_on_the_terminal(served: Served, capfd: pytest.CaptureFixture[str]) -> None:
    served.ask("GET")
    served.ask("GET", "/wrong/")
    served.what_if(b"{")
    assert capfd.readouterr() == ("", "")


def sent(served: Served, request: bytes) -> bytes:
    """The first line of the answer to a request of these bytes."""
    with socket.create_connection((ADDRESS, served.server.port), timeout=60) as connection:
        connection.sendall(request)
        return connection.recv(1000).partition(b"\r\n")[0]


def test_many_clients_at_once_are_answered(served: Served) -> None:
    with contextlib.ExitStack() as open_ones:
        silent = [open_ones.enter_context(socket.create_connection((ADDRESS, served.server.port), timeout=60)) for _ in range(100)]
        request = f"GET {served.path} HTTP/1.1\r\nHost: {ADDRESS}:{served.server.port}\r\n\r\n".encode()
        for connection in silent:
            connection.sendall(request[:20])
        assert served.ask("GET").status == 200
        for connection in silent:
            connection.sendall(request[20:])
        assert all(b" 200 " in connection.recv(100) for connection in silent)


def test_too_many_clients_are_hung_up_on_and_their_places_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilestep.views.page.server.MOST_CLIENTS", 2)
    with serving(PageServer(PAGE, lambda _: {})) as alone:
        with contextlib.ExitStack() as open_ones:
            address = (ADDRESS, alone.server.port)
            silent = [open_ones.enter_context(socket.create_connection(address, timeout=60)) for _ in range(2)]
            with socket.create_connection(address, timeout=60) as third:
                assert third.recv(100) == b""
            for connection in silent:
                connection.sendall(b"\r\n")
        assert eventually(lambda: alone.ask("GET").status == 200)


def test_a_client_that_drips_is_hung_up_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """However often it sends something: the time is that of the whole request."""
    monkeypatch.setattr("tilestep.views.page.server.SECONDS", 0.3)
    with serving(PageServer(PAGE, lambda _: {})) as alone, socket.create_connection((ADDRESS, alone.server.port), timeout=60) as dripping:
        head = f"POST {alone.path}what-if HTTP/1.1\r\nHost: {ADDRESS}:{alone.server.port}\r\nContent-Type: application/json\r\n"
        dripping.sendall(f"{head}Content-Length: 9999\r\n\r\n".encode())

        def gone() -> bool:
            try:
                dripping.sendall(b" ")
            except OSError:
                return True
            return False

        assert eventually(gone)


def test_names_leave_out_the_port_of_http(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served.server, "port", 80)
    allowed = served.server.allows
    assert allowed(served.path, "127.0.0.1", "http://localhost") == allowed(served.path, "localhost", None) == 200
    assert allowed(served.path, "127.0.0.1:80", None) == allowed(served.path, "127.0.0.1", "http://evil.example") == 403


def test_requests_that_no_browser_sends_are_refused(served: Served) -> None:
    own = f"{ADDRESS}:{served.server.port}"
    get = f"GET {served.path} HTTP/1.1\r\n"
    assert b" 200 " in sent(served, f"{get}Host: {own}\r\n\r\n".encode())
    assert b" 403 " in sent(served, f"{get}Host: {own}\r\nHost: evil.example\r\n\r\n".encode())
    assert b" 403 " in sent(served, f"{get}\r\n".encode())
    for other in (f"[::1]:{served.server.port}", f"user@{own}", f"{own}.", f"{own}, evil.example", f"http://{own}"):
        assert b" 403 " in sent(served, f"{get}Host: {other}\r\n\r\n".encode())
    for path in (f"{served.path}../{served.path}", f"{served.path}/", f"{served.path}%2e%2e/", f"/.{served.path}", f"{served.path};x"):
        assert b" 404 " in sent(served, f"GET {path} HTTP/1.1\r\nHost: {own}\r\n\r\n".encode())
    flood = "".join(f"X-{number}: y\r\n" for number in range(200))
    assert b" 431 " in sent(served, f"{get}Host: {own}\r\n{flood}\r\n".encode())
    assert b" 431 " in sent(served, f"{get}Host: {own}\r\nX: {'y' * 70_000}\r\n\r\n".encode())
    post = f"POST {served.path}what-if HTTP/1.1\r\nHost: {own}\r\nContent-Type: application/json\r\n"
    assert b" 413 " in sent(served, f"{post}Transfer-Encoding: chunked\r\n\r\n2\r\n{{}}\r\n0\r\n\r\n".encode())
    assert b" 404 " in sent(served, f"GET /é/ HTTP/1.1\r\nHost: {own}\r\n\r\n".encode())
