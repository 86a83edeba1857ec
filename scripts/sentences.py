#!/usr/bin/env python3
"""How long are the sentences of the documents? It advises: nothing fails on it.

    scripts/sentences.py                  docs/ and the pages at the root
    scripts/sentences.py README.md docs   these files and folders

Blocks of code, tables, headings, HTML and addresses of links don't count.
A sentence ends at ".", "!" or "?" before a blank. An item without one goes on in the next item.
"""

from __future__ import annotations

import argparse
import re
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LONG_WORDS = 30  # a sentence of more than so many words is long
GOAL_MEAN_WORDS = 18
GOAL_LONG_SHARE = 0.1

_TABLE_OR_HEADING = re.compile(r"^\s*(\||#).*$", re.MULTILINE)
_HTML = re.compile(r"<!--.*?-->|<[^>]*>", re.DOTALL)
_END = re.compile(r"(?<=[.!?])[)\"'*_]*\s+")


@dataclass(frozen=True, kw_only=True)
class Sentence:
    """A sentence and the file in which it stands."""

    file: Path
    text: str

    @property
    def num_words(self) -> int:
        return len(self.text.split())


def sentences_of(markdown: str) -> list[str]:
    """The sentences of a document, white space folded."""
    text = _HTML.sub("", _TABLE_OR_HEADING.sub("", _fences_removed(markdown)))
    text = re.sub(r"\]\([^)]*\)", "]", text)
    return [" ".join(part.split()) for part in _END.split(text) if re.search(r"[A-Za-z]", part)]


def _fences_removed(markdown: str) -> str:
    kept: list[str] = []
    fence = ""
    for line in markdown.splitlines():
        mark = re.match(r"\s*(`{3,}|~{3,}|:{3,})", line)
        if mark and not fence:
            fence = mark[1]
        elif mark and line.strip() == fence:
            fence = ""
        elif not fence:
            kept.append(line)
    return "\n".join(kept)


def documents(paths: list[Path]) -> list[Path]:
    """The Markdown files among these files and below these folders."""
    return sorted({file for path in paths for file in (path.rglob("*.md") if path.is_dir() else [path])})


def _print_row(name: str, sentences: list[Sentence]) -> None:
    if not sentences:
        return
    num_words = sum(sentence.num_words for sentence in sentences)
    long_share = sum(sentence.num_words > LONG_WORDS for sentence in sentences) / len(sentences)
    print(f"{name:64} {len(sentences):9} {num_words:6} {num_words / len(sentences):5.1f} {long_share:5.0%}")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("paths", nargs="*", type=Path, default=[*sorted(ROOT.glob("*.md")), ROOT / "docs"])
    parser.add_argument(
        "--worst", type=int, default=20, metavar="N", help="how many of the longest sentences to print (default %(default)s)"
    )
    options = parser.parse_args()
    missing = [str(path) for path in options.paths if not path.exists()]
    if missing:
        print(f"scripts/sentences.py: there is no {', '.join(missing)}", file=sys.stderr)
        return 2
    files = documents(options.paths)
    by_file = {file: [Sentence(file=file, text=text) for text in sentences_of(file.read_text(encoding="utf-8"))] for file in files}
    print(f"{'file':64} {'sentences':>9} {'words':>6} {'mean':>5} {'long':>5}")
    everything = [sentence for sentences in by_file.values() for sentence in sentences]
    for file, sentences in by_file.items():
        _print_row(str(file.resolve().relative_to(ROOT)) if file.resolve().is_relative_to(ROOT) else str(file), sentences)
    _print_row("all", everything)
    print(f"\ngoal: a mean of {GOAL_MEAN_WORDS} words, and {GOAL_LONG_SHARE:.0%} of more than {LONG_WORDS}\n")
    for sentence in sorted(everything, key=lambda one: -one.num_words)[: options.worst]:
        print(f"{sentence.num_words:3} words  {sentence.file}: {sentence.text}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
