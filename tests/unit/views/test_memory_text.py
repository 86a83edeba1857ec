"""The memory of a program as text: its figures are the plan's, values have their lines, and what does not fit says so."""

import re
from dataclasses import replace
from typing import Any

import pytest

from tests.golden.texts import hlo_text
from tilestep.machine import MachineSpec, load_machine
from tilestep.plan import Argument, Life, Liveness, Program, Series, lower_in_detail
from tilestep.plan.steps import Frame, TileMemory
from tilestep.program import parse_hlo
from tilestep.views.memory import MOST_REPORTED_VALUES, memory_text, variables_text

MACHINE = load_machine("bow-2000")
FRAMES = (
    Frame(file="/home/me/model.py", function="loss", line=7, column=5, parent=0),
    Frame(file="/usr/lib/python3.12/site-packages/jax/_src/numpy/x.py", function="add", line=99, column=1, parent=1),
)
PARTS = (("vertex code", 100), ("stacks", 50))


def value(name: str, size: int, first: int, last: int, **more: Any) -> Life:
    life = Life(
        name=name, category="temporary", size_bytes=4 * size, first=first, last=last, tile_bytes=size, tiles=4, start_tile=0, frame=0
    )
    return replace(life, **more)


DETAIL = Liveness(
    num_tiles=8,
    steps=("program start", "add", "mul", "program end"),
    leaves=(-1, 0, 1, -1),
    temporary_tile_bytes=(0, 30, 0, 0),
    lives=(
        value("x", 400, 0, 1, category="argument", frame=2),
        value("sum", 200, 1, 3, category="result"),
        value("elsewhere", 300, 0, 3, start_tile=6, tiles=2),
    ),
    code=PARTS[:1],
    fixed=PARTS[1:],
)
MEMORY = TileMemory(peak_bytes=780, peak_step="add", code_bytes=100, fixed_bytes=50, resident_bytes=0, transient_bytes=630, always=PARTS)
PROGRAM = Program(name="jit_f", num_ipus=1, body=Series(), arguments=(), results=(), memory=MEMORY, frames=FRAMES)


def with_tiles_of(sram_bytes: int, executable_bytes: int = 10**6) -> MachineSpec:
    tile = replace(MACHINE.ipu.tile, sram_bytes=sram_bytes, executable_bytes=min(executable_bytes, sram_bytes))
    return replace(MACHINE, ipu=replace(MACHINE.ipu, num_tiles=8, tile=tile))


def test_a_program_by_hand() -> None:
    assert memory_text(PROGRAM, DETAIL, with_tiles_of(1560)) == (
        "memory of 'jit_f' on 1 IPU of bow-2000, 8 tiles of 1,560 B each\n"
        "peak: 780 B on tile 0, in superstep 'add': 780 B are free\n"
        "it fits\n"
        "\n"
        "By category, on tile 0 at the peak\n"
        "  100 B   13 %  vertex code\n"
        "   50 B  6.4 %  stacks\n"
        "  630 B   81 %  other values and temporaries\n"
        "\n"
        "Values at the peak, the largest of 2\n"
        "  on the tile  whole array  from step  to step  category   value               line\n"
        "         30 B            -          1        1  temporary  temporaries of add\n"
        "        400 B     1.56 KiB          0        1  argument   x                   model.py:7 in loss\n"
        "        200 B        800 B          1        3  result     sum\n"
        "\n"
        "Steps around the peak, 1 of 4; | is where a tile is full\n"
        "  0  550 B  ##############                          |    program start\n"
        "  1  780 B  ####################                    |  > add\n"
        "  2  350 B  #########                               |    mul\n"
        "  3  350 B  #########                               |    program end\n"
    )


def test_what_does_not_fit_says_by_how_much() -> None:
    text = memory_text(PROGRAM, DETAIL, with_tiles_of(700))
    assert "peak: 780 B on tile 0, in superstep 'add': 80 B too many\nit does not fit\n" in text
    assert "  1  780 B  ####################################|####  > add\n" in text
    text = memory_text(PROGRAM, DETAIL, with_tiles_of(1560, executable_bytes=60))
    assert "780 B are free\ncode: 100 B on each tile, which can execute 60 B: 40 B too many\nit does not fit\n" in text


