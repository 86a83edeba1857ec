"""The emulated machine of a session: its programs are planned for it, and their calls are played on it when somebody asks for a figure.

A session whose device has a machine (`DeviceInfo.machine()` is not None) makes one emulation, and tells it what it does:

    options = emulation_options(user_options.engineOptions, PlanOptions(num_io_tiles=user_options.numIOTiles, fusion="none"))
    emulation = Emulation(device.machine(), name="training", options=options)      # when the session is made

    # prepareDevice: for each program that the session will call. The arguments are those of the jitted function, or their shapes.
    emulation.prepare(
        "run",
        jitted,                             # jax.jit(f) with f(state, inputs) -> (state, anchors)
        (state, inputs),                    # trees of arrays or jax.ShapeDtypeStruct
        kept=[Kept(argument=0, result=0)],  # result 0 replaces argument 0; result=None: an argument that is only read
        in_slices=batches_per_step * accumulation_factor > 1,  # the program loops over the first axes of what comes from the host
    )                                       # OutOfMemoryException if it does not fit

    emulation.weights_from_host()           # weightsFromHost: all that is kept; or weights_from_host(lambda path: ...) for some
    emulation.ran("run", name="a step")     # run(stepio, "a step"): a note of a microsecond; several programs: ran("microbatch", "update")
    emulation.weights_to_host()             # weightsToHost

    emulation.cycles()                      # getCycleCount(): of the last call; inner_cycles(ipu): "inner_ipu_0"
    emulation.report()                      # getReport()
    emulation.summary()                     # getSummaryReport(); reset_profile() behind it if resetProfile is set
    emulation.close()                       # writes autoReport's files; without it they are written when the session is gone

Nothing else is needed: inputs come and anchors leave with each call, and values never meet the machine. What is kept need not be donated by
the jitted function. An array is known by the name of its `Kept` and its path in the tree, such as "state['weights']['w']": programs of one
session that keep arrays of equal names share them.

A session of several stages has a `StagedEmulation` with the same methods. What it runs is one pipeline, which each call runs dry:

    emulation = StagedEmulation(device.machine(), name="training", options=options)
    emulation.prepare(staged_program(plan, user_options, optimizer))

The process need not use platform `ipu`. A session emulates one machine of any number of IPUs and tiles, and a process has any number of
sessions. A program runs on the first IPUs of the machine. One over several of them is jitted over a `jax.sharding.Mesh` of the process's
devices, or over an AbstractMesh.
"""

from __future__ import annotations

from tilestep.popart.session.emulation.anchors_advice import returned_of as returned_of
from tilestep.popart.session.emulation.arguments import Kept as Kept
from tilestep.popart.session.emulation.emulated import Emulation as Emulation
from tilestep.popart.session.emulation.options import EmulationOptions as EmulationOptions
from tilestep.popart.session.emulation.options import emulation_options as emulation_options
from tilestep.popart.session.emulation.staged import StagedEmulation as StagedEmulation
from tilestep.popart.session.emulation.staged_options import staged_program as staged_program
from tilestep.report.reader import Report as Report
