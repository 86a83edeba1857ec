"""What was compiled, read from recordings: trees, lines, memory."""

import json
from typing import Any

import numpy as np
import pytest

from tests.unit.figures.reader.recorded import everything, larger, liveness, recorded, report_of, run_of, two_stages
from tilestep import RecordingError
from tilestep.figures.reader import (
    GlobalExchange,
    HostExchange,
    OnTileExecute,
    ProgramSequence,
    ProgramVisitor,
    Repeat,
    Report,
    Switch,
)
from tilestep.figures.rows import files_of, relative_files
from tilestep.plan.serialized import dump_program
from tilestep.recording.machine import machine_document
from tilestep.recording.program import ProgramTables, RecordedCompilation
from tilestep.recording.schema import TABLES
from tilestep.recording.storage.container import Builder
from tilestep.recording.tables import Replaced


class Seen(ProgramVisitor):
    """Notes the nodes that it visits."""

    def __init__(self) -> None:
        self.nodes: list[str] = []

    def visit_on_tile_execute(self, node: OnTileExecute) -> None:
        self.nodes.append(node.name)

    def visit_global_exchange(self, node: GlobalExchange) -> None:
        self.nodes.append(f"exchange {node.collective.size_bytes}")

    def visit_host_exchange(self, node: HostExchange) -> None:
        self.nodes.append(f"host {node.call.bytes_to_host}")

    def visit_repeat(self, node: Repeat) -> None:
        self.nodes.append(f"{node.trips} x")
        super().visit_repeat(node)

    def visit_switch(self, node: Switch) -> None:
        self.nodes.append("one of")
        super().visit_switch(node)


def test_a_visitor_meets_every_node_in_order() -> None:
    seen = Seen()
    called, counts = everything()
    report_of(called, counts=counts).compilation.programs[0].accept(seen)
    assert seen.nodes == [*("first", "4 x", "None x", "i", "one of", "left", "right", "one of", "cheap", "dear", "exchange 40", "host 7")]


def test_a_visitor_of_steps_meets_their_leaves() -> None:
    seen = Seen()
    for step in report_of(two_stages()).execution.steps:
        step.program.accept(seen)
    assert seen.nodes == ["before", "a", "b", "after"]


def test_a_plain_visitor_walks_without_doing_anything() -> None:
    ProgramVisitor().visit_sequence(report_of(two_stages()).compilation.programs[0].tree)


def test_leaves_know_their_cycles_line_and_family() -> None:
    leaf = report_of(two_stages()).compilation.programs[0].leaves[1]
    assert (leaf.name, leaf.leaf, leaf.family) == ("a", 1, "toy")
    assert leaf.cycles is not None
    assert leaf.cycles.total == 10
    assert str(leaf.line) == "/home/me/train.py:3"  # not the line of JAX that it called
    assert repr(leaf.line) == "SourceLine(file='/home/me/train.py', function='loss', line=3, column=5)"  # without all its callers
    assert [str(line) for line in leaf.line.stack] == ["/home/me/train.py:3", "/home/me/train.py:9"] if leaf.line else False


def test_the_graph_counts_nodes() -> None:
    called, counts = everything()
    graph = report_of(called, counts=counts).compilation.graph
    assert (graph.num_programs, graph.num_compute_sets, graph.num_global_exchanges, graph.num_host_exchanges) == (1, 6, 1, 1)
    assert (graph.num_repeats, graph.num_switches, graph.num_vars) == (2, 2, 0)


def test_the_target_is_the_machine() -> None:
    target = report_of(two_stages()).target
    assert (target.name, target.architecture, target.num_ipus, target.tiles_per_ipu) == ("toy", "toy1", 1, 16)
    assert target.total_memory == 16 * 65_536
    assert target.machine == larger()


