"""Turns HLO into a planned program: a tree of priced supersteps, with arguments, results and memory."""

from collections.abc import Sequence
from dataclasses import replace

from tilestep.errors import HloError
from tilestep.machine.spec import IpuSpec, MachineSpec
from tilestep.options import PlanOptions
from tilestep.plan.block import Lowered
from tilestep.plan.frames import Frames
from tilestep.plan.lowering import Lowering
from tilestep.plan.mapping import ANYWHERE, MappedArray, Value
from tilestep.plan.memory.code import code_bytes, fixed_bytes
from tilestep.plan.memory.liveness import Liveness, liveness, tile_memory
from tilestep.plan.memory.timeline import EndBuffers, Occupancy, occupancy
from tilestep.plan.passes import PASSES
from tilestep.plan.steps import Argument, Branch, Loop, Node, Program, Result, Series, Superstep
from tilestep.program.hlo import HloModule
from tilestep.program.inline import inline_calls
from tilestep.program.passes import passed
from tilestep.program.sink_conversions import sink_converts

DEFAULTS = PlanOptions()
HOST_SPACE = 5  # XLA's memory space for pinned_host and unpinned_host


def lower(module: HloModule, machine: MachineSpec, *, name: str, num_ipus: int, options: PlanOptions = DEFAULTS) -> Program:
    """Plans a program for `num_ipus` IPUs of a machine.

    Args:
        module: the program of one device after XLA's partitioner, as `parse_hlo` returns it.
        machine: the machine to plan for.
        name: of the program, for reports.
        num_ipus: IPUs that run the program together.
        options: how to plan matmuls and convolutions, and how many tiles to keep for I/O.

    Returns:
        The steps of one IPU, with arguments, results and memory (bytes of the fullest tile). `fallback_ops` lists the operations
        without an estimator.

    Raises:
        HloError: if the module is not well formed.
        SettingsError: if the I/O tiles leave no tile to compute on.
    """
    return _lowered(module, machine, name, num_ipus, options)[0]


def lower_in_detail(
    module: HloModule, machine: MachineSpec, *, name: str, num_ipus: int, options: PlanOptions = DEFAULTS
) -> tuple[Program, Liveness]:
    """The same as `lower`, and what each value takes of the tiles' memory, and when."""
    program, held, frames = _lowered(module, machine, name, num_ipus, options)
    return program, liveness(held, program.body, frames.number)


