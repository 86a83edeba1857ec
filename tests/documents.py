"""Reads the project's Markdown: blocks of code with the output shown below them, and links."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from importlib.metadata import version
from pathlib import Path

HAS_JAX_OF_FIGURES = version("jax").startswith("0.10.")  # with which documents were printed, and pictures drawn
_FENCE = re.compile(r"^(?:<!-- needs (\w+) -->\n)?```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_ANCHORED = re.compile(r"\]\((?!https?:|mailto:)([^)#\s]*)#([^)\s]+)\)")
_LINK = re.compile(r"\]\((?!https?:|mailto:)([^)#\s]+)[^)]*\)")
_FIGURE = r"(?<![\w.])\d[\d,]*(?:\.\d+)?(?!\w)"  # not a number within a name


@dataclass(frozen=True, kw_only=True)
class Block:
    """One fenced block. `shown` is the text block that follows a python block directly, the output that it promises.

    `needs` is a package without which a python block can't run, named by a comment above the block: <!-- needs torch -->.
    """

    language: str
    text: str
    line: int  # of the block's first line of text, from 1
    shown: str | None
    needs: str | None = None


def blocks(markdown: str) -> list[Block]:
    """Every fenced block of a document, in order."""
    matches = list(_FENCE.finditer(markdown))
    found: list[Block] = []
    for index, match in enumerate(matches):
        following = matches[index + 1] if index + 1 < len(matches) else None
        adjacent = following is not None and following[2] == "text" and not markdown[match.end() : following.start()].strip()
        found.append(
            Block(
                language=match[2],
                text=match[3],
                line=markdown.count("\n", 0, match.start(3)) + 1,
                shown=following[3] if following is not None and adjacent else None,
                needs=match[1],
            )
        )
    return found


def commands(block: Block) -> list[tuple[str, str]]:
    """(command, output shown) of a console block: lines that start with '$ ', each with the lines up to the next."""
    _, *parts = re.split(r"^\$ ", block.text, flags=re.MULTILINE)
    return [(command, shown) for command, _, shown in (part.partition("\n") for part in parts)]


def local_links(markdown: str) -> Iterator[str]:
    """Targets of links to files of the project."""
    yield from (match[1] for match in _LINK.finditer(markdown))


def links_to_anchors(markdown: str) -> Iterator[tuple[str, str]]:
    """(page, anchor) of each link of a Markdown page to an anchor; the page is '' for its own."""
    yield from (match.groups() for match in _ANCHORED.finditer(markdown))  # type: ignore[misc]


def anchors(markdown: str) -> set[str]:
    """The anchors of a page: its headings, as GitHub and Sphinx name them."""
    headings = re.findall(r"^#{1,4} (.+)$", re.sub(r"^```.*?^```$", "", markdown, flags=re.MULTILINE | re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", re.sub(r"\]\(.*?\)", "", heading).lower()).replace(" ", "-") for heading in headings}


def apply(diff: Block, folder: Path) -> None:
    """Makes the edit of a diff block in the file that its first line names, as '--- train.py'. Lines are found by what they say.

    Raises: LookupError if the file does not have the lines, or has them more than once.
    """
    head, *lines = diff.text.splitlines(keepends=True)
    path = folder / head.removeprefix("--- ").strip()
    before, after = ("".join(line[1:] for line in lines if line[0] in signs) for signs in (" -", " +"))
    text = path.read_text(encoding="utf-8")
    if text.count(before) != 1:
        raise LookupError(f"{path.name} has these lines {text.count(before)} times:\n{before}")
    path.write_text(text.replace(before, after), encoding="utf-8")


def documents(root: Path) -> list[Path]:
    """Every Markdown file that people read: at the root and in docs/."""
    return sorted([*root.glob("*.md"), *root.glob("docs/**/*.md")])


def refreshed(shown: str, printed: str) -> str:
    """Shown output with today's figures: each part between lines of '...' is replaced by what is printed between its first and last line.

    Those two are found by their words, figures and units aside. A part in which '...' stands within a line stays as it is.

    Raises: LookupError if a first or last line is not printed any more: then the document has to be written anew.
    """
    lines, position = printed.splitlines(), 0
    parts: list[str] = []
    for part in re.split(r"^\.\.\.\n", shown, flags=re.MULTILINE):
        if part and "..." not in part:
            first, *_, last = [words(line) for line in part.splitlines()] * 2  # twice: a single line is first and last
            start = position_of(first, lines, position)
            position = position_of(last, lines, start)
            part = "\n".join(lines[start : position + 1]) + "\n"
        parts.append(part)
    return "...\n".join(parts)


def words(line: str) -> str:
    """A line without its figures, their units and the width of its gaps."""
    return " ".join(re.sub(r"<?\d[\d.,]*( (%|(s|ms|µs|ns|B|KiB|MiB|GiB)\b))?", "#", line).split())


def position_of(wanted: str, lines: list[str], start: int) -> int:
    """Where a line with these words stands. Raises: LookupError if it does not."""
    for index in range(start, len(lines)):
        if words(lines[index]) == wanted:
            return index
    raise LookupError(f"no line like {wanted!r} is printed")


def near_output(shown: str, printed: str) -> bool:
    """Whether output has the words that are shown, and figures near those: 3 % off at most, or one in the last place. '...' is anything.

    Figures follow from the program that JAX makes of a function, which differs a little from version to version.
    """
    parts = re.split(rf"(\.\.\.|{_FIGURE})", " ".join(shown.split()))
    figures = [part for part in parts if re.fullmatch(_FIGURE, part)]
    pattern = "".join(
        ".*?" if part == "..." else f"({_FIGURE})" if re.fullmatch(_FIGURE, part) else re.escape(part) for part in parts if part
    )
    match = re.fullmatch(pattern, " ".join(printed.split()), re.DOTALL)
    return match is not None and all(map(_is_near, figures, match.groups()))


def _is_near(shown: str, printed: str) -> bool:
    one, other = (Decimal(text.replace(",", "")) for text in (shown, printed))
    last_place = max(Decimal(1).scaleb(int(number.as_tuple().exponent)) for number in (one, other))
    return abs(one - other) <= max(last_place, max(one, other) * Decimal("0.03"))
