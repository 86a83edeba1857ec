"""Values as messages show them: on one line, of bounded length, without a character that a terminal would obey."""

import difflib
import re
import reprlib
import traceback
import unicodedata
from collections.abc import Iterable
from typing import Final

_MOST_VALUE_CHARACTERS: Final = 200
_LONGEST_TEXT: Final = 1000  # characters of a path
_MOST_NUMBER_BITS: Final = 512  # Python refuses to write out very large numbers
_MOST_LISTED_ITEMS: Final = 4
_MOST_NESTED_LISTS: Final = 3
_LONGEST_WORD: Final = 200  # characters of a name in sentences
_LONGEST_SENTENCES: Final = 5000  # characters
_LONG_WORD: Final = re.compile(rf"\S{{{_LONGEST_WORD + 1},}}")
_OF_JAX: Final = "JAX has removed its internal frames"  # a note that says nothing of the error
_LEAST_ALIKE: Final = 0.5  # of 0 to 1, as difflib counts; a name that is less like a known one is no slip of it
_LONGEST_SLIP: Final = 100  # characters; a longer name is no slip of a known one


def shown(value: object) -> str:
    """The value as Python writes it, with the middle left out where it is long."""
    return plain(_SHORT.repr(value))


def notes_of(error: BaseException) -> list[str]:
    """An exception's notes, without JAX's about its own traceback."""
    return [note for note in getattr(error, "__notes__", ()) if _OF_JAX not in note]


def headline_of(error: BaseException) -> str:
    """'ValueError: x is 0': the first line of what Python says of an exception, without its notes."""
    told = traceback.TracebackException.from_exception(error)
    told.__notes__ = None
    return list(told.format_exception_only())[-1].strip().partition("\n")[0]


def plain(text: object) -> str:
    """A path or another text as the user wrote it, with '\\n', '\\x1b' or '\\udcff' in place of characters that cannot be printed.

    The middle of a very long one is left out.
    """
    whole = _without_middle(str(text), _LONGEST_TEXT)
    return "".join(character if character.isprintable() else character.encode("unicode_escape").decode() for character in whole)


def printable(text: str) -> str:
    """A text of any length and number of lines, with '\\x1b' or '\\udcff' in place of other characters that a terminal would obey."""
    return text if text.isprintable() else "".join(map(_plain_character, text))


def sentences(text: str) -> str:
    """Sentences on one line, with any names in them: no character that a terminal would obey, and the middle of long ones left out."""
    whole = _without_middle(printable(text), _LONGEST_SENTENCES).replace("\n", "\\n")
    return _LONG_WORD.sub(lambda word: _without_middle(word[0], _LONGEST_WORD), whole)


def no_json(error: ValueError | RecursionError) -> str:
    """Why a text is no JSON, of the error that Python's reader raises, without what that advises a program to do."""
    return plain(str(error).partition("; use sys.")[0])


def _without_middle(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most // 2]}...{text[-most // 2 :]}"


def _plain_character(character: str) -> str:
    obeyed = unicodedata.category(character) in ("Cc", "Cf", "Cs") and character not in "\n\t"
    return character.encode("unicode_escape").decode() if obeyed else character


def shortened(text: object, most: int = 80) -> str:
    """A text for a message, as `plain` writes it: its begin if it is longer than that."""
    whole = str(text)
    return plain(whole) if len(whole) <= most else f"{plain(whole[:most])}..."


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is most like `name`; None if none is like it, or `name` is too long to be a slip."""
    if len(name) > _LONGEST_SLIP:
        return None
    return next(iter(difflib.get_close_matches(name, known, n=1, cutoff=_LEAST_ALIKE)), None)


class _Short(reprlib.Repr):
    def __init__(self) -> None:
        super().__init__()
        self.maxstring = self.maxother = _MOST_VALUE_CHARACTERS
        self.maxlist = self.maxtuple = self.maxdict = self.maxset = self.maxfrozenset = self.maxdeque = self.maxarray = _MOST_LISTED_ITEMS
        self.maxlevel = _MOST_NESTED_LISTS

    def repr_int(self, x: int, level: int) -> str:
        del level
        return repr(x) if x.bit_length() <= _MOST_NUMBER_BITS else f"a whole number of {x.bit_length():,} bits"


_SHORT: Final = _Short()
