"""Memory of tiles from the lives of values, against the plan's own sums and against a table of all cells."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import rebuilt_peak
from tests.golden.texts import hlo_text
from tilestep.errors import RecordingError
from tilestep.machine import load_machine
from tilestep.plan import Branch, HostCall, Life, Liveness, Loop, Series, lower, lower_in_detail
from tilestep.plan.memory.liveness import liveness, tile_memory
from tilestep.plan.memory.timeline import Buffers, Category, EndBuffers, MemoryMoment, occupancy
from tilestep.plan.steps import Node, TileMemory
from tilestep.program import parse_hlo
from tilestep.recording.memory import (
    MAX_MATRIX_CELLS,
    Peak,
    ProgramMemory,
    alive,
    by_category,
    difference,
    memory_in,
    memory_of,
    over_time,
    peak,
    tile_bytes,
)
from tilestep.recording.program import ProgramTables, RecordedCompilation
from tilestep.recording.schema import CATEGORIES
from tilestep.recording.storage.container import Builder

TILES = 7
SIZES = (0, 4, 100, 130, 300, 512, 900, 1000, 5000)
MACHINE = load_machine("bow-2000")


@st.composite
def programs(draw: st.DrawFn) -> tuple[Liveness, TileMemory]:
    """Random steps with loops and branches, over random buffers."""
    buffers = Buffers(TILES)
    drawn = [buffers.new(f"v{i}", draw(st.sampled_from(SIZES)), draw(st.sampled_from((0, 0, 200)))) for i in range(draw(st.integers(1, 9)))]
    for _ in range(draw(st.integers(0, 3))):
        buffers.share(draw(st.sampled_from(drawn)), draw(st.sampled_from(drawn)))
    some = st.lists(st.sampled_from(drawn), max_size=3).map(tuple)
    number = iter(range(10**6))

    def block(depth: int) -> tuple[list[Node], list[MemoryMoment]]:
        nodes: list[Node] = []
        moments: list[MemoryMoment] = []
        for _ in range(draw(st.integers(0, 4))):
            name, kind = f"s{next(number)}", draw(st.sampled_from(("leaf", "leaf", "leaf", "loop", "branch"))) if depth else "leaf"
            inner = [block(depth - 1) for _ in range({"leaf": 0, "loop": 1, "branch": draw(st.integers(0, 3))}[kind])]
            bodies = [Series(nodes=tuple(inside)) for inside, _ in inner]
            if kind == "leaf":
                nodes.append(HostCall(name=name, scope="", bytes_to_host=0, bytes_from_host=0))
            elif kind == "loop":
                nodes.append(Loop(name=name, scope="", body=bodies[0], trips=2))
            else:
                nodes.append(Branch(name=name, scope="", arms=tuple(bodies), site=None))
            moments.append(
                MemoryMoment(
                    step=name,
                    reads=draw(some),
                    writes=draw(some),
                    temporary_tile_bytes=draw(st.sampled_from((0, 0, 20, 700))) if kind == "leaf" else 0,
                    in_place=kind == "leaf" and draw(st.booleans()),
                    inner=tuple(tuple(inside) for _, inside in inner),
                )
            )
        return nodes, moments

    nodes, moments = block(2)
    held = occupancy(
        moments,
        buffers,
        EndBuffers(resident=draw(some), arguments=draw(some), constants=draw(some), results=draw(some)),
        code={"vertex code": 800, "exchange code": 200},
        fixed={"stacks": 50},
        on_host=draw(some),
    )
    return liveness(held, Series(nodes=tuple(nodes)), lambda frame: frame), tile_memory(held)


def cells(detail: Liveness, chosen: Callable[[Life], bool] = lambda _: True) -> np.ndarray:
    """Bytes of lives on each tile at each tick, one cell after the other."""
    found = np.zeros((len(detail.steps), detail.num_tiles), np.int64)
    for life in filter(chosen, detail.lives):
        for tick in range(life.first, life.last + 1):
            for place in range(life.tiles):
                found[tick, (life.start_tile + place) % detail.num_tiles] += life.tile_bytes
    return found


@given(programs())
def test_the_peak_of_any_program_is_rebuilt_from_its_lives(drawn: tuple[Liveness, TileMemory]) -> None:
    detail, memory = drawn
    found = peak(memory_of(detail))
    assert (found.total_bytes, found.tile, detail.steps[found.tick]) == (memory.peak_bytes, memory.tile, memory.peak_step)
    whole = cells(detail) + 1050 + np.array(detail.temporary_tile_bytes)[:, None]
    assert (found.tick, found.tile) == tuple(int(at) for at in np.unravel_index(whole.argmax(), whole.shape))
    here = by_category(memory_of(detail), found.tick)[:, found.tile]
    by_name = dict(zip(CATEGORIES, here.tolist(), strict=True))
    assert by_name["resident"] == memory.resident_bytes
    assert by_name["constant"] == memory.code_bytes - 1000
    assert by_name["temporary"] + by_name["argument"] + by_name["result"] == memory.transient_bytes


def test_values_of_the_most_bytes_come_first() -> None:
    detail = lower_in_detail(parse_hlo(hlo_text("mlp_train_step")), MACHINE, name="f", num_ipus=1)[1]
    sizes = [detail.lives[row].tile_bytes * detail.lives[row].tiles for row in alive(memory_of(detail), 1).tolist()]
    assert len(sizes) > 3
    assert sizes == sorted(sizes, reverse=True)


def test_categories_are_those_of_recordings() -> None:
    assert get_args(Category) == CATEGORIES


def test_donated_arguments_are_resident_and_lives_have_the_names_of_the_user() -> None:
    detail = lower_in_detail(parse_hlo(hlo_text("mlp_train_step")), MACHINE, name="f", num_ipus=1)[1]
    names = {(life.name, life.category) for life in detail.lives}
    assert {("params['w1']", "resident"), ("x", "argument"), ("jit(mlp_step)/jvp()/dot_general", "temporary")} <= names
    assert any(life.category == "result" for life in detail.lives)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda detail: replace(detail, lives=tuple(life for life in detail.lives if life.category != "temporary")),
        lambda detail: replace(detail, lives=tuple(replace(life, tile_bytes=life.tile_bytes + 8) for life in detail.lives)),
        lambda detail: replace(detail, lives=tuple(replace(life, start_tile=(life.start_tile + 1) % 1472) for life in detail.lives)),
        lambda detail: replace(detail, steps=("nothing",) * len(detail.steps)),
        lambda detail: replace(detail, leaves=(-1, *detail.leaves[:-1])),
        lambda detail: replace(detail, code=detail.code[1:]),
        lambda detail: replace(detail, lives=tuple(replace(life, category="temporary") for life in detail.lives)),
        lambda detail: replace(detail, lives=tuple(replace(life, frame=99) for life in detail.lives)),
    ],
)
def test_the_check_of_every_plan_of_these_tests_can_fail(wrong: Callable[[Liveness], Liveness], monkeypatch: pytest.MonkeyPatch) -> None:
    module, before = parse_hlo(hlo_text("mlp_train_step")), rebuilt_peak.checked()
    lower(module, MACHINE, name="right", num_ipus=1)
    assert rebuilt_peak.checked() == before + 1
    assert rebuilt_peak.WRONG == []
    monkeypatch.setattr(rebuilt_peak, "liveness", lambda *arguments: wrong(liveness(*arguments)))
    lower(module, MACHINE, name="wrong", num_ipus=1)
    (said,) = rebuilt_peak.WRONG
    rebuilt_peak.WRONG.clear()  # else this test fails, as every other one does
    assert said.startswith("wrong: ")


def columns(**changed: Any) -> ProgramMemory:
    ints = {"category": 0, "first": 0, "last": 1, "tile_bytes": 8, "tiles": 2, "start_tile": 3}
    rows = {name: np.array(changed.pop(name, [value]), np.int64) for name, value in ints.items()}
    return ProgramMemory(**{"num_tiles": 4, "always_bytes": 10, "temporary_tile_bytes": np.zeros(3, np.int64), **changed, **rows})


def test_a_value_goes_round_behind_the_last_tile() -> None:
    assert tile_bytes(columns()).tolist() == [[18, 10, 10, 18], [18, 10, 10, 18], [10, 10, 10, 10]]
    assert tile_bytes(columns(), ticks=range(1, 2), tiles=range(3, 4)).tolist() == [[18]]
    assert (peak(columns()).tile, peak(columns()).tick) == (0, 0)


def test_sums_beyond_64_bits_are_exact() -> None:
    m = 2**63 - 1
    lives = {"tile_bytes": [m, m], "first": [0, 1], "last": [1, 2], "tiles": [4, 2], "start_tile": [3, 2], "category": [0, 2]}
    memory = columns(**lives, always_bytes=m, temporary_tile_bytes=np.array([1, 2, m]))
    assert tile_bytes(memory).tolist() == [[2 * m + 1] * 4, [2 * m + 2] * 2 + [3 * m + 2] * 2, [2 * m] * 2 + [3 * m] * 2]
    assert peak(memory) == Peak(total_bytes=3 * m + 2, tile=2, tick=1)
    assert [part.tolist() for part in over_time(memory)] == [[4 * m, 6 * m, 6 * m], [4 * m + 4, 4 * m + 8, 4 * m]]
    assert by_category(memory, 2)[CATEGORIES.index("temporary")].tolist() == [m] * 4
    assert columns().tile_bytes.dtype == np.int64  # which is fast


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"category": [5]}, "column category of lives goes from 5 to 5: it must stay within 0 to 4"),
        ({"first": [-1]}, "column first of lives goes from -1 to -1: it must stay within 0 to 2"),
        ({"last": [3]}, "column last of lives goes from 3 to 3"),
        ({"first": [1], "last": [0]}, "life 0 ends before it begins"),
        ({"tiles": [0]}, "column tiles of lives goes from 0 to 0: it must stay within 1 to 4"),
        ({"start_tile": [4]}, "column start_tile of lives"),
        ({"tile_bytes": [-1]}, "column tile_bytes of lives goes from -1 to -1: it must not be negative"),
        ({"tiles": [1, 1]}, "column tiles of lives has 2 rows, column first 1"),
        ({"temporary_tile_bytes": np.array([0, -1])}, "column temporary_tile_bytes of ticks must not be negative"),
        ({"temporary_tile_bytes": np.zeros(0, np.int64)}, "it has no ticks, so nothing is known of its memory over time"),
    ],
)
def test_columns_that_do_not_fit_together_are_an_error(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        columns(**changed)


def test_a_recording_gives_the_memory_of_each_of_its_programs() -> None:
    builder = Builder(kind="program")
    programs = ProgramTables(builder)
    planned = [lower_in_detail(parse_hlo(hlo_text(name)), MACHINE, name=name, num_ipus=1) for name in ("mlp_train_step", "conv")]
    for key, (program, detail) in enumerate(planned):
        programs.add(RecordedCompilation(program=program, detail=detail, fingerprint="00"), key=key)
    programs.add(RecordedCompilation(program=planned[0][0], fingerprint="00"), key=2)
    programs.finish()
    for row, (program, detail) in enumerate(planned):
        memory = memory_in(builder.tables(), row, num_tiles=detail.num_tiles)
        assert (tile_bytes(memory) == tile_bytes(memory_of(detail))).all()
        assert peak(memory).total_bytes == program.memory.peak_bytes
    with pytest.raises(RecordingError, match="program 2 of the recording: it has no ticks, so nothing is known of its memory over time"):
        memory_in(builder.tables(), 2, num_tiles=1472)
    with pytest.raises(RecordingError, match="program 0 of the recording: column tiles of lives goes from "):
        memory_in(builder.tables(), 0, num_tiles=2)


def test_what_the_program_does_not_have_and_what_is_too_much_are_errors() -> None:
    memory = columns()
    with pytest.raises(ValueError, match="ticks 2:4 were asked for, but the program has ticks 0:3"):
        tile_bytes(memory, ticks=range(2, 4))
    with pytest.raises(ValueError, match="tiles 0:4:2 were asked for"):
        tile_bytes(memory, tiles=range(0, 4, 2))
    for asked in (lambda: alive(memory, 3), lambda: by_category(memory, -1), lambda: difference(memory, 0, 3)):
        with pytest.raises(ValueError, match=r"ticks \S+ were asked for, but the program has ticks 0:3"):
            asked()
    with pytest.raises(ValueError, match="tiles 4:5 were asked for"):
        over_time(memory, 4)
    large = columns(num_tiles=2048, temporary_tile_bytes=np.zeros(MAX_MATRIX_CELLS // 2048 + 1, np.int64))
    with pytest.raises(ValueError, match=f"8193 ticks of 2048 tiles are more than {MAX_MATRIX_CELLS} cells: ask for fewer ticks or tiles"):
        tile_bytes(large)
