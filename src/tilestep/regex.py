"""Regular expressions in RE2's syntax, matched in time proportional to the text: no pattern can hang a program.

A pattern becomes a machine of states, all of which run at once. Where the two differ, RE2's syntax holds and not Python's: `$` is the
end of the text only, `\\d`, `\\w`, `\\s` and `\\b` are of ASCII, and there are no look-arounds and no references to groups.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Final

Test = Callable[[str], bool]

_MOST_STATES: Final = 10_000
_MOST_PARTS: Final = 100_000  # repeated ones counted as often
_MOST_REPEATS: Final = 1000  # as RE2 has it
_MOST_DEPTH: Final = 100  # of groups in groups
_MOST_STEPS: Final = 1 << 22  # states that are visited for one text: some seconds
_MOST_TOGETHER: Final = 1 << 24  # likewise for many texts
_MATCH: Final = -1


def _is_word(character: str) -> bool:
    return character.isascii() and (character.isalnum() or character == "_")


_PERL: Final[dict[str, Test]] = {"d": lambda c: "0" <= c <= "9", "s": lambda c: c in "\t\n\f\r ", "w": _is_word}
_POSIX: Final[dict[str, Test]] = {
    "alnum": lambda c: c.isascii() and c.isalnum(),
    "alpha": lambda c: c.isascii() and c.isalpha(),
    "ascii": lambda c: c.isascii(),
    "blank": lambda c: c in "\t ",
    "cntrl": lambda c: c < " " or c == "\x7f",
    "digit": lambda c: "0" <= c <= "9",
    "graph": lambda c: "!" <= c <= "~",
    "lower": lambda c: "a" <= c <= "z",
    "print": lambda c: " " <= c <= "~",
    "punct": lambda c: "!" <= c <= "~" and not c.isalnum(),
    "space": lambda c: c in "\t\n\v\f\r ",
    "upper": lambda c: "A" <= c <= "Z",
    "word": _is_word,
    "xdigit": lambda c: c in "0123456789abcdefABCDEF",
}
_ESCAPES: Final = {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_CATEGORY: Final = re.compile(r"(?:C[cfos]?|L[lmotu]?|M[cen]?|N[dlo]?|P[cdefios]?|S[ckmo]?|Z[lps]?)\Z")


class Regex:
    """A pattern that texts are matched with.

    Raises: ValueError if the pattern is not in RE2's syntax, uses what is not implemented here, or has too many states.
    """

    def __init__(self, pattern: str) -> None:
        parser = _Parser(pattern)
        self._pattern = pattern
        self._machine = _Machine()
        self._start = self._machine.add(parser.parse(), _MATCH)

    def matches(self, text: str) -> bool:
        """Whether the pattern matches the whole text. Raises: ValueError if that takes too long."""
        return self._matched(text)[0]

    def matching(self, texts: Iterable[str]) -> list[str]:
        """Those of some texts that the pattern matches, each as a whole. Raises: ValueError if they take too long, each or together."""
        found: list[str] = []
        visits = 0
        for text in texts:
            matches, visited = self._matched(text)
            visits += visited
            if visits > _MOST_TOGETHER:
                raise ValueError(f"so many texts take the pattern {self._pattern[:60]!r} too long")
            if matches:
                found.append(text)
        return found

    def _matched(self, text: str) -> tuple[bool, int]:
        """(whether the pattern matches the whole text, how many states were visited)."""
        machine, visits = self._machine, 0
        states = machine.closure([self._start], "", text[:1])
        for at, character in enumerate(text):
            visits += len(states)
            if visits > _MOST_STEPS:
                raise ValueError(f"a text of {len(text):,} characters takes the pattern {self._pattern[:60]!r} too long")
            moved = [machine.after[state] for state in states if state in machine.tests and machine.tests[state](character)]
            if not moved:
                return False, visits
            states = machine.closure(moved, character, text[at + 1 : at + 2])
        return _MATCH in states, visits


@dataclass(frozen=True)
class _One:
    test: Test


@dataclass(frozen=True)
class _Anchor:
    """Holds between two characters; the text's ends are "" ."""

    holds: Callable[[str, str], bool]


@dataclass(frozen=True)
class _Row:
    parts: tuple[_Part, ...]


@dataclass(frozen=True)
class _Either:
    parts: tuple[_Part, ...]


@dataclass(frozen=True)
class _Repeat:
    part: _Part
    least: int
    most: int | None


_Part = _One | _Anchor | _Row | _Either | _Repeat


