"""`tilestep onnx`: what an ONNX model is, and what it would take on an emulated IPU."""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rich import box
from rich.table import Table

from tilestep.cli.run import choose_platform, output_paths
from tilestep.cli.terminated import Terminated, end, told_first
from tilestep.cli.usage import Once, UsageError, given_path, print_table, stdout_errors_told, tell, whole_number, whole_numbers
from tilestep.errors import SettingsError, SpecError
from tilestep.figures.quantities import count_text
from tilestep.files import write_file
from tilestep.machine.catalog import DEFAULT_MACHINE, machine_names
from tilestep.machine.toml import load_machine
from tilestep.messages import plain, shown
from tilestep.settings import read_settings
from tilestep.views.files import write_report

if TYPE_CHECKING:
    from tilestep.cli.onnx_price import Price
    from tilestep.onnx import OnnxModel, ValueSpec

_COMMAND: Final = "tilestep onnx"
_PIPE_WIDTH: Final = 140  # columns where stdout is no terminal
_MOST_SIZE: Final = 10**9
_MOST_INPUT_ELEMENTS: Final = 2**40  # several TiB, more than any machine holds
_MOST_TRIPS: Final = 2**31 - 1
_SCHEMA_VERSION: Final = 1
Settings = Mapping[tuple[str, int | None], str]  # (name, axis) or (name, None) -> what --set gives
_SETTING: Final = re.compile(r"(?P<name>.+?)(?:\[(?P<axis>[0-9]{1,9})\])?=(?P<value>[^=]+)")


def add_parser(subparsers: Any) -> None:
    """Adds `onnx` to the subparsers of `tilestep`."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "onnx",
        help="show an ONNX model, and what it would take on an emulated IPU",
        description="Shows an ONNX model's inputs, operators and parameters; and what it would take on one emulated IPU: latency, "
        "throughput, memory, and what limits it. Nothing is computed, and no data are needed. With --ops, lists the operators that are "
        "covered.",
    )
    parser.add_argument("model", nargs="?", type=given_path, metavar="MODEL.onnx", help="the model's file")
    parser.add_argument("--ops", action="store_true", help="list the operators that are covered, with their versions")
    parser.add_argument(
        "--machine", metavar="NAME|FILE.toml", help=f"machine to emulate (`tilestep machines` lists them; default {DEFAULT_MACHINE})"
    )
    parser.add_argument(
        "--batch",
        type=whole_numbers(_MOST_SIZE),
        metavar="N[,N...]",
        help="sizes of the inputs' first dimension, one row of the table for each (default: 1)",
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=N",
        help="size of a named dimension, of a dimension of an input (NAME[AXIS]=N), or the value of a static input (NAME=N or NAME=N,N)",
    )
    parser.add_argument("--half", action="store_true", help="price the model in float16 instead of float32")
    parser.add_argument("--train", action="store_true", help="price a training step: gradients, and plain gradient descent")
    parser.add_argument("--loss", metavar="NAME", help="output to differentiate, with --train (default: the mean of all outputs)")
    parser.add_argument("--trip-count", type=whole_number(_MOST_TRIPS), metavar="N", help="trips of each loop whose end depends on data")
    parser.add_argument("--json", type=given_path, action=Once, metavar="FILE", help="also write the figures to FILE as JSON")
    parser.add_argument(
        "--report", type=given_path, action=Once, metavar="DIR", help="also write a profile for each row into a folder of DIR"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Prints to stdout; returns 2 after a message to stderr for a wrong file or option, 1 if the model cannot be priced or written."""
    try:
        return _run(args)
    except UsageError as error:
        tell(_COMMAND, str(error))
        return 2


