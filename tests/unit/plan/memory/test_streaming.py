"""Values in pinned_host against the streaming memory of an IPU-Machine, and the accesses of a program to them."""

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.plan.test_lower import lowered, module_text
from tests.unit.sim.toy import MACHINE, program
from tilestep.errors import StreamingMemoryError
from tilestep.machine import MachineSpec
from tilestep.plan import Branch, HostCall, Loop, Program, Superstep, check_streaming_memory, streaming_memory_bytes
from tilestep.plan.steps import Node, Series

OFFLOADED = program(takes=(1000, 8), gives=(1000, 300), donates={0: 0}, host_arguments=(0,), host_results=(0, 1))


def with_memory(size_bytes: int) -> MachineSpec:
    return replace(MACHINE, num_ipus=6, host=replace(MACHINE.host, streaming_memory_bytes=size_bytes))  # two IPUs to a machine


def test_the_ipus_of_one_machine_share_its_streaming_memory() -> None:
    on = with_memory(1)
    assert [streaming_memory_bytes(OFFLOADED, on, ipus) for ipus in ((0,), (0, 1), (0, 2, 4), (0, 2, 3))] == [1300, 2600, 1300, 2600]
    assert streaming_memory_bytes(program(takes=(5,), gives=(7,)), on, (0, 1)) == 0


def test_more_than_a_machine_has_is_an_error_with_size_bound_and_way_out() -> None:
    both = replace(OFFLOADED, num_ipus=3)
    check_streaming_memory(both, with_memory(2600), (0, 2, 3))
    with pytest.raises(StreamingMemoryError) as caught:
        check_streaming_memory(both, with_memory(2599), (0, 2, 3))
    error = caught.value
    assert (error.ipu_machine, error.num_ipus, error.needed_bytes, error.available_bytes) == (1, 2, 2600, 2599)
    assert error.largest == (("a0", 2000), ("result 1", 600))
    assert str(error).startswith(
        "IPU-Machine 1, in which 2 IPUs keep 2,600 B in pinned_host, has 2,599 B of streaming memory (1 B over)\n"
        "  largest: a0 2,000 B, result 1 600 B\n  try: `tilestep run --dry-run` with the program says"
    )
    assert "debug.allowOutOfMemory" in str(error)
    assert str(error).endswith("""\n  report: POPLAR_ENGINE_OPTIONS='{"autoReport.all":"true"}' keeps the program's memory step by step""")
    assert str(error.reported("/r/memory.txt")).endswith(" runs it anyway and says so\n  report: /r/memory.txt")
    assert {**vars(error.reported("/r/memory.txt")), "report": ""} == vars(error)
    assert isinstance(error, MemoryError)


def test_a_machine_without_streaming_memory_has_the_hosts_memory_for_it() -> None:
    check_streaming_memory(program(takes=(10**15,), host_arguments=(0,)), with_memory(0), (0,))


# What a program itself reads and writes there


STATE = "f32[64]{0}"  # 256 bytes
IN_HOST = ", entry_computation_layout={(f32[64]{0:S(5)}, f32[64]{0})->(f32[64]{0:S(5)}, f32[64]{0})}"
DONATED = ", input_output_alias={ {0}: (0, {}, may-alias) }" + IN_HOST


TWO = f"""
  %m = {STATE} parameter(0)
  %g = {STATE} parameter(1)"""


def entry(lines: str, *, computations: str = "", header: str = DONATED) -> Program:
    return lowered(module_text(lines, computations=computations, head=f"HloModule m{header}"))


def calls(nodes: tuple[Node, ...]) -> list[tuple[str, int, int, bool]]:
    return [(n.name, n.bytes_to_host, n.bytes_from_host, n.in_memory) for n in nodes if isinstance(n, HostCall)]


def test_a_donated_result_there_that_is_computed_as_a_whole_is_written_back() -> None:
    made = entry(f"{TWO}\n  %new = {STATE} add(%m, %g)\n  ROOT %out = ({STATE}, {STATE}) tuple(%new, %new)")
    assert [type(node) for node in made.body.nodes] == [HostCall, Superstep, HostCall]
    assert calls(made.body.nodes) == [("new", 0, 256, True), ("new", 256, 0, True)]


BOTH_DONATED = (
    ", input_output_alias={ {0}: (0, {}, may-alias), {1}: (1, {}, may-alias) }, "
    "entry_computation_layout={(f32[64]{0:S(5)}, f32[64]{0:S(5)})->(f32[64]{0:S(5)}, f32[64]{0:S(5)})}"
)


