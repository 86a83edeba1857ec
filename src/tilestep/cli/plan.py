"""`tilestep plan`: which division of a model over a machine's IPUs trains fastest, found without data in dry runs."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from tilestep.cli.usage import INTERRUPTED, UsageError, stdout_errors_told, tell, whole_number, whole_numbers, working_directory
from tilestep.errors import SpecError
from tilestep.figures.quantities import count_text, names_text
from tilestep.machine.catalog import DEFAULT_MACHINE
from tilestep.messages import notes_of, plain, shown

if TYPE_CHECKING:
    from tilestep.planner.plans import TrainingPlans

_COMMAND: Final = "tilestep plan"
_MOST: Final = 2**20
_MOST_NAMED: Final = 5  # keys of a mapping that is no model
_NONE_FITS: Final = 1
_GIVES: Final = ("layers", "params", "optimizer", "microbatch")
_MAY_GIVE: Final = (
    *("loss", "schedules", "recompute", "offload", "sharding", "shards", "tied", "cuts", "shard_optimizer_state", "plan_options"),
)
_OPTIMIZERS: Final[Mapping[str, tuple[Any, ...]]] = {"sgd": ("sgd",), "momentum": ("sgd", 0.9), "adam": ("adam",), "lamb": ("lamb",)}
_OPTIMIZER: Final = "adam"
_LEARNING_RATE: Final = 1e-3  # a plan is the same for any


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
        metavar="MODEL.onnx|MODULE:NAME",
        help="an ONNX model; or a function without arguments, or a mapping, in a module: it gives `layers`, `params`, `optimizer`, "
        f"`microbatch` and perhaps {', '.join(f'`{name}`' for name in _MAY_GIVE)}, as tilestep.plan_training takes them",
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
        type=whole_numbers(_MOST),
        metavar="N[,N...]",
        help="samples that a microbatch may have (default: all divisors of the batch)",
    )
    of_onnx = parser.add_argument_group("of an ONNX model")
    of_onnx.add_argument("--loss", metavar="NAME", help="output that is the loss (default: the mean of all outputs)")
    of_onnx.add_argument("--optimizer", choices=_OPTIMIZERS, help=f"of the parameters (default: {_OPTIMIZER})")
    of_onnx.add_argument("--half", action="store_true", help="plan the model in float16 instead of float32")
    of_onnx.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=N",
        help="size of a dimension, or value of a static input, as of `tilestep onnx`",
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

    Returns: 0; 1 if no plan fits, which stdout says; 2 after a message to stderr for a wrong model or option; 130 after Ctrl-C, when what
    was found until then is printed.
    """
    try:
        model = _onnx_model(args) if args.model.lower().endswith(".onnx") else _model(args)
        from tilestep.planner.door import plan_training

        with _bar(None if args.exhaustive else args.replays) as show:
            plans = plan_training(
                **model,
                machine=args.machine,
                global_batch=args.global_batch,
                replays=args.replays,
                exhaustive=args.exhaustive,
                progress=show,
            )
    except (UsageError, SpecError, TypeError, ValueError) as error:
        tell(_COMMAND, plain("; ".join([str(error), *notes_of(error)])))
        return 2
    except KeyboardInterrupt as error:
        plans = getattr(error, "plans", None)
        if plans is None:
            tell(_COMMAND, "Ctrl-C: no plan has been emulated yet")
            return INTERRUPTED
        _print(plans, args)
        left = plans.considered - plans.impossible - plans.replayed
        tell(_COMMAND, f"Ctrl-C: {count_text(plans.replayed, 'plan')} emulated, {left:,} left that may fit")
        return INTERRUPTED
    _print(plans, args)
    return 0 if plans.plans else _NONE_FITS


def _print(plans: TrainingPlans, args: argparse.Namespace) -> None:
    with stdout_errors_told():
        print(plans.to_json() if args.json else plans.show(args.rows))