@dataclass
class _Machine:
    """States and what comes after them.

    Attributes:
        tests, after: of a state that takes a character: which ones, and the state after it.
        forks: states that take none, with all that come after them.
        anchors: those of them that hold in some places only.
        count: of states. parts: that were added.
    """

    tests: dict[int, Test] = field(default_factory=dict[int, Test])
    after: dict[int, int] = field(default_factory=dict[int, int])
    forks: dict[int, tuple[int, ...]] = field(default_factory=dict[int, tuple[int, ...]])
    anchors: dict[int, Callable[[str, str], bool]] = field(default_factory=dict[int, Callable[[str, str], bool]])
    count: int = 0
    parts: int = 0

    def new(self) -> int:
        self.count += 1
        if self.count > _MOST_STATES:
            raise ValueError(f"the pattern has more than {_MOST_STATES:,} states")
        return self.count - 1

    def add(self, part: _Part, then: int) -> int:
        """The state at which the part begins, if `then` comes after it."""
        self.parts += 1
        if self.parts > _MOST_PARTS:
            raise ValueError(f"the pattern has more than {_MOST_PARTS:,} parts")
        if isinstance(part, _Row):
            for inner in reversed(part.parts):
                then = self.add(inner, then)
            return then
        if isinstance(part, _Repeat):
            return self._repeat(part, then)
        state = self.new()
        if isinstance(part, _One):
            self.tests[state], self.after[state] = part.test, then
        elif isinstance(part, _Anchor):
            self.anchors[state], self.forks[state] = part.holds, (then,)
        else:
            self.forks[state] = tuple(self.add(inner, then) for inner in part.parts)
        return state

    def _repeat(self, part: _Repeat, then: int) -> int:
        if part.most is None:
            loop = self.new()
            self.forks[loop] = (self.add(part.part, loop), then)
            then = loop
        for _ in range((part.most or part.least) - part.least):
            skip = self.new()
            self.forks[skip] = (self.add(part.part, then), then)
            then = skip
        for _ in range(part.least):
            then = self.add(part.part, then)
        return then

    def closure(self, states: Iterable[int], before: str, after: str) -> set[int]:
        """All states that `states` lead to between two characters."""
        waiting, seen = list(states), set[int]()
        while waiting:
            state = waiting.pop()
            if state in seen:
                continue
            seen.add(state)
            if state in self.forks and (state not in self.anchors or self.anchors[state](before, after)):
                waiting.extend(self.forks[state])
        return seen


@dataclass(frozen=True)
class _Flags:
    """i: case has no meaning. s: a dot takes line ends. m: ^ and $ hold at line ends."""

    i: bool = False
    s: bool = False
    m: bool = False


