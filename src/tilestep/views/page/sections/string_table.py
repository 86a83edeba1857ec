"""Texts and lines that many rows of a page name, each written once."""

from collections.abc import Callable
from typing import Any

from tilestep.figures.reader import SourceLine
from tilestep.plan.frames import rank_of_file

_CONSOLE_SCRIPT = "/bin/tilestep"
_DEEPEST = 1000  # calls in calls, as Python allows; who made a page's recording may have written any number


class Texts:
    """Numbers texts in the order in which they come."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def number(self, text: str) -> int:
        """Of a text."""
        return self._numbers.setdefault(text, len(self._numbers))

    @property
    def all(self) -> list[str]:
        """The texts by their numbers."""
        return list(self._numbers)


class Lines:
    """Numbers lines with their callers, callers first. A line below too many callers stands as if it had none.

    Args:
        relative: gives the path of a file as the page shows it.
        texts: that take the paths and names of functions.
    """

    def __init__(self, relative: Callable[[str], str], texts: Texts) -> None:
        self._relative, self._texts = relative, texts
        self._numbers: dict[tuple[int, ...], int] = {}
        self._depths: list[int] = []
        self._known: dict[int, tuple[SourceLine, int]] = {}  # by id, which the line itself keeps from being given again

    def number(self, line: SourceLine | None) -> int:
        """Of a line; -1 for none."""
        if line is None:
            return -1
        ahead: list[SourceLine] = []
        number = -1
        for each in line.stack:
            known = self._known.get(id(each))
            if known is not None:
                number = known[1]
                break
            ahead.append(each)
        for each in reversed(ahead):
            file, function = self._texts.number(self._relative(each.file)), self._texts.number(each.function)
            depth = 1 if number < 0 else self._depths[number] + 1
            if depth > _DEEPEST:
                number, depth = -1, 1
            key = (file, each.line, function, number, _rank(each.file))
            number = self._numbers.setdefault(key, len(self._numbers))
            if number == len(self._depths):
                self._depths.append(depth)
            self._known[id(each)] = (each, number)
        return number

    @property
    def all(self) -> list[Any]:
        """[text of the path, number in the file, text of the function, line of the caller or -1, who wrote it] of each.

        Who wrote it: 2 the user, 1 an installed package, 0 JAX or this package.
        """
        return [list(key) for key in self._numbers]


def _rank(file: str) -> int:
    """Who wrote a file; the script that starts this package's command is its own."""
    return 0 if file.endswith(_CONSOLE_SCRIPT) else rank_of_file(file)
