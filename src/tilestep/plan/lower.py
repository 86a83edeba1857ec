"""HLO into a planned program: a tree of supersteps with their costs, arguments and results, memory."""

from __future__ import annotations

from collections.abc import Sequence as AbstractSequence
from dataclasses import replace

from tilestep.errors import HloError
from tilestep.machine.spec import IpuSpec, MachineSpec
from tilestep.options import PlanOptions
from tilestep.plan.block import Block
from tilestep.plan.code import code_bytes, fixed_bytes
from tilestep.plan.liveness import tile_memory
from tilestep.plan.mapping import ANYWHERE, Leaf, Value
from tilestep.plan.steps import Argument, Branch, Loop, Node, Program, Result, Sequence, Superstep
from tilestep.plan.walk import Walk
from tilestep.program.cleanup import clean
from tilestep.program.hlo import HloModule

DEFAULTS = PlanOptions()
HOST_SPACE = 5  # XLA's memory space for pinned_host and unpinned_host


def lower(module: HloModule, machine: MachineSpec, *, name: str, num_ipus: int, options: PlanOptions = DEFAULTS) -> Program:
    """Plans a program for `num_ipus` IPUs of a machine.

    Args:
        module: per device, after XLA's partitioner, as `parse_hlo` gives it.
        name: of the program, for reports.
        options: how its matmuls and convolutions may be planned.
    Returns: the steps of one IPU, arguments, results and memory; what had no estimator is listed in `fallback_ops`.
    Raises: HloError if the module is not well formed; SettingsError if the I/O tiles leave none to compute on.
    """
    module = clean(module)
    ipu = compute_tiles(machine.ipu, options)
    walk = Walk(module=module, ipu=ipu, num_ipus=num_ipus, options=options)
    spaces = module.argument_spaces or (0,) * len(module.entry.parameters)
    values: list[Value] = []
    for parameter, space in zip(module.entry.parameters, spaces, strict=True):
        if parameter.is_tuple:
            raise HloError(f"line {parameter.line}: argument {parameter.literal} is a tuple, which JAX never passes")
        buffer = walk.buffers.new(_argument_name(parameter.op_name, parameter.literal), parameter.shape.size_bytes)
        if space == HOST_SPACE:
            walk.pinned.host.add(buffer)
        values.append((Leaf(buffer, ANYWHERE),))
    block = walk.block(module.entry, values)
    arguments = _arguments(module, spaces, [walk.layouts.get(value[0].buffer, "") for value in values])
    results = _results(module)
    walk.deliver(block, _places(results, block, values, walk))
    owned = {value[0].buffer for value in values}
    for result in results:
        buffer = block.root[result.index].buffer
        if result.argument is not None and buffer not in owned:
            walk.buffers.share(buffer, values[result.argument][0].buffer)
    body = Sequence(nodes=tuple(block.nodes))
    streams = sum(not argument.on_host for argument in arguments)  # resident ones come once
    streams += sum(result.argument is None and not result.on_host for result in results)
    memory = tile_memory(
        block.moments,
        walk.buffers,
        code=code_bytes(block.nodes, streams=streams),
        fixed=fixed_bytes(ipu),
        resident=[values[argument.index][0].buffer for argument in arguments if argument.result is not None],
        arguments=[values[argument.index][0].buffer for argument in arguments if argument.result is None],
        constants=walk.constants,
        results=[leaf.buffer for leaf in block.root],
        on_host=sorted(walk.pinned.host),
    )
    return Program(
        name=name,
        num_ipus=num_ipus,
        body=body,
        arguments=arguments,
        results=results,
        memory=memory,
        num_io_tiles=options.num_io_tiles,
        fallback_ops=tuple(sorted(walk.fallbacks)),
        assumptions=tuple(sorted(walk.assumptions)),
        flops=_flops(body),
        parked_bytes=_parked_bytes(walk, [value[0].buffer for value in values], [leaf.buffer for leaf in block.root]),
    )


def compute_tiles(ipu: IpuSpec, options: PlanOptions) -> IpuSpec:
    """What is left of an IPU to compute on and to hold values when its I/O tiles are set aside.

    Raises: SettingsError if none is left.
    """
    options.require_tiles_left(ipu.num_tiles)
    return replace(ipu, num_tiles=ipu.num_tiles - options.num_io_tiles)


def _places(results: AbstractSequence[Result], block: Block, arguments: AbstractSequence[Value], walk: Walk) -> list[int | None]:
    """The buffer in pinned_host of each result: that of the argument whose place it takes, its own, or a new one; None: in the tiles."""
    taken = {value[0].buffer for value in arguments}
    places: list[int | None] = []
    for result, leaf in zip(results, block.root, strict=True):
        if result.argument is not None:
            (place,) = arguments[result.argument]
            places.append(place.buffer if place.buffer in walk.pinned.host else None)
            continue
        if not result.on_host:
            places.append(None)
            continue
        buffer = leaf.buffer
        if buffer not in walk.pinned.host or buffer in taken:
            buffer = walk.buffers.new(f"result {result.index}", result.size_bytes)
            walk.pinned.host.add(buffer)
        taken.add(buffer)
        places.append(buffer)
    return places


def _parked_bytes(walk: Walk, arguments: AbstractSequence[int], results: AbstractSequence[int]) -> int:
    """Of values that are in pinned_host during a run only. Poplar's remote buffers never share memory, so they add up."""
    alone = walk.pinned.host - walk.pinned.merged - {*arguments, *results}
    return sum(walk.buffers.sizes[buffer] for buffer in alone)


def _argument_name(op_name: str, number: str) -> str:
    return op_name or f"arg{number}"


def _arguments(module: HloModule, spaces: AbstractSequence[int], layouts: AbstractSequence[str]) -> tuple[Argument, ...]:
    taken_over = {argument: result for result, argument in module.input_output_aliases.items()}
    return tuple(
        Argument(
            index=index,
            name=_argument_name(parameter.op_name, parameter.literal),
            shape=str(parameter.shape),
            size_bytes=parameter.shape.size_bytes,
            result=taken_over.get(index),
            on_host=space == HOST_SPACE,
            layout=layouts[index],
        )
        for index, (parameter, space) in enumerate(zip(module.entry.parameters, spaces, strict=True))
    )


def _results(module: HloModule) -> tuple[Result, ...]:
    leaves = module.entry.root.leaves
    spaces = module.result_spaces or (0,) * len(leaves)
    return tuple(
        Result(
            index=index,
            shape=str(leaf),
            size_bytes=leaf.size_bytes,
            argument=module.input_output_aliases.get(index),
            on_host=space == HOST_SPACE,
        )
        for index, (leaf, space) in enumerate(zip(leaves, spaces, strict=True))
    )


def _flops(node: Node) -> int:
    """Of one run; a loop of unknown length counts once, a branch as its dearest arm."""
    match node:
        case Sequence(nodes=nodes):
            return sum(map(_flops, nodes))
        case Loop(body=body, trips=trips):
            return (1 if trips is None else trips) * _flops(body)
        case Branch(arms=arms):
            return max(map(_flops, arms), default=0)
        case Superstep(flops=flops):
            return flops
        case _:
            return 0