def test_the_memory_of_a_tile_is_the_sum_of_its_categories() -> None:
    compilation = report_of(two_stages(), detail=liveness()).compilation
    memory = compilation.main.memory
    assert memory.peak.total_bytes == 150 + 10 + 20 + 32 + 6  # tile 1 during 'a'
    assert (memory.peak.tile, memory.peak.tick) == (1, 3)
    assert memory.max_line_bytes == 65_536
    for tile in compilation.tiles:
        assert tile.memory.total.including_gaps == tile.memory.total.excluding_gaps == sum(tile.memory.by_category.values())
    assert compilation.tiles[1].memory.by_category == {
        "vertex code": 100,
        "control code": 20,
        "stacks": 30,
        "temporary": 32 + 6,
        "resident": 20,
        "argument": 10,
    }
    assert memory.per_tile().tolist() == [tile.memory.total.including_gaps for tile in compilation.tiles]


def test_variables_know_their_lives_and_lines() -> None:
    variables = report_of(two_stages(), detail=liveness()).compilation.variables
    assert [(each.name, each.category, each.always_live) for each in variables] == [
        ("x", "argument", False),
        ("w", "resident", True),
        ("h", "temporary", False),
        ("y", "result", False),
    ]
    assert (variables[2].first, variables[2].last, variables[2].tiles) == (3, 4, 2)
    assert str(variables[2].line) == "/home/me/train.py:3"
    assert variables[0].line is None


def test_liveness_tells_always_live_bytes_from_others() -> None:
    steps = report_of(two_stages(), detail=liveness()).compilation.liveness
    assert [step.name for step in steps] == ["program start", "before", "loop", "a", "b", "loop", "after", "program end"]
    assert {step.always_live_bytes for step in steps} == {16 * 150 + 80}
    assert steps[3].not_always_live_bytes == 160 + 64 + 16 * 6
    assert [variable.name for variable in steps[3].variables] == ["x", "w", "h"]
    assert steps[3].program is not None
    assert steps[3].program.name == "a"
    assert steps[2].program is None


def test_a_program_without_detail_says_so() -> None:
    program = report_of(two_stages()).compilation.programs[0]
    with pytest.raises(RecordingError, match="no detail of the memory of program 'two_stages', only the peak"):
        _ = program.memory
    with pytest.raises(RecordingError, match="has no program with detail"):
        _ = report_of(two_stages()).compilation.main


def test_an_unknown_program_is_an_error_with_the_nearest() -> None:
    with pytest.raises(RecordingError, match="no program 'two_stage': did you mean 'two_stages'"):
        report_of(two_stages()).compilation.program("two_stage")


def test_the_hlo_is_there_if_it_was_kept() -> None:
    assert report_of(two_stages()).compilation.programs[0].hlo == "HloModule"


def test_a_compile_that_never_ran_has_no_execution() -> None:
    called = two_stages()
    report = Report(recorded(run_of(called, runs=0), [called], {called.name: liveness()}, kind="program"), where="oom.tilestep")
    assert report.parts == ("compilation",)
    assert report.compilation.main.memory.peak.total_bytes == 218
    with pytest.raises(RecordingError, match=r"oom\.tilestep has no execution: no program ran, as after a compile that ran out of memory"):
        _ = report.execution
    with pytest.raises(RecordingError, match="has no system: nothing traced the host"):
        _ = report.system


def test_an_empty_recording_has_no_parts() -> None:
    report = Report(Builder(kind="trace").tables())
    assert report.parts == ()
    assert report.profile == {}
    with pytest.raises(RecordingError, match="has no machine"):
        _ = report.target


def with_tree(tree: Any) -> Report:
    """A recording with one program, whose tree is this."""
    called, builder = two_stages(), Builder(kind="program")
    builder.put_json("machine", machine_document(larger(2)))
    tables = ProgramTables(builder)
    tables.add(RecordedCompilation(program=called), key=1)
    tables.finish()
    builder.put_json("trees", tree)
    return Report(builder.tables())