def _run(args: argparse.Namespace) -> int:
    if args.model is None and not args.ops:
        raise UsageError("name a model, as in `tilestep onnx model.onnx`, or give --ops")
    given = [name for name in ("model", "machine", "batch", "set", "half", "train", "trip_count", "json", "report") if getattr(args, name)]
    if args.ops and given:
        other = "model" if given[0] == "model" else f"--{given[0].replace('_', '-')}"
        raise UsageError(f"--ops lists the operators that are covered, and takes no {other}")
    if args.loss is not None and not args.train:
        raise UsageError("--loss names the output to differentiate; it goes with --train")
    json_path, report_path = output_paths(args)
    _choose_machine(args.machine)
    try:
        from tilestep.onnx import DynamicShapeError, OnnxError
        from tilestep.onnx.reading.load import checked_by_onnx
    except ImportError as error:
        raise UsageError(str(error)) from error
    if args.ops:
        print_table(_operators_table(), width_of_pipe=_PIPE_WIDTH)
        return 0
    try:
        model, settings = model_of(args.model, args.set, half=args.half, training=args.train)
        rows = [(batch, inputs_of(model, settings, batch)) for batch in _batches(model, settings, args.batch)]
        _show_model(model, checked_by_onnx(model.loaded))
        prices, ended = _prices(model, rows, args)
    except DynamicShapeError as error:
        here = f". Here: {_to_set(error.inputs)}" if error.inputs else ""
        raise UsageError(f"{plain(args.model)}: {_line(error)}{here}") from error
    except OnnxError as error:
        raise UsageError(f"{plain(args.model)}: {_line(error)}") from error
    except OSError as error:
        raise UsageError(f"{plain(args.model)}: {error.strerror}") from error
    except RuntimeError as error:  # JAX raises it, for instance because of a loop whose end depends on data
        tell(_COMMAND, f"{plain(args.model)}: {_line(error)}")
        return 1
    if ended is not None:
        tell(_COMMAND, f"{ended.name} came when {len(prices):,} of {count_text(len(rows), 'row')} were priced")
    code = _show_prices(model, prices, args, json_path, report_path) if prices else 0
    if ended is not None:
        end(ended.status)
    return code


def _show_prices(
    model: OnnxModel, prices: Sequence[Price], args: argparse.Namespace, json_path: Path | None, report_path: Path | None
) -> int:
    """Prints the rows, and writes the files that the options name; returns 1 after a message if one cannot be written."""
    print_table(_price_table(prices, args), width_of_pipe=_PIPE_WIDTH)
    _print_lines([f"{'' if row.batch is None else f'Batch {row.batch:,}: '}{text}" for row in prices[-1:] for text in row.advice])
    try:
        if json_path is not None:
            write_file(json_path, json.dumps(_document(model, prices, args), ensure_ascii=False) + "\n")
        for number, row in enumerate(prices if report_path is not None else []):
            folder = Path(report_path or ".") / (f"batch-{row.batch}" if row.batch is not None else f"row-{number}")
            folder.mkdir(exist_ok=True)
            write_report(row.report, folder)
    except OSError as error:
        tell(_COMMAND, f"the figures could not be written: {plain(error.filename)}: {error.strerror}")
        return 1
    return 0


def _choose_machine(machine: str | None) -> None:
    """Sets the machine of this process, before JAX starts its platforms."""
    environ: dict[str, str] = {}
    if machine is not None:
        try:
            load_machine(machine)
        except SpecError as error:
            raise UsageError(f"--machine: {error}") from error
        environ["TILESTEP_MACHINE"] = machine if machine in machine_names() else str(Path(machine).resolve())
    try:
        read_settings({**os.environ, **environ})
    except SettingsError as error:
        raise UsageError(str(error)) from error
    os.environ.update(environ)
    choose_platform()


def model_of(path: str, words: Sequence[str], *, half: bool, training: bool) -> tuple[OnnxModel, Settings]:
    """The model, and what --set says of dimensions, as text by (name, axis). Values of static inputs are fixed in the model.

    Args: words: of --set.
    Raises: UsageError, OnnxError, OSError.
    """
    from tilestep.onnx.function import fixed_values
    from tilestep.onnx.half import halved
    from tilestep.onnx.model import OnnxModel
    from tilestep.onnx.reading.load import load

    settings = _settings(words)
    loaded = load(path)
    if half:
        loaded = halved(loaded)
    plain_model = OnnxModel(loaded, training=training, static=(), bounds={}, trainable=None)
    names = {spec.name: spec for spec in plain_model.inputs}
    static = {name: _numbers(text, names[name]) for (name, axis), text in settings.items() if axis is None and name in names}
    missing = [name for name in plain_model.static_inputs if name not in static]
    if missing:
        which = ", ".join(f"input '{plain(name)}' ({names[name]})" for name in missing)
        static_are = "are static, so their values" if missing[1:] else "is static, so its value"
        raise UsageError(f"{plain(path)}: {which} {static_are} must be known: give {_to_set(missing)} or N,N")
    fixed_values(static, names)
    model = OnnxModel(loaded, training=training, static=static, bounds={}, trainable=None) if static else plain_model
    return model, {key: text for key, text in settings.items() if key[0] not in static}


def _settings(words: Sequence[str]) -> dict[tuple[str, int | None], str]:
    found: dict[tuple[str, int | None], str] = {}
    for word in words:
        match = _SETTING.fullmatch(word)
        if match is None:
            raise UsageError(f"--set {shown(word)}: write NAME=N, such as seq=128, or NAME[AXIS]=N")
        key = match["name"], None if match["axis"] is None else int(match["axis"])
        if key in found:
            raise UsageError(f"--set {shown(word)}: {plain(word.rpartition('=')[0])} is given twice, before as {shown(found[key])}")
        found[key] = match["value"]
    return found


