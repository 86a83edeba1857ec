"""A program that does several calls of another one in a loop, as lax.scan makes it: arrays of all calls, cut and filled trip by trip."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from tilestep.machine.spec import MachineSpec
from tilestep.plan.lower import lower
from tilestep.plan.memory.code import code_bytes
from tilestep.plan.steps import Loop, Node, Program, Series
from tilestep.program.hlo import parse_hlo
from tilestep.program.shapes import array_of
from tilestep.recording.edits.batch_calls import in_fewer_calls
from tilestep.recording.edits.script import Change, ImpossibleEditError, Script
from tilestep.sim.calls import Dispatch, Put


def in_loops(key: int, times: int, machine: MachineSpec, *, fresh: Collection[int], states: Collection[int]) -> Change:
    """The edit that does several calls of a program in one, which loops over them.

    Args:
        key: of the program.
        times: calls in one.
        machine: to plan for.
        fresh: indices of arguments that are new at each call: those of all calls come together.
        states: indices of results that the next call takes; the others leave together.
    """

    def change(script: Script) -> Script:
        larger = looped(script.programs[key], times, machine, fresh=fresh, states=states)
        own = [call for call in script.calls if isinstance(call, Dispatch) and call.key == key and call.group is None]
        stacked = {row[index] for call in own for row in call.arguments for index in fresh}
        calls = [
            call._replace(size_bytes=call.size_bytes * times) if isinstance(call, Put) and call.value in stacked else call
            for call in script.calls
        ]
        return in_fewer_calls(key, larger, times)(replace(script, calls=calls))

    return change


def looped(program: Program, times: int, machine: MachineSpec, *, fresh: Collection[int], states: Collection[int]) -> Program:
    """The program with the loop. Args: as for `in_loops`.

    Raises: ImpossibleEditError if it has parts that take as long as the data say, or an array has no shape.
    """
    if program.sites:
        raise ImpossibleEditError(f"how long a call of {program.name} takes depends on its data")
    taken = [argument.shape for argument in program.arguments if argument.index in fresh]
    given = [result.shape for result in program.results if result.index not in states]
    frame = lower(parse_hlo(_text(taken, given, times)), machine, name="loop", num_ipus=program.num_ipus)
    [loop] = [node for node in frame.body.nodes if isinstance(node, Loop)]
    before = tuple(node for node in frame.body.nodes if node is not loop)
    nodes = (*before, replace(loop, body=Series(nodes=(*loop.body.nodes, *program.body.nodes))))
    more = _code_bytes(nodes) - _code_bytes(program.body.nodes)
    return replace(
        program,
        body=Series(nodes=nodes),
        arguments=tuple(replace(a, size_bytes=a.size_bytes * times) if a.index in fresh else a for a in program.arguments),
        results=tuple(r if r.index in states else replace(r, size_bytes=r.size_bytes * times) for r in program.results),
        memory=replace(program.memory, code_bytes=program.memory.code_bytes + more),
    )


def _code_bytes(nodes: Sequence[Node]) -> int:
    """Bytes per tile of the code that runs some nodes; steps that are alike share theirs."""
    return sum(code_bytes(nodes, streams=0).values())


def _text(taken: Sequence[str], given: Sequence[str], times: int) -> str:
    """The HLO of a loop that cuts arrays and fills others, and does nothing else."""
    rows: list[tuple[str, str, str]] = []  # dtype, dimensions, those of one trip
    for shape in map(array_of, (*taken, *given)):
        if shape is None:
            raise ImpossibleEditError("an array has no shape")
        rows.append((shape.dtype, ",".join(map(str, (times, *shape.dims))), ",".join(map(str, (1, *shape.dims)))))
    whole = [f"{dtype}[{dims}]" for dtype, dims, _ in rows]
    parts = [f"{dtype}[{dims}]" for dtype, _, dims in rows[len(taken) :]]
    state = f"({', '.join(['s32[]', *whole, *parts])})"
    count = len(rows)
    body = [f"  %a{n} = {shape} get-tuple-element({state} %b), index={n + 1}" for n, shape in enumerate([*whole, *parts])]
    for n, (dtype, dims, one) in enumerate(rows):
        at = ", ".join(["s32[] %i", *["s32[] %zero"] * dims.count(",")])
        if n < len(taken):
            body.append(f"  %dynamic_slice{n} = {dtype}[{one}] dynamic-slice({whole[n]} %a{n}, {at}), dynamic_slice_sizes={{{one}}}")
        else:
            part = count + n - len(taken)
            body.append(f"  %update{n} = {whole[n]} dynamic-update-slice({whole[n]} %a{n}, {dtype}[{one}] %a{part}, {at})")
    kept = [f"{whole[n]} %{'a' if n < len(taken) else 'update'}{n}" for n in range(count)]
    kept += [f"{shape} %a{count + n}" for n, shape in enumerate(parts)]
    entry = [f"  %p{n} = {shape} parameter({n})" for n, shape in enumerate([*whole[: len(taken)], *parts])]
    for n in range(len(taken), count):
        dtype = rows[n][0]
        entry += [f"  %nothing{n} = {dtype}[] constant({'false' if dtype == 'pred' else '0'})"]
        entry += [f"  %empty{n} = {whole[n]} broadcast({dtype}[] %nothing{n}), dimensions={{}}"]
    begin = [f"{whole[n]} %{f'p{n}' if n < len(taken) else f'empty{n}'}" for n in range(count)]
    begin += [f"{shape} %p{len(taken) + n}" for n, shape in enumerate(parts)]
    trips = f'backend_config={{"known_trip_count":{{"n":"{times}"}}}}'
    return "\n".join(
        [
            "HloModule loop",
            "",
            f"%condition (c: {state}) -> pred[] {{",
            f"  %c = {state} parameter(0)",
            f"  %ci = s32[] get-tuple-element({state} %c), index=0",
            f"  %n = s32[] constant({times})",
            "  ROOT %lt = pred[] compare(s32[] %ci, s32[] %n), direction=LT",
            "}",
            "",
            f"%body (b: {state}) -> {state} {{",
            f"  %b = {state} parameter(0)",
            f"  %i = s32[] get-tuple-element({state} %b), index=0",
            "  %zero = s32[] constant(0)",
            "  %one = s32[] constant(1)",
            *body,
            "  %next = s32[] add(s32[] %i, s32[] %one)",
            f"  ROOT %out = {state} tuple({', '.join(['s32[] %next', *kept])})",
            "}",
            "",
            f"ENTRY %main ({', '.join(f'p{n}: {shape}' for n, shape in enumerate([*whole[: len(taken)], *parts]))}) -> {state} {{",
            *entry,
            "  %first = s32[] constant(0)",
            "  %start = s32[] copy(s32[] %first)",  # XLA does so, because the loop changes it
            f"  %init = {state} tuple({', '.join(['s32[] %start', *begin])})",
            f"  ROOT %loop = {state} while({state} %init), condition=%condition, body=%body, {trips}",
            "}",
            "",
        ]
    )
