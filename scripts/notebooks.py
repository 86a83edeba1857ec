"""Makes the notebooks of examples/ from the scripts of the same name: the same cells, with what they print.

    scripts/notebooks.py                    write them all anew
    scripts/notebooks.py quickstart         only these
    scripts/notebooks.py --check            write nothing; exit code 1 if one would be another

A line `# %%` begins a cell of code, `# %% [markdown]` one of text; the script's docstring is the first cell. What a cell writes to
stderr is an error: a notebook shows no warnings. Nothing in a notebook depends on when or where it was made.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import json
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
_MARKER = re.compile(r"^# %%( \[markdown\])?\n", re.MULTILINE)
_SETTINGS = re.compile(r"(JAX|TILESTEP|XLA|POPLAR|PVTI)_.*|PYTHONWARNINGS")  # of the caller, which must not change what is printed
_CELL_TIMEOUT_WALL_S = 600


class Cell(NamedTuple):
    """One cell, without outputs."""

    kind: str  # as in the file format: "markdown" or "code"
    source: str


def cells(script: str) -> list[Cell]:
    """The cells of a script. Raises: ValueError if it has no docstring, or code before its first marker."""
    parts = _MARKER.split(script)
    statements = ast.parse(parts[0]).body
    docstring = ast.get_docstring(ast.parse(parts[0]))
    if docstring is None or len(statements) != 1:
        raise ValueError("an example begins with a docstring, and after it a line '# %%' before any code")
    title, _, text = docstring.partition("\n")
    found = [Cell("markdown", f"# {title.removesuffix('.')}\n{text}".rstrip())]
    for marked_text, body in zip(parts[1::2], parts[2::2], strict=True):
        if marked_text:
            found.append(Cell("markdown", re.sub(r"^# ?", "", body.strip(), flags=re.MULTILINE)))
        else:
            found.append(Cell("code", body.strip()))
    return found


def notebook(found: Sequence[Cell]) -> dict[str, Any]:
    """A notebook of these cells in Jupyter's format 4.5, not executed."""
    return {
        "cells": [
            {"cell_type": cell.kind, "id": f"cell-{number}", "metadata": {}, "source": cell.source}
            | ({"execution_count": None, "outputs": []} if cell.kind == "code" else {})
            for number, cell in enumerate(found)
        ],
        "metadata": {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"file_extension": ".py", "mimetype": "text/x-python", "name": "python"},
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def executed(plain: dict[str, Any]) -> dict[str, Any]:
    """The notebook with its outputs. Raises: nbclient's CellExecutionError if a cell fails, ValueError if one writes to stderr."""
    import nbformat  # both for development only: who reads cells does without
    from nbclient import NotebookClient

    document = nbformat.from_dict(json.loads(json.dumps(plain)))
    environ = {name: value for name, value in os.environ.items() if not _SETTINGS.fullmatch(name)}
    client = NotebookClient(
        document,
        timeout=_CELL_TIMEOUT_WALL_S,
        kernel_name="python3",
        resources={"metadata": {"path": str(EXAMPLES)}},
        record_timing=False,
        coalesce_streams=True,
        extra_arguments=["--log-level=ERROR"],
    )
    client.execute(env=environ | {"COLUMNS": "100"})
    for cell in document.cells:
        for output in cell.get("outputs", []):
            if output.get("name") == "stderr":
                raise ValueError(f"{cell.id} writes to stderr:\n{output.text}\n{cell.source}")
    return json.loads(json.dumps(document)) | {"metadata": plain["metadata"]}


def text_of(document: dict[str, Any]) -> str:
    """The notebook's file."""
    return json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def names() -> list[str]:
    """The examples: the scripts that have cells."""
    return sorted(path.stem for path in EXAMPLES.glob("*.py") if _MARKER.search(path.read_text(encoding="utf-8")))


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    description, _, _ = (inspect.getdoc(sys.modules[__name__]) or "").partition("\n")
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"any of {', '.join(names())} (default: all)")
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 if a notebook would be another")
    options = parser.parse_args(arguments)
    unknown = sorted(set(options.names) - set(names()))
    if unknown:
        parser.error(f"there is no example {', '.join(unknown)}; there are {', '.join(names())}")
    stale = 0
    for name in options.names or names():
        path = EXAMPLES / f"{name}.ipynb"
        text = text_of(executed(notebook(cells(path.with_suffix(".py").read_text(encoding="utf-8")))))
        if path.exists() and path.read_text(encoding="utf-8") == text:
            print(f"{path.name} is up to date")
        elif options.check:
            print(f"{path.name} is not what its script makes; run scripts/notebooks.py {name}")
            stale += 1
        else:
            path.write_text(text, encoding="utf-8")
            print(f"{path.name} is written")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
