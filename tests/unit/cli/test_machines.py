"""`tilestep machines`: what it prints, where, and with which exit code."""

import argparse
import json
from pathlib import Path

import pytest

from tilestep.cli import machines
from tilestep.machine import describe, load_machine, machine_names


def command(*arguments: str) -> int:
    parser = argparse.ArgumentParser()
    machines.add_parser(parser.add_subparsers())
    args = parser.parse_args(["machines", *arguments])
    return args.run(args)


def test_the_list_has_a_row_for_every_machine(capsys: pytest.CaptureFixture[str]) -> None:
    assert command() == 0
    out, err = capsys.readouterr()
    rows = {line.split()[0]: line.split() for line in out.splitlines() if line.split()}
    assert set(machine_names()) <= set(rows)
    assert rows["bow-pod64"][1:] == ["64", "Bow", "1,472", "1.85", "57,408", "22,308", "5,577", "232.8", "101.3"]
    assert "Default: bow-2000" in out
    assert err == ""


def test_the_list_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert command("--json") == 0
    listed = json.loads(capsys.readouterr().out)
    assert [machine["name"] for machine in listed] == list(machine_names())
    bow = next(machine for machine in listed if machine["name"] == "bow-2000")
    assert (bow["num_ipus"], bow["tile_sram_bytes"], bow["sram_bytes"]) == (4, 638_976, 4 * 1472 * 638_976)
    assert bow["peak_half_flops_per_second"] == pytest.approx(1.394e15, rel=0.001)  # Bow-2000 datasheet
    assert bow["peak_float_flops_per_second"] == pytest.approx(0.349e15, rel=0.002)
    assert bow["peak_float8_flops_per_second"] == 0
    c600 = next(machine for machine in listed if machine["name"] == "c600")
    assert c600["peak_float8_flops_per_second"] == 2 * c600["peak_half_flops_per_second"]


def test_one_machine_shows_every_field_with_unit_basis_and_source(capsys: pytest.CaptureFixture[str]) -> None:
    assert command("bow-2000") == 0
    out = capsys.readouterr().out
    assert out.startswith("bow-2000: Bow-2000: IPU-Machine with four Bow IPUs")
    rows = {line.split()[0]: line for line in out.splitlines() if line.strip()}
    for entry in describe(load_machine("bow-2000")):
        cells = rows[entry.path].split()
        assert entry.basis in cells
        assert entry.unit in (*cells, "")
        assert entry.source.split()[0] in rows[entry.path]
    assert "638,976" in rows["ipu.tile.sram_bytes"]
    assert "1,850,000,000" in rows["ipu.clock_hz"]
    assert " 1e-05 " in rows["host.link_latency_seconds"]


def test_one_machine_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert command("--json", "c600") == 0
    shown = json.loads(capsys.readouterr().out)
    machine = load_machine("c600")
    assert (shown["name"], shown["description"]) == ("c600", machine.description)
    assert [(f["path"], f["value"], f["unit"], f["source"], f["basis"]) for f in shown["fields"]] == [
        (entry.path, entry.value, entry.unit, entry.source, entry.basis) for entry in describe(machine)
    ]


def test_a_file_is_shown_with_itself_as_source(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('inherits = "c600"\n[ipu]\nnum_tiles = 16\n', encoding="utf-8")
    assert command(str(path), "--json") == 0
    fields = {entry["path"]: entry for entry in json.loads(capsys.readouterr().out)["fields"]}
    assert (fields["ipu.num_tiles"]["value"], fields["ipu.num_tiles"]["source"]) == (16, str(path))


@pytest.mark.parametrize("flags", [(), ("--json",)])
def test_an_unknown_machine_is_a_message_on_stderr_and_exit_code_2(flags: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert command("bow2000", *flags) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("tilestep machines: no machine is called 'bow2000' (did you mean 'bow-2000'?)")


def test_a_wrong_file_is_a_message_on_stderr_and_exit_code_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(str(tmp_path / "none.toml")) == 2
    assert "none.toml: the machine's description cannot be read" in capsys.readouterr().err