def _numbers(text: str, spec: ValueSpec) -> Any:
    """One number or a list of numbers; a list of one for an input of one dimension."""
    try:
        numbers = [float(part) if re.search(r"[.eEn]", part) else int(part) for part in text.split(",")]
    except ValueError:
        raise UsageError(f"--set {plain(spec.name)}={shown(text)}: give a number, or several with commas") from None
    return numbers if "," in text or len(spec.shape or ()) == 1 else numbers[0]


def _batches(model: OnnxModel, settings: Settings, given: Sequence[int] | None) -> Sequence[int | None]:
    """The sizes of a batch; None where the model or --set gives the inputs' first dimensions several sizes."""
    first = [(spec, spec.shape[0]) for spec in model.inputs if spec.shape and not isinstance(spec.shape[0], int)]
    sizes = sizes_of(settings)
    found = {_set_size(sizes, spec.name, 0, size) for spec, size in first}
    if None in found:
        return given or [1]
    if given is not None:
        fixed = f"the first dimensions of the model's inputs are fixed: {_declared(model)}"
        raise UsageError(f"--batch: {'--set gives the size of the first dimensions, too: leave one of them away' if first else fixed}")
    return [found.pop() if len(found) == 1 else None]


def _set_size(sizes: Mapping[str, int], name: str, axis: int, size: int | str | None) -> int | None:
    """What --set says of a dimension. Args: sizes: of `sizes_of`. size: what the model says of it."""
    return sizes.get(f"{name}[{axis}]", sizes.get(size) if isinstance(size, str) else None)


def inputs_of(model: OnnxModel, settings: Settings, batch: int | None) -> list[Any]:
    """Shape and dtype of each input. Raises: UsageError for sizes that are missing, or of nothing."""
    from tilestep.onnx.stages.parts import input_shapes, missing_sizes

    specs = {spec.name: spec for spec in model.inputs}
    named = {name for spec in model.inputs for name in spec.named()}
    for name, axis in settings:
        if axis is None and name not in named:
            known = ", ".join([*sorted(named), *(f"{spec.name}[AXIS]" for spec in model.inputs)])
            raise UsageError(f"--set {shown(name)}: the model has no such dimension; it has {plain(known)}")
        if axis is not None and (name not in specs or axis not in specs[name].free()):
            raise UsageError(f"--set {shown(f'{name}[{axis}]')}: the model has no such dimension without a size: {_declared(model)}")
    sizes = sizes_of(settings)
    several = {name for spec in model.inputs for name in spec.named() if spec.named().count(name) > 1}  # names that bind nothing
    for spec in model.inputs:
        first = spec.shape[0] if spec.shape else None
        if batch is not None and 0 in spec.free() and _set_size(sizes, spec.name, 0, first) is None:
            sizes[f"{spec.name}[0]"] = batch
            if isinstance(first, str) and first not in several:
                sizes.setdefault(first, batch)
    if missing := missing_sizes(model.inputs, model.static_inputs, sizes):
        have = "have no sizes" if len(missing) > 1 else "has no size"
        raise UsageError(f"{plain(', '.join(missing.values()))} {have}: give {_to_set(missing)}")
    found = input_shapes(model.inputs, model.static_inputs, sizes)
    for name, given in zip((spec.name for spec in model.inputs if spec.name not in model.static_inputs), found, strict=True):
        if (elements := prod(given.shape)) > _MOST_INPUT_ELEMENTS:
            shape = ",".join(map(str, given.shape))
            raise UsageError(
                f"input '{plain(name)}' [{shape}] has {elements:,} elements: {_MOST_INPUT_ELEMENTS:,} are the most that is priced"
            )
    return found


def sizes_of(settings: Settings) -> dict[str, int]:
    """Sizes by a dimension's name, and of single ones as 'x[2]'. Raises: UsageError for what is no size."""
    names = {key: key[0] if key[1] is None else f"{key[0]}[{key[1]}]" for key in settings}
    return {name: _size(settings[key], name) for key, name in names.items()}


def _to_set(names: Iterable[str]) -> str:
    """The options that give these dimensions or inputs what they lack."""
    return " ".join(f"--set {shlex.quote(f'{plain(name)}=N')}" for name in names)