def _lowered(module: HloModule, machine: MachineSpec, name: str, num_ipus: int, options: PlanOptions) -> tuple[Program, Occupancy, Frames]:
    """The program, what takes memory in it, and the frames that both use."""
    module = passed(sink_converts(inline_calls(module)), PASSES, clusters=options.fusion != "none")
    ipu = compute_tiles(machine.ipu, options)
    lowering = Lowering(module=module, ipu=ipu, num_ipus=num_ipus, options=options)
    spaces = module.argument_spaces or (0,) * len(module.entry.parameters)
    values: list[Value] = []
    for parameter, space in zip(module.entry.parameters, spaces, strict=True):
        if parameter.is_tuple:
            raise HloError(f"line {parameter.line}: argument {parameter.literal} is a tuple, which JAX never passes")
        buffer = lowering.buffers.new(_argument_name(parameter.op_name, parameter.literal), parameter.shape.size_bytes)
        if space == HOST_SPACE:
            lowering.pinned.host.add(buffer)
        values.append((MappedArray(buffer, ANYWHERE),))
    donated = {result: (argument, 0) for result, argument in module.input_output_aliases.items()}
    block = lowering.block(module.entry, values, donated)
    arguments = _arguments(module, spaces, [lowering.layouts.get(value[0].buffer, "") for value in values])
    results = _results(module)
    lowering.deliver(block, _host_buffers(results, block, values, lowering))
    owned = {value[0].buffer for value in values}
    for result in results:
        buffer = block.root[result.index].buffer
        if result.argument is not None and buffer not in owned:
            lowering.buffers.share(buffer, values[result.argument][0].buffer)
    body = Series(nodes=tuple(block.nodes))
    streams = sum(not argument.on_host for argument in arguments)
    # A resident argument comes once, and the host can read it afterwards: PopART's program `weightsToHost` has a stream for each variable.
    streams += sum(argument.result is not None and not argument.on_host for argument in arguments)
    streams += sum(result.argument is None and not result.on_host for result in results)
    held = occupancy(
        block.moments,
        lowering.buffers,
        EndBuffers(
            resident=[values[argument.index][0].buffer for argument in arguments if argument.result is not None],
            arguments=[values[argument.index][0].buffer for argument in arguments if argument.result is None],
            constants=lowering.constants,
            results=[leaf.buffer for leaf in block.root],
        ),
        code=code_bytes(block.nodes, streams=streams),
        fixed=fixed_bytes(ipu),
        on_host=sorted(lowering.pinned.host),
    )
    frames = lowering.frames
    for extent in held.extents:
        if lowering.buffers.layouts[extent.buffer].tiles:
            frames.number(lowering.buffers.frames[extent.buffer])
    program = Program(
        name=name,
        num_ipus=num_ipus,
        body=body,
        arguments=arguments,
        results=results,
        memory=tile_memory(held),
        num_io_tiles=options.num_io_tiles,
        fallback_ops=tuple(sorted(lowering.fallbacks)),
        assumptions=tuple(sorted(lowering.assumptions)),
        flops=_flops(body),
        parked_bytes=_parked_bytes(lowering, [value[0].buffer for value in values], [leaf.buffer for leaf in block.root]),
        frames=tuple(frames.kept),
    )
    return program, held, frames


def compute_tiles(ipu: IpuSpec, options: PlanOptions) -> IpuSpec:
    """The IPU without its I/O tiles: the tiles that compute and hold values.

    Raises: SettingsError if no tile is left.
    """
    options.require_tiles_left(ipu.num_tiles)
    return replace(ipu, num_tiles=ipu.num_tiles - options.num_io_tiles)


def _host_buffers(results: Sequence[Result], block: Lowered, arguments: Sequence[Value], lowering: Lowering) -> list[int | None]:
    """The buffer in pinned_host of each result: of the argument that it replaces, its own, or a new one; None: it is in the tiles."""
    taken = {value[0].buffer for value in arguments}
    buffers: list[int | None] = []
    for result, leaf in zip(results, block.root, strict=True):
        if result.argument is not None:
            (leaf,) = arguments[result.argument]
            buffers.append(leaf.buffer if leaf.buffer in lowering.pinned.host else None)
            continue
        if not result.on_host:
            buffers.append(None)
            continue
        buffer = leaf.buffer
        if buffer not in lowering.pinned.host or buffer in taken:
            buffer = lowering.buffers.new(f"result {result.index}", result.size_bytes)
            lowering.pinned.host.add(buffer)
        taken.add(buffer)
        buffers.append(buffer)
    return buffers


def _parked_bytes(lowering: Lowering, arguments: Sequence[int], results: Sequence[int]) -> int:
    """Bytes in pinned_host during a run only. They add up, because Poplar's remote buffers never share memory."""
    alone = lowering.pinned.host - lowering.pinned.merged - {*arguments, *results}
    return sum(lowering.buffers.sizes[buffer] for buffer in alone)


def _argument_name(op_name: str, number: str) -> str:
    return op_name or f"arg{number}"


def _arguments(module: HloModule, spaces: Sequence[int], layouts: Sequence[str]) -> tuple[Argument, ...]:
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
    """Floating-point operations of one run. A loop of unknown length counts once, a branch as its dearest arm."""
    match node:
        case Series(nodes=nodes):
            return sum(map(_flops, nodes))
        case Loop(body=body, trips=trips):
            return (1 if trips is None else trips) * _flops(body)
        case Branch(arms=arms):
            return max(map(_flops, arms), default=0)
        case Superstep(flops=flops):
            return flops
        case _:
            return 0
