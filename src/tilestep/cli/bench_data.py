"""`tilestep bench-data`: how fast a dataset gives its elements, which bounds the speed of a training loop."""

import argparse
import importlib
import importlib.util
import json
import operator
import sys
from pathlib import Path
from typing import Any, Final

from rich import box
from rich.table import Table

from tilestep.cli.terminated import Terminated, end, told_first
from tilestep.cli.usage import UsageError, print_table, stdout_errors_told, tell, whole_number, working_directory
from tilestep.errors import DatasetError
from tilestep.figures.quantities import count_text
from tilestep.messages import plain, shown

_COMMAND: Final = "tilestep bench-data"
_PIPE_WIDTH: Final = 140  # columns where stdout is no terminal
_count: Final = whole_number(10**9)


def add_parser(subparsers: Any) -> None:
    """Adds `bench-data` to the subparsers of `tilestep`."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "bench-data",
        help="measure how fast a dataset gives its elements",
        description="Takes elements from a dataset, without any device, and prints how many a second it gives. That is the most that a "
        "training loop can take from it.",
    )
    parser.add_argument(
        "dataset",
        metavar="MODULE:NAME|FILE.py:NAME",
        help="an iterable of pytrees of arrays, or a callable without arguments that returns one",
    )
    parser.add_argument("--epochs", type=_count, default=3, metavar="N", help="how often to measure (default: %(default)s)")
    parser.add_argument("--elements", type=_count, default=100, metavar="N", help="elements of an epoch (default: %(default)s)")
    parser.add_argument("--no-copy", action="store_true", help="leave out the copy of each element that a feed to a device makes")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Prints to stdout; returns 2 after a message to stderr if there is no such dataset, 1 if it ends early or can't be fed.

    Raises: the exceptions of the dataset's own code.
    """
    from tilestep.train.datasets import iterator_maker
    from tilestep.train.feeds.benchmark import Epoch, benchmark_text, dataset_epochs  # these bring JAX with them

    measured: list[Epoch] = []
    try:
        with told_first():
            try:
                dataset: Any = _load(args.dataset)
                iterator_maker(dataset)
            except (UsageError, TypeError) as error:
                tell(_COMMAND, f"{plain(args.dataset)}: {error}")
                return 2
            for epoch in dataset_epochs(dataset, args.epochs, args.elements, copy=not args.no_copy):
                measured.append(epoch)  # noqa: PERF402  # those before a signal count
    except DatasetError as error:
        tell(_COMMAND, f"{plain(args.dataset)}: {error}")
        return 1
    except (SystemExit, KeyboardInterrupt) as ended:
        done = f"when {len(measured):,} of {count_text(args.epochs, 'epoch')} were measured"
        match ended:
            case Terminated(name=name):
                tell(_COMMAND, f"{name} came {done}")
            case SystemExit(code=code):
                tell(_COMMAND, f"{plain(args.dataset)}: its code called sys.exit({plain(repr(code))}) {done}")
            case _:
                tell(_COMMAND, f"Ctrl-C came {done}")
        if measured:
            _show(json.loads(benchmark_text(measured)), args)
        if isinstance(ended, Terminated):
            end(ended.status)
        raise
    _show(json.loads(benchmark_text(measured)), args)
    return 0


def _show(found: dict[str, Any], args: argparse.Namespace) -> None:
    if args.json:
        with stdout_errors_told():
            print(json.dumps(found, indent=2))
    else:
        print_table(_table(found, plain(args.dataset)), width_of_pipe=_PIPE_WIDTH)


def _load(target: str) -> object:
    """The object that MODULE:NAME or FILE.py:NAME names. Raises: UsageError if there is none; the exceptions of the module's own code."""
    place, colon, name = target.rpartition(":")
    if not (place and colon and all(part.isidentifier() for part in name.split("."))):
        raise UsageError("name a dataset as MODULE:NAME or FILE.py:NAME, like my_data:train_batches")
    module = _load_file(Path(place)) if place.endswith(".py") else _load_module(place)
    try:
        return operator.attrgetter(name)(module)
    except AttributeError as error:
        raise UsageError(f"{error}; name what is defined there") from error


def _load_file(path: Path) -> object:
    """Runs a Python file as a module of its own, with its folder first on Python's path, as `python FILE.py` has it."""
    if not path.is_file():
        raise UsageError(f"there is no file {shown(str(path))} in {plain(working_directory())}")
    _put_first_on_path(path.resolve().parent)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{shown(str(path))} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # dataclasses and worker processes look their module up by its name
    spec.loader.exec_module(module)
    return module


def _load_module(name: str) -> object:
    folder = working_directory()
    _put_first_on_path(folder)
    try:
        found = importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):  # a package above it that is missing or broken; a name with an empty part
        found = False
    if not found:
        raise UsageError(f"there is no module {shown(name)} in {plain(folder)} or on Python's path; to load a file, name it with .py")
    return importlib.import_module(name)


def _put_first_on_path(folder: Path) -> None:
    if not sys.flags.safe_path:
        sys.path.insert(0, str(folder))


def _table(found: dict[str, Any], title: str) -> Table:
    host = found["details"]["host"]
    table = Table(
        box=box.SIMPLE_HEAD,
        title=title,
        title_justify="left",
        caption=f"A latency is the time from one element to the next.\n{host['cpus']} CPUs ({host['architecture']}), load {host['load']}",
        caption_justify="left",
    )
    for heading in ("epoch", "elements", "seconds", "elements/s", "GB/s", "p50 ms", "p90 ms", "p99 ms", "max ms"):
        table.add_column(heading, justify="right", no_wrap=True)
    for number, (epoch, details) in enumerate(zip(found["epochs"], found["details"]["epochs"], strict=True), 1):
        latency = details["latency_wall_s"]
        table.add_row(
            str(number),
            f"{epoch['elements_processed']:,.0f}",
            f"{epoch['time_elapsed']:.4g}",
            _rounded(epoch["elements_per_second"]),
            f"{epoch['bandwidth']:.3g}",
            *(f"{1e3 * latency[key]:.3g}" for key in ("p50", "p90", "p99", "max")),
        )
    return table


def _rounded(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
