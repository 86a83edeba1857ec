"""`tilestep checkpoints`: lists the checkpoints of a directory, or the arrays of one, and verifies all that they have."""

import argparse
import datetime
import json
from typing import Any, Final

from rich.filesize import decimal
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
    storage, found, errors = Storage(args.directory, 0, None), dict[int, list[Any]](), dict[int, str]()
    try:
        whole, damaged = storage.steps()
    except CheckpointError as error:
        tell(_COMMAND, plain(error))
        return _DAMAGED
    known = sorted({*whole, *damaged})
    if step is not None and step not in known:
        tell(_COMMAND, f"{directory} has no checkpoint of step {step:,}: it has {', '.join(map(str, known)) or 'none'}")
        return 2
    for each in known if step is None else [step]:
        try:
            found[each] = [first := storage.metadata(each, 0), *(storage.metadata(each, number) for number in range(1, first.processes))]
            for part in found[each] if args.verify else ():
                storage.arrays(part)
        except CheckpointError as error:
            found.pop(each, None)
            errors[each] = plain(error)
            tell(_COMMAND, errors[each])
    verified = ", every array as it was saved" if args.verify else ""
    if args.json:
        rows = [_row(parts) | ({} if step is None else {"leaves": _leaf_rows(parts[0])}) for parts in found.values()]
        with stdout_errors_told():
            print(json.dumps({"checkpoints": rows, "damaged": errors}, indent=2))
    elif step in found:
        print_table(_leaves(found[step][0], verified), width_of_pipe=_PIPE_WIDTH)
    else:
        print_table(_steps(found, f"{count_text(len(found), 'checkpoint')} in {directory}{verified}"), width_of_pipe=_PIPE_WIDTH)
    return _DAMAGED if errors else 0


def _row(parts: list[Any]) -> dict[str, Any]:
    from tilestep.train.checkpoints.metadata import size_bytes  # starts no device

    first = parts[0]
    return {
        "step": first.step,
        "saved_at": datetime.datetime.fromtimestamp(first.saved_at, datetime.UTC).isoformat(),
        "arrays": len(first.leaves),
        "bytes": sum(size_bytes(array) for part in parts for array, _ in part.arrays),
        "processes": first.processes,
        "versions": dict(first.versions),
        "program": dict(first.program),
        "infeeds": sorted(json.loads(first.infeeds)),
        "outfeeds": sorted(json.loads(first.outfeeds)),
    }


def _leaf_rows(part: Any) -> list[dict[str, Any]]:
    return [
        {"path": leaf.path, "dtype": leaf.dtype, "shape": list(leaf.shape), "random_key": leaf.key_impl or None, "pieces": len(leaf.pieces)}
        for leaf in part.leaves
    ]


def _steps(found: dict[int, list[Any]], title: str) -> Table:
    table = _table(title, "step", "saved (UTC)", "arrays", "size", "processes", "feeds", "tilestep", "JAX")
    for row in map(_row, found.values()):
        own, versions = (
            (row["arrays"], decimal(row["bytes"]), row["processes"], ", ".join(row["infeeds"] + row["outfeeds"])),
            row["versions"],
        )
        _add(table, row["step"], row["saved_at"][:19], *own, versions.get("tilestep", ""), versions.get("jax", ""))
    return table


def _leaves(part: Any, verified: str) -> Table:
    table = _table(f"step {part.step:,}, saved {_row([part])['saved_at'][:19]} UTC{verified}", "array", "dtype", "shape", "pieces")
    for row in _leaf_rows(part):
        kind = f"random key, {row['random_key']}" if row["random_key"] else row["dtype"]
        _add(table, row["path"] or "(the state)", kind, row["shape"], row["pieces"])
    return table


def _table(title: str, *columns: str) -> Table:
    """An empty table, wide enough for its title."""
    table = Table(title=title, min_width=len(title))
    for name in columns:
        table.add_column(name, justify="right" if name in ("step", "arrays", "size", "processes", "pieces") else "left")
    return table


def _add(table: Table, *cells: object) -> None:
    table.add_row(*(f"{cell:,}" if isinstance(cell, int) else plain(cell) for cell in cells))
