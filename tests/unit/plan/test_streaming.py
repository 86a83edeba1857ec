"""Values in pinned_host against the streaming memory of an IPU-Machine, and the accesses of a program to them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.plan.test_lower import lowered, module_text
from tests.unit.sim.toy import MACHINE, program
from tilestep.errors import StreamingMemoryError
from tilestep.machine import MachineSpec
from tilestep.plan import Branch, HostCall, Loop, Program, Superstep, check_streaming_memory, streaming_memory_bytes
from tilestep.plan.steps import Node, Sequence

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
        "  largest: a0 2,000 B, result 1 600 B\n  try: more IPU-Machines"
    )
    assert "debug.allowOutOfMemory" in str(error)
    assert isinstance(error, MemoryError)


def test_a_machine_without_streaming_memory_has_the_hosts_memory_for_it() -> None:
    check_streaming_memory(program(takes=(10**15,), host_arguments=(0,)), with_memory(0), (0,))


# What a program itself reads and writes there


STATE = "f32[64]{0}"  # 256 bytes
IN_HOST = ", entry_computation_layout={(f32[64]{0:S(5)}, f32[64]{0})->(f32[64]{0:S(5)}, f32[64]{0})}"
DONATED = ", input_output_alias={ {0}: (0, {}, may-alias) }" + IN_HOST


def entry(lines: str, *, computations: str = "", header: str = DONATED) -> Program:
    return lowered(module_text(lines, computations=computations, head=f"HloModule m{header}"))


def calls(nodes: tuple[Node, ...]) -> list[tuple[str, int, int, bool]]:
    return [(n.name, n.bytes_to_host, n.bytes_from_host, n.in_memory) for n in nodes if isinstance(n, HostCall)]


def test_a_donated_result_there_that_is_computed_as_a_whole_is_written_back() -> None:
    made = entry(f"""
  %m = {STATE} parameter(0)
  %g = {STATE} parameter(1)
  %new = {STATE} add(%m, %g)
  ROOT %out = ({STATE}, {STATE}) tuple(%new, %new)""")
    assert [type(node) for node in made.body.nodes] == [HostCall, Superstep, HostCall]
    assert calls(made.body.nodes) == [("new", 0, 256, True), ("new", 256, 0, True)]


def test_one_that_is_passed_on_does_not_move() -> None:
    made = entry(f"""
  %m = {STATE} parameter(0)
  %g = {STATE} parameter(1)
  %twice = {STATE} add(%g, %g)
  ROOT %out = ({STATE}, {STATE}) tuple(%m, %twice)""")
    assert calls(made.body.nodes) == []


def test_a_result_on_the_chip_that_lay_there_is_read() -> None:
    made = entry(f"""
  %m = {STATE} parameter(0)
  %g = {STATE} parameter(1)
  %new = {STATE} add(%g, %g)
  ROOT %out = ({STATE}, {STATE}) tuple(%new, %m)""")
    assert calls(made.body.nodes) == [("new", 256, 0, True), ("m", 0, 256, True)]


def test_two_donated_ones_that_change_places_are_read_and_written() -> None:
    header = (
        ", input_output_alias={ {0}: (0, {}, may-alias), {1}: (1, {}, may-alias) }, "
        "entry_computation_layout={(f32[64]{0:S(5)}, f32[64]{0:S(5)})->(f32[64]{0:S(5)}, f32[64]{0:S(5)})}"
    )
    made = entry(f"  %a = {STATE} parameter(0)\n  %b = {STATE} parameter(1)\n  ROOT %o = ({STATE}, {STATE}) tuple(%b, %a)", header=header)
    assert calls(made.body.nodes) == [("b", 0, 256, True), ("b", 256, 0, True), ("a", 0, 256, True), ("a", 256, 0, True)]


def test_a_new_result_is_no_step_of_the_body() -> None:
    made = entry(
        f"""
  %m = {STATE} parameter(0)
  %g = {STATE} parameter(1)
  %n = {STATE} add(%m, %g)
  ROOT %o = ({STATE}, {STATE}) tuple(%n, %n)""",
        header=IN_HOST,
    )
    assert calls(made.body.nodes) == [("n", 0, 256, True)]


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


def test_a_loop_that_carries_one_reads_and_writes_it_in_each_turn() -> None:
    made = entry(
        f"""
  %m = {STATE} parameter(0)
  %g = {STATE} parameter(1)
  %zero = s32[] constant(0)
  %start = (s32[], {STATE}, {STATE}) tuple(%zero, %m, %g)
  %loop = (s32[], {STATE}, {STATE}) while(%start), condition=%test, body=%body, backend_config={{"known_trip_count":{{"n":"7"}}}}
  %last = {STATE} get-tuple-element(%loop), index=1
  %kept = {STATE} get-tuple-element(%loop), index=2
  ROOT %out = ({STATE}, {STATE}) tuple(%last, %kept)""",
        computations=BODY,
    )
    [loop] = [node for node in made.body.nodes if isinstance(node, Loop)]
    assert loop.trips == 7
    assert calls(loop.body.nodes) == [("new", 0, 256, True), ("new", 256, 0, True)]
    assert calls(made.body.nodes) == []


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


def test_a_branch_that_may_leave_one_alone_writes_it_only_where_it_does_not() -> None:
    made = entry(
        f"""
  %m = {STATE} parameter(0)
  %g = {STATE} parameter(1)
  %first = f32[1]{{0}} slice(%g), slice={{[0:1]}}
  %flat = f32[] bitcast(%first)
  %zero = f32[] constant(0)
  %due = pred[] compare(%flat, %zero), direction=GT
  %both = ({STATE}, {STATE}) tuple(%m, %g)
  %c = {STATE} conditional(%due, %both, %both), true_computation=%update, false_computation=%keep
  ROOT %out = ({STATE}, {STATE}) tuple(%c, %g)""",
        computations=ARMS,
    )
    [branch] = [node for node in made.body.nodes if isinstance(node, Branch)]
    update, keep = branch.arms
    assert calls(update.nodes) == [("new", 0, 256, True), ("new", 256, 0, True)]
    assert keep == Sequence()
    assert calls(made.body.nodes) == []
    assert made.memory.transient_bytes < 256  # the state is nowhere on the chip but for the update
