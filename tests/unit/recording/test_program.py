"""Programs in a recording: rows of their tables, lines that several share, and nothing of the user's source where it is not wanted."""

import json
from typing import Any

import pytest

from tests.unit.recording.recordings import members_of, zipped
from tilestep.errors import RecordingError
from tilestep.options import PlanOptions
from tilestep.plan import Branch, Collective, HostCall, Life, Liveness, Loop, Program, Series, Superstep
from tilestep.plan.serialized import load_program
from tilestep.plan.steps import Frame, TileMemory
from tilestep.recording.program import ProgramTables, RecordedCompilation, without_lines
from tilestep.recording.schema import CATEGORIES
from tilestep.recording.sources import hlo_of, options_of
from tilestep.recording.storage.container import Builder, Tables, parse_recording, recording_bytes

CALLER = Frame(file="main.py", function="main", line=3, column=1, parent=0)
LINE = Frame(file="model.py", function="loss", line=7, column=5, parent=1)


def step(name: str, frame: int) -> Superstep:
    return Superstep(
        name=name, scope=f"jit(f)/{name}", family="elementwise", compute_cycles=1, exchange_cycles=0, sync_cycles=0, frame=frame
    )


def program(*nodes: Any, frames: tuple[Frame, ...] = (CALLER, LINE), name: str = "jit_f") -> Program:
    memory = TileMemory(peak_bytes=10, peak_step="add", code_bytes=2, resident_bytes=0, transient_bytes=8)
    return Program(name=name, num_ipus=2, body=Series(nodes=nodes), arguments=(), results=(), memory=memory, frames=frames)


DETAIL = Liveness(
    num_tiles=4,
    steps=("program start", "add", "program end"),
    leaves=(-1, 0, -1),
    temporary_tile_bytes=(0, 3, 0),
    lives=(
        Life(name="x", category="argument", size_bytes=8, first=0, last=1, tile_bytes=4, tiles=2, start_tile=3, frame=0),
        Life(name="sum", category="result", size_bytes=4, first=1, last=2, tile_bytes=4, tiles=1, start_tile=0, frame=2),
    ),
    code=(("vertex code", 2),),
    fixed=(("stacks", 1),),
)


def recorded(*added: tuple[Program, Liveness | None], lines: bool = True, origin: str = "user", **counts: int) -> Tables:
    builder = Builder(kind="program")
    tables = ProgramTables(builder, lines=lines)
    for key, (each, detail) in enumerate(added):
        compiled = RecordedCompilation(program=each, detail=detail, fingerprint=f"{key:064x}", origin=origin)
        assert tables.add(compiled, key=key, **counts) == key
    tables.finish()
    return parse_recording(recording_bytes(builder.tables()))


def texts(tables: Tables, table: str, column: str) -> list[str]:
    return [tables.strings[number] for number in tables.column(table, column)]


def test_a_program_has_its_tree_lives_ticks_and_code() -> None:
    whole = program(step("add", 2))
    found = recorded((whole, DETAIL), origin="jax", runs=3, loads=1)
    assert (texts(found, "programs", "name"), texts(found, "programs", "origin")) == (["jit_f"], ["jax"])
    assert [int(found.column("programs", name)[0]) for name in ("key", "num_ipus", "detailed", "runs", "loads")] == [0, 2, 1, 3, 1]
    assert texts(found, "programs", "fingerprint") == [f"{0:064x}"]
    (tree,) = json.loads(found.text("trees"))
    assert load_program(json.dumps(tree)) == whole
    assert texts(found, "lives", "name") == ["x", "sum"]
    assert [CATEGORIES[number] for number in found.column("lives", "category")] == ["argument", "result"]
    numbers = {name: found.column("lives", name).tolist() for name in ("size_bytes", "first", "last", "tile_bytes", "tiles", "start_tile")}
    assert list(zip(*numbers.values(), strict=True)) == [(8, 0, 1, 4, 2, 3), (4, 1, 2, 4, 1, 0)]
    assert texts(found, "ticks", "step") == list(DETAIL.steps)
    assert found.column("ticks", "leaf").tolist() == [-1, 0, -1]
    assert found.column("ticks", "temporary_tile_bytes").tolist() == [0, 3, 0]
    assert texts(found, "code", "kind") == ["vertex code", "stacks"]
    assert found.column("code", "fixed").tolist() == [0, 1]
    assert found.text("hlo") == ""