@pytest.mark.parametrize(
    ("operation", "results", "header", "expected"),
    [
        ("add(%g, %g)", "%m, %n", DONATED, []),
        ("add(%g, %g)", "%n, %m", DONATED, [("n", 256, 0, True), ("m", 0, 256, True)]),
        ("add(%m, %g)", "%n, %n", IN_HOST, [("n", 0, 256, True), ("n", 256, 0, True)]),
        ("", "%g, %m", BOTH_DONATED, [("g", 0, 256, True), ("g", 256, 0, True), ("m", 0, 256, True), ("m", 256, 0, True)]),
    ],
    ids=["passed on", "on the chip that lay there", "a new one", "two that change places"],
)
def test_results_there_are_read_and_written_by_the_body(operation: str, results: str, header: str, expected: list[Any]) -> None:
    made = f"\n  %n = {STATE} {operation}" if operation else ""
    assert calls(entry(f"{TWO}{made}\n  ROOT %out = ({STATE}, {STATE}) tuple({results})", header=header).body.nodes) == expected


BODY = f"""
%body (p: (s32[], {STATE}, {STATE})) -> (s32[], {STATE}, {STATE}) {{
  %p = (s32[], {STATE}, {STATE}) parameter(0)
  %i = s32[] get-tuple-element(%p), index=0
  %m = {STATE} get-tuple-element(%p), index=1
  %g = {STATE} get-tuple-element(%p), index=2
  %new = {STATE} add(%m, %g)
  ROOT %t = (s32[], {STATE}, {STATE}) tuple(%i, %new, %g)
}}

%test (q: (s32[], {STATE}, {STATE})) -> pred[] {{
  %q = (s32[], {STATE}, {STATE}) parameter(0)
  ROOT %yes = pred[] constant(true)
}}
"""


def looping(start: str, header: str) -> Program:
    """Seven turns that begin with these lines."""
    return entry(
        f"""{TWO}
  %zero = s32[] constant(0){start}
  %loop = (s32[], {STATE}, {STATE}) while(%start), condition=%test, body=%body, backend_config={{"known_trip_count":{{"n":"7"}}}}
  %last = {STATE} get-tuple-element(%loop), index=1
  %kept = {STATE} get-tuple-element(%loop), index=2
  ROOT %out = ({STATE}, {STATE}) tuple(%last, %kept)""",
        computations=BODY,
        header=header,
    )


def test_a_loop_that_carries_one_reads_and_writes_it_in_each_turn() -> None:
    made = looping(f"\n  %start = (s32[], {STATE}, {STATE}) tuple(%zero, %m, %g)", DONATED)
    [loop] = [node for node in made.body.nodes if isinstance(node, Loop)]
    assert loop.trips == 7
    assert calls(loop.body.nodes) == [("new", 0, 256, True), ("new", 256, 0, True)]
    assert calls(made.body.nodes) == []


def test_one_that_is_not_donated_is_copied_after_the_loop_that_carries_it() -> None:
    made = looping(f"\n  %mine = {STATE} copy(%m)\n  %start = (s32[], {STATE}, {STATE}) tuple(%zero, %mine, %g)", IN_HOST)
    [loop] = [node for node in made.body.nodes if isinstance(node, Loop)]
    assert calls(loop.body.nodes) == [("new", 0, 256, True), ("new", 256, 0, True)]
    assert [(to, back) for _, to, back, _ in calls(made.body.nodes)] == [(0, 256), (256, 0)]


ARMS = f"""
%update (p: ({STATE}, {STATE})) -> {STATE} {{
  %p = ({STATE}, {STATE}) parameter(0)
  %m = {STATE} get-tuple-element(%p), index=0
  %g = {STATE} get-tuple-element(%p), index=1
  ROOT %new = {STATE} add(%m, %g)
}}

%keep (q: ({STATE}, {STATE})) -> {STATE} {{
  %q = ({STATE}, {STATE}) parameter(0)
  ROOT %same = {STATE} get-tuple-element(%q), index=0
}}
"""


