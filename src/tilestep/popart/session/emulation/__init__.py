"""The emulated machine of a session: it runs the session's pipeline dry, and plays its calls when somebody asks for a figure.

A session whose device has a machine (`DeviceInfo.machine()` is not None) makes one emulation, and tells it what it does:

    options = emulation_options(user_options.engineOptions, PlanOptions(num_io_tiles=user_options.numIOTiles, fusion="none"))
    emulation = Emulation(device.machine(), name="training", options=options)      # when the session is made
    emulation.prepare(emulated_program(plan, user_options, optimizer))             # prepareDevice: OutOfMemoryException if it does not fit

    emulation.weights_from_host()           # weightsFromHost: all that stays on the device
    emulation.ran(name="a step")            # run(stepio, "a step"): a note of a microsecond
    emulation.weights_to_host()             # weightsToHost

    emulation.cycles()                      # getCycleCount(): of the last call; inner_cycles(ipu): "inner_ipu_0"
    emulation.report()                      # getReport()
    emulation.summary()                     # getSummaryReport(); reset_profile() behind it if resetProfile is set
    emulation.close()                       # writes autoReport's files; without it they are written when the process ends

A session without stages is a pipeline of one. Nothing else is needed: inputs come and anchors leave with each microbatch, and values never
meet the machine. The process need not use platform `ipu`. A session emulates one machine of any number of IPUs and tiles, and a process has
any number of sessions.
"""

from tilestep.figures.reader import Report as Report
from tilestep.popart.session.emulation.notes import EmulationOptions as EmulationOptions
from tilestep.popart.session.emulation.notes import emulation_options as emulation_options
from tilestep.popart.session.emulation.program import emulated_program as emulated_program
from tilestep.popart.session.emulation.session_machine import Emulation as Emulation