def test_lines_are_rows_once_and_row_0_is_unknown() -> None:
    other = program(step("add", 1), frames=(CALLER,), name="jit_g")
    found = recorded((program(step("add", 2)), DETAIL), (other, None), (program(step("add", 2)), DETAIL))
    assert texts(found, "frames", "file") == ["", "main.py", "model.py"]
    assert texts(found, "frames", "function") == ["", "main", "loss"]
    assert found.column("frames", "line").tolist() == [0, 3, 7]
    assert found.column("frames", "column").tolist() == [0, 1, 5]
    assert found.column("frames", "parent").tolist() == [0, 0, 1]
    assert found.column("lives", "frame").tolist() == [0, 2, 0, 2]
    assert found.column("lives", "program").tolist() == [0, 0, 2, 2]
    assert found.column("programs", "detailed").tolist() == [1, 0, 1]


def test_hlo_is_there_for_those_that_keep_it() -> None:
    builder = Builder(kind="program")
    tables = ProgramTables(builder)
    tables.add(RecordedCompilation(program=program(), hlo="HloModule f"), key=1)
    tables.add(RecordedCompilation(program=program()), key=2)
    tables.finish()
    assert json.loads(builder.tables().text("hlo")) == ["HloModule f", None]


def kept(*options: PlanOptions | None) -> Tables:
    builder = Builder(kind="program")
    tables = ProgramTables(builder)
    for key, of in enumerate(options, 7):
        tables.add(RecordedCompilation(program=program(), hlo=f"HloModule f{key}", options=of), key=key)
    tables.finish()
    return parse_recording(recording_bytes(builder.tables()))


def test_options_of_plans_are_there_for_those_that_know_them() -> None:
    unusual = PlanOptions(
        partials_type="half", available_memory_proportion=0.1, num_io_tiles=32, weight_load_bits=128, allow_out_of_memory=True
    )
    found = kept(unusual, None, PlanOptions())
    assert options_of(found) == {7: unusual, 9: PlanOptions()}
    assert hlo_of(found) == {7: "HloModule f7", 8: "HloModule f8", 9: "HloModule f9"}
    assert kept(None).text("options") == ""


def test_a_file_of_form_1_has_no_options() -> None:
    members = members_of(recording_bytes(kept(PlanOptions())))
    del members["options.json"]
    old = {**json.loads(members["manifest.json"]), "version": 1}
    found = parse_recording(zipped({**members, "manifest.json": json.dumps(old).encode()}))
    assert options_of(found) == {}
    assert hlo_of(found) == {7: "HloModule f7"}


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("{}", "must be a list of 1 objects"),
        ("[]", "must be a list of 1 objects"),
        ("[1]", "1 is no object"),
        ('[{"colour": 1}]', "option 'ipu_colour' does not exist"),
        ('[{"num_io_tiles": -1}]', "ipu_num_io_tiles is -1: it must be 0 to 99,999"),
        ('[{"available_memory_proportion": 7}]', "ipu_available_memory_proportion is 7.0"),
        ('[{"partials_type": []}]', "ipu_partials_type is '\\[\\]'"),
        ('[{"allow_out_of_memory": 2}]', "must be true or false"),
    ],
)
def test_damaged_options_are_a_named_error(entry: str, message: str) -> None:
    members = members_of(recording_bytes(kept(PlanOptions())))
    found = parse_recording(zipped({**members, "options.json": entry.encode()}))
    with pytest.raises(RecordingError, match=f"text 'options' of the recording.*{message}"):
        options_of(found)


def test_without_lines_nothing_names_the_source() -> None:
    nodes = (
        step("add", 2),
        Loop(name="while", scope="", body=Series(nodes=(step("mul", 1),)), trips=3, frame=2),
        Branch(
            name="cond",
            scope="",
            arms=(Series(nodes=(HostCall(name="c", scope="", bytes_to_host=1, bytes_from_host=0, frame=1),)),),
            site=0,
            frame=1,
        ),
        Collective(name="sum", scope="", kind="all-reduce", size_bytes=4, groups=((0, 1),), frame=2),
    )
    found = recorded((program(*nodes), DETAIL), lines=False)
    data = json.dumps([found.text(name) for name in ("trees", "strings")])
    assert "main.py" not in data
    assert "loss" not in data
    assert found.column("lives", "frame").tolist() == [0, 0]
    assert found.rows("frames") == 1
    bare = without_lines(program(*nodes))
    assert bare.frames == ()
    assert [node.frame for node in bare.body.nodes if not isinstance(node, Series)] == [0, 0, 0, 0]
    assert load_program(json.dumps(json.loads(found.text("trees"))[0])) == bare


def test_a_recording_without_programs_has_no_tables_of_theirs() -> None:
    builder = Builder(kind="program")
    ProgramTables(builder).finish()
    assert json.loads(builder.tables().text("trees")) == []
    assert not builder.tables().has("programs")