def test_lines_may_stay_away() -> None:
    for text in (memory_text(PROGRAM, DETAIL, MACHINE, lines=False), variables_text(PROGRAM, DETAIL, lines=False)):
        assert "model.py" not in text
        assert " line" not in text


def test_only_the_largest_values_and_the_nearest_steps_are_there() -> None:
    lives = tuple(value(f"v{i}", 1 + i, 0, 299) for i in range(100))
    steps = tuple(f"s{i}" for i in range(300))
    detail = replace(DETAIL, lives=lives, steps=steps, leaves=(-1,) * 300, temporary_tile_bytes=(0,) * 150 + (5,) + (0,) * 149)
    text = memory_text(PROGRAM, detail, MACHINE)
    assert "Values at the peak, the largest of 100\n" in text
    assert re.findall(r" v\d+\n", text) == [f" v{i}\n" for i in range(99, 99 - MOST_REPORTED_VALUES, -1)]
    assert re.findall(r"[ >] (s\d+)\n", text) == [f"s{i}" for i in range(140, 161)]


def test_all_values_are_listed_with_their_tiles() -> None:
    assert variables_text(PROGRAM, DETAIL) == (
        "values of 'jit_f'; `first` and `last` are the steps, listed below, at which a value takes memory first and last\n"
        "\n"
        "  first  last  bytes  on each tile  tiles  category   value      line\n"
        "      0     1  1,600           400  0..3   argument   x          model.py:7 in loss\n"
        "      0     3  1,200           300  6..7   temporary  elsewhere\n"
        "      1     3    800           200  0..3   result     sum\n"
        "\n"
        "Steps\n"
        "       0  program start\n"
        "       1  add\n"
        "       2  mul\n"
        "       3  program end\n"
    )
    round_ = replace(DETAIL, lives=(value("r", 4, 0, 1, start_tile=6, tiles=4),))
    assert "  6..7, 0..1  " in variables_text(PROGRAM, round_)


def test_values_in_pinned_host_are_there_with_their_bound() -> None:
    moments = Argument(index=0, name="moments", shape="f32[2]", size_bytes=8000, result=None, on_host=True)
    text = memory_text(replace(PROGRAM, arguments=(moments,), parked_bytes=9000), DETAIL, MACHINE)
    bound = MACHINE.host.streaming_memory_bytes
    assert text.endswith(
        f"In pinned_host, of one IPU; an IPU-Machine has {bound:,} B\n  9,000 B  values parked during a run\n  8,000 B  moments\n"
    )
    assert "pinned_host" not in memory_text(PROGRAM, DETAIL, MACHINE)


@pytest.mark.parametrize("name", ["\x1b[31mred", "two\nlines", "x" * 10_000])
def test_names_stay_on_their_line(name: str) -> None:
    program, detail = replace(PROGRAM, name=name), replace(DETAIL, lives=(value(name, 4, 0, 3),), steps=(name,) * 4)
    texts = memory_text(program, detail, MACHINE), variables_text(program, detail)
    plain = memory_text(PROGRAM, replace(DETAIL, lives=(value("v", 4, 0, 3),)), MACHINE)
    assert texts[0].count("\n") == plain.count("\n")
    assert all(line.isprintable() and len(line) < 400 for text in texts for line in text.splitlines())


def test_the_steps_of_a_real_program_peak_where_its_plan_does() -> None:
    program, detail = lower_in_detail(parse_hlo(hlo_text("mlp_train_step")), MACHINE, name="mlp", num_ipus=1)
    text = memory_text(program, detail, MACHINE)
    (peak,) = [line for line in text.splitlines() if "|  > " in line or re.search(r"#  > ", line)]
    assert f" {program.memory.peak_bytes:,} B " in peak
    assert peak.endswith(f"> {program.memory.peak_step}")
    assert len(re.findall(r"\n", variables_text(program, detail))) == len(detail.lives) + len(detail.steps) + 5
