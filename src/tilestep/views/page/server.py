"""Serves one page on this machine's own address, and plays its recordings again with other knobs when the page asks.

Nobody else can reach or read it: it listens on 127.0.0.1 alone, its address holds a token, a `Host` of another name is refused (a web site
could resolve its own name to 127.0.0.1), and so is a request from another origin.
"""

from __future__ import annotations

import hmac
import io
import json
import secrets
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, cast, final

from tilestep.advice.knobs import setting_of
from tilestep.advice.what_if import outcome
from tilestep.errors import RecordingError, SpecError
from tilestep.figures.reader import Report
from tilestep.messages import plain
from tilestep.recording.sources import hlo_of, options_of

ADDRESS: Final = "127.0.0.1"
MOST_BYTES: Final = 65_536  # of a request
MOST_SETTINGS: Final = 64
MOST_CLIENTS: Final = 128  # at once
SECONDS: Final = 30.0  # in which a client has sent its request, however it drips
_BYTES_PER_SECOND: Final = 65_536  # at which a client takes an answer at least, after those seconds
_HTTP_PORT: Final = 80  # that browsers leave out of names
_TOKEN_BYTES: Final = 16

Answer = Callable[[Mapping[str, Any]], Mapping[str, Any]]


def what_if_answer(reports: Mapping[str, Report]) -> Answer:
    """Answers questions of a page: {side, settings} -> {cycles, turned_cycles, planned_again}, or {error}.

    Args: reports: by their sides, 'a' and 'b'.
    """
    lock = threading.Lock()  # one replay at a time; they are for one user

    def answer(question: Mapping[str, Any]) -> Mapping[str, Any]:
        report, texts = reports.get(str(question.get("side"))), question.get("settings")
        if report is None or not isinstance(texts, list) or not 1 <= len(cast("list[Any]", texts)) <= MOST_SETTINGS:
            return {"error": f"a question has a side of {', '.join(reports)}, and 1 to {MOST_SETTINGS} settings"}
        try:
            settings = [setting_of(str(text)) for text in cast("list[Any]", texts)]
            with lock:
                found = outcome(report.history, hlo_of(report.tables), settings, options=options_of(report.tables))
        except (SpecError, RecordingError) as error:
            return {"error": plain(error)}
        return {"cycles": found.cycles, "turned_cycles": found.turned_cycles, "planned_again": list(found.planned_again)}

    return answer


@final
class PageServer:
    """Serves a page until it is closed.

    Args:
        page: HTML.
        answer: to the page's questions.
        port: to listen on; 0: any that is free.
    Attributes:
        url: of the page, with its token.
        port: that it listens on.
    Raises: OSError if the port is taken.
    """

    def __init__(self, page: str, answer: Answer, *, port: int = 0) -> None:
        self._token = secrets.token_urlsafe(_TOKEN_BYTES)
        self._page, self._answer = page.encode(), answer
        outer = self

        class Handler(_Handler):
            server_of_page = outer

        self._server = _Server((ADDRESS, port), Handler)
        self.port: int = self._server.server_address[1]
        self.url = f"http://{ADDRESS}:{self.port}/{self._token}/"

    def serve(self) -> None:
        """Serves until `close` is called from another thread, or the process is interrupted."""
        self._server.serve_forever(poll_interval=0.2)

    def close(self) -> None:
        """Ends `serve`, and frees the port."""
        self._server.shutdown()
        self._server.server_close()

    def allows(self, path: str, host: str, origin: str | None) -> HTTPStatus:
        """OK for a request of the page's own; else why it is refused."""
        port = "" if self.port == _HTTP_PORT else f":{self.port}"
        names = (f"{ADDRESS}{port}", f"localhost{port}")
        if host not in names or (origin is not None and origin not in [f"http://{name}" for name in names]):
            return HTTPStatus.FORBIDDEN
        token = path.split("/")[1] if path.startswith("/") else ""
        return HTTPStatus.OK if hmac.compare_digest(token.encode(), self._token.encode()) else HTTPStatus.NOT_FOUND

    def document(self, path: str) -> bytes | None:
        """What stands at a path; None for nothing."""
        return self._page if path == f"/{self._token}/" else None

    def answered(self, path: str, body: bytes) -> bytes | None:
        """The answer to a question; None where nobody answers. Raises: ValueError if it is no JSON object."""
        if path != f"/{self._token}/what-if":
            return None
        question: Any = json.loads(body)
        if not isinstance(question, dict):
            raise ValueError("a question is a JSON object")
        return json.dumps(self._answer(cast("dict[str, Any]", question))).encode()


