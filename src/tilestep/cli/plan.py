"""`tilestep plan`: which division of a model over a machine's IPUs trains fastest, found without data in dry runs."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, cast

from tilestep.cli.usage import UsageError, stdout_errors_told, tell, whole_number, working_directory
from tilestep.errors import SpecError
from tilestep.machine.catalog import DEFAULT_MACHINE
from tilestep.messages import notes_of, plain, shown

_COMMAND: Final = "tilestep plan"
_MOST: Final = 2**20
_NONE_FITS: Final = 1
_GIVES: Final = ("layers", "params", "optimizer", "microbatch")
_MAY_GIVE: Final = ("loss", "schedules", "recompute", "offload", "sharding", "shards", "plan_options")


def add_parser(subparsers: Any) -> None:
    """Adds `plan` to the subparsers of `tilestep`."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "plan",
        help="find the fastest way to train a model on a machine that fits",
        description="Searches stages, replicas, microbatches, schedules, recomputation and offload for the fastest way to train a model "
        "on an emulated machine. Says how far from the fastest the best that it found can be. Nothing is computed, and no data is needed.",
    )
    parser.add_argument(
        "model",
        metavar="MODULE:NAME",
        help="a function without arguments, or a mapping, in a module: it gives `layers`, `params`, `optimizer`, `microbatch` and perhaps "
        f"{', '.join(f'`{name}`' for name in _MAY_GIVE)}, as tilestep.plan_training takes them",
    )
    parser.add_argument(
        "--machine",
        default=DEFAULT_MACHINE,
        metavar="NAME|FILE.toml",
        help="machine to plan for (`tilestep machines` lists them; default: %(default)s)",
    )
    parser.add_argument(
        "--global-batch",
        type=whole_number(_MOST),
        required=True,
        metavar="N",
        help="samples of an update, over all microbatches and replicas",
    )
    parser.add_argument(
        "--microbatch-sizes",
        type=_sizes,
        metavar="N[,N...]",
        help="samples that a microbatch may have (default: all divisors of the batch)",
    )
    parser.add_argument(
        "--replays", type=whole_number(_MOST), default=16, metavar="N", help="plans to emulate at most (default: %(default)s)"
    )
    parser.add_argument("--exhaustive", action="store_true", help="emulate plans until none that is left can be faster")
    parser.add_argument("--rows", type=whole_number(_MOST), default=10, metavar="N", help="plans to show at most (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print JSON with all plans instead of a table")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Prints to stdout, with a bar on stderr if that is a terminal.

    Returns: 0; 1 if no plan fits, which stdout says; 2 after a message to stderr for a wrong model or option.
    """
    try:
        model = _model(args.model)
        from tilestep.planner.door import plan_training

        with _bar(None if args.exhaustive else args.replays) as show:
            plans = plan_training(
                **model,
                machine=args.machine,
                global_batch=args.global_batch,
                microbatch_sizes=args.microbatch_sizes,
                replays=args.replays,
                exhaustive=args.exhaustive,
                progress=show,
            )
    except (UsageError, SpecError, TypeError, ValueError) as error:
        tell(_COMMAND, plain("; ".join([str(error), *notes_of(error)])))
        return 2
    with stdout_errors_told():
        print(plans.to_json() if args.json else plans.show(args.rows))
    return 0 if plans.plans else _NONE_FITS


def _sizes(text: str) -> list[int]:
    return [whole_number(_MOST)(part) for part in text.split(",")]


def _model(text: str) -> dict[str, Any]:
    """What a module gives. Raises: UsageError for a module or name that there is not, and for what is no model."""
    module, colon, name = text.partition(":")
    if not (colon and module and name):
        raise UsageError(f"{shown(text)} names no model: name a module and what gives the model in it, such as my_model:layers")
    directory = os.fspath(working_directory())
    if directory not in sys.path:
        sys.path.insert(0, directory)  # where `python -m` looks
    try:
        given = getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        raise UsageError(f"there is no module {shown(error.name or module)}, in {plain(directory)} or installed") from None
    except AttributeError as error:
        raise UsageError(f"module {shown(module)}: {error}") from None
    model = given() if callable(given) else given
    has = list(cast("Mapping[str, Any]", model)) if isinstance(model, Mapping) else []
    if not set(_GIVES) <= set(has) <= {*_GIVES, *_MAY_GIVE}:
        found = f"a mapping with {plain(', '.join(map(str, has)))}" if isinstance(model, Mapping) else f"a {type(model).__name__}"
        raise UsageError(
            f"{shown(text)} gives {found}: it must give a mapping with {', '.join(_GIVES)}, and perhaps {', '.join(_MAY_GIVE)}"
        )
    return dict(cast("Mapping[str, Any]", model))


@contextlib.contextmanager
def _bar(total: int | None) -> Iterator[Callable[[int, str], None]]:
    """A bar with the plans that have been emulated, on a terminal; nothing elsewhere. Args: total: None: nobody knows."""
    from rich.console import Console

    from tilestep.train.progress_bar import shown as bar

    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda done, text: None
        return
    with bar("planning layers", total, console) as (did, says):

        def show(done: int, text: str) -> None:
            did(done)
            says(text)

        yield show
