"""The flags of the examples. A notebook has no command line, so there each flag has its default."""

from __future__ import annotations

import argparse
import sys
import warnings
from functools import partial
from pathlib import Path

import jax

from datasets import DataError, Dataset, load_digits, load_mnist

# JAX deprecates `backend=` without naming a date; it stays the shortest way to say where a function runs.
warnings.filterwarnings("ignore", "backend and device argument on jit", DeprecationWarning)


def make_parser(description: str) -> argparse.ArgumentParser:
    """A parser with `--backend`."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument(
        "--backend",
        default="ipu",
        help="the JAX platform to run on, like ipu, cpu or gpu (default: %(default)s)",
    )
    return parser


def read(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """The flags as they are given. JAX has started no device."""
    return parser.parse_args([] if "ipykernel" in sys.modules else None)


def parse(parser: argparse.ArgumentParser, *, num_devices: int = 1) -> argparse.Namespace:
    """The flags, `--backend` among them, which has been found to have `num_devices` devices. CPU is told to have as many."""
    flags = read(parser)
    if num_devices > 1:
        jax.config.update("jax_num_cpu_devices", num_devices)
    try:
        found = len(jax.devices(flags.backend))
    except RuntimeError as error:
        parser.error(f"--backend {flags.backend}: {error}")
    if found < num_devices:
        parser.error(f"--backend {flags.backend}: there are {found} devices, {num_devices} are needed")
    return flags


def parse_backend(description: str, *, num_devices: int = 1) -> str:
    """The platform that `--backend` names, for examples without other flags."""
    return parse(make_parser(description), num_devices=num_devices).backend


def parse_training(parser: argparse.ArgumentParser) -> tuple[argparse.Namespace, Dataset]:
    """The flags of training on digits, and the data set that they name."""
    parser.add_argument(
        "--data",
        type=Path,
        metavar="DIR",
        help="MNIST's idx files, .gz too (default: scikit-learn's 8x8 digits)",
    )
    parser.add_argument(
        "--epochs", type=partial(whole_number, low=1, high=10_000), default=10, help="(default: %(default)s)"
    )
    parser.add_argument(
        "--batch-size",
        type=partial(whole_number, low=1, high=1_000_000),
        default=128,
        help="(default: %(default)s)",
    )
    parser.add_argument(
        "--seed", type=partial(whole_number, low=0, high=2**32 - 1), default=0, help="(default: %(default)s)"
    )
    flags = parse(parser)
    try:
        dataset = load_mnist(flags.data) if flags.data else load_digits()
    except DataError as error:
        parser.error(str(error))
    if flags.batch_size > len(dataset.train):
        parser.error(
            f"--batch-size is {flags.batch_size:,}: it must be at most {len(dataset.train):,}, the pictures to train on"
        )
    return flags, dataset


def whole_number(text: str, *, low: int, high: int) -> int:
    """A flag's value. Raises: argparse.ArgumentTypeError if it is no whole number from `low` to `high`."""
    try:
        value = int(text)
    except ValueError:
        value = low - 1
    if not low <= value <= high:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {low:,} to {high:,}")
    return value
