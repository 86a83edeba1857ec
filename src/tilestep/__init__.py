"""tilestep: run any JAX program on an emulated IPU, with real values and the time and memory it would have taken.

The platform `ipu` is found by JAX itself once tilestep is installed. Importing tilestep adds JAX's configuration options
(`jax_ipu_*`) and starts no device.
"""

from importlib.metadata import version as _version
from typing import TYPE_CHECKING

from tilestep import hints as hints
from tilestep.errors import HloError as HloError
from tilestep.errors import LoopInterrupt as LoopInterrupt
from tilestep.errors import QueueError as QueueError
from tilestep.errors import RecordingError as RecordingError
from tilestep.errors import SettingsError as SettingsError
from tilestep.errors import SpecError as SpecError
from tilestep.errors import StoredError as StoredError
from tilestep.errors import StreamingMemoryError as StreamingMemoryError
from tilestep.errors import TileMemoryError as TileMemoryError
from tilestep.errors import TilestepError as TilestepError
from tilestep.errors import UnsupportedError as UnsupportedError
from tilestep.profiling.profiles import dry_run as dry_run
from tilestep.profiling.profiles import profile as profile
from tilestep.settings import define_jax_options as _define_jax_options
from tilestep.tracing.process import start_if_asked as _start_trace_if_asked
from tilestep.tracing.series import heat_map as heat_map
from tilestep.tracing.series import series as series
from tilestep.tracing.tracepoints import event as event
from tilestep.tracing.tracepoints import tracepoint as tracepoint

if TYPE_CHECKING:
    from tilestep.figures.reader import open_report as open_report
    from tilestep.planner.door import plan_training as plan_training
    from tilestep.planner.plans import TrainingPlan as TrainingPlan
    from tilestep.planner.plans import TrainingPlans as TrainingPlans
    from tilestep.views.profile import Profile as Profile

__version__ = _version("tilestep")

_define_jax_options()
_start_trace_if_asked()


def __getattr__(name: str) -> object:
    if name == "Profile":  # brings the tables with it; a program that never profiles does without
        from tilestep.views.profile import Profile

        return Profile
    if name == "open_report":
        from tilestep.figures.reader import open_report

        return open_report
    if name == "plan_training":  # it brings the emulator
        from tilestep.planner.door import plan_training

        return plan_training
    if name == "TrainingPlan" or name == "TrainingPlans":
        from tilestep.planner import plans

        return getattr(plans, name)
    raise AttributeError(f"module 'tilestep' has no attribute {name!r}")