def branching(arms: tuple[str, str], computations: str, end: str = "", result: str = "c") -> tuple[Program, Series]:
    """(the program, its arm that updates): the other arm does nothing."""
    made = entry(
        f"""{TWO}
  %first = f32[1]{{0}} slice(%g), slice={{[0:1]}}
  %flat = f32[] bitcast(%first)
  %zero = f32[] constant(0)
  %due = pred[] compare(%flat, %zero), direction=GT
  %both = ({STATE}, {STATE}) tuple(%m, %g)
  %c = {STATE} conditional(%due, %both, %both), true_computation=%{arms[0]}, false_computation=%{arms[1]}{end}
  ROOT %out = ({STATE}, {STATE}) tuple(%{result}, %g)""",
        computations=computations,
    )
    [branch] = [node for node in made.body.nodes if isinstance(node, Branch)]
    update, keep = branch.arms if arms[0] == "update" else branch.arms[::-1]
    assert keep == Series()
    assert calls(made.body.nodes) == []
    return made, update


def test_a_branch_that_may_leave_one_alone_writes_it_only_where_it_does_not() -> None:
    made, update = branching(("update", "keep"), ARMS)
    assert calls(update.nodes) == [("new", 0, 256, True), ("new", 256, 0, True)]
    assert made.memory.transient_bytes < 256  # the state is nowhere on the chip but for the update


# What a program moves there and back itself


def moved(name: str, operand: str, target: str, shape: str = STATE) -> str:
    return f'%{name} = {shape} custom-call(%{operand}), custom_call_target="{target}"'


PLAIN = ", entry_computation_layout={(f32[64]{0})->f32[64]{0}}"
PARKED = f"""
  %x = {STATE} parameter(0)
  %y = {STATE} negate(%x)
  {moved("away", "y", "MoveToHost")}
  {moved("back", "away", "MoveToDevice")}
  %z = {STATE} sort(%x), dimensions={{0}}, is_stable=true, to_apply=%less
  ROOT %out = {STATE} add(%z, %back)"""
LESS = """
%less (a: f32[], b: f32[]) -> pred[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %lt = pred[] compare(%a, %b), direction=LT
}
"""


def test_what_is_moved_there_goes_at_once_and_comes_back_when_it_is_needed() -> None:
    made = entry(PARKED, computations=LESS, header=PLAIN)
    kinds = [
        (node.name, node.bytes_to_host, node.bytes_from_host) if isinstance(node, HostCall) else type(node) for node in made.body.nodes
    ]
    assert kinds == [Superstep, ("away", 256, 0), Superstep, ("back", 0, 256), Superstep]
    assert made.parked_bytes == 256
    assert streaming_memory_bytes(made, with_memory(1), (0, 1)) == 512
    with pytest.raises(StreamingMemoryError, match="values parked during a run 256 B"):
        check_streaming_memory(made, with_memory(255), (0,))


def test_what_is_moved_there_needs_no_tile_meanwhile() -> None:
    away = entry(PARKED, computations=LESS, header=PLAIN)
    stays = entry(PARKED.replace("MoveToHost", "MoveToDevice"), computations=LESS, header=PLAIN)
    assert calls(stays.body.nodes) == []
    assert (away.memory.peak_step, stays.memory.peak_step) == ("z", "z")
    assert stays.memory.values_bytes - away.memory.values_bytes == 256


def test_what_is_moved_to_where_it_is_does_not_move() -> None:
    lines = f"""{TWO}
  {moved("same", "m", "MoveToHost")}
  {moved("near", "m", "MoveToDevice")}
  {moved("again", "near", "MoveToHost")}
  {moved("here", "g", "MoveToDevice")}
  ROOT %out = ({STATE}, {STATE}) tuple(%again, %here)"""
    assert calls(entry(lines).body.nodes) == []


def test_one_that_is_read_twice_on_the_chip_comes_once() -> None:
    lines = f"""{TWO}
  {moved("near", "m", "MoveToDevice")}
  %s = {STATE} sort(%near), dimensions={{0}}, is_stable=true, to_apply=%less
  %n = {STATE} add(%s, %near)
  {moved("away", "n", "MoveToHost")}
  %c = {STATE} copy(%away)
  ROOT %out = ({STATE}, {STATE}) tuple(%c, %n)"""
    made = entry(lines, computations=LESS)
    assert calls(made.body.nodes) == [("near", 0, 256, True), ("away", 256, 0, True)]
    assert made.parked_bytes == 0


STACK = "f32[4,64]{1,0}"