def changed_tree(path: tuple[int, ...], value: object) -> list[Any]:
    """The tree of a program with one entry changed. A record is [class, field, ...]."""
    called, _ = everything()
    tree: Any = json.loads(dump_program(called))
    place = tree
    for index in path[:-1]:
        place = place[index]
    place[path[-1]] = value
    return [tree]


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ({}, "text 'trees' of the recording is no list"),
        ([], "no tree of program 'two_stages'"),
        ([None], "no tree of program 'two_stages'"),
        ([["System"]], "tree of program 'two_stages' is damaged"),
        (changed_tree((2,), 10**9), "is for 1000000000 IPUs: toy has 2"),
        (changed_tree((2,), 1), r"has position 1 in 'all-reduce': it runs on 1 IPUs"),
        (changed_tree((3, 1, 0, 4), -5), "has -5 as compute_cycles of 'first': it must be 0 to 2"),
        (changed_tree((3, 1, 0, 4), 2**70), "as compute_cycles of 'first'"),
        ([json.loads(dump_program(two_stages(trips=2**61)))], r"takes a number of cycles with \d+ bits"),
    ],
)
def test_a_hostile_tree_is_a_named_error(tree: Any, message: str) -> None:
    with pytest.raises(RecordingError, match=message):
        _ = with_tree(tree).compilation.programs[0].tree


def test_lists_within_lists_without_end_are_a_named_error() -> None:
    tree: list[Any] = []
    for _ in range(600):
        tree = [tree]
    with pytest.raises(RecordingError, match="nested 601 deep: at most 200 are read"):
        _ = with_tree(tree).compilation.programs[0].tree


def with_sums(name: str, value: int) -> Report:
    """A recording whose sums have a column of one value."""
    tables = report_of(two_stages()).tables
    columns = {each: np.array(tables.column("sums", each)) for each in TABLES["sums"]}
    columns[name][:] = value
    return Report(Replaced(tables, {"sums": columns}))


def test_an_ipu_that_the_machine_lacks_has_run_nothing() -> None:
    for ipu in (report_of(two_stages()).target.num_ipus, -1):
        assert with_sums("ipu", ipu).compilation.programs[0].ipus == (0,)


def test_sums_may_be_zero_and_not_less() -> None:
    assert with_sums("cycles", 0).compilation.programs[0].total.cycles == 0
    with pytest.raises(RecordingError, match="table 'sums' has -1 cycles"):
        _ = with_sums("cycles", -1).compilation.programs[0].total


def test_a_file_may_be_the_first_of_all_texts() -> None:
    builder = Builder(kind="program")
    for file in ("/home/me/train.py", "/home/me/parts/model.py"):
        builder.append("frames", file=file, function="f", line=1, column=0, parent=0)
    report = Report(builder.tables())
    assert files_of(report) == ["/home/me/train.py", "/home/me/parts/model.py"]
    assert relative_files(report)("/home/me/train.py") == "train.py"


def test_the_sequence_is_the_root() -> None:
    assert isinstance(report_of(two_stages()).compilation.programs[0].tree, ProgramSequence)


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("last", 9, "column last of lives goes from 4 to 9"),
        ("tiles", 0, "column tiles of lives goes from 0"),
        ("tile_bytes", -1, "column tile_bytes of lives"),
        ("first", 7, "ends before it begins"),
    ],
)
def test_hostile_lives_are_a_named_error(column: str, value: int, message: str) -> None:
    called = two_stages()
    tables = recorded(run_of(called), [called], {"two_stages": liveness()})
    changed = Changed(tables, "lives", column, value)
    with pytest.raises(RecordingError, match=message):
        _ = Report(changed).compilation.programs[0].memory


class Changed:
    """A recording with the first element of one column changed."""

    def __init__(self, tables: Any, table: str, column: str, value: int) -> None:
        self._tables, self._table, self._column, self._value = tables, table, column, value

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tables, name)

    def column(self, table: str, column: str) -> Any:
        found = self._tables.column(table, column)
        if (table, column) == (self._table, self._column):
            found = found.copy()
            found[0] = self._value
        return found
