"""A browser driven by WebDriver BiDi, the W3C's protocol over a WebSocket: as much of it as opening pages takes."""

import json
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from websockets.sync.client import ClientConnection, connect

TIMEOUT_WALL_S = 60
_LISTENING = re.compile(r"WebDriver BiDi listening on (ws://\S+)")


class BidiError(Exception):
    """The browser has refused a command."""


class Session:
    """One session with one tab.

    Attributes:
        logged: texts of the console, with their levels, and of errors that nobody caught.
    """

    def __init__(self, connection: ClientConnection) -> None:
        self._connection, self._number = connection, 0
        self.logged: list[tuple[str, str]] = []
        self.asked: list[str] = []
        self.call("session.new", capabilities={})
        self.call("session.subscribe", events=["log.entryAdded", "network.beforeRequestSent"])
        self._tab = self.call("browsingContext.getTree")["contexts"][0]["context"]

    def call(self, method: str, **params: Any) -> Any:
        """The result of a command; events that come before it are kept."""
        self._number += 1
        self._connection.send(json.dumps({"id": self._number, "method": method, "params": params}))
        while True:
            message = json.loads(self._connection.recv(timeout=TIMEOUT_WALL_S))
            if message.get("id") == self._number:
                if message["type"] == "error":
                    raise BidiError(f"{method}: {message['error']}: {message['message']}")
                return message["result"]
            if message.get("method") == "log.entryAdded":
                self.logged.append((message["params"]["level"], str(message["params"]["text"])))
            elif message.get("method") == "network.beforeRequestSent":
                self.asked.append(message["params"]["request"]["url"])

    def open(self, address: str) -> None:
        """Goes to an address, and waits until it is loaded."""
        self.call("browsingContext.navigate", context=self._tab, url=address, wait="complete")

    def value(self, expression: str) -> Any:
        """What a JavaScript expression gives: text, a number, a Boolean or None. A promise is waited for."""
        done = self.call("script.evaluate", expression=expression, target={"context": self._tab}, awaitPromise=True)
        if done["type"] != "success":
            raise BidiError(f"{expression}: {done['exceptionDetails']['text']}")
        return done["result"].get("value")

    def wait_for(self, expression: str) -> None:
        """Waits until an expression is true."""
        end = time.monotonic() + TIMEOUT_WALL_S
        while not self.value(expression):
            if time.monotonic() > end:
                raise TimeoutError(f"not true in {TIMEOUT_WALL_S} s: {expression}")
            time.sleep(0.05)


@contextmanager
def firefox(program: str, profile: Path) -> Iterator[Session]:
    """A Firefox without a window, with a profile of its own."""
    profile.mkdir()
    preferences = {
        "app.update.enabled": False,
        "browser.shell.checkDefaultBrowser": False,
        "datareporting.policy.dataSubmissionEnabled": False,
        "network.captive-portal-service.enabled": False,
        "network.connectivity-service.enabled": False,
        "remote.active-protocols": 1,
        "toolkit.telemetry.enabled": False,
    }
    lines = [f"user_pref({json.dumps(name)}, {json.dumps(value)});\n" for name, value in preferences.items()]
    (profile / "user.js").write_text("".join(lines), encoding="utf-8")
    command = (program, "--headless", "--no-remote", "--remote-debugging-port=0", "--profile", str(profile), "about:blank")
    log = profile / "log.txt"
    with log.open("wb") as file:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=file)
    try:
        with connect(f"{_address(process, log)}/session", max_size=None, open_timeout=TIMEOUT_WALL_S) as connection:
            session = Session(connection)
            yield session
            session.call("browser.close")
        process.wait(TIMEOUT_WALL_S)
    finally:
        process.kill()
        process.wait()


def _address(process: subprocess.Popen[bytes], log: Path) -> str:
    """Where the browser listens, as it says."""
    end = time.monotonic() + TIMEOUT_WALL_S
    while not (found := _LISTENING.search(log.read_text(encoding="utf-8", errors="replace"))):
        if process.poll() is not None or time.monotonic() > end:
            raise BidiError(f"the browser does not listen: {log.read_text(encoding='utf-8', errors='replace')[-2000:]}")
        time.sleep(0.1)
    return found[1]
