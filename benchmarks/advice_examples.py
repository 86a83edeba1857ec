"""The project's own examples and tutorials, and what a reader makes of them who follows a finding: edits of their text, by hand."""

from __future__ import annotations

import ast
import contextlib
import io
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
_NUMBERS = re.compile(r"-?\d+\.\d+|\d+")
_BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)

Edit = tuple[str, str]  # a text that the source has, and what takes its place


@contextlib.contextmanager
def _as_main(folder: Path, words: Sequence[str]) -> Iterator[None]:
    """As where a script of a folder is started with a command line."""
    argv, path = sys.argv, list(sys.path)
    sys.argv, sys.path = list(words), [str(folder), *sys.path]
    try:
        yield
    finally:
        sys.argv, sys.path = argv, path


def _scaled(scale: Edit, steps: int) -> Edit:
    return scale[0], scale[1].format(steps=steps)


def edited(text: str, edits: Sequence[Edit]) -> str:
    """The text with edits. Raises: ValueError if it has not what one is of."""
    for old, new in edits:
        if old not in text:
            raise ValueError(f"the source has no {old!r}")
        text = text.replace(old, new)
    return text


def ran(text: str, path: Path, words: Sequence[str]) -> str:
    """What a program prints."""
    printed = io.StringIO()
    with _as_main(path.parent, words), contextlib.redirect_stdout(printed):
        exec(compile(text, str(path), "exec"), {"__name__": "__main__", "__file__": str(path)})
    return printed.getvalue()


def example(
    steps: int, *, file: str, lines: str, scale: Edit | None = None, flag: str = "", edits: Sequence[Edit] = (), each: int = 1
) -> Any:
    """The numbers that an example prints.

    Args:
        steps: as many as it does.
        file: of examples/.
        lines: a pattern of the lines whose numbers count: what it prints of emulated time is another after an edit.
        scale: of its text, by which it does '{steps}' of them.
        flag: of its command line, that says how many.
        edits: of its text.
        each: steps of one such.
    """
    path = ROOT / "examples" / file
    changes = [] if scale is None else [_scaled(scale, steps // each)]
    words = [file, flag, str(steps // each)] if flag else [file]
    printed = ran(edited(path.read_text(encoding="utf-8"), [*changes, *edits]), path, words)
    return [float(number) for line in printed.splitlines() if re.search(lines, line) for number in _NUMBERS.findall(line)]


def tutorial(steps: int, *, file: str, scale: Edit, blocks: Sequence[int], use: Callable[[dict[str, Any]], Any]) -> Any:
    """What the functions of a tutorial's blocks give. Args: as of `example`. blocks: their numbers. use: what is done with their names."""
    path = ROOT / "docs" / "tutorials" / file
    found = _BLOCK.findall(path.read_text(encoding="utf-8"))
    names: dict[str, Any] = {"__name__": "__main__"}
    for number in blocks:
        tree = ast.parse(edited(found[number], [_scaled(scale, steps)] if number == blocks[0] else []))
        if number != blocks[0]:  # what it defines, and not what it runs
            tree.body = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
        exec(compile(tree, str(path), "exec"), names)
    return use(names)
