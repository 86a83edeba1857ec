"""Plans programs for any machine, without a client of it: XLA:CPU partitions the program, and nothing computes values."""

from typing import Any, Final

from tilestep.machine.spec import MachineSpec
from tilestep.messages import shown
from tilestep.options import PlanOptions
from tilestep.pjrt.jax_private import compat, lowering, mlir
from tilestep.pjrt.jax_private.compat import analysis_host
from tilestep.pjrt.programs import callbacks
from tilestep.pjrt.programs.analysis import partitioned_hlo
from tilestep.pjrt.programs.sizes import require_countable
from tilestep.plan.cache import PlanCache
from tilestep.plan.steps import Program

PLANS: Final = PlanCache()


def plan_for(machine: MachineSpec, program: Any, *, resident: bool = False, options: PlanOptions | None = None) -> Program:
    """Plans a program for the first IPUs of a machine. It may not fit: `plan.check_fits` says so.

    A loop whose end depends on data counts once, and a branch as its dearest arm, because nothing counts them. The plan's assumptions
    say so.

    Args:
        machine: that it is planned for.
        program: a jax.stages.Lowered, for platform `ipu`: `jax.jit(f).trace(...).lower(lowering_platforms=("ipu",))`.
        resident: whether its arguments stay in the tiles between runs. Otherwise they come from the host's memory.
        options: of the plan.

    Raises:
        TileMemoryError: if an array of the program has 2^63 bytes or more, so that not even its plan can be made.
        ValueError: if the program wants more IPUs than there are.
        XLA's own exception for a program that XLA cannot compile.
    """
    options = PlanOptions() if options is None else options
    options.require_tiles_left(machine.ipu.num_tiles)
    code = lowering.code_of(program)
    if b"lapack_" in code:
        compat.load_lapack()
    with compat.make_context() as context:
        context.allow_unregistered_dialects = True
        module = compat.parse_program(code, context)
        mlir.drop_tokens(module)
        name = mlir.module_name(module)
        replicas, partitions = mlir.num_devices(module)
        count = replicas * partitions
        if count > machine.num_ipus:
            raise ValueError(f"program {shown(name)} is for {count} IPUs; {machine.name} has {machine.num_ipus}")
        require_countable(module, count, machine.ipu)
        if resident:
            mlir.keep_arguments(module)
        functions = callbacks.renumber(module)
        host = analysis_host(count)
        settings = lowering.host_options(replicas, partitions).SerializeAsString()
        hlo = partitioned_hlo(host, module, host.devices()[:count], settings, functions)
    return PLANS.plan(compat.hlo_text(hlo), machine, name=name, num_ipus=count, options=options)
