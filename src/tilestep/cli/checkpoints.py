"""`tilestep checkpoints`: lists the checkpoints of a directory, or the arrays of one, and verifies all that they have."""

from __future__ import annotations

import argparse
import datetime
import json
from typing import Any, Final

from rich.console import Console
from rich.filesize import decimal
from rich.progress import track
from rich.table import Table

from tilestep.cli.usage import given_path, print_table, stdout_errors_told, tell
from tilestep.errors import CheckpointError
from tilestep.figures.quantities import count_text
from tilestep.messages import plain

_COMMAND: Final = "tilestep checkpoints"
_DAMAGED: Final = 1
_PIPE_WIDTH: Final = 160  # columns where stdout is no terminal


def add_parser(subparsers: Any) -> None:
    """Adds `checkpoints` to the subparsers of `tilestep`."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "checkpoints",
        help="list, show or verify the checkpoints that a training run has saved",
        description="Lists the checkpoints in a directory, or the arrays of one. Those that are damaged are named on stderr.",
    )
    parser.add_argument("directory", metavar="DIR", type=given_path, help="the directory that Checkpoints(...) was given")
    parser.add_argument("--step", type=int, metavar="N", help="this checkpoint alone, with its arrays")
    parser.add_argument("--verify", action="store_true", help="read every array, and compare it with its digest")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Prints to stdout; returns 1 if a checkpoint is damaged, 2 after a message to stderr if there is no such directory or step."""
    from tilestep.train.checkpoints.storage import Storage  # starts no device

    directory, step = plain(args.directory), args.step
    if not args.directory.is_dir():
        tell(_COMMAND, f"there is no directory {directory}")
        return 2
    storage, damaged, rows = Storage(args.directory, 0, None), dict[int, CheckpointError](), []
    try:
        steps = storage.steps(damaged)
    except CheckpointError as error:
        tell(_COMMAND, plain(error))
        return _DAMAGED
    if step is not None:
        if step not in (known := sorted({*steps, *damaged})):
            tell(_COMMAND, f"{directory} has no checkpoint of step {step:,}: it has {', '.join(map(str, known)) or 'none'}")
            return 2
        steps, damaged = [each for each in steps if each == step], {key: error for key, error in damaged.items() if key == step}
    stderr = Console(stderr=True)
    for each in track(steps, "verified", console=stderr, disable=not (args.verify and stderr.is_terminal), transient=True):
        try:
            parts = [first := storage.metadata(each, 0), *(storage.metadata(each, number) for number in range(1, first.processes))]
            for part in parts if args.verify else ():
                storage.arrays(part)
        except CheckpointError as error:
            damaged[each] = error
        else:
            rows.append(_row(parts) if step is None else {**_row(parts), "leaves": _leaves(first)})
    for _, error in sorted(damaged.items()):
        tell(_COMMAND, plain(error))
    if args.json:
        with stdout_errors_told():
            print(json.dumps({"checkpoints": rows, "damaged": {key: str(error) for key, error in sorted(damaged.items())}}, indent=2))
    elif step is None or not rows:
        verified = ", every array as it was saved" if args.verify else ""
        table = _table(f"{count_text(len(rows), 'checkpoint')} in {directory}{verified}", _COLUMNS)
        for row in rows:
            versions, feeds = row["versions"], (*row["infeeds"], *row["outfeeds"])
            own = row["arrays"], decimal(row["bytes"]), row["processes"], ", ".join(feeds)
            _add(table, row["step"], row["saved_at"][:19], *own, versions.get("tilestep", ""), versions.get("jax", ""))
        print_table(table, width_of_pipe=_PIPE_WIDTH)
    else:
        row = rows[0]
        table = _table(f"step {row['step']:,}, saved {row['saved_at'][:19]} UTC, {decimal(row['bytes'])}", _LEAF_COLUMNS)
        for leaf in row["leaves"]:
            kind = f"random key, {leaf['random_key']}" if leaf["random_key"] else leaf["dtype"]
            _add(table, leaf["path"] or "(the state)", kind, leaf["shape"], leaf["pieces"])
        print_table(table, width_of_pipe=_PIPE_WIDTH)
    return _DAMAGED if damaged else 0


def _row(parts: list[Any]) -> dict[str, Any]:
    first = parts[0]
    return {
        "step": first.step,
        "saved_at": datetime.datetime.fromtimestamp(first.saved_at, datetime.UTC).isoformat(),
        "arrays": len(first.leaves),
        "bytes": sum(part.size_bytes for part in parts),
        "processes": first.processes,
        "versions": dict(first.versions),
        "program": dict(first.program),
        "infeeds": sorted(json.loads(first.infeeds)),
        "outfeeds": sorted(json.loads(first.outfeeds)),
    }


def _leaves(part: Any) -> list[dict[str, Any]]:
    return [
        {"path": leaf.path, "dtype": leaf.dtype, "shape": list(leaf.shape), "random_key": leaf.key_impl or None, "pieces": len(leaf.pieces)}
        for leaf in part.leaves
    ]


_COLUMNS: Final = ("step", "saved (UTC)", "arrays", "size", "processes", "feeds", "tilestep", "JAX")
_LEAF_COLUMNS: Final = ("array", "dtype", "shape", "pieces")
_NUMBERS: Final = ("step", "arrays", "size", "processes", "pieces")


def _table(title: str, columns: tuple[str, ...]) -> Table:
    """An empty table, wide enough for its title."""
    table = Table(title=title, min_width=len(title))
    for name in columns:
        table.add_column(name, justify="right" if name in _NUMBERS else "left")
    return table


def _add(table: Table, *cells: object) -> None:
    table.add_row(*(f"{cell:,}" if isinstance(cell, int) else plain(cell) for cell in cells))