def _onnx_model(args: argparse.Namespace) -> dict[str, Any]:
    """A model in layers. Raises: UsageError for a file that cannot be read or planned, or a size that is missing."""
    try:
        from tilestep.cli.onnx import inputs_of, model_of, sizes_of
        from tilestep.onnx import OnnxError
    except ImportError as error:
        raise UsageError(str(error)) from error
    import optax

    try:
        model, settings = model_of(args.model, args.set, half=args.half, training=False)
        if single := [spec.name for spec in model.inputs if not spec.shape]:
            raise UsageError(f"{plain(args.model)}: input '{plain(single[0])}' has no dimension for samples: give its value, --set NAME=N")
        inputs_of(model, settings, 1)  # which says what is missing
        made = model.layers(loss=args.loss, sizes=sizes_of(settings))
    except OnnxError as error:
        raise UsageError(f"{plain(args.model)}: {error}") from error
    except OSError as error:
        raise UsageError(f"{plain(args.model)}: {error.strerror}") from error
    sizes = args.microbatch_sizes
    if made.microbatch_sizes is not None:
        if sizes not in (None, made.microbatch_sizes):
            raise UsageError(f"--microbatch-sizes: {plain(args.model)} is a model of {made.microbatch_sizes[0]:,} samples only")
        sizes = made.microbatch_sizes
    name, *momentum = _OPTIMIZERS[args.optimizer or _OPTIMIZER]
    return {
        "layers": made.layers,
        "params": made.params,
        "microbatch": made.microbatch,
        "tied": made.tied,
        "optimizer": getattr(optax, name)(_LEARNING_RATE, *momentum),
        "microbatch_sizes": sizes,
    }


def _model(args: argparse.Namespace) -> dict[str, Any]:
    """What a module gives. Raises: UsageError for a module or name that there is not, and for what is no model."""
    text = args.model
    given = {"--loss": args.loss, "--optimizer": args.optimizer, "--half": args.half, "--set": args.set}
    if wrong := [name for name, value in given.items() if value]:
        raise UsageError(f"{wrong[0]} is of an ONNX model, and {shown(text)} is none: what a module gives has its own")
    module, colon, name = text.partition(":")
    if not (colon and module and name):
        raise UsageError(
            f"{shown(text)} names no model: it must be a file, such as model.onnx, or a module and what gives it, such as my_model:layers"
        )
    if module.endswith(".py") or not all(part.isidentifier() for part in module.split(".")):
        raise UsageError(
            f"{shown(module)} is no name that `import` takes: my_model.py is the module my_model, and sub/my_model.py sub.my_model"
        )
    directory = os.fspath(working_directory())
    if directory not in sys.path:
        sys.path.insert(0, directory)  # where `python -m` looks
    try:
        imported = importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise UsageError(f"there is no module {shown(error.name or module)}, in {plain(directory)} or installed") from None
    if not hasattr(imported, name):
        raise UsageError(f"module {shown(module)} has no attribute {shown(name)}")
    given = getattr(imported, name)
    try:
        model = given() if callable(given) else given
    except Exception as error:
        error.add_note(f"raised by {text}")
        raise
    has = list(cast("Mapping[str, Any]", model)) if isinstance(model, Mapping) else []
    if not set(_GIVES) <= set(has) <= {*_GIVES, *_MAY_GIVE}:
        has.sort(key={*_GIVES, *_MAY_GIVE}.__contains__)  # what does not belong there comes first
        named = names_text(list(map(plain, has)), most=_MOST_NAMED) or "nothing in it"
        found = f"a mapping with {named}" if isinstance(model, Mapping) else f"a value of type {type(model).__name__}"
        raise UsageError(
            f"{shown(text)} gives {found}: it must give a mapping with {', '.join(_GIVES)}, and perhaps {', '.join(_MAY_GIVE)}"
        )
    return {**cast("Mapping[str, Any]", model), "microbatch_sizes": args.microbatch_sizes}


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