@dataclass
class _Parser:
    pattern: str
    at: int = 0
    flags: _Flags = _Flags()
    depth: int = 0

    def parse(self) -> _Part:
        part = self.either()
        if self.at < len(self.pattern):
            raise self.error("an unexpected ')'")
        return part

    def error(self, what: str) -> ValueError:
        return ValueError(f"the pattern {self.pattern[:60]!r} has {what} at {self.at}: it must be in RE2's syntax")

    def peek(self, length: int = 1) -> str:
        return self.pattern[self.at : self.at + length]

    def take(self, text: str) -> bool:
        if self.pattern.startswith(text, self.at):
            self.at += len(text)
            return True
        return False

    def next(self) -> str:
        if self.at >= len(self.pattern):
            raise self.error("an unexpected end")
        self.at += 1
        return self.pattern[self.at - 1]

    def either(self) -> _Part:
        parts: list[_Part] = [self.row()]
        while self.take("|"):
            parts.append(self.row())
        return parts[0] if len(parts) == 1 else _Either(tuple(parts))

    def row(self) -> _Part:
        parts: list[_Part] = []
        while self.at < len(self.pattern) and self.peek() not in "|)":
            if self.take("\\Q"):
                quoted, _, rest = self.pattern[self.at :].partition("\\E")
                self.at = len(self.pattern) - len(rest)
                parts.extend(self.literal(c) for c in quoted[:-1])
                parts.extend(self.repeated(self.literal(c)) for c in quoted[-1:])
                continue
            part = self.atom()
            if part is not None:
                parts.append(self.repeated(part))
        return _Row(tuple(parts))

    def repeated(self, part: _Part) -> _Part:
        """The part with the repeat that stands after it. Whether it takes few is of no matter in a match of all."""
        bounds = self.bounds()
        if bounds is None:
            return part
        self.take("?")
        if self.bounds() is not None:
            raise self.error("a repeat of a repeat, which ends")
        return _Repeat(part, *bounds)

    def bounds(self) -> tuple[int, int | None] | None:
        for sign, bounds in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self.take(sign):
                return bounds
        found = re.compile(r"\{(\d{1,4})(,?)(\d{0,4})\}", re.ASCII).match(self.pattern, self.at)
        if found is None:
            return None
        self.at = found.end()
        least = int(found[1])
        most = int(found[3]) if found[3] else None if found[2] else least
        if least > _MOST_REPEATS or (most is not None and not least <= most <= _MOST_REPEATS) or (found[3] and not found[2]):
            raise self.error("a bad count of repeats")
        return least, most

    def atom(self) -> _Part | None:
        """One part; None for flags, which are none."""
        character = self.next()
        if character == "(":
            return self.group()
        if character == "[":
            return _One(self.set())
        if character == ".":
            return _One((lambda c: True) if self.flags.s else (lambda c: c != "\n"))
        if character == "^":
            return _Anchor((lambda b, a: b in ("", "\n")) if self.flags.m else (lambda b, a: not b))
        if character == "$":
            return _Anchor((lambda b, a: a in ("", "\n")) if self.flags.m else (lambda b, a: not a))
        if character in "*+?":
            raise self.error("a repeat of nothing")
        return self.escape() if character == "\\" else self.literal(character)

    def group(self) -> _Part | None:
        self.depth += 1
        if self.depth > _MOST_DEPTH:
            raise self.error(f"more than {_MOST_DEPTH} groups in each other")
        outside = self.flags
        named = re.compile(r"\?P?<[A-Za-z_]\w*>").match(self.pattern, self.at)
        flagged = re.compile(r"\?([imsU]*)(-[imsU]+)?([:)])").match(self.pattern, self.at)
        if named is not None:
            self.at = named.end()
        elif flagged is not None:
            self.at = flagged.end()
            changes = dict.fromkeys(flagged[1], True) | dict.fromkeys((flagged[2] or "-")[1:], False)
            changes.pop("U", None)  # whether repeats take few
            self.flags = replace(self.flags, **changes)
            if flagged[3] == ")":
                self.depth -= 1
                return None
        elif self.peek() == "?":
            raise self.error("a group that is not implemented here")
        inner = self.either()
        if not self.take(")"):
            raise self.error("a '(' without ')'")
        self.flags = outside
        self.depth -= 1
        return inner

    def literal(self, character: str) -> _Part:
        return _One(self.cased(lambda c: c == character))

    def cased(self, test: Test) -> Test:
        """The test, which a character also passes in its other case if case has no meaning."""
        return (lambda c: test(c) or any(test(other) for other in (c.lower(), c.upper()) if len(other) == 1)) if self.flags.i else test

    def escape(self) -> _Part:
        special: dict[str, Callable[[str, str], bool]] = {
            "A": lambda b, a: not b,
            "z": lambda b, a: not a,
            "b": lambda b, a: _is_word(b) != _is_word(a),
            "B": lambda b, a: _is_word(b) == _is_word(a),
        }
        if self.peek() in special:
            return _Anchor(special[self.next()])
        test = self.escaped_class()
        return self.literal(self.escaped()) if test is None else _One(test)

    def escaped_class(self) -> Test | None:
        """The class that is named after a backslash, such as d or p{Lu}; None if there is none."""
        letter = self.peek()
        if letter.lower() in _PERL:
            self.at += 1
            return _negated(_PERL[letter.lower()], letter.isupper())
        if letter not in ("p", "P"):
            return None
        self.at += 1
        name = self.next()
        if name == "{":
            name, closed, _ = self.pattern[self.at :].partition("}")
            if not closed:
                raise self.error("a '{' without '}'")
            self.at += len(name) + 1
        negated = (letter == "P") != name.startswith("^")
        name = name.removeprefix("^")
        if name == "Any":
            return _negated(lambda c: True, negated)
        if not _CATEGORY.match(name):
            raise self.error(f"the class '{name}', which is not implemented here,")
        return _negated(self.cased(lambda c: unicodedata.category(c).startswith(name)), negated)

    def escaped(self) -> str:
        """The character that is named after a backslash."""
        found = re.compile(r"[0-7]{1,3}|x[0-9A-Fa-f]{2}|x\{[0-9A-Fa-f]{1,6}\}", re.ASCII).match(self.pattern, self.at)
        if found is not None and (found[0][0] in "0x" or len(found[0]) > 1):
            self.at = found.end()
            number = int(found[0].strip("x{}"), 16) if found[0][0] == "x" else int(found[0], 8)
            if number > 0x10FFFF:
                raise self.error("a character beyond Unicode")
            return chr(number)
        letter = self.next()
        if letter in _ESCAPES:
            return _ESCAPES[letter]
        if letter.isascii() and letter.isalnum():
            raise self.error(f"'\\{letter}', which is not implemented here,")
        return letter

    def set(self) -> Test:
        """A set of characters in brackets; the first bracket is read."""
        negated = self.take("^")
        tests: list[Test] = []
        while not tests or not self.take("]"):
            posix = re.compile(r"\[:(\^?)([a-z]+):\]").match(self.pattern, self.at)
            if posix is not None:
                if posix[2] not in _POSIX:
                    raise self.error(f"the class '{posix[2]}', which doesn't exist,")
                self.at = posix.end()
                tests.append(_negated(self.cased(_POSIX[posix[2]]), bool(posix[1])))
                continue
            tests.append(self.range())
        return _negated(lambda c: any(test(c) for test in tests), negated)

    def range(self) -> Test:
        if self.take("\\"):
            test = self.escaped_class()
            if test is not None:
                return test
            low = self.escaped()
        else:
            low = self.next()
        if self.peek() != "-" or self.peek(2) in ("-", "-]"):
            return self.cased(lambda c: c == low)
        self.at += 1
        high = self.escaped() if self.take("\\") else self.next()
        if high < low:
            raise self.error(f"the range from {low!r} to {high!r}")
        return self.cased(lambda c: low <= c <= high)


def _negated(test: Test, negated: bool) -> Test:
    return (lambda c: not test(c)) if negated else test
