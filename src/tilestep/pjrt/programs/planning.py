"""Plans programs for any machine, without a client of it: XLA:CPU partitions the program, and nothing computes values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tilestep.machine.spec import MachineSpec
from tilestep.messages import shown
from tilestep.options import PlanOptions
from tilestep.pjrt.jax_private import compat, lowered, mlir, signature
from tilestep.pjrt.jax_private.beside import analysis_host
from tilestep.pjrt.programs import callbacks
from tilestep.pjrt.programs.analysis import partitioned_hlo
from tilestep.pjrt.programs.sizes import require_countable
from tilestep.pjrt.running.program_source import ProgramSource
from tilestep.plan.cache import PlanCache
from tilestep.plan.liveness import check_fits
from tilestep.plan.steps import Program
from tilestep.plan.streaming import check_streaming_memory

PLANS: Final = PlanCache()  # of all machines


@dataclass(frozen=True, kw_only=True)
class Residence:
    """Where a program has its arguments and results. All others come from the host's memory, and go there.

    Attributes:
        kept: flat argument that stays in the tiles between runs -> the flat result that replaces it; None: it stays as it is.
        in_host_memory: whether all that is not kept is in pinned_host, so that a loop has one part of it in the tiles at a time.
    """

    kept: Mapping[int, int | None] = field(default_factory=dict[int, int | None])
    in_host_memory: bool = False


@dataclass(frozen=True, kw_only=True)
class Planned:
    """A program as it was planned for a machine.

    Attributes:
        program: its steps, and its memory.
        source: what it was planned from.
        arguments: the number of the flat argument behind each of the program's: those that it does not use are left out.
    """

    program: Program
    source: ProgramSource
    arguments: tuple[int, ...]

    @property
    def ipus(self) -> tuple[int, ...]:
        """The first IPUs of the machine, which it is planned for."""
        return tuple(range(self.program.num_ipus))

    def require_fits(self) -> None:
        """Raises: TileMemoryError, StreamingMemoryError if it does not fit into its machine."""
        check_fits(self.program, self.source.machine)
        check_streaming_memory(self.program, self.source.machine, self.ipus)


def plan_for(
    machine: MachineSpec,
    program: Any,
    *,
    name: str = "",
    residence: Residence | None = None,
    options: PlanOptions | None = None,
) -> Planned:
    """Plans a program for the first IPUs of a machine. It may not fit: `Planned.require_fits` says so.

    A loop whose end depends on data counts once, and a branch as its dearest arm, because nothing counts them. The plan's assumptions
    say so.

    Args:
        machine: that it is planned for.
        program: a jax.stages.Lowered, for platform `ipu`: `jax.jit(f).trace(...).lower(lowering_platforms=("ipu",))`.
        name: of the program; '' is the function's.
        residence: where it has its arguments and results.
        options: of the plan.

    Raises:
        TileMemoryError: if an array of the program has 2^63 bytes or more, so that not even its plan can be made.
        ValueError: if the program wants more IPUs than there are, or keeps an argument as a result that it does not have.
        XLA's own exception for a program that XLA cannot compile.
    """
    options = PlanOptions() if options is None else options
    options.require_tiles_left(machine.ipu.num_tiles)
    code, used = lowered.code_of(program), lowered.used_arguments(program)
    if b"lapack_" in code:
        compat.load_lapack()
    with compat.make_context() as context:
        context.allow_unregistered_dialects = True
        module = compat.parse_program(code, context)
        signature.drop_tokens(module)
        name = name or mlir.module_name(module)
        replicas, partitions = mlir.num_devices(module)
        count = replicas * partitions
        if count > machine.num_ipus:
            raise ValueError(f"program {shown(name)} is for {count} IPUs; {machine.name} has {machine.num_ipus}")
        require_countable(module, count, machine.ipu)
        used = _settle(module, used, residence or Residence(), name)
        functions = callbacks.renumber(module)
        host = analysis_host(count)
        settings = lowered.host_options(replicas, partitions).SerializeAsString()
        hlo = partitioned_hlo(host, module, host.devices()[:count], settings, functions)
        code = mlir.bytecode(module)
    planned = PLANS.plan(compat.hlo_text(hlo), machine, name=name, num_ipus=count, options=options)
    source = ProgramSource(
        name=name, code=code, num_replicas=replicas, num_partitions=partitions, hlo=hlo, options=options, machine=machine
    )
    return Planned(program=planned, source=source, arguments=used)


def _settle(module: Any, used: tuple[int, ...], residence: Residence, name: str) -> tuple[int, ...]:
    """Says in the module where its arguments and results are. Returns: the flat arguments that it has then."""
    kept = residence.kept
    count = signature.num_results(module)
    if wrong := [result for result in kept.values() if result is not None and not 0 <= result < count]:
        raise ValueError(f"program {shown(name)} keeps an argument as result {wrong[0]}: it has results 0 to {count - 1}")
    overwritten = [(argument, result) for argument, result in kept.items() if argument not in used and result is not None]
    signature.add_arguments(module, [result for _, result in overwritten])
    used = (*used, *(argument for argument, _ in overwritten))
    signature.keep_arguments(module, {number: kept[argument] for number, argument in enumerate(used) if argument in kept})
    if residence.in_host_memory:
        signature.place_on_host(
            module,
            [number for number, argument in enumerate(used) if argument not in kept],
            sorted(set(range(count)) - set(kept.values())),
        )
    return used
