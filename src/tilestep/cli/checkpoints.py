"""`tilestep checkpoints`: lists the checkpoints of a directory, shows what one has, or verifies all that they have."""

from __future__ import annotations

import argparse
import datetime
import json
from pathlib import Path
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
        description="Lists the checkpoints in a directory; or shows the arrays of one; or reads all and compares them with their digests.",
    )
    parser.add_argument("directory", metavar="DIR", type=given_path, help="the directory that Checkpoints(...) was given")
    parser.add_argument("--step", type=int, metavar="N", help="show the arrays of this step")
    parser.add_argument("--verify", action="store_true", help="read every array, of one step or of all; exit status 1 if one is damaged")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Prints to stdout; returns 1 if a checkpoint is damaged, 2 after a message to stderr if there is no such directory or step."""
    from tilestep.train.checkpoints.storage import Storage  # starts no device

    storage = Storage(args.directory, 0, None)
    try:
        if not args.directory.is_dir():
            tell(_COMMAND, f"there is no directory {plain(args.directory)}")
            return 2
        damaged: dict[int, CheckpointError] = {}
        steps = storage.steps(damaged)
        if args.step in damaged:
            raise damaged[args.step]
        if args.step is not None and args.step not in steps:
            tell(
                _COMMAND, f"{plain(args.directory)} has no checkpoint of step {args.step:,}: it has {', '.join(map(str, steps)) or 'none'}"
            )
            return 2
        chosen = steps if args.step is None else [args.step]
        if args.verify:
            return _verify(storage, chosen, damaged if args.step is None else {}, json_wanted=args.json)
        for error in damaged.values():
            tell(_COMMAND, plain(error))
        rows = [_row(storage, step) for step in chosen]
        leaves = None if args.step is None else _leaves(storage, args.step)
    except CheckpointError as error:
        tell(_COMMAND, plain(error))
        return _DAMAGED
    if args.json:
        _print_json({"checkpoints": rows} if leaves is None else {**rows[0], "leaves": leaves})
    elif leaves is None:
        print_table(_table(args.directory, rows), width_of_pipe=_PIPE_WIDTH)
    else:
        print_table(_leaf_table(rows[0], leaves), width_of_pipe=_PIPE_WIDTH)
    return 0


def _parts(storage: Any, step: int) -> list[Any]:
    first = storage.metadata(step, 0)
    return [first, *(storage.metadata(step, process) for process in range(1, first.processes))]


def _row(storage: Any, step: int) -> dict[str, Any]:
    parts = _parts(storage, step)
    return {
        "step": step,
        "saved_at": datetime.datetime.fromtimestamp(parts[0].saved_at, datetime.UTC).isoformat(),
        "arrays": len(parts[0].leaves),
        "bytes": sum(part.size_bytes for part in parts),
        "processes": parts[0].processes,
        "versions": dict(parts[0].versions),
        "program": dict(parts[0].program),
        "infeeds": sorted(json.loads(parts[0].infeeds)),
        "outfeeds": sorted(json.loads(parts[0].outfeeds)),
    }


def _leaves(storage: Any, step: int) -> list[dict[str, Any]]:
    return [
        {"path": leaf.path, "dtype": leaf.dtype, "shape": list(leaf.shape), "random_key": leaf.key_impl or None, "pieces": len(leaf.pieces)}
        for leaf in storage.metadata(step, 0).leaves
    ]


def _verify(storage: Any, steps: list[int], damaged: dict[int, CheckpointError], *, json_wanted: bool) -> int:
    found: list[dict[str, Any]] = [{"step": step, "damaged": str(error)} for step, error in damaged.items()]
    stderr = Console(stderr=True)
    for step in track(steps, "verified", console=stderr, disable=json_wanted or not stderr.is_terminal, transient=True):
        error = None
        try:
            for part in _parts(storage, step):
                storage.arrays(part)
        except CheckpointError as damage:
            error = str(damage)
        found.append({"step": step, "damaged": error})
    found.sort(key=lambda row: row["step"])
    if json_wanted:
        _print_json({"checkpoints": found})
    else:
        with stdout_errors_told():
            for row in found:
                print(plain(f"step {row['step']:,}: {row['damaged'] or 'every array is as it was saved'}"))
    return _DAMAGED if any(row["damaged"] for row in found) else 0


def _table(directory: Path, rows: list[dict[str, Any]]) -> Table:
    table = _titled(f"{count_text(len(rows), 'checkpoint')} in {directory}")
    for name in ("step", "saved (UTC)", "arrays", "size", "processes", "feeds", "tilestep", "JAX"):
        table.add_column(name, justify="left" if name in ("saved (UTC)", "feeds", "tilestep", "JAX") else "right")
    for row in rows:
        table.add_row(
            f"{row['step']:,}",
            row["saved_at"][:19].replace("T", " "),
            f"{row['arrays']:,}",
            decimal(row["bytes"]),
            str(row["processes"]),
            plain(", ".join((*row["infeeds"], *row["outfeeds"]))),
            plain(row["versions"].get("tilestep", "")),
            plain(row["versions"].get("jax", "")),
        )
    return table


def _titled(title: str) -> Table:
    """An empty table, wide enough for its title."""
    return Table(title=plain(title), min_width=len(title))


def _leaf_table(row: dict[str, Any], leaves: list[dict[str, Any]]) -> Table:
    table = _titled(f"step {row['step']:,}, saved {row['saved_at'][:19].replace('T', ' ')} UTC, {decimal(row['bytes'])}")
    for name in ("array", "dtype", "shape", "pieces"):
        table.add_column(name, justify="right" if name == "pieces" else "left")
    for leaf in leaves:
        kind = leaf["dtype"] if leaf["random_key"] is None else f"random key, {leaf['random_key']}"
        table.add_row(plain(leaf["path"]) or "(the state)", plain(kind), str(leaf["shape"]), str(leaf["pieces"]))
    return table


def _print_json(value: object) -> None:
    with stdout_errors_told():
        print(json.dumps(value, indent=2))
