"""`tilestep machines`: lists the machines, or every number of one of them with its source."""

import argparse
import dataclasses
import json
from typing import Any

from rich import box
from rich.table import Table

from tilestep.cli.usage import print_table, stdout_errors_told, tell
from tilestep.errors import SpecError
from tilestep.machine.assemble import describe
from tilestep.machine.catalog import DEFAULT_MACHINE, machine_names
from tilestep.machine.fields import Value
from tilestep.machine.spec import MachineSpec
from tilestep.machine.toml import load_machine

_PIPE_WIDTH = 160  # columns where stdout is no terminal


def add_parser(subparsers: Any) -> None:
    """Adds `machines` to the subparsers of `tilestep`."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "machines",
        help="list the machines that can be emulated, or show one with the source of every number",
        description="Lists the machines that can be emulated; or shows every field of one with value, unit, basis and source.",
    )
    parser.add_argument("machine", nargs="?", metavar="NAME|FILE.toml", help="a machine to show in full")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Prints to stdout; returns 2 after a message to stderr if there is no such machine."""
    if args.machine is None:
        machines = [load_machine(name) for name in machine_names()]
        _print(json_object=[_figures(machine) for machine in machines] if args.json else None, table=_list_table(machines))
        return 0
    try:
        machine = load_machine(args.machine)
    except SpecError as error:
        tell("tilestep machines", str(error))
        return 2
    _print(json_object=_full(machine) if args.json else None, table=_full_table(machine))
    return 0


def _print(*, json_object: object, table: Table) -> None:
    if json_object is not None:
        with stdout_errors_told():
            print(json.dumps(json_object, indent=2))
    else:
        print_table(table, width_of_pipe=_PIPE_WIDTH)


def _figures(machine: MachineSpec) -> dict[str, Value]:
    """The main figures of a whole machine; peaks are 2 FLOP per multiply-accumulate of every tile."""
    ipu = machine.ipu
    flops_per_mac = 2 * machine.num_ipus * ipu.num_tiles * ipu.clock_hz
    return {
        "name": machine.name,
        "description": machine.description,
        "generation": ipu.generation,
        "num_ipus": machine.num_ipus,
        "num_tiles": ipu.num_tiles,
        "clock_hz": ipu.clock_hz,
        "tile_sram_bytes": ipu.tile.sram_bytes,
        "sram_bytes": machine.num_ipus * ipu.sram_bytes,
        "peak_half_flops_per_second": ipu.macs_per_cycle_half * flops_per_mac,
        "peak_float_flops_per_second": ipu.macs_per_cycle_float * flops_per_mac,
        "peak_float8_flops_per_second": ipu.macs_per_cycle_float8 * flops_per_mac,
        "to_ipus_bytes_per_second": machine.num_machines * machine.host.to_ipus_bytes_per_second,
        "to_host_bytes_per_second": machine.num_machines * machine.host.to_host_bytes_per_second,
    }


def _full(machine: MachineSpec) -> dict[str, object]:
    return {
        "name": machine.name,
        "description": machine.description,
        "fields": [dataclasses.asdict(entry) for entry in describe(machine)],
    }


def _list_table(machines: list[MachineSpec]) -> Table:
    table = Table(
        box=box.SIMPLE_HEAD,
        caption=f"SRAM, peaks and host link are of the whole machine. Default: {DEFAULT_MACHINE}.\nAll of one: tilestep machines NAME",
        caption_justify="left",
    )
    table.add_column("machine", no_wrap=True)
    table.add_column("IPUs", justify="right")
    table.add_column("chip", no_wrap=True)
    for heading in ("tiles\nper IPU", "clock\nGHz", "SRAM\nMiB", "fp16\nTFLOP/s", "fp32\nTFLOP/s", "to IPUs\nGB/s", "to host\nGB/s"):
        table.add_column(heading, justify="right", no_wrap=True)
    for machine in machines:
        figures = _figures(machine)
        scaled = (
            ("num_tiles", 1, ",.0f"),
            ("clock_hz", 1e9, ".2f"),
            ("sram_bytes", 2**20, ",.0f"),
            ("peak_half_flops_per_second", 1e12, ",.0f"),
            ("peak_float_flops_per_second", 1e12, ",.0f"),
            ("to_ipus_bytes_per_second", 1e9, ",.1f"),
            ("to_host_bytes_per_second", 1e9, ",.1f"),
        )
        cells = [format(float(figures[key]) / scale, form) for key, scale, form in scaled]
        table.add_row(machine.name, str(machine.num_ipus), machine.ipu.generation, *cells)
    return table


def _full_table(machine: MachineSpec) -> Table:
    table = Table(box=box.SIMPLE_HEAD, title=f"{machine.name}: {machine.description}", title_justify="left")
    table.add_column("field", no_wrap=True)
    table.add_column("value", justify="right", no_wrap=True)
    table.add_column("unit", no_wrap=True)
    table.add_column("basis", no_wrap=True)
    table.add_column("source", overflow="fold")
    for entry in describe(machine):
        table.add_row(entry.path, _shown(entry.value), entry.unit, entry.basis, entry.source)
    return table


def _shown(value: Value) -> str:
    match value:
        case str():
            return value
        case int():
            return f"{value:,}"
        case float():
            return f"{value:,.0f}" if value >= 1 else f"{value:g}"
