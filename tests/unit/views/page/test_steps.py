"""The steps of a page against what the reader says of the same recording."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.figures.reader.recorded import everything, liveness, recorded, report_of, run_of, step, two_stages
from tests.unit.sim.toy import program
from tilestep.errors import RecordingError
from tilestep.figures.reader import Report
from tilestep.figures.reader.programs.totals import leaf_totals
from tilestep.figures.rows import step_rows
from tilestep.machine.catalog import named_machine
from tilestep.options import PlanOptions
from tilestep.plan.steps import Superstep
from tilestep.recording.storage.container import Builder
from tilestep.views.page.block import PageBlock, columns_of
from tilestep.views.page.sections import steps as section
from tilestep.views.page.sections.roofs import (
    FLOAT,
    FLOAT8,
    HALF,
    HALF_FLOAT,
    UNKNOWN,
    dtype_of,
    flop_roofs,
    roof_of,
)
from tilestep.views.page.sections.steps import ARM, BRANCH, COLLECTIVE, HOST_CALL, LOOP, ROOT, SUPERSTEP, steps


def block_of(report: Report) -> PageBlock:
    """The block, which there is."""
    found = steps(report)
    assert found is not None
    return found


def rows(block: PageBlock, prefix: str) -> list[dict[str, Any]]:
    """Nodes or leaves, with texts for their numbers."""
    columns = {name.removeprefix(f"{prefix}_"): column.tolist() for name, column in block.columns.items() if name.startswith(f"{prefix}_")}
    made: list[dict[str, Any]] = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    for row in made:
        for name in {"name", "scope", "family", "codelet", "groups", "dtype"} & row.keys():
            row[name] = block.json["texts"][row[name]]
    return made


def line_of(block: PageBlock, number: int) -> str:
    """'train.py:3'; '' for none."""
    if number < 0:
        return ""
    file, line, *_ = block.json["lines"][number]
    return f"{block.json['texts'][file]}:{line}"


def test_cycles_of_each_kind_line_and_scope_are_those_of_the_rows() -> None:
    called, counts = everything()
    for report in (report_of(two_stages(), runs=3), report_of(called, runs=2, counts=counts)):
        block = block_of(report)
        mine: Counter[tuple[str, str, str]] = Counter()
        executions: Counter[tuple[str, str, str]] = Counter()
        for leaf in rows(block, "leaf"):
            key = (line_of(block, leaf["line"]), leaf["scope"], leaf["family"])
            once = sum(leaf[kind] for kind in ("compute", "exchange", "sync", "collective", "host_call"))
            mine[key] += leaf["executions"] * once
            executions[key] += leaf["executions"]
        theirs = {(row.line, row.scope, row.family): row for row in step_rows(report)}
        assert {key: count for key, count in executions.items() if count} == {key: row.executions for key, row in theirs.items()}
        assert {key: mine[key] for key in theirs} == {key: row.cycles for key, row in theirs.items()}
        assert sum(mine.values()) == sum(row.cycles for row in theirs.values())


def test_executions_of_each_step_are_those_of_the_reader() -> None:
    called, counts = everything()
    report = report_of(called, runs=3, counts=counts)
    [compiled] = report.compilation.programs
    theirs = {total.leaf.leaf: total.executions for total in leaf_totals(compiled)}
    assert {leaf["number"]: leaf["executions"] for leaf in rows(block_of(report), "leaf") if leaf["executions"]} == theirs


def test_the_tree_has_loops_with_trips_and_branches_with_arms() -> None:
    called, counts = everything()
    nodes = rows(block_of(report_of(called, runs=2, counts=counts)), "node")
    shape = [(node["depth"], node["kind"], node["name"]) for node in nodes]
    assert shape == [
        (0, ROOT, "everything"),
        (1, SUPERSTEP, "first"),
        (1, LOOP, "outer"),
        (2, LOOP, "inner"),
        (3, SUPERSTEP, "i"),
        (2, BRANCH, "branch"),
        (3, ARM, "arm"),
        (4, SUPERSTEP, "left"),
        (3, ARM, "arm"),
        (4, SUPERSTEP, "right"),
        (1, BRANCH, "either"),
        (2, ARM, "arm"),
        (3, SUPERSTEP, "cheap"),
        (2, ARM, "arm"),
        (3, SUPERSTEP, "dear"),
        (1, COLLECTIVE, "all-reduce"),
        (1, HOST_CALL, "call"),
    ]
    by_name = {node["name"]: node for node in nodes}
    assert (by_name["outer"]["trips"], by_name["outer"]["times"]) == (4, 8)
    assert (by_name["inner"]["trips"], by_name["inner"]["times"], by_name["inner"]["of_run"]) == (
        UNKNOWN,
        6,
        0,
    )  # counted: 3 a run on IPU 1
    assert [node["times"] for node in nodes if node["kind"] == ARM and not node["assumed"]] == [0, 8]
    assert [node["assumed"] for node in nodes if node["kind"] == ARM] == [0, 0, 1, 1]


def test_an_arm_that_never_runs_has_no_executions() -> None:
    called, counts = everything()
    leaves = {leaf["name"]: leaf for leaf in rows(block_of(report_of(called, counts=counts)), "leaf")}
    assert (leaves["cheap"]["priced"], leaves["cheap"]["executions"], leaves["cheap"]["of_run"]) == (0, 0, 0)
    assert (leaves["dear"]["priced"], leaves["dear"]["executions"], leaves["dear"]["of_run"]) == (1, 1, 1)


def test_figures_of_collectives_and_host_calls_are_there() -> None:
    called, counts = everything()
    leaves = {leaf["name"]: leaf for leaf in rows(block_of(report_of(called, counts=counts)), "leaf")}
    assert (leaves["all-reduce"]["size_bytes"], leaves["all-reduce"]["groups"]) == (40, "{0, 1}")
    assert (leaves["call"]["to_host"], leaves["call"]["from_host"]) == (7, 3)


def test_a_program_that_never_ran_has_its_tree_and_no_executions() -> None:
    ran, other = two_stages(), replace(program(step("x", "", 5), name="other"))
    host = run_of(ran)
    host.key(other)
    block = block_of(Report(recorded(host, [ran, other])))
    assert [(each["label"], each["runs"]) for each in block.json["programs"]] == [("two_stages", 1), ("other", 0)]
    [leaf] = [leaf for leaf in rows(block, "leaf") if leaf["name"] == "x"]
    assert (leaf["executions"], leaf["of_run"], leaf["compute"]) == (0, 1, 5)


def test_lines_come_after_their_callers_and_say_who_wrote_them() -> None:
    block = block_of(report_of(two_stages(), detail=liveness()))
    found = [(line_of(block, number), block.json["texts"][line[2]], line[3], line[4]) for number, line in enumerate(block.json["lines"])]
    assert found == [("train.py:9", "main", -1, 2), ("train.py:3", "loss", 0, 2)]


def test_programs_of_fewest_cycles_are_left_out_of_a_page_that_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(section, "MOST_PAGE_NODES", 6)
    small, large = program(step("s", "", 1), name="small"), two_stages()
    host = run_of(large)
    host.run(small)
    block = block_of(Report(recorded(host, [large, small])))
    assert [bool(each["left_out"]) for each in block.json["programs"]] == [False, True]
    assert "6 nodes" in block.json["programs"][1]["left_out"]
    assert {leaf["program"] for leaf in rows(block, "leaf")} == {0}


def codelet(text: str) -> Superstep:
    """A step that runs a codelet."""
    return replace(step("s", "", 1), codelet=text)


def test_a_dtype_is_that_of_the_operands() -> None:
    assert dtype_of(codelet("matmul dot f16 ")) == "f16"
    assert dtype_of(codelet("add<f32> maximum-scalar<f32>")) == "f32"
    assert dtype_of(codelet("compare<s32> select<f32>")) == ""
    assert dtype_of(codelet("")) == ""


def test_roofs_are_the_machines() -> None:
    ipu = named_machine("bow-2000").ipu
    rates = [rate for _, rate in flop_roofs(ipu)]
    assert rates[FLOAT] == 2 * ipu.macs_per_cycle_float * ipu.num_tiles * ipu.clock_hz
    assert rates[HALF] == 2 * ipu.macs_per_cycle_half * ipu.num_tiles * ipu.clock_hz
    assert rates[FLOAT8] == 0


def test_the_roof_of_halves_depends_on_the_type_of_their_sums() -> None:
    ipu = named_machine("bow-2000").ipu
    assert roof_of("f32", ipu, None) == FLOAT
    assert roof_of("f16", ipu, PlanOptions()) == HALF_FLOAT
    assert roof_of("f16", ipu, PlanOptions(partials_type="half")) == HALF
    assert roof_of("f16", ipu, None) == roof_of("f8e4m3fnuz", ipu, None) == roof_of("s32", ipu, None) == UNKNOWN


def test_a_recording_without_programs_has_no_steps() -> None:
    assert steps(Report(Builder(kind="run").tables())) is None


def test_a_number_that_a_page_cannot_hold_is_a_damaged_recording() -> None:
    with pytest.raises(RecordingError, match="2\\*\\*53"):
        steps(report_of(program(step("s", "", 2**60))))
    assert columns_of(("a",), [(2**53,)])["a"].tolist() == [2**53]