def scan(update: str, after: str, *, start: str, layout: str, result: str) -> Program:
    """A loop of four turns that stacks what it carries.

    Args: update: makes %u of %c; after: what becomes of the stack %ys; start: the stack's first value; layout: of the entry.
    """
    carried = f"(s32[], {STATE}, {STACK})"
    computations = f"""
%body (p: {carried}) -> {carried} {{
  %p = {carried} parameter(0)
  %i = s32[] get-tuple-element(%p), index=0
  %c = {STATE} get-tuple-element(%p), index=1
  %s = {STACK} get-tuple-element(%p), index=2
  %d = {STATE} negate(%c)
  {update}
  %row = f32[1,64]{{1,0}} bitcast(%u)
  %zero = s32[] constant(0)
  %put = {STACK} dynamic-update-slice(%s, %row, %i, %zero)
  ROOT %t = {carried} tuple(%i, %d, %put)
}}

%test (q: {carried}) -> pred[] {{
  %q = {carried} parameter(0)
  ROOT %yes = pred[] constant(true)
}}
"""
    lines = f"""
  %x = {STATE} parameter(0)
  %zero = s32[] constant(0)
  %none = f32[] constant(0)
  %first = {STACK} {start}
  %kept = {STACK} copy(%first)
  %begin = {carried} tuple(%zero, %x, %kept)
  %loop = {carried} while(%begin), condition=%test, body=%body, backend_config={{"known_trip_count":{{"n":"4"}}}}
  %ys = {STACK} get-tuple-element(%loop), index=2
  {after}
  ROOT %out = {result} bitcast(%r)"""
    return entry(lines, computations=computations, header=f", entry_computation_layout={layout}")


EMPTY = "broadcast(%none), dimensions={}"
NEW = "{(f32[64]{0})->f32[4,64]{1,0:S(5)}}"


@pytest.mark.parametrize(
    "made",
    [
        scan("%u = f32[64]{0} bitcast(%d)", moved("r", "ys", "MoveToHost", STACK), start=EMPTY, layout=NEW, result=STACK),
        scan(moved("u", "d", "MoveToHost"), f"%r = {STACK} bitcast(%ys)", start=EMPTY, layout=NEW, result=STACK),
    ],
)
def test_a_stack_that_ends_there_is_written_row_by_row_and_never_lies_on_the_chip(made: Program) -> None:
    [loop] = [node for node in made.body.nodes if isinstance(node, Loop)]
    assert [(to, back) for _, to, back, _ in calls(loop.body.nodes)] == [(256, 0)]
    assert made.body.nodes == (loop,)  # nobody fills it with zeros
    assert made.parked_bytes == 0
    assert made.memory.values_bytes == 256  # %x, in whose place the loop computes


def test_a_stack_that_is_read_again_is_parked_and_its_rows_come_back_one_by_one() -> None:
    rows = f"""%one = f32[1,64]{{1,0}} dynamic-slice(%ys, %zero, %zero), dynamic_slice_sizes={{1,64}}
  {moved("r", "one", "MoveToDevice", "f32[1,64]{1,0}")}"""
    made = scan(moved("u", "d", "MoveToHost"), rows, start=EMPTY, layout="{(f32[64]{0})->f32[64]{0}}", result=STATE)
    assert calls(made.body.nodes) == [("one", 0, 256, True)]
    assert made.parked_bytes == 4 * 256


def test_a_stack_that_begins_with_values_brings_them() -> None:
    made = scan(moved("u", "d", "MoveToHost"), f"%r = {STACK} bitcast(%ys)", start="iota(), iota_dimension=0", layout=NEW, result=STACK)
    assert [(to, back) for _, to, back, _ in calls(made.body.nodes)] == [(1024, 0)]


COPYING_ARMS = f"""
%update (p: ({STATE}, {STATE})) -> {STATE} {{
  %p = ({STATE}, {STATE}) parameter(0)
  %m = {STATE} get-tuple-element(%p), index=0
  %g = {STATE} get-tuple-element(%p), index=1
  {moved("near", "m", "MoveToDevice")}
  %new = {STATE} add(%near, %g)
  ROOT {moved("away", "new", "MoveToHost")}
}}

%keep (q: ({STATE}, {STATE})) -> {STATE} {{
  %q = ({STATE}, {STATE}) parameter(0)
  %same = {STATE} get-tuple-element(%q), index=0
  ROOT %other = {STATE} copy(%same)
}}
"""


@pytest.mark.parametrize("arms", [("update", "keep"), ("keep", "update")])
def test_what_a_branch_updates_or_leaves_alone_is_updated_in_place_whichever_arm_is_first(arms: tuple[str, str]) -> None:
    """XLA copies what an arm passes on, and what a branch returns into a loop's carry: on the machine both are the same memory."""
    made, update = branching(arms, COPYING_ARMS, f"\n  %d = {STATE} copy(%c)", "d")
    assert calls(update.nodes) == [("near", 0, 256, True), ("away", 256, 0, True)]
    assert made.parked_bytes == 0
