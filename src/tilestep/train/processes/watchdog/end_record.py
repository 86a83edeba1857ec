"""What process 0's watchdog has heard of all processes, and which of them ended first. The standard library alone."""

import time
from typing import Final, final

from tilestep.train.processes.watchdog.lines import Message

_WAIT_WALL_S: Final = 0.3  # for further ends, because another process may have ended before the first one that is heard of
_FOLLOWS: Final = "ProcessFailedError: "  # an error that another process's end has caused, which may be heard of later
_SILENT_PART: Final = 0.75  # in the rest of the time-out the other processes end


@final
class EndRecord:
    """Notes how each process ends.

    Attributes:
        came: the processes whose watchdogs have said hello.
        silence_s: the longest silence of a process that is alive.
    """

    def __init__(self, count: int, timeout_s: float) -> None:
        self.came: set[int] = {0}
        self.silence_s = timeout_s * _SILENT_PART
        self._count, self._timeout_s = count, timeout_s
        self._missing_s = timeout_s * 2  # a watchdog that cannot connect gives up, and ends its process, before
        self._began = time.monotonic()
        self._names: dict[int, str] = {}
        self._byes: dict[int, float] = {}  # when each process has said that it ends well, as time.monotonic() counts
        self._ends: list[Message] = []
        self._judge_at = 0.0  # 0: no process has ended

    def note(self, process: int, message: Message) -> None:
        """Takes a message from or about a process. Only the first of its ends counts."""
        if message["kind"] == "hello":
            self._names[process] = message["name"]
        elif message["kind"] == "bye":
            self._byes[process] = time.monotonic()
        elif message["kind"] == "end" and not any(end["process"] == process for end in self._ends):
            self._ends.append(message | {"process": process})
            self._judge_at = self._judge_at or time.monotonic() + min(_WAIT_WALL_S, self._timeout_s / 2)

    def forgive(self, wall_s: float) -> None:
        """The machine stood still for so long: nobody's silence in that time counts."""
        self._began += wall_s
        self._byes = {process: when + wall_s for process, when in self._byes.items()}

    def verdict(self, now: float) -> Message | None:
        """The message to all watchdogs, once the program is over. Args: now: as time.monotonic() counts."""
        if now - self._began > self._missing_s:
            for process in set(range(self._count)) - self.came:
                self.note(process, {"kind": "end", "how": "missing", "at": time.time()})
        first = min(self._byes, key=self._byes.__getitem__, default=0)
        if 0 < len(self._byes) < self._count and now - self._byes[first] > self.silence_s:  # at its end JAX waits for the others
            self.note(first, {"kind": "end", "how": "left", "at": time.time() - self.silence_s})
        return self._judge() if self._judge_at and now > self._judge_at else None

    def _judge(self) -> Message | None:
        """Names the first end after which the other processes cannot go on; None without one, while some still run."""
        failures = [end for end in self._ends if end["how"] != "left" or len(self._byes) < self._count]
        if not failures:
            return {"kind": "over"} if len(self._ends) == self._count else None
        first = min(failures, key=lambda end: (end.get("text", "").startswith(_FOLLOWS), end["at"]))
        process = first["process"]
        how = {
            "died": "died: it was killed, or it crashed",
            "error": f"ended with an error: {first.get('text')}",
            "silent": f"has not answered for {self.silence_s:g} s",
            "left": "ended before the others",
            "missing": f"has not told process 0 within {self._missing_s:g} s that it is there",
        }[first["how"]]
        text = f"process {process} of {self._count} ({self._names.get(process, 'unknown')}) {how}"
        return {"kind": "verdict", "text": text, "first": process}