def _size(text: str, name: str) -> int:
    if not (text.isdecimal() and len(text) <= len(str(_MOST_SIZE)) and 1 <= int(text) <= _MOST_SIZE):
        raise UsageError(f"--set {plain(name)}={shown(text)}: a dimension has a whole number of elements, 1 to {_MOST_SIZE:,}")
    return int(text)


def _prices(
    model: OnnxModel, rows: Sequence[tuple[int | None, Sequence[Any]]], args: argparse.Namespace
) -> tuple[list[Price], Terminated | None]:
    """(a price for each row, None); those of the first rows, and what a signal has become that asks to end."""
    from tilestep.cli.onnx_price import price

    found: list[Price] = []
    try:
        with told_first():
            for batch, inputs in rows:
                found.append(price(model, inputs, batch=batch, loss=args.loss, trip_count=args.trip_count))
    except Terminated as ended:
        return found, ended
    return found, None


def _show_model(model: OnnxModel, wrong: str) -> None:
    """Args: wrong: what ONNX's checker finds."""
    from tilestep.onnx.describe import operators_table, title_of, values_table

    _print_lines([title_of(model), *([f"ONNX's checker says: {wrong}"] if wrong else [])])
    print_table(values_table(model), width_of_pipe=_PIPE_WIDTH)
    print_table(operators_table(model.graph), width_of_pipe=_PIPE_WIDTH)


def _print_lines(lines: Sequence[str]) -> None:
    with stdout_errors_told():
        for line in lines:
            print(plain(line))


def _price_table(prices: Sequence[Price], args: argparse.Namespace) -> Table:
    machine = prices[0].report.machine
    what = "a training step" if args.train else "inference"
    table = Table(
        box=box.SIMPLE_HEAD,
        title=f"{what} on one IPU of {machine.name}{', float16' if args.half else ''}",
        title_justify="left",
        title_style="",
    )
    for heading in (
        "batch",
        "latency",
        "samples/s" if prices[0].batch is not None else "runs/s",
        "TFLOP/s",
        "KiB of the\nfullest tile",
        "of a tile",
    ):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("limited by")
    for row in prices:
        program = row.program
        table.add_row(
            "-" if row.batch is None else f"{row.batch:,}",
            _time(row.latency_s),
            f"{row.throughput:,.0f}" if row.throughput >= 100 else f"{row.throughput:.3g}",
            f"{program.flops / row.run_s / 1e12:.3g}",
            f"{program.peak_tile_bytes / 1024:,.0f}",
            f"{program.peak_tile_bytes / machine.tile_sram_bytes:.0%}" + (" DOES NOT FIT" if program.out_of_memory else ""),
            row.limit,
        )
    return table


def _document(model: OnnxModel, prices: Sequence[Price], args: argparse.Namespace) -> dict[str, Any]:
    return {
        "schema": "tilestep-onnx",
        "version": _SCHEMA_VERSION,
        "model": {
            "name": model.name,
            "opset": model.opset,
            "inputs": {spec.name: str(spec) for spec in model.inputs},
            "outputs": {spec.name: str(spec) for spec in model.outputs},
            "parameters": sum(array.size for array in model.params.values()),
            "parameter_bytes": sum(array.nbytes for array in model.params.values()),
        },
        "machine": prices[0].report.machine.name,
        "training": args.train,
        "half": args.half,
        "rows": [
            {
                "batch": row.batch,
                "latency_emulated_s": row.latency_s,
                "run_emulated_s": row.run_s,
                "throughput_per_s": row.throughput,
                "flops": row.program.flops,
                "peak_tile_bytes": row.program.peak_tile_bytes,
                "tile_sram_bytes": row.report.machine.tile_sram_bytes,
                "fits": not row.program.out_of_memory,
                "host_bytes_in": row.program.host_bytes_in,
                "host_bytes_out": row.program.host_bytes_out,
                "limited_by": row.limit,
                "findings": row.advice,
            }
            for row in prices
        ],
    }


def _operators_table() -> Table:
    from tilestep.onnx.coverage import coverage

    table = Table(box=box.SIMPLE_HEAD)
    for heading in ("domain", "operator", "versions", "static inputs"):
        table.add_column(heading, overflow="fold")
    for row in coverage():
        table.add_row(row.domain or "ai.onnx", row.name, row.versions, ", ".join(row.static))
    return table


def _declared(model: OnnxModel) -> str:
    return plain(", ".join(f"{spec.name} {spec}" for spec in model.inputs))


def _time(seconds: float) -> str:
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("µs", 1e6)):
        if seconds * factor >= 1:
            return f"{seconds * factor:.4g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def _line(error: Exception) -> str:
    """The message in one line."""
    return plain("; ".join(line.strip() for line in str(error).splitlines() if line.strip()))