class _Server(ThreadingHTTPServer):
    request_queue_size = MOST_CLIENTS  # a browser opens several at once, and each that finds no place waits for a second
    daemon_threads = True  # Ctrl-C waits for no replay
    block_on_close = False

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self._places = threading.BoundedSemaphore(MOST_CLIENTS)
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Begins a thread for a client, or hangs up if there are too many."""
        if self._places.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answers a client."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Nothing, if a client has hung up or fallen silent: the terminal belongs to the user."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


@final
class _Until(io.RawIOBase):
    """What a client sends until a moment of `time.monotonic`: then reading raises TimeoutError."""

    def __init__(self, connection: socket.socket, end: float) -> None:
        self._connection, self._end = connection, end

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        left = self._end - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._connection.settimeout(left)
        return self._connection.recv_into(buffer)


class _Handler(BaseHTTPRequestHandler):
    server_of_page: PageServer
    server_version, sys_version = "tilestep", ""

    def setup(self) -> None:
        """Bounds the time in which a request comes."""
        super().setup()
        self.rfile.close()
        self.rfile = io.BufferedReader(_Until(self.connection, time.monotonic() + SECONDS))

    def do_GET(self) -> None:
        """The page."""
        path = self.path.partition("?")[0]
        if self._refused(path):
            return
        document = self.server_of_page.document(path)
        if document is None:
            self._refuse(HTTPStatus.NOT_FOUND)
        else:
            self._give(document, "text/html; charset=utf-8")

    def do_POST(self) -> None:
        """A question of the page."""
        length = self.headers.get("Content-Length", "")
        if self._refused(self.path):
            return
        if not length.isascii() or not length.isdecimal() or len(length) > 9 or int(length) > MOST_BYTES:
            return self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        if self.headers.get_content_type() != "application/json":  # a form of another site cannot send it
            return self._refuse(HTTPStatus.UNSUPPORTED_MEDIA_TYPE)
        try:
            answer = self.server_of_page.answered(self.path, self.rfile.read(int(length)))
        except (ValueError, RecursionError):
            return self._refuse(HTTPStatus.BAD_REQUEST)
        return self._refuse(HTTPStatus.NOT_FOUND) if answer is None else self._give(answer, "application/json")

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: the terminal belongs to the user."""

    def _refused(self, path: str) -> bool:
        hosts: Sequence[str] = self.headers.get_all("Host") or []
        status = self.server_of_page.allows(path, hosts[0] if len(hosts) == 1 else "", self.headers.get("Origin"))
        if status is HTTPStatus.OK:
            return False
        self._refuse(status)
        return True

    def _refuse(self, status: HTTPStatus) -> None:
        self.close_connection = True
        self._give(f"{status.value} {status.phrase}\n".encode(), "text/plain; charset=utf-8", status)

    def _give(self, content: bytes, kind: str, status: HTTPStatus = HTTPStatus.OK) -> None:
        self.send_response(status)
        for name, value in (
            ("Content-Type", kind),
            ("Content-Length", str(len(content))),
            ("Cache-Control", "no-store"),
            ("Cross-Origin-Opener-Policy", "same-origin"),
            ("Cross-Origin-Resource-Policy", "same-origin"),
            ("Referrer-Policy", "no-referrer"),
            ("X-Content-Type-Options", "nosniff"),
            ("X-Frame-Options", "DENY"),
        ):
            self.send_header(name, value)
        self.connection.settimeout(SECONDS + len(content) / _BYTES_PER_SECOND)  # of all that is written
        self.end_headers()
        self.wfile.write(content)
